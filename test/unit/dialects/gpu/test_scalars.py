"""Scalar functions that are several ops: what they compute, and how they are written."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.ir import Block

from polyc.dialects import frontend
from polyc.dialects.gpu.scalars import is_approximate, sigmoid
from polyc.playback.gpu.simulate import simulate
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


def mishes() -> ModuleOp:
    s = Sketch("mishes", f32)
    x = s.input("x", 64, 64)
    told = s.fn("mul", s.fn("tanh", s.fn("softplus", x)), x)
    return s.done(y=s.fn("mish", x), z=told)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_mish_is_one_exponential_and_one_reciprocal(arch: str) -> None:
    program = load(str(lowered(mishes(), arch, "gpu")), arch)
    ptx = nvrtc.compile_cuda(program.sources[0], arch, "ptx").image.decode()
    assert "rcp.approx.f32" in ptx and "div.rn.f32" not in ptx
    assert ptx.count("ex2.approx") == ptx.count("rcp.approx.f32")
    assert "lg2" not in ptx and "log1p" not in program.sources[0]


def test_a_mish_is_near_everywhere() -> None:
    """Of small and large numbers of both signs, in the simulator and beside f64."""
    ends = [0.0, -0.0, np.inf, np.nan, 88.8, -88.8, 1e-30, -1e-30, 3e38, -3e38]
    x = np.array([*ends, *np.linspace(-90, 90, 64 * 64 - len(ends))], np.float32).reshape(64, 64)
    found = simulate(next(iter(lowered(mishes(), "sm_80", "gpu").ops)), [x], {})
    found.check()
    wide = x.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        right = wide * np.tanh(np.log1p(np.exp(-np.abs(wide))) + np.maximum(wide, 0))
    for one in found.outputs:
        np.testing.assert_allclose(one, right, rtol=2e-6, atol=1e-38)


def quotients(t: str, above: str, one: float, twice: float) -> ModuleOp:
    """What looks like the tanh of a softplus."""
    s = Sketch("quotients", f32)
    x = s.input("x", 64, 64)
    power = s.fn("exp", s.fn("neg", s.fn(t, x)))
    condition = s.add(frontend.CompareOp(above, x, s.number(0.0)))
    square, two = s.fn("mul", power, power), s.number(twice)
    first = s.add(frontend.SelectOp(condition, s.number(one), square))
    rest = s.add(frontend.SelectOp(condition, square, s.number(1.0)))
    over = s.fn("add", first, s.fn("mul", power, two))
    return s.done(y=s.fn("div", over, s.fn("add", over, s.fn("mul", rest, two))))


def test_what_only_looks_like_one_is_divided() -> None:
    def ptx(t: str, above: str, one: float, twice: float) -> str:
        source = load(str(lowered(quotients(t, above, one, twice), "sm_80", "gpu")), "sm_80")
        return nvrtc.compile_cuda(source.sources[0], "sm_80", "ptx").image.decode()

    assert "div.rn.f32" not in ptx("abs", "ge", 1.0, 2.0)
    assert "div.rn.f32" in ptx("floor", "ge", 1.0, 2.0)
    assert "div.rn.f32" in ptx("abs", "le", 1.0, 2.0)
    assert "div.rn.f32" in ptx("abs", "ge", 0.0, 2.0)
    assert "div.rn.f32" in ptx("abs", "ge", 1.0, 3.0)
