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
    LowerAdaptivePool,
    LowerArgPool,
    LowerArgReduce,
    LowerAttention,
    LowerCast,
    LowerClassify,
    LowerCompare,
    LowerConcat,
    LowerConstant,
    LowerConv,
    LowerConvTranspose,
    LowerDim,
    LowerDropout,
    LowerElementwise,
    LowerGather,
    LowerGemm,
    LowerGraph,
    LowerGridSample,
    LowerIota,
    LowerMovement,
    LowerNorm,
    LowerOutput,
    LowerPool,
    LowerRandom,
    LowerReduce,
    LowerResize,
    LowerScan,
    LowerScatter,
    LowerSelect,
    LowerSoftmax,
    LowerSort,
    patterns,
)
from polyc.playback import frontend as frontend_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import rewrite, verify
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


# The other patterns: a text that each fires on once its operands are lowered ---------------


def typed(shape: str, element: str = "f32") -> str:
    return f"!frontend.tensor<[{shape}], {element}>"


T, COLUMN, HEAD, IMAGE, ONE = map(typed, ("M, M", "M, 1", "1, M, M", "1, 1, M, M", "1, 1, 1, 1"))
CONDITION = typed("M, M", "i1")
SAME = f"%r = frontend.expand %x dims [0, 1] : {T} -> {T}"
LESS = f"%i = frontend.compare lt %x, %x : ({T}, {T}) -> {CONDITION}"
PLACES, SEED = typed("M, M", "i32"), typed("", "ui64")

