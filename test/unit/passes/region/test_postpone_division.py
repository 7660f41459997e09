"""``region-postpone-division``: where it fires, what it refuses, and that numbers stay (S6.10)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1
from xdsl.ir import SSAValue

from polyc.dialects import frontend, region
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
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Weights = Callable[[Sketch, SSAValue], SSAValue]
FEW = settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)


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


def times_inverse(s: Sketch, x: SSAValue) -> SSAValue:
    """Times the reciprocal of the sum, which stands first."""
    powers = s.fn("exp", s.fn("sub", x, s.reduce("max", x, 1, keep=True)))
    return s.fn("mul", s.fn("reciprocal", s.reduce("sum", powers, 1, keep=True)), powers)


def times_quotient(s: Sketch, x: SSAValue) -> SSAValue:
    """Times 1 over the sum."""
    powers = s.fn("exp", s.fn("sub", x, s.reduce("max", x, 1, keep=True)))
    return s.fn("mul", powers, s.fn("div", s.number(1.0), s.reduce("sum", powers, 1, keep=True)))


def by_keys(s: Sketch, x: SSAValue) -> SSAValue:
    """Multiplied by a number of each key beside, of the type that weights are rounded to."""
    return s.fn("mul", divided(s, x), s.input("keys", "N"))


def dropped(s: Sketch, x: SSAValue) -> SSAValue:
    """Dropout: times 0 or 1, and a number."""
    keep = s.cast(s.input("keep", "M", "N", element=i1), f16)
    return s.fn("mul", s.fn("mul", keep, s.softmax(x)), s.number(1 / 0.9))


def hidden(s: Sketch, x: SSAValue) -> SSAValue:
    """0 where a condition does not hold."""
    keep = s.input("keep", "M", "N", element=i1)
    return s.add(frontend.SelectOp(keep, divided(s, x), s.number(0.0)))


WEIGHTS = (
    *(softmax, own, scaled, through_f32, times_inverse, times_quotient),
    *(by_keys, dropped, hidden),
)


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
    last = [op for op in binaries if op.fn.data in ("div", "mul")][-1]
    assert last.result.type.labels == ("m", "k")
    divided = (op for op in binaries if op.fn.data == "div")
    assert all("n" not in op.result.type.labels for op in divided)
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


def by_wide_keys(s: Sketch, x: SSAValue) -> SSAValue:
    """Times a number that the type which weights are rounded to may not hold."""
    keys = s.input("keys", "N", element=f32)
    return s.cast(s.fn("mul", s.cast(divided(s, x), f32), keys), f16)


def by_computed_keys(s: Sketch, x: SSAValue) -> SSAValue:
    """Times a number that may be anything."""
    return s.fn("mul", divided(s, x), s.fn("exp", s.input("keys", "N")))


def to_one(s: Sketch, x: SSAValue) -> SSAValue:
    """Something else than 0 where a condition does not hold."""
    keep = s.input("keep", "M", "N", element=i1)
    return s.add(frontend.SelectOp(keep, divided(s, x), s.number(1.0)))


def times_sum(s: Sketch, x: SSAValue) -> SSAValue:
    """Times the sum, and not its reciprocal."""
    powers = not_divided(s, x)
    return s.fn("mul", powers, s.reduce("sum", powers, 1, keep=True))


REFUSED = (
    *(other_maximum, not_below, by_columns, not_divided, times_sum),
    *(by_wide_keys, by_computed_keys, to_one),
)


@pytest.mark.parametrize("weights", REFUSED, ids=lambda f: f.__name__)
def test_other_weights_stay(weights: Weights) -> None:
    module = weighted(weights)
    once = text(module)
    assert not postpone(module).fired and text(module) == once


def test_a_softmax_that_weighs_nothing_stays() -> None:
    s = Sketch("rows")
    module = whole(s, s.softmax(s.input("x", "M", "N")))
    assert not postpone(module).fired


# Sums of what is rounded ---------------------------------------------------------------


def rounded_powers(s: Sketch, x: SSAValue, shift: str = "max") -> SSAValue:
    top = s.reduce(shift, x, 1, keep=True)
    return s.cast(s.fn("exp", s.fn("sub", x, top)), f16)


def divided_rounded(s: Sketch, x: SSAValue) -> SSAValue:
    """What is rounded is summed, and divided."""
    powers = rounded_powers(s, x)
    return s.fn("div", powers, s.reduce("sum", powers, 1, keep=True))


def output_divided(s: Sketch, x: SSAValue) -> SSAValue:
    powers = rounded_powers(s, x)
    y = s.gemm(powers, s.input("v", "N", "K"))
    return s.fn("div", y, s.reduce("sum", powers, 1, keep=True))


def both_sums(how: str) -> ModuleOp:
    s = Sketch("weighted")
    x = s.input("x", "M", "N")
    if how == "output":
        return whole(s, output_divided(s, x))
    return whole(s, s.gemm(divided_rounded(s, x), s.input("v", "N", "K")))


@pytest.mark.parametrize("how", ["weights", "output"])
def test_weights_are_summed_before_they_are_rounded(how: str) -> None:
    module = both_sums(how)
    notes = postpone(module).fired
    assert any("before they are rounded" in n.text and n.kind == "finite-only" for n in notes)
    verify(module)
    sums = [op for op in module.walk() if isinstance(op, region.ReduceOp) and op.fn.data == "sum"]
    (plain,) = (op for op in sums if op.result.type.labels == ("m",))
    assert isinstance(plain.operand.owner, region.UnaryOp)
    stream(module)
    assert len(only(module, region.ReduceTogetherOp).states) == 3


def summed_only(s: Sketch, x: SSAValue) -> SSAValue:
    """No product reads what is rounded."""
    return s.reduce("sum", s.cast(rounded_powers(s, x), f32), 1)


def above_the_least(s: Sketch, x: SSAValue) -> SSAValue:
    powers = rounded_powers(s, x, "min")
    y = s.gemm(powers, s.input("v", "N", "K"))
    return s.fn("div", y, s.reduce("sum", powers, 1, keep=True))


def product_of_others(s: Sketch, x: SSAValue) -> SSAValue:
    """The product reads the exponentials as they are before they are rounded, rounded elsewhere."""
    top = s.reduce("max", x, 1, keep=True)
    powers = s.fn("exp", s.fn("sub", s.cast(x, f32), s.cast(top, f32)))
    total = s.reduce("sum", s.cast(s.cast(powers, bf16), f32), 1, keep=True)
    return s.fn("div", s.gemm(s.cast(powers, f16), s.input("v", "N", "K")), s.cast(total, f16))


@pytest.mark.parametrize(
    "made", [summed_only, above_the_least, product_of_others], ids=lambda f: f.__name__
)
def test_other_sums_are_of_what_is_rounded(made: Weights) -> None:
    s = Sketch("weighted")
    module = whole(s, made(s, s.input("x", "M", "N")))
    assert not any("before they are rounded" in n.text for n in postpone(module).fired)


def test_classes_choose() -> None:
    module = weighted(softmax)
    once = text(module)
    RegionPostponeDivision(classes=("exact", "reassociating")).apply(make_context(), module)
    assert text(module) == once
    RegionPostponeDivision().apply(make_context(), module)
    assert text(module) != once


MADE: dict[str, Callable[[], ModuleOp]] = {
    **{made.__name__: partial(weighted, made) for made in WEIGHTS},
    **{f"rounded {how}": partial(both_sums, how) for how in ("weights", "output")},
}


@FEW
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(list(MADE)), st.integers(1, 9), st.integers(1, 40)
)
def test_numbers_stay(seed: int, name: str, rows: int, keys: int) -> None:
    """On random values the two differ by the roundings of the weights."""
    before = MADE[name]()
    after = before.clone()
    postpone(after)
    stream(after)
    dice = np.random.default_rng(seed)
    kernel = only(before, region.KernelOp)
    sizes = {"M": rows, "N": keys, "K": 5}
    kinds = kernel.seen[: len(kernel.ins)]
    inputs = [
        (4 * dice.standard_normal([d.evaluate(sizes) for d in kind.shape])).astype(np.float16)
        for kind in kinds
    ]
    inputs = [a > 0 if k.element_type == i1 else a for a, k in zip(inputs, kinds, strict=True)]
    one, other = (run(only(m, region.KernelOp), inputs, sizes)[0] for m in (before, after))
    wide = [a.astype(np.float64) for a in (one, other)]
    largest = max(float(np.abs(a.astype(np.float64)).max()) for a in inputs)
    assert np.allclose(*wide, rtol=2e-3, atol=2.0**-11 * (1 + largest * largest))
