"""``gpu-hoist-invariants``: what a loop computes anew each time, computed once before it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import dce
from xdsl.transforms.loop_invariant_code_motion import move_loop_invariant_code


class HoistInvariants(RewritePattern):
    """Move pure ops that use nothing of a loop in front of it (upstream's motion).

    The CUDA compiler does this too, except across a shuffle: ``gpu.warp_uniform`` in a loop
    would keep all address arithmetic of the warp there.  Exact: the ops are pure.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        before = op.prev_op
        move_loop_invariant_code(op)
        if op.prev_op is not before:
            rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class GpuHoistInvariants(ModulePass):
    """Hoist loop invariants, inner loops first, merge equal pure ops and drop unused ones."""

    name = "gpu-hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(
            HoistInvariants(), apply_recursively=False, walk_regions_first=True
        ).rewrite_module(op)
        CommonSubexpressionElimination().apply(ctx, op)
        dce(op)  # What only a merged op used.
