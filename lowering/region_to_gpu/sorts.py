"""``region-to-gpu``: rows that are sorted, a block each, at the tile level (S9, T3).

What is sorted is computed by a ``gpu.map`` as it is read.  A row that fits lies in shared memory
once; of a row of any length the least go to a pool, a tile after the other; a whole row of any
length is written where its result lies, and sorted there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.deciding import Bits
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import LoadSharedOp, SharedTileOp, StoreGlobalOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.tile.digits import TOGETHER, values_of
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType, index_attr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.resources import PASS
from polyc.dialects.region import KernelOp
from polyc.dialects.region.types import ValType
from polyc.families.sorts.recognise import Sorts
from polyc.families.sorts.schedules import SUM_THREADS, digit_blocks, pool_room, way_of
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.kernel import Builder, Walked
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Point, Wanted
from polyc.passes.support.gpu.free_layouts import WARP, row_layout
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim

VALUES = "value"
"""What the axis is called along which blocks sum counts."""

READ = 8
"""Elements of a row that a thread reads at once."""


@dataclass(frozen=True)
class SortsLowering(Walked):
    """A region that sorts."""

    sorts: Sorts

    @property
    def kernel(self) -> KernelOp:
        return self.sorts.kernel

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """A block has a row, or in passes a tile of one."""
        if plan.sorts_in_passes:
            return [Passes(self.sorts, plan).tiles]
        return [Grid(tuple(Axis(axis.label, axis.size) for axis in self.sorts.outer))]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid]) -> SortBuilder:
        return SortBuilder(self.sorts, plan, grids)

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        if not plan.sorts_in_passes:
            return super().launches(plan)
        align = self.aligned(plan)
        return [
            LaunchOp(name, plan.when, align, grid.blocks())
            for name, grid in Passes(self.sorts, plan).launched
        ]

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        return Passes(self.sorts, plan).spaces if plan.sorts_in_passes else []

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        if not plan.sorts_in_passes:
            return super().build(plan, bindings, spaces)
        passes, made = Passes(self.sorts, plan), list[gpu.KernelOp]()
        for number, (name, grid) in enumerate(passes.launched):
            builder = PassBuilder(self.sorts, plan, [grid])
            made.append(builder.made(passes, number, name, bindings, spaces))
        return made


LOWERING = SortsLowering


class SortBuilder(Builder):
    """Builds the kernel of one schedule."""

    def __init__(self, sorts: Sorts, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(sorts.kernel, plan, grids)
        self.sorts = sorts
        self.columns = plan.tile_sizes[1]
        self.element = cast("IntegerType", sorts.element)
        self.layout = self.layout_of(self.columns, plan.integer("vectorize"))

    def layout_of(self, columns: int, vector: int):
        """How a tile of a row is spread over the block's threads."""
        layout, _ = row_layout(1, columns, vector, self.sorts.size, self.plan.threads())
        return layout

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        kernel = super().finish(bindings)
        if way_of(self.plan) == "digits":
            kernel.blocks_per_sm = index_attr(digit_blocks(self.sorts, self.plan))
        return kernel

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """The row of a block."""
        for label, value in at.items():
            value.name_hint = f"{label}0"
        match way_of(self.plan):
            case "shared" | "digits":
                self.in_shared(at)
            case "pool":
                self.in_pool(at)
            case _:
                self.in_memory(at)

    # The ways

    def in_shared(self, at: Coordinates) -> None:
        """The whole row at once, read so many elements of a thread at a time."""
        emit, count = self.emit, self.frame.size(self.sorts.row.size)
        row = emit.value(SharedTileOp(SharedType.of([1, self.columns], self.element, 0)), "row")
        self.bring(at, row, emit.index(0))
        by = self.sorts.bits if way_of(self.plan) == "digits" else None
        new = tile.SortOp(row, [], count, by=by, unsigned=self.sorts.unsigned)
        emit.op(located(new, self.sorts.sort))
        self.store(emit, at, row, self.columns)

    def bring(self, at: Coordinates, row: SSAValue, first: SSAValue) -> None:
        """What is sorted from ``first`` on to a row of shared memory, a few elements of a thread at
        a time."""
        emit, vector = self.emit, self.plan.integer("vectorize")
        part = max(vector, READ // vector * vector) * self.plan.threads()
        for start in range(0, self.columns, part):
            columns = min(part, self.columns - start)
            held = self.fragment(emit, columns, vector)
            self.read(emit, at, emit.apply(affine_dim(0) + start, [first]), held)
            ends = tile.CopyEnd(held), tile.CopyEnd(row)
            emit.op(tile.CopyOp(*ends, tile.CopyView((0, start))))

    def in_pool(self, at: Coordinates) -> None:
        """The least of a row, a tile of it after the other."""
        least, unsigned, emit = self.sorts.least, self.sorts.unsigned, self.emit
        assert least is not None
        room = pool_room(self.plan, least)
        pool = emit.value(SharedTileOp(SharedType.of([1, room + 1], self.element, 0)), "pool")
        held = emit.value(SharedTileOp(SharedType.of([1, 1], i32, 0)), "held")
        emit.op(located(tile.KeepNoneOp(pool, held, unsigned=unsigned), self.sorts.sort))

        def bring(columns: int) -> Callable[[Emit, SSAValue], None]:
            def step(inner: Emit, start: SSAValue) -> None:
                fragment = self.fragment(inner, columns)
                self.read(inner, at, start, fragment)
                new = tile.KeepLeastOp(
                    fragment, pool, held, least, above=room - self.columns, unsigned=unsigned
                )
                inner.op(located(new, self.sorts.sort))

            return step

        # Until there is a bound, all comes in: a tile of the first elements would fill the pool.
        size, first = self.frame.size(self.sorts.row.size), self.plan.threads()
        if first < self.columns:
            whole = emit.index(self.columns)
            end = emit.value(arith.SelectOp(emit.compare("slt", size, whole), size, whole))
            emit.loop(end, bring(first), step=first, hint="start")
            emit.loop(size, bring(self.columns), step=self.columns, hint="start", start=whole)
        else:
            emit.loop(size, bring(self.columns), step=self.columns, hint="start")
        columns = max(1 << max(0, least - 1).bit_length(), WARP)
        new = tile.KeptOp(pool, held, columns, unsigned=unsigned)
        emit.op(located(new, self.sorts.sort))
        self.store(emit, at, pool, columns)

    def in_memory(self, at: Coordinates) -> None:
        """A row of any length, sorted where its result lies."""
        emit, count = self.emit, self.frame.size(self.sorts.row.size)

        def step(inner: Emit, start: SSAValue) -> None:
            space = self.fragment(inner, self.columns)
            self.read(inner, at, start, space, in_memory=True)

        emit.loop(count, step, step=self.columns, hint="start")
        place = [at[axis.label] for axis in self.sorts.outer]
        (out,) = self.frame.outputs
        labels = [axis.label for axis in self.sorts.sort.result.type.axes]
        axis = labels.index(self.sorts.result.label)
        along = None if axis == len(place) else axis
        new = tile.SortOp(out, place, count, axis=along, unsigned=self.sorts.unsigned)
        emit.op(located(new, self.sorts.sort))

    # Tiles

    def fragment(self, emit: Emit, columns: int, vector: int = 1) -> SSAValue:
        """A fragment for a tile of the row, in vectors, or for so many columns of it."""
        whole = columns == self.columns
        layout = self.layout if whole else self.layout_of(columns, vector)
        kind = FragmentType.of([1, columns], self.element, layout)
        return emit.value(tile.FragmentOp(kind), "keys")

    def read(
        self,
        emit: Emit,
        at: Coordinates,
        start: SSAValue,
        space: SSAValue,
        in_memory: bool = False,
    ) -> None:
        """What is sorted, from ``start`` on, into a fragment or where the result lies.

        What is behind the end of the row is the largest number of the type.
        """
        origin = [*at.values(), start]
        axes: dict[str, AffineExpr] = {label: AffineExpr.symbol(i) for i, label in enumerate(at)}
        along = COLUMN + AffineExpr.symbol(len(at))
        axes[self.sorts.row.label] = along
        value = self.sorts.sort.operand
        point = Point(self.frame, Block(arg_types=[self.element]), {}, axes, 2, origin)
        point.block.args[0].name_hint = "key"
        size = self.frame.size(self.sorts.row.size)
        if in_memory:
            (out,) = self.frame.outputs
            places = {**axes, self.sorts.result.label: along}
            where = [places[axis.label] for axis in self.sorts.sort.result.type.axes]
            emit.op(point.write(space, [Wanted(value, out, tuple(where))], self.sorts.sort))
            return

        def inside(point: Point, scalar: SSAValue) -> SSAValue:
            here = point.emit.compare("slt", point.index(along), size)
            return point.emit.value(arith.SelectOp(here, scalar, self.largest(point.emit)))

        wanted = [Wanted(value, space, (ROW, COLUMN), inside)]
        emit.op(point.write(space, wanted, self.sorts.sort))

    def largest(self, emit: Emit) -> SSAValue:
        """The largest number of the type."""
        bits = self.element.width.data
        value = -1 if self.sorts.unsigned else (1 << bits - 1) - 1
        return emit.value(arith.ConstantOp(IntegerAttr(value, self.element)))

    def store(
        self,
        emit: Emit,
        at: Coordinates,
        source: SSAValue,
        columns: int,
        start: SSAValue | None = None,
    ) -> None:
        """Write what is made of so many sorted elements: of the first of a row of shared memory, as
        many as the result has, or of those from ``start`` on of rows in memory."""
        origin, along, place = list(at.values()), COLUMN, (ROW, COLUMN)
        axes: dict[str, AffineExpr] = {label: AffineExpr.symbol(i) for i, label in enumerate(at)}
        if start is not None:
            along += AffineExpr.symbol(len(origin))
            place = (*axes.values(), along)
            origin.append(start)
        sorted_element = Held(source, place)
        axes[self.sorts.result.label] = along

        def held(value: SSAValue) -> Held | None:
            return sorted_element if value is self.sorts.sort.result else None

        space = self.fragment(emit, columns)
        block = Block(arg_types=[self.element])
        point = Point(self.frame, block, {}, axes, 2, origin, held)
        wanted: list[Wanted] = []
        for value, out in zip(self.kernel.yield_op.values, self.frame.outputs, strict=True):
            labels = cast("ValType", value.type).labels
            wanted.append(Wanted(value, out, tuple(axes[label] for label in labels)))
        emit.op(point.write(space, wanted, self.sorts.sort))


@dataclass(frozen=True)
class Passes:
    """The kernels of a sort of rows of any length, three for each digit, and what is between them.

    The first pass reads what is sorted, the others what the one before left in one of two
    workspaces; the last one writes the result.
    """

    sorts: Sorts
    plan: ScheduleOp

    @property
    def digits(self) -> list[Bits]:
        """The bits of each digit, the lowest first."""
        (first, end), count = self.sorts.bits, self.plan.integer("stages")
        size = -(-(end - first) // count)
        return [(n, min(end, n + size)) for n in range(first, end, size)]

    @property
    def values(self) -> int:
        """How many values of a digit are counted."""
        return max(values_of(bits) for bits in self.digits)

    @property
    def tiles(self) -> Grid:
        """A block has a tile of a row."""
        row = self.sorts.row
        axes = [Axis(axis.label, axis.size) for axis in self.sorts.outer]
        return Grid((*axes, Axis(row.label, row.size, self.plan.tile_sizes[1])))

    @property
    def summed(self) -> Grid:
        """A block has some of the values of a row."""
        axes = [Axis(axis.label, axis.size) for axis in self.sorts.outer]
        return Grid((*axes, Axis(VALUES, Dim.const(self.values), TOGETHER)))

    @property
    def launched(self) -> list[tuple[str, Grid]]:
        """The kernels by name, in their order, and what their blocks part."""
        names = self.plan.kernel_names
        grids = [(self.tiles, self.summed, self.tiles)[n % len(PASS)] for n in range(len(names))]
        return list(zip(names, grids, strict=True))

    @property
    def count(self) -> Dim:
        """Tiles of a row."""
        return self.sorts.row.size.ceildiv(self.plan.tile_sizes[1])

    @property
    def spaces(self) -> list[Space]:
        """Counts of tiles, sums of rows, and keys between passes."""
        name, outer = self.plan.kernel_name, [axis.size for axis in self.sorts.outer]
        found = [
            Space(f"{name}_counts", GlobalType.of([*outer, self.count, self.values], i32)),
            Space(f"{name}_totals", GlobalType.of([*outer, self.values], i32)),
        ]
        keys = GlobalType.of([*outer, self.sorts.row.size], self.sorts.element)
        between = min(2, len(self.digits) - 1)
        return [*found, *(Space(f"{name}_keys{n}", keys) for n in range(between))]


class PassBuilder(SortBuilder):
    """Builds a kernel of a pass: one that counts, one that sums up, or one that moves."""

    def made(
        self,
        passes: Passes,
        number: int,
        name: str,
        bindings: Sequence[BindAttr],
        spaces: Sequence[BindAttr],
    ) -> gpu.KernelOp:
        """The kernel of a name, the ``number``-th of all."""
        self.passes, self.bound = passes, spaces
        turn, which = divmod(number, len(PASS))
        grid, plan = self.grids[0], self.plan
        at = dict(grid.coordinates(self.emit, self.sizes(grid), plan))
        for label, value in at.items():
            value.name_hint = f"{label}0"
        [self.count, self.sum, self.move][which](turn, at)
        threads = SUM_THREADS if PASS[which] == "sums" else plan.threads()
        kernel = self.frame.finish(plan, bindings, ahead=(name, threads))
        if PASS[which] == "moves":
            kernel.blocks_per_sm = index_attr(digit_blocks(self.sorts, plan))
        return kernel

    def space(self, number: int) -> SSAValue:
        """A workspace as an argument."""
        space = self.passes.spaces[number]
        return self.frame.space(space.kind, self.bound[number], space.name.rpartition("_")[2])

    def brought(self, turn: int, at: dict[str, SSAValue]) -> tuple[SSAValue, SSAValue, SSAValue]:
        """A tile in shared memory, how many elements it has, and which of its row it is."""
        emit, label = self.emit, self.sorts.row.label
        first = at.pop(label)
        kind = SharedType.of([1, self.columns], self.element, 0)
        row = emit.value(SharedTileOp(kind), "row")
        self.source = self.space(2 + (turn - 1) % 2) if turn else None
        self.bring(at, row, first)
        left = emit.value(arith.SubiOp(self.frame.size(self.sorts.row.size), first))
        count = emit.value(arith.MinSIOp(left, emit.index(self.columns)), "count")
        number = emit.apply(AffineExpr.dimension(0) // self.columns, [first], hint="tile")
        return row, count, number

    def how(self, turn: int) -> tuple[Bits, bool]:
        """The bits of a digit, and whether they have no sign: the highest ones alone have."""
        bits = self.passes.digits[turn]
        return bits, self.sorts.unsigned or bits[1] < self.sorts.bits[1]

    def count(self, turn: int, at: dict[str, SSAValue]) -> None:
        """How many elements of a tile have each value."""
        row, count, number = self.brought(turn, at)
        bits, unsigned = self.how(turn)
        where = [*at.values(), number]
        new = tile.CountDigitOp(row, count, bits, self.space(0), where, unsigned=unsigned)
        self.emit.op(located(new, self.sorts.sort))

    def sum(self, turn: int, at: dict[str, SSAValue]) -> None:
        """How many have it in the tiles before."""
        first = at.pop(VALUES)
        tiles = self.frame.size(self.passes.count)
        new = tile.SumCountsOp(self.space(0), list(at.values()), first, tiles, self.space(1))
        self.emit.op(located(new, self.sorts.sort))

    def move(self, turn: int, at: dict[str, SSAValue]) -> None:
        """The elements of a tile where they go."""
        last = turn + 1 == len(self.passes.digits)
        if last and self.plan.maps_sorted:
            self.made_of(turn, at)
            return
        row, count, number = self.brought(turn, at)
        (bits, unsigned), axis = self.how(turn), None
        where = list(at.values())
        if not last:
            target = self.space(2 + turn % 2)
        else:
            (target,) = self.frame.outputs
            labels = [axis.label for axis in self.sorts.sort.result.type.axes]
            along = labels.index(self.sorts.result.label)
            axis = None if along == len(where) else along
        places = tile.DigitPlaces(self.space(0), self.space(1), where, number)
        moved = (places, target, where)
        new = tile.MoveByDigitOp(row, count, bits, *moved, axis=axis, unsigned=unsigned)
        self.emit.op(located(new, self.sorts.sort))

    def made_of(self, turn: int, at: dict[str, SSAValue]) -> None:
        """What is made of the elements of a tile, where they go."""
        row, count, number = self.brought(turn, at)
        (bits, unsigned), emit = self.how(turn), self.emit
        kind = SharedType.of([1, self.passes.values], i32, 0)
        bases = emit.value(SharedTileOp(kind), "bases")
        places = tile.DigitPlaces(self.space(0), self.space(1), list(at.values()), number)
        new = tile.SortByDigitOp(row, count, bits, places, bases, unsigned=unsigned)
        emit.op(located(new, self.sorts.sort))
        origin, outer = [*at.values(), count], list(at)
        axes: dict[str, AffineExpr] = {}
        point = Point(self.frame, Block(arg_types=[self.element]), {}, axes, 2, origin)
        then, zero = point.emit, emit.index(0)
        inside = then.compare("slt", point.index(COLUMN), count)
        key = point.input(row, (ROW, COLUMN))
        point.take(self.sorts.sort.result, key)
        digit = self.digit(then, key, bits, unsigned)
        base = then.value(tile.ElementAddressOp(bases, zero, zero, digit))
        base = then.value(LoadSharedOp(base, i32))
        column = then.value(arith.IndexCastOp(point.index(COLUMN), i32))
        place = then.value(
            arith.IndexCastOp(then.value(arith.AddiOp(base, column)), INDEX), "place"
        )
        places = dict(at) | {self.sorts.result.label: place}
        for label in [*outer, self.sorts.result.label]:
            axes[label] = point.place_at(places[label])
        point.where = inside
        for value, out in zip(self.kernel.yield_op.values, self.frame.outputs, strict=True):
            labels = cast("ValType", value.type).labels
            scalar = point.cast(point.scalar(value), cast("GlobalType", out.type).element_type)
            then.op(StoreGlobalOp(scalar, out, [places[label] for label in labels], inside))
        point.block.add_ops([*then.ops, tile.YieldOp([])])
        # Neighbours in the tile are mostly neighbours where they go, and so are their threads.
        of_one = FragmentType.of([1, self.columns], self.element, self.layout_of(self.columns, 1))
        space, body = emit.value(tile.FragmentOp(of_one), "keys"), Region(point.block)
        made = tile.MapOp(space, point.origin, point.inputs, [], point.input_maps, body)
        emit.op(located(made, self.sorts.sort))

    def digit(self, emit: Emit, key: SSAValue, bits: Bits, unsigned: bool) -> SSAValue:
        """The value of a digit of a key, an index."""
        first, end = bits
        by = integers.number(emit, first, self.element)
        value = emit.value(arith.ShRUIOp(key, by))
        mask = integers.number(emit, (1 << end - first) - 1, self.element)
        value = emit.value(arith.AndIOp(value, mask))
        if not unsigned:
            top = integers.number(emit, 1 << end - first - 1, self.element)
            value = emit.value(arith.XOrIOp(value, top))
        return emit.value(arith.IndexCastOp(value, INDEX), "digit")

    def read(
        self,
        emit: Emit,
        at: Coordinates,
        start: SSAValue,
        space: SSAValue,
        in_memory: bool = False,
    ) -> None:
        """What is sorted, or what a pass left, from ``start`` on."""
        if self.source is None:
            super().read(emit, at, start, space, in_memory)
            return
        block = Block(arg_types=[self.element, self.element])
        block.add_op(tile.YieldOp([block.args[1]]))
        where = (
            *(AffineExpr.symbol(i) for i in range(len(at))),
            COLUMN + AffineExpr.symbol(len(at)),
        )
        maps = [AffineMap(2, len(where), where), AffineMap(2, len(where), (ROW, COLUMN))]
        origin = [*at.values(), start]
        new = tile.MapOp(space, origin, [self.source], [space], maps, Region(block))
        emit.op(located(new, self.sorts.sort))
