"""The index book of movements that change coordinates, evaluated point by point (S4.7)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import AffineSetAttr, ModuleOp
from xdsl.ir.affine import AffineMap, AffineSet

from polyc.affine import isl
from polyc.dialects import index, tiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.test.support.movement_chains import SIZES, SYMBOLS, Chain
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text

Array = npt.NDArray[Any]
CHAINS = st.composite(Chain)


def booked(graph: tiny.GraphOp) -> tiny.GraphOp:
    module = ModuleOp([graph])
    module.verify()
    TinyToIndex().apply(Context(), module)
    module.verify()
    return graph


def points(extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, extents))


def holds(points: AffineSet, at: tuple[int, ...]) -> bool:
    symbols = [SIZES[s] for s in SYMBOLS]
    return all(
        (row.lhs - row.rhs).eval(at, symbols) == 0
        if row.kind.value == "=="
        else (row.lhs - row.rhs).eval(at, symbols) >= 0
        for row in points.constraints
    )


@settings(max_examples=examples(80), deadline=None)
@given(CHAINS())
def test_each_piece_reads_what_numpy_reads(chain: Chain) -> None:
    """Every point is in one piece, which reads the operand's element or holds the fill."""
    for value, entry in index.book(booked(chain.graph)).items():
        if not isinstance(value.owner, tiny.ReduceOp) and entry.operands_read:
            assert entry.is_scop
            (operand,) = entry.operands_read
            source, result = chain.arrays[operand], chain.arrays[value]
            for point in points(result.shape):
                (piece,) = [
                    p
                    for p in entry.pieces
                    if not isinstance(p.domain, AffineSetAttr) or holds(p.domain.data, point)
                ]
                (found,) = piece.entries
                if isinstance(found, AffineMap):
                    where = found.eval(point, [SIZES[s] for s in SYMBOLS])
                    assert all(0 <= c < n for c, n in zip(where, source.shape, strict=True))
                    assert source[tuple(where)] == result[point]
                else:
                    assert found == result[point]


# How small the entries stay -------------------------------------------------------------

PIECES = [
    ("tiny.pad %x low [1, 0] high [0, 0] value 0.0", "[M + 1, N]", 2),
    ("tiny.pad %x low [1, 0] high [1, 0] value 0.0", "[M + 2, N]", 3),
    ("tiny.pad %x low [1, 1] high [1, 1] value 0.0", "[M + 2, N + 2]", 5),
    ("tiny.pad %x low [0, 0] high [0, 0] value 0.0", "[M, N]", 1),
    ("tiny.pad %x low [N, 0] high [0, 0] value 0.0", "[M + N, N]", 2),
    ("tiny.slice %x [1:M, 0:N:2]", "[M - 1, (N + 1) floordiv 2]", 1),
    (
        "tiny.window %x axes [0] size [3] stride [2] dilation [1]",
        "[(M - 3) floordiv 2 + 1, N, 3]",
        1,
    ),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill -inf", "[M, N]", 2),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 == 0)> fill 0.0", "[M, N]", 2),
    (
        "tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0, d1 - d0 + 4 >= 0)> "
        "fill -inf",
        "[M, N]",
        3,
    ),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 >= 0)> fill 0.0", "[M, N]", 1),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 * -1 - 1 >= 0)> fill 0.0", "[M, N]", 1),
]
"""A movement, the shape that it gives, and how many pieces its entry has; by hand."""


def entry_of(op: str, shape: str, ctx: Context, source: str = "[M, N]") -> index.ValueOp:
    text = f"""
tiny.graph @f(%x: !tiny.tensor<{source}, f32>, %s: !tiny.tensor<[M, N, K], f32>)
    -> (y: !tiny.tensor<{shape}, f32>) assuming (M >= 3, N >= 3) {{
  %y = {op} : !tiny.tensor<{source}, f32> -> !tiny.tensor<{shape}, f32>
  tiny.output %y : !tiny.tensor<{shape}, f32>
}}
"""
    if "[s0, s1]" in text:
        text = text.replace("[M, N, K]", "[M, N]")
    module = parse_text(ctx, text, "f.mlir")
    module.verify()
    TinyToIndex().apply(ctx, module)
    module.verify()
    (graph,) = module.body.block.ops
    (found,) = [e for v, e in index.book(graph).items() if v.name_hint == "y"]
    return found


