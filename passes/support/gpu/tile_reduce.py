"""Patterns that lower ``gpu.reduce``: inside threads, then between the lanes of a warp (T2).

A reduction's result first lies where its elements did (``Spread.image``): each thread combines
what it holds.  Threads that hold parts of one result then combine these by shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import memref, scf
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.combine import CHAINS, combine, element_of, neutral
from polyc.passes.support.gpu.scope import scope_of, thread_in_scope
from polyc.passes.support.gpu.spread import Spread
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import spread_of
from polyc.rewriting.emit import Emit

WARP = 32

WORTH_CHAINS = 8
"""Elements of one result from which on a thread keeps more than one partial result."""


LANES = 32


@dataclass(frozen=True)
class Parts:
    """Which of a thread's partial results each of its registers belongs to.

    The thread holds ``results`` results in ``chains`` parts each; register ``r`` goes to part
    ``of[r]``, and result ``k`` has parts ``chains k`` and up.
    """

    results: int
    chains: int
    of: tuple[int, ...]

    @staticmethod
    def spread(which: tuple[int, ...]) -> Parts:
        """Deal the registers of each result out to its parts, from ``Spread.ranks``."""
        results = max(which) + 1
        seen = [0] * results
        least = min(which.count(k) for k in range(results))
        chains = CHAINS if least >= WORTH_CHAINS else 1
        of: list[int] = []
        for k in which:
            of.append(k * chains + seen[k] % chains)
            seen[k] += 1
        return Parts(results, chains, tuple(of))

    @property
    def first(self) -> bool:
        """Whether the first registers are the parts' first elements, one each in order."""
        count = self.results * self.chains
        return self.of[:count] == tuple(range(count))


def table_expr(table: tuple[int, ...]) -> AffineExpr | None:
    """A table as a function of its index; None where it follows no digits."""
    try:
        return Spread(((0,),), tuple((v,) for v in table)).register_expr()
    except ValueError:
        return None


class LowerReduce(RewritePattern):
    """Each thread combines its own elements, in ``CHAINS`` parts where there are many; lanes that
    hold elements of one result exchange theirs; the old value takes part last.

    Legality: all elements of a result lie in one warp, or in threads that hold the same ones.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ReduceOp, rewriter: PatternRewriter) -> None:
        kind = op.kind.data
        _, source = spread_of(op.source, op)
        _, target = spread_of(op.target, op)
        element_of(op)
        try:
            image, which = source.image(op.by.data), source.ranks(op.by.data)
            rank = len(op.by.data.results)
            own = AffineMap(rank, 0, tuple(AffineExpr.dimension(i) for i in range(rank)))
            places = target.held(own, image)
        except ValueError as error:
            raise PolycError(
                "LayoutConflict",
                f"this reduction of {op.source.type} by {op.by.data} does not fall into "
                f"{op.target.type}: {error}; leave the target's layout open",
                op,
            ) from None
        lanes = exchanges(source, image, op)
        emit = Emit()
        partial = self.in_threads(emit, op, Parts.spread(which))
        registers = registers_of(emit, op.target)
        results: dict[int, SSAValue] = {}
        for place in dict.fromkeys(places):
            value = partial[place]
            for lane in lanes:
                other = emit.value(hw.ShuffleOp("xor", value, emit.index(lane)))
                value = combine(emit, kind, value, other)
            results[place] = value
        for number, place in enumerate(places):
            at, value = emit.index(number), results[place]
            if op.accumulate is not None:
                old = emit.value(memref.LoadOp.get(registers, [at]))
                value = combine(emit, kind, old, value)
            emit.op(memref.StoreOp.get(value, registers, [at]))
        rewriter.replace(op, by_holders(emit, op, len(places)), [])

    @staticmethod
    def in_threads(emit: Emit, op: tile.ReduceOp, parts: Parts) -> list[SSAValue]:
        """The thread's own results."""
        kind, count = op.kind.data, parts.results * parts.chains
        source = registers_of(emit, op.source)
        total = len(parts.of)
        if total == count and parts.first:
            return [
                emit.value(memref.LoadOp.get(source, [emit.index(k)])) for k in range(parts.results)
            ]
        element = element_of(op)
        partial = emit.registers(count, element, "partial")
        start = count if parts.first else 0
        for k in range(count):
            at = emit.index(k)
            value = (
                emit.value(memref.LoadOp.get(source, [at]))
                if parts.first
                else neutral(emit, kind, element)
            )
            emit.op(memref.StoreOp.get(value, partial, [at]))

        def add(inner: Emit, r: SSAValue, part: SSAValue) -> None:
            old = inner.value(memref.LoadOp.get(partial, [part]))
            new = inner.value(memref.LoadOp.get(source, [r]))
            inner.op(memref.StoreOp.get(combine(inner, kind, old, new), partial, [part]))

        expr = table_expr(parts.of[start:])
        if expr is None:
            for r in range(start, total):
                add(emit, emit.index(r), emit.index(parts.of[r]))
        else:

            def body(inner: Emit, r: SSAValue) -> None:
                add(
                    inner, inner.apply(AffineExpr.dimension(0) + start, [r]), inner.apply(expr, [r])
                )

            emit.loop(total - start, body, unroll=True, hint="r")
        found: list[SSAValue] = []
        for k in range(parts.results):
            value = emit.value(memref.LoadOp.get(partial, [emit.index(k * parts.chains)]))
            for chain in range(1, parts.chains):
                at = emit.index(k * parts.chains + chain)
                value = combine(emit, kind, value, emit.value(memref.LoadOp.get(partial, [at])))
            found.append(value)
        return found


