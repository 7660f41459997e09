"""Tensors of a library that polyc does not know, with every field as a test wants it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from polyc.runtime.views import row_major
from polyc.test.support.fake_cuda import FakeCuda

FLOAT16, FLOAT32, BOOL, UINT8 = (2, 16), (2, 32), (6, 8), (1, 8)
"""DLPack's code and bits."""


class Raw(ctypes.Structure):
    """DLTensor, written out a second time: a wrong field in polyc's own does not cancel out."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Raw), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Raw),
    ]


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


class DLPack:
    """A DLPack tensor.  ``asked`` are the arguments of each call of ``__dlpack__``.

    ``version`` is None for a producer from before DLPack 1.0, which does not know its arguments.
    ``says`` is the type of device that ``__dlpack_device__`` tells, if not ``device``'s.
    """

    def __init__(
        self,
        pointer: int,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        kind: tuple[int, int] = FLOAT32,
        device: tuple[int, int] = (2, 0),
        lanes: int = 1,
        byte_offset: int = 0,
        version: tuple[int, int] | None = (1, 0),
        flags: int = 0,
        says: int | None = None,
        name: bytes | None = None,
        gives: object = None,
    ) -> None:
        self.asked: list[dict[str, Any]] = []
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self._version, self._gives = version, gives
        self._device = device[0] if says is None else says, device[1]
        self._managed = Managed() if version is None else Versioned()
        self._name = name or (b"dltensor" if version is None else b"dltensor_versioned")
        if isinstance(self._managed, Versioned):
            self._managed.version[:] = version or (0, 0)
            self._managed.flags = flags
        raw = self._managed.tensor
        raw.data, raw.device[:], raw.ndim = pointer, device, len(shape)
        (raw.code, raw.bits), raw.lanes = kind, lanes
        raw.shape = ctypes.addressof(self._shape)
        raw.strides = None if self._strides is None else ctypes.addressof(self._strides)
        raw.byte_offset = byte_offset

    def __dlpack__(self, **asked: Any) -> object:
        self.asked.append(asked)
        if self._version is None and asked.keys() - {"stream"}:
            raise TypeError("unexpected keyword argument")
        if self._gives is not None:
            if isinstance(self._gives, Exception):
                raise self._gives
            return self._gives
        return _new(ctypes.addressof(self._managed), self._name, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


class CudaArray:
    """A tensor with ``__cuda_array_interface__``; a field that is ``...`` is left out."""

    def __init__(self, pointer: int, shape: Sequence[int], /, **fields: Any) -> None:
        found: dict[str, Any] = {
            "shape": tuple(shape),
            "typestr": "<f4",
            "data": (pointer, False),
            "version": 3,
            **fields,
        }
        self.__cuda_array_interface__ = {k: v for k, v in found.items() if v is not ...}


@dataclass(frozen=True)
class Device:
    """A ``torch.device``."""

    type: str
    index: int


_here = threading.local()
"""The GPU that is a thread's current one, where it is not the first."""


def _current_device() -> int:
    return getattr(_here, "index", 0)


@contextmanager
def _device(index: int) -> Generator[None]:
    before, _here.index = _current_device(), index
    try:
        yield
    finally:
        _here.index = before


class Tensor(DLPack):
    """A ``torch.Tensor``; ``pinned`` is None for one on a GPU."""

    def __init__(
        self,
        pointer: int,
        shape: Sequence[int],
        dtype: str = "float32",
        index: int = 0,
        pinned: bool | None = None,
        strides: Sequence[int] | None = None,
    ) -> None:
        kind = {"float32": FLOAT32, "float16": FLOAT16}[dtype]
        host = pinned is not None
        device = (1, 0) if host else (2, index)
        super().__init__(pointer, shape, strides, kind=kind, device=device, version=None)
        self._stride = row_major(shape) if strides is None else tuple(strides)
        dense = zip(shape, self._stride, row_major(shape), strict=True)
        self._contiguous = 0 in shape or all(n == 1 or s == d for n, s, d in dense)
        self.pointer, self.shape, self.dtype = pointer, tuple(shape), dtype
        self.device = Device("cpu" if host else "cuda", index)
        self.is_cuda, self.requires_grad, self.pinned = not host, False, pinned
        self.negated = False
        self.recorded: list[int] = []

    def __dlpack__(self, **asked: Any) -> Any:
        if self.is_cuda and self.device.index != _current_device():
            raise BufferError("Can't export tensors on a different CUDA device index")
        return super().__dlpack__(**asked)

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self._stride

    def is_contiguous(self) -> bool:
        return self._contiguous

    def is_pinned(self) -> bool:
        assert self.pinned is not None, "asked of a tensor on the host alone"
        return self.pinned

    def is_neg(self) -> bool:
        return self.negated

    def get_device(self) -> int:
        return self.device.index

    def record_stream(self, stream: Any) -> None:
        self.recorded.append(stream.cuda_stream)


class FakeTorch(ModuleType):
    """PyTorch, as far as polyc looks at it: each thread has its current stream."""

    Tensor = Tensor
    float16, float32 = "float16", "float32"

    def __init__(self, driver: FakeCuda) -> None:
        super().__init__("torch")
        self._driver, self._local = driver, threading.local()
        self.made: list[tuple[Tensor, int]] = []
        """Tensors made by ``empty``, and the stream that was current."""
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=self._current)
        self.cuda = SimpleNamespace(
            stream=self._stream,
            ExternalStream=self._external,
            current_device=_current_device,
            device=_device,
        )

    def _current(self, index: int) -> int:
        return getattr(self._local, "stream", 0)

    def _external(self, handle: int, device: Device) -> Any:
        return SimpleNamespace(cuda_stream=handle, device=device)

    @contextmanager
    def _stream(self, stream: Any) -> Generator[None]:
        before, self._local.stream = self._current(0), stream.cuda_stream
        try:
            yield
        finally:
            self._local.stream = before

    def on(self, stream: int) -> Any:
        """``with torch.on(7)``: the thread's current stream."""
        return self._stream(SimpleNamespace(cuda_stream=stream))

    def empty(self, shape: Sequence[int], dtype: str, device: Device) -> Tensor:
        item = 4 if dtype == "float32" else 2
        size = item * int(np.prod(shape))
        made = Tensor(self._driver.allocate(size, device.index), shape, dtype, device.index)
        self.made.append((made, self._current(device.index)))
        return made

    def empty_strided(
        self, shape: Sequence[int], strides: Sequence[int], dtype: str, device: Device
    ) -> Tensor:
        made = self.empty(shape, dtype, device)
        assert tuple(strides) == made.stride()
        return made

    def zeros(self, *shape: int, index: int = 0, device: str = "cuda") -> Tensor:
        return self.empty(shape, "float32", Device("cuda", index))