@pytest.mark.parametrize(("op", "shape", "count"), PIECES)
def test_pieces(op: str, shape: str, count: int, ctx: Context) -> None:
    assert len(entry_of(op, shape, ctx).pieces) == count


def test_conv_rows_are_in_unpadded_coordinates(ctx: Context) -> None:
    """S4.9: row = s * ho + d * kh - p, through a pad and a window."""
    text = """
tiny.graph @f(%x: !tiny.tensor<[H], f32>) -> (y: !tiny.tensor<[(H - 1) floordiv 2 + 1, 3], f32>)
    assuming (H >= 3) {
  %p = tiny.pad %x low [1] high [1] value 0.0 : !tiny.tensor<[H], f32> -> !tiny.tensor<[H + 2], f32>
  %y = tiny.window %p axes [0] size [3] stride [2] dilation [1]
      : !tiny.tensor<[H + 2], f32> -> !tiny.tensor<[(H - 1) floordiv 2 + 1, 3], f32>
  tiny.output %y : !tiny.tensor<[(H - 1) floordiv 2 + 1, 3], f32>
}
"""
    module = parse_text(ctx, text, "f.mlir")
    module.verify()
    TinyToIndex().apply(ctx, module)
    module.verify()
    (graph,) = module.body.block.ops
    entries = {v.name_hint: e for v, e in index.book(graph).items()}
    inside = entries["p"].pieces.data[0]
    assert [str(m) for m in inside.entries] == ["(d0)[s0] -> ((d0 + -1))"]
    (piece,) = entries["y"].pieces
    assert [str(m) for m in piece.entries] == ["(d0, d1)[s0] -> (((d0 * 2) + d1))"]


@pytest.mark.parametrize(
    ("source", "shape", "map"),
    [
        ("[M, 8]", "[8 * M]", "(d0 floordiv 8), (d0 + ((d0 floordiv 8) * -8))"),
        ("[8 * M]", "[M, 8]", "((d0 * 8) + d1)"),
        ("[M, 12]", "[M, 3, 4]", "d0, ((d1 * 4) + d2)"),
        ("[M, 1, N]", "[M, N]", "d0, 0, d1"),
    ],
)
def test_reshape_maps(source: str, shape: str, map: str, ctx: Context) -> None:
    entry = entry_of("tiny.reshape %x", shape, ctx, source)
    (piece,) = entry.pieces
    (found,) = piece.entries
    assert isinstance(found, AffineMap)
    dims = ", ".join(f"d{i}" for i in range(found.num_dims))
    assert str(found).replace(" ", "") == f"({dims})[s0, s1, s2] -> ({map})".replace(" ", "")


@pytest.mark.parametrize(
    ("op", "source", "shape", "reason"),
    [
        ("tiny.reshape %x", "[M, N]", "[N, M]", "a reshape of M x N to N x M divides by a symbol"),
        ("tiny.reshape %x", "[M * N]", "[M, N]", "a reshape of M * N to M x N divides by a symbol"),
        (
            "tiny.pad %x low [0] high [1] value 0.0",
            "[M * N]",
            "[M * N + 1]",
            "the pad extends axis 0, whose size M * N multiplies symbols",
        ),
        (
            "tiny.pad %x low [M * N] high [0] value 0.0",
            "[M]",
            "[M * N + M]",
            "the pad of axis 0 has a border at M * N, which multiplies symbols",
        ),
        (
            "tiny.slice %x [1:M * N]",
            "[M * N]",
            "[M * N - 1]",
            "the slice cuts axis 0, whose size M * N multiplies symbols",
        ),
    ],
)
def test_what_is_not_affine_is_a_boundary(
    op: str, source: str, shape: str, reason: str, ctx: Context
) -> None:
    entry = entry_of(op, shape, ctx, source)
    assert not entry.is_scop and reason in str(entry.reason)


def test_fill_pieces_and_read_pieces_cover_the_box(ctx: Context) -> None:
    entry = entry_of("tiny.pad %x low [1, 1] high [1, 1] value 0.0", "[M + 2, N + 2]", ctx)
    domains = tuple(entry.domain(p) for p in entry.pieces)
    assert isl.covers(entry.domain(), domains)
