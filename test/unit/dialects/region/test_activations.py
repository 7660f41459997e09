"""The tanh of a softplus, and what looks like one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from polyc.cost.values import operations
from polyc.dialects.region import UnaryOp
from polyc.dialects.region.activations import is_left_out, under_softplus
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch

Made = Callable[[Sketch, SSAValue, SSAValue], SSAValue]


def tail(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("log1p", s.fn("exp", s.fn("neg", s.fn("abs", x))))


def unaries(made: Made) -> dict[str, UnaryOp]:
    """The unary ops of a region that stores the tanh of what is made of x and y."""
    s = Sketch("f", f32)
    x, y = s.input("x", 8, 64), s.input("y", 8, 64)
    module = lowered(s.done(z=s.fn("tanh", made(s, x, y))), "sm_80", "region")
    return {op.fn.data: op for op in module.walk() if isinstance(op, UnaryOp)}


@pytest.mark.parametrize(
    "made",
    [
        lambda s, x, y: s.fn("softplus", x),
        lambda s, x, y: s.fn("add", tail(s, x), s.fn("max", s.number(0.0), x)),
    ],
)
def test_the_tanh_of_a_softplus_takes_no_logarithm(made: Made) -> None:
    found = unaries(made)
    assert under_softplus(found["tanh"]) is found["abs"].operand
    assert is_left_out(found["log1p"]) and operations(found["log1p"]) == 0


@pytest.mark.parametrize(
    "made",
    [
        lambda s, x, y: s.fn("add", tail(s, x), s.fn("max", y, s.number(0.0))),
        lambda s, x, y: s.fn("add", tail(s, x), s.fn("max", x, s.number(1.0))),
        lambda s, x, y: s.fn("add", tail(s, x), s.fn("min", x, s.number(0.0))),
        lambda s, x, y: s.fn("sub", s.fn("relu", x), tail(s, x)),
        lambda s, x, y: s.fn("add", s.fn("relu", x), s.fn("log1p", s.fn("exp", s.fn("abs", x)))),
    ],
)
def test_what_is_none_keeps_its_functions(made: Made) -> None:
    found = unaries(made)
    assert under_softplus(found["tanh"]) is None and not is_left_out(found["log1p"])


def test_a_softplus_that_is_wanted_too_keeps_its_logarithm() -> None:
    s = Sketch("f", f32)
    y = s.fn("softplus", s.input("x", 8, 64))
    module = lowered(s.done(y=y, z=s.fn("tanh", y)), "sm_80", "region")
    found = [op for op in module.walk() if isinstance(op, UnaryOp) and op.fn.data == "log1p"]
    assert found and not any(is_left_out(op) for op in found)
