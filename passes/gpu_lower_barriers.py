"""``gpu-lower-barriers``: rings as mbarriers, turns and signals as what they are (T2; PTX ISA)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import RingType, SharedType
from polyc.passes.driver import located, rewrite
from polyc.passes.emit import Emit, affine_dim
from polyc.passes.gpu_grid_signals import LowerGridSignal, LowerGridWait
from polyc.passes.gpu_order_barriers import LowerOrderBarriers
from polyc.passes.gpu_symbols import enclosing_kernel

WARP = 32
WARPS_PER_GROUP = 4


class LowerRing(RewritePattern):
    """A full and an empty mbarrier a slot, made ready by one thread before any role starts.

    Full completes when the producer has announced the slot's bytes (one arrival) and they
    have come.  Empty completes when every consumer warp has arrived.  Use number ``u = i
    floordiv depth`` of a slot waits for full with parity ``u mod 2`` and for empty with the
    opposite one, so that the first acquire passes at once.

    A ring of ``peers`` CTAs lets each of them fill all of theirs (multicast).  Empty then counts
    the consumers of all, who tell every CTA, and the cluster meets before the first use and at the
    kernel's end, since a CTA must outlive those that reach it.

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
        emit = Emit()
        full = emit.value(hw.MBarrierOp(depth), "full")
        empty = emit.value(hw.MBarrierOp(depth), "empty")
        thread = emit.value(hw.ThreadIdOp(), "thread")
        first = emit.compare("eq", thread, emit.index(0))

        def initialise(inner: Emit) -> None:
            def slot(body: Emit, s: SSAValue) -> None:
                body.op(hw.MBarrierInitOp(full, s, 1))
                body.op(hw.MBarrierInitOp(empty, s, consumers * WARPS_PER_GROUP * peers))

            inner.loop(depth, slot, unroll=True, hint="s")
            inner.op(hw.FenceMBarrierInitOp())

        emit.when(first, initialise)
        emit.op(hw.BarrierOp() if peers == 1 else hw.ClusterBarrierOp())
        # An acquire counts the bytes of its copies, so it is lowered while they are there.
        users = [use.operation for use in op.ring.uses]
        users.sort(key=lambda user: not isinstance(user, tile.RingAcquireOp))
        for user in users:
            self.lower_use(user, full, empty, depth, peers, rewriter)
        if peers > 1:
            end = enclosing_kernel(op).body.block.last_op
            assert end is not None
            if not isinstance(end.prev_op, hw.ClusterBarrierOp):
                rewriter.insert(hw.ClusterBarrierOp(), InsertPoint.before(end))
        rewriter.replace(op, emit.ops, [None])

    def lower_use(
        self,
        op: Operation,
        full: SSAValue,
        empty: SSAValue,
        depth: int,
        peers: int,
        rewriter: PatternRewriter,
    ) -> None:
        emit = Emit()

        def slot(iteration: SSAValue) -> SSAValue:
            return emit.apply(affine_dim(0) % depth, [iteration], hint="slot")

        def parity(iteration: SSAValue, shift: int) -> SSAValue:
            uses = affine_dim(0) // depth + shift
            return emit.apply(uses % 2, [iteration], hint="parity")

        match op:
            case tile.RingAcquireOp():
                s = slot(op.iteration)
                emit.op(hw.MBarrierWaitOp(empty, s, parity(op.iteration, 1)))
                emit.op(hw.MBarrierExpectOp(full, s, self.announced(op)))
            case tile.RingWaitOp():
                emit.op(hw.MBarrierWaitOp(full, slot(op.iteration), parity(op.iteration, 0)))
            case tile.RingReleaseOp():
                lane = emit.apply(affine_dim(0) % WARP, [emit.value(hw.ThreadIdOp())], hint="lane")
                s = slot(op.iteration)
                if peers > 1:
                    # Lane r tells CTA r: all of them fill this CTA's slots.
                    emit.when(
                        emit.compare("slt", lane, emit.index(peers)),
                        lambda inner: inner.ops.append(
                            hw.MBarrierArriveClusterOp(empty, s, lane, reads=True)
                        ),
                    )
                else:
                    emit.when(
                        emit.compare("eq", lane, emit.index(0)),
                        lambda inner: inner.ops.append(hw.MBarrierArriveOp(empty, s)),
                    )
            case tile.CopyOp():
                assert op.signal_index is not None
                emit.op(op.like(signal=full, signal_index=slot(op.signal_index)))
            case _:
                raise PolycError("BadRing", f"{op.name} does not work on a ring", op)
        for new in emit.ops:
            located(new, op)
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def announced(op: tile.RingAcquireOp) -> int:
        """Bytes of the copies in the same block that signal the acquired ring."""
        block = op.parent_block()
        assert block is not None
        total = 0
        for copy in block.ops:
            if not isinstance(copy, tile.CopyOp) or copy.signal != op.ring:
                continue
            if copy.signal_index == op.iteration:
                assert isinstance(copy.target.type, SharedType)
                total += copy.target.type.slot_bytes
        if not total:
            raise PolycError("BadRing", "nothing is copied into the acquired slot", op)
        return total


@dataclass(frozen=True)
class GpuLowerBarriers(ModulePass):
    """Turn rings into mbarriers with explicit parities, counts and bytes, turns into hardware
    barriers, and signals through the grid into one thread's."""

    name = "gpu-lower-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerRing()])
        rewrite(op, [LowerOrderBarriers()])
        rewrite(op, [LowerGridSignal(), LowerGridWait()])
