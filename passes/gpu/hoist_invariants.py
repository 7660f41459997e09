"""``gpu-hoist-invariants``: what a loop computes anew each time, computed once before it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.rewriting.driver import rewrite
from polyc.rewriting.effects import is_movable
from polyc.rewriting.equal_ops import drop_unused, merge_equal


class HoistInvariants(RewritePattern):
    """Move pure ops that use nothing of a loop in front of it, in their order.

    The CUDA compiler does this too, except across a shuffle: ``gpu.warp_uniform`` in a loop
    would keep all address arithmetic of the warp there.  Exact: the ops are pure.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        body, around = op.body.block, op.parent_block()
        assert around is not None
        for inner in list(body.ops):
            movable = is_movable(type(inner)) and not inner.regions
            if movable and all(_block_of(operand) is not body for operand in inner.operands):
                inner.detach()
                around.insert_op_before(inner, op)
                rewriter.notify_op_modified(inner)


def _block_of(value: SSAValue) -> Block | None:
    """The block that ``value`` is defined in."""
    return value.owner if isinstance(value.owner, Block) else value.owner.parent


@dataclass(frozen=True)
class GpuHoistInvariants(ModulePass):
    """Hoist loop invariants, inner loops first, merge equal ops and drop unused ones."""

    name = "gpu-hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [HoistInvariants()], inner_first=True)
        merge_equal(op.body)
        drop_unused(op.body)  # What only a merged op used.
