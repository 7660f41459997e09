"""``gpu-lower-barriers``: rings as mbarriers, turns and signals as what they are (T2; PTX ISA)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    SharedType,
)
from polyc.dialects.gpu.waiting import RingType
from polyc.passes.support.gpu.grid_signals import LowerGridSignal, LowerGridWait
from polyc.passes.support.gpu.guards import copies_into
from polyc.passes.support.gpu.order_barriers import LowerOrderBarriers
from polyc.passes.support.gpu.scope import leader
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit, affine_dim

WARP = 32
WARPS_PER_GROUP = 4


class LowerRing(RewritePattern):
    """A full and an empty mbarrier a slot, made ready by one thread before any role starts.

    Full completes when the producer has announced the slot's bytes (one arrival) and they
    have come.  Empty completes when every consumer warp has arrived.  Use number ``u = i
    floordiv depth`` of a slot waits for full with parity ``u mod 2`` and for empty with the
    opposite one, so that the first acquire passes at once.

    Where some of a slot's copies are guarded, each is announced in its guard, and the producer
    arrives after the last one: a slot of which all copies are skipped is full at once.  The
    producers of all peers then arrive at each CTA's full barrier: with no bytes from a peer, its
    consumers would not know that the peer's slot was free, and release it too early.

    A ring of ``peers`` CTAs lets each of them fill all of theirs (multicast).  Empty then counts
    the consumers of all, who tell every CTA, and the cluster meets before the first use and at the
    kernel's end, since a CTA must outlive those that reach it.

    Where threads of the producer load too, all of them wait for the empty slot, one announces the
    bytes, and each such load arrives once, when all of it is there.

    Legality: all uses of the ring are acquire, wait, release and the copies that signal it.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.RingOp, rewriter: PatternRewriter) -> None:
        assert isinstance(op.ring.type, RingType)
        depth, consumers = op.ring.type.depth.data, op.consumers.value.data
        peers = op.peer_count
        if peers > 1 and (size := enclosing_kernel(op).cluster_size) != peers:
            raise PolycError(
                "BadRing",
                f"the ring spans {peers} CTAs and the kernel's clusters have {size}; give both the "
                "same number",
                op,
            )
        # An acquire counts the bytes of its copies, so it is lowered while they are there.
        users = [use.operation for use in op.ring.uses]
        users.sort(key=lambda user: not isinstance(user, tile.RingAcquireOp))
        skips = any(copies_into(u)[1] for u in users if isinstance(u, tile.RingAcquireOp))
        emit = Emit()
        full = emit.value(hw.MBarrierOp(depth), "full")
        empty = emit.value(hw.MBarrierOp(depth), "empty")
        thread = emit.value(hw.ThreadIdOp(), "thread")
        first = emit.compare("eq", thread, emit.index(0))
        copies = [u for u in users if isinstance(u, tile.CopyOp)]
        loads = sum(u.planes is not None for u in copies)
        if loads and (skips or peers > 1):
            raise PolycError(
                "BadRing",
                "threads load planes into slots of one CTA, in every iteration; drop the guard or "
                "the multicast",
                op,
            )
        announced = loads < len(copies)
        filled = loads + announced
        barriers = RingBarriers(full, empty, depth, peers, skips)

        def initialise(inner: Emit) -> None:
            def slot(body: Emit, s: SSAValue) -> None:
                body.op(hw.MBarrierInitOp(full, s, peers if skips else max(1, filled)))
                body.op(hw.MBarrierInitOp(empty, s, consumers * WARPS_PER_GROUP * peers))

            inner.loop(depth, slot, unroll=True, hint="s")
            inner.op(hw.FenceMBarrierInitOp())

        emit.when(first, initialise)
        emit.op(hw.BarrierOp() if peers == 1 else hw.ClusterBarrierOp())
        for user in users:
            barriers.lower(user, rewriter)
        if peers > 1:
            end = enclosing_kernel(op).body.block.last_op
            assert end is not None
            if not isinstance(end.prev_op, hw.ClusterBarrierOp):
                rewriter.insert(hw.ClusterBarrierOp(), InsertPoint.before(end))
        rewriter.replace(op, emit.ops, [None])


