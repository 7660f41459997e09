"""tiny-split-reductions: it fires, it refuses, and it changes no value beyond a sum's order."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects import tiny
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.passes.pipeline import build
from polyc.passes.tiny.split_reductions import SplitReduction
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context


def text(shape: tuple[int, ...], axes: tuple[int, ...], fn: str = "sum", kind: str = "f32") -> str:
    """A graph that reduces ``x``."""
    whole = f"!tiny.tensor<{list(shape)}, {kind}>"
    left = f"!tiny.tensor<{[n for at, n in enumerate(shape) if at not in axes]}, {kind}>"
    return (
        f"tiny.graph @g(%x: {whole}) -> (Y: {left}) {{\n"
        f"  %0 = tiny.reduce {fn} %x axes {list(axes)} : {whole} -> {left}\n"
        f"  tiny.output %0 : {left}\n}}\n"
    )


def steps(shape: tuple[int, ...], axes: tuple[int, ...], **more: str) -> list[tuple[int, ...]]:
    """The axes of each reduction afterwards."""
    module = parsed(text(shape, axes, **more))
    rewrite(module, [SplitReduction()])
    verify(module)
    return [op.axes for op in find(module, tiny.ReduceOp)]


FIRES = {
    "between kept ones": ((457, 272, 104, 2, 2), (0, 2, 4), [(0,), (1,), (2,)]),
    "the last one": ((979846, 2, 5, 3, 2), (0, 3), [(0,), (2,)]),
    "a short row": ((528, 3072, 4, 2), (1, 3), [(1,), (2,)]),
    "two runs outside": ((24, 1245, 5, 2), (0, 1, 3), [(0, 1), (1,)]),
}


@pytest.mark.parametrize(("shape", "axes", "wanted"), FIRES.values(), ids=FIRES)
def test_it_is_done_in_steps(
    shape: tuple[int, ...], axes: tuple[int, ...], wanted: list[tuple[int, ...]]
) -> None:
    assert steps(shape, axes) == wanted


REFUSES = {
    "long rows": ((512, 8, 64), (0, 2)),
    "many rows of a warp": ((16, 11296, 48), (0, 2)),
    "one run": ((512, 512, 3), (0, 1)),
    "nothing is outside": ((512, 8, 4, 3), (3,)),
    "little is outside": ((8, 8192, 4), (0, 2)),
    "a small tensor": ((64, 8, 4), (0, 2)),
    "no element": ((0, 8, 4), (0, 2)),
}


@pytest.mark.parametrize(("shape", "axes"), REFUSES.values(), ids=REFUSES)
def test_it_stays(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert steps(shape, axes) == [axes]


def test_integers_too() -> None:
    assert steps((4096, 8, 4), (0, 2), kind="i32") == [(0,), (1,)]


def test_a_sum_of_products_stays() -> None:
    kind = "!tiny.tensor<[4096, 8, 4], f32>"
    module = parsed(
        f"tiny.graph @g(%x: {kind}, %y: {kind}) -> (Y: !tiny.tensor<[8], f32>) {{\n"
        f"  %p = tiny.binary mul %x, %y : {kind}\n"
        f"  %0 = tiny.reduce sum %p axes [0, 2] : {kind} -> !tiny.tensor<[8], f32>\n"
        "  tiny.output %0 : !tiny.tensor<[8], f32>\n}\n"
    )
    rewrite(module, [SplitReduction()])
    assert len(find(module, tiny.ReduceOp)) == 1


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 5, 24, 40, 300]), min_size=2, max_size=5),
    st.sets(st.integers(0, 4), min_size=1),
    st.sampled_from(["sum", "max", "min", "prod"]),
)
def test_values_are_the_same(sizes: list[int], chosen: set[int], fn: str) -> None:
    shape = tuple(sizes)
    axes = tuple(sorted(axis for axis in chosen if axis < len(shape)))
    if not axes or prod(shape) > 1 << 20:
        return
    module = parsed(text(shape, axes, fn))
    x = np.random.default_rng(len(shape)).normal(1.0, 0.01, shape).astype(np.float32)
    (wanted,) = run(only(module, tiny.GraphOp), [x], {})
    rewrite(module, [SplitReduction()])
    verify(module)
    (found,) = run(only(module, tiny.GraphOp), [x], {})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_each_step_is_a_kernel() -> None:
    """The mean is stored, too: what sums squares about it would sum for each of its points."""
    kind, kept = "!frontend.tensor<[512, 8, 104, 2, 2], f16>", "!frontend.tensor<[8, 2], f16>"
    one = "!frontend.tensor<[1, 8, 1, 2, 1], f16>"
    module = parsed(
        f"frontend.graph @g(%x: {kind}) -> (Y: {kept}) {{\n"
        f"  %m = frontend.reduce mean %x axes [0, 2, 4] keepdims : {kind} -> {one}\n"
        f"  %d = frontend.elementwise sub %x, %m : ({kind}, {one}) -> {kind}\n"
        f"  %s = frontend.elementwise mul %d, %d : ({kind}, {kind}) -> {kind}\n"
        f"  %y = frontend.reduce mean %s axes [0, 2, 4] : {kind} -> {kept}\n"
        f"  frontend.output %y : {kept}\n}}\n"
    )
    for name in ("frontend-to-tiny", "tiny-split-reductions", "tiny-to-index", "index-to-region"):
        build(name, "sm_90a").apply(make_context(), module)
    kernels = find(module, KernelOp)
    assert [len(find(kernel, ReduceOp)) for kernel in kernels] == [1] * 4
