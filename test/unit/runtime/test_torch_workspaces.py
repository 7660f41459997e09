"""Workspaces of PyTorch's allocator: memory of the stream of a call, and for that call alone."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from polyc.runtime import torch_tensors
from polyc.runtime.arenas import Arena
from polyc.runtime.torch_workspaces import TorchArenas


class Memory:
    """A tensor as far as it is asked."""

    def data_ptr(self) -> int:
        return 4096


@pytest.mark.parametrize(("current", "told"), [(7, None), (8, 7)])
def test_memory_is_of_the_stream_of_the_call(
    monkeypatch: pytest.MonkeyPatch, current: int, told: int | None
) -> None:
    asked: list[tuple[Any, ...]] = []
    alive: list[weakref.ref[Memory]] = []

    def empty(shape: Sequence[int], element: str, device: Any, stream: int | None = None) -> Memory:
        asked.append((list(shape), element, device, stream))
        made = Memory()
        alive.append(weakref.ref(made))
        return made

    def stream_of(index: int) -> int:
        return current

    monkeypatch.setattr(torch_tensors, "empty", empty)
    monkeypatch.setattr(torch_tensors, "current_stream", stream_of)
    arenas = TorchArenas()
    space = arenas.of(1, 7)
    assert isinstance(space, Arena) and space.pointer(300) == 4096
    assert asked == [([300], "i8", "cuda:1", told)]
    # Two calls have memory of their own, which goes with each.
    assert arenas.of(1, 7) is not space
    assert alive[0]() is not None
    del space
    assert alive[0]() is None
