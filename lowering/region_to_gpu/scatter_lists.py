"""``region-to-gpu``: lists of the updates of each place of a scatter, made ahead (S9, T3).

A place has the *list* of its updates, in their order.  Three kernels make the lists, without a
block that looks at all updates, and to the same bits in every run:

1. ``parts``: a block sorts the keys of some updates, the row of each above its place in the order.
2. ``list``: a key goes behind all that are below it, of its own part and of the others, where a
   binary search counts them; no two are alike, so that each has a place of its own.
3. ``starts``: where the list of each row begins and ends, by a binary search, and for each tile of
   the scatter's own kernel how long its longest list is.

Of ``set`` one kernel leaves for each place the last update that falls to it, by an atomic maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    LoadGlobalOp,
    SharedTileOp,
    StoreGlobalOp,
)
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.resources import AHEAD
from polyc.dialects.region.types import AxisAttr
from polyc.families.scatters.recognise import Lists, Scatters
from polyc.families.scatters.schedules import MOST
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame, Space
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point, element_of
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit

PART = 4096
"""Updates whose keys a block sorts."""

SORTING = 1024
"""Threads that do."""

LISTING = 256
"""Threads of the other kernels."""

AT_ONCE = 8
"""Parts in which a thread looks for its key at once."""

PLACE_BITS = 32
"""Of a key, those that are the place of an update in the order; its row is above."""

OUTSIDE = (1 << 31) - 1
"""The row of an update that falls to none: behind all others."""


@dataclass(frozen=True)
class ListMaker:
    """The kernels ahead of a scatter's own, and the workspaces between them."""

    scatters: Scatters
    lists: Lists
    plan: ScheduleOp
    way: str

    @property
    def count(self) -> Dim:
        """How many updates there are."""
        return prod((size for _, size in self.scatters.over), start=Dim.const(1))

    @property
    def label(self) -> str:
        """What the axis of their order is called here: as the first axis that they have."""
        return self.scatters.over[0][0]

    def at(self, point: Point, place: SSAValue) -> dict[str, AffineExpr]:
        """Where an update at a place in the order is on each axis that they have."""
        found: dict[str, AffineExpr] = {}
        whole = Dim.const(1)
        longer = [(label, size) for label, size in self.scatters.over if size != whole]
        emit, size = point.emit, point.frame.size
        for label, extent in reversed(longer[1:]):
            own = emit.value(arith.RemUIOp(place, size(extent)))
            place = emit.value(arith.DivUIOp(place, size(extent)))
            found[label] = point.place_at(own)
        for label, _ in longer[:1]:
            found[label] = point.place_at(place)
        return {label: found.get(label, AffineExpr.constant(0)) for label, _ in self.scatters.over}

    @property
    def batch(self) -> list[Dim]:
        """Of how many sets of updates there are lists."""
        return [axis.size for axis in self.lists.batch]

    @property
    def listed(self) -> list[AxisAttr]:
        """The axes whose points have a list each, outermost first."""
        return [axis for axis in self.scatters.axes if axis.label in self.lists.labels]

    @property
    def column(self) -> AxisAttr | None:
        """The axis of a tile's columns, where these have a list each."""
        return next((axis for axis in self.listed if axis is self.scatters.column), None)

    @property
    def outer(self) -> list[AxisAttr]:
        """Those but the rows of a tile, and its columns."""
        return [axis for axis in self.listed if axis not in (self.row, self.column)]

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.plan.tile_sizes[0]

    @property
    def columns(self) -> int:
        """Columns of a tile that have a list each."""
        return 1 if self.column is None else self.plan.tile_sizes[1]

    @property
    def tiles(self) -> int:
        """Tiles whose rows a block finds the starts of."""
        return max(1, LISTING // self.rows) if self.column is None else 1

    @property
    def row(self) -> AxisAttr:
        """The axis of a tile's rows, which have a list each."""
        row = self.scatters.row
        assert row is not None
        return row

    # Launches and workspaces

    def grids(self) -> list[Grid]:
        """What the blocks of each kernel part."""
        batch = [Axis(axis.label, axis.size) for axis in self.lists.batch]
        own = Axis(self.label, self.count, PART)
        each = Axis(self.label, self.count, LISTING)
        if self.way == "last":
            return [Grid((*batch, each))]
        outer = [Axis(axis.label, axis.size) for axis in self.outer]
        ends = [Axis(self.row.label, self.row.size, self.rows * self.tiles)]
        if self.column is not None:
            ends.append(Axis(self.column.label, self.column.size, self.columns))
        return [Grid((*batch, own)), Grid((*batch, each)), Grid((*outer, *ends))]

    @property
    def names(self) -> list[str]:
        """The kernels' names."""
        return [f"{self.plan.kernel_name}_{name}" for name in AHEAD[self.way]]

    def launches(self, align: Sequence[int]) -> list[LaunchOp]:
        """The kernels that run ahead."""
        both = zip(self.names, self.grids(), strict=True)
        return [LaunchOp(name, self.plan.when, align, grid.blocks()) for name, grid in both]

    def spaces(self) -> list[Space]:
        """What the kernels leave for each other and for the scatter's own."""
        name = self.plan.kernel_name
        each = [axis.size for axis in self.listed]
        if self.way == "last":
            return [Space(f"{name}_last", GlobalType.of(each, i32), zeroed=True)]
        parts = self.count.ceildiv(PART) * PART
        tiles = [*(axis.size for axis in self.outer), self.row.size.ceildiv(self.rows)]
        if self.column is not None:
            tiles.append(self.column.size.ceildiv(self.columns))
        return [
            Space(f"{name}_parts", GlobalType.of([*self.batch, parts], i64)),
            Space(f"{name}_list", GlobalType.of([*self.batch, self.count], i64)),
            Space(f"{name}_starts", GlobalType.of(each, i32)),
            Space(f"{name}_ends", GlobalType.of(each, i32)),
            Space(f"{name}_longest", GlobalType.of(tiles, i32)),
        ]

    def build(self, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]) -> list[gpu.KernelOp]:
        """The kernels."""
        if self.way == "last":
            makes: list[Callable[[Making], None]] = [Making.last]
            threads = [LISTING]
        else:
            makes = [Making.parts, Making.list, Making.starts]
            threads = [SORTING, LISTING, LISTING]
        made: list[gpu.KernelOp] = []
        for name, grid, make, many in zip(self.names, self.grids(), makes, threads, strict=True):
            making = Making(self, grid, spaces)
            make(making)
            made.append(making.frame.finish(self.plan, bindings, ahead=(name, many)))
        return made


