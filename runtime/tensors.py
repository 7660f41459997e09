"""Tensors in and out: NumPy arrays and tensors of GPU libraries, checked and bound (J1, J3)."""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.size_expr import Dim
from polyc.runtime import cuda_array, dlpack, torch_tensors
from polyc.runtime.views import (
    ELEMENT_BYTES,
    LIBRARY_NAMES,
    TensorView,
    in_elements,
    row_major,
)

if TYPE_CHECKING:
    import numpy.typing as npt

_PLAIN = (np.ndarray, np.memmap, np.matrix)
"""Arrays whose elements are what their memory holds."""


def numpy_dtype(element: str) -> np.dtype[Any]:
    """NumPy's type of an element type of signatures, as ``f16``; bf16 is ml_dtypes'."""
    if element == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(LIBRARY_NAMES[element])


def view(tensor: object, name: str, stream: int | None = 0, output: bool = False) -> TensorView:
    """The view of a NumPy array, a DLPack tensor or one with ``__cuda_array_interface__``.

    ``name`` is the argument's name.  ``stream`` is the one that a launch will be on: where the
    tensor's library orders streams, it makes that one wait; with None the caller orders them.  An
    ``output`` will be written.

    Raises PolycError: ``BadArgument`` for what is no such tensor, or has a mask or another
    meaning that its memory does not show, ``TypeMismatch`` for another byte order,
    ``NotContiguous`` for elements that lie parts of an element apart, ``DeviceMismatch``.
    """
    if isinstance(tensor, np.ndarray):
        return _of_numpy(cast("npt.NDArray[Any]", tensor), name)
    if torch_tensors.is_tensor(tensor):
        torch_tensors.check(tensor, name)
        # Its stream is known: the launch is on it, or waits for it.
        with torch_tensors.exporting(tensor):
            found = dlpack.view(tensor, name, None, output)
        if found.gpu is None:
            return replace(found, pinned=torch_tensors.is_pinned(tensor))
        return replace(found, stream=torch_tensors.current_stream(found.gpu))
    if dlpack.speaks(tensor):
        found = dlpack.view(tensor, name, stream, output)
        at = None if found.gpu is None else cuda_array.stream_of(tensor)
        return replace(found, stream=at)
    if cuda_array.speaks(tensor):
        return cuda_array.view(tensor, name)
    raise PolycError(
        "BadArgument",
        f"{name} is a {type(tensor).__name__}; pass a NumPy array or a tensor with __dlpack__ or "
        "__cuda_array_interface__",
    )


def as_numpy(tensor: TensorView) -> npt.NDArray[Any]:
    """A dense tensor in host memory as an array of NumPy's, which shares its memory."""
    kind = numpy_dtype(tensor.element)
    if not tensor.size:
        return np.empty(tensor.shape, kind)
    memory = (ctypes.c_byte * tensor.bytes).from_address(tensor.pointer)
    flat: npt.NDArray[Any] = np.frombuffer(cast("Any", memory), kind)
    return flat.reshape(tensor.shape)


def dense(tensor: object, name: str) -> TensorView:
    """The view of a tensor that keeps what it holds, such as weights: row-major.

    An array of NumPy's in another order is copied, and a number of NumPy's is one of rank 0.
    Raises PolycError as ``view`` does, and ``NotContiguous`` for tensors of other libraries.
    """
    if isinstance(tensor, np.generic) or type(tensor) in _PLAIN:
        tensor = np.asarray(tensor, order="C")
    found = view(tensor, name, None)
    check_dense(found, name, given=tensor)
    return found


def _of_numpy(array: npt.NDArray[Any], name: str) -> TensorView:
    masked: Any = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise PolycError(
            "BadArgument",
            f"{name} is a masked array, and a kernel does not read masks; "
            f"pass {name}.filled(value)",
        )
    if type(array) not in _PLAIN:
        raise PolycError(
            "BadArgument",
            f"{name} is a {type(array).__module__}.{type(array).__qualname__}, whose elements may "
            f"mean more than its memory holds; pass numpy.asarray({name})",
        )
    element = cuda_array.element_of(array.dtype, name)
    return TensorView(
        array.ctypes.data,
        array.shape,
        in_elements(name, array.shape, array.strides, array.itemsize),
        element,
        None,
        array,
        readonly=not array.flags.writeable,
    )


