"""The pattern that lowers ``gpu.reduce_scatter``: parts pushed to their CTAs, and combined (T2).

Every CTA stores part c of its fragment into the shared memory of CTA c, in a slot of its own, and
CTA c combines its slots in their order.  Nobody reads another CTA's memory, so that none has to
outlast another: a CTA goes on when all have written to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import memref
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.cluster_meeting import check_once, meet_once
from polyc.passes.support.gpu.combine import combine, element_of, neutral
from polyc.passes.support.gpu.scope import scope_of, thread_in_scope
from polyc.passes.support.gpu.spread import Spread
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import (
    load_registers,
    spread_of,
    when_needed,
    wide,
)
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim

VECTOR = 4
"""Registers of 32 bits that a thread stores or loads at once."""


class LowerReduceScatter(RewritePattern):
    """Push parts to the CTAs of a cluster, wait for theirs, and combine by rank.

    A thread sends the registers of part c to the thread of its number in CTA c, which holds the
    same places of it, so that neighbours store and load neighbouring vectors.

    Legality: each CTA of the cluster has a part (``BadScatter``), which lies alike in a thread's
    registers (``LayoutConflict``); all threads of the cluster's scopes come by, once
    (``DivergentBarrier``).  The order of the sums is that of the
    ranks.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ReduceScatterOp, rewriter: PatternRewriter) -> None:
        check_parts(op)
        check_once(op)
        part, registers = parts_of(op)
        count = op.parts
        width = next(w for w in (VECTOR, 2, 1) if len(part.registers) % w == 0)
        scope = scope_of(op)
        element = element_of(op)
        vectors = len(part.registers) // width
        emit = Emit()
        area = SharedType.of([count * vectors, scope.threads * width], element, 0)
        mail = emit.value(hw.SharedTileOp(area), "mail")
        thread, zero = thread_in_scope(emit, op), emit.index(0)
        rank = emit.value(hw.ClusterRankOp(), "rank")
        column = emit.apply(affine_dim(0) * width, [thread], hint="column")
        mine = emit.apply(affine_dim(0) * vectors, [rank], hint="slot")
        source, target = registers_of(emit, op.source), registers_of(emit, op.target)
        groups = self.groups(emit, op, part, width, thread)

        def send(inner: Emit, members: Sequence[int]) -> None:
            for peer, held in enumerate(registers):
                for v in members:
                    moved = held[v * width : (v + 1) * width]
                    values = [load_registers(inner, source, inner.index(r), 1) for r in moved]
                    value = values[0] if width == 1 else inner.value(hw.PackOp(values))
                    row = inner.apply(affine_dim(0) + v, [mine])
                    here = inner.value(tile.ElementAddressOp(mail, zero, row, column))
                    there = inner.value(hw.MapSharedOp(here, inner.index(peer)))
                    inner.op(hw.StoreClusterOp(value, there))

        for members, inside in groups:
            when_needed(emit, inside, lambda inner, members=members: send(inner, members))
        meet_once(emit, op, count, rewriter)

        def receive(inner: Emit, members: Sequence[int]) -> None:
            kind = op.kind.data
            for v in members:
                totals: list[SSAValue] = []
                for peer in range(count):
                    row = inner.index(peer * vectors + v)
                    address = inner.value(tile.ElementAddressOp(mail, zero, row, column))
                    loaded = inner.value(hw.LoadSharedOp(address, wide(element, width)))
                    lanes = list(self.lanes(inner, loaded, width))
                    pairs = zip(totals, lanes, strict=True) if peer else ()
                    totals = [combine(inner, kind, a, b) for a, b in pairs] or lanes
                for lane, total in enumerate(totals):
                    inner.op(memref.StoreOp.get(total, target, [inner.index(v * width + lane)]))

        if op.rows is not None:
            nothing = neutral(emit, op.kind.data, element)
            for r in range(len(part.registers)):
                emit.op(memref.StoreOp.get(nothing, target, [emit.index(r)]))
        for members, inside in groups:
            when_needed(emit, inside, lambda inner, members=members: receive(inner, members))
        for new in emit.ops:
            located(new, op)
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def groups(
        emit: Emit, op: tile.ReduceScatterOp, part: Spread, width: int, thread: SSAValue
    ) -> list[tuple[list[int], SSAValue | None]]:
        """The vectors of a part by their first rows, and whether the thread's are inside.

        What lies outside is not sent.  All vectors and no condition where the op has no ``rows``.
        """
        vectors = range(len(part.registers) // width)
        if op.rows is None:
            return [(list(vectors), None)]
        row_of = spread_of(op.target, op)[0].map.data.results[0]
        by_row: dict[int, list[tuple[int, int]]] = {}
        for v in vectors:
            lanes = range(v * width, (v + 1) * width)
            first = min(lanes, key=lambda r: part.registers[r][0])
            by_row.setdefault(part.registers[first][0], []).append((v, first))
        found: list[tuple[list[int], SSAValue | None]] = []
        for members in by_row.values():
            row = emit.apply(row_of, [thread, emit.index(members[0][1])], hint="row")
            found.append(([v for v, _ in members], emit.compare("slt", row, op.rows)))
        return found

    @staticmethod
    def lanes(emit: Emit, value: SSAValue, width: int) -> Iterator[SSAValue]:
        """The elements of a vector."""
        for lane in range(width):
            yield value if width == 1 else emit.value(hw.UnpackOp(value, lane))


def check_parts(op: tile.ReduceScatterOp) -> None:
    """Refuse other parts than one for each CTA; raises PolycError ``BadScatter``."""
    if (why := op.misfit(enclosing_kernel(op).cluster_size)) is not None:
        raise PolycError("BadScatter", why, op)


def parts_of(op: tile.ReduceScatterOp) -> tuple[Spread, tuple[tuple[int, ...], ...]]:
    """How a part lies, and the source's registers of each.

    Raises PolycError ``LayoutConflict`` where the target does not lie so, or no part does, and
    ``UnsupportedReduce`` for elements that are no number of 32 bits.
    """
    element_of(op)
    layout, spread = spread_of(op.source, op)
    where, target = spread_of(op.target, op)
    try:
        part, registers = spread.parts(op.parts)
    except ValueError as error:
        raise PolycError(
            "LayoutConflict",
            f"gpu.reduce_scatter to {op.parts} parts of {layout}: {error}; annotate another layout",
            op,
        ) from None
    if part != target:
        raise PolycError(
            "LayoutConflict",
            f"a part of this fragment lies in {part.layout()} and not in {where}; leave the "
            "target's layout open",
            op,
        )
    return part, registers
