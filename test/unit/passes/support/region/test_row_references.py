"""Scores below anything of their row: what is taken below the maximum; numbers stay (S6.10)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.ir import SSAValue

from polyc.dialects import region
from polyc.dialects.region.types import MemRefType
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.region.postpone_division import postpone
from polyc.passes.region.srnf import RegionSrnf
from polyc.passes.region.streaming_softmax import stream
from polyc.playback.region import run
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import only
from polyc.test.support.more_spellings import MORE, Parts
from polyc.test.support.region_expressions import text
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

FEW = settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)

STREAMED = (
    *("below the log-sum-exp", "below the log-sum-exp, which is an output"),
    *("below the log-sum-exp, to the base 2", "below a log-sum-exp without maximum"),
    *("log_softmax, where", "plain, log-sum-exp", "plain, times the reciprocal", "below a tensor"),
    *("below the maximum or 0", "softmax1", "softmax1, plain", "sink", "sink, joined"),
    *("multiplied by a mask, divided again", "exponentials times a mask"),
    *("exponentials chosen by a mask", "the maximum is subtracted twice"),
)


def whole(module: ModuleOp) -> ModuleOp:
    """The one kernel of a graph, in normal form."""
    module = parse_text(make_context(), str(module), "graph.mlir")
    for each in (FrontendToTiny(), TinyToIndex(), IndexToRegion(fuse="legal"), RegionSrnf()):
        each.apply(make_context(), module)
    verify(module)
    return module


def made(module: ModuleOp) -> ModuleOp:
    """The kernel with its softmax as one reduction."""
    postpone(module)
    once = text(module)
    assert not postpone(module).fired and text(module) == once
    stream(module)
    verify(module)
    return module


@pytest.mark.parametrize("name", STREAMED)
def test_weights_are_below_the_maximum_and_stream(name: str) -> None:
    before = whole(MORE[name]())
    report = postpone(before.clone())
    assert all(note.kind in ("finite-only", "reassociating") for note in report.fired)
    after = made(before)
    assert len(only(after, region.ReduceTogetherOp).states) == 3
    assert len([op for op in after.walk() if isinstance(op, region.ReduceTogetherOp)]) == 1


def inputs(
    module: ModuleOp, sizes: dict[str, int], seed: int, size: float = 1.0
) -> list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    dice = np.random.default_rng(seed)
    found = list[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]()
    for arg in only(module, region.KernelOp).ins:
        tensor = cast("MemRefType", arg.type)
        shape = [d.evaluate(sizes) for d in tensor.shape]
        if tensor.element_type == i1:
            mask = dice.random(shape) < 0.7
            mask[..., 0] = True
            found.append(mask)
            continue
        kind = np.float32 if tensor.element_type == f32 else np.float16
        found.append((size * dice.standard_normal(shape)).astype(kind))
    return found


@FEW
@given(st.integers(0, 2**32 - 1), st.sampled_from(STREAMED), st.integers(1, 5), st.integers(1, 70))
def test_numbers_stay(seed: int, name: str, rows: int, keys: int) -> None:
    before = whole(MORE[name]())
    sizes = {"H": 2, "M": rows, "N": keys}
    given = inputs(before, sizes, seed)
    right = run(only(before, region.KernelOp), given, sizes)
    found = run(only(made(before), region.KernelOp), given, sizes)
    for one, other in zip(found, right, strict=True):
        room = 2.0**-9 * float(np.abs(other.astype(np.float64)).max())
        assert np.allclose(one.astype(np.float64), other.astype(np.float64), rtol=0, atol=room)


def test_what_overflowed_has_weights_now() -> None:
    """exp(200) is infinite in f32, and the weights of real arithmetic are not."""
    before = whole(MORE["plain, log-sum-exp"]())
    sizes = {"H": 1, "M": 1, "N": 3}
    q, k, v = (np.zeros((1, n, 64), np.float16) for n in (1, 3, 3))
    q[..., 0], k[..., 0] = 40, (40, 40, 0)
    v[0, :, 0] = (1, 2, 4)
    given = [q, k, v]
    right = run(only(before, region.KernelOp), given, sizes)
    y, lse = run(only(made(before), region.KernelOp), given, sizes)
    assert np.isnan(right[0]).any() and np.isposinf(right[1]).all()
    assert y[0, 0, 0] == 1.5 and abs(float(lse.ravel()[0]) - 200 - math.log(2)) < 1e-3


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("name", ["below a tensor", "log_softmax, where", "softmax1", "sink"])
def test_rows_that_are_not_finite_are_so_still(name: str, number: float) -> None:
    """Where a query is not finite its scores are not, and so are its weights: NaN."""
    before = whole(MORE[name]())
    sizes = {"H": 1, "M": 3, "N": 5}
    given = inputs(before, sizes, 3)
    given[next(i for i, a in enumerate(given) if a.shape == (1, 3, 64))][0, 1, 0] = number
    right = run(only(before, region.KernelOp), given, sizes)[0]
    found = run(only(made(before), region.KernelOp), given, sizes)[0]
    assert (np.isnan(found) == np.isnan(right)).all()
    assert np.isnan(found[0, 1]).all() and np.isfinite(found[0, ::2].astype(np.float32)).all()


@pytest.mark.parametrize(
    ("name", "dark"),
    [("log_softmax, where", math.nan), ("exponentials times a mask", math.nan)],
)
def test_a_row_of_no_key_is_what_it_was(name: str, dark: float) -> None:
    before = whole(MORE[name]())
    sizes = {"H": 1, "M": 2, "N": 4}
    given = [np.zeros_like(a) if a.dtype == np.bool_ else a for a in inputs(before, sizes, 5)]
    right = run(only(before, region.KernelOp), given, sizes)[0]
    found = run(only(made(before), region.KernelOp), given, sizes)[0]
    assert np.array_equal(found, right, equal_nan=True) and np.isnan(right).all() == np.isnan(dark)


# What stays ----------------------------------------------------------------------------


def of_rows(s: Parts, x: SSAValue) -> ModuleOp:
    """No product makes the scores, and none weighs by them."""
    powers = s.fn("exp", x)
    return s.done(y=s.fn("div", powers, s.total(powers)))


def of_an_input(s: Parts, x: SSAValue) -> ModuleOp:
    """No product makes the scores."""
    given = s.input("x", "H", "M", "N", element=f32)
    powers = s.fn("exp", given)
    return s.after(s.fn("div", powers, s.total(powers)))


def negative(s: Parts, x: SSAValue) -> ModuleOp:
    """A factor below 0 of what a maximum is over: the largest term is that of the least."""
    shift = s.fn("mul", s.fn("sub", x, s.top(x)), s.of_f32(-0.5))
    powers = s.fn("exp", shift)
    return s.after(s.fn("div", powers, s.total(powers)))


def not_summed(s: Parts, x: SSAValue) -> ModuleOp:
    """Exponentials that weigh, and are divided by no sum."""
    return s.done(y=s.fn("exp", x))


def by_numbers(s: Parts, x: SSAValue) -> ModuleOp:
    """Multiplied by numbers, which are not 0 and 1, before they are summed."""
    powers = s.fn("exp", s.fn("sub", x, s.top(x)))
    powers = s.fn("mul", powers, s.input("times", "M", "N", element=f32))
    return s.after(s.fn("div", powers, s.total(powers)))


def other_than_0(s: Parts, x: SSAValue) -> ModuleOp:
    powers = s.where(s.mask(), s.fn("exp", s.fn("sub", x, s.top(x))), 1.0)
    return s.after(s.fn("div", powers, s.total(powers)))


STAY: tuple[Callable[[Parts, SSAValue], ModuleOp], ...] = (
    *(of_rows, of_an_input, negative, not_summed, by_numbers, other_than_0),
)


@pytest.mark.parametrize("graph", STAY, ids=lambda f: f.__name__)
def test_others_stay(graph: Callable[[Parts, SSAValue], ModuleOp]) -> None:
    s = Parts()
    module = whole(graph(s, s.scores()))
    exps = ("exponentials are taken", "is one of the scores", "cancels", "logarithm")
    fired = [note.text for note in postpone(module).fired]
    assert not [note for note in fired if any(e in note for e in exps)], fired


def test_a_maximum_of_another_row_stays() -> None:
    """What is subtracted is no maximum: a difference of inputs is a score like others."""
    s = Parts()
    x = s.fn("sub", s.scores(), s.input("shift", "H", "M", 1, element=f32))
    module = whole(s.after(s.softmax(x)))
    fired = [note.text for note in postpone(module).fired]
    assert not any("maximum of scores" in note for note in fired)


def smoothed(window: bool) -> ModuleOp:
    """Values weighed by how near features are: of neighbours, one each, or of keys, for all."""
    s = Parts()
    other = s.input("x", 4, 1, 25, 3) if window else s.input("x", 1, 25, 3)
    centre = s.input("c", 4, 30, 1, 3) if not window else s.input("c", 4, 1, 1, 3)
    far = s.fn("sub", s.cast(other, f32), s.cast(centre, f32))
    total = s.reduce("sum", s.fn("mul", far, far), 3)  # [4, 1, 25] or [4, 30, 25]
    weight = s.fn("exp", s.fn("neg", total))
    v = s.input("v", 4, 8, 1, 25) if window else s.input("v", 8, 1, 25)
    spread = s.reshape(weight, 4, 1, 1 if window else 30, 25)
    values = s.cast(v, f32)
    return s.done(y=s.reduce("sum", s.fn("mul", spread, values), 3))


@pytest.mark.parametrize("window", [True, False])
def test_distances_are_scores_where_many_weigh_the_same(window: bool) -> None:
    """Of neighbours of each point by itself no maximum is looked for."""
    module = whole(smoothed(window))
    assert bool(postpone(module).fired) is not window
