"""A CUDA driver, and a PyTorch on it, for tests of the runtime."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TypeVar
from weakref import WeakValueDictionary

import pytest

from polyc.runtime import arenas, driver
from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.support.gpu_producers import FakeTorch
from polyc.test.support.running_cuda import RunningCuda


def forget() -> None:
    """What the runtime knows of the driver."""
    driver.device.cache_clear()
    driver._context.cache_clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """A driver in Python, with two GPUs."""
    yield from _there(FakeCuda(), monkeypatch)


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCuda]:
    """The same, whose launches run a function of the test's."""
    yield from _there(RunningCuda(), monkeypatch)


Driver = TypeVar("Driver", bound=FakeCuda)


def _there(fake: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    forget()
    monkeypatch.setattr(driver, "_library", lambda: fake)
    monkeypatch.setattr(arenas, "_shared", WeakValueDictionary[arenas.Key, arenas.Arena]())
    yield fake
    forget()


@pytest.fixture
def torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    """PyTorch, as far as polyc looks at it, with tensors in the memory of ``cuda``."""
    made = FakeTorch(cuda)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made
