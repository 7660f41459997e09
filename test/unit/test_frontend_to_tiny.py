"""Each pattern of frontend-to-tiny: it fires, it refuses, it changes no value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.pattern_rewriter import RewritePattern

from polyc.dialects import frontend, tiny
from polyc.dialects.frontend import CastOp, ElementwiseOp, GemmOp, GraphOp, OutputOp, tensor
from polyc.lowering.frontend_to_tiny import (
    DropUnusedConversion,
    FrontendToTiny,
    LowerCast,
    LowerElementwise,
    LowerGemm,
    LowerGraph,
    LowerOutput,
    patterns,
)
from polyc.passes.driver import rewrite, verify
from polyc.playback import frontend as frontend_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.reference import make_inputs
from polyc.tools.registry import make_context

TEXT = """
frontend.graph @f(%x: !frontend.tensor<[M, M], f16>) -> !frontend.tensor<[M, M], f16> {
  %0 = frontend.gemm %x, %x {acc = f32}
      : (!frontend.tensor<[M, M], f16>, !frontend.tensor<[M, M], f16>) -> !frontend.tensor<[M, M], f16>
  %1 = frontend.elementwise relu %0 : !frontend.tensor<[M, M], f16>
  %2 = frontend.cast %1 : !frontend.tensor<[M, M], f16> -> !frontend.tensor<[M, M], bf16>
  %3 = frontend.cast %2 : !frontend.tensor<[M, M], bf16> -> !frontend.tensor<[M, M], f16>
  frontend.output %3 : !frontend.tensor<[M, M], f16>
}
"""  # noqa: E501


def module() -> ModuleOp:
    parsed = Parser(make_context(), TEXT).parse_module()
    verify(parsed)
    return parsed


def names(op: ModuleOp) -> list[str]:
    return [inner.name for inner in op.walk()]


PATTERNS: dict[str, RewritePattern] = {
    "frontend.gemm": LowerGemm(),
    "frontend.elementwise": LowerElementwise(),
    "frontend.cast": LowerCast(),
    "frontend.output": LowerOutput(),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_waits_for_its_operands(name: str) -> None:
    m = module()
    assert not rewrite(m, [PATTERNS[name]])
    assert name in names(m)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_fires_once_its_operands_are_lowered(name: str) -> None:
    m = module()
    order = list(PATTERNS)
    before = [PATTERNS[n] for n in order[: order.index(name)]]
    rewrite(m, [LowerGraph(), *before])
    assert name in names(m)
    assert rewrite(m, [PATTERNS[name]])
    assert name not in names(m)


def test_lower_graph_fires_on_frontend_graphs_only() -> None:
    m = module()
    assert rewrite(m, [LowerGraph()])
    assert "frontend.graph" not in names(m)
    assert names(m)[1] == "tiny.graph"
    assert not rewrite(m, [LowerGraph()])


def test_patterns_work_in_any_order() -> None:
    forward, backward = module(), module()
    rewrite(forward, patterns())
    rewrite(backward, patterns()[::-1], recursive=True)
    for m in (forward, backward):
        rewrite(m, [DropUnusedConversion()])
        verify(m)
    assert str(forward) == str(backward)


def test_drop_unused_conversion_keeps_what_is_used() -> None:
    m = module()
    rewrite(m, [LowerGraph()])
    count = sum(isinstance(op, UnrealizedConversionCastOp) for op in m.walk())
    assert count == 1
    assert not rewrite(m, [DropUnusedConversion()])
    rewrite(m, patterns())
    assert rewrite(m, [DropUnusedConversion()])
    assert not any(isinstance(op, UnrealizedConversionCastOp) for op in m.walk())


def test_the_pass_leaves_only_tiny_ops() -> None:
    m = module()
    FrontendToTiny().apply(make_context(), m)
    verify(m)
    assert {name.split(".")[0] for name in names(m)} == {"builtin", "tiny"}


# Random graphs: the same numbers before and after ---------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> ModuleOp:
    """A graph of up to 6 ops on matrices [M, N], [N, M], [1, N] and [N]."""
    element: Attribute = draw(st.sampled_from([f16, bf16, f32]))
    inputs = [tensor(s, element) for s in (("M", "N"), ("N", "M"), (1, "N"), ("N",))]
    op = GraphOp("f", inputs, [tensor("MN", element)])
    block = op.body.block
    values: list[SSAValue] = [*block.args]

    def pick(wanted: Sequence[SSAValue]) -> SSAValue:
        return draw(st.sampled_from(list(wanted)))

    def shaped(*shape: str) -> list[SSAValue]:
        dims = tensor(shape, f32).dims
        return [v for v in values if frontend.tensor_of(v).dims == dims]

    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["gemm", "unary", "binary", "cast"]))
        if kind == "gemm":
            a, b = pick([*shaped("M", "N"), *shaped("N", "M")]), pick(shaped("M", "N"))
            wide = frontend.tensor_of(a).dims == tensor("MN", f32).dims
            # a: [M, N] or [N, M]; b: [M, N].  c is [M, M] transposed, so multiply once more.
            square = GemmOp(a, b, transpose_a=not wide, transpose_b=True)
            block.add_op(square)
            new = GemmOp(square.result, b)
        elif kind == "unary":
            fn = draw(st.sampled_from(["relu", "silu", "gelu", "tanh", "neg", "sigmoid", "abs"]))
            new = ElementwiseOp(fn, [pick(values)])
        elif kind == "binary":
            fn = draw(st.sampled_from(["add", "sub", "mul", "max", "min"]))
            wide_value = pick(shaped("M", "N"))
            fits = [v for v in values if frontend.tensor_of(v).dims != tensor("NM", f32).dims]
            pair = [wide_value, pick(fits)]
            new = ElementwiseOp(fn, pair if draw(st.booleans()) else pair[::-1])
        else:
            narrow = CastOp(pick(values), draw(st.sampled_from([f16, bf16, f32])))
            block.add_op(narrow)
            new = CastOp(narrow.result, element)
        block.add_op(new)
        values.append(new.results[0])
    block.add_op(OutputOp([shaped("M", "N")[-1]]))
    return ModuleOp([op])


@given(graphs(), st.integers(0, 5), st.integers(0, 5), st.integers(0, 3))
def test_values_stay(m: ModuleOp, rows: int, columns: int, seed: int) -> None:
    verify(m)
    graph = cast(GraphOp, next(iter(m.ops)))
    sizes = {"M": rows, "N": columns}
    inputs = make_inputs(graph, sizes, seed)
    (above,) = frontend_playback.run(graph, inputs, sizes)
    FrontendToTiny().apply(make_context(), m)
    verify(m)
    (below,) = tiny_playback.run(cast(tiny.GraphOp, next(iter(m.ops))), inputs, sizes)
    assert above.dtype == below.dtype
    # Sums may be taken in another order, which shows in the last bits after a rounding.
    close = {2: 0.05, 4: 1e-2}[above.dtype.itemsize]
    np.testing.assert_allclose(
        below.astype(np.float64), above.astype(np.float64), rtol=close, atol=close
    )


def test_values_stay_with_infinities_and_nan() -> None:
    m = module()
    graph = cast(GraphOp, next(iter(m.ops)))
    x = np.array([[1, np.inf, 0], [np.nan, 2, 0], [0, 0, -np.inf]], np.float16)
    (above,) = frontend_playback.run(graph, [x], {"M": 3})
    FrontendToTiny().apply(make_context(), m)
    (below,) = tiny_playback.run(cast(tiny.GraphOp, next(iter(m.ops))), [x], {"M": 3})
    assert np.isnan(above).any()
    np.testing.assert_array_equal(above, below)
