"""The pattern that lowers ``gpu.reduce`` across warps and across the CTAs of a cluster (T2).

The source's layout says who holds what.  A thread first combines its own registers that fall
together, then the lanes of a warp (``tile_reduce.py``).  Warps that share a place meet in shared
memory; the CTAs of a cluster send their results to each other through distributed shared memory.
Every step has an order that the layout fixes, so that a sum is the same on every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, memref
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType, element_bytes
from polyc.passes.support.gpu.cluster_meeting import check_once, meet_once
from polyc.passes.support.gpu.combine import CHAINS, combine, element_of, neutral
from polyc.passes.support.gpu.scope import in_loop, scope_barrier, scope_of, thread_in_scope
from polyc.passes.support.gpu.spread import Point, Spread
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_copies import CHUNK_BYTES
from polyc.passes.support.gpu.tile_fragments import spread_of, wide
from polyc.rewriting.emit import Emit, affine_dim

LANES = 32
"""Threads of a warp."""


@dataclass(frozen=True)
class Exchange:
    """Which threads combine what: derived from the tables of the source and of its image.

    ``lanes`` are the masks of the shuffles, ``kept`` the weights of the lane's bits that stand for
    places of their own.  Warps fall into classes that share places: ``members[w]`` are the warps
    whose results warp ``w`` combines, and ``classes[w]`` is the number of its class.
    """

    lanes: tuple[int, ...]
    kept: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]
    classes: tuple[int, ...]

    @property
    def crosses_warps(self) -> bool:
        return len(self.members[0]) > 1

    @property
    def class_count(self) -> int:
        return max(self.classes) + 1

    @staticmethod
    def of(source: Spread, image: Spread) -> Exchange:
        """Raises ValueError where the threads of a place are no lanes and warps of a pattern."""
        count = len(source.threads)
        if count % LANES:
            raise ValueError(f"{count} threads are no whole warps")
        lanes: list[int] = []
        kept: list[int] = []
        for bit in (1, 2, 4, 8, 16):
            apart = {source.threads[t ^ bit] != source.threads[t] for t in range(count)}
            away = {image.threads[t ^ bit] != image.threads[t] for t in range(count)}
            if len(away) > 1 or (away == {False} and len(apart) > 1):
                raise ValueError(f"lanes {bit} apart share a place in some warps only")
            if away == {True}:
                kept.append(bit)
            elif apart == {True}:
                lanes.append(bit)
        groups: dict[Point, dict[Point, int]] = {}
        for warp in range(count // LANES):
            first = warp * LANES
            groups.setdefault(image.threads[first], {}).setdefault(source.threads[first], warp)
        sizes = {len(group) for group in groups.values()}
        if len(sizes) > 1:
            raise ValueError("some places lie in more warps than others")
        order = list(groups)
        numbers = [order.index(image.threads[w * LANES]) for w in range(count // LANES)]
        members = [tuple(groups[image.threads[w * LANES]].values()) for w in range(len(numbers))]
        return Exchange(tuple(lanes), tuple(kept), tuple(members), tuple(numbers))


def exchange_of(op: tile.ReduceOp) -> tuple[Spread, Spread, Exchange]:
    """The source's tables, its image, and the exchange between threads.

    Raises PolycError ``LayoutConflict`` where shuffles and shared memory cannot do it.
    """
    layout, source = spread_of(op.source, op)
    try:
        image = source.image(op.by.data)
        return source, image, Exchange.of(source, image)
    except ValueError as error:
        raise PolycError(
            "LayoutConflict", f"gpu.reduce by {op.by.data} of {layout}: {error}", op
        ) from None


def in_role(op: Operation) -> bool:
    """Whether some threads of the CTA do not come to ``op``, as they have another role."""
    return scope_of(op).threads < enclosing_kernel(op).threads.value.data


def meets_again(op: tile.ReduceOp) -> bool:
    """Whether all threads of the op's scope (its cluster) meet elsewhere in the op's block.

    Then a scratch area is read by all before it is written again, an iteration later.
    """
    block = op.parent
    assert isinstance(block, Block)
    for other in block.ops:
        if other is op:
            continue
        if isinstance(other, hw.ClusterBarrierOp):
            return True
        if isinstance(other, tile.ReduceOp) and other.cluster is not None:
            return True
        if op.cluster is not None:
            continue
        if isinstance(other, hw.BarrierOp) or (
            isinstance(other, tile.ReduceOp) and exchange_of(other)[2].crosses_warps
        ):
            return True
        if (
            isinstance(other, hw.NamedBarrierOp)
            and other.threads.value.data == scope_of(op).threads
        ):
            return True
    return False


def start_cluster(op: Operation, rewriter: PatternRewriter) -> None:
    """Let the CTAs of the cluster meet where the kernel begins: a peer's memory is there once it
    has started."""
    block = enclosing_kernel(op).body.block
    first = next((o for o in block.ops if not isinstance(o, arith.ConstantOp)), None)
    if isinstance(first, hw.ClusterBarrierOp):
        return
    barrier = hw.ClusterBarrierOp()
    barrier.location = op.location
    rewriter.insert(barrier, InsertPoint.at_start(block))


class LowerReduceAcross(RewritePattern):
    """Combine what falls together in several warps or CTAs, step by step.

    Legality: what a thread of the target holds is what it has after these steps, the image of
    the source's layout.  A scratch area that a loop uses again is guarded by a barrier, unless
    the threads meet elsewhere in the loop; a role's threads meet those of other CTAs once
    (``DivergentBarrier``).  Exact for max and min; a sum has the layout's order.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ReduceOp, rewriter: PatternRewriter) -> None:
        source, image, exchange = exchange_of(op)
        cluster = enclosing_kernel(op).cluster_size if op.cluster is not None else 1
        if not exchange.crosses_warps and cluster == 1:
            return
        element = element_of(op)
        _, target = spread_of(op.target, op)
        own = AffineMap(image.rank, 0, tuple(affine_dim(i) for i in range(image.rank)))
        try:
            places = image.held(own, target)
        except ValueError as error:
            raise PolycError(
                "LayoutConflict",
                f"the result of this reduction lies in {image.layout()} and not in "
                f"{op.target.type}: {error}; leave the target's layout open",
                op,
            ) from None
        emit = Emit()
        kind = op.kind.data
        values = self.in_thread(emit, op, source, len(image.registers))
        for mask in exchange.lanes:
            distance = emit.index(mask)
            values = [
                combine(emit, kind, v, emit.value(hw.ShuffleOp("xor", v, distance))) for v in values
            ]
        apart = cluster > 1 and in_role(op)
        if apart:
            check_once(op)
        guarded = in_loop(op) and (exchange.crosses_warps or cluster > 1) and not meets_again(op)
        if guarded and cluster > 1:
            emit.op(hw.ClusterBarrierOp())
        elif guarded:
            scope_barrier(emit, op)
        if exchange.crosses_warps:
            values = self.across_warps(emit, op, exchange, values)
        if cluster > 1:
            if not apart:
                start_cluster(op, rewriter)

            def meet() -> None:
                if apart:
                    meet_once(emit, op, cluster, rewriter)
                else:
                    emit.op(hw.ClusterBarrierOp())

            values = self.across_cluster(emit, op, exchange, values, cluster, meet)
        registers = registers_of(emit, op.target)
        for place, value in zip(places, values, strict=True):
            at = emit.index(place)
            if op.accumulate is not None:
                old = emit.value(memref.LoadOp.get(registers, [at]))
                value = combine(emit, kind, old, value)
            emit.op(memref.StoreOp.get(value, registers, [at]))
        if op.accumulate is None and len(target.registers) > len(places):
            nothing = neutral(emit, kind, element)
            for place in sorted(set(range(len(target.registers))) - set(places)):
                emit.op(memref.StoreOp.get(nothing, registers, [emit.index(place)]))
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def in_thread(emit: Emit, op: tile.ReduceOp, source: Spread, places: int) -> list[SSAValue]:
        """The thread's own registers, each element once, combined in ``CHAINS`` chains a place."""
        registers = registers_of(emit, op.source)
        chains: list[list[SSAValue]] = [[] for _ in range(places)]
        seen: set[Point] = set()
        turns = [0] * places
        for r, place in enumerate(source.ranks(op.by.data)):
            if source.registers[r] in seen:
                continue
            seen.add(source.registers[r])
            value = emit.value(memref.LoadOp.get(registers, [emit.index(r)]))
            chain, turn = chains[place], turns[place] % CHAINS
            turns[place] += 1
            if turn < len(chain):
                chain[turn] = combine(emit, op.kind.data, chain[turn], value)
            else:
                chain.append(value)
        found: list[SSAValue] = []
        for first, *rest in chains:
            for other in rest:
                first = combine(emit, op.kind.data, first, other)
            found.append(first)
        return found

    @staticmethod
    def lane_place(emit: Emit, exchange: Exchange, lane: SSAValue) -> SSAValue:
        """The number of the lane's place among those of its warp."""
        place: AffineExpr = AffineExpr.constant(0)
        for i, bit in enumerate(exchange.kept):
            place = place + affine_dim(0) // bit % 2 * (1 << i)
        return emit.apply(place, [lane])

    @staticmethod
    def speaks(emit: Emit, exchange: Exchange, lane: SSAValue) -> SSAValue | None:
        """Whether the lane is the first that has its place; None where each has its own."""
        predicate: SSAValue | None = None
        if not exchange.kept:
            return emit.compare("eq", lane, emit.index(0))
        for bit in (1, 2, 4, 8, 16):
            if bit not in exchange.kept:
                digit = emit.apply(affine_dim(0) // bit % 2, [lane])
                predicate = emit.both(predicate, emit.compare("eq", digit, emit.index(0)))
        return predicate

    def across_warps(
        self, emit: Emit, op: tile.ReduceOp, exchange: Exchange, values: list[SSAValue]
    ) -> list[SSAValue]:
        """Every warp leaves its results in shared memory, and reads those of its class."""
        thread = thread_in_scope(emit, op)
        lane = emit.apply(affine_dim(0) % LANES, [thread], hint="lane")
        warp = emit.apply(affine_dim(0) // LANES, [thread], hint="warp")
        width = len(values) << len(exchange.kept)
        warps = len(exchange.members)
        instances = 1
        scope = scope_of(op)
        if scope.number is not None:
            instances = enclosing_kernel(op).threads.value.data // scope.threads
        element = element_of(op)
        area = SharedType.of([warps * instances, width], element, 0)
        scratch = emit.value(hw.SharedTileOp(area), "partials")
        zero = emit.index(0)
        place = self.lane_place(emit, exchange, lane)
        shifted = warp
        if scope.number is not None:
            shifted = emit.apply(
                affine_dim(0) + affine_dim(1) * warps, [warp, scope.number], hint="warp"
            )

        many = len(values)
        # In a loop: where it is done once, vectors take registers beside what is combined, and
        # kernels that hold rows have none left.
        most = CHUNK_BYTES // element_bytes(element) if in_loop(op) else 1
        wides = [n for n in (1, 2, 4) if n <= most]
        step = max(n for n in wides if many % n == 0)

        def address(inner: Emit, row: SSAValue, q: int) -> SSAValue:
            own = (
                affine_dim(0) * many + q if step > 1 else affine_dim(0) + (q << len(exchange.kept))
            )
            column = inner.apply(own, [place])
            return inner.value(tile.ElementAddressOp(scratch, zero, row, column))

        def leave(inner: Emit) -> None:
            for q in range(0, many, step):
                some = values[q : q + step]
                value = some[0] if step == 1 else inner.value(hw.PackOp(some))
                inner.op(hw.StoreSharedOp(value, address(inner, shifted, q)))

        self.when(emit, self.speaks(emit, exchange, lane), leave)
        scope_barrier(emit, op)
        # Members of a class lie at the same distances from its first one.
        starts = [group[0] for group in exchange.members]
        steps = {tuple(w - group[0] for w in group) for group in exchange.members}
        if len(steps) > 1:
            raise PolycError("LayoutConflict", "warps that share a place follow no pattern", op)
        (distances,) = steps
        base = Spread(((0,),), tuple((s,) for s in starts)).register_expr()
        if scope.number is not None:
            first = emit.apply(base + affine_dim(1) * warps, [warp, scope.number])
        else:
            first = emit.apply(base, [warp])
        count = len(distances)
        kind = op.kind.data
        if not exchange.kept and count & (count - 1) == 0 and count <= LANES:
            # All lanes have one place: each reads one member, and they combine by shuffles.
            far = Spread(((0,),), tuple((d,) for d in distances)).register_expr()
            member = emit.apply(far, [emit.apply(affine_dim(0) % count, [lane])])
            row = emit.apply(affine_dim(0) + affine_dim(1), [first, member])
            return [
                self.butterfly(
                    emit, op, emit.value(hw.LoadSharedOp(address(emit, row, q), element)), count
                )
                for q in range(len(values))
            ]
        found: list[SSAValue] = []
        for q in range(0, many, step):
            totals = list[SSAValue]()
            for distance in distances:
                row = emit.apply(affine_dim(0) + distance, [first])
                some = emit.value(hw.LoadSharedOp(address(emit, row, q), wide(element, step)))
                parts = [some]
                if step > 1:
                    parts = [emit.value(hw.UnpackOp(some, lane)) for lane in range(step)]
                pairs = zip(totals, parts, strict=False)
                totals = [combine(emit, kind, *pair) for pair in pairs] or parts
            found += totals
        return found

    @staticmethod
    def butterfly(emit: Emit, op: tile.ReduceOp, value: SSAValue, count: int) -> SSAValue:
        """Combine ``count`` neighbouring lanes, a power of two; each has the same bits after it."""
        kind = op.kind.data
        distance = 1
        while distance < count:
            other = emit.value(hw.ShuffleOp("xor", value, emit.index(distance)))
            value = combine(emit, kind, value, other)
            distance *= 2
        return value

    @staticmethod
    def when(emit: Emit, condition: SSAValue | None, body: Callable[[Emit], None]) -> None:
        if condition is None:
            body(emit)
        else:
            emit.when(condition, body)

    def across_cluster(
        self,
        emit: Emit,
        op: tile.ReduceOp,
        exchange: Exchange,
        values: list[SSAValue],
        cluster: int,
        meet: Callable[[], None],
    ) -> list[SSAValue]:
        """Every CTA sends its results to all, itself included, and combines them by rank.

        In between they ``meet``.
        """
        thread = thread_in_scope(emit, op)
        lane = emit.apply(affine_dim(0) % LANES, [thread], hint="lane")
        rank = emit.value(hw.ClusterRankOp(), "rank")
        per_class = len(values) << len(exchange.kept)
        width = per_class * exchange.class_count
        element = element_of(op)
        mail = emit.value(hw.SharedTileOp(SharedType.of([cluster, width], element, 0)), "mail")
        zero = emit.index(0)
        place = self.lane_place(emit, exchange, lane)
        if exchange.class_count > 1:
            numbers = Spread(((0,),), tuple((c,) for c in exchange.classes)).register_expr()
            warp = emit.apply(affine_dim(0) // LANES, [thread], hint="warp")
            number = emit.apply(numbers, [warp])
            place = emit.apply(affine_dim(0) + affine_dim(1) * per_class, [place, number])

        def address(inner: Emit, row: SSAValue, q: int) -> SSAValue:
            column = inner.apply(affine_dim(0) + (q << len(exchange.kept)), [place])
            return inner.value(tile.ElementAddressOp(mail, zero, row, column))

        def send(inner: Emit, q: int, peer: SSAValue) -> None:
            there = inner.value(hw.MapSharedOp(address(inner, rank, q), peer))
            inner.op(hw.StoreClusterOp(values[q], there))

        one = width == len(values)
        if one:
            # Every thread has the results: thread p sends them to peer p.
            def send_one(inner: Emit) -> None:
                for q in range(len(values)):
                    send(inner, q, thread)

            emit.when(emit.compare("slt", thread, emit.index(cluster)), send_one)
        else:

            def send_all(inner: Emit) -> None:
                for peer in range(cluster):
                    to = inner.index(peer)
                    for q in range(len(values)):
                        send(inner, q, to)

            speaks = self.speaks(emit, exchange, lane)
            firsts = self.first_warps(emit, exchange, thread)
            both = firsts if speaks is None else emit.both(firsts, speaks)
            self.when(emit, both, send_all)
        meet()
        kind = op.kind.data
        if one and cluster <= LANES and cluster & (cluster - 1) == 0:
            peer = emit.apply(affine_dim(0) % cluster, [lane])
            return [
                self.butterfly(
                    emit, op, emit.value(hw.LoadSharedOp(address(emit, peer, q), element)), cluster
                )
                for q in range(len(values))
            ]
        found: list[SSAValue] = []
        for q in range(len(values)):
            total: SSAValue | None = None
            for peer in range(cluster):
                part = emit.value(hw.LoadSharedOp(address(emit, emit.index(peer), q), element))
                total = part if total is None else combine(emit, kind, total, part)
            assert total is not None
            found.append(total)
        return found

    @staticmethod
    def first_warps(emit: Emit, exchange: Exchange, thread: SSAValue) -> SSAValue | None:
        """Whether the thread's warp is the first of its class; None where each is its own."""
        if not exchange.crosses_warps and len(exchange.members) == exchange.class_count:
            return None
        warp = emit.apply(affine_dim(0) // LANES, [thread], hint="warp")
        starts = Spread(((0,),), tuple((g[0],) for g in exchange.members)).register_expr()
        return emit.compare("eq", warp, emit.apply(starts, [warp]))
