"""What follows a convolution along one axis is part of its kernel (S6.3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.tools.play import play

Made = Callable[[Sketch, SSAValue, str], SSAValue]


def conv(s: Sketch, x: SSAValue, layout: str) -> SSAValue:
    """128 filters of 3 taps over 64 channels."""
    weight = s.input("w", 128, *((64, 3) if layout == "ncw" else (3, 64)))
    return s.add(frontend.Conv1dOp(x, weight, layout=layout, padding=[1, 1]))


def biased(s: Sketch, x: SSAValue, layout: str) -> SSAValue:
    bias = s.input("b", *((128, 1) if layout == "ncw" else (128,)))
    return s.fn("add", conv(s, x, layout), bias)


def active(s: Sketch, x: SSAValue, layout: str) -> SSAValue:
    return s.fn("gelu", biased(s, x, layout))


def residual(s: Sketch, x: SSAValue, layout: str) -> SSAValue:
    shape = ("N", 128, "L") if layout == "ncw" else ("N", "L", 128)
    return s.fn("add", s.fn("silu", biased(s, x, layout)), s.input("r", *shape))


def program(made: Made, layout: str, element: Attribute = f16) -> ModuleOp:
    s = Sketch("g", element)
    x = s.input("x", *(("N", 64, "L") if layout == "ncw" else ("N", "L", 64)))
    return s.done(y=made(s, x, layout))


@pytest.mark.turns(2)
@pytest.mark.parametrize("element", [f16, f32], ids=str)
@pytest.mark.parametrize("layout", ["ncw", "nwc"])
@pytest.mark.parametrize("made", [biased, active, residual], ids=lambda f: f.__name__)
def test_functions_end_the_kernel(made: Made, layout: str, element: Attribute) -> None:
    """No kernel reads what the convolution has stored, and numbers are what the graph means."""
    module, sizes = program(made, layout, element), {"N": 2, "L": 9}
    kernels = find(lowered(module, "sm_90a", "region"), KernelOp)
    (whole,) = (k for k in kernels if find(k, ReduceOp))
    assert kernels[-1] is whole
    inputs = make_inputs(only(module, frontend.GraphOp), sizes, 3)
    found = play(lowered(module, "sm_90a", "region"), "g", inputs, sizes)
    assert found is not None
    assert_agree(list(found), meant(module, inputs, sizes), made.__name__)


def squeezed(s: Sketch, x: SSAValue, layout: str) -> SSAValue:
    """An axis of one point that no convolution has left."""
    wide = s.reshape(s.fn("exp", x), "N", 64, 1, "L")
    return s.fn("sin", s.reshape(s.fn("exp", wide), "N", 64, "L"))


def test_other_reshapes_stay_where_they_are() -> None:
    tinied = lowered(program(squeezed, "ncw"), "sm_90a", "tiny")
    names = [op.name for op in tinied.walk() if op.name.startswith("tiny.")]
    last = max(at for at, name in enumerate(names) if name == "tiny.unary")
    assert "tiny.reshape" not in names[last:]
