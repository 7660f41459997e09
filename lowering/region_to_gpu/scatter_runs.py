"""``region-to-gpu``: long lists of a scatter's updates, sorted by chunks (S9, T3)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    ExchangeGlobalOp,
    LoadGlobalOp,
    LoadSharedOp,
    SharedTileOp,
    StoreGlobalOp,
)
from polyc.dialects.gpu.types import SharedType, index_attr
from polyc.lowering.region_to_gpu import integers, scatter_lists
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point
from polyc.lowering.region_to_gpu.scatter_links import Lists
from polyc.lowering.region_to_gpu.scatter_lists import (
    BEFORE,
    BEGIN,
    FIRST_MEMBER,
    FIRST_OF_RUN,
    FIRST_PART,
    HALF,
    ID,
    LIST,
    MANY,
    MEMBERS,
    MEMBERS_OF,
    PARTS,
    PLACE_BITS,
    ROOM,
    RUN,
    RUNS,
    SIZE,
    ListMaker,
    parts_of,
)
from polyc.rewriting.emit import INDEX, Emit

MOST_KEY = (1 << 63) - 1
"""The key of what is not sorted."""


class LongLists(Lists):
    """Builds one kernel, which knows lists that are long too."""

    def order(self) -> None:
        """Each update of a list that is not long where its rank says; what is long, sorted: by
        blocks of their own, as either waits for memory again and again."""
        counts, emit = self.space(0), self.emit
        sorts = emit.compare("eq", self.at[HALF], emit.index(0))

        def chunk(outer: Emit) -> None:
            found = self.maker.of_all(outer, self.batch, MANY)
            some = outer.value(LoadGlobalOp(counts, found, i32))
            some = outer.compare("sgt", some, outer.int32(0))
            outer.when(some, lambda inner: self.sort(inner, counts))

        def walks(inner: Emit) -> None:
            self.emit = inner
            super(LongLists, self).order()
            self.emit = emit

        emit.when(sorts, chunk)
        emit.when(emit.compare("ne", self.at[HALF], emit.index(0)), walks)

    def sort(self, emit: Emit, counts: SSAValue) -> None:
        """Sort those updates of a chunk by their lists that are of long ones, and link the runs.

        Of a long list ``rest`` has its number, and ``heads`` by that the heads of the list's chains
        of runs, ``RUN_CHAINS`` of them that chunks take in turn, so that who walks along them waits
        for several at once: the run that was linked last, from 1.  Behind them it has how many runs
        there are.  Who links the first one finds room for the list's parts and its updates, one
        after another, and leaves there where that begins, and how many updates there are.
        """
        # Room for all of a chunk beside the one that is kept at least; the last place is a bound.
        room = SharedType.of([1, scatter_lists.CHUNK + 2], i64, 0)
        pool = emit.value(SharedTileOp(room), "pool")
        number = emit.value(SharedTileOp(SharedType.of([1, 1], i32, 0)), "number")
        emit.op(tile.KeepNoneOp(pool, number))
        keys = self.space_of(emit, scatter_lists.CHUNK, i64, "keys")
        self.keys(emit, keys, counts)
        emit.op(tile.KeepLeastOp(keys, pool, number, 1))
        emit.op(tile.KeptOp(pool, number, scatter_lists.CHUNK))

        point = self.point(i32)
        self.link(point, pool, counts)
        self.map(emit, point, self.space_of(emit, self.threads, i32, "sorted"), {})

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
        length = one.value(LoadGlobalOp(counts, self.counted(point, where), i32, here))
        here = one.both(here, one.compare("sgt", length, one.int32(scatter_lists.LONG)))
        which = self.which(one, where)
        bits = integers.number(one, PLACE_BITS, i64)
        above = one.value(arith.ShLIOp(integers.from_index(one, which, i64), bits))
        key = one.value(arith.OrIOp(above, integers.from_index(one, along, i64)))
        most = integers.number(one, MOST_KEY, i64)
        found = one.value(arith.SelectOp(here, key, most))
        self.map(emit, point, keys, {keys: (found, (ROW, COLUMN))})

    def link(self, point: Point, pool: SSAValue, counts: SSAValue) -> None:
        """What is known of a place in a sorted chunk, and the link of a run that begins there."""
        firsts, rest, runs, heads = (self.space(n) for n in (2, 3, 6, 10))
        emit, zero, chunk = point.emit, self.frame.emit.index(0), scatter_lists.CHUNK
        halves = [chunk >> n for n in range(1, chunk.bit_length())]
        own = point.index(COLUMN)

        def at(place: SSAValue) -> SSAValue:
            address = emit.value(tile.ElementAddressOp(pool, zero, zero, place))
            return emit.value(LoadSharedOp(address, i64))

        def below(least: SSAValue) -> SSAValue:
            """How many keys are below one."""
            found: SSAValue = emit.index(0)
            for step in (*halves, 1):
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
        begin = self.at[self.maker.label]
        place, start = (
            emit.value(arith.IndexCastOp(emit.value(arith.AddiOp(begin, value)), i32))
            for value in (own, first)
        )
        run = emit.value(arith.IndexCastOp(emit.value(arith.SubiOp(end, first)), i32))
        where = self.of_list(emit, emit.value(arith.IndexCastOp(which, INDEX)))
        begins = emit.both(here, emit.compare("eq", own, first))
        number = integers.binary(emit, "add", place, emit.int32(1), i32)
        at_list = [where[axis.label] for axis in self.maker.listed]
        number_of_list = emit.value(LoadGlobalOp(rest, at_list, i32, here), "list")
        found = self.maker.counted(emit, self.frame, where)
        length = emit.value(LoadGlobalOp(counts, found, i32, begins))
        chain = AffineExpr.dimension(0) // scatter_lists.CHUNK % scatter_lists.RUN_CHAINS
        head = self.in_batch(emit, number_of_list, emit.apply(chain, [begin]))
        before = emit.value(ExchangeGlobalOp(number, heads, head, begins))

        def of_list(which: int) -> list[SSAValue]:
            behind = emit.index(scatter_lists.RUN_CHAINS + which)
            return self.in_batch(emit, number_of_list, behind)

        one = emit.int32(1)
        others = emit.value(ExchangeGlobalOp(one, heads, of_list(RUNS), begins, add=True))
        none = integers.number(emit, -1, i32)
        known = {
            ID: emit.value(arith.TruncIOp(key, i32)),
            FIRST_OF_RUN: emit.value(arith.SelectOp(here, start, none)),
            RUN: run,
            BEFORE: before,
            LIST: number_of_list,
        }
        inside = emit.compare("slt", emit.value(arith.IndexCastOp(place, INDEX)), self.size)
        for which_one, value in known.items():
            there = self.in_batch(emit, place, emit.index(which_one))
            emit.op(StoreGlobalOp(value, runs, there, inside))
        opens = emit.both(begins, emit.compare("eq", others, emit.int32(0)))
        parts = parts_of(emit, length)
        parts_there = self.maker.of_all(emit, self.batch, PARTS)
        room = emit.value(ExchangeGlobalOp(parts, counts, parts_there, opens, add=True), "room")
        members = self.maker.of_all(emit, self.batch, MEMBERS)
        start = emit.value(ExchangeGlobalOp(length, counts, members, opens, add=True), "start")
        emit.op(StoreGlobalOp(room, firsts, [*at_list, emit.index(ROOM)], opens))
        known = {FIRST_PART: room, FIRST_MEMBER: start, MEMBERS_OF: length}
        for which_one, value in known.items():
            emit.op(StoreGlobalOp(value, heads, of_list(which_one), opens))
        longest = self.maker.longest(emit, where)
        emit.op(AtomicGlobalOp("max", length, counts, longest, opens))

    def fill(self) -> None:
        """Each update of a long list where its rank says, in a part."""
        counts, runs, members, sizes, chains = (self.space(n) for n in (0, 6, 7, 8, 10))
        emit = self.emit
        found = self.maker.of_all(emit, self.batch, PARTS)
        some = emit.value(LoadGlobalOp(counts, found, i32))

        def fill(inner: Emit) -> None:
            point = self.point(i32)
            then, own = point.emit, self.place(point)
            here = then.compare("slt", point.index(self.along), self.size)
            first, update, number = (
                then.value(LoadGlobalOp(runs, self.in_batch(then, own, then.index(n)), i32, here))
                for n in (FIRST_OF_RUN, ID, LIST)
            )
            here = then.both(here, then.compare("sge", first, then.int32(0)))

            def known(which: int) -> SSAValue:
                at = self.in_batch(then, number, then.index(which))
                return then.value(LoadGlobalOp(chains, at, i32, here))

            heads = [known(chain) for chain in range(scatter_lists.RUN_CHAINS)]
            room, start, length = (
                known(scatter_lists.RUN_CHAINS + which)
                for which in (FIRST_PART, FIRST_MEMBER, MEMBERS_OF)
            )
            before = self.before(then, heads, first, runs)
            rank = integers.binary(then, "sub", own, first, i32)
            rank = integers.binary(then, "add", rank, before, i32)
            size = scatter_lists.part_of(then, length)
            part = then.value(arith.AddiOp(room, then.value(arith.DivUIOp(rank, size))))
            inside = then.value(arith.RemUIOp(rank, size))
            member = then.value(arith.AddiOp(start, rank))
            then.op(StoreGlobalOp(update, members, self.in_batch(then, member), here))
            begins = then.both(here, then.compare("eq", inside, then.int32(0)))
            left = integers.binary(then, "sub", length, rank, i32)
            left = then.value(arith.MinSIOp(left, size))
            for which, value in ((SIZE, left), (BEGIN, member)):
                there = self.in_batch(then, part, then.index(which))
                then.op(StoreGlobalOp(value, sizes, there, begins))
            self.map(inner, point, self.space_of(inner, self.threads, i32, "place"), {})

        emit.when(emit.compare("sgt", some, emit.int32(0)), fill)

    def before(
        self, emit: Emit, heads: Sequence[SSAValue], first: SSAValue, runs: SSAValue
    ) -> SSAValue:
        """How many updates are in the runs of a list that are before the one that begins at
        ``first``; ``heads`` are the runs that were linked last, of each chain."""
        body = Block(arg_types=[INDEX, *[i32] * len(heads), i32])
        _, *numbers, total = body.args
        total.name_hint = "total"
        inner, none = Emit(), emit.int32(0)
        following: list[SSAValue] = []
        for number in numbers:
            number.name_hint = "number"
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
            following.append(after)
        body.add_ops([*inner.ops, scf.YieldOp(*following, total)])
        chunks = self.maker.count.ceildiv(scatter_lists.CHUNK * len(heads))
        end = self.frame.size(chunks)
        loop = scf.ForOp(emit.index(0), end, emit.index(1), [*heads, none], body)
        emit.op(loop)
        return loop.results[-1]


def build_lists(
    maker: ListMaker, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
) -> list[gpu.KernelOp]:
    """The kernels of which a thread has an update."""
    makes = [LongLists.atomics if maker.way == "atomic" else LongLists.last]
    if maker.way == "listed":
        makes = [LongLists.links, LongLists.order, LongLists.fill]
    made: list[gpu.KernelOp] = []
    for name, make, grid in zip(maker.names, makes, maker.grids, strict=False):
        making = LongLists(maker, spaces, grid, maker.each)
        make(making)
        made.append(making.frame.finish(maker.plan, bindings, ahead=(name, making.threads)))
        if make is LongLists.order:
            made[-1].blocks_per_sm = index_attr(scatter_lists.ORDERING)
    return made
