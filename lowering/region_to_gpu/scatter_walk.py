"""``region-to-gpu``: how the tiles of a scatter go along lists of updates (S9, T3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import LoadGlobalOp
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
)
from polyc.lowering.region_to_gpu import integers, scatter_lists
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.point import (
    COLUMN,
    ROW,
    Point,
)
from polyc.lowering.region_to_gpu.scatter_lists import (
    FIRST,
    GROUP,
    ROOM,
    ListMaker,
    parts_of,
)
from polyc.lowering.region_to_gpu.scatter_parts import (
    Join,
    PartJoin,
)
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit

PARTS = 2
"""Parts of a long list that are on their way at once: a tile has no registers for more."""


class Walk:
    """Goes along the lists of all rows of a tile, or of all its elements, at once.

    Fragments hold of each list how many updates are left, the updates of the group at hand, and the
    one that owns the next group.
    """

    def __init__(
        self,
        frame: Frame,
        maker: ListMaker,
        lists: Sequence[SSAValue],
        held: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        write: Callable[[Emit, Point, SSAValue], None],
    ) -> None:
        """``lists`` are the workspaces that ``maker`` leaves, and ``held`` is the tile, which is at
        ``origin``; ``write`` emits the map that combines an update of a point into it."""
        self.frame, self.maker, self.held, self.write = frame, maker, held, write
        self.places, self.origin = places, origin
        self.op = maker.scatters.scatter
        self.element = self.op.result.type.element_type
        counts, firsts, rest, groups, following, partial = lists
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
        self.left, self.owner = (
            frame.emit.value(tile.FragmentOp(self.kind), hint) for hint in ("left", "owner")
        )
        self.early = [
            frame.emit.value(tile.FragmentOp(self.kind), f"early{n}") for n in range(FIRST)
        ]

    def all(self, emit: Emit, at: Mapping[str, SSAValue]) -> None:
        """Combine what the lists of the tile have, where it is ``at``: updates of short ones, the
        first few and then groups, and parts of long ones."""
        longest = emit.value(
            LoadGlobalOp(self.counts, self.maker.longest(emit, at), i32), "longest"
        )
        most = emit.value(arith.MinSIOp(longest, emit.int32(scatter_lists.LONG)))
        most = emit.value(arith.IndexCastOp(most, INDEX), "most")
        self.begin(emit)
        self.bring_first(emit)
        for number, place in enumerate(self.early):
            self.first(emit, number, place)

        def group(outer: Emit, _: SSAValue) -> None:
            for number, place in enumerate(self.early):
                self.first(outer, number, place)
                self.look_ahead(outer, number, place)
            self.go_on(outer)

        def further(inner: Emit) -> None:
            self.behind_first(inner)
            inner.loop(most, group, step=GROUP, hint="group", start=FIRST)

        emit.when(emit.compare("sgt", most, emit.index(FIRST)), further)

        def parts(inner: Emit) -> None:
            self.behind_lists(inner)
            count = inner.value(arith.IndexCastOp(parts_of(inner, longest), INDEX), "parts")

            def some(outer: Emit, first: SSAValue) -> None:
                def one(last: Emit, more: SSAValue) -> None:
                    self.part(last, last.value(arith.AddiOp(first, more), "part"))

                outer.loop(PARTS, one, unroll=True)

            inner.loop(count, some, step=PARTS, hint="first")

        emit.when(emit.compare("sgt", longest, emit.int32(scatter_lists.LONG)), parts)

    def point(self) -> Point:
        """A point of the lists."""
        block = Block(arg_types=[i32])
        return Point(self.frame, block, {}, self.places, len(self.own), self.origin)

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
        emit.op(located(made, self.op))

    def length(self, point: Point) -> SSAValue:
        """How many updates a list has; none beyond the end of the rows."""
        at = self.maker.counted(point.emit, point.frame, self.at(point))
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
        at = [*self.at(point).values(), then.index(ROOM)]
        room = then.value(LoadGlobalOp(self.firsts, at, i32, long))
        left = then.value(arith.SelectOp(long, parts_of(then, length), then.int32(0)))
        self.set(emit, point, {self.owner: room, self.left: left})

    def part(self, emit: Emit, number: SSAValue) -> None:
        """Combine what one of the parts of each long list comes to, where it has so many."""
        point, here = self.tile(number)
        owner, then = point.input(self.owner, self.own), point.emit
        part = then.value(arith.AddiOp(owner, then.value(arith.IndexCastOp(number, i32))))
        places = [*self.batch(point), then.value(arith.IndexCastOp(part, INDEX))]
        places += [point.index(self.places[axis.label]) for axis in self.maker.unlisted]
        ends = (self.frame.size(axis.size) for axis in self.maker.unlisted)
        for place, end in zip(places[-len(self.maker.unlisted) :], ends, strict=False):
            here = then.both(here, then.compare("slt", place, end))
        scalar = then.value(LoadGlobalOp(self.partial, places, self.maker.held, here), "part")
        fn = self.op.fn.data
        update = PartJoin.of(fn, self.element).given(point, scalar)
        found = Join(fn, self.element).joined(point, point.block.args[0], update, here)
        point.block.add_ops([*then.ops, tile.YieldOp([found])])
        maps = [*point.input_maps, point.map((ROW, COLUMN))]
        body = Region(point.block)
        made = tile.MapOp(self.held, point.origin, point.inputs, [self.held], maps, body)
        emit.op(located(made, self.op))

    def tile(self, number: SSAValue) -> tuple[Point, SSAValue]:
        """A point of the tile's elements, and whether its list has one more at hand."""
        block = Block(arg_types=[without_sign(self.element)])
        block.args[0].name_hint = self.op.fn.data
        point = Point(self.frame, block, {}, dict(self.places), 2, self.origin)
        left, then = point.input(self.left, self.own), point.emit
        return point, then.compare("sgt", left, then.value(arith.IndexCastOp(number, i32)))

    def behind_first(self, emit: Emit) -> None:
        """Go on to the first group, and to which update owns the next."""
        point = self.point()
        left, then = point.block.args[0], point.emit
        many = then.int32(FIRST)
        more = then.compare("sgt", left, many)
        owner = then.value(LoadGlobalOp(self.rest, list(self.at(point).values()), i32, more))
        after = integers.binary(then, "sub", left, many, i32)
        new = {one: self.member(point, owner, after, n) for n, one in enumerate(self.early)}
        new |= {self.owner: self.next(point, owner, after), self.left: after}
        self.set(emit, point, new)

    def member(self, point: Point, owner: SSAValue, left: SSAValue, number: int) -> SSAValue:
        """An update of a group, where so many are left."""
        then = point.emit
        place = then.value(arith.IndexCastOp(owner, INDEX))
        here = then.compare("sgt", left, then.int32(number))
        at = [*self.batch(point), place, then.index(number)]
        return then.value(LoadGlobalOp(self.groups, at, i32, here))

    def next(self, point: Point, owner: SSAValue, left: SSAValue) -> SSAValue:
        """Which update owns the group after one, where there is one."""
        then = point.emit
        more = then.compare("sgt", left, then.int32(GROUP))
        at = [*self.batch(point), then.value(arith.IndexCastOp(owner, INDEX))]
        return then.value(LoadGlobalOp(self.following, at, i32, more))

    def after(self, point: Point) -> SSAValue:
        """How many updates are left behind the group at hand."""
        return integers.binary(point.emit, "sub", point.block.args[0], point.emit.int32(GROUP), i32)

    def look_ahead(self, emit: Emit, number: int, place: SSAValue) -> None:
        """An update of the next group in place of one that was taken: it comes while others are."""
        point = self.point()
        owner = point.input(self.owner, self.own)
        self.set(emit, point, {place: self.member(point, owner, self.after(point), number)})

    def go_on(self, emit: Emit) -> None:
        """The next group is the one at hand."""
        point = self.point()
        owner, after = point.input(self.owner, self.own), self.after(point)
        self.set(emit, point, {self.owner: self.next(point, owner, after), self.left: after})

    def bring_first(self, emit: Emit) -> None:
        """The first updates of each list, in their order: where there are no others, they stand as
        they came, and are sorted by a network."""
        point = self.point()
        left, then = point.block.args[0], point.emit
        at, most = list(self.at(point).values()), then.int32((1 << 31) - 1)
        more = then.compare("sgt", left, then.int32(FIRST))
        begin = then.value(arith.SelectOp(more, then.index(FIRST), then.index(0)))
        found: list[SSAValue] = []
        for number in range(FIRST):
            here = then.compare("sgt", left, then.int32(number))
            where = [*at, then.value(arith.AddiOp(begin, then.index(number)))]
            place = then.value(LoadGlobalOp(self.firsts, where, i32, here))
            found.append(then.value(arith.SelectOp(here, place, most)))
        for last in range(FIRST - 1, 0, -1):
            for one in range(last):
                pair = found[one], found[one + 1]
                found[one] = then.value(arith.MinSIOp(*pair))
                found[one + 1] = then.value(arith.MaxSIOp(*pair))
        self.set(emit, point, dict(zip(self.early, found, strict=True)))

    def first(self, emit: Emit, number: int, place: SSAValue) -> None:
        """Combine one of the first updates of each list, where it has so many."""
        point, here = self.tile(emit.index(number))
        self._take(emit, point, here, point.input(place, self.own))

    def _take(self, emit: Emit, point: Point, here: SSAValue, place: SSAValue) -> None:
        """Combine the update at a place in their order."""
        at = self.maker.at(point, point.emit.value(arith.IndexCastOp(place, INDEX)))
        point.axes, point.where = {**point.axes, **at}, here
        self.write(emit, point, here)
