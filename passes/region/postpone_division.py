"""``region-postpone-division``: a softmax's division after the sum that it weighs.

    sum(cast(exp(x - m) / l) * v)  →  sum(cast(exp(x - m)) * v) / l

People divide the weights and then multiply by the values; divided afterwards, maximum, sum and
weighted sum are one reduction (``region-streaming-softmax``), and no weight lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.rewriting.changes import CLASSES, check_classes
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, Report, show
from polyc.rewriting.region.building import erase_unused, spread, type_of
from polyc.rewriting.region.softmax_sums import maximum_of, named
from polyc.rewriting.region.views import behind_views


@dataclass(frozen=True)
class _Weights:
    """A factor that is an exponential, seen through ``views``, the outermost first.

    ``scales`` are the divisions and multiplications in between by values of the row, ``sum`` one
    of the row's sums that is divided by.
    """

    exponential: SSAValue
    views: Sequence[Operation]
    scales: Sequence[region.BinaryOp]
    sum: region.ReduceOp

    @staticmethod
    def of(factor: SSAValue, labels: Sequence[str]) -> _Weights | None:
        """The weights that a sum over ``labels`` multiplies by; None where they are none."""
        views: list[Operation] = []
        scales: list[region.BinaryOp] = []
        total: region.ReduceOp | None = None
        while True:
            match factor.owner:
                case region.CastOp() | region.BroadcastInDimOp() | region.TransposeOp() as op:
                    views.append(op)
                    factor = op.operand
                case region.BinaryOp() as op if _scales_row(op, labels):
                    scales.append(op)
                    by = behind_views(op.rhs).owner
                    if op.fn.data == "div" and isinstance(by, region.ReduceOp):
                        total = by
                    factor = op.lhs
                case region.UnaryOp() as op if op.fn.data == "exp":
                    top = maximum_of(op)
                    if total is None or top is None or set(top.labels) != set(labels):
                        return None
                    return _Weights(factor, views, scales, total)
                case _:
                    return None


def _scales_row(op: region.BinaryOp, labels: Sequence[str]) -> bool:
    """Whether ``op`` divides or multiplies its first operand by what is one along ``labels``."""
    own = type_of(behind_views(op.rhs)).labels
    return op.fn.data in ("div", "mul") and not set(own) & set(labels)


@dataclass
class PostponeDivision(RewritePattern):
    """A sum of divided exponentials times values → the sum of the products, divided.

    Legal for a sum in f32 of products, one factor of which is ``exp(scale * (x - max(x)))``, its
    maximum over the axes of the sum, divided by a sum, and perhaps multiplied and divided by other
    values that do not have these axes; casts and views may stand between.  The exponentials are 1
    at most, so that what the quotient is rounded to holds them.

    ``finite-only``: weights are rounded before they are divided and not after, and a quotient that
    is infinite or NaN is so once for the row.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        product = op.operand.owner
        if op.fn.data != "sum" or op.accumulator != f32:
            return
        if not isinstance(product, region.BinaryOp) or product.fn.data != "mul":
            return
        for place, factor in enumerate(product.operands):
            weights = _Weights.of(factor, op.labels)
            if weights is not None:
                self._postpone(op, product, place, weights, rewriter)
                return

    def _postpone(
        self,
        op: region.ReduceOp,
        product: region.BinaryOp,
        place: int,
        weights: _Weights,
        rewriter: PatternRewriter,
    ) -> None:
        value = weights.exponential
        for view in reversed(weights.views):
            again = view.clone(value_mapper={view.operands[0]: value})
            rewriter.insert(located(again, view))
            value = again.results[0]
        factors = [value if i == place else o for i, o in enumerate(product.operands)]
        multiplied = located(region.BinaryOp("mul", *factors), product)
        rewriter.insert(multiplied)
        summed = op.clone(value_mapper={op.operand: multiplied.result})
        rewriter.insert(located(summed, op))
        result = summed.results[0]
        for scale in reversed(weights.scales):
            by = spread(behind_views(scale.rhs), type_of(result).axes.data, rewriter)
            made = located(region.BinaryOp(scale.fn.data, result, by), scale)
            rewriter.insert(made)
            result = made.result
        if self.report is not None:
            text = f"the division by {named(weights.sum)} follows {named(op)}"
            self.report.fired.append(Note("finite-only", text, located(summed, op)))
        rewriter.replace(op, [], [result])
        erase_unused(product, rewriter)


def postpone(scope: ModuleOp | region.KernelOp) -> Report:
    """Divide after the weighted sums of ``scope``; what fired."""
    report = Report()
    rewrite(scope, [PostponeDivision(report)], recursive=True)
    return report


@dataclass(frozen=True)
class RegionPostponeDivision(ModulePass):
    """A softmax's weights divided after they are summed, where people divide before.

    ``classes`` are the changes that may happen; each use is finite-only, and reported on stderr.
    """

    name = "region-postpone-division"

    classes: tuple[str, ...] = CLASSES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_classes(self.name, self.classes)
        if "finite-only" in self.classes:
            show(postpone(op).fired)