def exchanges(source: Spread, image: Spread, op: tile.ReduceOp) -> list[int]:
    """The lane distances at which threads hold other elements of the same results.

    Lanes that hold the very same elements have nothing to exchange.  Raises PolycError
    ``NotLowered`` where elements of one result lie in several warps.
    """
    if op.cluster is not None:
        raise PolycError("NotLowered", "nothing lowers a reduction over a cluster yet", op)
    found: list[int] = []
    threads = len(source.threads)
    for bit in range(WARP.bit_length() - 1):
        lane = 1 << bit
        if lane >= threads:
            break
        pairs = [(t, t ^ lane) for t in range(threads) if t ^ lane < threads]
        same = {image.threads[a] == image.threads[b] for a, b in pairs}
        moved = {source.threads[a] != source.threads[b] for a, b in pairs}
        if len(same) > 1 or len(moved) > 1:
            raise PolycError(
                "NotLowered", f"lanes {lane} apart do not all hold parts of one result", op
            )
        if same == {True} and moved == {True}:
            found.append(lane)
    holders: dict[tuple[int, ...], set[int]] = {}
    for thread, place in enumerate(image.threads):
        holders.setdefault(place, set()).add(thread // WARP)
    for place, warps in holders.items():
        held = {
            frozenset(
                source.threads[t]
                for t in range(WARP * w, min(threads, WARP * w + WARP))
                if image.threads[t] == place
            )
            for w in warps
        }
        if len(held) > 1:
            raise PolycError(
                "NotLowered",
                f"elements of one result lie in {len(warps)} warps; nothing lowers that yet",
                op,
            )
    return found


def by_holders(emit: Emit, op: tile.ReduceOp, results: int) -> list[Operation]:
    """What was emitted, by the warps that hold what is reduced alone; others have as many results
    over nothing."""
    layout, _ = spread_of(op.source, op)
    threads = layout.threads.data
    if threads % LANES or threads == scope_of(op).threads:
        return emit.ops
    outer, other = Emit(), Emit()
    holds = outer.compare("slt", thread_in_scope(outer, op), outer.index(threads))
    if op.accumulate is None:
        nothing, registers = (
            neutral(other, op.kind.data, element_of(op)),
            registers_of(other, op.target),
        )
        for number in range(results):
            other.op(memref.StoreOp.get(nothing, registers, [other.index(number)]))
    taken, left = ([*one.ops, scf.YieldOp()] for one in (emit, other))
    outer.op(scf.IfOp(holds, [], taken, left))
    return outer.ops
