"""A CUDA driver in Python in the place of ``libcuda``: two GPUs, nothing on them runs.

It keeps what the driver keeps, per thread and per GPU, and answers as the driver does where a call
is not allowed.  What a test asks is in ``launches``, ``freed_in_use`` and the other lists; memory
of a GPU is memory of the host.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from ctypes import c_void_p
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, INVALID_HANDLE = 1, 2, 201, 400
CAPTURE_UNSUPPORTED, CAPTURE_ISOLATION = 900, 905

GLOBAL, RELAXED = 0, 2
"""CUstreamCaptureMode."""

SECOND = 0xC0DE
"""A context on GPU 0 that is not the primary one."""


_HANDLES = count(0x50, 0x10)

_ATTRIBUTES = {
    **{75: 9, 76: 0, 16: 132, 97: 232448, 38: 50 << 20},
    **{13: 1980000, 39: 2048, 82: 65536, 81: 233472},
}
"""CU_DEVICE_ATTRIBUTE_… of its GPUs."""


def primary(index: int) -> int:
    return 0x1000 + index


@dataclass
class Memory:
    array: Any
    size: int
    context: int | None
    ordinal: int
    kind: int = 2
    managed: bool = False
    users: set[int] = field(default_factory=set[int])
    """Numbers of the streams that may still use it."""


@dataclass
class Launched:
    """A launch: ``values`` are the first eight bytes of each argument."""

    kernel: str
    stream: int
    values: list[int]
    context: int | None
    thread: int
    blocks: int = 0


@dataclass
class Graph:
    """What a capture caught: launches, and the code and memory that they use."""

    number: int
    launches: list[Launched] = field(default_factory=list[Launched])
    code: set[int] = field(default_factory=set[int])


def value_of(handle: Any) -> int:
    return (handle.value if hasattr(handle, "value") else handle) or 0


class FakeCuda:
    """The functions of the driver that polyc calls; ``slow`` lets other threads in where C would.

    ``fail`` names functions whose next call answers an error.
    """

    def __init__(self, slow: bool = False) -> None:
        self.slow = slow
        self.fail: dict[str, int] = {}
        self.log: list[str] = []
        self.launches: list[Launched] = []
        self.orders: list[tuple[int, int]] = []
        """Streams where an event was recorded, and that waited for it."""
        self.maps: list[tuple[list[int], list[int]]] = []
        """Sizes, and strides in bytes, of the tensor maps that were made, the innermost first."""
        self.promotions: list[int] = []
        """What L2 asks memory for at once by each of them."""
        self.waited: list[int] = []
        self.synchronized = 0
        self.memory: dict[int, Memory] = {}
        self.loaded: dict[int, int] = {}
        """The contexts of the modules that are loaded."""
        self.freed: list[int] = []
        self.freed_in_use: list[int] = []
        self.broken_captures: list[int] = []
        self._local = threading.local()
        self._lock = threading.RLock()
        self._captures: dict[int, Graph] = {}
        self._numbers: dict[int, int] = {}
        self._threads: dict[int, int] = {}
        self._functions: dict[int, tuple[str, int]] = {}
        self.shared: dict[int, int] = {}
        """Dynamic shared memory that a kernel may use."""
        self._events: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the stand-in has no {name}")

    # What tests do ------------------------------------------------------------------------

    @property
    def stack(self) -> list[int]:
        """This thread's contexts, the current one last."""
        if not hasattr(self._local, "stack"):
            self._local.stack, self._local.mode = list[int](), GLOBAL
        found: list[int] = self._local.stack
        return found

    def allocate(self, size: int, ordinal: int = 0, **fields: Any) -> int:
        """Memory that some library made, at a multiple of 256."""
        array = np.zeros(max(size, 16) + 256, np.uint8)
        start: int = array.ctypes.data
        pointer = start + (-start) % 256
        fields.setdefault("context", primary(ordinal))
        self.memory[pointer] = Memory(array, size, ordinal=ordinal, **fields)
        return pointer

    def new_stream(self, handle: int) -> int:
        """A stream is made; its handle may have been another one's before."""
        self._numbers[handle] = self._fresh()
        return handle

    @contextmanager
    def capturing(self, stream: int) -> Generator[Graph]:
        graph = self._captures[self._number(stream)] = Graph(self._fresh())
        try:
            yield graph
        finally:
            del self._captures[self._number(stream)]

    def replay(self, graph: Graph) -> None:
        """Run a graph: everything that it addresses must be there."""
        assert graph.launches and graph.code <= self.loaded.keys(), "code was unloaded"
        for launch in graph.launches:
            for value in launch.values:
                assert value not in self.freed, f"{launch.kernel} uses memory that was freed"

    # Inside -------------------------------------------------------------------------------

    def _fresh(self) -> int:
        # What one test leaves behind may be given back in another: no handle is used again.
        return next(_HANDLES)

    def _number(self, stream: int) -> int:
        if stream == 2:
            key = threading.get_ident()
            with self._lock:
                if key not in self._threads:
                    self._threads[key] = self._fresh()
                return self._threads[key]
        return 0 if stream in (0, 1) else self._numbers.get(stream, stream)

    def _step(self, name: str) -> int:
        """Begin a call; what it answers if it is to fail."""
        self.log.append(name)
        if self.slow:
            time.sleep(0)
        return self.fail.pop(name, 0)

    def _unsafe(self) -> int:
        """What a call that no capture allows answers, which ends the captures."""
        if self._captures and self._mode() != RELAXED:
            self.broken_captures += [graph.number for graph in self._captures.values()]
            return CAPTURE_UNSUPPORTED
        return 0

    def _mode(self) -> int:
        _ = self.stack
        return self._local.mode

    def _finished(self, stream: int | None = None) -> None:
        for memory in list(self.memory.values()):
            memory.users -= memory.users if stream is None else {stream}

    # Devices and contexts -----------------------------------------------------------------

    def cuInit(self, flags: int) -> int:
        return 0

    def cuGetErrorName(self, status: int, name: Any) -> int:
        name._obj.value = f"CUDA_ERROR_{status}".encode()
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 2
        return 0

    def cuDeviceGet(self, handle: Any, index: int) -> int:
        handle._obj.value = index
        return 0

    def cuDeviceGetName(self, name: Any, size: int, handle: Any) -> int:
        name.value = b"stand-in"
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, handle: Any) -> int:
        value._obj.value = _ATTRIBUTES[number]
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:
        version._obj.value = 13000
        return 0

    def cuDevicePrimaryCtxRetain(self, context: Any, handle: Any) -> int:
        context._obj.value = primary(handle.value)
        return 0

    def cuCtxGetCurrent(self, context: Any) -> int:
        status = self._step("cuCtxGetCurrent")
        context._obj.value = self.stack[-1] if self.stack else None
        return status

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        if status := self._step("cuCtxPushCurrent_v2"):
            return status
        self.stack.append(context.value)
        return 0

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        status = self._step("cuCtxPopCurrent_v2")
        if not self.stack:
            return INVALID_CONTEXT
        context._obj.value = self.stack.pop()
        return status

    def cuCtxSynchronize(self) -> int:
        if not self.stack:
            return INVALID_CONTEXT
        if self._captures:
            self.broken_captures += [graph.number for graph in self._captures.values()]
            return CAPTURE_UNSUPPORTED
        self.synchronized += 1
        self._finished()
        return self._step("cuCtxSynchronize")

    # Code ---------------------------------------------------------------------------------

    def cuModuleLoadData(self, module: Any, image: bytes) -> int:
        if status := self._step("cuModuleLoadData") or self._unsafe():
            return status
        if not self.stack:
            return INVALID_CONTEXT
        module._obj.value = self._fresh()
        self.loaded[module._obj.value] = self.stack[-1]
        return 0

    def cuModuleUnload(self, module: Any) -> int:
        if not self.stack:
            return INVALID_CONTEXT
        if status := self._unsafe():
            return status
        if module.value not in self.loaded:
            return INVALID_HANDLE
        self._finished()
        del self.loaded[module.value]
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        if status := self._step("cuModuleGetFunction") or self._unsafe():
            return status
        function._obj.value = self._fresh()
        self._functions[function._obj.value] = name.decode(), module.value
        return 0

    def cuFuncSetAttribute(self, function: Any, attribute: int, value: int) -> int:
        self._step("cuFuncSetAttribute")
        self.shared[function.value] = value
        return 0

    def cuOccupancyMaxActiveClusters(self, count: Any, function: Any, config: Any) -> int:
        count._obj.value = 30
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, count: Any, function: Any, threads: int, shared: Any
    ) -> int:
        count._obj.value = 1024 // threads
        return 0

    def cuLaunchKernelEx(self, config: Any, function: Any, pointers: Any, extra: None) -> int:
        if status := self._step("cuLaunchKernelEx"):
            return status
        if not self.stack:
            return INVALID_CONTEXT
        name, module = self._functions[function.value]
        if self.loaded.get(module, self.stack[-1]) != self.stack[-1]:
            return INVALID_HANDLE
        stream = config._obj.stream or 0
        values = [ctypes.c_uint64.from_address(one).value for one in pointers if one]
        made = Launched(name, stream, values, self.stack[-1], threading.get_ident())
        made.blocks = config._obj.grid[0]
        number = self._number(stream)
        if graph := self._captures.get(number):
            graph.launches.append(made)
            graph.code.add(module)
        else:
            assert module in self.loaded
            for value in values:
                if value in self.memory:
                    self.memory[value].users.add(number)
        self.launches.append(made)
        return 0

    # Tensor maps: the first number of one is its address ------------------------------------

    def cuTensorMapEncodeTiled(self, made: Any, *given: Any) -> int:
        made._obj[0] = given[2].value
        self.maps.append((list(given[3]), list(given[4])))
        self.promotions.append(given[9])
        return 0

    def cuTensorMapReplaceAddress(self, made: Any, pointer: Any) -> int:
        if status := self._step("cuTensorMapReplaceAddress"):
            return status
        if not pointer.value:
            return 1
        made._obj[0] = pointer.value
        return 0

    # Memory -------------------------------------------------------------------------------

    def cuMemAlloc_v2(self, pointer: Any, size: Any) -> int:
        if status := self._step("cuMemAlloc_v2") or self._unsafe():
            return status
        if not self.stack:
            return INVALID_CONTEXT
        with self._lock:
            made = self.allocate(size.value, self.stack[-1] - primary(0))
            while made in self.freed:
                # A graph that uses what was freed is then found by its address.
                made = self.allocate(size.value, self.stack[-1] - primary(0))
        pointer._obj.value = made
        return 0

    def cuMemFree_v2(self, pointer: Any) -> int:
        if not self.stack:
            return INVALID_CONTEXT
        if status := self._step("cuMemFree_v2") or self._unsafe():
            return status
        with self._lock:
            if pointer.value not in self.memory:
                return INVALID_VALUE
            found = self.memory.pop(pointer.value)
            assert found.context == self.stack[-1]
            if found.users:
                self.freed_in_use.append(pointer.value)
            # The array stays, so that its address is no other's.
            self.freed.append(pointer.value)
            self._kept = [*getattr(self, "_kept", []), found]
        self._finished()
        return 0

    def cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> int:
        if not self.stack:
            return INVALID_CONTEXT
        if status := self._step("cuMemcpyHtoD_v2") or self._unsafe():
            return status
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> int:
        if not self.stack:
            return INVALID_CONTEXT
        if status := self._step("cuMemcpyDtoH_v2") or self._unsafe():
            return status
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def cuMemsetD8Async(self, pointer: Any, byte: Any, size: Any, stream: Any) -> int:
        if not self.stack:
            return INVALID_CONTEXT
        return self._step("cuMemsetD8Async")

    def cuPointerGetAttributes(self, count: int, numbers: Any, data: Any, pointer: Any) -> int:
        if not self.stack:
            return INVALID_CONTEXT
        found = next(
            (m for p, m in [*self.memory.items()] if p <= pointer.value < p + max(1, m.size)),
            None,
        )
        for number, address in zip(numbers, data, strict=True):
            match number:
                case 1:
                    c_void_p.from_address(address).value = found.context if found else None
                case 2:
                    ctypes.c_uint.from_address(address).value = found.kind if found else 0
                case 8:
                    ctypes.c_uint.from_address(address).value = bool(found and found.managed)
                case _:
                    assert number == 9
                    ctypes.c_int.from_address(address).value = found.ordinal if found else -2
        return 0

    # Streams ------------------------------------------------------------------------------

    def cuStreamSynchronize(self, stream: Any) -> int:
        number = self._number(value_of(stream))
        if number in self._captures:
            self.broken_captures.append(self._captures[number].number)
            return CAPTURE_UNSUPPORTED
        self._finished(number)
        self.waited.append(value_of(stream))
        return self._step("cuStreamSynchronize")

    def cuStreamGetId(self, stream: Any, number: Any) -> int:
        if self._number(value_of(stream)) in self._captures:
            return CAPTURE_UNSUPPORTED
        number._obj.value = self._number(value_of(stream))
        return self._step("cuStreamGetId")

    def cuStreamIsCapturing(self, stream: Any, status: Any) -> int:
        status._obj.value = int(self._number(value_of(stream)) in self._captures)
        return self._step("cuStreamIsCapturing")

    def cuStreamGetCaptureInfo_v2(
        self, stream: Any, status: Any, number: Any, graph: None, edges: None, count: None
    ) -> int:
        found = self._captures.get(self._number(value_of(stream)))
        status._obj.value = 0 if found is None else 1
        if found is not None:
            number._obj.value = found.number
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        old = self._mode()
        self._local.mode = mode._obj.value
        mode._obj.value = old
        return 0

    def cuEventCreate(self, event: Any, flags: int) -> int:
        assert flags == 2
        event._obj.value = self._fresh()
        return 0 if self.stack else INVALID_CONTEXT

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        self._events[event.value] = value_of(stream)
        return self._step("cuEventRecord")

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> int:
        if self._number(value_of(stream)) in self._captures:
            return CAPTURE_ISOLATION
        self.orders.append((self._events[event.value], value_of(stream)))
        return 0

    def cuEventDestroy_v2(self, event: Any) -> int:
        self._events.pop(event.value)
        return 0

    @property
    def events_left(self) -> int:
        return len(self._events)
