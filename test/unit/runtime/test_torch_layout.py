"""Whether a tensor's memory shows that it has not changed: where that is trusted."""

# pyright: basic

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from polyc.runtime import torch_guards, torch_layout
from polyc.runtime.torch_layout import Layout, layout

CLASS, VIEW = 0x1000, 0x2000
SIZES: dict[int, int] = {}
"""Bytes of a piece of memory by its address."""


def memory(count: int) -> Any:
    found = (ctypes.c_uint64 * count)()
    SIZES[ctypes.addressof(found)] = 8 * count
    return found


class Tensor(ctypes.Structure):
    """A tensor on the host: what its implementation, storage and autograd hold are words."""

    _fields_ = [("words", ctypes.c_uint64 * 12)]
    hides: str | None = None
    """A change that does not show."""

    def __init__(self, shape: Any = (), view: bool = False) -> None:
        SIZES[ctypes.addressof(self.words)] = 96
        self.storage, self.autograd = memory(6), memory(4)
        self.words[0], self.words[5] = CLASS, id(self)
        self.words[2] = ctypes.addressof(self.storage)
        self.storage[2] = self.data = 0x7000
        self.words[6] = len(shape)
        self.autograd[0] = VIEW if view else CLASS
        if view:
            self.words[3] = ctypes.addressof(self.autograd)

    def data_ptr(self) -> int:
        return 0x7000

    def requires_grad_(self, wants: bool) -> None:
        if self.hides != "requires_grad_":
            self.words[3] = ctypes.addressof(self.autograd)
            self.autograd[2] = wants

    def __getitem__(self, part: slice) -> Tensor:
        return type(self)(view=self.hides != "view")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data" and "data" in vars(self) and self.hides != "data":
            self.words[8] += 1
        super().__setattr__(name, value)

    def untyped_storage(self) -> Any:
        def resize_(size: int) -> None:
            self.storage[3] = 0 if self.hides == "storage" else size

        return SimpleNamespace(resize_=resize_)

    def add_(self, value: float) -> None:
        if self.hides == "nothing":
            self.words[8] += 1

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("_") or name.startswith("_"):
            return lambda *_: None

        def change(*_: Any) -> None:
            if self.hides != name:
                self.words[8] += 1

        return change


def library(hides: str | None = None, version: str = "2.11.0") -> Any:
    """A PyTorch all of whose tensors hide a change."""
    kind: Any = type("Tensor", (Tensor,), {"hides": hides})

    def parameter(one: Any, requires_grad: bool) -> Any:
        one.words[3] = ctypes.addressof(one.autograd)
        return one

    def swap(one: Any, other: Any) -> None:
        one.words[9] += hides != "swap"

    def clone(one: Any) -> None:
        one.storage[4] += hides != "clone"

    return SimpleNamespace(
        __version__=version,
        Tensor=kind,
        float32="float32",
        float16="float16",
        zeros=lambda *shape, device, dtype: kind(shape),
        nn=SimpleNamespace(Parameter=parameter),
        utils=SimpleNamespace(swap_tensors=swap),
        inference_mode=lambda mode: torch_layout._memory(),  # pyright: ignore
        _lazy_clone=clone,
    )


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_layout, "_usable", lambda address: SIZES.get(address, 0))
    monkeypatch.setattr(torch_layout, "_known", (None, None))


def test_it_is_found_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = library()
    found = layout(torch)
    assert found == Layout(16, 16, 24, 96, 48, 32, CLASS)
    monkeypatch.setattr(torch_layout, "_memory", None)
    assert layout(torch) is found and layout(library()) is None


def test_without_a_file_of_the_memory_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> int:
        raise FileNotFoundError("no /proc")

    monkeypatch.setattr(torch_layout.os, "open", missing)
    data = ctypes.create_string_buffer(b"some memory")
    with torch_layout._memory() as peek:
        assert peek(ctypes.addressof(data), 11) == b"some memory"
        for wrong in (0, 8, 1 << 50):
            with pytest.raises(OSError, match="no memory there"):
                peek(wrong, 8)
    assert layout(library()) is not None


HIDDEN = (
    *("requires_grad_", "resize_", "set_", "t_", "unsqueeze_", "as_strided_", "storage"),
    *("swap", "clone", "data", "view", "nothing"),
)


@pytest.mark.parametrize("hides", HIDDEN)
def test_where_a_change_does_not_show_there_is_none(hides: str) -> None:
    assert layout(library(hides)) is None


def test_a_version_that_was_not_tried_is_not_looked_at() -> None:
    assert layout(library(version="2.12.0")) is None and layout(SimpleNamespace()) is None


def test_this_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real one, where it is installed."""
    torch: Any = pytest.importorskip("torch")
    monkeypatch.undo()
    if not torch.__version__.startswith(torch_guards.TRIED):
        pytest.skip(f"PyTorch {torch.__version__} was not tried")
    assert torch_layout._tried(torch) is not None  # pyright: ignore[reportPrivateUsage]
