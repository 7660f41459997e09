"""``region-postpone-division``: a softmax's division after the sum that it weighs.

    sum(cast(exp(x - m) / l) * v)  →  sum(cast(exp(x - m)) * v) / l

People divide the weights and then multiply by the values; divided afterwards, maximum, sum and
weighted sum are one reduction (``region-streaming-softmax``), and no weight lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import Float16Type, ModuleOp, bf16, f16, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.passes.support.region.exponents import exponents
from polyc.passes.support.region.row_references import is_row_power, row_references
from polyc.passes.support.region.row_sums import InvertSoftmaxSum
from polyc.rewriting.changes import CLASSES, check_classes
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, Report, show
from polyc.rewriting.region.building import erase_unused, spread, type_of
from polyc.rewriting.region.softmax_sums import maximum_of, named, read_type
from polyc.rewriting.region.views import behind_views, constant_of


@dataclass(frozen=True)
class _Weights:
    """A factor that is an exponential, seen through ``steps``, the outermost first.

    A step is an op and which of its operands is the way to the exponential: a view, a cast, or what
    keeps a part of each weight.  ``scales`` are the divisions and multiplications in between by
    values of the row, ``by`` one of the row's sums that is divided by, or a row's exponential.
    """

    exponential: SSAValue
    steps: Sequence[tuple[Operation, int]]
    scales: Sequence[region.BinaryOp]
    by: region.ReduceOp | region.UnaryOp

    @property
    def said(self) -> str:
        """What is done to the sum and not to the weights."""
        if isinstance(self.by, region.ReduceOp):
            return f"the division by {named(self.by)}"
        return "the factor of the row"

    @staticmethod
    def of(factor: SSAValue, labels: Sequence[str]) -> _Weights | None:
        """The weights that a sum over ``labels`` multiplies by; None where they are none."""
        steps: list[tuple[Operation, int]] = []
        scales: list[region.BinaryOp] = []
        by: region.ReduceOp | region.UnaryOp | None = None
        while True:
            match factor.owner:
                case region.CastOp() | region.BroadcastInDimOp() | region.TransposeOp() as op:
                    steps.append((op, 0))
                    factor = op.operand
                case region.BinaryOp() as op if (side := _row_side(op, labels)) is not None:
                    scales.append(op)
                    by = _divisor(op, side) or by or is_row_power(op.operands[side])
                    factor = op.operands[1 - side]
                case region.BinaryOp() | region.SelectOp() as op:
                    way = _kept_by(op, _narrowest(steps))
                    if way is None:
                        return None
                    steps.append((op, way))
                    factor = op.operands[way]
                case region.UnaryOp() as op if op.fn.data == "exp":
                    top = maximum_of(op)
                    if by is None or top is None or set(top.labels) != set(labels):
                        return None
                    return _Weights(factor, steps, scales, by)
                case _:
                    return None


def _narrowest(steps: Sequence[tuple[Operation, int]]) -> Attribute:
    """The type that weights are rounded to, the last of ``steps`` first; f32 for none."""
    kinds = (op.result.type.element_type for op, _ in steps if isinstance(op, region.CastOp))
    return next((kind for kind in kinds if kind != f32), f32)


def _kept_by(op: region.BinaryOp | region.SelectOp, rounded: Attribute) -> int | None:
    """Which operand of ``op`` are weights that it keeps a part of, given what else it reads.

    It multiplies them by a tensor whose numbers are none that ``rounded`` lacks, or puts 0 in the
    place of some by a condition.  None where it does something else.
    """
    if isinstance(op, region.SelectOp):
        return 1 if constant_of(op.if_false) == 0 and read_type(op.condition) == i1 else None
    kinds = {i1, rounded} if isinstance(rounded, Float16Type) else {i1, f16, bf16, f32}
    if op.fn.data != "mul":
        return None
    return next((1 - side for side in (1, 0) if read_type(op.operands[side]) in kinds), None)


def _row_side(op: region.BinaryOp, labels: Sequence[str]) -> int | None:
    """Which operand of a division or multiplication is one along ``labels``; None for neither."""
    sides = {"div": (1,), "mul": (1, 0)}.get(op.fn.data, ())
    own = {side: set(type_of(behind_views(op.operands[side])).labels) for side in sides}
    return next((side for side in sides if not own[side] & set(labels)), None)


def _divisor(op: region.BinaryOp, side: int) -> region.ReduceOp | None:
    """The sum that ``op`` divides by, or multiplies by the reciprocal of; None for none."""
    by = behind_views(op.operands[side])
    if op.fn.data == "mul":
        match by.owner:
            case region.UnaryOp() as inverse if inverse.fn.data == "reciprocal":
                by = behind_views(inverse.operand)
            case region.BinaryOp() as inverse if inverse.fn.data == "div":
                by = behind_views(inverse.rhs)
            case _:
                return None
    if isinstance(by.owner, region.BinaryOp) and by.owner.fn.data == "add":
        # As where a sink, or 1, is added to the sum.
        by = next((o for o in map(behind_views, by.owner.operands) if _is_sum(o)), by)
    return by.owner if isinstance(by.owner, region.ReduceOp) else None


def _is_sum(value: SSAValue) -> bool:
    return isinstance(op := value.owner, region.ReduceOp) and op.fn.data == "sum"


@dataclass
class PostponeDivision(RewritePattern):
    """A sum of divided exponentials times values → the sum of the products, divided.

    Legal for a sum in f32 of products, one factor of which is ``exp(scale * (x - max(x)))``, its
    maximum over the axes of the sum, divided by a sum or multiplied by the reciprocal of one, and
    perhaps multiplied and divided by other values that do not have these axes; casts and views may
    stand between.  The exponentials are 1 at most, so that what the quotient is rounded to holds
    them.  Weights of which a tensor keeps a part, as dropout does, are weights: one of conditions,
    or of numbers that what they are rounded to holds.

    ``finite-only``: weights are rounded before they are divided and not after, and a quotient that
    is infinite or NaN is so once for the row.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        product = op.operand.owner
        if op.fn.data != "sum" or op.accumulator != f32:
            return
        plain = _Weights.of(op.operand, op.labels)
        # Of what is summed as it weighs, as where weights are divided by their sum again.
        if plain is not None and (
            isinstance(plain.by, region.UnaryOp) or _weighs(op.operand, op.labels)
        ):
            self._postpone(op, None, 0, plain, rewriter)
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
        product: region.BinaryOp | None,
        place: int,
        weights: _Weights,
        rewriter: PatternRewriter,
    ) -> None:
        value = weights.exponential
        for step, way in reversed(weights.steps):
            again = step.clone()
            again.operands[way] = value
            rewriter.insert(located(again, step))
            value = again.results[0]
        if product is not None:
            factors = [value if i == place else o for i, o in enumerate(product.operands)]
            multiplied = located(region.BinaryOp("mul", *factors), product)
            rewriter.insert(multiplied)
            value = multiplied.result
        given = op.operand.owner
        summed = op.clone(value_mapper={op.operand: value})
        rewriter.insert(located(summed, op))
        result = summed.results[0]
        for scale in reversed(weights.scales):
            side = _row_side(scale, op.labels)
            assert side is not None
            by = spread(behind_views(scale.operands[side]), type_of(result).axes.data, rewriter)
            made = located(region.BinaryOp(scale.fn.data, result, by), scale)
            rewriter.insert(made)
            result = made.result
        if self.report is not None:
            text = f"{weights.said} follows {named(op)}"
            self.report.fired.append(Note("finite-only", text, located(summed, op)))
        rewriter.replace(op, [], [result])
        if isinstance(given, Operation):
            erase_unused(given, rewriter)


