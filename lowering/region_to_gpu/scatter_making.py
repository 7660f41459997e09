"""``region-to-gpu``: the kernels that make lists of a scatter's updates, a thread an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    ExchangeGlobalOp,
    LoadGlobalOp,
    StoreGlobalOp,
)
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentType,
    element_bytes,
)
from polyc.lowering.region_to_gpu import integers, scatter_lists
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.point import COLUMN, Point
from polyc.lowering.region_to_gpu.scatter_lists import (
    ANY,
    FIRST,
    GROUP,
    HEAD,
    LENGTH,
    ListMaker,
)
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit


class Making:
    """Builds one kernel: a thread has an update."""

    def __init__(self, maker: ListMaker, spaces: Sequence[BindAttr], grid: Grid) -> None:
        self.maker, self.scatters, self.lists = maker, maker.scatters, maker.lists
        self.frame = Frame(maker.scatters.kernel)
        self.emit = self.frame.emit
        self.spaces = list(zip(maker.spaces(), spaces, strict=True))
        self._given: dict[int, SSAValue] = {}
        sizes = [self.frame.size(axis.size) for axis in grid.axes]
        self.at: Coordinates = grid.coordinates(self.emit, sizes, maker.plan)
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
        if number not in self._given:
            space, binding = self.spaces[number]
            hint = space.name.rpartition("_")[2]
            self._given[number] = self.frame.space(space.kind, binding, hint)
        return self._given[number]

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
        self.map(
            self.emit,
            point,
            self.space_of(self.emit, scatter_lists.THREADS, i32, "update"),
            targets,
        )

    def point(self, element: Attribute, *more: SSAValue) -> Point:
        """A point of the block's updates, with ``more`` origins."""
        axes = {axis.label: AffineExpr.constant(0) for axis in self.scatters.axes}
        axes |= {label: self.symbols[label] for label in self.symbols if label in axes}
        origin = [*self.at.values(), *more]
        return Point(self.frame, Block(arg_types=[element]), {}, axes, 2, origin)

    def space_of(self, emit: Emit, columns: int, element: Attribute, hint: str) -> SSAValue:
        """A fragment of so many columns, neighbours of which neighbouring threads have."""
        layout, _ = row_layout(1, columns, 1, element_bytes(element), scatter_lists.THREADS)
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

    def atomics(self) -> None:
        """What all updates of each place make together; 0 where there is none."""
        scatter, found = self.scatters.scatter, self.space(0)
        key = self.maker.key
        function = self.scatters.key
        assert function is not None

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            at = [where[axis.label] for axis in self.maker.listed]
            number = key.of(point.emit, point.scalar(scatter.updates))
            point.emit.op(AtomicGlobalOp(function, number, found, at, here))

        self.updates(None, then)

    def links(self) -> None:
        """Each update in front of a list, linked to the one that was there, counted from 1.

        The first few to come stand where the place says, in any order.  The one by which a list is
        long says so, and keeps the heads of its runs: it has none yet.
        """
        counts, links, firsts, rest, groups, following = map(self.space, range(6))

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> SSAValue:
            emit = point.emit
            head, length = (self.counted(point, where, which) for which in (HEAD, LENGTH))
            before = emit.value(ExchangeGlobalOp(self.number(point), counts, head, here), "before")
            one = emit.int32(1)
            others = emit.value(ExchangeGlobalOp(one, counts, length, here, add=True), "others")
            longer = emit.both(here, emit.compare("eq", others, emit.int32(scatter_lists.LONG)))
            found = self.maker.of_all(emit, self.batch, ANY)
            emit.op(AtomicGlobalOp("max", one, counts, found, longer))
            at, own = [where[axis.label] for axis in self.maker.listed], self.place(point)
            none = emit.int32(0)
            emit.op(StoreGlobalOp(own, rest, at, longer))
            for chain in range(GROUP):
                head = self.in_batch(emit, own, emit.index(chain))
                emit.op(StoreGlobalOp(none, groups, head, longer))
            emit.op(StoreGlobalOp(none, following, self.in_batch(emit, own), longer))
            early = emit.both(here, emit.compare("slt", others, emit.int32(FIRST)))
            column = emit.value(arith.IndexCastOp(others, INDEX))
            emit.op(StoreGlobalOp(own, firsts, [*at, column], early))
            return before

        self.updates(links, then)

    def counted(self, point: Point, where: Mapping[str, SSAValue], which: int) -> list[SSAValue]:
        """The coordinates of what is counted of a list."""
        return self.maker.counted(point.emit, self.frame, where, which)

    def in_batch(self, emit: Emit, place: SSAValue, *more: SSAValue) -> list[SSAValue]:
        """The coordinates of what an i32 says, in a workspace of all of a batch."""
        return [*self.batch, emit.value(arith.IndexCastOp(place, INDEX)), *more]

    def order(self) -> None:
        """Each update of a list that is neither long nor of the first few alone where its rank
        says."""
        counts, links, firsts, rest, groups, following = map(self.space, range(6))

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            emit, own = point.emit, self.place(point)
            at = [where[axis.label] for axis in self.maker.listed]
            head, length = (
                emit.value(LoadGlobalOp(counts, self.counted(point, where, which), i32, here))
                for which in (HEAD, LENGTH)
            )
            here = emit.both(here, emit.compare("sgt", length, emit.int32(FIRST)))
            here = emit.both(here, emit.compare("sle", length, emit.int32(scatter_lists.LONG)))
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
