"""Rows sorted by threads together, with networks of comparisons (T2).

A row of any length is sorted by a bitonic network (K. E. Batcher, *Sorting networks and their
applications*, 1968) in which every comparison leaves the smaller element in front: the first step
of each merge compares elements from both ends of a block inwards.  What would lie behind the end
of the row is larger than all, never moves, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import GlobalType, SharedType
from polyc.passes.support.gpu.scope import scope_barrier, scope_of, thread_in_scope
from polyc.rewriting.emit import INDEX, Emit, affine_dim

LANES = 32
"""Threads of a warp."""

FEW = 256
"""Elements of a pool up to which a warp sorts them: it meets itself alone after each step."""

FEW_BARRIER = 9
"""The named barrier of that warp."""

BITS = 31
"""Of a count of elements."""


def largest(element: Attribute, unsigned: bool) -> int:
    """The bits of the largest number of a type, as a number with a sign."""
    bits = cast("IntegerType", element).width.data
    return -1 if unsigned else (1 << bits - 1) - 1


@dataclass(frozen=True)
class Ints:
    """Arithmetic of i32 at one place of a kernel."""

    emit: Emit

    def of(self, value: SSAValue | int) -> SSAValue:
        """A number, or an index, as i32."""
        if isinstance(value, int):
            return self.emit.int32(value)
        return value if value.type == i32 else self.emit.value(arith.IndexCastOp(value, i32))

    def index(self, value: SSAValue) -> SSAValue:
        return self.emit.value(arith.IndexCastOp(value, INDEX))

    def _two(
        self,
        kind: Callable[[SSAValue, SSAValue], Operation],
        lhs: SSAValue | int,
        rhs: SSAValue | int,
    ) -> SSAValue:
        return self.emit.value(kind(self.of(lhs), self.of(rhs)))

    def add(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.AddiOp, lhs, rhs)

    def sub(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.SubiOp, lhs, rhs)

    def shl(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.ShLIOp, lhs, rhs)

    def shr(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.ShRUIOp, lhs, rhs)

    def both(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.AndIOp, lhs, rhs)

    def either(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.OrIOp, lhs, rhs)

    def xor(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.XOrIOp, lhs, rhs)

    def least(self, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self._two(arith.MinSIOp, lhs, rhs)

    def compare(self, how: str, lhs: SSAValue | int, rhs: SSAValue | int) -> SSAValue:
        return self.emit.compare(how, self.of(lhs), self.of(rhs))


@dataclass(frozen=True)
class Row:
    """A row that is sorted in place: of a shared tile, or of a tensor at some coordinates, along an
    axis of it."""

    row: SSAValue
    at: tuple[SSAValue, ...] = ()
    axis: int = 0

    @property
    def element(self) -> Attribute:
        return cast("SharedType | GlobalType", self.row.type).element_type

    def load(self, emit: Emit, place: SSAValue) -> SSAValue:
        """The element at a place, an i32."""
        if isinstance(self.row.type, GlobalType):
            return emit.value(hw.LoadGlobalOp(self.row, self._at(emit, place), self.element))
        return emit.value(hw.LoadSharedOp(self._address(emit, place), self.element))

    def store(self, emit: Emit, place: SSAValue, value: SSAValue) -> None:
        if isinstance(self.row.type, GlobalType):
            emit.op(hw.StoreGlobalOp(value, self.row, self._at(emit, place)))
        else:
            emit.op(hw.StoreSharedOp(value, self._address(emit, place)))

    def _at(self, emit: Emit, place: SSAValue) -> list[SSAValue]:
        return [*self.at[: self.axis], Ints(emit).index(place), *self.at[self.axis :]]

    def _address(self, emit: Emit, place: SSAValue) -> SSAValue:
        zero = emit.index(0)
        return emit.value(tile.ElementAddressOp(self.row, zero, zero, Ints(emit).index(place)))


@dataclass(frozen=True)
class Network:
    """Sorts rows at an op, by all threads of its scope."""

    op: Operation
    unsigned: bool
    steps: int = 1
    """Steps of a merge that a thread does at once, on twice as many elements for each."""
    together: int = 1
    """Elements of a lane, 32 apart, whose exchanges overlap."""

    def less(self, emit: Emit, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """Whether an element is below another."""
        return emit.compare("ult" if self.unsigned else "slt", lhs, rhs)

    def sort(self, emit: Emit, row: Row, count: SSAValue, most: int) -> None:
        """Sort the first ``count`` elements, an i32, ``most`` at most; threads meet after."""
        threads = scope_of(self.op).threads
        self._sort(emit, row, count, most, threads, lambda inner: scope_barrier(inner, self.op))

    def sort_few(self, emit: Emit, row: Row, count: SSAValue, most: int) -> None:
        """The same where there are often few elements, which a warp sorts while the others wait."""
        scope = scope_of(self.op)
        if scope.threads <= LANES or scope.barrier:
            self.sort(emit, row, count, most)
            return

        def meet(inner: Emit) -> None:
            inner.op(hw.NamedBarrierOp(FEW_BARRIER, LANES))

        def few(inner: Emit) -> None:
            def alone(warp: Emit) -> None:
                self._sort(warp, row, count, FEW, LANES, meet)

            mine = inner.compare("slt", thread_in_scope(inner, self.op), inner.index(LANES))
            inner.when(mine, alone)
            scope_barrier(inner, self.op)

        emit.when(Ints(emit).compare("sle", count, FEW), few)
        emit.when(
            Ints(emit).compare("sgt", count, FEW), lambda all: self.sort(all, row, count, most)
        )

    def _sort(
        self,
        emit: Emit,
        row: Row,
        count: SSAValue,
        most: int,
        threads: int,
        meet: Callable[[Emit], None],
    ) -> None:
        """The network by the first ``threads`` threads, whole warps, which ``meet`` after each part
        of it."""
        by = Team(self, row, count, thread_in_scope(emit, self.op), threads)
        by.in_warps(emit, whole=True)
        meet(emit)
        levels, least = max(0, most - 1).bit_length(), LANES.bit_length() - 1
        steps = self.steps

        def level(outer: Emit, number: SSAValue) -> None:
            half = Ints(outer).shl(1, number)

            def merge(inner: Emit) -> None:
                """Steps over distances beyond a warp's elements, several at once, and the rest."""
                before, several = Ints(inner).sub(number, least), inner.int32(steps)
                more = inner.value(arith.RemUIOp(before, several))
                rounds = inner.value(arith.DivUIOp(before, several))
                for extra in range(steps):
                    inner.when(
                        Ints(inner).compare("eq", more, extra),
                        lambda emit, extra=extra: by.turned(emit, number, extra + 1),
                    )
                meet(inner)
                first = Ints(inner).sub(Ints(inner).sub(number, 1), more)

                def straight(emit: Emit, t: SSAValue) -> None:
                    done = emit.value(arith.MuliOp(Ints(emit).of(t), emit.int32(steps)))
                    by.straight(emit, Ints(emit).sub(first, done))
                    meet(emit)

                inner.loop(Ints(inner).index(rounds), straight, hint="round")
                by.in_warps(inner, whole=False)
                meet(inner)

            # A block of this size is no row's whose half holds the row.
            outer.when(Ints(outer).compare("slt", half, count), merge)

        if levels > least:
            emit.loop(levels, level, start=least, hint="level")


