"""A row of shared memory sorted by its digits, the lowest first, by threads together (T2).

Of each digit all threads count how many elements have each value, and so where each element goes;
elements that are alike in it keep their order, so that after the highest digit all are in order
(D. E. Knuth, *The Art of Computer Programming*, volume 3, section 5.2.5).  Neighbouring elements
are the lanes' of a warp, whose rows of them follow each other: lanes ask each other who has the
same digit, and the first of these counts for all of them (A. Adinets, D. Merrill, *Onesweep: a
faster least significant digit radix sort for GPUs*, 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.deciding import Bits
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.digits import MOST_BITS
from polyc.dialects.gpu.types import SharedType, element_bytes
from polyc.passes.support.gpu.scope import scope_barrier, thread_in_scope
from polyc.passes.support.gpu.sort_networks import Ints, Row
from polyc.rewriting.emit import Emit, affine_dim

LANES = 32
"""Threads of a warp."""

TOGETHER = 4
"""Elements of a thread that wait for shared memory at once, an even number."""

KEPT, REGISTER = 48, 4
"""Registers in which a thread keeps elements while it counts, and bytes of one."""

HALF = 16
"""Bits of what is known of one of two elements."""


@dataclass(frozen=True)
class Digits:
    """How integers of a type are cut into digits: of the ``bits`` that decide, ``count`` digits of
    ``size`` bits each."""

    element: Attribute
    bits: Bits
    unsigned: bool
    threads: int
    counts: int = 0
    """Values that are counted at least."""

    @cached_property
    def count(self) -> int:
        """How many digits there are: each value of one has a thread."""
        most = min(MOST_BITS, self.threads.bit_length() - 1)
        return -(-(self.bits[1] - self.bits[0]) // most)

    @cached_property
    def size(self) -> int:
        """Bits of a digit."""
        return -(-(self.bits[1] - self.bits[0]) // self.count)

    @property
    def values(self) -> int:
        """What is counted: the values of a digit, or as many as lanes of a warp."""
        return max(LANES, 1 << self.size, self.counts)

    @property
    def base(self) -> int:
        """The lowest bit of the 32 in which all that decides lies, or 0."""
        first, end = self.bits
        return first if end - first <= LANES < end else 0

    @property
    def is_wide(self) -> bool:
        """Whether what decides are more than 32 bits."""
        return self.bits[1] - self.base > LANES

    def word(self, emit: Emit, value: SSAValue) -> SSAValue:
        """What decides, as a number without a sign whose bits above are 0, and below the type's."""
        element = cast("IntegerType", self.element)
        kind = i64 if self.is_wide else i32
        if self.base:
            by = emit.value(arith.ConstantOp(IntegerAttr(self.base, element)))
            value = emit.value(arith.ShRUIOp(value, by))
        if element.width.data > kind.width.data:
            value = emit.value(arith.TruncIOp(value, kind))
        elif element.width.data < kind.width.data:
            value = emit.value(arith.ExtUIOp(value, kind))
        end = self.bits[1] - self.base
        if not self.unsigned:
            top = emit.value(
                arith.ConstantOp(IntegerAttr(_signed(1 << end - 1, kind.width.data), kind))
            )
            value = emit.value(arith.XOrIOp(value, top))
        if end < kind.width.data:
            below = emit.value(arith.ConstantOp(IntegerAttr((1 << end) - 1, kind)))
            value = emit.value(arith.AndIOp(value, below))
        return value

    @property
    def last(self) -> int:
        """A number that stands behind all others."""
        width = cast("IntegerType", self.element).width.data
        return _signed((1 << self.bits[1] - (0 if self.unsigned else 1)) - 1, width)

    def digit(self, emit: Emit, value: SSAValue, shift: SSAValue) -> SSAValue:
        """The digit that begins ``shift`` bits above ``base``, an i32."""
        word = self.word(emit, value)
        if self.is_wide:
            word = emit.value(arith.ShRUIOp(word, emit.value(arith.ExtUIOp(shift, i64))))
            word = emit.value(arith.TruncIOp(word, i32))
        else:
            word = emit.value(arith.ShRUIOp(word, shift))
        return Ints(emit).both(word, (1 << self.size) - 1)


def _signed(bits: int, width: int) -> int:
    """So many bits as the number with a sign that they are."""
    return bits - (1 << width) if bits >> width - 1 else bits


def at_place(emit: Emit, row: SSAValue, place: SSAValue) -> SSAValue:
    """The address of an element of a shared row."""
    return emit.value(tile.ElementAddressOp(row, emit.index(0), emit.index(0), place))


