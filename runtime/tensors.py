"""Tensors in and out: NumPy arrays and anything that speaks DLPack (J1, J3).

A ``TensorView`` is what a launch needs of a tensor: address, shape, strides, element
type and device.  It borrows the memory and keeps its owner alive.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import Dim

ELEMENT_BYTES: Mapping[str, int] = {"f16": 2, "bf16": 2, "f32": 4, "i1": 1}
"""Element types of a signature and their sizes."""

_NUMPY_NAMES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "bool": "i1"}
_DLPACK_TYPES = {(2, 16): "f16", (4, 16): "bf16", (2, 32): "f32", (6, 8): "i1"}
"""(DLDataTypeCode, bits): kDLFloat is 2, kDLBfloat is 4, kDLBool is 6."""

_CPU, _CUDA = 1, 2


class _DLTensor(ctypes.Structure):
    """DLTensor of the DLPack C API."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


@dataclass(frozen=True, slots=True)
class TensorView:
    """A borrowed tensor; ``strides`` are in elements, ``gpu`` is None for host memory."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: str
    gpu: int | None
    owner: object

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        return self.size * ELEMENT_BYTES.get(self.element, 0)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a dense row-major tensor."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def numpy_dtype(element: str) -> np.dtype[Any]:
    """NumPy's type of ``f16``, ``bf16``, ``f32`` or ``i1``; bf16 is ml_dtypes'."""
    if element == "bf16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype({"f16": np.float16, "f32": np.float32, "i1": np.bool_}[element])


def view(tensor: object, name: str) -> TensorView:
    """The view of a NumPy array or a DLPack tensor.

    Raises PolycError ``BadArgument`` when it is neither; ``name`` is the argument's name.
    """
    if isinstance(tensor, np.ndarray):
        array = cast("npt.NDArray[Any]", tensor)
        return TensorView(
            array.ctypes.data,
            array.shape,
            tuple(s // max(1, array.itemsize) for s in array.strides),
            _NUMPY_NAMES.get(array.dtype.name, array.dtype.name),
            None,
            array,
        )
    source: Any = tensor
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise PolycError(
            "BadArgument",
            f"{name} is a {type(tensor).__name__}; pass a NumPy array or a tensor with __dlpack__",
        )
    device_type, _ = source.__dlpack_device__()
    try:
        # -1: the producer need not synchronise, the launch goes onto its current stream.
        capsule = source.__dlpack__(stream=-1) if device_type == _CUDA else source.__dlpack__()
    except (BufferError, RuntimeError, TypeError) as error:
        raise PolycError("BadArgument", f"{name} cannot be exported by DLPack: {error}") from None
    return _of_capsule(capsule, name)


def _of_capsule(capsule: object, name: str) -> TensorView:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = cast("int", get(capsule, b"dltensor"))
    raw = _DLTensor.from_address(address)
    shape = tuple(int(raw.shape[i]) for i in range(raw.ndim))
    strides = tuple(int(raw.strides[i]) for i in range(raw.ndim)) if raw.strides else None
    if raw.device_type not in (_CPU, _CUDA):
        raise PolycError(
            "BadArgument",
            f"{name} is on a device of DLPack type {raw.device_type}, not CPU or CUDA",
        )
    code = (int(raw.code), int(raw.bits))
    element = _DLPACK_TYPES.get(code) if raw.lanes == 1 else None
    return TensorView(
        (raw.data or 0) + int(raw.byte_offset),
        shape,
        row_major(shape) if strides is None else strides,
        element or f"DLPack type {code}",
        int(raw.device_id) if raw.device_type == _CUDA else None,
        capsule,
    )


def check(tensor: TensorView, name: str, element: str, rank: int, align: int = 0) -> None:
    """Check a tensor against its place in the signature.

    ``align`` is in bytes; host tensors are copied and need none.  Raises PolycError:
    ``TypeMismatch``, ``RankMismatch``, ``NotContiguous``, ``Misaligned``.
    """
    if tensor.element != element:
        raise PolycError(
            "TypeMismatch", f"{name} holds {tensor.element}, the signature says {element}"
        )
    if len(tensor.shape) != rank:
        raise PolycError(
            "RankMismatch",
            f"{name} has shape {list(tensor.shape)}, the signature has {rank} dimensions",
        )
    if tensor.size and any(
        extent > 1 and stride != dense
        for extent, stride, dense in zip(
            tensor.shape, tensor.strides, row_major(tensor.shape), strict=True
        )
    ):
        raise PolycError(
            "NotContiguous",
            f"{name} of shape {list(tensor.shape)} has strides {list(tensor.strides)}, not "
            f"{list(row_major(tensor.shape))}; make it contiguous",
        )
    if tensor.gpu is not None and align and tensor.pointer % align:
        raise PolycError(
            "Misaligned",
            f"{name} starts at {tensor.pointer:#x}, the signature promises a multiple of {align}",
        )


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


def current_stream(index: int) -> int:
    """PyTorch's current stream on GPU ``index`` when it is loaded, else the default one."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return 0
    # The public way makes an object first and takes ten times as long.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None) if hasattr(torch, "_C") else None
    if raw is not None:
        return int(raw(index))
    return int(torch.cuda.current_stream(index).cuda_stream)


Signature = tuple[Hashable, ...]
"""What of PyTorch tensors decides how a call on them goes, beside their addresses."""


def torch_signature(given: Sequence[object], period: int) -> tuple[Signature, list[int]] | None:
    """The signature and the addresses of PyTorch tensors; None where one is something else.

    Two calls of one signature pass the same checks: shape, strides, type, device and whether a
    gradient is asked for are in it, and the address modulo ``period``.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    plain: Any = torch.Tensor
    parts: list[Hashable] = []
    pointers: list[int] = []
    try:
        for tensor in given:
            # A subclass may mean anything by its attributes.
            if type(tensor) is not plain:
                return None
            one: Any = tensor
            pointer: int = one.data_ptr()
            pointers.append(pointer)
            parts.append(
                (
                    one.shape,
                    one.stride(),
                    one.dtype,
                    one.device,
                    one.requires_grad,
                    pointer % period,
                )
            )
    except RuntimeError:
        # A tensor without plain memory, such as a sparse one: the checks have a sentence for it.
        return None
    return tuple(parts), pointers


def torch_empty(shape: Sequence[int], element: str, device: object) -> object:
    """An uninitialised PyTorch tensor."""
    torch: Any = sys.modules["torch"]
    names = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i1": "bool"}
    return torch.empty(tuple(shape), dtype=getattr(torch, names[element]), device=device)


def empty_like_input(example: object, shape: Sequence[int], element: str) -> object:
    """An uninitialised tensor of the library that ``example`` is of: NumPy or PyTorch.

    Raises PolycError for another library; its caller passes the outputs then.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(example, torch.Tensor):
        return torch_empty(shape, element, cast("Any", example).device)
    if isinstance(example, np.ndarray):
        return np.empty(tuple(shape), numpy_dtype(element))
    raise PolycError(
        "BadArgument",
        f"outputs are allocated for NumPy and PyTorch, not for {type(example).__name__}; pass out=",
    )
