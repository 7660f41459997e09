"""``region-to-gpu``: lists of the updates of each place of a scatter, made ahead (S9, T3).

A place has the *list* of its updates, in their order.  Kernels make the lists, so that no block
looks at all updates:

1. ``links``: an update takes the head of its place's list, by an atomic exchange, and is linked to
   what was there; an atomic sum counts them.
2. ``order``: an update walks along the list that it is in, which is in any order, and counts those
   before it.  So it knows its rank, and the last ones before it.  The first few of a list stand
   where the place says; a later one writes itself into the *group* of its rank, which the first of
   the group owns, and the first of one is linked to the first of the group before.

So a walk takes as long as the list, and a list of more than ``LONG`` updates is not walked along.
The blocks of ``order`` sort the updates of such lists, a ``CHUNK`` that follow each other at a
time: those of one list become a *run*, in their order, and runs of a list are linked.

3. ``fill``: an update walks along the runs of its list, of which a chunk has one, and adds up how
   many are before its own.  So it knows its rank, and writes itself into a *part* of the list, of
   ``PART`` that follow each other.
4. ``parts`` (``scatter_parts.py``): blocks combine the updates of a part.

What these leave of a list is the same in every run.  Of ``set`` one kernel leaves for each place
the last update that falls to it, by an atomic maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import accumulation, without_sign
from polyc.dialects.common.gathers import REDUCTIONS
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    ExchangeGlobalOp,
    LoadGlobalOp,
    LoadSharedOp,
    SharedTileOp,
    StoreGlobalOp,
)
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentType,
    GlobalType,
    SharedType,
    element_bytes,
    index_attr,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.resources import AHEAD
from polyc.dialects.region.types import AxisAttr
from polyc.families.scatters.recognise import Lists, Scatters
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame, Space
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit

THREADS = 256
"""Threads of a block, each of which has an update."""

FIRST = 4
"""Updates of a list that stand where its place says."""

GROUP = 4
"""Further ones that lie beside each other, so that their places come at once."""

LONG = 64
"""Updates of the longest list that is walked along, and combined one after another."""

PART = 256
"""Updates of a longer one that are combined to one, which is more than twice as many."""

ORDERING = 6
"""Blocks of a multiprocessor that walk along lists: for as many there are shared memory and
registers."""

CHUNK = 2048
"""Updates that follow each other that a block sorts by their lists."""

ID, FIRST_OF_RUN, RUN, BEFORE = range(4)
"""What is known of a place in a sorted chunk: the update that came there, where its run begins, how
long that is, and the run of the same list that was linked before it, from 1."""

PLACE_BITS = 32
"""Of a key, those that are the place of an update in their order; that of its list is above."""

HEAD, LENGTH = 0, 1
"""What is counted of a list: the update that was linked last, from 1, and how many there are; of a
tile how long its longest list is, in place of the first; before all of them how many parts there
are, and whether any list is long."""

PARTS, ANY = HEAD, LENGTH
"""What these are called there."""


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
        """The kernels of which a thread has an update."""
        blocks = self.grid.blocks()
        own = self.names[: len(self.makes)]
        return [LaunchOp(name, self.plan.when, align, blocks) for name in own]

    @property
    def makes(self) -> list[Callable[[Making], None]]:
        """What makes each kernel of which a thread has an update."""
        lists = [Making.links, Making.order, Making.fill]
        return [Making.last] if self.way == "last" else lists

    def spaces(self) -> list[Space]:
        """What the kernels leave for each other and, the last ones, for the scatter's own."""
        name, each = self.plan.kernel_name, [axis.size for axis in self.listed]
        if self.way == "last":
            return [Space(f"{name}_last", GlobalType.of(each, i32), zeroed=True)]
        updates = [*self.batch, self.count]
        # What is of all lists and of tiles is before what is of a list along the rows, so that one
        # clearing does, and nothing is behind their end.
        counted = [a.size + self.tiles + 1 if a is self.row else a.size for a in self.listed]
        parts, lone = [*self.batch, self.parts], [axis.size for axis in self.unlisted]
        return [
            Space(f"{name}_counts", GlobalType.of([*counted, 2], i32), zeroed=True),
            Space(f"{name}_links", GlobalType.of(updates, i32)),
            Space(f"{name}_firsts", GlobalType.of([*each, FIRST], i32)),
            Space(f"{name}_rest", GlobalType.of(each, i32)),
            Space(f"{name}_groups", GlobalType.of([*updates, GROUP], i32)),
            Space(f"{name}_following", GlobalType.of(updates, i32)),
            Space(f"{name}_runs", GlobalType.of([*updates, 4], i32)),
            Space(f"{name}_members", GlobalType.of([*parts, PART], i32)),
            Space(f"{name}_sizes", GlobalType.of(parts, i32)),
            Space(f"{name}_partial", GlobalType.of([*parts, *lone], self.held)),
        ]

    @property
    def left(self) -> list[int]:
        """The workspaces that the scatter's own kernel reads."""
        return [0] if self.way == "last" else [0, 2, 3, 4, 5, 9]

    @property
    def unlisted(self) -> list[AxisAttr]:
        """The axes of the result along which places have one list together."""
        return [axis for axis in self.scatters.axes if axis not in self.listed]

    @property
    def parts(self) -> Dim:
        """Parts of long lists at most."""
        return self.count.ceildiv(LONG)

    @property
    def held(self) -> Attribute:
        """The type in which updates of a part are combined."""
        scatter = self.scatters.scatter
        kind = accumulation(REDUCTIONS[scatter.fn.data], scatter.result.type.element_type)
        return without_sign(kind)

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
        found[number] = emit.value(arith.AddiOp(found[number], frame.size(self.tiles + 1)))
        return [*found, emit.index(which)]

    def of_all(self, emit: Emit, batch: Sequence[SSAValue], which: int) -> list[SSAValue]:
        """The coordinates of what is counted of all lists of a point of the batch."""
        points = dict(zip(self.lists.batch, batch, strict=True))
        return [*(points.get(axis) or emit.index(0) for axis in self.listed), emit.index(which)]

    def longest(self, emit: Emit, where: Mapping[str, SSAValue]) -> list[SSAValue]:
        """The coordinates of how long the longest list is of the tile of a list."""
        found: list[SSAValue] = []
        for axis in self.listed:
            wide = {self.row: self.rows, self.column: self.columns}.get(axis)
            at = where[axis.label]
            before = 1 if axis is self.row else 0
            place = AffineExpr.dimension(0) // (wide or 1) + before
            found.append(at if wide is None else emit.apply(place, [at]))
        return [*found, emit.index(HEAD)]

    def build(self, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]) -> list[gpu.KernelOp]:
        """The kernels of which a thread has an update."""
        made: list[gpu.KernelOp] = []
        for name, make in zip(self.names, self.makes, strict=False):
            making = Making(self, spaces)
            make(making)
            made.append(making.frame.finish(self.plan, bindings, ahead=(name, THREADS)))
            if make is Making.order:
                made[-1].blocks_per_sm = index_attr(ORDERING)
        return made


