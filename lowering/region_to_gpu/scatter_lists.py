"""``region-to-gpu``: lists of the updates of each place of a scatter, made ahead (S9, T3).

A place has the *list* of its updates, in their order.  Two kernels make the lists, so that no block
looks at all updates:

1. ``links``: an update takes the head of its place's list, by an atomic exchange, and is linked to
   what was there; an atomic sum counts them.
2. ``order``: an update walks along the list that it is in, which is in any order, and counts those
   before it.  So it knows its rank, and the last ones before it.  The first few of a list stand
   where the place says; a later one writes itself into the *group* of its rank, which the first of
   the group owns, and the first of one is linked to the first of the group before.

What these leave of a list is the same in every run.  Of ``set`` one kernel leaves for each place
the last update that falls to it, by an atomic maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    ExchangeGlobalOp,
    LoadGlobalOp,
    StoreGlobalOp,
)
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentType,
    GlobalType,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.resources import AHEAD
from polyc.dialects.region.types import AxisAttr
from polyc.families.scatters.recognise import Lists, Scatters
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame, Space
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.point import COLUMN, Point
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit

THREADS = 256
"""Threads of a block, each of which has an update."""

FIRST = 4
"""Updates of a list that stand where its place says."""

GROUP = 4
"""Further ones that lie beside each other, so that their places come at once."""

HEAD, LENGTH = 0, 1
"""What is counted of a list: the update that was linked last, from 1, and how many there are; of a
tile how long its longest list is, in place of the first."""


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
    def rows(self) -> int:
        """Rows of a tile."""
        return self.plan.tile_sizes[0]

    @property
    def columns(self) -> int:
        """Columns of a tile that have a list each."""
        return 1 if self.column is None else self.plan.tile_sizes[1]

    @property
    def row(self) -> AxisAttr:
        """The axis of a tile's rows, which have a list each."""
        row = self.scatters.row
        assert row is not None
        return row

    # Launches and workspaces

    @property
    def grid(self) -> Grid:
        """What the blocks of each kernel part: the updates."""
        batch = [Axis(axis.label, axis.size) for axis in self.lists.batch]
        return Grid((*batch, Axis(self.label, self.count, THREADS)))

    @property
    def names(self) -> list[str]:
        """The kernels' names."""
        return [f"{self.plan.kernel_name}_{name}" for name in AHEAD[self.way]]

    def launches(self, align: Sequence[int]) -> list[LaunchOp]:
        """The kernels that run ahead."""
        blocks = self.grid.blocks()
        return [LaunchOp(name, self.plan.when, align, blocks) for name in self.names]

    def spaces(self) -> list[Space]:
        """What the kernels leave for each other and, the last ones, for the scatter's own."""
        name, each = self.plan.kernel_name, [axis.size for axis in self.listed]
        if self.way == "last":
            return [Space(f"{name}_last", GlobalType.of(each, i32), zeroed=True)]
        updates = [*self.batch, self.count]
        # Those of tiles are before those of lists along the rows, so that one clearing does.
        counted = [a.size + self.tiles if a is self.row else a.size for a in self.listed]
        return [
            Space(f"{name}_counts", GlobalType.of([*counted, 2], i32), zeroed=True),
            Space(f"{name}_links", GlobalType.of(updates, i32)),
            Space(f"{name}_firsts", GlobalType.of([*each, FIRST], i32)),
            Space(f"{name}_rest", GlobalType.of(each, i32)),
            Space(f"{name}_groups", GlobalType.of([*updates, GROUP], i32)),
            Space(f"{name}_following", GlobalType.of(updates, i32)),
        ]

    @property
    def left(self) -> list[int]:
        """The workspaces that the scatter's own kernel reads."""
        return [0] if self.way == "last" else [0, 2, 3, 4, 5]

    @property
    def tiles(self) -> Dim:
        """Tiles along the rows."""
        return self.row.size.ceildiv(self.rows)

    def counted(
        self, emit: Emit, frame: Frame, where: Mapping[str, SSAValue], which: int
    ) -> list[SSAValue]:
        """The coordinates of what is counted of a list."""
        found = [where[axis.label] for axis in self.listed]
        number = self.listed.index(self.row)
        found[number] = emit.value(arith.AddiOp(found[number], frame.size(self.tiles)))
        return [*found, emit.index(which)]

    def longest(self, emit: Emit, where: Mapping[str, SSAValue]) -> list[SSAValue]:
        """The coordinates of how long the longest list is of the tile of a list."""
        found: list[SSAValue] = []
        for axis in self.listed:
            wide = {self.row: self.rows, self.column: self.columns}.get(axis)
            at = where[axis.label]
            found.append(at if wide is None else emit.apply(AffineExpr.dimension(0) // wide, [at]))
        return [*found, emit.index(HEAD)]

    def build(self, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]) -> list[gpu.KernelOp]:
        """The kernels."""
        makes = [Making.last] if self.way == "last" else [Making.links, Making.order]
        made: list[gpu.KernelOp] = []
        for name, make in zip(self.names, makes, strict=True):
            making = Making(self, spaces)
            make(making)
            made.append(making.frame.finish(self.plan, bindings, ahead=(name, THREADS)))
        return made


class Making:
    """Builds one kernel: a thread has an update."""

    def __init__(self, maker: ListMaker, spaces: Sequence[BindAttr]) -> None:
        self.maker, self.scatters, self.lists = maker, maker.scatters, maker.lists
        self.frame = Frame(maker.scatters.kernel)
        self.emit = self.frame.emit
        self.spaces = list(zip(maker.spaces(), spaces, strict=True))
        sizes = [self.frame.size(axis.size) for axis in maker.grid.axes]
        self.at: Coordinates = maker.grid.coordinates(self.emit, sizes, maker.plan)
        for label, value in self.at.items():
            value.name_hint = f"{label}0"
        self.size = self.frame.size(maker.count)
        symbols = {label: AffineExpr.symbol(i) for i, label in enumerate(self.at)}
        self.along = symbols[maker.label] + COLUMN
        """Where an update is in their order."""
        self.each = (*(symbols[axis.label] for axis in self.lists.batch), self.along)
        """And in a workspace of all of a batch."""
        self.symbols = symbols

    def space(self, number: int) -> SSAValue:
        """A workspace as an argument."""
        space, binding = self.spaces[number]
        return self.frame.space(space.kind, binding, space.name.rpartition("_")[2])

    @property
    def batch(self) -> list[SSAValue]:
        """The point of the batch that the block is at."""
        return [self.at[axis.label] for axis in self.lists.batch]

    def updates(
        self,
        target: SSAValue | None,
        then: Callable[[Point, Mapping[str, SSAValue], SSAValue], SSAValue | None],
    ) -> None:
        """A map over the block's updates: ``then`` is given where on the axes of lists each falls,
        and whether it does; what it gives goes to ``target``, in their order."""
        axes = {axis.label: AffineExpr.constant(0) for axis in self.scatters.axes}
        axes |= {label: self.symbols[label] for label in self.symbols if label in axes}
        block = Block(arg_types=[i32])
        point = Point(self.frame, block, {}, axes, 2, list(self.at.values()))
        emit = point.emit
        if len(self.scatters.over) == 1:
            axes[self.maker.label] = self.along
        else:
            axes |= self.maker.at(point, point.index(self.along))
        here = emit.compare("slt", point.index(self.along), self.size)
        where = {axis.label: self.at[axis.label] for axis in self.lists.batch}
        for one in self.lists.placed:
            index, first = point.wide(one.index), point.wide(one.place)
            at = integers.binary(emit, "sub", index, first, i64)
            size = point.dim(one.axis.size, i64)
            here = emit.both(here, emit.compare("ult", at, size))
            where[one.axis.label] = emit.value(arith.IndexCastOp(at, INDEX))
        found = then(point, where, here)
        block.add_ops([*emit.ops, tile.YieldOp([] if found is None else [found])])
        layout, _ = row_layout(1, THREADS, 1, 4, THREADS)
        kind = FragmentType.of([1, THREADS], i32, layout)
        space = self.emit.value(tile.FragmentOp(kind), "update")
        maps, targets = list(point.input_maps), list[SSAValue]()
        if target is not None:
            maps.append(point.map(self.each))
            targets.append(target)
        new = tile.MapOp(space, point.origin, point.inputs, targets, maps, Region(block))
        self.emit.op(located(new, self.scatters.scatter))

    def place(self, point: Point) -> SSAValue:
        """The place of an update in their order, an i32."""
        return point.emit.value(arith.IndexCastOp(point.index(self.along), i32))

    def number(self, point: Point) -> SSAValue:
        """That counted from 1."""
        one = point.emit.int32(1)
        return integers.binary(point.emit, "add", self.place(point), one, i32)

    # The kernels

    def last(self) -> None:
        """The last update of each place, counted from 1; 0 where there is none."""
        last = self.space(0)

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            at = [where[axis.label] for axis in self.maker.listed]
            point.emit.op(AtomicGlobalOp("max", self.number(point), last, at, here))

        self.updates(None, then)

    def links(self) -> None:
        """Each update in front of a list, linked to the one that was there, counted from 1."""
        counts, links = (self.space(n) for n in range(2))

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> SSAValue:
            emit = point.emit
            head, length = (self.counted(point, where, which) for which in (HEAD, LENGTH))
            before = emit.value(ExchangeGlobalOp(self.number(point), counts, head, here), "before")
            emit.op(AtomicGlobalOp("add", emit.int32(1), counts, length, here))
            return before

        self.updates(links, then)

    def counted(self, point: Point, where: Mapping[str, SSAValue], which: int) -> list[SSAValue]:
        """The coordinates of what is counted of a list."""
        return self.maker.counted(point.emit, self.frame, where, which)

    def order(self) -> None:
        """Each update where its rank says."""
        counts, links, firsts, rest, groups, following = (self.space(n) for n in range(6))

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            emit, own = point.emit, self.place(point)
            at = [where[axis.label] for axis in self.maker.listed]
            head, length = (
                emit.value(LoadGlobalOp(counts, self.counted(point, where, which), i32, here))
                for which in (HEAD, LENGTH)
            )
            rank, before = self.walk(emit, own, head, length, links)
            none, first = emit.int32(0), emit.int32(FIRST)
            alone = emit.both(here, emit.compare("eq", rank, none))
            longest = self.maker.longest(emit, where)
            emit.op(AtomicGlobalOp("max", length, counts, longest, alone))
            early = emit.both(here, emit.compare("slt", rank, first))
            column = emit.value(arith.IndexCastOp(rank, INDEX))
            emit.op(StoreGlobalOp(own, firsts, [*at, column], early))
            further = integers.binary(emit, "sub", rank, first, i32)
            late = emit.both(here, emit.compare("sge", further, none))
            inside = emit.value(arith.AndIOp(further, emit.int32(GROUP - 1)))
            owner = own
            for number, one in enumerate(before[:-1], 1):
                mine = emit.compare("eq", inside, emit.int32(number))
                owner = emit.value(arith.SelectOp(mine, one, owner))

            def there(place: SSAValue) -> list[SSAValue]:
                return [*self.batch, emit.value(arith.IndexCastOp(place, INDEX))]

            column = emit.value(arith.IndexCastOp(inside, INDEX))
            emit.op(StoreGlobalOp(own, groups, [*there(owner), column], late))
            opens = emit.both(late, emit.compare("eq", inside, none))
            begins = emit.both(here, emit.compare("eq", further, none))
            emit.op(StoreGlobalOp(own, rest, at, begins))
            again = emit.both(opens, emit.compare("sgt", further, none))
            emit.op(StoreGlobalOp(own, following, there(before[-1]), again))

        self.updates(None, then)

    def walk(
        self, emit: Emit, own: SSAValue, head: SSAValue, length: SSAValue, links: SSAValue
    ) -> tuple[SSAValue, list[SSAValue]]:
        """The rank of an update in its list, and the last ones before it, the very last first."""
        none = emit.int32(-1)
        start = [head, emit.int32(0), *[none] * GROUP]
        body = Block(arg_types=[INDEX, *[i32] * len(start)])
        _, number, rank, *before = body.args
        number.name_hint, rank.name_hint = "number", "rank"
        inner, one = Emit(), emit.int32(1)
        other = integers.binary(inner, "sub", number, one, i32)
        at = inner.value(arith.IndexCastOp(other, INDEX))
        after = inner.value(LoadGlobalOp(links, [*self.batch, at], i32))
        lower = inner.compare("slt", other, own)
        more = integers.binary(inner, "add", rank, one, i32)
        found = [after, inner.value(arith.SelectOp(lower, more, rank))]
        coming = inner.value(arith.SelectOp(lower, other, none))
        for known in before:
            found.append(inner.value(arith.MaxSIOp(known, coming)))
            coming = inner.value(arith.MinSIOp(known, coming))
        body.add_ops([*inner.ops, scf.YieldOp(*found)])
        count = emit.value(arith.IndexCastOp(length, INDEX))
        loop = scf.ForOp(emit.index(0), count, emit.index(1), start, body)
        emit.op(loop)
        _, rank, *before = loop.results
        return rank, list(before)