@dataclass(frozen=True)
class Team:
    """Threads that sort the first ``count`` elements of a row together.

    A thread holds several elements at a time, so that several steps of the network take one reading
    and one writing.  What would lie behind the end of the row is read as the largest number, which
    stays there, and is not written.
    """

    network: Network
    row: Row
    count: SSAValue
    thread: SSAValue
    threads: int

    def turned(self, emit: Emit, number: SSAValue, steps: int) -> None:
        """The first ``steps`` of a merge whose halves have 1 << ``number`` elements: from both
        ends of a block inwards, then in straight distances within each half."""
        ints, many = Ints(emit), 1 << steps - 1
        shift = ints.sub(number, steps - 1)
        block = ints.add(number, 1)
        last = ints.sub(ints.shl(1, block), 1)

        def places(emit: Emit, q: SSAValue) -> list[SSAValue]:
            ints = Ints(emit)
            inside = ints.sub(ints.shl(1, shift), 1)
            base, offset = ints.shl(ints.shr(q, shift), block), ints.both(q, inside)
            low = [ints.add(offset, ints.shl(j, shift)) for j in range(many)]
            high = [ints.sub(last, one) for one in reversed(low)]
            return [ints.add(base, one) for one in (*low, *high)]

        pairs = [[(j, 2 * many - 1 - j) for j in range(many)]]
        pairs += _straight(2 * many, many // 2)
        self._groups(emit, shift, block, places, pairs)

    def straight(self, emit: Emit, number: SSAValue) -> None:
        """Steps over distances of 1 << ``number`` elements and the next smaller ones."""
        ints, many = Ints(emit), 1 << self.network.steps
        shift = ints.sub(number, self.network.steps - 1)
        block = ints.add(number, 1)

        def places(emit: Emit, q: SSAValue) -> list[SSAValue]:
            ints = Ints(emit)
            inside = ints.sub(ints.shl(1, shift), 1)
            base = ints.either(ints.shl(ints.shr(q, shift), block), ints.both(q, inside))
            return [ints.add(base, ints.shl(j, shift)) for j in range(many)]

        self._groups(emit, shift, block, places, _straight(many, many // 2))

    def _groups(
        self,
        emit: Emit,
        shift: SSAValue,
        block: SSAValue,
        places: Callable[[Emit, SSAValue], Sequence[SSAValue]],
        steps: Sequence[Sequence[tuple[int, int]]],
    ) -> None:
        """Groups of elements that steps exchange among themselves, 1 << ``shift`` in a block of
        1 << ``block``, a thread each in turn: of each step the pairs."""
        ints = Ints(emit)
        rest = ints.both(self.count, ints.sub(ints.shl(1, block), 1))
        whole = ints.shl(ints.shr(self.count, block), shift)
        groups = ints.add(whole, ints.least(rest, ints.shl(1, shift)))

        def group(emit: Emit, q: SSAValue) -> None:
            where = places(emit, Ints(emit).of(q))
            held = [self.load(emit, place) for place in where]
            for step in steps:
                for one, two in step:
                    swap = self.network.less(emit, held[two], held[one])
                    least = emit.value(arith.SelectOp(swap, held[two], held[one]))
                    held[two] = emit.value(arith.SelectOp(swap, held[one], held[two]))
                    held[one] = least
            for place, value in zip(where, held, strict=True):
                self.store(emit, place, value)

        emit.loop(ints.index(groups), group, step=self.threads, start=self.thread, hint="group")

    def in_warps(self, emit: Emit, whole: bool) -> None:
        """What is left of a merge in the elements of a warp, one a lane, or the ``whole`` sort of
        them: lanes ask each other."""
        together = self.network.together
        lane = emit.apply(affine_dim(0) % LANES, [self.thread], hint="lane")
        first = emit.apply((affine_dim(0) - affine_dim(1)) * together, [self.thread, lane])
        levels = LANES.bit_length() - 1
        behind = [
            Ints(emit).compare("ne", Ints(emit).both(lane, 1 << bit), 0) for bit in range(levels)
        ]

        def rows(emit: Emit, start: SSAValue) -> None:
            ints = Ints(emit)
            where = [ints.add(ints.add(start, lane), n * LANES) for n in range(together)]
            held = [self.wide(emit, self.load(emit, place)) for place in where]

            def step(mask: int, bit: int) -> None:
                for n, value in enumerate(held):
                    other = emit.value(hw.ShuffleOp("xor", value, emit.index(mask)))
                    below = self.network.less(emit, other, value)
                    taken = emit.value(arith.XOrIOp(below, behind[bit]))
                    held[n] = emit.value(arith.SelectOp(taken, other, value))

            for number in range(levels) if whole else ():
                step((2 << number) - 1, number)
                for bit in reversed(range(number)):
                    step(1 << bit, bit)
            for bit in reversed(range(levels)) if not whole else ():
                step(1 << bit, bit)
            for place, value in zip(where, held, strict=True):
                self.store(emit, place, self.narrow(emit, value))

        step = self.threads * together
        emit.loop(Ints(emit).index(self.count), rows, step=step, start=first, hint="start")

    # Elements

    def load(self, emit: Emit, place: SSAValue) -> SSAValue:
        """The element at a place, or the largest number behind the end."""
        here = Ints(emit).compare("slt", place, self.count)
        most = largest_number(emit, self.row.element, self.network.unsigned)
        inside = Emit(emit)
        value = self.row.load(inside, place)
        inside.op(scf.YieldOp(value))
        return emit.value(scf.IfOp(here, [value.type], inside.ops, [scf.YieldOp(most)]))

    def store(self, emit: Emit, place: SSAValue, value: SSAValue) -> None:
        here = Ints(emit).compare("slt", place, self.count)
        emit.when(here, lambda inner: self.row.store(inner, place, value))

    def wide(self, emit: Emit, value: SSAValue) -> SSAValue:
        """A number in the bits that lanes exchange, in the same order."""
        if cast("IntegerType", value.type).width.data >= BITS:
            return value
        return emit.value(arith.ExtSIOp(value, i32))

    def narrow(self, emit: Emit, value: SSAValue) -> SSAValue:
        """The number in its own bits."""
        if value.type == self.row.element:
            return value
        return emit.value(arith.TruncIOp(value, cast("IntegerType", self.row.element)))


def _straight(many: int, distance: int) -> list[list[tuple[int, int]]]:
    """The pairs of steps over a distance of ``many`` elements and the smaller ones."""
    steps: list[list[tuple[int, int]]] = []
    while distance:
        steps.append([(j, j + distance) for j in range(many) if not j & distance])
        distance //= 2
    return steps


def largest_number(emit: Emit, element: Attribute, unsigned: bool) -> SSAValue:
    """The largest number of a type."""
    kind = cast("IntegerType", element)
    return emit.value(arith.ConstantOp(IntegerAttr(largest(kind, unsigned), kind)))
