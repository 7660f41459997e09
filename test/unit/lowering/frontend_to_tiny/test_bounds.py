"""A softmax of what is known to be small takes no maximum."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny.bounds import bounds, is_within
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.tools.play import play

Made = Callable[[Sketch, SSAValue], SSAValue]


def clamp(s: Sketch, x: SSAValue, low: float, high: float) -> SSAValue:
    return s.fn("min", s.number(high), s.fn("max", x, s.number(low)))


def graph(made: Made, log: bool = False) -> ModuleOp:
    s = Sketch("f", f32)
    x = made(s, s.input("x", 4, 6, 8))
    op = frontend.LogSoftmaxOp if log else frontend.SoftmaxOp
    return s.done(y=s.add(op(x, [2])))


SMALL: dict[str, Made] = {
    "a clamp": lambda s, x: clamp(s, x, 0.0, 1.0),
    "seen in another form": lambda s, x: s.permute(
        s.reshape(clamp(s, x, -8.0, 8.0), 4, 48, 1), 0, 2, 1
    ),
    "a sigmoid": lambda s, x: s.fn("sigmoid", x),
    "relu6 of a tanh": lambda s, x: s.fn("relu6", s.fn("tanh", x)),
    "the lesser of two": lambda s, x: s.fn("min", s.fn("relu", x), s.fn("erf", x)),
}
LARGE: dict[str, Made] = {
    "anything": lambda s, x: x,
    "one end": lambda s, x: s.fn("max", x, s.number(0.0)),
    "a wide clamp": lambda s, x: clamp(s, x, 0.0, 9.0),
    "far below": lambda s, x: clamp(s, x, -100.0, 1.0),
    "what is added to": lambda s, x: s.fn("add", s.fn("sigmoid", x), x),
    "NaN": lambda s, x: s.fn("max", s.fn("tanh", x), s.number(float("nan"))),
}


def reductions(module: ModuleOp) -> list[str]:
    found = lowered(module.clone(), "sm_80", "tiny")
    return [op.fn.data for op in found.walk() if isinstance(op, tiny.ReduceOp)]


def test_the_ends_of_values() -> None:
    x = tiny.ConstantOp(-3.0)
    most = tiny.BinaryOp("max", tiny.UnaryOp("tanh", x.result).result, x.result)
    assert bounds(most.result) == (-1.0, 1.0)
    least = tiny.BinaryOp("min", most.result, tiny.UnaryOp("exp", x.result).result)
    assert bounds(least.result) == (-inf, 1.0) and bounds(x.result, 0) == (-inf, inf)
    assert is_within(most.result, 1.0) and not is_within(least.result, 8.0)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("what", [*SMALL, *LARGE])
def test_what_is_small_has_no_maximum_taken(what: str, log: bool) -> None:
    module = graph((SMALL | LARGE)[what], log)
    assert reductions(module) == (["sum"] if what in SMALL else ["max", "sum"])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("what", SMALL)
def test_it_is_the_same_softmax(what: str, log: bool) -> None:
    """Of numbers of all sizes, infinite ones and NaN."""
    x = np.random.default_rng(3).normal(0, 30, (4, 6, 8)).astype(np.float32)
    x[0, 0, :2], x[1, 1, 3] = (inf, -inf), np.nan
    module = graph(SMALL[what], log)
    right = meant(module, [x], {})
    found = play(lowered(module, "sm_80", "tiny"), "f", [x], {})
    assert found is not None
    assert_agree(found, right, what)
