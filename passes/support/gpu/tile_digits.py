"""Patterns that lower what blocks do that sort rows digit by digit, a tile each (T2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.digits import TOGETHER, counted
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.digit_sorts import LANES, Digits, DigitSort, at_place
from polyc.passes.support.gpu.scope import scope_barrier, scope_of, thread_in_scope
from polyc.passes.support.gpu.sort_networks import Ints, Row
from polyc.rewriting.emit import Emit, affine_dim

AT_ONCE = 8
"""Counts of tiles that a thread has on their way at once."""


@dataclass
class DigitCount(DigitSort):
    """Counts the elements of a tile with each value, for all warps together."""

    @property
    def keeps(self) -> bool:
        return False

    def rank(self, emit: Emit, r: SSAValue, count: int) -> None:
        """Every lane counts its own element: where one goes is not asked, so that nobody needs to
        know what was counted before."""
        one = emit.int32(1)
        for value in self.values(emit, r, count):
            digit = Ints(emit).index(self.digits.digit(emit, value, self.shift))
            emit.op(hw.AtomicSharedOp("add", one, self.address(emit, self.warp, digit)))

    def lower(self, emit: Emit, op: tile.CountDigitOp) -> None:
        self.begin(emit)
        self.count_digit(emit, emit.index(0))
        total = emit.registers(1, i32, "total")

        def write(inner: Emit) -> None:
            own = self.of_warps(inner, total)
            # What is behind the end has the last value, and is no element.
            columns = cast("SharedType", op.row.type).sizes[1]
            behind = Ints(inner).sub(columns, self.some)
            last = inner.compare("eq", self.thread, inner.index((1 << self.digits.size) - 1))
            behind = inner.value(arith.SelectOp(last, behind, inner.int32(0)))
            where = [*op.at, self.thread]
            inner.op(hw.StoreGlobalOp(Ints(inner).sub(own, behind), op.counts, where))

        self.of_values(emit, write)

    @property
    def some(self) -> SSAValue:
        """How many elements there are, which is no number."""
        assert self.count is not None
        return self.count


@dataclass
class DigitPlaces(DigitSort):
    """Sorts a tile by a digit, and finds how far from there its elements go in a row."""

    move: tile.MoveByDigitOp | tile.SortByDigitOp
    bases: SSAValue

    def lower(self, emit: Emit) -> None:
        values = self.digits.values
        row = SharedType.of([1, values // LANES], i32, 0)
        self.more = emit.value(hw.SharedTileOp(row), "more")
        self.lower_values = emit.registers(1, i32, "lower")
        self.run(emit)

    def sum_more(self, emit: Emit) -> None:
        """How many elements of the row have a value of the lanes before."""
        where = [*self.move.at, self.thread]
        own = emit.value(hw.LoadGlobalOp(self.move.totals, where, i32))
        before = self.among_lanes(emit, own, self.more)
        emit.op(memref.StoreOp.get(before, self.lower_values, [emit.index(0)]))

    def begins(self, emit: Emit, begin: SSAValue) -> None:
        """How far from its place in the tile an element with a value goes."""
        known = emit.value(memref.LoadOp.get(self.lower_values, [emit.index(0)]))
        lower = self.among_warps(emit, known, self.more)
        where = [*self.move.at, self.move.tile, self.thread]
        before = emit.value(hw.LoadGlobalOp(self.move.counts, where, i32))
        base = Ints(emit).sub(Ints(emit).add(lower, before), begin)
        emit.op(hw.StoreSharedOp(base, at_place(emit, self.bases, self.thread)))


@dataclass
class DigitMove(DigitPlaces):
    """The same, and writes them there."""

    def lower(self, emit: Emit) -> None:
        super().lower(emit)
        # Places are computed anew, for which there were no registers while elements moved.
        self.begin_at(emit, emit.value(hw.OpaqueOp(self.own)))
        self.groups(emit, self.write)

    def write(self, emit: Emit, r: SSAValue, count: int) -> None:
        """Elements of the sorted tile to memory: neighbours with the same value are neighbours
        there."""
        assert self.count is not None
        every = [emit.apply(affine_dim(0) + n, [r]) for n in range(count)]
        places = [self.place(emit, one) for one in every]
        values = [self.load(emit, place) for place in places]
        found: list[SSAValue] = []
        for value in values:
            digit = Ints(emit).index(self.digits.digit(emit, value, self.shift))
            found.append(emit.value(hw.LoadSharedOp(at_place(emit, self.bases, digit), i32)))
        op = self.move
        assert isinstance(op, tile.MoveByDigitOp)
        along = op.along
        for place, value, base in zip(places, values, found, strict=True):
            at = Ints(emit).index(Ints(emit).add(base, place))
            where = [*op.target_at[:along], at, *op.target_at[along:]]
            here = Ints(emit).compare("slt", place, self.count)
            emit.op(hw.StoreGlobalOp(value, op.target, where, here))


def _digits(op: tile.DigitOp, counts: SSAValue) -> Digits:
    """The digit of an op; raises PolycError ``ThreadMismatch`` for threads that do not share its
    row, or are fewer than values."""
    kind = cast("SharedType", op.row.type)
    threads, columns, values = scope_of(op).threads, kind.sizes[1], counted(counts)
    if threads % LANES or columns % threads or threads < values:
        raise PolycError(
            "ThreadMismatch",
            f"{threads} threads have {columns} elements of a tile and {values} values of a digit: "
            "whole warps, as many elements each and no more than one value; take other threads",
            op,
        )
    return Digits(kind.element_type, op.bits, op.unsigned is not None, threads, values)


class LowerCountDigit(RewritePattern):
    """``gpu.count_digit``: lanes count their elements with atomics, a warp's by themselves.

    Legality: all threads of the scope come by (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CountDigitOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        scope_barrier(emit, op)
        count = Ints(emit).of(op.count)
        DigitCount(op, Row(op.row), _digits(op, op.counts), count).lower(emit, op)
        rewriter.replace(op, emit.ops, [])


class LowerMoveByDigit(RewritePattern):
    """``gpu.move_by_digit``: the tile is sorted by the digit in shared memory, and goes to memory
    from there in runs of elements with one value.

    Legality: all threads of the scope come by (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MoveByDigitOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        scope_barrier(emit, op)
        count, digits = Ints(emit).of(op.count), _digits(op, op.counts)
        kind = SharedType.of([1, digits.values], i32, 0)
        bases = emit.value(hw.SharedTileOp(kind), "bases")
        DigitMove(op, Row(op.row), digits, count, op, bases).lower(emit)
        rewriter.replace(op, emit.ops, [])


class LowerSortByDigit(RewritePattern):
    """``gpu.sort_by_digit``: the same, but that nothing goes to memory.

    Legality: all threads of the scope come by (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.SortByDigitOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        scope_barrier(emit, op)
        count, digits = Ints(emit).of(op.count), _digits(op, op.counts)
        DigitPlaces(op, Row(op.row), digits, count, op, op.bases).lower(emit)
        rewriter.replace(op, emit.ops, [])


class LowerSumCounts(RewritePattern):
    """``gpu.sum_counts``: threads have runs of tiles, and eight neighbours the values of one.

    Legality: all threads of the scope come by (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.SumCountsOp, rewriter: PatternRewriter) -> None:
        emit, threads = Emit(), scope_of(op).threads
        if threads % TOGETHER:
            raise PolycError(
                "ThreadMismatch",
                f"{threads} threads sum the counts of {TOGETHER} values; take a multiple of that",
                op,
            )
        runs, zero = threads // TOGETHER, emit.index(0)
        parts = emit.value(hw.SharedTileOp(SharedType.of([runs, TOGETHER], i32, 0)), "parts")
        thread = thread_in_scope(emit, op)
        scope_barrier(emit, op)
        value = emit.apply(affine_dim(0) % TOGETHER, [thread])
        run = emit.apply(affine_dim(0) // TOGETHER, [thread], hint="run")
        at = emit.apply(affine_dim(0) + affine_dim(1), [op.first, value], hint="value")
        each = emit.apply((affine_dim(0) + (runs - 1)) // runs, [op.tiles])
        begin = emit.value(arith.MuliOp(run, each), "begin")
        end = emit.value(arith.AddiOp(begin, each))
        end = emit.value(arith.MinSIOp(end, op.tiles), "end")
        total = emit.registers(1, i32, "total")

        def known(inner: Emit) -> SSAValue:
            return inner.value(memref.LoadOp.get(total, [zero]))

        def keep(inner: Emit, number: SSAValue) -> None:
            inner.op(memref.StoreOp.get(number, total, [zero]))

        def some(inner: Emit, t: SSAValue) -> list[tuple[list[SSAValue], SSAValue, SSAValue]]:
            """Where the counts of ``AT_ONCE`` tiles are, which of them are there, and what they
            are: all on their way before the first is asked for."""
            found: list[tuple[list[SSAValue], SSAValue, SSAValue]] = []
            for n in range(AT_ONCE):
                one = inner.apply(affine_dim(0) + n, [t])
                here, where = inner.compare("slt", one, end), [*op.at, one, at]
                load = hw.LoadGlobalOp(op.counts, where, i32, here)
                found.append((where, here, inner.value(load)))
            return found

        def add(inner: Emit, t: SSAValue) -> None:
            found = known(inner)
            for _, _, one in some(inner, t):
                found = Ints(inner).add(found, one)
            keep(inner, found)

        keep(emit, emit.int32(0))
        emit.loop(end, add, start=begin, step=AT_ONCE, hint="t")

        def part(inner: Emit, which: SSAValue) -> SSAValue:
            return inner.value(tile.ElementAddressOp(parts, zero, which, value))

        emit.op(hw.StoreSharedOp(known(emit), part(emit, run)))
        scope_barrier(emit, op)
        keep(emit, emit.int32(0))

        def before(inner: Emit, other: SSAValue) -> None:
            one = inner.value(hw.LoadSharedOp(part(inner, other), i32))
            keep(inner, Ints(inner).add(known(inner), one))

        emit.loop(run, before, hint="other")

        def write(inner: Emit, t: SSAValue) -> None:
            found = known(inner)
            for where, here, one in some(inner, t):
                inner.op(hw.StoreGlobalOp(found, op.counts, where, here))
                found = Ints(inner).add(found, one)
            keep(inner, found)

        emit.loop(end, write, start=begin, step=AT_ONCE, hint="t")
        last = emit.compare("eq", run, emit.index(runs - 1))

        def tell(inner: Emit) -> None:
            inner.op(hw.StoreGlobalOp(known(inner), op.totals, [*op.at, at]))

        emit.when(last, tell)
        rewriter.replace(op, emit.ops, [])


DIGIT_PATTERNS: list[RewritePattern] = [
    LowerCountDigit(),
    LowerSumCounts(),
    LowerMoveByDigit(),
    LowerSortByDigit(),
]
