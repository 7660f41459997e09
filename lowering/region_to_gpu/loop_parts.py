"""``region-to-gpu``: reductions whose points any number of blocks share (S8, S9).

A first kernel has a block for each part of each tile, which takes the steps of the reductions'
points in turn with the others, and stores what it has of each, as it accumulates, in a workspace.
A second one combines the parts in a fixed order, so that runs repeat to the bit, and computes the
outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

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
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
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
class Here:
    """What a block knows of parts when it runs.

    ``at``      where its tile of the results begins
    ``number``  which part of the tile it has: none of a block that combines them
    ``count``   how many parts the tile has
    ``slot``    where in the workspaces it writes its own, or where those that it combines begin
    ``begins``  where in such a place its results begin, where a place has those of one tile
    """

    at: Coordinates
    number: SSAValue | None
    count: SSAValue | int
    slot: SSAValue | None = None
    begins: SSAValue | None = None


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

    def place(
        self, part: AffineExpr, at: Mapping[str, AffineExpr], begins: AffineExpr
    ) -> tuple[AffineExpr, ...]:
        """Where the workspace has a part of the result at a point; ``begins`` is where results
        begin in the places of tiles that have such."""
        point = [at[label] for label in self.labels]
        return (*point, part) if self.along else (part, *point)

    def stored(self, emit: Emit, size: SizeOf, at: Coordinates) -> Here:
        """What a block of the first kernel knows."""
        return Here(at, at[PART], self.parts, at[PART])

    def combined(self, emit: Emit, size: SizeOf, at: Coordinates) -> Here:
        """What one of the second kernel knows."""
        return Here(at, None, self.parts)

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
        beside, whole = self.beside, 1 << max(0, self.parts - 1).bit_length()
        deep = max(min(whole, THREADS * LOADED // beside), WARP // beside, 2)
        return (beside, deep) if self.along else (deep, beside)

    @property
    def beside(self) -> int:
        """Results of it."""
        *_, rows, columns = self.space.sizes
        kept, most = (rows, HIGH) if self.along else (columns, WIDE)
        known = kept.constant()
        return most if known is None else min(most, 1 << max(0, known - 1).bit_length())

    @property
    def threads(self) -> int:
        """Threads of the second kernel."""
        return min(THREADS, prod(self.tile))


@dataclass(frozen=True)
class SpreadPart(Part):
    """Parts of tiles that ``parts`` blocks share: as many of each as there are blocks for it, and
    no more than there are steps.

    A workspace has a place for each block, with the results of one tile; those of the parts of a
    tile follow each other.  Blocks that are left over have places behind these, and no steps.
    """

    grid: Grid
    """The tiles, without parts."""
    steps: Dim
    """Of each tile."""

    @property
    def kept(self) -> Axis:
        """The axis of the results of a tile."""
        return self.grid.axes[-2 if self.along else -1]

    @property
    def beside(self) -> int:
        return gcd(self.kept.tile, HIGH if self.along else WIDE)

    def kind(self, element: Attribute) -> GlobalType:
        return GlobalType.of([self.parts, self.kept.tile], without_sign(element))

    def place(
        self, part: AffineExpr, at: Mapping[str, AffineExpr], begins: AffineExpr
    ) -> tuple[AffineExpr, ...]:
        if self.kept.tile == 1:
            return part, begins
        return part, begins + (ROW if self.along else COLUMN)

    def storing(self, grid: Grid) -> Grid:
        return Grid((Axis(PART, Dim.const(self.parts)),))

    def stored(self, emit: Emit, size: SizeOf, at: Coordinates) -> Here:
        """Its tile and its part of that; a part that is none begins behind all steps."""
        block, tiles, steps = at[PART], self._tiles(emit, size), size(self.steps)
        count = self._count(emit, tiles, steps)
        own = emit.value(arith.RemUIOp(block, tiles), "tile")
        number = emit.value(arith.DivUIOp(block, tiles), "part")
        there = emit.compare("slt", number, count)
        first = emit.value(arith.MuliOp(own, count))
        slot = emit.value(arith.AddiOp(first, number))
        slot = emit.value(arith.SelectOp(there, slot, block), "slot")
        number = emit.value(arith.SelectOp(there, number, steps), "part")
        found: dict[str, SSAValue] = {}
        outermost, *inner = self._axes
        for axis in reversed(inner):
            tiles = size(axis.tiles)
            found[axis.label] = emit.value(arith.RemUIOp(own, tiles))
            own = emit.value(arith.DivUIOp(own, tiles))
        found[outermost.label] = own
        for axis in self._axes:
            found[axis.label] = emit.apply(affine_dim(0) * axis.tile, [found[axis.label]])
        return Here(self._with_ones(emit, found), number, count, slot, emit.index(0))

    def combined(self, emit: Emit, size: SizeOf, at: Coordinates) -> Here:
        """The parts of the tile that has its results."""
        count = self._count(emit, self._tiles(emit, size), size(self.steps))
        own: SSAValue | None = None
        for axis in self._axes:
            place = emit.apply(affine_dim(0) // axis.tile, [at[axis.label]])
            if own is not None:
                more = emit.value(arith.MuliOp(own, size(axis.tiles)))
                place = emit.value(arith.AddiOp(more, place))
            own = place
        assert own is not None
        first = emit.value(arith.MuliOp(own, count), "slot")
        kept = self.kept
        begins = emit.index(0)
        if kept.tile > self.beside:
            begins = emit.apply(affine_dim(0) % kept.tile, [at[kept.label]], hint="begins")
        return Here(at, None, count, first, begins)

    @property
    def _axes(self) -> list[Axis]:
        """The axes of the tiles, of which there is one at least."""
        one = Dim.const(1)
        return [axis for axis in self.grid.axes if axis.size != one] or [self.grid.axes[-1]]

    def _with_ones(self, emit: Emit, found: Mapping[str, SSAValue]) -> Coordinates:
        """Where a tile begins, also on the axes of one point."""
        return {axis.label: emit.index(0) for axis in self.grid.axes} | dict(found)

    def _tiles(self, emit: Emit, size: SizeOf) -> SSAValue:
        """How many tiles there are, or 1 where there is none."""
        tiles = size(prod((axis.tiles for axis in self.grid.axes), start=Dim.const(1)))
        return emit.value(arith.MaxSIOp(tiles, emit.index(1)), "tiles")

    def _count(self, emit: Emit, tiles: SSAValue, steps: SSAValue) -> SSAValue:
        """The parts of each tile: the fewest of which none has more steps."""
        most = emit.value(arith.DivUIOp(emit.index(self.parts), tiles))
        some = emit.value(arith.MaxSIOp(steps, emit.index(1)))
        most = emit.value(arith.MinSIOp(most, some))
        each = emit.over(some, most)
        count = emit.over(some, each)
        count.name_hint = PART + "s"
        return count


SizeOf = Callable[[Dim], SSAValue]
"""The value of a size."""


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
    here: Here,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    space: SSAValue,
) -> tile.MapOp:
    """Write what a block has of a reduction; ``at`` is in a map's dimensions and ``origin``."""
    block = Block(arg_types=[element_of(held)])
    block.add_op(tile.YieldOp([block.args[0]]))
    assert here.slot is not None
    symbols, place = _placed(part, here, here.slot, AffineExpr.constant(0), at, origin)
    maps = [AffineMap(2, len(symbols), place)]
    new = tile.MapOp(held, symbols, [], [space], maps, Region(block))
    emit.op(new)
    return new


