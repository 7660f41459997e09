"""Each pattern of tiny-canonicalize-movements: it fires, it refuses, it changes no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineSet,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import RewritePattern

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.tiny import GraphOp, OutputOp, tensor
from polyc.passes.tiny import canonicalize_movements as canonicalize
from polyc.passes.tiny.canonicalize_movements import (
    DropIdentityMovement,
    EraseUnusedMovement,
    FoldSliceOfPad,
    FuseExpands,
    FuseMasks,
    FusePads,
    FusePermutes,
    FuseReshapes,
    FuseSlices,
    PermuteThroughExpand,
    PermuteThroughReshape,
    TinyCanonicalizeMovements,
    patterns,
)
from polyc.playback.functions import Array
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.tools.registry import make_context


def chain(*steps: tuple[str, str], source: str = "M, N", facts: str = "") -> ModuleOp:
    """Steps ``(text after tiny., result shape)``, each on the value before."""
    before, lines = f"!tiny.tensor<[{source}], f32>", list[str]()
    first = before
    for number, (text, shape) in enumerate(steps):
        after = f"!tiny.tensor<[{shape}], f32>"
        op, _, rest = text.partition(" ")
        name = f"%v{chr(96 + number)}" if number else "%x"
        lines.append(f"%v{chr(97 + number)} = tiny.{op} {name} {rest} : {before} -> {after}")
        before = after
    value = f"%v{chr(96 + len(steps))}"
    text = f"""tiny.graph @f(%x: {first}) -> {before} {f"assuming ({facts})" if facts else ""} {{
      {chr(10).join(lines)}
      tiny.output {value} : {before}
    }}"""
    module = Parser(make_context(), text).parse_module()
    verify(module)
    return module


def mask(condition: str, fill: str = "0.0") -> str:
    return f"mask where affine_set<(d0, d1)[s0, s1] : ({condition})> fill {fill}"


SAME = "M, N"
EVEN = "K mod 8 == 0"

FIRES: list[tuple[RewritePattern, ModuleOp]] = [
    (DropIdentityMovement(), chain(("reshape", SAME))),
    (DropIdentityMovement(), chain(("permute perm [0, 1]", SAME))),
    (DropIdentityMovement(), chain(("expand dims [0, 1]", SAME))),
    (DropIdentityMovement(), chain(("pad low [0, 0] high [0, 0] value 1.0", SAME))),
    (DropIdentityMovement(), chain(("slice [0:M, 0:N]", SAME))),
    (DropIdentityMovement(), chain((mask("d0 >= 0, s1 - d1 - 1 >= 0"), SAME))),
    (
        DropIdentityMovement(),
        chain(("reshape", "8 * (K floordiv 8)"), source="K", facts=EVEN),
    ),
    (FusePermutes(), chain(("permute perm [1, 0]", "N, M"), ("permute perm [1, 0]", SAME))),
    (
        FusePermutes(),
        chain(
            ("permute perm [1, 2, 0]", "N, 2, M"),
            ("permute perm [0, 2, 1]", "N, M, 2"),
            source="M, N, 2",
        ),
    ),
    (
        FuseExpands(),
        chain(("expand dims [0, 2]", "M, 2, N"), ("expand dims [0, 1, 3]", "M, 2, 3, N")),
    ),
    (
        FuseExpands(),
        chain(("expand dims [0, 1]", "M, 4"), ("expand dims [1, 2]", "2, M, 4"), source="M, 1"),
    ),
    (FuseReshapes(), chain(("reshape", "M * N"), ("reshape", "M, 1, N"))),
    (
        FusePads(),
        chain(
            ("pad low [1, 0] high [0, 0] value -inf", "M + 1, N"),
            ("pad low [1, 0] high [N, 0] value -inf", "M + N + 2, N"),
        ),
    ),
    (FuseMasks(), chain((mask("d0 - d1 >= 0"), SAME), (mask("d1 - 2 >= 0"), SAME))),
    (
        FuseSlices(),
        chain(
            ("slice [1:M, 0:N:2]", "M - 1, (N + 1) floordiv 2"),
            (
                "slice [0:M - 1:3, 1:(N + 1) floordiv 2]",
                "(M + 1) floordiv 3, (N + 1) floordiv 2 - 1",
            ),
        ),
    ),
    (
        FoldSliceOfPad(),
        chain(
            ("pad low [2, 0] high [1, 0] value 0.0", "M + 3, N"),
            ("slice [2:M + 2:2, 0:N]", "(M + 1) floordiv 2, N"),
        ),
    ),
    (
        PermuteThroughExpand(),
        chain(("expand dims [0, 2]", "M, 4, N"), ("permute perm [2, 1, 0]", "N, 4, M")),
    ),
    (
        PermuteThroughReshape(),
        chain(("reshape", "M, N, 8"), ("permute perm [1, 2, 0]", "N, 8, M"), source="M, 8 * N"),
    ),
    (
        PermuteThroughReshape(),
        chain(("reshape", "6, M"), ("permute perm [1, 0]", "M, 6"), source="2, 3, M"),
    ),
    (
        PermuteThroughReshape(),
        chain(("reshape", "M * N, K"), ("permute perm [1, 0]", "K, M * N"), source="M, N, K"),
    ),
    (PermuteThroughReshape(), chain(("reshape", "M, 1, N"), ("permute perm [1, 2, 0]", "1, N, M"))),
    (EraseUnusedMovement(), chain(("permute perm [1, 0]", "N, M"))),
]

REFUSES: list[tuple[RewritePattern, ModuleOp]] = [
    (DropIdentityMovement(), chain(("reshape", "N, M"))),
    (DropIdentityMovement(), chain(("permute perm [1, 0]", "M, M"), source="M, M")),
    (DropIdentityMovement(), chain(("expand dims [1, 2]", "2, M, N"))),
    (DropIdentityMovement(), chain(("expand dims [0, 1]", "M, 4"), source="M, 1")),
    (DropIdentityMovement(), chain(("slice [0:M:2, 0:N]", "(M + 1) floordiv 2, N"))),
    (DropIdentityMovement(), chain(("slice [1:M, 0:N]", "M - 1, N"))),
    (DropIdentityMovement(), chain((mask("d0 - 1 >= 0"), SAME))),
    (DropIdentityMovement(), chain((mask("s0 - d1 - 1 >= 0"), SAME))),
    (FusePermutes(), chain(("reshape", "N, M"), ("permute perm [1, 0]", SAME))),
    (FuseReshapes(), chain(("permute perm [1, 0]", "N, M"), ("reshape", "M * N"))),
    (
        FusePads(),
        chain(
            ("pad low [1, 0] high [0, 0] value 0.0", "M + 1, N"),
            ("pad low [1, 0] high [0, 0] value -0.0", "M + 2, N"),
        ),
    ),
    (FuseMasks(), chain((mask("d0 - d1 >= 0", "0.0"), SAME), (mask("d1 - 2 >= 0", "-0.0"), SAME))),
    # A product of symbols is beyond isl, and what is not seen to be inside is refused.
    (
        FuseSlices(),
        chain(
            ("slice [0:M * N:2]", "(M * N + 1) floordiv 2"),
            ("slice [0:(M * N + 1) floordiv 2]", "(M * N + 1) floordiv 2"),
            source="M * N",
        ),
    ),
    (
        FoldSliceOfPad(),
        chain(
            ("pad low [2, 0] high [1, 0] value 0.0", "M + 3, N"),
            ("slice [1:M + 2, 0:N]", "M + 1, N"),
        ),
    ),
    (
        FoldSliceOfPad(),
        chain(
            ("pad low [2, 0] high [1, 0] value 0.0", "M + 3, N"),
            ("slice [2:M + 3, 0:N]", "M + 1, N"),
        ),
    ),
    (
        PermuteThroughReshape(),
        chain(("reshape", "M, N, 8"), ("permute perm [2, 0, 1]", "8, M, N"), source="M, 8 * N"),
    ),
    (
        PermuteThroughReshape(),
        chain(("reshape", "3, 4"), ("permute perm [1, 0]", "4, 3"), source="2, 6"),
    ),
    (EraseUnusedMovement(), chain(("permute perm [1, 0]", "N, M"))),
]


def name(case: tuple[RewritePattern, ModuleOp]) -> str:
    return type(case[0]).__name__


SIZES = {"M": 3, "N": 5, "K": 8}


def numbers(graph: GraphOp, sizes: Mapping[str, int]) -> list[Array]:
    """Every element unlike every other, with NaN, infinities and a negative zero among them."""
    found: list[Array] = []
    for spec in graph.inputs:
        shape = [d.evaluate(sizes) for d in spec.type.dims]
        array = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32)
        array[: min(4, len(array))] = np.array([-0.0, np.nan, np.inf, -np.inf])[: len(array)]
        found.append(array.reshape(shape))
    return found


def graph_in(module: ModuleOp) -> GraphOp:
    return cast(GraphOp, next(iter(module.ops)))


def play(module: ModuleOp, sizes: Mapping[str, int]) -> list[Array]:
    graph = graph_in(module)
    return run(graph, numbers(graph, sizes), sizes)


def same(a: Sequence[Array], b: Sequence[Array]) -> None:
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


@pytest.mark.parametrize("case", FIRES, ids=name)
def test_fires(case: tuple[RewritePattern, ModuleOp]) -> None:
    pattern, module = case[0], case[1].clone()
    if isinstance(pattern, EraseUnusedMovement):
        block = graph_in(module).body.block
        assert block.last_op is not None
        block.last_op.operands[0] = block.args[0]
        assert rewrite(module, [pattern])
        assert len(list(block.ops)) == 1
        return
    before = play(module, SIZES)
    assert rewrite(module, [pattern])
    verify(module)
    same(play(module, SIZES), before)


@pytest.mark.parametrize("case", REFUSES, ids=name)
def test_refuses(case: tuple[RewritePattern, ModuleOp]) -> None:
    pattern, module = case[0], case[1].clone()
    assert not rewrite(module, [pattern])
    assert str(module) == str(case[1])


def test_every_pattern_is_tested() -> None:
    known = {type(p) for p in (*patterns(), EraseUnusedMovement())}
    assert known == {type(p) for p, _ in FIRES}


def test_isl_must_agree_where_strides_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong order of the groups is refused: by the sizes, or else by isl."""
    module = chain(("reshape", "4, 3, 3"), ("permute perm [0, 2, 1]", "4, 3, 3"), source="4, 3, 3")
    assert rewrite(module.clone(), [PermuteThroughReshape()])

    def in_order(*_: object) -> list[int]:
        return [0, 1, 2]

    monkeypatch.setattr(canonicalize, "moved_groups", in_order)
    assert not rewrite(module, [PermuteThroughReshape()])


