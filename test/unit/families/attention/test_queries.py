"""Queries that an attention's kernel computes: what is taken, and every refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from polyc.dialects.region import BinaryOp, KernelOp
from polyc.families.attention.operands import HeadOperand
from polyc.families.attention.queries import ComputedQueries, computed_queries
from polyc.families.attention.recognise import StreamingAttention, find_attention
from polyc.families.attention.softmax import Refused
from polyc.passes.pipeline import STAGES, build
from polyc.rewriting.region.building import type_of
from polyc.test.support.attention_forms import FORMS, Heads
from polyc.test.support.model_programs import attention, heads
from polyc.test.support.queries import fused, stored
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

SMALL = Heads(4, 2, 64)


def regions(module: ModuleOp) -> ModuleOp:
    ctx = make_context()
    found = parse_text(ctx, str(module), "queries.mlir")
    for stage in ("tiny", "index", "region"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(ctx, found)
    return found


def last(module: ModuleOp) -> KernelOp:
    *_, kernel = [op for op in module.ops if isinstance(op, KernelOp)]
    return kernel


def maker(module: ModuleOp) -> tuple[KernelOp, SSAValue]:
    """The kernel that makes what the attention reads as its queries, and these."""
    q = find_attention(last(module)).q
    assert isinstance(q, HeadOperand)
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    kernel = next(k for k in kernels if q.name in [n.data for n in k.res_names])
    return kernel, kernel.yield_op.values[0]


def found(module: ModuleOp) -> StreamingAttention:
    with fused():
        return find_attention(last(regions(module)))


def biased(s: Sketch, q: SSAValue) -> SSAValue:
    return s.fn("add", q, s.input("bias", 4, 1, 64))


def scaled(s: Sketch, q: SSAValue) -> SSAValue:
    return s.fn("mul", q, s.input("scale", "T", 1))


def packed(make: Callable[[Sketch, SSAValue], SSAValue]) -> ModuleOp:
    """Queries that are a part of packed rows, [T, heads * width], and what is done to them."""
    s = Sketch("packed")
    x = s.input("x", "T", 8 * 64)
    q, k, v = (
        heads(s, s.cut(x, 1, start * 64, end * 64), end - start, 64)
        for start, end in ((0, 4), (4, 6), (6, 8))
    )
    return s.done(y=attention(s, make(s, q), k, v, causal=True))


@pytest.mark.parametrize(
    ("name", "reductions", "reads"),
    [("rope_halves", 0, 5), ("rope_pairs", 0, 5), ("qk_norm", 1, 3)],
)
def test_forms_compute_their_queries(name: str, reductions: int, reads: int) -> None:
    attention = found(FORMS[name].module(True, SMALL))
    q = attention.q
    assert isinstance(q, ComputedQueries)
    assert (q.name, q.feature) == ("q", attention.depth_axis)
    assert (len(q.reductions), len(q.reads)) == (reductions, reads)
    assert len(q.along) == (2 if reductions else 1)
    assert [side.name for side in attention.copied] == [attention.k.name, "v"]
    assert str(q.element) == "f16" == str(attention.element)


@pytest.mark.parametrize("make", [biased, scaled])
def test_queries_of_packed_rows(make: Callable[[Sketch, SSAValue], SSAValue]) -> None:
    q = found(packed(make)).q
    assert isinstance(q, ComputedQueries) and q.name == "x"


def test_queries_that_are_stored_are_read() -> None:
    with stored():
        attention = find_attention(last(regions(FORMS["rope_halves"].module(True, SMALL))))
    assert not isinstance(attention.q, ComputedQueries) and len(attention.copied) == 3


def over_tokens(s: Sketch, q: SSAValue) -> SSAValue:
    return s.fn("sub", q, s.reduce("max", q, 1, keep=True))


def over_heads(s: Sketch, q: SSAValue) -> SSAValue:
    return s.fn("sub", q, s.reduce("max", q, 0, keep=True))


def wide(s: Sketch, q: SSAValue) -> SSAValue:
    return s.fn("add", s.input("bias", 4, "T", 64), s.input("shift", 64))


@pytest.mark.parametrize("make", [over_tokens, over_heads])
def test_reductions_of_other_axes_are_refused(make: Callable[[Sketch, SSAValue], SSAValue]) -> None:
    """Such queries are stored."""
    with fused():
        module = regions(packed(make))
    assert not isinstance(find_attention(last(module)).q, ComputedQueries)
    kernel, value = maker(module)
    *outer, feature = type_of(value).labels
    with pytest.raises(Refused, match=r"made of (a reduction not along|values over)"):
        computed_queries(kernel, value, outer, feature)


def test_a_norm_and_positions_are_stored() -> None:
    """Threads have no registers for all that they would read."""
    with fused():
        module = regions(FORMS["qk_norm_rope"].module(True, SMALL))
    assert not isinstance(find_attention(last(module)).q, ComputedQueries)
    kernel, value = maker(module)
    *outer, feature = type_of(value).labels
    with pytest.raises(Refused, match="a norm and of 8 reads, and threads have registers"):
        computed_queries(kernel, value, outer, feature)


def test_queries_of_f32_are_refused() -> None:
    module = regions(FORMS["rope_halves"].module(True, SMALL))
    kernel = next(op for op in module.ops if isinstance(op, KernelOp))
    value = next(op.result for op in kernel.body.block.ops if isinstance(op, BinaryOp))
    with pytest.raises(Refused, match="as f32, which tensor cores would round"):
        computed_queries(kernel, value, ("i0", "t"), "i2")


def test_queries_of_a_bias_and_a_table_alone() -> None:
    """The input that they are as large as gives them their name."""
    q = found(packed(wide)).q
    assert isinstance(q, ComputedQueries) and q.name == "bias"


def test_keys_are_never_computed() -> None:
    """They would be for each tile of queries again; nor are both."""
    s = Sketch("keys")
    q, k, v = (s.input(n, 2, "T", 64) for n in "qkv")
    module = s.done(y=attention(s, q, s.fn("relu", k), v))
    with fused():
        kernels = [op for op in regions(module).ops if isinstance(op, KernelOp)]
    assert len(kernels) == 2
    assert not isinstance(find_attention(kernels[-1]).q, ComputedQueries)