MOST_KEY = (1 << 63) - 1
"""The key of what is not sorted."""


def parts_of(emit: Emit, length: SSAValue) -> SSAValue:
    """How many parts a long list has, an i32."""
    more = emit.value(arith.AddiOp(length, emit.int32(PART - 1)))
    return emit.value(arith.DivUIOp(more, emit.int32(PART)))


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
        point = self.point(i32)
        if len(self.scatters.over) == 1:
            point.axes = {**point.axes, self.maker.label: self.along}
        else:
            point.axes = {**point.axes, **self.maker.at(point, point.index(self.along))}
        here = point.emit.compare("slt", point.index(self.along), self.size)
        where, here = self.where(point, here)
        found = then(point, where, here)
        targets = {} if target is None or found is None else {target: (found, self.each)}
        self.map(self.emit, point, self.space_of(self.emit, THREADS, i32, "update"), targets)

    def point(self, element: Attribute, *more: SSAValue) -> Point:
        """A point of the block's updates, with ``more`` origins."""
        axes = {axis.label: AffineExpr.constant(0) for axis in self.scatters.axes}
        axes |= {label: self.symbols[label] for label in self.symbols if label in axes}
        origin = [*self.at.values(), *more]
        return Point(self.frame, Block(arg_types=[element]), {}, axes, 2, origin)

    def space_of(self, emit: Emit, columns: int, element: Attribute, hint: str) -> SSAValue:
        """A fragment of so many columns, neighbours of which neighbouring threads have."""
        layout, _ = row_layout(1, columns, 1, element_bytes(element), THREADS)
        return emit.value(tile.FragmentOp(FragmentType.of([1, columns], element, layout)), hint)

    def map(
        self,
        emit: Emit,
        point: Point,
        space: SSAValue,
        targets: Mapping[SSAValue, tuple[SSAValue, tuple[AffineExpr, ...]]],
    ) -> None:
        """The map of a point over ``space``; of each target what goes there, and where."""
        values = [value for value, _ in targets.values()]
        point.block.add_ops([*point.emit.ops, tile.YieldOp(values)])
        maps = [*point.input_maps, *(point.map(place) for _, place in targets.values())]
        body = Region(point.block)
        new = tile.MapOp(space, point.origin, point.inputs, list(targets), maps, body)
        emit.op(located(new, self.scatters.scatter))

    def where(self, point: Point, here: SSAValue) -> tuple[dict[str, SSAValue], SSAValue]:
        """Where on the axes of lists the update of a point falls, and whether it does, of one that
        is ``here``."""
        emit = point.emit
        where = {axis.label: self.at[axis.label] for axis in self.lists.batch}
        for one in self.lists.placed:
            index, first = point.wide(one.index), point.wide(one.place)
            at = integers.binary(emit, "sub", index, first, i64)
            size = point.dim(one.axis.size, i64)
            here = emit.both(here, emit.compare("ult", at, size))
            where[one.axis.label] = emit.value(arith.IndexCastOp(at, INDEX))
        return where, here

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
        """Each update in front of a list, linked to the one that was there, counted from 1.

        The one by which a list is long says so, and that it has no run yet.
        """
        counts, links, firsts = (self.space(n) for n in range(3))

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> SSAValue:
            emit = point.emit
            head, length = (self.counted(point, where, which) for which in (HEAD, LENGTH))
            before = emit.value(ExchangeGlobalOp(self.number(point), counts, head, here), "before")
            one = emit.int32(1)
            others = emit.value(ExchangeGlobalOp(one, counts, length, here, add=True), "others")
            longer = emit.both(here, emit.compare("eq", others, emit.int32(LONG)))
            found = self.maker.of_all(emit, self.batch, ANY)
            emit.op(AtomicGlobalOp("max", one, counts, found, longer))
            emit.op(StoreGlobalOp(emit.int32(0), firsts, self.runs(point, where), longer))
            return before

        self.updates(links, then)

    def counted(self, point: Point, where: Mapping[str, SSAValue], which: int) -> list[SSAValue]:
        """The coordinates of what is counted of a list."""
        return self.maker.counted(point.emit, self.frame, where, which)

    def runs(self, point: Point, where: Mapping[str, SSAValue]) -> list[SSAValue]:
        """The coordinates of the run of a long list that was linked last, from 1: in ``firsts``,
        as of a long list nothing else stands there."""
        return [*(where[axis.label] for axis in self.maker.listed), point.emit.index(0)]

    def in_batch(self, emit: Emit, place: SSAValue, *more: SSAValue) -> list[SSAValue]:
        """The coordinates of what an i32 says, in a workspace of all of a batch."""
        return [*self.batch, emit.value(arith.IndexCastOp(place, INDEX)), *more]

    def order(self) -> None:
        """Each update of a list that is not long where its rank says; what is long, sorted."""
        counts, links, firsts, rest, groups, following, runs = (self.space(n) for n in range(7))

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            emit, own = point.emit, self.place(point)
            at = [where[axis.label] for axis in self.maker.listed]
            head, length = (
                emit.value(LoadGlobalOp(counts, self.counted(point, where, which), i32, here))
                for which in (HEAD, LENGTH)
            )
            here = emit.both(here, emit.compare("sle", length, emit.int32(LONG)))
            length = emit.value(arith.SelectOp(here, length, emit.int32(0)))
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
            column = emit.value(arith.IndexCastOp(inside, INDEX))
            emit.op(StoreGlobalOp(own, groups, self.in_batch(emit, owner, column), late))
            opens = emit.both(late, emit.compare("eq", inside, none))
            begins = emit.both(here, emit.compare("eq", further, none))
            emit.op(StoreGlobalOp(own, rest, at, begins))
            again = emit.both(opens, emit.compare("sgt", further, none))
            emit.op(StoreGlobalOp(own, following, self.in_batch(emit, before[-1]), again))

        self.updates(None, then)
        emit = self.emit
        found = self.maker.of_all(emit, self.batch, ANY)
        some = emit.value(LoadGlobalOp(counts, found, i32))
        first = emit.apply(AffineExpr.dimension(0) % CHUNK, [self.at[self.maker.label]])
        begins = emit.compare("eq", first, emit.index(0))
        sorts = emit.both(begins, emit.compare("sgt", some, emit.int32(0)))
        emit.when(sorts, lambda inner: self.sort(inner, counts, firsts, rest, runs))

    def sort(
        self, emit: Emit, counts: SSAValue, firsts: SSAValue, rest: SSAValue, runs: SSAValue
    ) -> None:
        """Sort those updates of a chunk by their lists that are of long ones, and link the runs.

        Who links the first run of a list finds room for its parts, one after another.
        """
        pool = emit.value(SharedTileOp(SharedType.of([1, 2 * CHUNK + 1], i64, 0)), "pool")
        number = emit.value(SharedTileOp(SharedType.of([1, 1], i32, 0)), "number")
        emit.op(tile.KeepNoneOp(pool, number))
        keys = self.space_of(emit, CHUNK, i64, "keys")
        self.keys(emit, keys, counts)
        emit.op(tile.KeepLeastOp(keys, pool, number, CHUNK))
        emit.op(tile.KeptOp(pool, number, CHUNK))

        def part(inner: Emit, start: SSAValue) -> None:
            point = self.point(i32, start)
            self.link(point, pool, counts, firsts, rest, runs)
            self.map(inner, point, self.space_of(inner, THREADS, i32, "sorted"), {})

        emit.loop(CHUNK, part, step=THREADS, hint="start")

    def keys(self, emit: Emit, keys: SSAValue, counts: SSAValue) -> None:
        """Of each update of a chunk its list, above its place, where the list is long; else the
        largest number."""
        point = self.point(i64)
        point.block.args[0].name_hint = "key"
        one, along = point.emit, point.index(self.along)
        if len(self.scatters.over) == 1:
            point.axes = {**point.axes, self.maker.label: self.along}
        else:
            point.axes = {**point.axes, **self.maker.at(point, along)}
        where, here = self.where(point, one.compare("slt", along, self.size))
        length = one.value(LoadGlobalOp(counts, self.counted(point, where, LENGTH), i32, here))
        here = one.both(here, one.compare("sgt", length, one.int32(LONG)))
        which = one.index(0)
        for placed in self.lists.placed:
            size = self.frame.size(placed.axis.size)
            which = one.value(arith.MuliOp(which, size))
            which = one.value(arith.AddiOp(which, where[placed.axis.label]))
        bits = integers.number(one, PLACE_BITS, i64)
        above = one.value(arith.ShLIOp(integers.from_index(one, which, i64), bits))
        key = one.value(arith.OrIOp(above, integers.from_index(one, along, i64)))
        most = integers.number(one, MOST_KEY, i64)
        found = one.value(arith.SelectOp(here, key, most))
        self.map(emit, point, keys, {keys: (found, (ROW, COLUMN))})

    def link(
        self,
        point: Point,
        pool: SSAValue,
        counts: SSAValue,
        firsts: SSAValue,
        rest: SSAValue,
        runs: SSAValue,
    ) -> None:
        """What is known of a place in a sorted chunk, and the link of a run that begins there."""
        emit, zero = point.emit, self.frame.emit.index(0)
        own = point.index(AffineExpr.symbol(len(point.origin) - 1) + COLUMN)

        def at(place: SSAValue) -> SSAValue:
            address = emit.value(tile.ElementAddressOp(pool, zero, zero, place))
            return emit.value(LoadSharedOp(address, i64))

        def below(least: SSAValue) -> SSAValue:
            """How many keys are below one."""
            found: SSAValue = emit.index(0)
            for step in (*(CHUNK >> n for n in range(1, CHUNK.bit_length())), 1):
                before = emit.apply(AffineExpr.dimension(0) + (step - 1), [found])
                lower = emit.compare("slt", at(before), least)
                after = emit.apply(AffineExpr.dimension(0) + step, [found])
                found = emit.value(arith.SelectOp(lower, after, found))
            return found

        key = at(own)
        here = emit.compare("ne", key, integers.number(emit, MOST_KEY, i64))
        bits = integers.number(emit, PLACE_BITS, i64)
        which = emit.value(arith.ShRUIOp(key, bits))
        least = emit.value(arith.ShLIOp(which, bits))
        most = emit.value(arith.OrIOp(least, integers.number(emit, (1 << PLACE_BITS) - 1, i64)))
        first, end = below(least), below(most)
        chunk = self.at[self.maker.label]
        place, start = (
            emit.value(arith.IndexCastOp(emit.value(arith.AddiOp(chunk, value)), i32))
            for value in (own, first)
        )
        run = emit.value(arith.IndexCastOp(emit.value(arith.SubiOp(end, first)), i32))
        where = self.of_list(emit, emit.value(arith.IndexCastOp(which, INDEX)))
        begins = emit.both(here, emit.compare("eq", own, first))
        number = integers.binary(emit, "add", place, emit.int32(1), i32)
        before = emit.value(ExchangeGlobalOp(number, firsts, self.runs(point, where), begins))
        none = integers.number(emit, -1, i32)
        known = {
            ID: emit.value(arith.TruncIOp(key, i32)),
            FIRST_OF_RUN: emit.value(arith.SelectOp(here, start, none)),
            RUN: run,
            BEFORE: before,
        }
        inside = emit.compare("slt", emit.value(arith.IndexCastOp(place, INDEX)), self.size)
        for which_one, value in known.items():
            there = self.in_batch(emit, place, emit.index(which_one))
            emit.op(StoreGlobalOp(value, runs, there, inside))
        opens = emit.both(begins, emit.compare("eq", before, emit.int32(0)))
        at_list = [where[axis.label] for axis in self.maker.listed]
        found = self.maker.counted(emit, self.frame, where, LENGTH)
        length = emit.value(LoadGlobalOp(counts, found, i32, opens))
        parts = parts_of(emit, length)
        parts_there = self.maker.of_all(emit, self.batch, PARTS)
        room = emit.value(ExchangeGlobalOp(parts, counts, parts_there, opens, add=True), "room")
        emit.op(StoreGlobalOp(room, rest, at_list, opens))
        longest = self.maker.longest(emit, where)
        emit.op(AtomicGlobalOp("max", length, counts, longest, opens))

    def of_list(self, emit: Emit, which: SSAValue) -> dict[str, SSAValue]:
        """Where the list of a number is on the axes of lists."""
        where = {axis.label: self.at[axis.label] for axis in self.lists.batch}
        for placed in reversed(self.lists.placed[1:]):
            size = self.frame.size(placed.axis.size)
            where[placed.axis.label] = emit.value(arith.RemUIOp(which, size))
            which = emit.value(arith.DivUIOp(which, size))
        return {**where, self.lists.placed[0].axis.label: which}

    def fill(self) -> None:
        """Each update of a long list where its rank says, in a part."""
        counts, firsts, rest, runs, members, sizes = (self.space(n) for n in (0, 2, 3, 6, 7, 8))
        emit = self.emit
        found = self.maker.of_all(emit, self.batch, PARTS)
        some = emit.value(LoadGlobalOp(counts, found, i32))

        def fill(inner: Emit) -> None:
            point = self.point(i32)
            then, own = point.emit, self.place(point)
            here = then.compare("slt", point.index(self.along), self.size)

            def known(place: SSAValue, which: int, where: SSAValue) -> SSAValue:
                at = self.in_batch(then, place, then.index(which))
                return then.value(LoadGlobalOp(runs, at, i32, where))

            first = known(own, FIRST_OF_RUN, here)
            here = then.both(here, then.compare("sge", first, then.int32(0)))
            update = known(own, ID, here)
            point.where = here
            place = then.value(arith.IndexCastOp(update, INDEX))
            point.axes = {**point.axes, **self.maker.at(point, place)}
            where, here = self.where(point, here)
            at = [where[axis.label] for axis in self.maker.listed]
            head = then.value(LoadGlobalOp(firsts, self.runs(point, where), i32, here))
            there = self.counted(point, where, LENGTH)
            length = then.value(LoadGlobalOp(counts, there, i32, here))
            room = then.value(LoadGlobalOp(rest, at, i32, here))
            before = self.before(then, head, first, runs)
            rank = integers.binary(then, "sub", own, first, i32)
            rank = integers.binary(then, "add", rank, before, i32)
            size = then.int32(PART)
            part = then.value(arith.AddiOp(room, then.value(arith.DivUIOp(rank, size))))
            inside = then.value(arith.RemUIOp(rank, size))
            column = then.value(arith.IndexCastOp(inside, INDEX))
            then.op(StoreGlobalOp(update, members, self.in_batch(then, part, column), here))
            begins = then.both(here, then.compare("eq", inside, then.int32(0)))
            left = integers.binary(then, "sub", length, rank, i32)
            left = then.value(arith.MinSIOp(left, size))
            then.op(StoreGlobalOp(left, sizes, self.in_batch(then, part), begins))
            self.map(inner, point, self.space_of(inner, THREADS, i32, "place"), {})

        emit.when(emit.compare("sgt", some, emit.int32(0)), fill)

    def before(self, emit: Emit, head: SSAValue, first: SSAValue, runs: SSAValue) -> SSAValue:
        """How many updates are in the runs of a list that are before the one that begins at
        ``first``; ``head`` is the run that was linked last."""
        body = Block(arg_types=[INDEX, i32, i32])
        _, number, total = body.args
        number.name_hint, total.name_hint = "number", "total"
        inner, none = Emit(), emit.int32(0)
        more = inner.compare("sgt", number, none)
        other = integers.binary(inner, "sub", number, emit.int32(1), i32)
        run, after = (
            inner.value(
                LoadGlobalOp(runs, self.in_batch(inner, other, inner.index(which)), i32, more)
            )
            for which in (RUN, BEFORE)
        )
        lower = inner.compare("slt", other, first)
        own = inner.value(arith.SelectOp(lower, run, none))
        total = inner.value(arith.AddiOp(total, own))
        body.add_ops([*inner.ops, scf.YieldOp(after, total)])
        chunks = self.frame.size(self.maker.count.ceildiv(CHUNK))
        loop = scf.ForOp(emit.index(0), chunks, emit.index(1), [head, none], body)
        emit.op(loop)
        return loop.results[1]

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
