"""How small the book stays on chains of movements, and where it gives up (S4.6, S5.3)."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from xdsl.context import Context
from xdsl.ir.affine import AffineExpr, AffineSet

from polyc.affine import isl
from polyc.dialects import index, tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.poly.readings import reading
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text


class Row(NamedTuple):
    """A chain from %x; the most parts of the composed access, and nodes of its expressions.

    ``steps`` are ops without their operand and type, each with the shape that it gives.
    """

    name: str
    source: str
    steps: tuple[tuple[str, str], ...]
    parts: int
    nodes: int


TURN = ("permute perm [1, 0]", "N, M")
BACK = ("permute perm [1, 0]", "M, N")

CHAINS = (
    Row("turned and back", "M, N", (TURN, BACK), 1, 2),
    Row("turned and back, ten times", "M, N", (TURN, BACK) * 10, 1, 2),
    Row("merged and split", "M, N", (("reshape", "M * N"), ("reshape", "M, N")), 1, 2),
    Row("merged and split elsewhere", "M, N, K",
        (("reshape", "M * N * K"), ("reshape", "M, N * K"), ("reshape", "M, N, K")), 1, 3),
    Row("split and merged", "M, 24", (("reshape", "M, 4, 6"), ("reshape", "M, 24")), 1, 2),
    Row("shuffled", "M, 24",
        (("reshape", "M, 4, 6"), ("permute perm [0, 2, 1]", "M, 6, 4"), ("reshape", "M, 24")),
        1, 10),
    Row("shuffled and back", "M, 24",
        (("reshape", "M, 4, 6"), ("permute perm [0, 2, 1]", "M, 6, 4"), ("reshape", "M, 24"),
         ("reshape", "M, 6, 4"), ("permute perm [0, 2, 1]", "M, 4, 6"), ("reshape", "M, 24")),
        1, 2),
    Row("padded and cut back", "M, N",
        (("pad low [1, 0] high [1, 0] value 0.0", "M + 2, N"), ("slice [1:M + 1, 0:N]", "M, N")),
        1, 2),
    Row("padded and cut back, six times", "M, N",
        (("pad low [1, 0] high [1, 0] value 0.0", "M + 2, N"),
         ("slice [1:M + 1, 0:N]", "M, N")) * 6,
        1, 2),
    Row("padded twice", "M, N",
        (("pad low [1, 0] high [1, 0] value 0.0", "M + 2, N"),
         ("pad low [2, 0] high [0, 0] value 1.0", "M + 4, N")),
        4, 4),
    Row("sliced twice", "M, N",
        (("slice [1:M:2, 0:N]", "M floordiv 2, N"),
         ("slice [1:M floordiv 2:3, 0:N]", "(M floordiv 2 + 1) floordiv 3, N")),
        1, 6),
    Row("windows of a padded image", "M, N",
        (("pad low [1, 1] high [1, 1] value 0.0", "M + 2, N + 2"),
         ("window axes [0, 1] size [3, 3] stride [1, 1] dilation [1, 1]", "M, N, 3, 3")),
        5, 10),
    Row("im2col", "M, N",
        (("pad low [1, 1] high [1, 1] value 0.0", "M + 2, N + 2"),
         ("window axes [0, 1] size [3, 3] stride [1, 1] dilation [1, 1]", "M, N, 3, 3"),
         ("reshape", "M * N, 9")),
        5, 18),
    Row("causal in a window", "M, N",
        (("mask where affine_set<(d0, d1)[s0, s1, s2] : (d0 - d1 >= 0)> fill -inf", "M, N"),
         ("mask where affine_set<(d0, d1)[s0, s1, s2] : (d1 - d0 + 4 >= 0)> fill -inf", "M, N")),
        3, 2),
    Row("repeated and merged", "M, N",
        (("expand dims [0, 2]", "M, 2, N"), ("reshape", "2 * M, N")), 1, 4),
    Row("expanded and cut", "M, N",
        (("expand dims [1, 2]", "5, M, N"), ("slice [1:2, 0:M, 0:N]", "1, M, N"),
         ("reshape", "M, N")), 1, 2),
    Row("depth to space", "M, N, 4",
        (("reshape", "M, N, 2, 2"), ("permute perm [0, 2, 1, 3]", "M, 2, N, 2"),
         ("reshape", "2 * M, 2 * N")), 1, 23),
    Row("depth to space and back", "M, N, 4",
        (("reshape", "M, N, 2, 2"), ("permute perm [0, 2, 1, 3]", "M, 2, N, 2"),
         ("reshape", "2 * M, 2 * N"), ("reshape", "M, 2, N, 2"),
         ("permute perm [0, 2, 1, 3]", "M, N, 2, 2"), ("reshape", "M, N, 4")), 1, 3),
)  # fmt: skip
"""Written by hand: a part is a way to %x or a fill; ``d0 * 2 + 1`` has 5 nodes."""


def text_of(row: Row) -> str:
    def tensor(shape: str) -> str:
        return f"!tiny.tensor<[{shape}], f32>"

    lines: list[str] = []
    name, before = "x", row.source
    for i, (step, shape) in enumerate(row.steps):
        op, _, rest = step.partition(" ")
        lines.append(f"%v{i} = tiny.{op} %{name} {rest} : {tensor(before)} -> {tensor(shape)}")
        name, before = f"v{i}", shape
    body = "\n  ".join([*lines, f"tiny.output %{name} : {tensor(before)}"])
    return (
        f"tiny.graph @f(%x: {tensor(row.source)}, %s: {tensor('M, N, K')}) -> "
        f"(y: {tensor(before)}) assuming (M >= 8, N >= 8) {{\n  {body}\n}}\n"
    )


def booked(text: str, ctx: Context) -> tiny.GraphOp:
    module = parse_text(ctx, text, "f.mlir")
    verify(module)
    TinyToIndex().apply(ctx, module)
    verify(module)
    (graph,) = module.body.block.ops
    assert isinstance(graph, tiny.GraphOp)
    return graph


def nodes(expr: AffineExpr) -> int:
    return sum(1 for _ in expr.dfs())


@pytest.mark.parametrize("row", CHAINS, ids=lambda r: r.name)
def test_chains_stay_small(row: Row, ctx: Context) -> None:
    graph = booked(text_of(row), ctx)
    last = graph.body.block.last_op
    assert last is not None
    facts: AffineSet = graph.assumptions.as_affine_set(graph.symbol_names)
    found = reading(index.start(last.operands[0]), facts)
    assert len(found.reads) + len(found.fills) <= row.parts
    (reach,) = found.reads
    assert reach.source is graph.body.block.args[0]
    simple = isl.simplify_map(reach.map, reach.domain)
    assert sum(map(nodes, simple.results)) <= row.nodes, simple
    # An entry is of one step: a pad of two axes on both sides is the most here.
    assert all(len(entry.pieces) <= 5 for entry in index.book(graph).values())


# Where it gives up ----------------------------------------------------------------------

PADDED = """
tiny.graph @f(%x: {0}) -> (y: {1}) {{
  %y = tiny.pad %x low {2} high {2} value 0.0 : {0} -> {1}
  tiny.output %y : {1}
}}
"""


def test_a_domain_in_too_many_pieces_is_refused(ctx: Context) -> None:
    """A pad on both sides of 33 axes has 67 pieces."""
    shape = ", ".join(["M"] * 33)
    wide = ", ".join(["M + 2"] * 33)
    ones = "[" + ", ".join("1" * 33) + "]"
    kinds = [f"!tiny.tensor<[{s}], f32>" for s in (shape, wide)]
    text = PADDED.format(*kinds, ones)
    with pytest.raises(PolycError) as caught:
        booked(text, ctx)
    error = caught.value
    assert error.kind == "ExcessivePiecewise" and "67 pieces, at most 64" in error.message
    assert error.place is not None and error.place.line == 3


@pytest.mark.parametrize(
    "step",
    [
        ("mask where affine_set<(d0, d1)[s0, s1, s2] : (d0 * 3 - d1 >= 0)> fill 0.0", "M, N"),
        ("pad low [3, 3] high [5, 5] value 0.0", "M + 8, N + 8"),
        ("slice [3:M:5, 0:N]", "(M + 1) floordiv 5, N"),
    ],
)
def test_isl_works_under_a_limit_in_every_rule(step: tuple[str, str], ctx: Context) -> None:
    """The pass ends in a diagnostic at the op, whichever question isl did not finish."""
    module = parse_text(ctx, text_of(Row("", "M, N", (step,), 0, 0)), "limit.mlir")
    verify(module)
    with isl.limited(3), pytest.raises(PolycError) as caught:
        TinyToIndex().apply(ctx, module)
        verify(module)
    error = caught.value
    assert error.kind == "PolyhedralLimit" and "more than 3 isl operations" in error.message
    assert error.place is not None and (error.place.file, error.place.line) == ("limit.mlir", 2)
