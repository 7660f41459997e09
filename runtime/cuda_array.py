"""Tensors through ``__cuda_array_interface__``, versions 2 and 3 (Numba's documentation)."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver
from polyc.runtime.views import LIBRARY_NAMES, TensorView, in_elements, row_major

VERSIONS = (2, 3)
"""Those that are known here; 3 tells the stream."""


def speaks(tensor: object) -> bool:
    """Whether ``tensor`` has the attribute; on a library's host tensors it may raise."""
    return _fields(tensor) is not None


def _fields(tensor: object) -> Mapping[str, Any] | None:
    try:
        found = getattr(tensor, "__cuda_array_interface__", None)
    except Exception:
        # PyTorch raises TypeError for a tensor on the host, others raise what they like.
        return None
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else None


def stream_of(tensor: object) -> int | None:
    """The stream that the tensor's owner works on, where it says so.

    1 and 2 are the default streams, the legacy one (here 0) and the one of this thread.  Anything
    else than a handle is left for ``view`` to refuse.
    """
    fields = _fields(tensor)
    told = None if fields is None else fields.get("stream")
    if told is None or isinstance(told, bool):
        return None
    try:
        stream = operator.index(told)
    except TypeError:
        return None
    return None if stream <= 0 else 0 if stream == 1 else stream


def view(tensor: object, name: str) -> TensorView:
    """The view of a tensor that ``speaks``; the driver says on which GPU it is.

    Raises PolycError ``BadArgument`` for what the interface does not allow or polyc does not
    know, ``TypeMismatch`` for another byte order, ``NotContiguous`` for strides that are no
    multiple of the element's size, ``DeviceMismatch`` for memory that is on no GPU.
    """
    fields = _fields(tensor)
    assert fields is not None
    version = fields.get("version")
    if version not in VERSIONS:
        raise PolycError(
            "BadArgument",
            f"{name} has version {version} of __cuda_array_interface__; versions "
            f"{' and '.join(map(str, VERSIONS))} are known, and DLPack",
        )
    if fields.get("mask") is not None:
        raise PolycError(
            "BadArgument", f"{name} has a mask, which a kernel does not read; pass it filled"
        )
    told = fields.get("stream")
    if told is not None and stream_of(tensor) is None:
        raise PolycError(
            "BadArgument",
            f"{name} says that its stream is {told!r}; that is None, 1 (legacy default), "
            "2 (per-thread default) or a handle",
        )
    try:
        shape = tuple(operator.index(extent) for extent in fields["shape"])
        pointer, readonly = fields["data"]
        pointer = operator.index(pointer)
        kind = np.dtype(fields["typestr"])
        given = fields.get("strides")
        strides = None if given is None else tuple(operator.index(stride) for stride in given)
        if min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
            raise ValueError(f"shape {shape} with strides {strides}")
    except (KeyError, TypeError, ValueError) as error:
        raise PolycError(
            "BadArgument", f"{name} has a __cuda_array_interface__ that is not understood: {error}"
        ) from None
    element = element_of(kind, name)
    empty = 0 in shape
    if not empty and not pointer:
        raise PolycError("BadArgument", f"{name} has elements and no memory: its address is 0")
    gpu = 0 if empty else driver.place_of(pointer).gpu
    if gpu is None:
        raise PolycError(
            "DeviceMismatch",
            f"{name} has a __cuda_array_interface__, and its address {pointer:#x} is no memory of "
            "a GPU; copy it to one",
        )
    return TensorView(
        pointer,
        shape,
        row_major(shape) if strides is None else in_elements(name, shape, strides, kind.itemsize),
        element,
        gpu,
        tensor,
        readonly=bool(readonly),
        stream=stream_of(tensor),
        ordered=version >= 3,
    )


def element_of(kind: np.dtype[Any], name: str) -> str:
    """The element type of NumPy's ``kind``, by NumPy's name where kernels have no such type.

    Raises PolycError ``TypeMismatch`` where the bytes are not in this machine's order.
    """
    if not kind.isnative:
        raise PolycError(
            "TypeMismatch",
            f"{name} holds {kind.name} with its bytes in the other order ({kind.str}); convert it "
            f'with {name}.astype("{kind.newbyteorder("=").name}")',
        )
    return next((one for one, theirs in LIBRARY_NAMES.items() if theirs == kind.name), kind.name)
