"""``tiny-split-reductions``: a reduction over axes among which others lie, in two steps (S9).

Over outer axes it is one of columns, which threads read as they lie; the inner axes, of which few
elements lie together, are then those of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import tiny
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.tiny.elementwise import is_product
from polyc.rewriting.tiny.split_reductions import outer_axes


class SplitReduction(RewritePattern):
    """``tiny.reduce`` over axes → the same over the outer ones, and then over the others.

    Worth it where ``outer_axes`` finds some (``rewriting/tiny/split_reductions.py``): the innermost
    axes are short, and reduced and kept in turn.  A sum of products stays, which tensor cores may
    have.  Legal for all functions: they are associative but for rounding.  Reassociating: a sum is
    one of sums.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReduceOp, rewriter: PatternRewriter, /) -> None:
        if op.precision is not None or (op.function == "sum" and is_product(op.operand)):
            return
        steps = [located(step, op) for step in _steps(op)]
        if len(steps) > 1:
            rewriter.replace(op, steps)


def _steps(op: tiny.ReduceOp) -> Iterator[tiny.ReduceOp]:
    """The reductions that one is made of, the last of which has its result."""
    operand, axes = op.operand, op.axes
    while (outer := outer_axes(tiny.tensor_of(operand).dims, axes)) is not None:
        left = [axis for axis in range(tiny.tensor_of(operand).rank) if axis not in outer]
        step = tiny.ReduceOp(op.function, operand, outer)
        yield step
        operand, axes = step.result, tuple(left.index(axis) for axis in axes if axis not in outer)
    last = tiny.ReduceOp(op.function, operand, axes, op.result.type)
    last.own = op.own
    yield last


@dataclass(frozen=True)
class TinySplitReductions(ModulePass):
    """Reduce over outer axes first where few elements of the inner ones lie together."""

    name = "tiny-split-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SplitReduction()])
