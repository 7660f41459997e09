"""Timing through the driver: streams, CUDA graphs of launches, and events between them.

A figure of a graph of several launches holds no time of the host.  Calls are made with the GPU's
context current.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver

_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: it does not wait for the default stream."""

_THREAD_LOCAL = 1
"""CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may go on with what no graph holds."""

_NOT_READY = 600
"""CUDA_ERROR_NOT_READY."""

PATIENCE = 20.0
"""Seconds after which work that has not ended is taken for work that never ends."""


class Stream:
    """A stream of its own on GPU ``index``, which goes with the object."""

    def __init__(self, index: int = 0) -> None:
        handle = c_void_p()
        driver.call("cuStreamCreate", ctypes.byref(handle), c_uint(_NON_BLOCKING))
        self.handle = handle.value or 0
        driver.release_with(self, index, "cuStreamDestroy_v2", handle)

    def wait(self, seconds: float = PATIENCE) -> None:
        """Wait until what the stream holds is done.

        Raises PolycError: ``DriverFailed`` with what a kernel did wrong, ``KernelHangs`` where it
        does not end in time.
        """
        end = time.monotonic() + seconds
        while (status := driver.answer("cuStreamQuery", c_void_p(self.handle))) == _NOT_READY:
            if time.monotonic() > end:
                raise PolycError(
                    "KernelHangs", f"what was launched has not ended after {seconds:g} seconds"
                )
            time.sleep(0.0002)
        driver.check("cuStreamQuery", status)


class Graph:
    """What ``body`` launches on ``stream``, held for running again and again."""

    def __init__(self, stream: Stream, body: Callable[[], object], index: int = 0) -> None:
        handle = c_void_p(stream.handle)
        driver.call("cuStreamBeginCapture_v2", handle, c_int(_THREAD_LOCAL))
        graph = c_void_p()
        try:
            body()
        finally:
            status = driver.answer("cuStreamEndCapture", handle, ctypes.byref(graph))
        driver.check("cuStreamEndCapture", status)
        self._stream = stream
        self._exec = c_void_p()
        try:
            driver.call(
                "cuGraphInstantiateWithFlags", ctypes.byref(self._exec), graph, c_ulonglong(0)
            )
        finally:
            driver.answer("cuGraphDestroy", graph)
        driver.release_with(self, index, "cuGraphExecDestroy", self._exec)

    def run(self, times: int = 1) -> None:
        """Put it into its stream so many times."""
        for _ in range(times):
            driver.call("cuGraphLaunch", self._exec, c_void_p(self._stream.handle))

    def seconds(self, times: int) -> float:
        """How long one of ``times`` runs takes, between two events.

        Raises PolycError as ``Stream.wait`` does.
        """
        events = [c_void_p(), c_void_p()]
        handle = c_void_p(self._stream.handle)
        try:
            for event in events:
                driver.call("cuEventCreate", ctypes.byref(event), c_uint(0))
            driver.call("cuEventRecord", events[0], handle)
            self.run(times)
            driver.call("cuEventRecord", events[1], handle)
            self._stream.wait()
            elapsed = c_float()
            driver.call("cuEventElapsedTime", ctypes.byref(elapsed), *events)
        finally:
            for event in events:
                if event.value:
                    driver.answer("cuEventDestroy_v2", event)
        return elapsed.value / 1e3 / times


def free_bytes() -> int:
    """Memory of the current GPU that is free."""
    free, total = c_size_t(), c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value
