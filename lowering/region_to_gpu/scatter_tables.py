"""``region-to-gpu``: what a block makes of its updates before it asks for their places (S9, T3).

Many updates of one place, which all threads of the chip would wait for, are counted or combined in
shared memory first, so that a block asks for a place once.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    AtomicSharedOp,
    BarrierOp,
    ExchangeGlobalOp,
    FetchAddSharedOp,
    LoadSharedOp,
    SharedTileOp,
    StoreSharedOp,
)
from polyc.dialects.gpu.types import SharedType
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point
from polyc.lowering.region_to_gpu.scatter_making import Making, Targets
from polyc.rewriting.emit import INDEX


class Table:
    """A table in shared memory, of numbers of a block's lists.

    A list falls to a slot, by the last bits of its number.  Of several that do, the slot belongs to
    the last one of which the block has updates.  Where there are no more lists than slots, each
    has its own.
    """

    def __init__(self, making: Making, slots: int, own: bool, *names: str) -> None:
        """``own``: each list has a slot.  ``names`` are those of the tables beside the owners."""
        self.making, self.slots, self.own_slots = making, slots, own
        self.room = -(-max(slots, making.threads) // making.threads) * making.threads
        kind, emit = SharedType.of([1, self.room], i32, 0), making.emit
        names = names if own else ("owners", *names)
        self.tables = {name: emit.value(SharedTileOp(kind), name) for name in names}
        self.empty()
        emit.op(BarrierOp())
        if not own:
            making.updates(self.claim)
            emit.op(BarrierOp())

    def address(self, point: Point, name: str, place: SSAValue) -> SSAValue:
        """The address of a slot of a table."""
        zero = self.making.frame.emit.index(0)
        return point.emit.value(tile.ElementAddressOp(self.tables[name], zero, zero, place))

    def slot(self, point: Point, name: str, which: SSAValue) -> SSAValue:
        """The address of a list's slot."""
        place = which
        if not self.own_slots or self.slots < self.room:
            place = point.emit.apply(AffineExpr.dimension(0) % self.slots, [which])
        return self.address(point, name, place)

    def which(self, point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> SSAValue:
        """The number of an update's list among those of a point of the batch; 0 of one that falls
        to none."""
        emit = point.emit
        which = self.making.which(emit, where)
        return emit.value(arith.SelectOp(here, which, emit.index(0)))

    def empty(self) -> None:
        """Tables of nothing."""
        point = self.making.point(i32)
        none, place = point.emit.int32(0), point.index(COLUMN)
        for name in self.tables:
            point.emit.op(StoreSharedOp(none, self.address(point, name, place)))
        self.making.map(self.making.emit, point, self.every, {})

    @property
    def every(self) -> SSAValue:
        """A fragment of all slots."""
        return self.making.space_of(self.making.emit, self.room, i32, "slot")

    def name(self, point: Point, which: SSAValue) -> SSAValue:
        """The name of a list, an i32 from 1 on."""
        number = point.emit.value(arith.IndexCastOp(which, i32))
        return integers.binary(point.emit, "add", number, point.emit.int32(1), i32)

    def claim(self, point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
        """The last list of those of a slot has it."""
        emit, which = point.emit, self.which(point, where, here)
        name = emit.value(arith.SelectOp(here, self.name(point, which), emit.int32(0)))
        emit.op(AtomicSharedOp("max", name, self.slot(point, "owners", which)))

    def mine(self, point: Point, which: SSAValue, here: SSAValue) -> SSAValue:
        """Whether an update that is ``here`` is of a list that has its slot."""
        if self.own_slots:
            return here
        owner = point.emit.value(LoadSharedOp(self.slot(point, "owners", which), i32))
        return point.emit.both(here, point.emit.compare("eq", owner, self.name(point, which)))


class Tally(Table):
    """Counts the updates of a block's lists, of which each so has a number in its list.

    Updates of a list that has its slot are counted there, and the first of them counts all in the
    list.  Others are counted there by themselves.
    """

    def __init__(self, making: Making, counts: SSAValue, slots: int) -> None:
        """Emits what counts: maps over the block's updates, and meetings between them."""
        super().__init__(making, slots, False, "many", "before")
        self.counts, emit = counts, making.emit
        self.own, self.base = (
            making.space_of(emit, making.block, i32, hint) for hint in ("own", "base")
        )
        making.updates(self.count)
        emit.op(BarrierOp())
        making.updates(self.add)
        emit.op(BarrierOp())

    def count(self, point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> Targets:
        """How many updates of its list were counted in a slot before one; -1 of others."""
        emit, which = point.emit, self.which(point, where, here)
        mine = self.mine(point, which, here)
        one = emit.value(arith.SelectOp(mine, emit.int32(1), emit.int32(0)))
        others = emit.value(FetchAddSharedOp(one, self.slot(point, "many", which)))
        found = emit.value(arith.SelectOp(mine, others, emit.int32(-1)))
        return {self.own: (found, (ROW, COLUMN))}

    def add(self, point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> Targets:
        """How many updates a list had before those of the block, which the first of them counts."""
        emit, which = point.emit, self.which(point, where, here)
        own = point.input(self.own, (ROW, COLUMN))
        leads = emit.compare("eq", own, emit.int32(0))
        alone = emit.compare("slt", own, emit.int32(0))
        many = emit.value(LoadSharedOp(self.slot(point, "many", which), i32))
        many = emit.value(arith.SelectOp(alone, emit.int32(1), many))
        counts = emit.both(here, emit.value(arith.OrIOp(leads, alone)))
        length = self.making.counted(point, where)
        base = emit.value(ExchangeGlobalOp(many, self.counts, length, counts, add=True), "others")
        known = emit.value(arith.SelectOp(leads, base, emit.int32(0)))
        emit.op(AtomicSharedOp("add", known, self.slot(point, "before", which)))
        return {self.base: (base, (ROW, COLUMN))}

    def number(self, point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> SSAValue:
        """The number of an update in its list, from 0."""
        emit, which = point.emit, self.which(point, where, here)
        own, base = (point.input(kept, (ROW, COLUMN)) for kept in (self.own, self.base))
        before = emit.value(LoadSharedOp(self.slot(point, "before", which), i32))
        number = integers.binary(emit, "add", before, own, i32)
        alone = emit.compare("slt", own, emit.int32(0))
        return emit.value(arith.SelectOp(alone, base, number))


class Totals(Table):
    """What all updates of a block make of each place together, and then of the chip.

    Of a place that has its slot a block combines them there, and then that into the workspace; of
    another one it combines each into the workspace.
    """

    def __init__(self, making: Making, found: SSAValue, slots: int, own: bool) -> None:
        """Emits all of it; ``found`` is the workspace."""
        super().__init__(making, slots, own, "total")
        self.found = found
        making.updates(self.take)
        making.emit.op(BarrierOp())
        self.leave()

    @property
    def function(self) -> str:
        """By what numbers are combined, which 0 leaves as they are."""
        function = self.making.scatters.key
        assert function is not None
        return function

    def take(self, point: Point, where: Mapping[str, SSAValue], here: SSAValue) -> None:
        """Combine an update into its slot, or into the workspace."""
        emit, which = point.emit, self.which(point, where, here)
        updates = self.making.scatters.scatter.updates
        number = self.making.maker.key.of(emit, point.scalar(updates))
        mine = self.mine(point, which, here)
        own = emit.value(arith.SelectOp(mine, number, emit.int32(0)))
        emit.op(AtomicSharedOp(self.function, own, self.slot(point, "total", which)))
        if self.own_slots:
            return
        others = emit.both(here, emit.compare("eq", mine, integers.number(emit, 0, mine.type)))
        at = [where[axis.label] for axis in self.making.maker.listed]
        emit.op(AtomicGlobalOp(self.function, number, self.found, at, others))

    def leave(self) -> None:
        """Combine what the slots have into the workspace."""
        point = self.making.point(i32)
        emit, place = point.emit, point.index(COLUMN)
        total = emit.value(LoadSharedOp(self.address(point, "total", place), i32))
        which = place
        if not self.own_slots:
            owner = emit.value(LoadSharedOp(self.address(point, "owners", place), i32))
            before = integers.binary(emit, "sub", owner, emit.int32(1), i32)
            which = emit.value(arith.IndexCastOp(before, INDEX))
        some = emit.compare("ne", total, emit.int32(0))
        where = self.making.of_list(emit, which)
        at = [where[axis.label] for axis in self.making.maker.listed]
        emit.op(AtomicGlobalOp(self.function, total, self.found, at, some))
        self.making.map(self.making.emit, point, self.every, {})
