"""A stand-in of the driver in the place of the driver, for as long as a test lasts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar
from weakref import WeakValueDictionary

import pytest

from polyc.runtime import arenas, driver
from polyc.test.support.fake_cuda import FakeCuda

Driver = TypeVar("Driver", bound=FakeCuda)


def _forget() -> None:
    """What the runtime knows of the driver."""
    driver.device.cache_clear()
    driver._context.cache_clear()  # pyright: ignore[reportPrivateUsage]


def in_place(fake: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """The runtime uses ``fake`` until the generator goes on."""
    _forget()
    monkeypatch.setattr(driver, "_library", lambda: fake)
    monkeypatch.setattr(arenas, "_shared", WeakValueDictionary[arenas.Key, arenas.Arena]())
    yield fake
    _forget()
