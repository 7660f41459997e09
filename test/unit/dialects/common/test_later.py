"""Dataclasses whose methods are made by the first call do what all others do."""

# pyright: basic

from __future__ import annotations

import dataclasses
import sys
from types import ModuleType
from typing import Any

import pytest

from polyc.dialects.common import later

TEXT = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Frozen:
    a: int
    b: tuple = ()
    c: object = field(default=None, compare=False, repr=False)

@dataclass(frozen=True, slots=True)
class Slots:
    a: int

@dataclass
class Plain:
    a: int
    def __repr__(self):
        return "own"

@dataclass(order=True)
class Ordered(Plain):
    b: int = 0

class Below(Frozen):
    pass
"""


def made(package: str) -> dict[str, Any]:
    """The classes of ``TEXT`` in a module of a package."""
    module = ModuleType(f"{package}.made_for_a_test")
    sys.modules[module.__name__] = module
    try:
        exec(TEXT, module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module.__dict__


@pytest.fixture
def pair() -> tuple[dict[str, Any], dict[str, Any]]:
    """The same classes, of polyc's and of somebody else's."""
    assert "exec" in vars(dataclasses)
    return made("polyc"), made("others")


def of_later(kind: type, name: str) -> bool:
    return getattr(kind, name).__code__.co_filename == later.__file__


def outcomes(classes: dict[str, Any]) -> list[Any]:
    """What their methods do."""
    frozen, slots, plain, ordered, below = (
        classes[name] for name in ("Frozen", "Slots", "Plain", "Ordered", "Below")
    )
    one = frozen(1, (2,), 3)
    found: list[Any] = [one == frozen(1, (2,), 4), one == frozen(2), one == 1, one != below(1)]
    found += [hash(one) == hash(frozen(1, (2,))), repr(one), repr(below(1)), repr(slots(2))]
    found += [slots(1) == slots(1), hash(slots(1)) == hash(slots(1)), plain(1) == plain(1)]
    found += [repr(plain(1)), plain.__hash__, ordered(1, 2) < ordered(1, 3), repr(ordered(1))]
    for value in (one, below(1), slots(1)):
        for act in (lambda v: setattr(v, "a", 2), lambda v: delattr(v, "a")):
            with pytest.raises(dataclasses.FrozenInstanceError) as caught:
                act(value)
            found.append(str(caught.value))
    free = below(1)
    free.other = 2  # no field of the frozen class
    return [*found, free.other, [m.__qualname__ for m in (frozen.__eq__, slots.__hash__)]]


def test_they_do_the_same(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    ours, others = pair
    assert outcomes(ours) == outcomes(others)


def test_they_are_made_by_the_first_call(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    if sys.version_info >= (3, 13):
        pytest.skip("this Python writes one text for a class")
    ours, others = pair
    frozen = ours["Frozen"]
    assert all(of_later(frozen, name) for name in ("__eq__", "__hash__", "__setattr__"))
    assert not of_later(others["Frozen"], "__eq__") and not of_later(frozen, "__init__")
    assert ours["Below"](1) == ours["Below"](1)
    assert not of_later(frozen, "__eq__") and of_later(frozen, "__hash__")
    # It stays where it was put: what another class took before is made as well.
    kept = frozen.__hash__
    assert hash(frozen(1)) == kept(frozen(1)) == frozen.__hash__(frozen(1))


def test_it_is_installed_once() -> None:
    before = vars(dataclasses)["exec"]
    later.install()
    assert vars(dataclasses)["exec"] is before
