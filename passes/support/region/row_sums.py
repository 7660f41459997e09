"""Divisions by the sum of a softmax that a kernel reads: one reciprocal a row."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.dialects.region.graph import SOFTMAX_SUM
from polyc.rewriting.driver import located
from polyc.rewriting.notes import Note, Report
from polyc.rewriting.region.building import erase_unused, spread, type_of
from polyc.rewriting.region.views import behind_views


@dataclass
class InvertSoftmaxSum(RewritePattern):
    """``x / l`` → ``x * (1 / l)``, where a row has one ``l``, the sum of a softmax in memory.

    Legal in f32 where ``l`` is read without a guard from an input that is said to hold such sums
    (``softmax_sum``), and lacks an axis of ``x``, so that there are fewer of it.  Each is 1 or
    more and no more than the keys there are, or 0, or NaN.  So its reciprocal is no subnormal
    number, and infinite or NaN where a quotient would be.  ``reassociating``: the last bit may be
    another one, as ``docs/semantics.md`` leaves open for a division.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.BinaryOp, rewriter: PatternRewriter, /) -> None:
        kind = op.result.type
        by = behind_views(op.rhs)
        if op.fn.data != "div" or kind.element_type != f32 or not _is_softmax_sum(by):
            return
        if len(type_of(by).axes) >= len(kind.axes):
            return
        inverse = located(region.UnaryOp("reciprocal", by), op)
        rewriter.insert(inverse)
        factor = spread(inverse.result, kind.axes.data, rewriter)
        given = op.rhs.owner
        if self.report is not None:
            text = (
                "a softmax is multiplied by one reciprocal a row, of the sum that it is divided by"
            )
            self.report.fired.append(Note("reassociating", text, op))
        rewriter.replace(op, located(region.BinaryOp("mul", op.lhs, factor), op))
        if isinstance(given, Operation):
            erase_unused(given, rewriter)


def _is_softmax_sum(value: SSAValue) -> bool:
    """Whether a value is read from an input of a softmax's sums, as it is there."""
    read = value.owner
    if not isinstance(read, region.ReadOp) or read.guard is not None:
        return False
    kernel = region.kernel_of(read)
    if kernel is None or kernel is not read.parent_op():
        return False
    if not isinstance(read.tensor, BlockArgument):
        return False
    return SOFTMAX_SUM in kernel.arg_attrs.data[read.tensor.index].data
