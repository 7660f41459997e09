"""Scalar functions that are several ops: what they compute, and how they are written."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.ir import Block

from polyc.dialects.gpu.scalars import is_approximate, sigmoid
from polyc.runtime import nvrtc
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.tools.load import load


def test_a_sigmoid_is_one_over_one_and_a_power() -> None:
    block = Block(arg_types=[f32])
    one = arith.ConstantOp(FloatAttr(1.0, f32))
    ops = sigmoid(block.args[0], one.result)
    block.add_ops([one, *ops])
    assert [op.name for op in ops] == ["arith.negf", "math.exp", "arith.addf", "arith.divf"]
    *_, last = ops
    assert isinstance(last, arith.DivfOp) and is_approximate(last)
    assert not is_approximate(arith.DivfOp(one, one))


def gated() -> ModuleOp:
    s = Sketch("gated")
    x = s.input("x", "M", 256)
    return s.done(y=s.fn("mul", s.fn("silu", s.linear(x, "a", 512)), s.linear(x, "b", 512)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_sigmoid_takes_no_subroutine(arch: str) -> None:
    """Divisions call one for what is out of their range, and every warp of an epilogue waits."""
    module = lowered(gated(), arch, "gpu")
    program = load(str(module), arch)
    assert not program.warnings(), nvrtc.version()
    ptx = nvrtc.compile_cuda(program.sources[0], arch, "ptx").image.decode()
    assert "rcp.approx.f32" in ptx and "rcp.rn.f32" not in ptx and "div.rn.f32" not in ptx