# Random chains ---------------------------------------------------------------------------


def _moves(draw: st.DrawFn, value: SSAValue, symbols: int) -> Sequence[MovementOp]:
    t = tiny.tensor_of(value)
    dims, rank = list(t.dims), t.rank
    kind = draw(
        st.sampled_from(["permute", "expand", "reshape", "pad", "slice", "mask", "mask", "merge"])
    )
    if kind == "permute":
        return [tiny.PermuteOp(value, draw(st.permutations(range(rank))))]
    if kind == "expand" and rank < 4:
        at = draw(st.integers(0, rank))
        new = draw(st.sampled_from([Dim.const(1), Dim.const(2), Dim.sym("M")]))
        wide = [*dims[:at], new, *dims[at:]]
        if at < rank and dims[at].constant() == 1:  # stretch that one instead
            wide = [*dims[:at], new, *dims[at + 1 :]]
            return [tiny.ExpandOp(value, range(rank), tensor(wide))]
        return [tiny.ExpandOp(value, [i + (i >= at) for i in range(rank)], tensor(wide))]
    if kind == "reshape" and rank < 4:
        at = draw(st.integers(0, rank))
        return [tiny.ReshapeOp(value, [*dims[:at], Dim.const(1), *dims[at:]])]
    if kind == "merge" and rank >= 2:
        at = draw(st.integers(0, rank - 2))
        merged = dims[at] * dims[at + 1]
        return [tiny.ReshapeOp(value, [*dims[:at], merged, *dims[at + 2 :]])]
    small = st.sampled_from([Dim.const(0), Dim.const(1), Dim.const(2), Dim.sym("N")])
    fill = draw(st.sampled_from([0.0, -0.0, 1.5]))
    if kind == "pad":
        low, high = ([draw(small) for _ in dims] for _ in range(2))
        return [tiny.PadOp(value, low, high, fill)]
    if kind == "mask":
        a, b = (draw(st.integers(0, rank - 1)) for _ in range(2))
        row = AffineDimExpr(a) - AffineDimExpr(b) + AffineConstantExpr(draw(st.integers(-1, 2)))
        constraint = AffineConstraintExpr(AffineConstraintKind.ge, row, AffineConstantExpr(0))
        return [tiny.MaskOp(value, AffineSet(rank, symbols, (constraint,)), fill)]
    # Room first, so that a slice stays inside whatever the symbols are.
    room = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in dims]
    padded = tiny.PadOp(value, [a for a, _ in room], [b for _, b in room], fill)
    part = tiny.SliceOp(
        padded.result,
        [draw(st.integers(0, a)) for a, _ in room],
        [d + a + draw(st.integers(0, b)) for d, (a, b) in zip(dims, room, strict=True)],
        [draw(st.integers(1, 3)) for _ in dims],
    )
    return [padded, part]