class Making:
    """Builds one kernel."""

    def __init__(self, maker: ListMaker, grid: Grid, spaces: Sequence[BindAttr]) -> None:
        self.maker, self.scatters, self.lists = maker, maker.scatters, maker.lists
        self.frame = Frame(maker.scatters.kernel)
        self.emit = self.frame.emit
        self.spaces = list(zip(maker.spaces(), spaces, strict=True))
        sizes = [self.frame.size(axis.size) for axis in grid.axes]
        self.at: Coordinates = grid.coordinates(self.emit, sizes, maker.plan)
        for label, value in self.at.items():
            value.name_hint = f"{label}0"
        self.size = self.frame.size(maker.count)

    def space(self, number: int) -> SSAValue:
        """A workspace as an argument."""
        space, binding = self.spaces[number]
        return self.frame.space(space.kind, binding, space.name.rpartition("_")[2])

    @property
    def origin(self) -> list[SSAValue]:
        return list(self.at.values())

    @property
    def symbols(self) -> dict[str, AffineExpr]:
        """Where the block begins, as a map's origins."""
        return {label: AffineExpr.symbol(i) for i, label in enumerate(self.at)}

    @property
    def batch(self) -> list[SSAValue]:
        """The point of the batch that the block is at."""
        return [self.at[axis.label] for axis in self.lists.batch]

    def fragment(self, rows: int, columns: int, kind: IntegerType, threads: int) -> SSAValue:
        """Registers for a tile."""
        layout, _ = row_layout(rows, columns, 1, kind.width.data // 8, threads)
        return self.emit.value(tile.FragmentOp(FragmentType.of([rows, columns], kind, layout)))

    # Of an update its row

    def updates(
        self, space: SSAValue, then: Callable[[Point, SSAValue, SSAValue], SSAValue | None]
    ) -> None:
        """A map over updates from where the block begins on: ``then`` is given the row of each,
        and whether there is one."""
        axes: dict[str, AffineExpr] = {}
        for axis in self.scatters.axes:
            axes[axis.label] = self.symbols.get(axis.label, AffineExpr.constant(0))
        along = COLUMN + self.symbols[self.maker.label]
        block = Block(arg_types=[element_of(space)])
        point = Point(self.frame, block, {}, axes, 2, self.origin)
        emit = point.emit
        if len(self.scatters.over) == 1:
            axes[self.maker.label] = along
        else:
            axes |= self.maker.at(point, point.index(along))
        here = emit.compare("slt", point.index(along), self.size)
        row: SSAValue | None = None
        for one in self.lists.placed:
            index, first = point.wide(one.index), point.wide(one.place)
            at = integers.binary(emit, "sub", index, first, i64)
            size = point.dim(one.axis.size, i64)
            here = emit.both(here, emit.compare("ult", at, size))
            if row is not None:
                before = integers.binary(emit, "mul", row, size, i64)
                at = integers.binary(emit, "add", before, at, i64)
            row = at
        assert row is not None
        found = then(point, row, here)
        results = [] if found is None else [found]
        block.add_ops([*emit.ops, tile.YieldOp(results)])
        own = AffineMap(2, len(point.origin), (ROW, COLUMN))
        maps = [*point.input_maps, *([] if found is None else [own])]
        outputs = [] if found is None else [space]
        new = tile.MapOp(space, point.origin, point.inputs, outputs, maps, Region(block))
        self.emit.op(located(new, self.scatters.scatter))

    def place(self, point: Point) -> SSAValue:
        """The place of an update in their order, an i64."""
        along = COLUMN + self.symbols[self.maker.label]
        return integers.from_index(point.emit, point.index(along), i64)

    # The kernels

    def last(self) -> None:
        """The last update of each place, counted from 1; 0 where there is none."""
        last = self.space(0)
        space = self.fragment(1, LISTING, i32, LISTING)

        def then(point: Point, row: SSAValue, here: SSAValue) -> None:
            emit, places = point.emit, dict[str, SSAValue]()
            rest = emit.value(arith.SelectOp(here, row, integers.number(emit, 0, i64)))
            for number, one in reversed(list(enumerate(self.lists.placed))):
                size = point.dim(one.axis.size, i64)
                at = rest
                if number:
                    at = emit.value(arith.RemUIOp(rest, size))
                    rest = emit.value(arith.DivUIOp(rest, size))
                places[one.axis.label] = emit.value(arith.IndexCastOp(at, INDEX))
            at = [places.get(a.label) or self.at[a.label] for a in self.maker.listed]
            number = emit.value(arith.TruncIOp(self.place(point), i32))
            number = integers.binary(emit, "add", number, integers.number(emit, 1, i32), i32)
            emit.op(AtomicGlobalOp("max", number, last, at, here))

        self.updates(space, then)

    def parts(self) -> None:
        """The keys of some updates, sorted."""
        emit, keys = self.emit, self.space(0)
        row = emit.value(SharedTileOp(SharedType.of([1, PART], i64, 0)), "keys")
        held = self.fragment(1, PART, i64, SORTING)

        def then(point: Point, row: SSAValue, here: SSAValue) -> SSAValue:
            inner = point.emit
            along = COLUMN + self.symbols[self.maker.label]
            there = inner.compare("slt", point.index(along), self.size)
            outside = integers.number(inner, OUTSIDE, i64)
            bits = integers.number(inner, PLACE_BITS, i64)
            number = inner.value(arith.SelectOp(here, row, outside))
            above = inner.value(arith.ShLIOp(number, bits))
            key = inner.value(arith.OrIOp(above, self.place(point)))
            most = integers.number(inner, (1 << 63) - 1, i64)
            return inner.value(arith.SelectOp(there, key, most))

        self.updates(held, then)
        emit.op(tile.CopyOp(tile.CopyEnd(held), tile.CopyEnd(row), tile.CopyView((0, 0))))
        start = self.at[self.maker.label]
        left = emit.value(arith.SubiOp(self.size, start))
        whole = emit.index(PART)
        left = emit.value(arith.SelectOp(emit.compare("slt", left, whole), left, whole))
        emit.op(located(tile.SortOp(row, [], left), self.scatters.scatter))
        block = Block(arg_types=[i64, i64])
        block.add_op(tile.YieldOp([block.args[1]]))
        where = (*(self.symbols[a.label] for a in self.lists.batch), self._along)
        count = len(self.at)
        maps = [AffineMap(2, count, (ROW, COLUMN)), AffineMap(2, count, where)]
        self._map(emit, held, [row], [keys], maps, block)

    def list(self) -> None:
        """Each key behind all that are below it."""
        emit, keys, listed = self.emit, self.space(0), self.space(1)
        rank = self.fragment(1, LISTING, i32, LISTING)
        emit.op(tile.FillOp(emit.int32(0), rank))
        parts = self.frame.size(self.maker.count.ceildiv(PART))
        count = len(self.at)
        where = (*(self.symbols[a.label] for a in self.lists.batch), self._along)
        own = AffineMap(2, count, (ROW, COLUMN))
        keyed = AffineMap(2, count, where)

        def look(outer: Emit, first: SSAValue) -> None:
            block = Block(arg_types=[i32, i64])
            known, key = block.args
            inner = Emit()
            last = inner.value(arith.SubiOp(parts, inner.index(1)))
            part = inner.index(PART)
            bases: list[SSAValue] = []
            inside: list[SSAValue] = []
            for number in range(AT_ONCE):
                here = inner.value(arith.AddiOp(first, inner.index(number)))
                inside.append(inner.compare("slt", here, parts))
                there = inner.value(arith.MinSIOp(here, last))
                bases.append(inner.value(arith.MuliOp(there, part)))
            below = [inner.index(0)] * AT_ONCE
            half = PART // 2
            while True:
                # All of a part may be below: the last step has a place of its own.
                step = max(half, 1)
                probes = [
                    inner.value(arith.AddiOp(b, o)) for b, o in zip(bases, below, strict=True)
                ]
                if step > 1:
                    more = inner.index(step - 1)
                    probes = [inner.value(arith.AddiOp(p, more)) for p in probes]
                found = [inner.value(LoadGlobalOp(keys, [*self.batch, p], i64)) for p in probes]
                for n, value in enumerate(found):
                    further = inner.value(arith.AddiOp(below[n], inner.index(step)))
                    lower = inner.compare("slt", value, key)
                    below[n] = inner.value(arith.SelectOp(lower, further, below[n]))
                if half == 0:
                    break
                half //= 2
            total = known
            for n in range(AT_ONCE):
                number = inner.value(arith.SelectOp(inside[n], below[n], inner.index(0)))
                more = inner.value(arith.IndexCastOp(number, i32))
                total = integers.binary(inner, "add", total, more, i32)
            block.add_ops([*inner.ops, tile.YieldOp([total])])
            self._map(outer, rank, [keys], [rank], [keyed, own], block)

        emit.loop(parts, look, step=AT_ONCE, hint="part")
        block = Block(arg_types=[i32, i64])
        number, key = block.args
        inner = Emit()
        place = inner.value(arith.IndexCastOp(number, INDEX))
        along = inner.apply(
            self._along.replace_dims_and_symbols(
                [AffineExpr.constant(0), AffineExpr.dimension(0)],
                [AffineExpr.symbol(i) for i in range(count)],
            ),
            [inner.value(tile.TileIndexOp(1))],
            self.origin,
        )
        there = inner.compare("slt", along, self.size)
        inner.op(StoreGlobalOp(key, listed, [*self.batch, place], there))
        block.add_ops([*inner.ops, tile.YieldOp([])])
        self._map(emit, rank, [keys], [], [keyed], block)

    def starts(self) -> None:
        """Where the list of each row is, and how long the longest of each tile."""
        emit, maker = self.emit, self.maker
        listed, starts, ends, longest = (self.space(n) for n in (1, 2, 3, 4))
        shape = (maker.tiles, maker.rows) if maker.column is None else (maker.rows, maker.columns)
        low, high, length = (self.fragment(*shape, i32, LISTING) for _ in range(3))
        for one in (low, high):
            emit.op(tile.FillOp(emit.int32(0), one))
        own = AffineMap(2, len(self.at), (ROW, COLUMN))
        most = emit.int32(MOST // 2)

        def step(outer: Emit, number: SSAValue) -> None:
            by = outer.value(arith.IndexCastOp(number, i32))
            half = outer.value(arith.ShRUIOp(most, by))
            half = outer.value(arith.IndexCastOp(half, INDEX), "half")
            fits = outer.compare("sle", half, self.size)
            outer.when(fits, lambda inner: search(inner, half))

        def search(outer: Emit, half: SSAValue) -> None:
            block = Block(arg_types=[i32, i32])
            inner = Emit()
            where = {label: self._index(inner, place) for label, place in self.places.items()}
            batch = [where[axis.label] for axis in self.lists.batch]
            row = self._number(inner, where)
            after = integers.binary(inner, "add", row, integers.number(inner, 1, i64), i64)
            bits = integers.number(inner, PLACE_BITS, i64)
            keys = [inner.value(arith.ShLIOp(n, bits)) for n in (row, after)]
            below = [inner.value(arith.IndexCastOp(a, INDEX)) for a in block.args]
            further = [inner.value(arith.AddiOp(b, half)) for b in below]
            last = [inner.value(arith.SubiOp(f, inner.index(1))) for f in further]
            found = [inner.value(LoadGlobalOp(listed, [*batch, p], i64)) for p in last]
            results: list[SSAValue] = []
            for n, value in enumerate(found):
                there = inner.compare("sle", further[n], self.size)
                lower = inner.both(there, inner.compare("slt", value, keys[n]))
                chosen = inner.value(arith.SelectOp(lower, further[n], below[n]))
                results.append(inner.value(arith.IndexCastOp(chosen, i32)))
            block.add_ops([*inner.ops, tile.YieldOp(results)])
            self._map(outer, low, [high], [low, high], [own, own, own], block)

        emit.loop(MOST.bit_length() - 1, step, hint="step")
        block = Block(arg_types=[i32, i32])
        inner = Emit()
        there: SSAValue | None = None
        for axis in (maker.row, maker.column):
            if axis is not None:
                place = self._index(inner, self.places[axis.label])
                there = inner.both(there, inner.compare("slt", place, self.frame.size(axis.size)))
        assert there is not None
        many = integers.binary(inner, "sub", block.args[1], block.args[0], i32)
        many = inner.value(arith.SelectOp(there, many, inner.int32(0)))
        block.add_ops([*inner.ops, tile.YieldOp([many, *block.args])])
        each = AffineMap(2, len(self.at), tuple(self.places[a.label] for a in maker.listed))
        self._map(emit, low, [high], [length, starts, ends], [own, own, each, each], block)
        self._longest(length, longest)

    def _longest(self, length: SSAValue, target: SSAValue) -> None:
        """Leave how long the longest list of each tile is."""
        emit, maker, kind = self.emit, self.maker, length.type
        assert isinstance(kind, FragmentType) and isinstance(kind.layout, FragmentLayoutAttr)
        first = ROW if maker.column is None else AffineExpr.constant(0)
        by = AffineMap(2, 0, (first,))
        layout = Spread.of(kind.layout).image(by).layout()
        found = emit.value(tile.FragmentOp(FragmentType.of([maker.tiles], i32, layout)), "most")
        emit.op(located(tile.ReduceOp("max", length, by, found), self.scatters.scatter))
        block = Block(arg_types=[i32])
        block.add_op(tile.YieldOp([block.args[0]]))
        where = [self.symbols[axis.label] for axis in maker.outer]
        where.append(self.symbols[maker.row.label] // maker.rows + ROW)
        if maker.column is not None:
            where.append(self.symbols[maker.column.label] // maker.columns)
        self._map(emit, found, [], [target], [AffineMap(1, len(self.at), tuple(where))], block)

    # Parts of these

    @property
    def _along(self) -> AffineExpr:
        return self.symbols[self.maker.label] + COLUMN

    def _map(
        self,
        emit: Emit,
        space: SSAValue,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        block: Block,
    ) -> None:
        new = tile.MapOp(space, self.origin, inputs, outputs, maps, Region(block))
        emit.op(located(new, self.scatters.scatter))

    def _index(self, emit: Emit, place: AffineExpr) -> SSAValue:
        """An expression of the tile's dimensions and the origins in the body of a map."""
        dims = [emit.value(tile.TileIndexOp(i)) for i in range(2)]
        return emit.apply(place, dims, self.origin)

    @property
    def places(self) -> dict[str, AffineExpr]:
        """Of a tile of lists, where each of their axes is."""
        maker, found = self.maker, dict(self.symbols)
        if maker.column is not None:
            found[maker.row.label] += ROW
            found[maker.column.label] += COLUMN
        else:
            found[maker.row.label] += ROW * maker.rows + COLUMN
        return found

    def _number(self, emit: Emit, where: Mapping[str, SSAValue]) -> SSAValue:
        """The number of a place among those of all placed axes, an i64."""
        found: SSAValue | None = None
        for one in self.lists.placed:
            at = integers.from_index(emit, where[one.axis.label], i64)
            if found is not None:
                size = integers.from_index(emit, self.frame.size(one.axis.size), i64)
                before = integers.binary(emit, "mul", found, size, i64)
                at = integers.binary(emit, "add", before, at, i64)
            found = at
        assert found is not None
        return found
