"""``ScaleAfterProduct``: where it fires, what it leaves, and that numbers stay (S0.6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.lowering.frontend_to_tiny.scales import ScaleAfterProduct
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only, printed
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.play import play

Made = Callable[[Sketch, SSAValue, SSAValue], SSAValue]
FEW = settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)


def first(s: Sketch, x: SSAValue, y: SSAValue) -> SSAValue:
    return s.gemm(s.fn("mul", x, s.number(0.3)), y)


def second(s: Sketch, x: SSAValue, y: SSAValue) -> SSAValue:
    return s.gemm(x, s.fn("div", y, s.number(-7.0)), element=f32)


def both(s: Sketch, x: SSAValue, y: SSAValue) -> SSAValue:
    return s.gemm(s.fn("mul", s.number(0.3), x), s.fn("mul", y, s.number(0.6)))


def moved(s: Sketch, x: SSAValue, y: SSAValue) -> SSAValue:
    """In heads, scaled before they are apart."""
    scaled = s.fn("mul", x, s.number(1e-3))
    heads = s.permute(s.reshape(scaled, "M", 2, 4), 1, 0, 2)
    others = s.permute(s.reshape(y, 2, 4, "N"), 0, 2, 1)
    return s.gemm(heads, others, turned=True)


MADE: dict[Made, int] = {first: 1, second: 1, both: 2, moved: 1}


def whole(made: Made) -> ModuleOp:
    s = Sketch("scaled")
    return s.done(out=made(s, s.input("x", "M", 8), s.input("y", 8, "N")))


def scale(module: ModuleOp) -> ModuleOp:
    rewrite(module, [ScaleAfterProduct()], recursive=True)
    verify(module)
    return module


@pytest.mark.parametrize("made", MADE, ids=lambda f: f.__name__)
def test_numbers_follow_the_product(made: Made) -> None:
    module = scale(whole(made))
    ops = list(only(module, frontend.GraphOp).body.block.ops)
    (product,) = (i for i, op in enumerate(ops) if isinstance(op, frontend.GemmOp))
    scales = [i for i, op in enumerate(ops) if isinstance(op, frontend.ElementwiseOp)]
    assert len(scales) == MADE[made] and min(scales) > product
    once = printed(module)
    assert printed(scale(module)) == once


def rounded(s: Sketch, x: SSAValue, y: SSAValue) -> SSAValue:
    """The user rounds the scaled factor."""
    wide = s.fn("mul", s.cast(x, f32), s.cast(s.number(0.3), f32))
    return s.gemm(s.cast(wide, f16), y)


def computed(s: Sketch, x: SSAValue, y: SSAValue) -> SSAValue:
    return s.gemm(s.fn("mul", s.fn("relu", x), s.number(0.3)), y)


def by_a_tensor(s: Sketch, x: SSAValue, y: SSAValue) -> SSAValue:
    return s.gemm(s.fn("mul", x, s.input("scale", 1)), y)


@pytest.mark.parametrize("made", [rounded, computed, by_a_tensor], ids=lambda f: f.__name__)
def test_other_factors_stay(made: Made) -> None:
    module = whole(made)
    once = printed(module)
    assert printed(scale(module)) == once


def test_what_else_reads_the_scaled_factor_keeps_it() -> None:
    s = Sketch("scaled")
    x = s.fn("mul", s.input("x", "M", 8), s.number(0.3))
    module = scale(s.done(out=s.gemm(x, s.input("y", 8, "N")), z=x))
    scales = [op for op in module.walk() if isinstance(op, frontend.ElementwiseOp)]
    assert len(scales) == 2


@FEW
@given(st.integers(0, 2**31), st.sampled_from(list(MADE)), st.integers(1, 9), st.integers(1, 9))
def test_numbers_stay(seed: int, made: Made, m: int, n: int) -> None:
    """What it makes agrees with what the graph means, which allows for the rounding."""
    module, sizes = whole(made), {"M": m, "N": n}
    draws = ("uniform", "mixed", "rows", "tiny", "special")
    graph = only(module, frontend.GraphOp)
    inputs = make_inputs(graph, sizes, seed, draws[seed % len(draws)])
    right = meant(module, inputs, sizes)
    found = play(scale(module), "scaled", inputs, sizes)
    assert found is not None
    assert_agree(found, right, made.__name__)


def test_the_reference_allows_for_no_more() -> None:
    """A factor off by a thousandth is seen."""
    module, sizes = whole(first), {"M": 9, "N": 9}
    inputs = make_inputs(only(module, frontend.GraphOp), sizes, 1)
    right = meant(module, inputs, sizes)
    found = play(module, "scaled", inputs, sizes)
    assert found is not None
    with pytest.raises(AssertionError):
        assert_agree([np.asarray(found[0] * np.float16(1.003))], right)