@st.composite
def chains(draw: st.DrawFn) -> ModuleOp:
    """A chain of up to 7 movements from [M, N, 2]; a value in the middle goes out too."""
    source = draw(st.sampled_from([("M", "N", 2), ("N", "M"), (2, 3), ("M",), (1, "N")]))
    graph = GraphOp("f", [tensor(("M", "N")), tensor(source)], [tensor(source)])
    block = graph.body.block
    values: list[SSAValue] = [block.args[1]]
    for _ in range(draw(st.integers(1, 7))):
        for op in _moves(draw, values[-1], len(graph.symbol_names)):
            block.add_op(op)
            values.append(op.results[0])
    outs = [values[-1], draw(st.sampled_from(values))]
    block.add_op(OutputOp(outs))
    inputs = [a.type for a in block.args]
    body = graph.detach_region(graph.body)
    return ModuleOp([GraphOp("f", inputs, [o.type for o in outs], body)])


@given(chains(), st.integers(0, 3), st.integers(0, 3))
def test_values_stay(module: ModuleOp, m: int, n: int) -> None:
    verify(module)
    sizes = {"M": m, "N": n}
    elements = [
        np.prod([d.evaluate(sizes) for d in tiny.tensor_of(r).dims], dtype=np.int64)
        for op in graph_in(module).body.block.ops
        for r in op.results
    ]
    assume(max(elements, default=0) < 200_000)
    before = play(module, sizes)
    count = len(list(module.walk()))
    TinyCanonicalizeMovements().apply(make_context(), module)
    verify(module)
    same(play(module, sizes), before)
    again = module.clone()
    TinyCanonicalizeMovements().apply(make_context(), again)
    assert str(again) == str(module)
    assert len(list(module.walk())) <= count + 2
    for op in module.walk():
        if isinstance(op, tiny.PermuteOp):
            assert not isinstance(op.operand.owner, tiny.PermuteOp | tiny.ExpandOp)