def check(
    tensor: TensorView,
    name: str,
    element: str,
    rank: int,
    align: int = 0,
    output: bool = False,
    given: object = None,
    rows: bool = False,
) -> None:
    """Check a tensor, which is the view of what was ``given``, against its place in the signature.

    ``align`` is in bytes; host tensors are copied and need none, others that of their elements at
    least.  ``rows`` lets one through whose rows are dense, on a GPU: whether a kernel takes it is
    seen later.  Raises PolycError: ``TypeMismatch``, ``RankMismatch``, ``NotContiguous``,
    ``Misaligned``, and for an ``output`` that cannot be written ``ReadOnly``.
    """
    if tensor.element != element:
        raise PolycError(
            "TypeMismatch",
            f"{name} holds {tensor.element}, the signature says {element}; "
            + (
                "compare it with 0"
                if element == "i1"
                else f"convert it to {LIBRARY_NAMES[element]}"
            ),
        )
    if len(tensor.shape) != rank:
        raise PolycError(
            "RankMismatch",
            f"{name} has shape {list(tensor.shape)}, the signature has {rank} dimensions",
        )
    if tensor.size and not tensor.pointer:
        raise PolycError("BadArgument", f"{name} has elements and no memory: its address is 0")
    if not (rows and tensor.gpu is not None and tensor.is_of_rows):
        check_dense(tensor, name, output, given)
    least = max(align, ELEMENT_BYTES[element])
    if tensor.gpu is not None and tensor.size and tensor.pointer % least:
        whose = "the signature promises" if align >= least else f"{element} needs"
        raise PolycError(
            "Misaligned",
            f"{name} starts at {tensor.pointer:#x}, {whose} a multiple of {least}; copy it to "
            "memory of its own",
        )
    if output and (tensor.readonly or tensor.copied):
        why = "is read-only" if tensor.readonly else "is exported as a copy"
        raise PolycError(
            "ReadOnly",
            f"{name} {why}, and is an output; give memory that can be written, or no out",
        )


def check_dense(
    tensor: TensorView,
    name: str,
    output: bool = False,
    given: object = None,
    notes: Sequence[str] = (),
) -> None:
    """Raises PolycError ``NotContiguous`` for elements that do not lie side by side in order."""
    if not tensor.size or not (wrong := _strided(tensor)):
        return
    axis, stride, dense = wrong
    way = "write to a contiguous one" if output else "make it contiguous"
    raise PolycError(
        "NotContiguous",
        f"{name} of shape {list(tensor.shape)} has strides {list(tensor.strides)}, not "
        f"{list(row_major(tensor.shape))}; {way}: dimension {axis} steps by {stride} elements, "
        f"and kernels by {dense}" + ("" if output else _copy_of(given, name)),
        notes=notes,
    )


def _strided(tensor: TensorView) -> tuple[int, int, int] | None:
    """The first dimension that is not dense, with its stride and what it would be."""
    dense = row_major(tensor.shape)
    for axis, (extent, stride, own) in enumerate(
        zip(tensor.shape, tensor.strides, dense, strict=True)
    ):
        if extent > 1 and stride != own:
            return axis, stride, own
    return None


def _copy_of(given: object, name: str) -> str:
    """How a tensor's library makes a dense one, where that is known."""
    if isinstance(given, np.ndarray):
        return f"; pass numpy.ascontiguousarray({name})"
    return f"; pass {name}.contiguous()" if torch_tensors.is_tensor(given) else ""


