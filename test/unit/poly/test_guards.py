"""Redundant rows of guards, the ledger and ``region-drop-guards``, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir.affine import (
    AffineConstraintExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)

from polyc.affine import isl
from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects import region
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import box
from polyc.dialects.region.types import AxisAttr, MemRefType
from polyc.passes.region.drop_guards import RegionDropGuards
from polyc.playback import region as region_playback
from polyc.poly.blocks import blocks_of
from polyc.poly.guards import guard_entries, judge, tail_entries
from polyc.test.support.book_needs import booked_text
from polyc.test.support.book_points import holds
from polyc.test.support.turns import examples
from polyc.test.unit.poly.test_compute_at import SOFTMAX, STENCIL


@st.composite
def rows_of(draw: st.DrawFn) -> tuple[AffineConstraintExpr, ...]:
    terms: list[AffineExpr] = [AffineDimExpr(0), AffineDimExpr(1), AffineSymExpr(0)]

    def row() -> AffineConstraintExpr:
        a, b = draw(st.sampled_from(terms)), draw(st.sampled_from(terms))
        value = a * draw(st.integers(-2, 2)) + b * draw(st.integers(-1, 1))
        equal = draw(st.integers(0, 5)) == 0
        return constraint_of(linear_of(value + draw(st.integers(-3, 3))), equal)

    return tuple(row() for _ in range(draw(st.integers(1, 3))))


KNOWN = box([Dim.sym("N"), Dim.const(4)], ["N"])


@settings(max_examples=examples(150), deadline=None)
@given(rows_of())
def test_the_kept_rows_say_the_same(rows: tuple[AffineConstraintExpr, ...]) -> None:
    """Nothing that matters is dropped; what is kept matters at its failing point."""
    verdicts = judge(rows, KNOWN)
    kept = [v.row for v in verdicts if not v.dropped]
    before, after = AffineSet(2, 1, rows), AffineSet(2, 1, tuple(kept))
    for n in range(7):
        for point in itertools.product(range(n), range(4)):
            assert holds(before, point, [n]) == holds(after, point, [n])
    for v in verdicts:
        if v.failing is not None:
            point, symbols = v.failing
            assert holds(KNOWN, point, symbols)
            assert not holds(AffineSet(2, 1, (v.row,)), point, symbols)
            others = AffineSet(2, 1, tuple(r for r in kept if r is not v.row))
            assert holds(others, point, symbols)


def kernel(rows: tuple[AffineConstraintExpr, ...]) -> region.KernelOp:
    """A guarded read and a select by the same rows, over [N, 4]."""
    axes = (AxisAttr.of("n", Dim.sym("N")), AxisAttr.of("i1", Dim.const(4)))
    memref = MemRefType.of([Dim.sym("N"), Dim.const(4)], f32, 16, False)
    op = region.KernelOp(
        "f", axes, [region.KernelTensor("x", memref)], [region.KernelTensor("y", memref)]
    )
    block = op.body.block
    guard = AffineSet(2, 1, rows)
    identity = AffineMap(2, 1, (AffineDimExpr(0), AffineDimExpr(1)))
    read = region.ReadOp(block.args[0], identity, axes, guard, 5.0)
    inside = region.InsideOp(guard, axes)
    other = region.UnaryOp("neg", read.result)
    chosen = region.SelectOp(inside.result, read.result, other.result)
    block.add_ops([read, inside, other, chosen, region.YieldOp([chosen.result])])
    return op


@settings(max_examples=examples(60), deadline=None)
@given(rows_of())
def test_the_pass_keeps_the_values(rows: tuple[AffineConstraintExpr, ...]) -> None:
    op = kernel(rows)
    module = ModuleOp([op])
    module.verify()
    arrays = [np.arange(4.0 * n, dtype=np.float32).reshape(n, 4) + 1 for n in range(5)]
    before = [region_playback.run(op, [a], {"N": len(a)})[0] for a in arrays]
    RegionDropGuards().apply(Context(), module)
    module.verify()
    for a, want in zip(arrays, before, strict=True):
        (found,) = region_playback.run(op, [a], {"N": len(a)})
        np.testing.assert_array_equal(found, want)
    text = str(module)
    RegionDropGuards().apply(Context(), module)
    assert str(module) == text


def test_a_guard_beyond_isl_is_a_diagnostic():
    row = constraint_of(linear_of(AffineDimExpr(0) * 7 + AffineDimExpr(1) * 977 - 31), False)
    module = ModuleOp([kernel((row,))])
    with isl.limited(3), pytest.raises(PolycError, match="PolyhedralLimit"):
        RegionDropGuards().apply(Context(), module)


# The ledger ----------------------------------------------------------------------------


def test_the_ledger_of_a_stencil():
    """The guard of the pad stays, with the points at both ends."""
    blocks = blocks_of(booked_text(STENCIL))
    entries = list(guard_entries(blocks))
    assert [(e.block.name, e.verdict.dropped) for e in entries] == [("y", False), ("y", False)]
    for entry in entries:
        failing = entry.verdict.failing
        assert failing is not None
        (n, tap), (size,) = failing
        assert not 0 <= n + tap - 1 < size


CUT = """
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  %p = tiny.pad %x low [1] high [1] value 0.0
      : !tiny.tensor<[N], f32> -> !tiny.tensor<[N + 2], f32>
  %s = tiny.slice %p [1:N + 1:1] : !tiny.tensor<[N + 2], f32> -> !tiny.tensor<[N], f32>
  %y = tiny.unary neg %s : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}
"""
MASKED = """
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[M, N], f32>)
    assuming (M - N >= 0, N >= 1, N <= 1) {
  %s = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill 0.0
      : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  %y = tiny.unary neg %s : !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
"""


def test_dropped_guards_have_a_proof():
    """A pad that is cut off again, and a mask that the assumptions make whole."""
    for text, rows in ((CUT, 2), (MASKED, 1)):
        entries = list(guard_entries(blocks_of(booked_text(text))))
        assert [e.verdict.dropped for e in entries] == [True] * rows
        for entry in entries:
            known, row = entry.verdict.known, entry.verdict.row
            alone = AffineSet(known.num_dims, known.num_symbols, (row,))
            symbols = known.num_symbols
            for sizes in itertools.product(range(4), repeat=symbols):
                for point in itertools.product(range(-1, 4), repeat=known.num_dims):
                    assert not holds(known, point, sizes) or holds(alone, point, sizes)


def test_tails_in_the_ledger():
    text = SOFTMAX.replace("f32>) {", "f32>) assuming (N mod 8 == 0) {")
    block = blocks_of(booked_text(text)).blocks[0]
    entries = list(tail_entries(block, {0: 4, 1: 8}))
    assert [e.tail is None for e in entries] == [False, True]
