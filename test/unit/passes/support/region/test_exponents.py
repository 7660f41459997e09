"""A softmax's exponentials, however they are spelled: what is one; numbers stay (S6.10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend, region
from polyc.dialects.frontend.weights import are_weights
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.region.srnf import RegionSrnf
from polyc.passes.region.streaming_softmax import stream
from polyc.passes.support.region.exponents import exponents
from polyc.playback.region import run
from polyc.rewriting.driver import rewrite, verify
from polyc.rewriting.notes import Report
from polyc.rewriting.region.softmax_sums import LEAST_F32
from polyc.test.support.gpu_text import only
from polyc.test.support.region_expressions import text
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Powers = Callable[[Sketch, SSAValue], SSAValue]
FEW = settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)


def top_of(s: Sketch, x: SSAValue, fn: str = "max") -> SSAValue:
    return s.reduce(fn, x, 1, keep=True)


def of_two(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("pow", s.number(2.0), s.fn("sub", x, top_of(s, x)))


def of_ten_scaled(s: Sketch, x: SSAValue) -> SSAValue:
    below = s.fn("sub", x, top_of(s, x))
    return s.fn("pow", s.number(10.0), s.fn("mul", s.number(0.25), below))


def apart(s: Sketch, x: SSAValue) -> SSAValue:
    """The row and its maximum are scaled one by one."""
    c = s.number(0.125)
    return s.fn("exp", s.fn("sub", s.fn("mul", x, c), s.fn("mul", c, top_of(s, x))))


def of_two_apart(s: Sketch, x: SSAValue) -> SSAValue:
    """A guarded maximum, as people write it for rows that see nothing."""
    top = s.fn("max", top_of(s, x), s.number(LEAST_F32))
    return s.fn("pow", s.number(2.0), s.fn("sub", x, top))


MADE = (of_two, of_ten_scaled, apart, of_two_apart)


def of_half(s: Sketch, x: SSAValue) -> SSAValue:
    """It grows below a maximum."""
    return s.fn("pow", s.number(0.5), s.fn("sub", x, top_of(s, x)))


def above(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("pow", s.number(2.0), s.fn("sub", x, top_of(s, x, "min")))


def other_scales(s: Sketch, x: SSAValue) -> SSAValue:
    left, right = s.fn("mul", x, s.number(0.5)), s.fn("mul", top_of(s, x), s.number(0.25))
    return s.fn("exp", s.fn("sub", left, right))


def negative(s: Sketch, x: SSAValue) -> SSAValue:
    c = s.number(-0.5)
    return s.fn("exp", s.fn("sub", s.fn("mul", x, c), s.fn("mul", top_of(s, x), c)))


def of_another(s: Sketch, x: SSAValue) -> SSAValue:
    c = s.number(0.5)
    top = top_of(s, s.fn("abs", x))
    return s.fn("exp", s.fn("sub", s.fn("mul", x, c), s.fn("mul", top, c)))


def clamped(s: Sketch, x: SSAValue) -> SSAValue:
    """A number that a maximum may be below."""
    top = s.fn("max", top_of(s, x), s.number(-65504.0))
    return s.fn("pow", s.number(2.0), s.fn("sub", x, top))


OTHERS = (of_half, above, other_scales, negative, of_another, clamped)


def whole(powers: Powers, beside: bool = False) -> ModuleOp:
    """A row's weights times values, over their sum; ``beside`` are the powers."""
    s = Sketch("weighted", f32)
    found = powers(s, s.input("x", "M", "N"))
    y = s.gemm(s.cast(found, f16), s.input("v", "N", "K", element=f16), element=f32)
    y = s.fn("div", y, s.reduce("sum", found, 1, keep=True))
    module = s.done(y=y, p=found) if beside else s.done(y=y)
    module = parse_text(make_context(), str(module), "graph.mlir")
    for each in (FrontendToTiny(), TinyToIndex(), IndexToRegion(fuse="legal"), RegionSrnf()):
        each.apply(make_context(), module)
    return module


def rewritten(module: ModuleOp) -> Report:
    report = Report()
    rewrite(module, list(exponents(report)), recursive=True)
    verify(module)
    return report


@pytest.mark.parametrize("powers", MADE, ids=lambda f: f.__name__)
def test_exponentials_are_found_and_stream(powers: Powers) -> None:
    module = whole(powers)
    (note,) = rewritten(module).fired
    assert note.kind == ("finite-only" if powers is apart else "reassociating")
    once = text(module)
    assert not rewritten(module).fired and text(module) == once
    stream(module)
    assert len(only(module, region.ReduceTogetherOp).states) == 3


@pytest.mark.parametrize("powers", OTHERS, ids=lambda f: f.__name__)
def test_others_stay(powers: Powers) -> None:
    module = whole(powers)
    once = text(module)
    assert not rewritten(module).fired and text(module) == once


def test_powers_that_are_an_output_stay() -> None:
    """Its error is small beside the largest term of a sum, and not beside itself."""
    module = whole(of_two, beside=True)
    assert not any("power" in note.text for note in rewritten(module).fired)


@FEW
@given(st.integers(0, 2**32 - 1), st.sampled_from(MADE), st.integers(1, 9), st.integers(1, 90))
def test_numbers_stay(seed: int, powers: Powers, rows: int, keys: int) -> None:
    before = whole(powers)
    after = before.clone()
    assert rewritten(after).fired
    stream(after)
    dice = np.random.default_rng(seed)
    sizes = {"M": rows, "N": keys, "K": 5}
    x = (8 * dice.standard_normal((rows, keys))).astype(np.float32)
    x[dice.random(x.shape) < 0.2] = -np.inf
    x[:, 0] = dice.standard_normal(rows)
    v = dice.standard_normal((keys, 5)).astype(np.float16)
    one, other = (
        run(only(m, region.KernelOp), [x, v], sizes)[0].astype(np.float64) for m in (before, after)
    )
    assert np.allclose(one, other, rtol=0, atol=2.0**-11 * float(np.abs(v).max()))


def test_a_row_of_no_key_is_what_it_was() -> None:
    """The least number takes the place of -inf: all weights are 0, and so is their sum."""
    module = whole(of_two_apart)
    sizes = {"M": 1, "N": 3, "K": 2}
    inputs = [np.full((1, 3), -np.inf, np.float32), np.ones((3, 2), np.float16)]
    before = run(only(module, region.KernelOp), inputs, sizes)[0]
    assert rewritten(module).fired
    stream(module)
    after = run(only(module, region.KernelOp), inputs, sizes)[0]
    assert np.isnan(before).all() and np.isnan(after).all()


def test_the_reference_knows_them_as_weights() -> None:
    """Every op that is rewritten is one whose rounding the reference leaves open."""
    for powers in MADE:
        s = Sketch("known", f32)
        found = powers(s, s.input("x", "M", "N"))
        assert isinstance(found.owner, frontend.ElementwiseOp) and are_weights(found)
