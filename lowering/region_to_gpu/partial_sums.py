"""``region-to-gpu``: CTAs that share a tile's steps through memory, however many (split-K; S8, S9).

A first kernel has a CTA for each part of each tile, and stores its sums as they are, f32, in a
workspace.  A second one adds the parts of every element, in their order, so that runs repeat to the
bit, and goes on with the region's epilogue: four rows a CTA, a warp each, which has it whole where
it is reduced.  Of many parts four warps add every fourth one each, of one row, and then these sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, GlobalType, element_bytes
from polyc.lowering.region_to_gpu.grid import Axis, Grid
from polyc.passes.support.gpu.free_layouts import WARP, row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.emit import Emit, affine_dim

PART = "part"
"""The axis of a grid along which CTAs have parts of a tile's steps; no name of a region has it."""

ROWS = 4
"""Rows of the tiles whose parts are added: a warp has one."""

THREADS = ROWS * WARP
"""Threads of a CTA that adds."""

MANY = 32
"""Parts that a thread has on their way at once: of more each warp of a CTA has some."""


def parted(grid: Grid, parts: int) -> Grid:
    """The grid of the first kernel: its tiles once for each part.

    Parts go outermost, so that CTAs that run together read the same stretch of both operands.
    """
    return Grid((Axis(PART, Dim.const(parts)), *grid.axes))


def adding(grid: Grid, columns: int, parts: int, reduced: bool = False) -> Grid:
    """The grid of the second one, whose tiles are ``columns`` wide: of four rows, or of one, of
    whose parts each warp has some.  A row that is ``reduced`` is a warp's.
    """
    *batch, m, n = grid.axes
    rows = ROWS if reduced or parts <= MANY else 1
    ends = Axis(m.label, m.size, rows), Axis(n.label, n.size, columns)
    return Grid((*batch, *ends), order=("row", 1))


def in_order(emit: Emit, steps: int, many: int, one: Callable[[Emit, SSAValue], None]) -> None:
    """``one`` of each of so many steps, in their order, with loads of ``many`` at once."""
    whole = steps // many * many

    def run(outer: Emit, first: SSAValue) -> None:
        def inside(inner: Emit, step: SSAValue) -> None:
            one(inner, inner.apply(affine_dim(0) + affine_dim(1), [first, step], hint=PART))

        outer.loop(many, inside, unroll=True)

    if whole:
        emit.loop(whole, run, step=many)
    if whole < steps:
        emit.loop(steps, one, unroll=True, hint=PART, start=whole)


@dataclass(frozen=True)
class PartialSums:
    """The sums of all parts of one product, in a workspace ``[parts, ..., rows, columns]``."""

    parts: int
    space: SSAValue

    @staticmethod
    def kind(grid: Grid, parts: int) -> GlobalType:
        """The type of the workspace for the outputs of a grid."""
        return GlobalType.of([parts, *(axis.size for axis in grid.axes)], f32)

    def store(self, emit: Emit, acc: SSAValue, part: SSAValue, at: Sequence[SSAValue]) -> None:
        """Write a tile's sums of one part; ``at`` is where the tile begins."""
        block = Block(arg_types=[f32])
        block.add_op(tile.YieldOp([block.args[0]]))
        maps = [self._place(len(at))]
        emit.op(tile.MapOp(acc, [part, *at], [], [self.space], maps, Region(block)))

    def add(self, emit: Emit, tile_sizes: Sequence[int], at: Sequence[SSAValue]) -> SSAValue:
        """A fragment with the sum over the parts of a tile, each element's in a fixed order."""
        rows, columns = tile_sizes
        layout, _ = row_layout(ROWS, columns, 1, element_bytes(f32), THREADS, meets=True)
        total = emit.value(tile.FragmentOp(FragmentType.of([ROWS, columns], f32, layout)), "acc")
        emit.op(tile.FillOp(emit.zero_f32(), total))
        apart = ROWS // rows

        def one(inner: Emit, step: SSAValue) -> None:
            part = inner.apply(affine_dim(0) * apart, [step], hint=PART)
            self._step(inner, total, part, at, apart > 1)

        in_order(emit, -(-self.parts // apart), MANY, one)
        if apart == 1:
            return total
        over = AffineMap(2, 0, (AffineExpr.constant(0), affine_dim(1)))
        kind = FragmentType.of([1, columns], f32, Spread.of(layout).image(over).layout())
        joined = emit.value(tile.FragmentOp(kind), "sum")
        emit.op(tile.ReduceOp("sum", total, over, joined))
        return joined

    def _step(
        self, emit: Emit, total: SSAValue, part: SSAValue, at: Sequence[SSAValue], apart: bool
    ) -> None:
        """Add one part to each element, or, where rows are ``apart``, to each row its own."""
        block = Block(arg_types=[f32, f32])
        more = arith.AddfOp(block.args[0], block.args[1])
        block.add_ops([more, tile.YieldOp([more.result])])
        own = AffineMap(2, len(at) + 1, (affine_dim(0), affine_dim(1)))
        maps = [self._place(len(at), apart), own]
        emit.op(tile.MapOp(total, [part, *at], [self.space], [total], maps, Region(block)))

    @staticmethod
    def _place(rank: int, apart: bool = False) -> AffineMap:
        """From an element of a tile, its part and where it begins, to the workspace.

        What is there of parts that are none is 0, as a map sees it.
        """
        origin = [AffineExpr.symbol(i) for i in range(rank + 1)]
        part, *outer, row, column = origin
        own = (affine_dim(0) + part, *outer, row) if apart else (part, *outer, affine_dim(0) + row)
        return AffineMap(2, rank + 1, (*own, affine_dim(1) + column))
