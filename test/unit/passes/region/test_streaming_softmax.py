"""``region-streaming-softmax`` (S6.10): every softmax and attention, by chunks of every size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import region
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.region.srnf import RegionSrnf
from polyc.passes.region.streaming_softmax import stream
from polyc.playback.region import run
from polyc.rewriting.changes import DEFAULT_CLASSES
from polyc.test.support.region_expressions import of_type, text
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = NDArray[Any]
INF, NAN = float("inf"), float("nan")
CHUNKS = (1, 2, 3, 64)
FEW = settings(max_examples=examples(60), deadline=None, derandomize=True, database=None)


def lowered(source: str) -> ModuleOp:
    """The one kernel of a frontend graph, in normal form, whoever has a schedule for it."""
    ctx = make_context()
    module = parse_text(ctx, source, "graph.mlir")
    whole = IndexToRegion(fuse="legal")
    for each in (FrontendToTiny(), TinyToIndex(), whole, RegionSrnf()):
        each.apply(ctx, module)
    module.verify()
    return module


def kernel(module: ModuleOp) -> region.KernelOp:
    found = module.body.block.first_op
    assert isinstance(found, region.KernelOp)
    return found


def streamed(module: ModuleOp, states: int) -> ModuleOp:
    """A copy after the pass, in which one reduction has so many states."""
    made = module.clone()
    stream(made)
    made.verify()
    (together,) = of_type(made, region.ReduceTogetherOp)
    assert len(together.results) == states
    once = text(made)
    assert not stream(made).fired and text(made) == once
    return made


ROWS = """
frontend.graph @f(%x: !frontend.tensor<[M, N], f32>) -> (y: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.FN %x axes [1] : !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}
"""

SCORES = st.one_of(st.floats(-30, 30, width=32), st.sampled_from([INF, -INF, -INF, NAN, 1e30]))


def same(before: Array, after: Array, tolerance: float = 1e-5) -> None:
    assert np.allclose(before, after, rtol=tolerance, atol=tolerance, equal_nan=True), (
        before,
        after,
    )


@pytest.mark.parametrize("fn", ["softmax", "log_softmax"])
def test_softmax_of_any_values_by_chunks_of_any_size(fn: str) -> None:
    module = lowered(ROWS.replace("FN", fn))
    made = streamed(module, 2)

    @FEW
    @given(st.integers(0, 7), st.data())
    def holds(n: int, data: st.DataObject) -> None:
        drawn = data.draw(st.lists(SCORES, min_size=2 * n, max_size=2 * n))
        x, sizes = np.array(drawn, np.float32).reshape(2, n), {"M": 2, "N": n}
        (before,) = run(kernel(module), [x], sizes)
        for chunk in CHUNKS:
            same(before, run(kernel(made), [x], sizes, chunk)[0])

    holds()


def test_softmax_streams_with_reassociating_changes_alone() -> None:
    module = lowered(ROWS.replace("FN", "softmax"))
    assert [n.kind for n in stream(module, DEFAULT_CLASSES).fired] == ["reassociating"]


# Attention -----------------------------------------------------------------------------

SIZES = {"B": 1, "M": 5, "N": 7}


def attention(options: str = "", masks: Sequence[str] = (), key_heads: int = 2) -> str:
    """An attention of two heads in f16, with masks of the given types."""
    q, k = (f"!frontend.tensor<[B, {h}, {p}, 4], f16>" for h, p in ((2, "M"), (key_heads, "N")))
    names = [f"%mask{i}" for i in range(len(masks))]
    kinds = [f"!frontend.tensor<{m}>" for m in masks]
    given = "".join(f", {n}: {m}" for n, m in zip(names, kinds, strict=True))
    marked = f" mask {', '.join(names)}" if names else ""
    types = ", ".join([q, k, k, *kinds])
    return f"""
