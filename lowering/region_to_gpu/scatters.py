"""``region-to-gpu``: scatters, at the tile level (S9, T3).

A block has a tile of the result in registers, which begins as what is updated.  It goes through the
updates in their order; each falls to the elements whose places its indices are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import LoadGlobalOp, LoadSharedOp, SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentLayoutAttr,
    FragmentType,
    SharedType,
    element_bytes,
    index_attr,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.plan.resources import AHEAD
from polyc.dialects.region import KernelOp
from polyc.dialects.region.types import AxisAttr, ValType
from polyc.families.scatters.recognise import Scatters
from polyc.families.scatters.schedules import POOLED, THREADS
from polyc.lowering.region_to_gpu import integers, scatter_lists
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.kernel import Builder, Walked
from polyc.lowering.region_to_gpu.point import (
    COLUMN,
    ROW,
    Held,
    Point,
    Wanted,
    element_of,
)
from polyc.lowering.region_to_gpu.scatter_lists import (
    FIRST,
    GROUP,
    LENGTH,
    ListMaker,
    parts_of,
)
from polyc.lowering.region_to_gpu.scatter_parts import (
    Join,
    PartJoin,
    PartMaker,
    below_each_other,
)
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit

AT_ONCE, AT_ONCE_WIDE = 8, 6
"""Blocks of a multiprocessor that go along lists, where they only read, combine and store: most of
the time they wait for loads.  Those of open sizes, of more axes and of integers need more
registers."""

PLACE_BITS = 32
"""Of a key, those that are the place of an update; a row of the tile is above."""


TOGETHER = 2
"""Parts of a list that come at once."""


def way_of(plan: ScheduleOp) -> str:
    """How a schedule finds the updates of a tile."""
    return str(record_of(plan.algo_choice)["scatters"])


@dataclass(frozen=True)
class ScattersLowering(Walked):
    """A region that scatters."""

    scatters: Scatters

    @property
    def kernel(self) -> KernelOp:
        return self.scatters.kernel

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """A block has a tile along the rows and the columns, and a point of any other axis."""
        rows, columns, _ = plan.tile_sizes
        axes = [Axis(axis.label, axis.size) for axis in self.scatters.outer]
        if (row := self.scatters.row) is not None:
            axes.append(Axis(row.label, row.size, rows))
        if (column := self.scatters.column) is not None:
            axes.append(Axis(column.label, column.size, columns))
        return [Grid(tuple(axes))]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid]) -> ScatterBuilder:
        return ScatterBuilder(self.scatters, plan, grids)

    def maker(self, plan: ScheduleOp) -> ListMaker | None:
        """What makes the lists that a schedule reads, where it does."""
        way = way_of(plan)
        if way not in AHEAD:
            return None
        lists = self.scatters.lists
        assert lists is not None
        return ListMaker(self.scatters, lists, plan, way)

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        own, maker = super().launches(plan), self.maker(plan)
        if maker is None:
            return own
        align = self.aligned(plan)
        parts = [PartMaker(maker).launch(align)] if maker.way == "listed" else []
        return [*maker.launches(align), *parts, *own]

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        maker = self.maker(plan)
        return [] if maker is None else maker.spaces()

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        maker = self.maker(plan)
        if maker is None:
            return super().build(plan, bindings, spaces)
        builder = self.builder(plan, self.grids(plan))
        builder.taking(maker, spaces)
        kernels = maker.build(bindings, spaces)
        if maker.way == "listed":
            kernels.append(PartMaker(maker).build(bindings, spaces))
        return [*kernels, builder.build(bindings)]


LOWERING = ScattersLowering


class ScatterBuilder(Builder):
    """Builds the kernel of one schedule."""

    def __init__(self, scatters: Scatters, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(scatters.kernel, plan, grids)
        self.scatters = scatters
        self.op = scatters.scatter
        self.element = self.op.result.type.element_type
        self.maker: ListMaker | None = None
        self.lists: list[SSAValue] = []

    def taking(self, maker: ListMaker, spaces: Sequence[BindAttr]) -> None:
        """Let kernels ahead of it leave which updates there are in workspaces."""
        self.maker = maker
        every = list(zip(maker.spaces(), spaces, strict=True))
        for space, binding in (every[number] for number in maker.left):
            hint = space.name.rpartition("_")[2]
            self.lists.append(self.frame.space(space.kind, binding, hint))

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        kernel = super().finish(bindings)
        rows, columns, _ = self.plan.tile_sizes
        a_vector_each = rows * columns == THREADS * self.plan.integer("vectorize")
        of_rows = self.maker is not None and self.maker.column is None
        if way_of(self.plan) == "listed" and a_vector_each and of_rows and self.scatters.plain:
            few = not self.kernel.symbol_names and len(self.scatters.axes) <= 2
            narrow = few and not is_integer(self.element)
            kernel.blocks_per_sm = index_attr(AT_ONCE if narrow else AT_ONCE_WIDE)
        return kernel

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """The tile of a block: what is updated, the updates, and what is stored."""
        places: dict[str, AffineExpr] = {}
        for i, (label, value) in enumerate(at.items()):
            places[label], value.name_hint = AffineExpr.symbol(i), f"{label}0"
        for axis, along in ((self.scatters.row, ROW), (self.scatters.column, COLUMN)):
            if axis is not None:
                places[axis.label] += along
        origin = list(at.values())
        rows, columns, _ = self.plan.tile_sizes
        kind = without_sign(self.element)
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        way = way_of(self.plan)
        layout, _ = row_layout(rows, columns, vector, element_bytes(f32), threads)
        if way != "serial":
            layout = below_each_other(rows, columns, vector, threads)
        held = self.emit.value(
            tile.FragmentOp(FragmentType.of([rows, columns], kind, layout)), self.op.fn.data
        )
        self.map(self.emit, held, places, origin, [Wanted(self.op.operand, held, (ROW, COLUMN))])
        if way == "pooled":
            self.pooled(held, places, origin)
        elif way == "listed":
            self.listed(held, places, origin)
        elif way == "last":
            self.last(held, places, origin)
        else:
            self.updates(self.emit, held, places, origin, self.scatters.over)
        self.store(held, places, origin)

    def map(
        self,
        emit: Emit,
        space: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        wanted: Sequence[Wanted],
        held: Mapping[SSAValue, Held] | None = None,
    ) -> None:
        """A map over the tile."""
        block = Block(arg_types=[without_sign(self.element)])
        block.args[0].name_hint = space.name_hint
        known = held or dict[SSAValue, Held]()
        point = Point(self.frame, block, {}, places, 2, origin, known.get)
        emit.op(point.write(space, wanted, self.op))

    def updates(
        self,
        emit: Emit,
        held: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        over: Sequence[tuple[str, Dim]],
    ) -> None:
        """The loops over the updates, one by one, around a map that combines one of them."""
        if not over:
            self.map(emit, held, places, origin, [self.combined(held)])
            return
        (label, size), *rest = over

        def body(inner: Emit, at: SSAValue) -> None:
            here = {**places, label: AffineExpr.symbol(len(origin))}
            self.updates(inner, held, here, [*origin, at], rest)

        emit.loop(self.frame.size(size), body, hint=label)

    def combined(self, held: SSAValue) -> Wanted:
        """What the elements of a tile are after the update in hand."""

        def then(point: Point, update: SSAValue) -> SSAValue:
            emit = point.emit
            here: SSAValue | None = None
            for index, place in self.op.pairs:
                one, other = (point.wide(v) for v in (index, place))
                here = emit.both(here, emit.value(arith.CmpiOp(one, other, "eq")))
            assert here is not None
            return self.joined(point, update, here)

        return Wanted(self.op.updates, held, (ROW, COLUMN), then)

    def joined(self, point: Point, update: SSAValue, here: SSAValue) -> SSAValue:
        """An element with an update combined into it, where that is ``here``."""
        join = Join(self.op.fn.data, self.element)
        return join.joined(point, point.block.args[0], update, here)

    # Updates that fall to a row of the tile each

    def pooled(
        self, held: SSAValue, places: Mapping[str, AffineExpr], origin: Sequence[SSAValue]
    ) -> None:
        """So many updates at a time: those that fall into the tile are found, sorted by their row
        and their place, and taken.
        """
        emit, ((label, count),) = self.emit, self.scatters.over
        pool = emit.value(SharedTileOp(SharedType.of([1, 2 * POOLED + 1], i64, 0)), "pool")
        number = emit.value(SharedTileOp(SharedType.of([1, 1], i32, 0)), "number")
        layout, _ = row_layout(1, POOLED, 1, 8, self.plan.threads())
        size = self.frame.size(count)

        def part(inner: Emit, start: SSAValue) -> None:
            keys = inner.value(tile.FragmentOp(FragmentType.of([1, POOLED], i64, layout)), "keys")
            inner.op(tile.KeepNoneOp(pool, number))
            self.look(inner, keys, places, [*origin, start], label, size)
            inner.op(tile.KeepLeastOp(keys, pool, number, POOLED))
            inner.op(tile.KeptOp(pool, number, 0))
            found = self.number(inner, number, inner.index(0))
            inner.loop(
                inner.value(arith.IndexCastOp(found, INDEX)),
                lambda each, at: self.take(each, held, places, origin, label, pool, at),
                hint="found",
            )

        emit.loop(size, part, step=POOLED, hint=f"{label}0")

    def number(self, emit: Emit, shared: SSAValue, place: SSAValue) -> SSAValue:
        """A number of a row of shared memory."""
        zero = emit.index(0)
        address = emit.value(tile.ElementAddressOp(shared, zero, zero, place))
        return emit.value(LoadSharedOp(address, cast(SharedType, shared.type).element_type))

    def look(
        self,
        emit: Emit,
        keys: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        label: str,
        size: SSAValue,
    ) -> None:
        """Of each update its row in the tile, above its place; the largest number of one that
        falls outside."""
        along = COLUMN + AffineExpr.symbol(len(origin) - 1)
        axes: dict[str, AffineExpr] = {}
        for axis in self.scatters.axes:
            axes[axis.label] = places[axis.label].replace_dims_and_symbols(
                [AffineExpr.constant(0)] * 2, [AffineExpr.symbol(i) for i in range(len(origin))]
            )
        axes[label] = along
        ((index, place),) = self.op.pairs

        def key(point: Point, scalar: SSAValue) -> SSAValue:
            one = point.emit
            first = point.wide(place)
            at = integers.resized(one, scalar, element_of(index), i64)
            row = integers.binary(one, "sub", at, first, i64)
            rows = integers.number(one, self.plan.tile_sizes[0], i64)
            here = one.compare("slt", point.index(along), size)
            here = one.both(here, one.compare("ult", row, rows))
            bits = integers.number(one, PLACE_BITS, i64)
            above = one.value(arith.ShLIOp(row, bits))
            found = one.value(arith.OrIOp(above, integers.from_index(one, point.index(along), i64)))
            most = integers.number(one, (1 << 63) - 1, i64)
            return one.value(arith.SelectOp(here, found, most))

        block = Block(arg_types=[i64])
        block.args[0].name_hint = "key"
        point = Point(self.frame, block, {}, axes, 2, origin)
        emit.op(point.write(keys, [Wanted(index, keys, (ROW, COLUMN), key)], self.op))

    def take(
        self,
        emit: Emit,
        held: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        label: str,
        pool: SSAValue,
        place: SSAValue,
    ) -> None:
        """Combine one of the updates that were found into its row."""
        key = self.number(emit, pool, place)
        at = emit.value(arith.IndexCastOp(emit.value(arith.TruncIOp(key, i32)), INDEX), label)
        bits = integers.number(emit, PLACE_BITS, i64)
        above = emit.value(arith.TruncIOp(emit.value(arith.ShRUIOp(key, bits)), i32))
        row = emit.value(arith.IndexCastOp(above, INDEX), "row")
        count = len(origin)
        here = {**places, label: AffineExpr.symbol(count)}

        def then(point: Point, update: SSAValue) -> SSAValue:
            mine = point.emit.compare("eq", point.index(ROW), row)
            return self.joined(point, update, mine)

        wanted = [Wanted(self.op.updates, held, (ROW, COLUMN), then)]
        self.map(emit, held, here, [*origin, at], wanted)

    # Updates that kernels ahead have found

    def listed(
        self, held: SSAValue, places: Mapping[str, AffineExpr], origin: Sequence[SSAValue]
    ) -> None:
        """The updates of each row of the tile, in their order; rows go side by side."""
        assert self.maker is not None
        emit, maker = self.emit, self.maker
        at = dict(zip((axis.label for axis in self.axes_at), origin, strict=False))
        longest = emit.value(LoadGlobalOp(self.lists[0], maker.longest(emit, at), i32), "longest")
        most = emit.value(arith.MinSIOp(longest, emit.int32(scatter_lists.LONG)))
        most = emit.value(arith.IndexCastOp(most, INDEX), "most")
        walk = Walk(self, held, places, origin)
        walk.begin(emit)
        emit.loop(FIRST, walk.first, unroll=True)

        def group(outer: Emit, _: SSAValue) -> None:
            walk.look_ahead(outer)
            outer.loop(GROUP, walk.step, unroll=True)
            walk.go_on(outer)

        def further(inner: Emit) -> None:
            walk.behind_first(inner)
            inner.loop(most, group, step=GROUP, hint="group", start=FIRST)

        emit.when(emit.compare("sgt", most, emit.index(FIRST)), further)

        def parts(inner: Emit) -> None:
            walk.behind_lists(inner)
            count = inner.value(arith.IndexCastOp(parts_of(inner, longest), INDEX), "parts")

            def some(outer: Emit, _: SSAValue) -> None:
                outer.loop(TOGETHER, walk.part, unroll=True)
                walk.behind_parts(outer)

            inner.loop(count, some, step=TOGETHER, hint="some")

        emit.when(emit.compare("sgt", longest, emit.int32(scatter_lists.LONG)), parts)

    def last(
        self, held: SSAValue, places: Mapping[str, AffineExpr], origin: Sequence[SSAValue]
    ) -> None:
        """The last update of each element, where there is one."""
        assert self.maker is not None
        (last,) = self.lists
        block = Block(arg_types=[without_sign(self.element)])
        block.args[0].name_hint = self.op.fn.data
        axes = dict(places)
        point = Point(self.frame, block, {}, axes, 2, origin)
        number = point.input(last, [places[axis.label] for axis in self.maker.listed])
        then = point.emit
        here = then.compare("sgt", number, then.int32(0))
        before = integers.binary(then, "sub", number, then.int32(1), i32)
        place = then.value(arith.SelectOp(here, before, then.int32(0)))
        axes |= self.maker.at(point, then.value(arith.IndexCastOp(place, INDEX), "place"))
        point.where = here
        self.write_where(self.emit, point, held, here)

    def write_where(self, emit: Emit, point: Point, held: SSAValue, here: SSAValue) -> None:
        """The map that combines an update into the elements of a tile where it is ``here``."""

        def then(point: Point, update: SSAValue) -> SSAValue:
            return self.joined(point, update, here)

        wanted = [Wanted(self.op.updates, held, (ROW, COLUMN), then)]
        emit.op(point.write(held, wanted, self.op))

    @property
    def axes_at(self) -> list[AxisAttr]:
        """The axes of a tile's place, in the order of the grid's."""
        ends = (self.scatters.row, self.scatters.column)
        return [*self.scatters.outer, *(axis for axis in ends if axis is not None)]

    def store(
        self, held: SSAValue, places: Mapping[str, AffineExpr], origin: Sequence[SSAValue]
    ) -> None:
        """The outputs of a tile."""
        values = list(self.kernel.yield_op.values)
        symbols = [AffineExpr.symbol(i) for i in range(len(origin))]
        dims: list[AffineExpr] = [ROW, COLUMN]
        wanted: list[Wanted] = []
        for value, output in zip(values, self.frame.outputs, strict=True):
            labels = cast(ValType, value.type).labels
            at = tuple(places[a].replace_dims_and_symbols(dims, symbols) for a in labels)
            wanted.append(Wanted(value, output, at))
        known: dict[SSAValue, Held] = {self.op.result: Held(held, (ROW, COLUMN))}
        self.map(self.emit, held, places, origin, wanted, known)


class Walk:
    """Goes along the lists of all rows of a tile, or of all its elements, at once.

    Fragments hold of each list how many updates are left, the update that owns the group at hand,
    and the one that owns the next.
    """

    def __init__(
        self,
        builder: ScatterBuilder,
        held: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
    ) -> None:
        assert builder.maker is not None
        self.builder, self.maker, self.held = builder, builder.maker, held
        self.places, self.origin = places, origin
        counts, firsts, rest, groups, following, partial = builder.lists
        self.counts, self.firsts, self.rest, self.partial = counts, firsts, rest, partial
        self.groups, self.following = groups, following
        kind = held.type
        assert isinstance(kind, FragmentType) and isinstance(kind.layout, FragmentLayoutAttr)
        sizes, layout = list(kind.sizes), kind.layout
        self.own: tuple[AffineExpr, ...] = (ROW, COLUMN)
        if self.maker.column is None:
            self.own, sizes = (ROW,), sizes[:1]
            layout = Spread.of(layout).image(AffineMap(2, 0, (ROW,))).layout()
        self.kind = FragmentType.of(sizes, i32, layout)
        self.left, self.owner, self.coming = (
            builder.emit.value(tile.FragmentOp(self.kind), hint)
            for hint in ("left", "owner", "coming")
        )

    def point(self) -> Point:
        """A point of the lists."""
        block = Block(arg_types=[i32])
        return Point(self.builder.frame, block, {}, self.places, len(self.own), self.origin)

    def batch(self, point: Point) -> list[SSAValue]:
        """The point of the batch that a list is of."""
        return [point.index(self.places[axis.label]) for axis in self.maker.lists.batch]

    def at(self, point: Point) -> dict[str, SSAValue]:
        """Where a list is on its axes."""
        return {axis.label: point.index(self.places[axis.label]) for axis in self.maker.listed}

    def set(self, emit: Emit, point: Point, new: Mapping[SSAValue, SSAValue]) -> None:
        """The map that sets fragments."""
        point.block.add_ops([*point.emit.ops, tile.YieldOp(list(new.values()))])
        maps = [*point.input_maps, *[point.map(self.own)] * len(new)]
        targets, body = list(new), Region(point.block)
        made = tile.MapOp(self.left, point.origin, point.inputs, targets, maps, body)
        emit.op(located(made, self.builder.op))

    def length(self, point: Point) -> SSAValue:
        """How many updates a list has; none beyond the end of the rows."""
        at = self.maker.counted(point.emit, point.frame, self.at(point), LENGTH)
        return point.emit.value(LoadGlobalOp(self.counts, at, i32))

    def begin(self, emit: Emit) -> None:
        """How many updates each list has that is not long; none of one that is."""
        point = self.point()
        length, then = self.length(point), point.emit
        short = then.compare("sle", length, then.int32(scatter_lists.LONG))
        left = then.value(arith.SelectOp(short, length, then.int32(0)))
        self.set(emit, point, {self.left: left})

    def behind_lists(self, emit: Emit) -> None:
        """Go on to the parts of long lists."""
        point = self.point()
        length, then = self.length(point), point.emit
        long = then.compare("sgt", length, then.int32(scatter_lists.LONG))
        room = then.value(LoadGlobalOp(self.rest, list(self.at(point).values()), i32, long))
        left = then.value(arith.SelectOp(long, parts_of(then, length), then.int32(0)))
        self.set(emit, point, {self.owner: room, self.left: left})

    def behind_parts(self, emit: Emit) -> None:
        """Go on to the next parts."""
        point = self.point()
        owner, then = point.input(self.owner, self.own), point.emit
        many = then.int32(TOGETHER)
        after = integers.binary(then, "sub", point.block.args[0], many, i32)
        room = integers.binary(then, "add", owner, many, i32)
        self.set(emit, point, {self.owner: room, self.left: after})

    def part(self, emit: Emit, number: SSAValue) -> None:
        """Combine what one of the parts at hand comes to."""
        builder = self.builder
        point, here = self.tile(number)
        owner, then = point.input(self.owner, self.own), point.emit
        part = then.value(arith.AddiOp(owner, then.value(arith.IndexCastOp(number, i32))))
        places = [*self.batch(point), then.value(arith.IndexCastOp(part, INDEX))]
        places += [point.index(self.places[axis.label]) for axis in self.maker.unlisted]
        ends = (self.builder.frame.size(axis.size) for axis in self.maker.unlisted)
        for place, end in zip(places[-len(self.maker.unlisted) :], ends, strict=False):
            here = then.both(here, then.compare("slt", place, end))
        scalar = then.value(LoadGlobalOp(self.partial, places, self.maker.held, here), "part")
        join = PartJoin.of(builder.op.fn.data, builder.element)
        found = builder.joined(point, join.given(point, scalar), here)
        point.block.add_ops([*then.ops, tile.YieldOp([found])])
        maps = [*point.input_maps, point.map((ROW, COLUMN))]
        body = Region(point.block)
        made = tile.MapOp(self.held, point.origin, point.inputs, [self.held], maps, body)
        emit.op(located(made, builder.op))

    def tile(self, number: SSAValue) -> tuple[Point, SSAValue]:
        """A point of the tile's elements, and whether its list has one more at hand."""
        builder = self.builder
        block = Block(arg_types=[without_sign(builder.element)])
        block.args[0].name_hint = builder.op.fn.data
        point = Point(builder.frame, block, {}, dict(self.places), 2, self.origin)
        left, then = point.input(self.left, self.own), point.emit
        return point, then.compare("sgt", left, then.value(arith.IndexCastOp(number, i32)))

    def behind_first(self, emit: Emit) -> None:
        """Go on to the groups."""
        point = self.point()
        left, then = point.block.args[0], point.emit
        many = then.int32(FIRST)
        more = then.compare("sgt", left, many)
        owner = then.value(LoadGlobalOp(self.rest, list(self.at(point).values()), i32, more))
        after = integers.binary(then, "sub", left, many, i32)
        self.set(emit, point, {self.owner: owner, self.left: after})

    def look_ahead(self, emit: Emit) -> None:
        """Which update owns the next group, which comes while this one is combined."""
        point = self.point()
        owner, then = point.input(self.owner, self.own), point.emit
        more = then.compare("sgt", point.block.args[0], then.int32(GROUP))
        at = [*self.batch(point), then.value(arith.IndexCastOp(owner, INDEX))]
        self.set(
            emit, point, {self.coming: then.value(LoadGlobalOp(self.following, at, i32, more))}
        )

    def go_on(self, emit: Emit) -> None:
        """The group after the one at hand."""
        point = self.point()
        coming = point.input(self.coming, self.own)
        many = point.emit.int32(GROUP)
        after = integers.binary(point.emit, "sub", point.block.args[0], many, i32)
        self.set(emit, point, {self.owner: coming, self.left: after})

    def first(self, emit: Emit, number: SSAValue) -> None:
        """Combine one of the first updates of each list, where it has so many."""
        self._combine(emit, number, self.firsts, lambda point: [*self.at(point).values(), number])

    def step(self, emit: Emit, number: SSAValue) -> None:
        """The same of the group at hand."""

        def where(point: Point) -> list[SSAValue]:
            owner = point.input(self.owner, self.own)
            place = point.emit.value(arith.IndexCastOp(owner, INDEX))
            return [*self.batch(point), place, number]

        self._combine(emit, number, self.groups, where)

    def _combine(
        self,
        emit: Emit,
        number: SSAValue,
        source: SSAValue,
        where: Callable[[Point], list[SSAValue]],
    ) -> None:
        point, here = self.tile(number)
        then = point.emit
        place = then.value(LoadGlobalOp(source, where(point), i32, here), "place")
        at = self.maker.at(point, then.value(arith.IndexCastOp(place, INDEX)))
        point.axes, point.where = {**point.axes, **at}, here
        self.builder.write_where(emit, point, self.held, here)