def combine(
    emit: Emit,
    part: Part,
    here: Here,
    reduce: ReduceOp,
    neutral: SSAValue,
    acc: SSAValue,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    space: SSAValue,
) -> None:
    """Bring all parts of a tile's results into ``acc``, every thread those of its own, in order."""
    kind = element_of(acc)

    def one(inner: Emit, turn: Turn) -> None:
        block = Block(arg_types=[kind, kind])
        before, there = block.args
        own = Emit()
        inside = turn.inside(own)
        value = there if inside is None else own.value(arith.SelectOp(inside, there, neutral))
        found = joined(own, reduce, before, value)
        block.add_ops([*own.ops, tile.YieldOp([found])])
        symbols, count = turn.symbols, len(turn.symbols)
        maps = [AffineMap(2, count, turn.place), AffineMap(2, count, (ROW, COLUMN))]
        inner.op(tile.MapOp(acc, symbols, [space], [acc], maps, Region(block)))

    each_turn(emit, part, here, at, origin, one)


@dataclass(frozen=True)
class Turn:
    """Parts of a tile's results that are combined at once: where the workspaces have them, in the
    dimensions of a map and ``symbols``, and what is a part at all."""

    part: Part
    here: Here
    start: SSAValue
    symbols: Sequence[SSAValue]
    place: tuple[AffineExpr, ...]

    def inside(self, emit: Emit) -> SSAValue | None:
        """Whether an element of a map is of a part; None where all are."""
        step, count = self.part.tile[self.part.along], self.here.count
        if isinstance(count, int):
            if count % step == 0:
                return None
            count = emit.index(count)
        index = emit.value(tile.TileIndexOp(self.part.along))
        place = emit.apply(affine_dim(0) + affine_dim(1), [index, self.start])
        return emit.compare("slt", place, count)


def each_turn(
    emit: Emit,
    part: Part,
    here: Here,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    one: Callable[[Emit, Turn], None],
) -> None:
    """A loop over the parts of a tile's results, as many of them at once as its block has places
    for; ``at`` is in a map's dimensions and ``origin``."""

    def body(inner: Emit, start: SSAValue) -> None:
        slot = start
        if here.slot is not None:
            slot = inner.apply(affine_dim(0) + affine_dim(1), [here.slot, start])
        symbols, place = _placed(part, here, slot, (ROW, COLUMN)[part.along], at, origin)
        one(inner, Turn(part, here, start, symbols, place))

    emit.loop(here.count, body, step=part.tile[part.along], hint=PART)


def _placed(
    part: Part,
    here: Here,
    slot: SSAValue,
    along: AffineExpr,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
) -> tuple[list[SSAValue], tuple[AffineExpr, ...]]:
    """The symbols of a map, ``origin`` first, and where the workspaces have what lies ``along`` so
    far behind ``slot``."""
    symbols = [*origin, slot, *([] if here.begins is None else [here.begins])]
    own, begins = (AffineExpr.symbol(len(origin) + i) for i in range(2))
    return symbols, part.place(along + own, at, begins)