@dataclass(frozen=True)
class RingBarriers:
    """The mbarriers of a ring's slots.

    ``skips`` says that copies of some iterations may be skipped.
    """

    full: SSAValue
    empty: SSAValue
    depth: int
    peers: int
    skips: bool

    def lower(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace an op on the ring."""
        emit = Emit()
        match op:
            case tile.RingAcquireOp():
                s = self.slot(emit, op.iteration)
                emit.op(hw.MBarrierWaitOp(self.empty, s, self.parity(emit, op.iteration, 1)))
                self.announce(op, s, emit, rewriter)
            case tile.RingWaitOp():
                s = self.slot(emit, op.iteration)
                emit.op(hw.MBarrierWaitOp(self.full, s, self.parity(emit, op.iteration, 0)))
            case tile.RingReleaseOp():
                self.release(op, emit)
            case tile.CopyOp():
                assert op.signal_index is not None
                s = self.slot(emit, op.signal_index)
                emit.op(op.like(signal=tile.CopySignal(self.full, s)))
            case _:
                raise PolycError("BadRing", f"{op.name} does not work on a ring", op)
        for new in emit.ops:
            located(new, op)
        rewriter.replace(op, emit.ops, [])

    def slot(self, emit: Emit, iteration: SSAValue) -> SSAValue:
        return emit.apply(affine_dim(0) % self.depth, [iteration], hint="slot")

    def parity(self, emit: Emit, iteration: SSAValue, shift: int) -> SSAValue:
        uses = affine_dim(0) // self.depth + shift
        return emit.apply(uses % 2, [iteration], hint="parity")

    def release(self, op: tile.RingReleaseOp, emit: Emit) -> None:
        """One arrival a warp, at all CTAs that fill this one's slots: lane r tells CTA r."""
        lane = emit.apply(affine_dim(0) % WARP, [emit.value(hw.ThreadIdOp())], hint="lane")
        s = self.slot(emit, op.iteration)
        if self.peers > 1:
            arrive = hw.MBarrierArriveClusterOp(self.empty, s, lane, reads=True)
            tells = emit.compare("slt", lane, emit.index(self.peers))
        else:
            arrive = hw.MBarrierArriveOp(self.empty, s)
            tells = emit.compare("eq", lane, emit.index(0))
        emit.when(tells, lambda inner: inner.ops.append(arrive))

    def announce(
        self, op: tile.RingAcquireOp, slot: SSAValue, emit: Emit, rewriter: PatternRewriter
    ) -> None:
        """Announce the bytes of an acquired slot's copies, and arrive."""
        bare, guarded = copies_into(op)
        if not bare and not guarded:
            raise PolycError("BadRing", "nothing is copied into the acquired slot", op)
        sure = sum(slot_bytes(copy) for copy in bare if copy.planes is None)
        if not self.skips:
            if not sure:
                return
            expect = hw.MBarrierExpectOp(self.full, slot, sure)
            together = any(copy.planes is not None for copy in bare)
            alone = leader(emit, op) if together else None
            if alone is None:
                emit.op(expect)
            else:
                emit.when(alone, lambda then: then.ops.append(expect))
            return
        if sure:
            emit.op(hw.MBarrierAnnounceOp(self.full, slot, sure))
        for copy in guarded:
            more = located(hw.MBarrierAnnounceOp(self.full, slot, slot_bytes(copy)), copy)
            rewriter.insert(more, InsertPoint.before(copy))
        block = op.parent_block()
        assert block is not None
        outer = [block.find_ancestor_op_in_block(copy) for copy in (*bare, *guarded)]
        last = max((o for o in outer if o is not None), key=block.get_operation_index)
        arrive = Emit()
        for peer in range(self.peers):
            if self.peers == 1:
                arrive.op(hw.MBarrierArriveOp(self.full, slot))
            else:
                rank = arrive.index(peer)
                arrive.op(hw.MBarrierArriveClusterOp(self.full, slot, rank, reads=True))
        rewriter.insert([located(new, op) for new in arrive.ops], InsertPoint.after(last))


def slot_bytes(op: tile.CopyOp) -> int:
    assert isinstance(op.target.type, SharedType)
    return op.target.type.slot_bytes


@dataclass(frozen=True)
class GpuLowerBarriers(ModulePass):
    """Turn rings into mbarriers with explicit parities, counts and bytes, turns into hardware
    barriers, and signals through the grid into one thread's."""

    name = "gpu-lower-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerRing()])
        rewrite(op, [LowerOrderBarriers()])
        rewrite(op, [LowerGridSignal(), LowerGridWait()])
