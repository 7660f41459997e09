"""``region-to-gpu``: reductions whose points any number of blocks share (S8, S9).

A first kernel has a block for each part of each tile, which takes the steps of the reductions'
points in turn with the others, and stores what it has of each, as it accumulates, in a workspace.
A second one combines the parts in a fixed order, so that runs repeat to the bit, and computes the
outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import GlobalType
from polyc.dialects.region import ReduceOp
from polyc.families.loops.recognise import Space
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.grid import Axis, Grid
from polyc.lowering.region_to_gpu.partial_sums import PART
from polyc.lowering.region_to_gpu.point import BINARY, COLUMN, ROW, element_of
from polyc.passes.support.gpu.free_layouts import WARP
from polyc.rewriting.emit import Emit, affine_dim

THREADS = 256
"""Threads of a block that combines parts, at most."""

LOADED = 8
"""Parts that one of them has on their way at once."""

WIDE = 32
"""Columns of its tile: a warp's."""

HIGH = 8
"""Rows of its tile, where parts lie side by side in memory."""


@dataclass(frozen=True)
class Part:
    """Where the points of a tile's reductions are parted: ``along`` its rows (0) or columns (1)."""

    space: Space
    parts: int

    @property
    def along(self) -> int:
        return 1 if self.space.column is None else 0

    @property
    def labels(self) -> list[str]:
        """The axes of the results."""
        return [label for label in self.space.labels if label is not None]

    def kind(self, element: Attribute) -> GlobalType:
        """The workspace of one reduction: threads that lie side by side read neighbours in it."""
        pairs = zip(self.space.labels, self.space.sizes, strict=True)
        sizes = [size for label, size in pairs if label is not None]
        return GlobalType.of(
            [*sizes, self.parts] if self.along else [self.parts, *sizes], without_sign(element)
        )

    def place(self, part: AffineExpr, at: Mapping[str, AffineExpr]) -> tuple[AffineExpr, ...]:
        """Where the workspace has a part of the result at a point."""
        point = [at[label] for label in self.labels]
        return (*point, part) if self.along else (part, *point)

    def storing(self, grid: Grid) -> Grid:
        """The grid of the first kernel: its tiles once for each part.

        Parts go outermost, so that blocks that run together read what lies together.
        """
        return Grid((Axis(PART, Dim.const(self.parts)), *grid.axes))

    def combining(self, grid: Grid) -> Grid:
        """The grid of the second one, with tiles of its own."""
        rows, columns = self.tile
        *outer, row, column = grid.axes
        ends = (
            Axis(row.label, row.size, 1 if self.space.row is None else rows),
            Axis(column.label, column.size, 1 if self.space.column is None else columns),
        )
        return Grid((*outer, *ends))

    @property
    def tile(self) -> tuple[int, int]:
        """The tile of the second kernel: as many parts as threads can have on their way at once."""
        *_, rows, columns = self.space.sizes
        kept, most = (rows, HIGH) if self.along else (columns, WIDE)
        known = kept.constant()
        beside = most if known is None else min(most, 1 << max(0, known - 1).bit_length())
        whole = 1 << max(0, self.parts - 1).bit_length()
        deep = max(min(whole, THREADS * LOADED // beside), WARP // beside, 2)
        return (beside, deep) if self.along else (deep, beside)

    @property
    def threads(self) -> int:
        """Threads of the second kernel."""
        return min(THREADS, prod(self.tile))


COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""The binary function of each reduction."""


def joined(emit: Emit, reduce: ReduceOp, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    """Two parts of a reduction as one, in the type in which it accumulates."""
    fn, kind = COMBINE[reduce.fn.data], reduce.accumulates_in
    if is_integer(kind):
        return integers.binary(emit, fn, lhs, rhs, kind)
    return emit.value(BINARY[fn](lhs, rhs))


def store(
    emit: Emit,
    part: Part,
    held: SSAValue,
    number: SSAValue,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    space: SSAValue,
) -> tile.MapOp:
    """Write what a block has of a reduction; ``at`` is in a map's dimensions and ``origin``."""
    block = Block(arg_types=[element_of(held)])
    block.add_op(tile.YieldOp([block.args[0]]))
    own = AffineExpr.symbol(len(origin))
    maps = [AffineMap(2, len(origin) + 1, part.place(own, at))]
    new = tile.MapOp(held, [*origin, number], [], [space], maps, Region(block))
    emit.op(new)
    return new


def combine(
    emit: Emit,
    part: Part,
    reduce: ReduceOp,
    neutral: SSAValue,
    acc: SSAValue,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    space: SSAValue,
) -> None:
    """Bring all parts of a tile's results into ``acc``, every thread those of its own, in order."""
    step, kind = part.tile[part.along], element_of(acc)

    def one(inner: Emit, start: SSAValue) -> None:
        block = Block(arg_types=[kind, kind])
        here, there = block.args
        own = Emit()
        value: SSAValue = there
        if part.parts % step:
            index = own.value(tile.TileIndexOp(part.along))
            place = own.apply(affine_dim(0) + affine_dim(1), [index, start])
            inside = own.compare("slt", place, own.index(part.parts))
            value = own.value(arith.SelectOp(inside, there, neutral))
        found = joined(own, reduce, here, value)
        block.add_ops([*own.ops, tile.YieldOp([found])])
        symbols = len(origin) + 1
        number = (ROW, COLUMN)[part.along] + AffineExpr.symbol(len(origin))
        maps = [AffineMap(2, symbols, part.place(number, at)), AffineMap(2, symbols, (ROW, COLUMN))]
        inner.op(tile.MapOp(acc, [*origin, start], [space], [acc], maps, Region(block)))

    emit.loop(part.parts, one, step=step, hint=PART)
