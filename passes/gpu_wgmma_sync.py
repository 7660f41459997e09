"""``gpu-wgmma-sync``: fences, groups and waits around wgmma (T2; PTX ISA, wgmma)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.driver import rewrite


class GroupWgmma(RewritePattern):
    """Put one fence before and one commit after a run of consecutive wgmma.

    The fence orders the warpgroup's own writes of the accumulator before the run.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.WgmmaOp, rewriter: PatternRewriter) -> None:
        if not isinstance(op.prev_op, hw.WgmmaOp | hw.WgmmaFenceOp):
            rewriter.insert(hw.WgmmaFenceOp(), InsertPoint.before(op))
        if not isinstance(op.next_op, hw.WgmmaOp | hw.WgmmaCommitOp):
            rewriter.insert(hw.WgmmaCommitOp(), InsertPoint.after(op))


class LowerAwait(RewritePattern):
    """A contract is one wgmma group, so awaiting contracts is waiting for groups."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.AwaitOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, hw.WgmmaWaitOp(op.depth))


class FenceAccumulators(RewritePattern):
    """Settle the registers that wgmma accumulates in, where other code touches them.

    That is after the code that sets them and after the wait for the last group, in the block
    that allocates them.  Not between: ptxas would serialise the wgmma.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: memref.AllocaOp, rewriter: PatternRewriter) -> None:
        users = [use.operation for use in op.memref.uses]
        block = op.parent_block()
        if block is None or not any(isinstance(u, hw.WgmmaOp) for u in users):
            return
        if any(isinstance(u, hw.RegisterFenceOp) for u in users):
            return
        places: list[Operation] = []
        for user in users:
            if isinstance(user, memref.StoreOp):
                outer = block.find_ancestor_op_in_block(user)
                if outer is not None:
                    places.append(outer)
        for other in block.ops:
            if isinstance(other, hw.WgmmaWaitOp) and other.pending.value.data == 0:
                places.append(other)
        for place in dict.fromkeys(places):
            rewriter.insert(hw.RegisterFenceOp(op.memref), InsertPoint.after(place))


@dataclass(frozen=True)
class GpuWgmmaSync(ModulePass):
    """Make wgmma's ordering explicit."""

    name = "gpu-wgmma-sync"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GroupWgmma(), LowerAwait()])
        rewrite(op, [FenceAccumulators()])
