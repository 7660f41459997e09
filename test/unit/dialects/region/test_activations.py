"""The quotient that the tanh of a softplus is, and what looks like one."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, f32

from polyc.dialects.region import BinaryOp
from polyc.dialects.region.activations import is_tanh_of_softplus
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch


def quotients(module: ModuleOp) -> list[bool]:
    found = lowered(module, "sm_80", "region")
    ops = [op for op in found.walk() if isinstance(op, BinaryOp) and op.fn.data == "div"]
    return [is_tanh_of_softplus(op) for op in ops]


@pytest.mark.parametrize("name", ["mish", "tanh of a softplus"])
def test_it_is_known(name: str) -> None:
    s = Sketch("f", f32)
    x = s.input("x", 8, 64)
    y = s.fn("mish", x) if name == "mish" else s.fn("tanh", s.fn("softplus", x))
    assert quotients(s.done(y=y)) == [True]


@pytest.mark.parametrize("name", ["softsign", "hard_sigmoid"])
def test_other_quotients_are_none(name: str) -> None:
    s = Sketch("f", f32)
    assert quotients(s.done(y=s.fn(name, s.input("x", 8, 64)))) == [False]
    s = Sketch("f", f32)
    x, y = s.input("x", 8, 64), s.input("y", 8, 64)
    assert quotients(s.done(z=s.fn("div", x, s.fn("add", x, y)))) == [False]
