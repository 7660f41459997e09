"""``gpu-merge-ifs``: neighbouring branches on one condition are one branch (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from polyc.rewriting.driver import rewrite


class MergeIfs(RewritePattern):
    """Append a branch's sides to those of the branch before it on the same condition.

    Exact: the condition is one value; the ops between the two have no effects and, since the
    first branch gives no results, do not depend on it, so that they move before it.  Branches
    with results stay.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.IfOp, rewriter: PatternRewriter) -> None:
        if op.results:
            return
        between: list[Operation] = []
        other = op.next_op
        while other is not None and not isinstance(other, scf.IfOp):
            if not is_side_effect_free(other):
                return
            between.append(other)
            other = other.next_op
        if other is None or other.results or other.cond != op.cond:
            return
        for pure in between:
            pure.detach()
            rewriter.insert(pure, InsertPoint.before(op))
        for mine, theirs in (
            (op.true_region, other.true_region),
            (op.false_region, other.false_region),
        ):
            self.append(mine, theirs, rewriter)
        rewriter.erase(other)
        rewriter.notify_op_modified(op)

    @staticmethod
    def append(mine: Region, theirs: Region, rewriter: PatternRewriter) -> None:
        """Move the ops of one side of a branch to the end of another's."""
        if not theirs.blocks:
            return
        if not mine.blocks:
            mine.add_block(Block([scf.YieldOp()]))
        end = mine.block.last_op
        assert end is not None
        for moved in list(theirs.block.ops):
            if not isinstance(moved, scf.YieldOp):
                moved.detach()
                rewriter.insert(moved, InsertPoint.before(end))


@dataclass(frozen=True)
class GpuMergeIfs(ModulePass):
    """Merge neighbouring branches on one condition."""

    name = "gpu-merge-ifs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [MergeIfs()], recursive=True)
