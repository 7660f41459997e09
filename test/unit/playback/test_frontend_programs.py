"""Random programs: frontend playback is tiny playback after lowering, at many sizes (S6.9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, bf16, f16, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser

from polyc.dialects import frontend, region, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import GraphOp, OutputOp, broadcast, tensor, tensor_of
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Fuse
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.region.inline_deferred import RegionInlineDeferred
from polyc.passes.tiny.canonicalize_movements import TinyCanonicalizeMovements
from polyc.playback import frontend as frontend_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.functions import Array, widen
from polyc.playback.reference import make_inputs, reference
from polyc.rewriting.driver import verify
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.turns import examples
from polyc.tools.play import play
from polyc.tools.registry import make_context

M, N, K = (Dim.sym(s) for s in "MNK")


def closed(inputs: Sequence[Attribute], make: Callable[[GraphOp], Sequence[SSAValue]]) -> ModuleOp:
    """A module with the graph whose body ``make`` builds, and its outputs."""
    graph = GraphOp("f", inputs, [])
    outputs = make(graph)
    graph.body.block.add_op(OutputOp(outputs))
    body = graph.detach_region(graph.body)
    return ModuleOp([GraphOp("f", inputs, [o.type for o in outputs], body)])


def add(graph: GraphOp, op: Operation) -> SSAValue:
    graph.body.block.add_op(op)
    return op.results[0]


def agree(module: ModuleOp, sizes: Mapping[str, int], seed: int) -> Array:
    """Check that text reads back and that the layers agree; the first output."""
    verify(module)
    text = str(module)
    again = Parser(make_context(), text).parse_module()
    verify(again)
    assert str(again) == text
    graph = cast(GraphOp, next(iter(module.ops)))
    inputs = make_inputs(graph, sizes, seed)
    above = frontend_playback.run(graph, inputs, sizes)
    exact = reference(graph, inputs, sizes)
    FrontendToTiny().apply(make_context(), module)
    verify(module)
    below = _tiny(module, inputs, sizes)
    TinyCanonicalizeMovements().apply(make_context(), module)
    verify(module)
    moved = _tiny(module, inputs, sizes)
    kernels = _kernels(module, inputs, sizes, (True, None, False)[seed % 3])
    for level in (above, below, moved, kernels):
        assert [x.dtype for x in level] == [x.dtype for x in above]
        assert_agree(level, exact)
    return below[0]


def _kernels(
    module: ModuleOp, inputs: Sequence[Array], sizes: Mapping[str, int], merged: bool | None
) -> Sequence[Array]:
    """The outputs of the kernels of the module's graph, fused by cost.

    ``merged`` False fuses all that is legal, and True nothing: each stored value is then made a
    deferred one, and the kernels are merged.
    """
    TinyToIndex().apply(make_context(), module)
    fuse: Fuse = "cost" if merged is None else "none" if merged else "legal"
    IndexToRegion(fuse).apply(make_context(), module)
    if merged:
        for kernel in list(module.ops):
            if isinstance(kernel, region.KernelOp):
                stored = [
                    StringAttr("deferred" if "boundary" in a.data else "gmem")
                    for a in kernel.res_attrs
                ]
                kernel.materialize = ArrayAttr(stored)
        verify(module)
        with redirect_stderr(StringIO()):
            RegionInlineDeferred().apply(make_context(), module)
    verify(module)
    text = str(module)
    assert str(Parser(make_context(), text).parse_module()) == text
    outputs = play(module, "f", inputs, sizes)
    assert outputs is not None
    return outputs


def _tiny(module: ModuleOp, inputs: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
    return tiny_playback.run(cast(tiny.GraphOp, next(iter(module.ops))), inputs, sizes)


# Programs of many ops ----------------------------------------------------------------------

TAME = ("abs", "gelu", "gelu_tanh", "neg", "relu", "sigmoid", "silu", "tanh", "erf")


def _small(values: Sequence[SSAValue]) -> list[SSAValue]:
    """Values that can grow by an axis or be multiplied without becoming large."""
    return [v for v in values if tensor_of(v).rank <= 3]


def _step(draw: st.DrawFn, graph: GraphOp, values: list[SSAValue]) -> None:
    """One random op on values that are there; its result joins them."""
    x = draw(st.sampled_from(_small(values)))
    t = tensor_of(x)
    dims, rank = t.dims, t.rank
    axes = sorted(draw(st.sets(st.integers(0, max(rank - 1, 0)), min_size=1)))
    kinds = ["unary", "binary", "cast", "pad", "expand"]
    kinds += ["reduce", "softmax", "norm", "permute", "slice", "concat"] * (rank > 0)
    kinds += ["gemm", "merge"] * (rank > 1)
    match draw(st.sampled_from(kinds)):
        case "unary":
            new: Operation = frontend.ElementwiseOp(draw(st.sampled_from(TAME)), [x])
        case "binary":
            fits = [v for v in values if broadcast((dims, tensor_of(v).dims), graph) is not None]
            fn = draw(st.sampled_from(["add", "sub", "mul", "max", "min"]))
            pair = [x, draw(st.sampled_from(fits))]
            new = frontend.ElementwiseOp(fn, pair if draw(st.booleans()) else pair[::-1])
        case "cast":
            narrow = add(graph, frontend.CastOp(x, draw(st.sampled_from([f16, bf16, f32]))))
            new = frontend.CastOp(narrow, f32)
        case "pad":
            low, high = ([draw(st.integers(0, 2)) for _ in dims] for _ in range(2))
            new = frontend.PadOp(x, low, high, draw(st.sampled_from([0.0, 1.5])))
        case "expand":
            at = draw(st.integers(0, rank))
            wide = [*dims[:at], draw(st.sampled_from([Dim.const(1), Dim.const(2), N])), *dims[at:]]
            kept = [i + (i >= at) for i in range(rank)]
            new = frontend.ExpandOp(x, kept, tensor(wide, f32))
        case "reduce":
            # A max over nothing is infinite, and an infinity less an infinity is NaN: allowed.
            fn = draw(st.sampled_from(frontend.REDUCTIONS))
            new = frontend.ReduceOp(fn, x, axes, keepdims=draw(st.booleans()))
        case "softmax":
            kind = draw(st.sampled_from([frontend.SoftmaxOp, frontend.LogSoftmaxOp]))
            new = kind(x, axes)
        case "norm":
            kind = draw(st.sampled_from([frontend.LayerNormOp, frontend.RmsNormOp]))
            new = kind(x, axes, 0.25)
        case "permute":
            new = frontend.PermuteOp(x, draw(st.permutations(range(rank))))
        case "slice":
            room = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in dims]
            padded = frontend.PadOp(x, [a for a, _ in room], [b for _, b in room], 0.5)
            new = frontend.SliceOp(
                add(graph, padded),
                [draw(st.integers(0, a)) for a, _ in room],
                [d + a + draw(st.integers(0, b)) for d, (a, b) in zip(dims, room, strict=True)],
                [draw(st.integers(1, 3)) for _ in dims],
            )
        case "concat":
            like = [v for v in values if tensor_of(v).dims == dims]
            count = draw(st.integers(1, 3))
            new = frontend.ConcatOp([draw(st.sampled_from(like)) for _ in range(count)], axes[0])
        case "gemm":
            left = draw(st.booleans())
            new = frontend.GemmOp(x, x, transpose_a=left, transpose_b=not left)
        case _:
            new = frontend.ReshapeOp(x, [*dims[:-2], dims[-2] * dims[-1]])
    values.append(add(graph, new))


@st.composite
def programs(draw: st.DrawFn) -> ModuleOp:
    """Up to 6 ops on [M, N], [N], [M, 1] and [K, N, 2]; two values go out."""
    inputs = [tensor(s, f32) for s in (("M", "N"), ("N",), ("M", 1), ("K", "N", 2))]

    def make(graph: GraphOp) -> list[SSAValue]:
        values: list[SSAValue] = [*graph.body.block.args]
        for _ in range(draw(st.integers(1, 6))):
            _step(draw, graph, values)
        return [values[-1], draw(st.sampled_from(values))]

    return closed(inputs, make)


@settings(max_examples=examples(25))
@given(programs(), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_random_programs(module: ModuleOp, m: int, n: int, k: int, seed: int) -> None:
    sizes = {"M": m, "N": n, "K": k}
    counts = [
        np.prod([d.evaluate(sizes) for d in tensor_of(r).dims], dtype=np.int64)
        for op in next(iter(module.ops)).walk()
        for r in op.results
    ]
    assume(max(counts, default=0) < 20_000)
    agree(module, sizes, seed)


# Families with numbers of their own --------------------------------------------------------


@given(
    st.sampled_from([f16, bf16, f32]),
    st.lists(st.booleans(), min_size=2, max_size=2),
    st.lists(st.sampled_from(["equal", "one", "missing"]), min_size=2, max_size=2),
    st.lists(st.integers(0, 4), min_size=5, max_size=5),
    st.integers(0, 3),
)
def test_gemms(
    element: Attribute, transposed: list[bool], batch: list[str], values: list[int], seed: int
) -> None:
    """Batches [B, H], of which one operand may have size 1 or lack the first."""
    sizes = dict(zip("MNKBH", values, strict=True))

    shapes: dict[str, list[Dim | int | str]] = {"equal": ["B", "H"], "one": ["B", 1]}
    shapes["missing"] = ["H"]

    assume("equal" in batch)
    a, b = ["K", "M"] if transposed[0] else ["M", "K"], ["N", "K"] if transposed[1] else ["K", "N"]
    inputs = [tensor([*shapes[batch[0]], *a], element), tensor([*shapes[batch[1]], *b], element)]
    result = tensor(("B", "H", "M", "N"), f32)

    def make(graph: GraphOp) -> list[SSAValue]:
        x, y = graph.body.block.args
        flags: dict[str, Any] = {"transpose_a": transposed[0], "transpose_b": transposed[1]}
        return [add(graph, frontend.GemmOp(x, y, result_type=result, **flags))]

    agree(closed(inputs, make), sizes, seed)


@settings(max_examples=examples(35))
@given(
    st.sampled_from(frontend.LAYOUTS),
    st.sampled_from([f16, f32]),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.lists(st.integers(0, 2), min_size=4, max_size=4),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.sampled_from([1, 2, "C"]),
    st.lists(st.integers(0, 5), min_size=5, max_size=5),
    st.booleans(),
)
def test_convolutions(
    layout: str,
    element: Attribute,
    stride: tuple[int, int],
    padding: list[int],
    dilation: tuple[int, int],
    taps: tuple[int, int],
    groups: int | str,
    values: list[int],
    symbolic: bool,
) -> None:
    """Symbolic or constant sizes, groups a number or the symbol C (depthwise)."""
    sizes = dict(zip("NCHWF", values, strict=True))
    dim: Callable[[str], Dim] = Dim.sym if symbolic else lambda s: Dim.const(sizes[s])
    n, c, h, w, f = (dim(s) for s in "NCHWF")
    by = Dim.of(groups) if isinstance(groups, int) else c
    assume(by.constant() != 0 and sizes["C"] > 0)
    for size, t, p, d in ((sizes["H"], 0, 0, 0), (sizes["W"], 1, 2, 1)):
        assume(size + padding[p] + padding[p + 1] - dilation[d] * (taps[t] - 1) - 1 >= -1)
    inner = Dim.const(1) if groups == "C" else c

    def laid(a: Dim, b: Dim, x: Dim | int, y: Dim | int) -> list[Dim | int]:
        return [a, b, x, y] if layout == "nchw" else [a, x, y, b]

    inputs = [
        tensor(laid(n, inner * by, h, w), element),
        tensor(laid(f * by, inner, *taps), element),
    ]

    def make(graph: GraphOp) -> list[SSAValue]:
        x, y = graph.body.block.args
        op = frontend.Conv2dOp(
            x,
            y,
            layout=layout,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=by,
        )
        return [add(graph, op)]

    agree(closed(inputs, make), sizes, 0)


MASKS: list[tuple[int | str, ...]] = [
    (),
    (1,),
    ("N",),
    ("M", 1),
    ("M", "N"),
    ("H", 1, "N"),
    ("B", 1, "M", "N"),
    ("B", "H", "M", "N"),
]


@settings(max_examples=examples(15))
@given(
    st.sampled_from([f16, f32]),
    st.sampled_from(["same", "shared", "one"]),
    st.lists(st.tuples(st.sampled_from(MASKS), st.sampled_from([i1, f32])), max_size=2),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from([None, Dim.const(-1), Dim.const(1), Dim.sym("N") - Dim.sym("M")]),
    st.none() | st.sampled_from([1.0, 0.5]),
    st.none() | st.sampled_from([1.0, 3.0]),
    st.lists(st.integers(0, 4), min_size=6, max_size=6),
    st.booleans(),
    st.integers(0, 3),
)
def test_attentions(
    element: Attribute,
    heads: str,
    masks: list[tuple[tuple[int | str, ...], Attribute]],
    causal: bool,
    window: tuple[int, int] | None,
    offset: Dim | None,
    scale: float | None,
    cap: float | None,
    values: list[int],
    symbolic_features: bool,
    seed: int,
) -> None:
    sizes = dict(zip("BHMNDE", values, strict=True))
    sizes["D"] += 1
    features = Dim.sym("D") if symbolic_features else Dim.const(2)
    queries = Dim.sym("H")
    keys = {"same": queries, "one": Dim.const(1), "shared": Dim.sym("G")}[heads]
    if heads == "shared":
        queries, sizes["G"], sizes["H"] = keys * 2, sizes["H"], 2 * sizes["H"]
    inputs: list[Attribute] = [
        tensor(("B", queries, "M", features), element),
        tensor(("B", keys, "N", features), element),
        tensor(("B", keys, "N", "E"), element),
    ]
    for shape, kind in masks:
        inputs.append(tensor([queries if s == "H" else s for s in shape], kind))

    def make(graph: GraphOp) -> list[SSAValue]:
        q, k, v, *rest = graph.body.block.args
        op = frontend.AttentionOp(
            *(q, k, v, rest),
            causal=causal,
            window=window,
            offset=offset,
            scale=scale,
            cap=cap,
            lse=True,
        )
        add(graph, op)
        return [*op.results]

    assume("H" in sizes)
    agree(closed(inputs, make), sizes, seed)


@settings(max_examples=examples(30))
@given(st.data(), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_norms_with_parameters(data: st.DataObject, m: int, n: int, k: int) -> None:
    axes = sorted(data.draw(st.sets(st.integers(0, 2), min_size=1)))
    sizes = tuple("MNK"[a] for a in axes)
    inputs = [tensor("MNK", f32), tensor(sizes, f16), tensor(sizes, f32)]
    given_weight, given_bias = data.draw(st.booleans()), data.draw(st.booleans())

    def make(graph: GraphOp) -> list[SSAValue]:
        x, w, b = graph.body.block.args
        weight, bias = w if given_weight else None, b if given_bias else None
        layer = frontend.LayerNormOp(x, axes, 0.25, weight=weight, bias=bias)
        root = frontend.RmsNormOp(x, axes, 0.25, weight=weight)
        return [add(graph, layer), add(graph, root)]

    agree(closed(inputs, make), {"M": m, "N": n, "K": k}, 0)


@settings(max_examples=examples(18))
@given(st.data(), st.integers(0, 3), st.integers(0, 3))
def test_conditions(data: st.DataObject, m: int, n: int) -> None:
    """Compares of inputs, selects, casts, concats and movements of conditions."""
    relation = data.draw(st.sampled_from(frontend.COMPARISONS))
    axis = data.draw(st.integers(0, 1))

    def make(graph: GraphOp) -> list[SSAValue]:
        x, w, given_condition = graph.body.block.args
        half = add(graph, frontend.ConstantOp(0.25))
        c = add(graph, frontend.CompareOp(relation, x, data.draw(st.sampled_from([w, half]))))
        chosen = add(graph, frontend.SelectOp(c, x, w))
        both = add(graph, frontend.ConcatOp([c, given_condition], axis))
        turned = add(graph, frontend.PermuteOp(both, (1, 0)))
        ones = add(graph, frontend.CastOp(turned, f16))
        back = add(graph, frontend.CastOp(ones, i1))
        return [chosen, turned, ones, back]

    inputs = [tensor("MN", f32), tensor("N", f32), tensor("MN", i1)]
    agree(closed(inputs, make), {"M": m, "N": n}, 1)


@pytest.mark.parametrize("fn", frontend.UNARY_FUNCTIONS)
def test_functions_of_one_operand(fn: str) -> None:
    """To the last bits, on a grid: a constant that is a little off shows."""

    def make(graph: GraphOp) -> list[SSAValue]:
        return [add(graph, frontend.ElementwiseOp(fn, [graph.body.block.args[0]]))]

    module = closed([tensor("N", f32)], make)
    x = np.linspace(-4, 4, 161, dtype=np.float32)
    graph = cast(GraphOp, next(iter(module.ops)))
    (above,) = frontend_playback.run(graph, [x], {"N": 161})
    FrontendToTiny().apply(make_context(), module)
    (below,) = _tiny(module, [x], {"N": 161})
    np.testing.assert_allclose(below, above, rtol=1e-5, atol=1e-6)


def test_functions_of_two_operands() -> None:
    """To the bit, infinities, NaN and both zeros against each other among them."""

    def make(graph: GraphOp) -> list[SSAValue]:
        pair = graph.body.block.args
        return [add(graph, frontend.ElementwiseOp(fn, pair)) for fn in frontend.BINARY_FUNCTIONS]

    module = closed([tensor("N", f32)] * 2, make)
    special = [0.0, -0.0, 0.5, -1.0, 2.0, -2.5, 7.0, np.inf, -np.inf, np.nan]
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(special, special))
    graph = cast(GraphOp, next(iter(module.ops)))
    above = frontend_playback.run(graph, [x, y], {"N": 100})
    FrontendToTiny().apply(make_context(), module)
    for one, other in zip(above, _tiny(module, [x, y], {"N": 100}), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))
    rest = above[frontend.BINARY_FUNCTIONS.index("mod")]
    plain = np.isfinite(x) & np.isfinite(y) & (y != 0)
    np.testing.assert_array_equal(rest[plain], np.remainder(x[plain], y[plain]))


# Against plain definitions -------------------------------------------------------------------


def test_a_convolution_is_its_definition() -> None:
    sizes = {"N": 2, "C": 4, "H": 6, "W": 5, "F": 6}
    inputs = [tensor("NCHW", f32), tensor(("F", 2, 3, 2), f32)]

    def make(graph: GraphOp) -> list[SSAValue]:
        x, w = graph.body.block.args
        op = frontend.Conv2dOp(x, w, stride=(2, 1), padding=(1, 2, 0, 1), dilation=(1, 2), groups=2)
        return [add(graph, op)]

    inputs[0], inputs[1] = tensor(("N", 4, "H", "W"), f32), tensor((6, 2, 3, 2), f32)
    module = closed(inputs, make)
    graph = cast(GraphOp, next(iter(module.ops)))
    x, w = (widen(a) for a in make_inputs(graph, sizes, 1))
    (found,) = frontend_playback.run(graph, [x, w], sizes)
    expected = np.zeros_like(found)
    for n, f, i, j in np.ndindex(*found.shape):
        for c, r, s in np.ndindex(2, 3, 2):
            row, column = 2 * i + r - 1, j + 2 * s
            if 0 <= row < 6 and 0 <= column < 5:
                expected[n, f, i, j] += x[n, c + 2 * (f // 3), row, column] * w[f, c, r, s]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cap", [None, 0.75])
def test_an_attention_is_its_definition(cap: float | None) -> None:
    sizes = {"M": 5, "N": 6}
    inputs = [tensor((4, "M", 3), f32), tensor((2, "N", 3), f32), tensor((2, "N", 2), f32)]

    def make(graph: GraphOp) -> list[SSAValue]:
        q, k, v = graph.body.block.args
        op = frontend.AttentionOp(q, k, v, causal=True, window=(2, 9), offset=-1, cap=cap, lse=True)
        add(graph, op)
        return [*op.results]

    module = closed(inputs, make)
    graph = cast(GraphOp, next(iter(module.ops)))
    q, k, v = make_inputs(graph, sizes, 1)
    found, lse = frontend_playback.run(graph, [q, k, v], sizes)
    for h, m in np.ndindex(4, 5):
        allowed = [n for n in range(6) if m - 1 - 2 <= n <= m - 1]
        scores = np.array([q[h, m] @ k[h // 2, n] / np.sqrt(3) for n in allowed])
        if not allowed:
            assert (found[h, m] == 0).all() and lse[h, m] == -np.inf
            continue
        scores = scores if cap is None else cap * np.tanh(scores / cap)
        weights = np.exp(scores)
        expected = (weights[:, None] * v[h // 2, allowed]).sum(0) / weights.sum()
        np.testing.assert_allclose(found[h, m], expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(lse[h, m], np.log(weights.sum()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", ["boolean", "additive", "causal", "window"])
def test_a_forbidden_key_contributes_nothing(how: str) -> None:
    """Whatever it holds, in the rows where it is forbidden alone (S0.6)."""
    masked = how in ("boolean", "additive")
    inputs: list[Attribute] = [tensor((1, 2, 2), f32)] * 3
    inputs += [tensor((2, 2), i1 if how == "boolean" else f32)] * masked

    def make(graph: GraphOp) -> list[SSAValue]:
        q, k, v, *masks = graph.body.block.args
        window = (1, 0) if how == "window" else None
        op = frontend.AttentionOp(q, k, v, masks, causal=how == "causal", window=window)
        return [add(graph, op)]

    module = closed(inputs, make)
    graph = cast(GraphOp, next(iter(module.ops)))
    allowed = np.array([[True, False], [True, True]])
    arrays: list[Array] = [
        np.ones((1, 2, 2), np.float32),
        np.array([[[1, 1], [np.nan, np.inf]]], np.float32),
        np.array([[[2, 3], [np.inf, np.nan]]], np.float32),
    ]
    if masked:
        additive = np.where(allowed, 0, -np.inf).astype(np.float32)
        arrays.append(allowed if how == "boolean" else additive)
    (above,) = frontend_playback.run(graph, arrays, {})
    FrontendToTiny().apply(make_context(), module)
    (below,) = _tiny(module, arrays, {})
    for found in (above, below):
        np.testing.assert_array_equal(found[0, 0], [2, 3])
        assert np.isnan(found[0, 1]).all()
