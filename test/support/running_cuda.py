"""A CUDA driver in Python whose launches run: a kernel is a function of the test's own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from polyc.test.support.fake_cuda import FakeCuda, value_of


class RunningCuda(FakeCuda):
    """``kernel`` is called with the first eight bytes of each argument of a launch.

    A graph of launches takes ``each`` seconds for one of them.
    """

    def __init__(self, kernel: Callable[[list[int]], object] = lambda values: None) -> None:
        super().__init__()
        self.kernel, self.each = kernel, 1e-6
        self.busy = False
        self.replays = 0
        self._pending: Any = None
        self._seen = 0

    def cuLaunchKernelEx(self, config: Any, function: Any, pointers: Any, extra: None) -> int:
        status = super().cuLaunchKernelEx(config, function, pointers, extra)
        if not status and not self._captures:
            self.kernel(self.launches[-1].values)
        return status

    def cuMemsetD8Async(self, pointer: Any, byte: Any, size: Any, stream: Any) -> int:
        ctypes.memset(pointer.value, byte.value, size.value)
        return super().cuMemsetD8Async(pointer, byte, size, stream)

    def cuMemGetInfo_v2(self, free: Any, total: Any) -> int:
        free._obj.value = total._obj.value = 1 << 30
        return 0

    def cuStreamCreate(self, stream: Any, flags: Any) -> int:
        stream._obj.value = self.new_stream(self._fresh())
        return 0

    def cuStreamDestroy_v2(self, stream: Any) -> int:
        return 0

    def cuStreamQuery(self, stream: Any) -> int:
        return 600 if self.busy else self._step("cuStreamQuery")

    def cuStreamBeginCapture_v2(self, stream: Any, mode: Any) -> int:
        self._pending = self.capturing(value_of(stream))
        self.graph = self._pending.__enter__()
        return 0

    def cuStreamEndCapture(self, stream: Any, graph: Any) -> int:
        self._pending.__exit__(None, None, None)
        graph._obj.value = self._fresh()
        return 0

    def cuGraphInstantiateWithFlags(self, made: Any, graph: Any, flags: Any) -> int:
        made._obj.value = self._fresh()
        return 0

    def cuGraphDestroy(self, graph: Any) -> int:
        return 0

    def cuGraphExecDestroy(self, graph: Any) -> int:
        return 0

    def cuGraphLaunch(self, graph: Any, stream: Any) -> int:
        self.replays += 1
        return self._step("cuGraphLaunch")

    def cuEventCreate(self, event: Any, flags: Any) -> int:
        return super().cuEventCreate(event, 2)

    def cuEventDestroy_v2(self, event: Any) -> int:
        self._events.pop(event.value, None)  # also one that was never recorded
        return 0

    def cuEventElapsedTime(self, elapsed: Any, start: Any, end: Any) -> int:
        runs = self.replays - self._seen
        self._seen = self.replays
        elapsed._obj.value = 1e3 * self.each * len(self.graph.launches) * runs
        return 0
