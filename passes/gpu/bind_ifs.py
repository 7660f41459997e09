"""``gpu-bind-ifs``: a branch of a pipeline's body as one guard a statement (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.guards import acting, holds_tile_ops
from polyc.passes.support.gpu.pipeline_parts import with_needs
from polyc.passes.support.gpu.uniform import check_uniform
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit, clone_into


class BindIf(RewritePattern):
    """Give each statement of a branch the branch's condition for itself.

    ``if c {copy; copy; contract} else {copy}`` becomes four branches of one statement each, in the
    same order, so that a guarded copy gets its own stage and runs ahead as a bare one does.
    Statements of which one uses what another gives (a token) stay together.  A branch in a branch
    is bound first.  What only computes values is repeated for each statement that needs it.

    Legality, exact: the condition is the same for all threads and changes nowhere in the iteration
    (``check_uniform``); the statements keep their order.  A branch that gives values is refused
    (``GuardedValue``), since these would be needed outside of its guards.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        for inner in acting(op.body.block):
            if isinstance(inner, scf.IfOp) and holds_tile_ops(inner):
                self.bind(inner, rewriter)

    def bind(self, op: scf.IfOp, rewriter: PatternRewriter) -> None:
        """Replace a branch by guards; one that is a guard already stays."""
        if op.results:
            raise PolycError(
                "GuardedValue",
                "a branch of a pipeline's body holds tile ops and gives values, so that its "
                "statements cannot run at stages of their own; compute the values in a branch "
                "that does nothing else",
                op,
            )
        multicast = any(isinstance(o, tile.CopyOp) and o.multicast is not None for o in op.walk())
        check_uniform(op.cond, op, cluster=multicast)
        sides = [region.block for region in (op.true_region, op.false_region) if region.blocks]
        for side in sides:
            for inner in acting(side):
                if isinstance(inner, scf.IfOp) and holds_tile_ops(inner):
                    self.bind(inner, rewriter)
        parts = [(side is sides[0], side, part) for side in sides for part in together(side)]
        if len(parts) == 1 and not op.false_region.blocks:
            return
        emit = Emit()
        opposite: SSAValue | None = None
        for holds, side, part in parts:
            condition = op.cond
            if not holds:
                opposite = opposite or negated(emit, op.cond)
                condition = opposite
            emit.when(
                condition,
                lambda then, side=side, part=part: clone_into(
                    with_needs(list(side.ops), part), {}, then
                ),
            )
        for new in emit.ops:
            located(new, op)
        rewriter.replace(op, emit.ops, [])


def negated(emit: Emit, condition: SSAValue) -> SSAValue:
    true = emit.value(arith.ConstantOp(IntegerAttr(1, i1)))
    return emit.value(arith.XOrIOp(condition, true), "otherwise")


def together(block: Block) -> list[list[Operation]]:
    """The statements of a block, in order; those that one needs another's result for are one."""
    body = list(block.ops)
    found: list[list[Operation]] = []
    for op in acting(block):
        needed = set(with_needs(body, [op]))
        first = next((i for i, part in enumerate(found) if needed & set(part)), len(found))
        found[first:] = [[*(o for part in found[first:] for o in part), op]]
    return found


@dataclass(frozen=True)
class GpuBindIfs(ModulePass):
    """Split the branches of pipelines into one guard a statement."""

    name = "gpu-bind-ifs"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [BindIf()])
