"""Tensors through DLPack, with and without its version (DLPack 1.0, the array API's protocol)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.views import TensorView, row_major

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""DLDeviceType."""

_PLACES: Mapping[int, str] = {
    4: "OpenCL's memory",
    7: "Vulkan's memory",
    8: "Metal's memory",
    10: "a GPU of ROCm",
    11: "ROCm's host memory",
    CUDA_MANAGED: "managed memory",
    14: "oneAPI's memory",
    15: "WebGPU's memory",
}

_TYPES = {
    **{(2, 16): "f16", (4, 16): "bf16", (2, 32): "f32", (6, 8): "i1"},
    **{(0, bits): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"ui{bits}" for bits in (8, 16, 32, 64)},
}
"""(DLDataTypeCode, bits): kDLInt is 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4 and kDLBool 6."""

_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}

_VERSION = 1
"""The major version that is known here."""

_READ_ONLY, _IS_COPIED = 1, 2
"""DLPACK_FLAG_BITMASK_..."""

_LEGACY = 1
"""The legacy default stream, which has handle 0, in the protocol's numbers."""


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


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


# Prototypes of polyc's own: those of ctypes.pythonapi are everybody's.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def speaks(tensor: object) -> bool:
    """Whether ``tensor`` has the two functions of the protocol."""
    return hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__")


def view(source: Any, name: str, stream: int | None, output: bool = False) -> TensorView:
    """The view of a DLPack tensor.

    ``stream`` is the one that will use it: its producer makes it wait for what is still to be
    written there.  With None the producer orders nothing.  An ``output`` must not be a copy.

    Raises PolycError ``BadArgument`` where the tensor does not come, ``DeviceMismatch`` where it
    is neither in host memory nor on a GPU.
    """
    try:
        kind, _ = source.__dlpack_device__()
        kind = int(kind)
    except Exception as error:
        raise _not_exported(name, error) from None
    _check_device(kind, name)
    options: dict[str, object] = {}
    if kind == CUDA:
        options["stream"] = -1 if stream is None else stream or _LEGACY
    capsule = _export(source, name, options, output)
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(
            cast("int", _get_pointer(capsule, b"dltensor_versioned"))
        )
        if versioned.major != _VERSION:
            raise PolycError(
                "BadArgument",
                f"{name} comes as DLPack {versioned.major}.{versioned.minor}, and polyc knows "
                f"version {_VERSION}; pass a NumPy array or a tensor of PyTorch",
            )
        raw, flags = versioned.tensor, int(versioned.flags)
    elif _is_valid(capsule, b"dltensor"):
        raw = _DLTensor.from_address(cast("int", _get_pointer(capsule, b"dltensor")))
        flags = 0
    else:
        raise PolycError(
            "BadArgument",
            f"{name}.__dlpack__ gave a {type(capsule).__name__} that holds no tensor, or one "
            "that was taken already; a tensor gives a new capsule at each call",
        )
    _check_device(raw.device_type, name)
    if raw.device_type == CUDA and kind != CUDA:
        # Nobody was asked to order the streams.
        raise PolycError(
            "BadArgument",
            f"{name}.__dlpack_device__ says type {kind}, and its capsule is on GPU "
            f"{raw.device_id}; both have to say the same",
        )
    return _of_raw(raw, flags, capsule, name, pinned=CUDA_HOST in (kind, raw.device_type))


def _export(source: Any, name: str, options: Mapping[str, object], output: bool) -> object:
    """A capsule, with a version and its flags where the producer knows them."""
    newer = {**options, "max_version": (_VERSION, 0)}
    if output:
        newer["copy"] = False
    try:
        try:
            return source.__dlpack__(**newer)
        except TypeError:
            # A producer from before DLPack 1.0 does not know these arguments.
            return source.__dlpack__(**options)
    except Exception as error:
        raise _not_exported(name, error) from None


def _not_exported(name: str, error: Exception) -> PolycError:
    return PolycError(
        "BadArgument", f"{name} cannot be exported by DLPack: {str(error) or type(error).__name__}"
    )


def _check_device(kind: int, name: str) -> None:
    if kind not in (CPU, CUDA, CUDA_HOST):
        where = _PLACES.get(kind, f"a device of DLPack type {kind}")
        raise PolycError(
            "DeviceMismatch", f"{name} is in {where}; copy it to a CUDA GPU or to host memory"
        )


def _of_raw(raw: _DLTensor, flags: int, capsule: object, name: str, pinned: bool) -> TensorView:
    shape = tuple(int(raw.shape[i]) for i in range(raw.ndim))
    if raw.ndim < 0 or min(shape, default=0) < 0:
        raise PolycError(
            "BadArgument",
            f"{name} comes by DLPack with {raw.ndim} dimensions, {list(shape)}; none is negative",
        )
    dense = row_major(shape)
    strides = dense
    if raw.strides and 0 not in shape:
        strides = tuple(
            int(raw.strides[i]) if extent > 1 else dense[i] for i, extent in enumerate(shape)
        )
    code, bits, lanes = int(raw.code), int(raw.bits), int(raw.lanes)
    element = _TYPES.get((code, bits))
    if element is None or lanes != 1:
        element = f"{_CODES[code]}{bits}" if code in _CODES else f"DLPack type {code, bits}"
        element += f" in vectors of {lanes}" if lanes != 1 else ""
    return TensorView(
        (raw.data or 0) + int(raw.byte_offset),
        shape,
        strides,
        element,
        int(raw.device_id) if raw.device_type == CUDA else None,
        capsule,
        readonly=bool(flags & _READ_ONLY),
        copied=bool(flags & _IS_COPIED),
        pinned=pinned,
    )
