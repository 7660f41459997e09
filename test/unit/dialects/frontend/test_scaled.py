"""Factors of products that are a loaded tensor times a number: what is one, and what is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import SSAValue

from polyc.dialects.frontend.scaled import scaled_load
from polyc.test.support.sketch import Sketch

Made = Callable[[Sketch, SSAValue], SSAValue]


def plain(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", x, s.number(0.25))


def number_first(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", s.number(0.25), x)


def moved(s: Sketch, x: SSAValue) -> SSAValue:
    """Moved before it is scaled, and after."""
    turned = s.permute(s.reshape(x, "M", 2, 32), 1, 0, 2)
    return s.cut(plain(s, turned), 0, 0, 1)


@pytest.mark.parametrize("made", [plain, number_first, moved], ids=lambda f: f.__name__)
def test_a_scaled_input_is_found(made: Made) -> None:
    s = Sketch("scaled")
    found = scaled_load(made(s, s.input("x", "M", 64)))
    assert found is not None and (found.function, found.number) == ("mul", 0.25)
    assert len(found.moves) == (1 if made is moved else 0)


def test_a_divided_input_is_found() -> None:
    s = Sketch("scaled")
    found = scaled_load(s.fn("div", s.input("x", "M", 64), s.number(8.0)))
    assert found is not None and (found.function, found.number) == ("div", 8.0)


def as_it_is(s: Sketch, x: SSAValue) -> SSAValue:
    return x


def over_it(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("div", s.number(1.0), x)


def added(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("add", x, s.number(1.0))


def rounded(s: Sketch, x: SSAValue) -> SSAValue:
    """The user rounds what is scaled."""
    wide = s.cast(x, f32)
    number = s.cast(s.number(0.25), f32)
    return s.cast(s.fn("mul", wide, number), f16)


def computed(s: Sketch, x: SSAValue) -> SSAValue:
    """What is scaled is not in memory, and is rounded once."""
    return plain(s, s.fn("tanh", x))


def by_a_tensor(s: Sketch, x: SSAValue) -> SSAValue:
    """It may be infinite."""
    return s.fn("mul", x, s.input("scale", 1))


def by(number: float) -> Made:
    def scaled(s: Sketch, x: SSAValue) -> SSAValue:
        return s.fn("mul", x, s.number(number))

    scaled.__name__ = f"by {number}"
    return scaled


OTHERS = (
    as_it_is,
    over_it,
    added,
    rounded,
    computed,
    by_a_tensor,
    by(0.0),
    by(float("inf")),
    by(float("nan")),
    by(2.0**-140),
)


@pytest.mark.parametrize("made", OTHERS, ids=lambda f: f.__name__)
def test_other_factors_are_none(made: Made) -> None:
    s = Sketch("scaled")
    assert scaled_load(made(s, s.input("x", "M", 64))) is None