@dataclass
class DigitSort:
    """Sorts the first ``count`` elements of a shared row, by all threads of the op's scope."""

    op: Operation
    row: Row
    digits: Digits
    count: SSAValue | None
    """An i32, or None for the whole row."""

    @property
    def threads(self) -> int:
        return self.digits.threads

    @property
    def each(self) -> int:
        """Elements of a thread."""
        return cast("SharedType", self.row.row.type).sizes[1] // self.threads

    @property
    def keeps(self) -> bool:
        """Whether a thread keeps its elements while it counts; it reads them again where they are
        too many for that."""
        size = element_bytes(self.row.element)
        return self.each * size <= KEPT * REGISTER

    @property
    def warps(self) -> int:
        return self.threads // LANES

    def run(self, emit: Emit) -> None:
        """One digit after another."""
        self.begin(emit)
        if self.digits.count == 1:
            self.step(emit, emit.index(0))
        else:
            emit.loop(self.digits.count, self.step, hint="digit")

    def begin(self, emit: Emit) -> None:
        """What all digits need."""
        values = self.digits.values
        area = SharedType.of([self.warps, values], i32, 0)
        self.counted = emit.value(hw.SharedTileOp(area), "counted")
        area = SharedType.of([1, values // LANES], i32, 0)
        self.sums = emit.value(hw.SharedTileOp(area), "sums")
        self.own = thread_in_scope(emit, self.op)
        self.keys = emit.registers(self.each, self.row.element, "keys")
        self.places = emit.registers(-(-self.each // 2), i32, "places")

    def step(self, emit: Emit, number: SSAValue) -> None:
        """Count a digit, and move the elements."""
        self.count_digit(emit, number)
        self.starts(emit)
        self.shift = self.shift_of(emit, emit.value(hw.OpaqueOp(number)))
        self.groups(emit, self.find)
        if not self.keeps:
            self.groups(emit, self.bring)
            scope_barrier(emit, self.op)
        self.groups(emit, self.put)
        scope_barrier(emit, self.op)

    def count_digit(self, emit: Emit, number: SSAValue) -> None:
        """How many elements of each warp have each value, and how many before each element."""
        # Places of elements and counts are computed anew for each digit, and so are digits: there
        # are as many as elements, and no registers for them.
        moved = emit.apply(affine_dim(0) + affine_dim(1), [self.own, number])
        moved = emit.value(hw.OpaqueOp(moved))
        self.thread = emit.apply(affine_dim(0) - affine_dim(1), [moved, number], hint="thread")
        self.lane = emit.apply(affine_dim(0) % LANES, [self.thread], hint="lane")
        self.warp = emit.apply(affine_dim(0) // LANES, [self.thread], hint="warp")
        self.begin_at(emit, self.thread)
        self.shift = self.shift_of(emit, number)
        self.clear(emit)
        scope_barrier(emit, self.op)
        self.groups(emit, self.rank)
        scope_barrier(emit, self.op)

    def begin_at(self, emit: Emit, thread: SSAValue) -> None:
        """Where a thread's elements begin."""
        whole = affine_dim(0) // LANES * (LANES * self.each) + affine_dim(0) % LANES
        self.first = Ints(emit).of(emit.apply(whole, [thread], hint="first"))

    def shift_of(self, emit: Emit, number: SSAValue) -> SSAValue:
        """By how many bits a digit is above the base."""
        size, start = self.digits.size, self.digits.bits[0] - self.digits.base
        return Ints(emit).of(emit.apply(affine_dim(0) * size + start, [number]))

    def address(self, emit: Emit, warp: SSAValue, value: SSAValue) -> SSAValue:
        """Where a warp counts a value of a digit."""
        return emit.value(tile.ElementAddressOp(self.counted, emit.index(0), warp, value))

    def clear(self, emit: Emit) -> None:
        """Nothing is counted yet."""
        values = self.digits.values

        def one(inner: Emit, place: SSAValue) -> None:
            warp = inner.apply(affine_dim(0) // values, [place])
            value = inner.apply(affine_dim(0) % values, [place])
            inner.op(hw.StoreSharedOp(inner.int32(0), self.address(inner, warp, value)))

        emit.loop(self.warps * values, one, step=self.threads, start=self.thread, hint="place")

    def groups(self, emit: Emit, body: Callable[[Emit, SSAValue, int], None]) -> None:
        """``body`` of a thread's elements, ``TOGETHER`` at a time, so that what each waits for
        overlaps, and of those that are left over: from which one on, and how many."""
        whole = self.each // TOGETHER

        def group(inner: Emit, number: SSAValue) -> None:
            body(inner, inner.apply(affine_dim(0) * TOGETHER, [number]), TOGETHER)

        emit.loop(whole, group, unroll=True, hint="group")
        if rest := self.each % TOGETHER:
            body(emit, emit.index(whole * TOGETHER), rest)

    def hold(self, emit: Emit, r: SSAValue, found: Sequence[SSAValue]) -> None:
        """Keep numbers below 2 ** 16 of elements from the ``r``-th on: a register holds two."""
        for n in range(0, len(found), 2):
            held = found[n]
            if n + 1 < len(found):
                held = Ints(emit).either(held, Ints(emit).shl(found[n + 1], HALF))
            where = emit.apply((affine_dim(0) + n) // 2, [r])
            emit.op(memref.StoreOp.get(held, self.places, [where]))

    def held(self, emit: Emit, r: SSAValue, count: int) -> list[SSAValue]:
        """So many of these numbers."""
        found: list[SSAValue] = []
        for n in range(0, count, 2):
            where = emit.apply((affine_dim(0) + n) // 2, [r])
            both = emit.value(memref.LoadOp.get(self.places, [where]))
            found += [Ints(emit).both(both, (1 << HALF) - 1), Ints(emit).shr(both, HALF)]
        return found[:count]

    def bring(self, emit: Emit, r: SSAValue, count: int) -> None:
        """Read elements from the ``r``-th on to registers."""
        every = [emit.apply(affine_dim(0) + n, [r]) for n in range(count)]
        for one, value in zip(every, self.read(emit, every), strict=True):
            emit.op(memref.StoreOp.get(value, self.keys, [one]))

    def values(self, emit: Emit, r: SSAValue, count: int) -> list[SSAValue]:
        """Elements that a thread keeps, or reads again."""
        every = [emit.apply(affine_dim(0) + n, [r]) for n in range(count)]
        if not self.keeps:
            return self.read(emit, every)
        return [emit.value(memref.LoadOp.get(self.keys, [one])) for one in every]

    def read(self, emit: Emit, every: Sequence[SSAValue]) -> list[SSAValue]:
        """Elements where they stand."""
        return [self.load(emit, self.place(emit, one)) for one in every]

    def rank(self, emit: Emit, r: SSAValue, count: int) -> None:
        """Read elements, and count them: how many before each in its warp have its digit."""
        if self.keeps:
            self.bring(emit, r, count)
        values = self.values(emit, r, count)
        matches: list[hw.MatchLanesOp] = []
        before: list[SSAValue] = []
        for value in values:
            digit = self.digits.digit(emit, value, self.shift)
            match = hw.MatchLanesOp(digit, self.digits.size)
            emit.op(match)
            matches.append(match)
            where = self.address(emit, self.warp, Ints(emit).index(digit))
            leads = emit.compare("eq", match.rank, emit.int32(0))
            inner, none = Emit(emit), emit.int32(0)
            known = inner.value(hw.FetchAddSharedOp(match.count, where))
            inner.op(scf.YieldOp(known))
            before.append(emit.value(scf.IfOp(leads, [i32], inner.ops, [scf.YieldOp(none)])))
        self.tell(emit, r, matches, before)

    def tell(
        self,
        emit: Emit,
        r: SSAValue,
        matches: Sequence[hw.MatchLanesOp],
        before: Sequence[SSAValue],
    ) -> None:
        """All lanes learn what the first of those with their digit knows, and keep their ranks."""
        found: list[SSAValue] = []
        for match, known in zip(matches, before, strict=True):
            first = Ints(emit).index(match.first)
            known = emit.value(hw.ShuffleOp("index", known, first), "before")
            found.append(Ints(emit).add(known, match.rank))
        self.hold(emit, r, found)

    def find(self, emit: Emit, r: SSAValue, count: int) -> None:
        """Where elements go."""
        found: list[SSAValue] = []
        for value, rank in zip(self.values(emit, r, count), self.held(emit, r, count), strict=True):
            digit = self.digits.digit(emit, value, self.shift)
            where = self.address(emit, self.warp, Ints(emit).index(digit))
            found.append(Ints(emit).add(emit.value(hw.LoadSharedOp(where, i32)), rank))
        self.hold(emit, r, found)

    def put(self, emit: Emit, r: SSAValue, count: int) -> None:
        """Write elements where they go."""
        for n, place in enumerate(self.held(emit, r, count)):
            one = emit.apply(affine_dim(0) + n, [r])
            value = emit.value(memref.LoadOp.get(self.keys, [one]))
            if self.count is None:
                self.row.store(emit, place, value)
                continue
            here = Ints(emit).compare("slt", place, self.count)

            def store(inner: Emit, place: SSAValue = place, value: SSAValue = value) -> None:
                self.row.store(inner, place, value)

            emit.when(here, store)

    def place(self, emit: Emit, r: SSAValue) -> SSAValue:
        """Where a thread's element stands, an i32."""
        return Ints(emit).add(self.first, emit.apply(affine_dim(0) * LANES, [r]))

    def load(self, emit: Emit, place: SSAValue) -> SSAValue:
        """The element at a place; behind the end one that is behind all others, and as all of it
        stands behind, stays there."""
        if self.count is None:
            return self.row.load(emit, place)
        here = Ints(emit).compare("slt", place, self.count)
        inside = Emit(emit)
        value = self.row.load(inside, place)
        inside.op(scf.YieldOp(value))
        element = cast("IntegerType", self.row.element)
        most = emit.value(arith.ConstantOp(IntegerAttr(self.digits.last, element)))
        return emit.value(scf.IfOp(here, [value.type], inside.ops, [scf.YieldOp(most)]))

    def starts(self, emit: Emit) -> None:
        """Where the elements of each warp with each value go from, instead of how many there are:
        a thread has a value."""
        warps, zero = self.warps, emit.index(0)
        total = emit.registers(1, i32, "total")

        def sums(inner: Emit) -> None:
            own = self.of_warps(inner, total)
            inner.op(memref.StoreOp.get(self.among_lanes(inner, own, self.sums), total, [zero]))
            self.sum_more(inner)

        def write(inner: Emit) -> None:
            begin = inner.value(memref.LoadOp.get(total, [zero]))
            begin = self.among_warps(inner, begin, self.sums)
            inner.op(memref.StoreOp.get(begin, total, [zero]))
            self.begins(inner, begin)

            def leave(last: Emit, w: SSAValue) -> None:
                where = self.address(last, w, self.thread)
                more = last.value(hw.LoadSharedOp(where, i32))
                known = last.value(memref.LoadOp.get(total, [zero]))
                last.op(hw.StoreSharedOp(known, where))
                last.op(memref.StoreOp.get(Ints(last).add(known, more), total, [zero]))

            inner.loop(warps, leave, unroll=True, hint="w")

        for part in (sums, write):
            self.of_values(emit, part)
            scope_barrier(emit, self.op)

    def of_values(self, emit: Emit, body: Callable[[Emit], None]) -> None:
        """``body`` by those threads that have a value."""
        values = self.digits.values
        if values == self.threads:
            body(emit)
        else:
            emit.when(emit.compare("slt", self.thread, emit.index(values)), body)

    def of_warps(self, emit: Emit, total: SSAValue) -> SSAValue:
        """How many elements have a thread's value, by way of a register."""
        zero = emit.index(0)
        emit.op(memref.StoreOp.get(emit.int32(0), total, [zero]))

        def add(last: Emit, w: SSAValue) -> None:
            more = last.value(hw.LoadSharedOp(self.address(last, w, self.thread), i32))
            known = last.value(memref.LoadOp.get(total, [zero]))
            last.op(memref.StoreOp.get(Ints(last).add(known, more), total, [zero]))

        emit.loop(self.warps, add, unroll=True, hint="w")
        return emit.value(memref.LoadOp.get(total, [zero]), "own")

    def among_lanes(self, emit: Emit, own: SSAValue, sums: SSAValue) -> SSAValue:
        """What the lanes before a thread have; the last one leaves the sum of its warp."""
        whole = self.lanes(emit, own)
        last = emit.compare("eq", self.lane, emit.index(LANES - 1))

        def tell(inner: Emit) -> None:
            inner.op(hw.StoreSharedOp(whole, at_place(inner, sums, self.warp)))

        emit.when(last, tell)
        return Ints(emit).sub(whole, own)

    def among_warps(self, emit: Emit, begin: SSAValue, sums: SSAValue) -> SSAValue:
        """That with what the warps before a thread's have."""
        for w in range(self.digits.values // LANES - 1):
            one = emit.value(hw.LoadSharedOp(at_place(emit, sums, emit.index(w)), i32))
            before = emit.compare("slt", emit.index(w), self.warp)
            begin = Ints(emit).add(begin, emit.value(arith.SelectOp(before, one, emit.int32(0))))
        return begin

    def sum_more(self, emit: Emit) -> None:
        """What else threads with a value sum up."""

    def begins(self, emit: Emit, begin: SSAValue) -> None:
        """What else they do, of whose value the elements go from ``begin`` on."""

    def lanes(self, emit: Emit, value: SSAValue) -> SSAValue:
        """What each lane has with all before it."""
        distance = 1
        while distance < LANES:
            other = emit.value(hw.ShuffleOp("up", value, emit.index(distance)))
            there = emit.compare("sge", self.lane, emit.index(distance))
            more = emit.value(arith.SelectOp(there, other, emit.int32(0)))
            value = Ints(emit).add(value, more)
            distance *= 2
        return value
