"""Exponentials of a softmax as ``region-streaming-softmax`` knows them: ``exp(c * (x - max(x)))``.

People write them to the base 2, or scale ``x`` and its maximum one by one, so that a multiplication
and the subtraction are one instruction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.rewriting.changes import ChangeClass
from polyc.rewriting.driver import located
from polyc.rewriting.notes import Note, Report
from polyc.rewriting.region.building import erase_unused, spread, type_of
from polyc.rewriting.region.softmax_sums import is_maximum_of
from polyc.rewriting.region.views import behind_views, constant_of


@dataclass
class ScaleDifference(RewritePattern):
    """``exp(x * c - m * c)`` → ``exp((x - m) * c)``, where m is the maximum of x.

    Legal for one positive finite number c.  ``finite-only``: a product with c may be infinite where
    the difference is not.  Products of a difference are rounded otherwise, as ``docs/semantics.md``
    allows for.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.UnaryOp, rewriter: PatternRewriter, /) -> None:
        below = op.operand.owner
        if op.fn.data != "exp" or not isinstance(below, region.BinaryOp) or below.fn.data != "sub":
            return
        left, right = (_scaled(value) for value in below.operands)
        if left is None or right is None or left[1] != right[1]:
            return
        (x, number), top = left, right[0]
        if not (0 < number < math.inf and is_maximum_of(top, x)):
            return
        axes = type_of(x).axes.data
        difference = located(region.BinaryOp("sub", x, spread(top, axes, rewriter)), below)
        constant = located(region.ConstantOp(number, f32), below)
        rewriter.insert([difference, constant])
        by = spread(constant.result, axes, rewriter)
        product = located(region.BinaryOp("mul", difference.result, by), below)
        rewriter.insert(product)
        _say(self.report, "finite-only", op, "a maximum is subtracted before exponents are scaled")
        rewriter.replace(op, located(region.UnaryOp("exp", product.result), op))
        erase_unused(below, rewriter)


@dataclass
class PowerBelowMaximum(RewritePattern):
    """``pow(b, c * (x - m))`` → ``exp(c * ln(b) * (x - m))``, where m is the maximum of x.

    Legal for a finite base above 1, where sums alone are made of the power: it is 1 at most then,
    and its error, which grows with the exponent, is small beside the largest term.
    ``reassociating``: the exponent is rounded once more.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.BinaryOp, rewriter: PatternRewriter, /) -> None:
        base = constant_of(op.lhs)
        if op.fn.data != "pow" or op.result.type.element_type != f32:
            return
        if base is None or not 1 < base < math.inf:
            return
        scaled = _scaled(op.rhs)
        value, number = (op.rhs, 1.0) if scaled is None else scaled
        below = value.owner
        if not isinstance(below, region.BinaryOp) or below.fn.data != "sub":
            return
        if not (0 < number < math.inf and is_maximum_of(behind_views(below.rhs), below.lhs)):
            return
        if not _is_only_summed(op.result):
            return
        axes = type_of(value).axes.data
        constant = located(region.ConstantOp(number * math.log(base), f32), op)
        rewriter.insert(constant)
        by = spread(constant.result, axes, rewriter)
        product = located(region.BinaryOp("mul", value, by), op)
        rewriter.insert(product)
        given = op.rhs.owner
        text = f"a power of {base:g} below a maximum is an exponential"
        _say(self.report, "reassociating", op, text)
        rewriter.replace(op, located(region.UnaryOp("exp", product.result), op))
        if isinstance(given, Operation):
            erase_unused(given, rewriter)


def _scaled(value: SSAValue) -> tuple[SSAValue, float] | None:
    """A value times a number, and the number; None where it is something else."""
    op = behind_views(value).owner
    if not isinstance(op, region.BinaryOp) or op.fn.data != "mul":
        return None
    for one, other in (op.operands, op.operands[::-1]):
        number = constant_of(other)
        if number is not None:
            return one, number
    return None


def _is_only_summed(value: SSAValue) -> bool:
    """Whether everything that elementwise ops make of a value is reduced in the end."""
    work, seen = [value], set[SSAValue]()
    while work:
        for use in work.pop().uses:
            op = use.operation
            if isinstance(op, region.YieldOp):
                return False
            if not isinstance(op, region.ReduceOp):
                work += [v for v in op.results if v not in seen]
                seen.update(op.results)
    return True


def _say(report: Report | None, change: ChangeClass, op: Operation, text: str) -> None:
    if report is not None:
        report.fired.append(Note(change, text, op))


def exponents(report: Report) -> Sequence[RewritePattern]:
    """The patterns of this file."""
    return [ScaleDifference(report), PowerBelowMaximum(report)]