@dataclass
class SumBeforeRounding(RewritePattern):
    """A sum of exponentials that are rounded as weights → the sum of these as they are.

        sum(cast(exp(x - m)))  →  sum(exp(x - m))

    Legal for a sum in f32 of exponentials below the maximum over its axes, behind casts and views,
    which as they are rounded, or divided and then rounded to the same type, weigh a product too,
    summed over the same axes: their roundings are those that the product may make anyway.

    ``finite-only``, as the rounding of weights is: sums differ by roundings of their terms.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.ReduceOp, rewriter: PatternRewriter, /) -> None:
        if op.fn.data != "sum" or op.accumulator != f32:
            return
        value, views = op.operand, list[Operation]()
        rounded: SSAValue | None = None
        while isinstance(one := value.owner, region.CastOp | region.BroadcastInDimOp):
            if isinstance(one, region.CastOp):
                narrow = one.result.type.element_type != f32
                rounded = one.result if narrow else rounded
            else:
                views.append(one)
            value = one.operand
        if rounded is None or not isinstance(one, region.UnaryOp) or one.fn.data != "exp":
            return
        top = maximum_of(one)
        if top is None or set(top.labels) != set(op.labels):
            return
        kind = type_of(rounded).element_type
        if not (_weighs(rounded, op.labels) or _weighs(one.result, op.labels, kind)):
            return
        given = op.operand.owner
        for view in reversed(views):
            again = view.clone(value_mapper={view.operands[0]: value})
            rewriter.insert(located(again, view))
            value = again.results[0]
        summed = located(op.clone(value_mapper={op.operand: value}), op)
        if self.report is not None:
            text = f"{named(op)} is of weights before they are rounded"
            self.report.fired.append(Note("finite-only", text, summed))
        rewriter.replace(op, summed)
        if isinstance(given, Operation):
            erase_unused(given, rewriter)


def _weighs(value: SSAValue, labels: Sequence[str], rounded: Attribute | None = None) -> bool:
    """Whether a value, perhaps scaled by its row, is a factor of what is summed over ``labels``.

    With ``rounded`` it is rounded to that type on its way.
    """
    work, wide = [(value, rounded is None)], set(type_of(value).labels)
    while work:
        value, enough = work.pop()
        for use in value.uses:
            match use.operation:
                case region.CastOp() as op:
                    work.append((op.result, enough or op.result.type.element_type == rounded))
                case region.BroadcastInDimOp() | region.TransposeOp() as op:
                    work.append((op.result, enough))
                case region.BinaryOp() as op if _row_side(op, labels) == 1 - use.index:
                    work.append((op.result, enough))
                case region.BinaryOp() as op if op.fn.data == "mul" and enough:
                    if _is_summed(op.result, labels) and set(op.result.type.labels) - wide:
                        return True
                case _:
                    pass
    return False


def _is_summed(product: SSAValue, labels: Sequence[str]) -> bool:
    sums = [u.operation for u in product.uses if isinstance(u.operation, region.ReduceOp)]
    return any(op.fn.data == "sum" and set(op.labels) == set(labels) for op in sums)


def postpone(scope: ModuleOp | region.KernelOp) -> Report:
    """Divide after the weighted sums of ``scope``; what fired."""
    report = Report()
    ways = [
        *exponents(report),
        *row_references(report),
        SumBeforeRounding(report),
        PostponeDivision(report),
        InvertSoftmaxSum(report),
    ]
    rewrite(scope, ways, recursive=True)
    return report


@dataclass(frozen=True)
class RegionPostponeDivision(ModulePass):
    """A softmax's weights divided after they are summed, where people divide before.

    And summed before they are rounded, where people round first.

    ``classes`` are the changes that may happen; each use is finite-only, and reported on stderr.
    """

    name = "region-postpone-division"

    classes: tuple[str, ...] = CLASSES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_classes(self.name, self.classes)
        if "finite-only" in self.classes:
            show(note for note in postpone(op).fired if note.kind == "finite-only")
