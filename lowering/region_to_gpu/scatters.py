"""``region-to-gpu``: scatters, at the tile level (S9, T3).

A block has a tile of the result in registers, which begins as what is updated.  It goes through the
updates in their order; each falls to the elements whose places its indices are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import LoadSharedOp, SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import FragmentType, SharedType, element_bytes, index_attr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.plan.resources import AHEAD
from polyc.dialects.region import KernelOp
from polyc.dialects.region.types import AxisAttr, ValType
from polyc.families.scatters.recognise import Scatters
from polyc.families.scatters.schedules import POOLED, THREADS
from polyc.lowering.region_to_gpu import integers
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
    ListMaker,
)
from polyc.lowering.region_to_gpu.scatter_parts import (
    Join,
    PartMaker,
    below_each_other,
)
from polyc.lowering.region_to_gpu.scatter_runs import build_lists
from polyc.lowering.region_to_gpu.scatter_walk import Walk
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.emit import INDEX, Emit

AT_ONCE, AT_ONCE_OPEN, AT_ONCE_BYTES = 6, 5, 4
"""Blocks of a multiprocessor that go along lists, where they only read, combine and store: most of
the time they wait for loads.  With eight a thread has 32 registers, and waits for one update after
another.  Those of open sizes need more, and of bytes a thread has twice as many elements."""

PLACE_BITS = 32
"""Of a key, those that are the place of an update; a row of the tile is above."""


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
        lists = self.scatters.each if way == "atomic" else self.scatters.lists
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
        kernels = build_lists(maker, bindings, spaces)
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
            most = AT_ONCE_OPEN if self.kernel.symbol_names else AT_ONCE
            byte = element_bytes(without_sign(self.element)) == 1
            kernel.blocks_per_sm = index_attr(AT_ONCE_BYTES if byte else most)
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
        elif way == "atomic":
            self.atomic(held, places, origin)
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
        walk = Walk(
            self.frame,
            self.maker,
            self.lists,
            held,
            places,
            origin,
            lambda emit, point, here: self.write_where(emit, point, held, here),
        )
        at = dict(zip((axis.label for axis in self.axes_at), origin, strict=False))
        walk.all(self.emit, at)

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

    def atomic(
        self, held: SSAValue, places: Mapping[str, AffineExpr], origin: Sequence[SSAValue]
    ) -> None:
        """What all updates of each element make together, where there is one."""
        assert self.maker is not None
        (found,) = self.lists
        block = Block(arg_types=[without_sign(self.element)])
        block.args[0].name_hint = self.op.fn.data
        point = Point(self.frame, block, {}, dict(places), 2, origin)
        number = point.input(found, [places[axis.label] for axis in self.maker.listed])
        key = self.maker.key
        here = point.emit.compare("ne", number, integers.number(point.emit, 0, key.kind))
        update = key.back(point.emit, number)
        point.take(self.op.updates, update)
        wanted = Wanted(
            self.op.updates,
            held,
            (ROW, COLUMN),
            lambda point, update: self.joined(point, update, here),
        )
        self.emit.op(point.write(held, [wanted], self.op))

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
