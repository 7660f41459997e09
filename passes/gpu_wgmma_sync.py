"""``gpu-wgmma-sync``: fences, groups and waits around wgmma (T2; PTX ISA, wgmma)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
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
        rewriter.replace(op, hw.WgmmaWaitOp(op.pending.value.data))


@dataclass(frozen=True)
class GpuWgmmaSync(ModulePass):
    """Make wgmma's ordering explicit."""

    name = "gpu-wgmma-sync"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GroupWgmma(), LowerAwait()])
