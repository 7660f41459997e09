"""``region-postpone-division``: where it fires, what it refuses, and that numbers stay (S6.10)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects import region
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.region.postpone_division import RegionPostponeDivision, postpone
from polyc.passes.region.srnf import RegionSrnf
from polyc.passes.region.streaming_softmax import stream
from polyc.playback.region import run
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import only
from polyc.test.support.region_expressions import text
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Weights = Callable[[Sketch, SSAValue], SSAValue]
FEW = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def divided(s: Sketch, scores: SSAValue, axis: int = 1, shift: str = "max") -> SSAValue:
    """Exponentials below a row's maximum, or another number of it, over their sum."""
    top = s.reduce(shift, scores, axis, keep=True)
    powers = s.fn("exp", s.fn("sub", scores, top))
    return s.fn("div", powers, s.reduce("sum", powers, axis, keep=True))


def whole(s: Sketch, output: SSAValue) -> ModuleOp:
    """The one kernel of a graph, in normal form."""
    module = parse_text(make_context(), str(s.done(y=output)), "graph.mlir")
    for each in (FrontendToTiny(), TinyToIndex(), IndexToRegion(fuse="legal"), RegionSrnf()):
        each.apply(make_context(), module)
    verify(module)
    return module


def softmax(s: Sketch, x: SSAValue) -> SSAValue:
    return s.softmax(x)


def own(s: Sketch, x: SSAValue) -> SSAValue:
    return divided(s, x)


def scaled(s: Sketch, x: SSAValue) -> SSAValue:
    """Scaled by a number of each row, and by one of all."""
    return s.fn("mul", s.fn("mul", divided(s, x), s.input("scale", "M", 1)), s.number(0.5))


def through_f32(s: Sketch, x: SSAValue) -> SSAValue:
    return s.cast(s.softmax(s.cast(x, f32)), f16)


WEIGHTS = (softmax, own, scaled, through_f32)


def weighted(weights: Weights) -> ModuleOp:
    s = Sketch("weighted")
    x, v = s.input("x", "M", "N"), s.input("v", "N", "K")
    return whole(s, s.gemm(weights(s, x), v))


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda f: f.__name__)
def test_the_sum_is_divided_and_not_its_weights(weights: Weights) -> None:
    module = weighted(weights)
    (note,) = postpone(module).fired
    assert note.kind == "finite-only" and "the division by the sum" in note.text
    verify(module)
    kernel = only(module, region.KernelOp)
    binaries = [op for op in module.walk() if isinstance(op, region.BinaryOp)]
    (quotient,) = (op for op in binaries if op.fn.data == "div")
    assert quotient.result.type.labels == ("m", "k")
    once = text(module)
    assert not postpone(module).fired and text(module) == once
    stream(module)
    assert len(only(module, region.ReduceTogetherOp).states) == 3
    assert not any(isinstance(op, region.ReduceOp) for op in kernel.body.block.ops)


def other_maximum(s: Sketch, x: SSAValue) -> SSAValue:
    """Below the least of a row exponentials are not bounded."""
    return divided(s, x, shift="min")


def not_below(s: Sketch, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", x)
    return s.fn("div", powers, s.reduce("sum", powers, 1, keep=True))


def by_columns(s: Sketch, x: SSAValue) -> SSAValue:
    """The maximum and the sum are of columns, the product sums rows."""
    return divided(s, x, axis=0)


def not_divided(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("exp", s.fn("sub", x, s.reduce("max", x, 1, keep=True)))


def by_keys(s: Sketch, x: SSAValue) -> SSAValue:
    """Multiplied by a number of each key beside."""
    return s.fn("mul", divided(s, x), s.input("keys", "N"))


REFUSED = (other_maximum, not_below, by_columns, not_divided, by_keys)


@pytest.mark.parametrize("weights", REFUSED, ids=lambda f: f.__name__)
def test_other_weights_stay(weights: Weights) -> None:
    module = weighted(weights)
    once = text(module)
    assert not postpone(module).fired and text(module) == once


def test_a_softmax_that_weighs_nothing_stays() -> None:
    s = Sketch("rows")
    module = whole(s, s.softmax(s.input("x", "M", "N")))
    assert not postpone(module).fired


def test_classes_choose() -> None:
    module = weighted(softmax)
    once = text(module)
    RegionPostponeDivision(classes=("exact", "reassociating")).apply(make_context(), module)
    assert text(module) == once
    RegionPostponeDivision().apply(make_context(), module)
    assert text(module) != once


@FEW
@given(st.integers(0, 2**32 - 1), st.sampled_from(WEIGHTS), st.integers(1, 9), st.integers(1, 40))
def test_numbers_stay(seed: int, weights: Weights, rows: int, keys: int) -> None:
    """On random values the two differ by the roundings of the weights."""
    before = weighted(weights)
    after = before.clone()
    postpone(after)
    stream(after)
    dice = np.random.default_rng(seed)
    kernel = only(before, region.KernelOp)
    sizes = {"M": rows, "N": keys, "K": 5}
    inputs = [
        (4 * dice.standard_normal([d.evaluate(sizes) for d in kind.shape])).astype(np.float16)
        for kind in kernel.seen[: len(kernel.ins)]
    ]
    one, other = (run(only(m, region.KernelOp), inputs, sizes)[0] for m in (before, after))
    wide = [a.astype(np.float64) for a in (one, other)]
    largest = max(float(np.abs(a.astype(np.float64)).max()) for a in inputs)
    assert np.allclose(*wide, rtol=2e-3, atol=2.0**-11 * (1 + largest * largest))
