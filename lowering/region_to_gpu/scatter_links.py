"""``region-to-gpu``: the kernels that make short lists of a scatter's updates (S9, T3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, SSAValue

from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    ExchangeGlobalOp,
    LoadGlobalOp,
    StoreGlobalOp,
)
from polyc.lowering.region_to_gpu import integers, scatter_lists
from polyc.lowering.region_to_gpu.point import Point
from polyc.lowering.region_to_gpu.scatter_lists import (
    CHAINS,
    FIRST,
    GROUP,
    MANY,
)
from polyc.lowering.region_to_gpu.scatter_making import Making, Targets
from polyc.lowering.region_to_gpu.scatter_tables import Tally, Totals
from polyc.rewriting.emit import INDEX, Emit


class Lists(Making):
    """Builds one kernel."""

    def last(self) -> None:
        """The last update of each place, counted from 1; 0 where there is none."""
        last = self.space(0)

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            at = [where[axis.label] for axis in self.maker.listed]
            point.emit.op(AtomicGlobalOp("max", self.number(point), last, at, here))

        self.updates(then)

    def atomics(self) -> None:
        """What all updates of each place make together; 0 where there is none."""
        scatter, found = self.scatters.scatter, self.space(0)
        key = self.maker.key
        function = self.scatters.key
        assert function is not None
        if self.maker.pools:
            Totals(self, found, *self.maker.table)
            return

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            at = [where[axis.label] for axis in self.maker.listed]
            number = key.of(point.emit, point.scalar(scatter.updates))
            point.emit.op(AtomicGlobalOp(function, number, found, at, here))

        self.updates(then)

    def links(self) -> None:
        """A number for each update of a list, and further ones in front of one of its chains,
        linked to the one that was there.

        The first few to come stand where the place says.  The one by which a list is long numbers
        it, and says that it has no runs yet.
        """
        counts, links, firsts, rest = map(self.space, range(4))
        heads, chains = self.space(10), self.space(11)
        known = Tally(self, counts, self.maker.slots)

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> Targets:
            emit = point.emit
            others = known.number(point, where, here)
            longer = emit.both(here, emit.compare("eq", others, emit.int32(scatter_lists.LONG)))
            found = self.maker.of_all(emit, self.batch, MANY)
            number = ExchangeGlobalOp(emit.int32(1), counts, found, longer, add=True)
            number = emit.value(number, "number")
            at, own = [where[axis.label] for axis in self.maker.listed], self.place(point)
            none = emit.int32(0)
            emit.op(StoreGlobalOp(number, rest, at, longer))
            for chain in range(scatter_lists.RUN_CHAINS + 1):
                head = self.in_batch(emit, number, emit.index(chain))
                emit.op(StoreGlobalOp(none, heads, head, longer))
            further = integers.binary(emit, "sub", others, emit.int32(FIRST), i32)
            early = emit.both(here, emit.compare("slt", further, none))
            column = emit.value(arith.IndexCastOp(others, INDEX))
            emit.op(StoreGlobalOp(own, firsts, [*at, column], early))
            walked = emit.compare("ult", further, emit.int32(scatter_lists.LONG - FIRST))
            walked = emit.both(here, walked)
            chain = emit.value(arith.RemUIOp(further, emit.int32(CHAINS)))
            head = [*at, emit.value(arith.IndexCastOp(chain, INDEX))]
            before = ExchangeGlobalOp(own, chains, head, walked)
            return {links: (emit.value(before, "before"), self.each)}

        self.updates(then)

    def order(self) -> None:
        """Each update of a list that is neither long nor of the first few alone where its rank
        says."""
        counts, links, firsts, rest, groups, following = map(self.space, range(6))
        chains = self.space(11)

        def then(point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
            emit, own = point.emit, self.place(point)
            at = [where[axis.label] for axis in self.maker.listed]
            length = emit.value(LoadGlobalOp(counts, self.counted(point, where), i32, here))
            here = emit.both(here, emit.compare("sgt", length, emit.int32(FIRST)))
            here = emit.both(here, emit.compare("sle", length, emit.int32(scatter_lists.LONG)))
            early = [
                emit.value(LoadGlobalOp(firsts, [*at, emit.index(n)], i32, here))
                for n in range(FIRST)
            ]
            least = emit.int32(FIRST)
            further = emit.value(arith.SubiOp(emit.value(arith.MaxSIOp(length, least)), least))
            further = emit.value(arith.SelectOp(here, further, emit.int32(0)))
            heads: list[SSAValue] = []
            for chain in range(CHAINS):
                some = emit.compare("sgt", further, emit.int32(chain))
                head = LoadGlobalOp(chains, [*at, emit.index(chain)], i32, some)
                heads.append(emit.value(head))
            rank, before = self.walk(emit, own, early, heads, further, links)
            none, first = emit.int32(0), emit.int32(FIRST)
            alone = emit.both(here, emit.compare("eq", rank, none))
            longest = self.maker.longest(emit, where)
            emit.op(AtomicGlobalOp("max", length, counts, longest, alone))
            soon = emit.both(here, emit.compare("slt", rank, first))
            column = emit.value(arith.IndexCastOp(emit.value(arith.AddiOp(rank, first)), INDEX))
            emit.op(StoreGlobalOp(own, firsts, [*at, column], soon))
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

        self.updates(then)

    def walk(
        self,
        emit: Emit,
        own: SSAValue,
        early: Sequence[SSAValue],
        heads: Sequence[SSAValue],
        further: SSAValue,
        links: SSAValue,
    ) -> tuple[SSAValue, list[SSAValue]]:
        """The rank of an update in its list, and the last ones before it, the very last first.

        ``early`` are those that were there first, and ``further`` ones are linked in chains.
        """
        none, one = emit.int32(-1), emit.int32(1)

        def taken(
            inner: Emit, other: SSAValue, lower: SSAValue, rank: SSAValue, before: list[SSAValue]
        ) -> tuple[SSAValue, list[SSAValue]]:
            """The same with one more, which is before it where it is ``lower``."""
            more = integers.binary(inner, "add", rank, one, i32)
            coming, found = inner.value(arith.SelectOp(lower, other, none)), list[SSAValue]()
            for known in before:
                found.append(inner.value(arith.MaxSIOp(known, coming)))
                coming = inner.value(arith.MinSIOp(known, coming))
            return inner.value(arith.SelectOp(lower, more, rank)), found

        rank, before = emit.int32(0), [none] * GROUP
        for other in early:
            rank, before = taken(emit, other, emit.compare("slt", other, own), rank, before)
        start = [further, rank, *before, *heads]
        body = Block(arg_types=[INDEX, *[i32] * len(start)])
        _, left, rank, *args = body.args
        left.name_hint, rank.name_hint = "left", "rank"
        before, others = list[SSAValue](args[:GROUP]), args[GROUP:]
        inner = Emit()
        following: list[SSAValue] = []
        for chain, other in enumerate(others):
            other.name_hint = "other"
            # The first that was linked is linked to anything, and the last that is looked at.
            here, more = (
                inner.compare("sgt", left, inner.int32(n)) for n in (chain, chain + CHAINS)
            )
            at = inner.value(arith.IndexCastOp(other, INDEX))
            following.append(inner.value(LoadGlobalOp(links, [*self.batch, at], i32, more)))
            lower = inner.both(here, inner.compare("slt", other, own))
            rank, before = taken(inner, other, lower, rank, before)
        left = integers.binary(inner, "sub", left, inner.int32(CHAINS), i32)
        body.add_ops([*inner.ops, scf.YieldOp(left, rank, *before, *following)])
        steps = emit.value(arith.AddiOp(further, emit.int32(CHAINS - 1)))
        steps = emit.value(arith.DivUIOp(steps, emit.int32(CHAINS)))
        count = emit.value(arith.IndexCastOp(steps, INDEX))
        loop = scf.ForOp(emit.index(0), count, emit.index(1), start, body)
        emit.op(loop)
        rank, *before = loop.results[1 : 2 + GROUP]
        return rank, list(before)