def sizes(given: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that a caller gives, as numbers.  Raises PolycError ``BadArgument``."""
    if not isinstance(cast("object", given), Mapping):
        raise PolycError(
            "BadArgument", f"symbols is {given!r}; pass the sizes by name, as in {{'M': 64}}"
        )
    return {symbol: whole(value, symbol) for symbol, value in given.items()}


def whole(value: Any, what: str) -> int:
    """A whole number that a caller gives.  Raises PolycError ``BadArgument``."""
    try:
        return operator.index(value)
    except TypeError:
        raise PolycError(
            "BadArgument", f"{what} is {value!r}; it has to be a whole number"
        ) from None


def bind_symbols(
    shapes: Sequence[tuple[str, Sequence[Dim], Sequence[int]]],
    given: Mapping[str, int] | None = None,
    symbols: Sequence[str] = (),
) -> dict[str, int]:
    """The symbols' values from the tensors' shapes.

    ``shapes`` lists name, signature shape and actual shape.  Every dimension that is a
    symbol binds it; then all dimensions are compared.  ``given`` sets symbols that no
    shape shows.  Raises PolycError ``ShapeMismatch`` with both values, or
    ``UnboundSymbol`` with the name.
    """
    values = dict(given or {})
    origin = {name: f"{name} = {value} as given" for name, value in values.items()}
    for name, dims, actual in shapes:
        if len(dims) != len(actual):
            raise PolycError(
                "RankMismatch",
                f"{name} has shape {list(actual)}, the signature has {len(dims)} dimensions",
            )
        for axis, (dim, extent) in enumerate(zip(dims, actual, strict=True)):
            text = str(dim)
            if dim.symbols() == (text,) and text not in values:
                values[text] = extent
                origin[text] = f"{text} = {extent} from dimension {axis} of {name}"
    for name, dims, actual in shapes:
        for axis, (dim, extent) in enumerate(zip(dims, actual, strict=True)):
            missing = [s for s in dim.symbols() if s not in values]
            if missing:
                raise PolycError(
                    "UnboundSymbol",
                    f"dimension {axis} of {name} is {dim}, and no shape gives {missing[0]}; "
                    f"set {missing[0]}",
                )
            expected = dim.evaluate(values)
            if expected != extent:
                why = ", ".join(origin[s] for s in dim.symbols())
                raise PolycError(
                    "ShapeMismatch",
                    f"dimension {axis} of {name} is {extent}, the signature says {dim}"
                    + (f", which is {expected} ({why})" if why else ""),
                )
    for symbol in symbols:
        if symbol not in values:
            raise PolycError("UnboundSymbol", f"no shape gives {symbol}; set {symbol}")
        if values[symbol] < 0:
            raise PolycError("BadArgument", f"{symbol} is {values[symbol]}; a size is at least 0")
    return values


def empty_like_input(
    example: object, shape: Sequence[int], element: str, stream: int | None = None
) -> object:
    """A new tensor of the library that ``example`` is of: NumPy, PyTorch, CuPy or JAX.

    ``stream`` is one that a GPU tensor is for, if not the current one.  JAX fills it with zeros
    first, on a stream of its own, for which a launch waits as for an input.  Raises PolycError for
    another library; its caller passes the outputs then.
    """
    if torch_tensors.is_tensor(example):
        there: Any = example
        return torch_tensors.empty(shape, element, there.device, stream if there.is_cuda else None)
    if isinstance(example, np.ndarray):
        return np.empty(tuple(shape), numpy_dtype(element))
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and isinstance(example, cupy.ndarray) and element != "bf16":
        there = cast("Any", example)
        with there.device:
            return cupy.empty(tuple(shape), numpy_dtype(element))
    jax: Any = sys.modules.get("jax")
    if jax is not None and isinstance(example, jax.Array):
        (device,) = cast("Any", example).devices()
        return jax.numpy.empty(tuple(shape), numpy_dtype(element), device=device)
    kind = type(example).__name__ + (" of bf16" if element == "bf16" else "")
    raise PolycError(
        "BadArgument",
        f"outputs are allocated for NumPy, PyTorch, CuPy and JAX, not for {kind}; pass out=",
    )
