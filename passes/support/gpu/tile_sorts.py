"""Patterns that lower sorts and pools: networks of comparisons by all threads of a block (T2)."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.digit_sorts import LANES, Digits, DigitSort
from polyc.passes.support.gpu.scope import (
    check_together,
    scope_any,
    scope_barrier,
    scope_of,
    thread_in_scope,
)
from polyc.passes.support.gpu.sort_networks import BITS, Ints, Network, Row, largest_number
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import spread_of
from polyc.rewriting.emit import Emit

STEPS, TOGETHER = 3, 4
"""Steps at once, and elements of a lane, of a network whose kernel does nothing else; a pool's is
short, as threads keep its registers while elements go by."""


class LowerSort(RewritePattern):
    """``gpu.sort`` as a network over the row where it lies, or digit by digit (``by``).

    Legality, exact: all threads of the scope come by, or the op is refused (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.SortOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        most = op.row.type.sizes[1] if isinstance(op.row.type, SharedType) else 1 << BITS
        scope_barrier(emit, op)
        if op.by is not None:
            self.by_digits(emit, op)
            rewriter.replace(op, emit.ops, [])
            return
        network = Network(op, op.unsigned is not None, STEPS, TOGETHER)
        network.sort(emit, Row(op.row, tuple(op.at), op.along), Ints(emit).of(op.count), most)
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def by_digits(emit: Emit, op: tile.SortOp) -> None:
        """The row digit by digit; raises PolycError ``ThreadMismatch`` where threads do not have
        as many elements each."""
        kind = op.row.type
        assert isinstance(kind, SharedType) and op.by is not None
        threads, columns = scope_of(op).threads, kind.sizes[1]
        if threads % LANES or columns % threads:
            raise PolycError(
                "ThreadMismatch",
                f"{threads} threads sort a row of {columns} elements by bits, which they do not "
                "share evenly in whole warps; take a multiple of them",
                op,
            )
        known = op.count.owner
        whole = isinstance(known, arith.ConstantOp) and number_of(known) == columns
        bits = op.by.data[0], op.by.data[1]
        digits = Digits(kind.element_type, bits, op.unsigned is not None, threads)
        count = None if whole else Ints(emit).of(op.count)
        DigitSort(op, Row(op.row), digits, count).run(emit)


def number_of(op: arith.ConstantOp) -> int:
    """The integer that a constant is."""
    return cast("IntegerAttr[IndexType]", op.value).value.data


class LowerKeepNone(RewritePattern):
    """``gpu.keep_none``: one thread says that nothing is held, and that all is below the bound."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.KeepNoneOp, rewriter: PatternRewriter) -> None:
        emit, pool = Emit(), Row(op.pool)
        scope_barrier(emit, op)

        def clear(inner: Emit) -> None:
            Row(op.held).store(inner, inner.int32(0), inner.int32(0))
            bound = largest_number(inner, pool.element, op.unsigned is not None)
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
            value = largest_number(inner, pool.element, op.unsigned is not None)
            inner.when(beyond, lambda last: pool.store(last, Ints(last).of(place), value))

        emit.loop(most, fill, step=threads, start=thread)
        scope_barrier(emit, op)
        Network(op, op.unsigned is not None).sort_few(emit, pool, count, op.room)
        rewriter.replace(op, emit.ops, [])


SORT_PATTERNS: list[RewritePattern] = [
    LowerSort(),
    LowerKeepNone(),
    LowerKeepLeast(),
    LowerKept(),
]
