"""``gpu-known-conditions``: conditions that the loops and branches around them decide (T2).

A plain loop asks in each step whether its tile has a tail, or whether a mask cuts it.  Behind a
first step that stands alone, the loop's own bounds often say that there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import BoolAttr, IndexType, IntegerAttr, ModuleOp, i1
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.index_forms import Forms, at_least
from polyc.passes.support.gpu.known_rows import can_be
from polyc.passes.support.gpu.symbols import constant_of
from polyc.rewriting.driver import rewrite
from polyc.rewriting.effects import is_unused

AROUND = (scf.ForOp, scf.IfOp, tile.MapOp)
"""Ops that say something of what stands in them."""

EQUALITIES = (0, 1)
"""The predicates of ``arith.cmpi`` that are no order."""


class DropUnreached(RewritePattern):
    """Take out a loop or a branch around steps of a ring that no values reach; exact.

    Steps that take turns with two buffers have a last one behind them, for an odd number, and none
    of them may come in pairs.

    Legality: of what ``known_rows`` says, isl finds no values inside.  What isl gives up on stays.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, scf.ForOp | scf.IfOp) or op.results:
            return
        body, *others = op.regions
        if any(region.blocks for region in others) or body.block.first_op is None:
            return
        if not any(isinstance(o, tile.RingAcquireOp | tile.RingWaitOp) for o in body.walk()):
            return
        if not can_be(body.block.first_op, Forms(), [()]):
            rewriter.erase(op)


class DecideComparison(RewritePattern):
    """Replace a comparison of indices that has one result wherever it stands by that.

    Legality, exact: of what ``known_rows`` says of the place, isl finds no values at which the
    comparison has the other result, and some at which it has this one: in a place that nothing
    reaches both are as right.  What isl gives up on stays.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.CmpiOp, rewriter: PatternRewriter) -> None:
        if not isinstance(op.lhs.type, IndexType) or not isinstance(op.parent_op(), AROUND):
            return
        forms = Forms()
        sides = [forms.ways(op, holds) for holds in (True, False)]
        if not all(sides) or op.predicate.value.data in EQUALITIES:
            return
        can_hold, can_fail = (can_be(op, forms, side) for side in sides)
        if can_hold == can_fail:
            return
        decided = arith.ConstantOp(BoolAttr.from_bool(can_hold))
        rewriter.replace(op, decided)


class FoldLogic(RewritePattern):
    """Take constants out of conjunctions, disjunctions, choices and branches; exact."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        match op:
            case arith.AndIOp() | arith.OrIOp() if op.result.type == i1:
                decisive = isinstance(op, arith.OrIOp)
                for side, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                    if (value := truth(side)) is not None:
                        rewriter.replace(op, [], [side if value is decisive else other])
                        return
            case arith.SelectOp() if (value := truth(op.cond)) is not None:
                rewriter.replace(op, [], [op.lhs if value else op.rhs])
            case scf.IfOp() if not op.results and (value := truth(op.cond)) is not None:
                region = op.true_region if value else op.false_region
                kept = [o for b in region.blocks for o in b.ops if not isinstance(o, scf.YieldOp)]
                for inner in kept:
                    inner.detach()
                rewriter.replace(op, kept, [])
            case _ if isinstance(op, DROPPED) and is_unused(op):
                rewriter.erase(op)
            case _:
                pass


DROPPED = (arith.ConstantOp, arith.CmpiOp, arith.AndIOp, arith.OrIOp)
"""Ops of conditions, which go with what asked them."""


class TakeOneStep(RewritePattern):
    """Let a loop of one step at most, on a ring of which nobody releases slots, be a branch; exact.

    A consumer releases a slot a step late, and where there is no later step not at all: nobody
    waits for such a slot again, which a loop around it would not say.

    Legality: of what ``known_rows`` says, isl finds no values at which there is a second step.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        rings = [
            o.ring for o in op.body.walk() if isinstance(o, tile.RingAcquireOp | tile.RingWaitOp)
        ]
        if op.results or not rings or any(map(_is_released, rings)) or _has_second(op):
            return
        there, forms = arith.CmpiOp(op.lb, op.ub, "slt"), Forms()
        if not can_be(op, forms, forms.ways(there, True)):
            there.erase()
            rewriter.erase(op)
            return
        always = not can_be(op, forms, forms.ways(there, False))
        rewriter.replace_all_uses_with(op.body.block.args[0], op.lb)
        kept = [o for o in op.body.block.ops if not (always and isinstance(o, scf.YieldOp))]
        for inner in kept:
            inner.detach()
        if always:
            there.erase()
            rewriter.replace(op, kept, [])
        else:
            rewriter.replace(op, [there, scf.IfOp(there.result, [], kept)], [])


def _is_released(ring: SSAValue) -> bool:
    return any(isinstance(use.operation, tile.RingReleaseOp) for use in ring.uses)


def _has_second(loop: scf.ForOp) -> bool:
    """Whether a loop may have a second step."""
    step, forms = constant_of(loop.step), Forms()
    if step is None:
        return True
    body = loop.body.block
    assert body.first_op is not None
    here, starts = forms.of(body.args[0]), forms.of(loop.lb)
    asked = [
        (*at.rows, *start.rows, at_least(at.expr, start.expr + step))
        for at, start in product(here, starts)
    ]
    return can_be(body.first_op, forms, asked)


def truth(value: SSAValue) -> bool | None:
    """A condition that is a constant."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or value.type != i1:
        return None
    return isinstance(owner.value, IntegerAttr) and owner.value.value.data != 0


@dataclass(frozen=True)
class GpuKnownConditions(ModulePass):
    """Decide conditions that loops' bounds decide."""

    name = "gpu-known-conditions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [DropUnreached()])
        if rewrite(op, [DecideComparison()]):
            rewrite(op, [FoldLogic()], recursive=True)
        rewrite(op, [TakeOneStep()])