frontend.graph @f(%q: {q}, %k: {k}, %v: {k}{given}) -> (y: {q}) {{
  %0 = frontend.attention %q, %k, %v{marked}{options} {{acc = f32}} : ({types}) -> {q}
  frontend.output %0 : {q}
}}
"""


PROGRAMS: Mapping[str, str] = {
    "full": attention(),
    "scaled": attention(" scale 0.25"),
    "causal": attention(" causal"),
    "window": attention(" window [2, 1]"),
    "causal, one row sees nothing": attention(" causal offset 1"),
    "additive mask": attention(masks=["[M, N], f32"]),
    "boolean mask": attention(masks=["[2, M, N], i1"]),
    "both masks, causal": attention(" causal", ["[M, N], i1", "[2, 1, N], f32"]),
    "one key head": attention(" causal", key_heads=1),
}


def inputs_of(module: ModuleOp, seed: int, special: bool) -> list[Array]:
    """Small random values; ``special`` puts infinities and NaN into q and k, -inf into masks."""
    random = np.random.default_rng(seed)
    found: list[Array] = []
    for arg in kernel(module).ins:
        kind = arg.type
        assert isinstance(kind, region.MemRefType)
        shape = [d.evaluate(SIZES) for d in kind.shape]
        array = random.standard_normal(shape) * 4
        name = arg.name_hint or ""
        if name.startswith("mask"):
            array = np.where(random.random(shape) < 0.4, -INF, array)
        elif special and name in "qk":
            array[random.random(shape) < 0.04] = random.choice([INF, -INF, NAN])
        element = str(kind.element_type)
        found.append(array > -1 if element == "i1" else array.astype(element.replace("f", "float")))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_attention_of_every_kind_streams(name: str) -> None:
    module = lowered(PROGRAMS[name])
    made = streamed(module, 3)
    for seed in range(6):
        inputs = inputs_of(module, seed, special=seed > 2)
        (before,) = run(kernel(module), inputs, SIZES)
        for chunk in CHUNKS:
            same(before, run(kernel(made), inputs, SIZES, chunk)[0], 4e-3)


def test_attention_needs_finite_values_to_be_allowed() -> None:
    module = lowered(PROGRAMS["full"])
    done = stream(module, DEFAULT_CLASSES)
    assert [n.kind for n in done.fired] == ["reassociating"]
    assert "is finite-only, and only exact, reassociating may fire" in done.refused[0].text
    (together,) = of_type(module, region.ReduceTogetherOp)
    assert len(together.results) == 2, "the maximum and the sum join, the product of V stays"


# The op ---------------------------------------------------------------------------------


def test_softmax_over_two_axes_is_cut_along_the_first() -> None:
    module = lowered(
        ROWS.replace("[M, N]", "[M, N, 3]").replace("FN", "softmax").replace("[1]", "[1, 2]")
    )
    made = streamed(module, 2)
    x = np.linspace(-8, 8, 2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
    x[1, 2:, :] = -INF
    sizes = {"M": 2, "N": 5}
    (before,) = run(kernel(module), [x], sizes)
    for chunk in CHUNKS:
        same(before, run(kernel(made), [x], sizes, chunk)[0])


SAME_SCORES = """
region.kernel @f iters [m: M]
    ins(%x: !region.memref<[M], f32, align 4>)
    outs(y: !region.memref<[M], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %x affine_map<(d0)[s0, s1] -> (d0)>
      : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.broadcast_in_dim %0 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %2 = region.reduce max %1 over [n] init -inf acc f32
      : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %3 = region.broadcast_in_dim %2 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %4 = region.binary sub %1, %3 : !region.val<[m: M, n: N], f32>
  %5 = region.unary exp %4 : !region.val<[m: M, n: N], f32>
  %6 = region.reduce sum %5 over [n] init 0.0 acc f32
      : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %6 : !region.val<[m: M], f32>
}
"""  # noqa: E501


def test_scores_that_are_one_number_a_row() -> None:
    """Merged kernels may leave the keys' axis to a view alone; some operand must have it."""
    module = parse_text(make_context(), SAME_SCORES, "kernel.mlir")
    made = streamed(module, 2)
    x = np.array([3.0, -INF, -40.0], np.float32)
    for n in (0, 1, 5):
        (before,) = run(kernel(module), [x], {"M": 3, "N": n})
        for chunk in CHUNKS:
            same(before, run(kernel(made), [x], {"M": 3, "N": n}, chunk)[0])


def test_a_wrong_combination_shows_when_there_are_chunks() -> None:
    made = streamed(lowered(ROWS.replace("FN", "softmax")), 2)
    x, sizes = np.arange(12, dtype=np.float32).reshape(2, 6), {"M": 2, "N": 6}
    (right,) = run(kernel(made), [x], sizes)
    (together,) = of_type(made, region.ReduceTogetherOp)
    assert isinstance(together, region.ReduceTogetherOp)
    factor = next(op for op in together.combine.block.ops if isinstance(op, region.UnaryOp))
    factor.properties["fn"] = region.UnaryOp("neg", factor.operand).fn
    same(right, run(kernel(made), [x], sizes)[0])
    assert not np.allclose(right, run(kernel(made), [x], sizes, 2)[0])
