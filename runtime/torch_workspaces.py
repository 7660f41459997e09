"""Workspaces of PyTorch's caching allocator, for programs that run among its own work.

A workspace lives for one call.  Its memory goes back when the call's launches are in the stream, as
that of any temporary tensor does: what comes later on that stream may have it.  In a graph that
PyTorch captures it is of the graph's pool.
"""

from __future__ import annotations

import threading
from typing import Any

from polyc.runtime import torch_tensors
from polyc.runtime.arenas import Arena, Arenas


class TorchSpace(Arena):
    """The workspaces of one call."""

    def __init__(self, index: int, stream: int) -> None:
        self.lock = threading.RLock()
        self._device, self._at = f"cuda:{index}", (index, stream)
        self._tensor: Any = None

    def pointer(self, size: int) -> int:
        """The address of ``size`` bytes, whose content is open."""
        index, stream = self._at
        told = None if torch_tensors.current_stream(index) == stream else stream
        self._tensor = torch_tensors.empty([size], "i8", self._device, told)
        return int(self._tensor.data_ptr())


class TorchArenas(Arenas):
    """In the place of a program's own ``Arenas``."""

    def of(self, index: int, stream: int) -> Arena:
        """Memory for one call on ``stream`` of GPU ``index``."""
        return TorchSpace(index, stream)
