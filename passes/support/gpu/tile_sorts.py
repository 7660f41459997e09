"""Patterns that lower sorts and pools: networks of comparisons by all threads of a block (T2).

A row of any length is sorted by a bitonic network (K. E. Batcher, *Sorting networks and their
applications*, 1968) in which every comparison leaves the smaller element in front: the first step
of each merge compares elements from both ends of a block inwards.  What would lie behind the end
of the row is larger than all, never moves, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import GlobalType, SharedType
from polyc.passes.support.gpu.scope import (
    check_together,
    scope_any,
    scope_barrier,
    scope_of,
    thread_in_scope,
)
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import spread_of
from polyc.rewriting.emit import INDEX, Emit

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
        """The network by the first ``threads`` threads, which ``meet`` after each step."""
        thread = thread_in_scope(emit, self.op)

        def level(outer: Emit, number: SSAValue) -> None:
            half = Ints(outer).shl(1, number)

            def merge(inner: Emit) -> None:
                steps = Ints(inner).index(Ints(inner).add(number, 1))
                inner.loop(steps, lambda emit, t: step(emit, number, half, t), hint="step")

            # A block of this size is no row's whose half holds the row.
            outer.when(Ints(outer).compare("slt", half, count), merge)

        def step(emit: Emit, number: SSAValue, half: SSAValue, t: SSAValue) -> None:
            ints = Ints(emit)
            far = ints.sub(number, t)
            distance = ints.shl(1, far)
            turned = ints.sub(ints.shl(half, 1), 1)
            other = emit.value(arith.SelectOp(ints.compare("eq", t, 0), turned, distance))
            more = ints.add(far, 1)
            inside = ints.sub(distance, 1)
            # Elements in front of their partners, of which there are so many in the row.
            rest = ints.both(count, ints.either(inside, distance))
            pairs = ints.add(ints.shl(ints.shr(count, more), far), ints.least(rest, distance))

            def pair(emit: Emit, p: SSAValue) -> None:
                ints = Ints(emit)
                first = ints.either(ints.shl(ints.shr(p, far), more), ints.both(p, inside))
                second = ints.xor(first, other)

                def exchange(emit: Emit) -> None:
                    one, two = row.load(emit, first), row.load(emit, second)

                    def swap(emit: Emit) -> None:
                        row.store(emit, first, two)
                        row.store(emit, second, one)

                    emit.when(self.less(emit, two, one), swap)

                emit.when(ints.compare("slt", second, count), exchange)

            emit.loop(ints.index(pairs), pair, step=threads, start=thread, hint="pair")
            meet(emit)

        emit.loop(max(0, most - 1).bit_length(), level, hint="level")


class LowerSort(RewritePattern):
    """``gpu.sort`` as a network over the row where it lies.

    Legality, exact: all threads of the scope come by, or the op is refused (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.SortOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        most = op.row.type.sizes[1] if isinstance(op.row.type, SharedType) else 1 << BITS
        scope_barrier(emit, op)
        network = Network(op, op.unsigned is not None)
        network.sort(emit, Row(op.row, tuple(op.at), op.along), Ints(emit).of(op.count), most)
        rewriter.replace(op, emit.ops, [])


class LowerKeepNone(RewritePattern):
    """``gpu.keep_none``: one thread says that nothing is held, and that all is below the bound."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.KeepNoneOp, rewriter: PatternRewriter) -> None:
        emit, pool = Emit(), Row(op.pool)
        scope_barrier(emit, op)

        def clear(inner: Emit) -> None:
            Row(op.held).store(inner, inner.int32(0), inner.int32(0))
            bound = _largest(inner, pool.element, op.unsigned is not None)
            pool.store(inner, inner.int32(op.room), bound)

        emit.when(emit.compare("eq", thread_in_scope(emit, op), emit.index(0)), clear)
        rewriter.replace(op, emit.ops, [])


class LowerKeepLeast(RewritePattern):
    """``gpu.keep_least``: each thread puts those of its elements that are below the bound behind
    what is held, at places that an atomic count gives.

    Which place an element has depends on the order of threads, and nothing else does: what the pool
    gives in the end is sorted.  Legality: all threads of the scope come by (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.KeepLeastOp, rewriter: PatternRewriter) -> None:
        layout, _ = spread_of(op.fragment, op)
        check_together(op)
        emit, pool, held = Emit(), Row(op.pool), Row(op.held)
        network = Network(op, op.unsigned is not None)
        keep = op.keep.value.data
        scope_barrier(emit, op)
        count = held.load(emit, emit.int32(0))
        full = scope_any(emit, op, Ints(emit).compare("sgt", count, op.most))

        def settle(inner: Emit) -> None:
            network.sort_few(inner, pool, count, op.room)

            def drop(last: Emit) -> None:
                held.store(last, last.int32(0), last.int32(keep))
                bound = pool.load(last, last.int32(keep - 1))
                pool.store(last, last.int32(op.room), bound)

            first = inner.compare("eq", thread_in_scope(inner, op), inner.index(0))
            inner.when(first, drop)
            scope_barrier(inner, op)

        emit.when(full, settle)
        bound = pool.load(emit, emit.int32(op.room))
        registers = registers_of(emit, op.fragment)
        mine: SSAValue | None = None
        if layout.threads.data < scope_of(op).threads:
            thread = thread_in_scope(emit, op)
            mine = emit.compare("slt", thread, emit.index(layout.threads.data))

        def bring(inner: Emit, r: SSAValue) -> None:
            value = inner.value(memref.LoadOp.get(registers, [r]))

            def put(last: Emit) -> None:
                zero = last.index(0)
                address = last.value(tile.ElementAddressOp(op.held, zero, zero, zero))
                place = last.value(hw.FetchAddSharedOp(last.int32(1), address))
                pool.store(last, place, value)

            inner.when(inner.both(mine, network.less(inner, value, bound)), put)

        emit.loop(layout.registers.data, bring, unroll=True, hint="r")
        rewriter.replace(op, emit.ops, [])


class LowerKept(RewritePattern):
    """``gpu.kept``: what is held is sorted, with the largest number behind it.

    Legality, exact: all threads of the scope come by, or the op is refused (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.KeptOp, rewriter: PatternRewriter) -> None:
        emit, pool = Emit(), Row(op.pool)
        most = op.fill.value.data
        scope_barrier(emit, op)
        count = Row(op.held).load(emit, emit.int32(0))
        thread, threads = thread_in_scope(emit, op), scope_of(op).threads

        def fill(inner: Emit, place: SSAValue) -> None:
            beyond = Ints(inner).compare("sge", place, count)
            value = _largest(inner, pool.element, op.unsigned is not None)
            inner.when(beyond, lambda last: pool.store(last, Ints(last).of(place), value))

        emit.loop(most, fill, step=threads, start=thread)
        scope_barrier(emit, op)
        Network(op, op.unsigned is not None).sort_few(emit, pool, count, op.room)
        rewriter.replace(op, emit.ops, [])


def _largest(emit: Emit, element: Attribute, unsigned: bool) -> SSAValue:
    kind = cast("IntegerType", element)
    return emit.value(arith.ConstantOp(IntegerAttr(largest(kind, unsigned), kind)))


SORT_PATTERNS: list[RewritePattern] = [
    LowerSort(),
    LowerKeepNone(),
    LowerKeepLeast(),
    LowerKept(),
]