MORE: dict[str, tuple[RewritePattern, str]] = {
    "frontend.conv2d": (
        LowerConv(),
        f"""%i = frontend.reshape %x : {T} -> {IMAGE}
        %c = frontend.conv2d nchw %i, %i stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1
            {{acc = f32}} : ({IMAGE}, {IMAGE}) -> {ONE}
        {SAME}""",
    ),
    "frontend.conv_transpose2d": (
        LowerConvTranspose(),
        f"""%i = frontend.reshape %x : {T} -> {IMAGE}
        %s = frontend.slice %x [0:1, 0:1] : {T} -> {typed("1, 1")}
        %w = frontend.reshape %s : {typed("1, 1")} -> {typed("1, 1, 1, 1")}
        %c = frontend.conv_transpose2d nchw %i, %w stride [1, 1] padding [0, 0, 0, 0]
            output_padding [0, 0] dilation [1, 1] groups 1
            {{acc = f32}} : ({IMAGE}, {typed("1, 1, 1, 1")}) -> {IMAGE}
        %r = frontend.reshape %c : {IMAGE} -> {T}""",
    ),
    "frontend.attention": (
        LowerAttention(),
        f"""%i = frontend.reshape %x : {T} -> {HEAD}
        %c = frontend.attention %i, %i, %i causal {{acc = f32}} : ({HEAD}, {HEAD}, {HEAD}) -> {HEAD}
        %r = frontend.reshape %c : {HEAD} -> {T}""",
    ),
    "frontend.reduce": (
        LowerReduce(),
        f"""%i = frontend.reduce mean %x axes [1] keepdims : {T} -> {COLUMN}
        %r = frontend.expand %i dims [0, 1] : {COLUMN} -> {T}""",
    ),
    "frontend.arg_reduce": (
        LowerArgReduce(),
        f"""%i = frontend.arg_reduce max %x axis 1 keepdims : {T} -> {typed("M, 1", "i64")}
        %c = frontend.cast %i : {typed("M, 1", "i64")} -> {COLUMN}
        %r = frontend.expand %c dims [0, 1] : {COLUMN} -> {T}""",
    ),
    "frontend.sort": (
        LowerSort(),
        f"""%r, %p = frontend.sort %x axis 1 descending : ({T}) -> ({T}, {typed("M, M", "i32")})""",
    ),
    "frontend.gather_elements": (
        LowerGather(),
        f"""%i = frontend.cast %x : {T} -> {PLACES}
        %r = frontend.gather_elements %x, %i axis 0 clamp : ({T}, {PLACES}) -> {T}""",
    ),
    "frontend.scatter_elements": (
        LowerScatter(),
        f"""%i = frontend.cast %x : {T} -> {PLACES}
        %r = frontend.scatter_elements add %x, %i, %x axis 0 : ({T}, {PLACES}, {T}) -> {T}""",
    ),
    "frontend.scan": (LowerScan(), f"%r = frontend.scan sum %x axis 1 : {T}"),
    "frontend.random": (
        LowerRandom(),
        f"""%i = frontend.constant 3 : {SEED}
        %r = frontend.random uniform %i, %i : ({SEED}, {SEED}) -> {T}""",
    ),
    "frontend.dropout": (
        LowerDropout(),
        f"""%i = frontend.constant 3 : {SEED}
        %r = frontend.dropout %x, %i, %i p 0.5 : ({T}, {SEED}, {SEED}) -> {T}""",
    ),
    "frontend.softmax": (LowerSoftmax(), f"%r = frontend.softmax %x axes [1] : {T}"),
    "frontend.log_softmax": (LowerSoftmax(), f"%r = frontend.log_softmax %x axes [1] : {T}"),
    "frontend.layer_norm": (LowerNorm(), f"%r = frontend.layer_norm %x axes [1] eps 0.1 : {T}"),
    "frontend.rms_norm": (LowerNorm(), f"%r = frontend.rms_norm %x axes [1] eps 0.1 : {T}"),
    "frontend.compare": (
        LowerCompare(),
        f"{LESS}\n%r = frontend.cast %i : {CONDITION} -> {T}",
    ),
    "frontend.select": (
        LowerSelect(),
        f"{LESS}\n%r = frontend.select %i, %x, %x : ({CONDITION}, {T}, {T}) -> {T}",
    ),
    "frontend.resize": (
        LowerResize(),
        f"%r = frontend.resize nearest %x axes [0] asymmetric floor : {T} -> {T}",
    ),
    "frontend.grid_sample": (
        LowerGridSample(),
        f"""%i = frontend.reshape %x : {T} -> {typed("1, M, M")}
        %g = frontend.reshape %x : {T} -> {typed("1, M * M, 1")}
        %c = frontend.grid_sample linear %i, %g border
            : ({typed("1, M, M")}, {typed("1, M * M, 1")}) -> {typed("1, M, M * M")}
        %s = frontend.slice %c [0:1, 0:1, 0:M * M]
            : {typed("1, M, M * M")} -> {typed("1, 1, M * M")}
        %r = frontend.reshape %s : {typed("1, 1, M * M")} -> {T}""",
    ),
    "frontend.pool": (
        LowerPool(),
        "%r = frontend.pool mean %x axes [1] size [3] stride [1] padding [1, 1] dilation [1]"
        f" : {T} -> {T}",
    ),
    "frontend.adaptive_pool": (
        LowerAdaptivePool(),
        f"""%i = frontend.reshape %x : {T} -> {typed("M, M, 1")}
        %j = frontend.adaptive_pool mean %i axes [2] : {typed("M, M, 1")}
        %r = frontend.reshape %j : {typed("M, M, 1")} -> {T}""",
    ),
    "frontend.arg_pool": (
        LowerArgPool(),
        f"""%i = frontend.arg_pool max %x axes [1] size [3] stride [1] padding [1, 1] dilation [1]
            whole : {T} -> {typed("M, M", "i64")}
        %r = frontend.cast %i : {typed("M, M", "i64")} -> {T}""",
    ),
    "frontend.concat": (LowerConcat(), f"%r = frontend.concat %x axis 0 : {T}"),
    "frontend.reshape": (LowerMovement(), f"%r = frontend.reshape %x : {T} -> {T}"),
    "frontend.permute": (LowerMovement(), f"%r = frontend.permute %x perm [1, 0] : {T} -> {T}"),
    "frontend.expand": (LowerMovement(), f"%r = frontend.expand %x dims [0, 1] : {T} -> {T}"),
    "frontend.slice": (LowerMovement(), f"%r = frontend.slice %x [0:M, 0:M] : {T} -> {T}"),
    "frontend.classify": (
        LowerClassify(),
        f"""%c = frontend.classify isnan %x : {T} -> {CONDITION}
        %r = frontend.select %c, %x, %x : ({CONDITION}, {T}, {T}) -> {T}""",
    ),
    "frontend.pad": (
        LowerMovement(),
        f"%r = frontend.pad %x low [0, 0] high [0, 0] value 0.0 : {T} -> {T}",
    ),
}


def program(body: str) -> ModuleOp:
    text = f"""frontend.graph @f(%x: {T}) -> {T} assuming (M >= 1) {{
      {body}
      frontend.output %r : {T}
    }}"""
    parsed = Parser(make_context(), text).parse_module()
    verify(parsed)
    return parsed


@pytest.mark.parametrize("name", MORE)
def test_a_pattern_fires_and_waits(name: str) -> None:
    pattern, body = MORE[name]
    m = program(body)
    assert not rewrite(m, [pattern])
    others = [p for p in patterns() if type(p) is not type(pattern)]
    # Movements stand before and after other ops here: they go first where they are not asked for.
    rewrite(m, others)
    assert name in names(m)
    assert rewrite(m, [pattern])
    assert name not in names(m)


def test_a_constant_needs_no_operand() -> None:
    m = program(f"""%h = frontend.constant 0.5 : {typed("")}
        %r = frontend.elementwise mul %x, %h : ({T}, {typed("")}) -> {T}""")
    assert rewrite(m, [LowerConstant()])
    assert "frontend.constant" not in names(m)


def test_every_pattern_is_tested() -> None:
    tested = {type(p) for p in PATTERNS.values()} | {type(p) for p, _ in MORE.values()}
    assert {type(p) for p in patterns()} == tested | {
        LowerGraph,
        LowerConstant,
        LowerDim,
        LowerIota,
    }


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
