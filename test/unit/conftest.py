"""A CUDA driver, and a PyTorch on it, for tests of the runtime."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.support.gpu_producers import FakeTorch
from polyc.test.support.in_place import in_place
from polyc.test.support.running_cuda import RunningCuda


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real PyTorch, where another test has loaded it, knows nothing of a driver in Python."""
    if "torch" in sys.modules:
        monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, no_torch: None) -> Iterator[FakeCuda]:
    """A driver in Python, with two GPUs."""
    yield from in_place(FakeCuda(), monkeypatch)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch, no_torch: None) -> Iterator[RunningCuda]:
    """The same, whose launches run a function of the test's."""
    yield from in_place(RunningCuda(), monkeypatch)


@pytest.fixture
def torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """PyTorch, as far as polyc looks at it, with tensors in the memory of ``cuda``."""
    made = FakeTorch(cuda)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made
