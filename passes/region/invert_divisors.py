"""``region-invert-divisors``: what a row is divided by is inverted once, and multiplied by.

    x / l  →  x * (1 / l)        where each row has one l

A division is ten instructions and a product is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import Float16Type, ModuleOp, f32
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region.kernel import kernel_of
from polyc.dialects.region.together import StateOp
from polyc.families.family import schedules_of
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.region.building import spread, type_of
from polyc.rewriting.region.softmax_sums import is_below_maximum
from polyc.rewriting.region.views import behind_views, constant_of

TINY = 2.0**-100
"""Below this a divisor is scaled up first: the inverse of what is below 2**-128 is no f32."""

SCALE = 2.0**64
"""By how much, and its numerator with it: both stay exact, or overflow where the quotient does."""


class InvertDivisors(RewritePattern):
    """A division by a value that each row has one of → a product with its inverse.

    Where the value may be below ``TINY`` but for 0, numerator and divisor are scaled by a power of
    two first, which is 1 for all other rows: two products in place of one.

    Legality: the division is in f32, of a value with the row's axis by one without it that is
    computed or read for each row; a kernel that holds or streams rows is built of it, or one of
    loops that reduces nothing, whose rows lie along the vectors of its threads.  The class is
    ``reassociating``: the quotient is rounded twice, so that x / x may be less than 1.  It is asked
    that all the region stores has 16 bits, which a last bit of f32 does not change, or that the
    divisor is a sum of exponentials below their maximum, which is rounded itself.  What is
    infinite, NaN or a zero of either sign is so as before: the inverse of a zero is an infinity of
    its sign, of an infinity a zero.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.BinaryOp, rewriter: PatternRewriter, /) -> None:
        kernel = kernel_of(op)
        if op.fn.data != "div" or kernel is None or (row := _row_of(kernel)) is None:
            return
        divisor, kind = behind_views(op.rhs), op.result.type
        if any(type_of(v).element_type != f32 for v in (op.lhs, divisor, op.result)):
            return
        if not (stores_halves(kernel) or _is_of_powers(divisor)):
            return
        if row not in type_of(op.lhs).labels or row in type_of(divisor).labels:
            return
        if not _is_of_each_row(divisor):
            return
        over, axes = op.lhs, kind.axes.data

        def add(new: Operation) -> SSAValue:
            rewriter.insert(located(new, op))
            return new.results[0]

        if not never_tiny(divisor):

            def number(value: float) -> SSAValue:
                constant = add(region.ConstantOp(value, f32))
                return spread(constant, type_of(divisor).axes.data, rewriter)

            size = add(region.UnaryOp("abs", divisor))
            tiny = add(region.CompareOp("lt", size, number(TINY)))
            scale = add(region.SelectOp(tiny, number(SCALE), number(1.0)))
            over = add(region.BinaryOp("mul", over, spread(scale, axes, rewriter)))
            divisor = add(region.BinaryOp("mul", divisor, scale))
        inverse = add(region.UnaryOp("reciprocal", divisor))
        product = region.BinaryOp("mul", over, spread(inverse, axes, rewriter))
        rewriter.replace(op, located(product, op))


def never_tiny(value: SSAValue) -> bool:
    """Whether a value is 0, NaN or at least ``TINY`` in size, whatever the tensors hold.

    A sum of exponentials below their own maximum is 1 at least; what f16 holds is 2**-24 at least,
    and a square root the root of the least number.  A larger one of two is so where one of the two
    is a number.
    """
    value = behind_views(value)
    match value.owner:
        case region.ReduceOp() as op if op.fn.data in ("max", "min"):
            return never_tiny(op.operand)
        case region.ReduceOp() | region.ReduceTogetherOp():
            return _is_of_powers(value)
        case region.ReadOp() as op:
            return isinstance(op.result.type.element_type, Float16Type)
        case region.CastOp() as op:
            kinds = (op.result.type.element_type, type_of(op.operand).element_type)
            return any(isinstance(kind, Float16Type) for kind in kinds) or never_tiny(op.operand)
        case region.UnaryOp() as op:
            return op.fn.data == "sqrt" or (op.fn.data in ("abs", "neg") and never_tiny(op.operand))
        case region.BinaryOp() as op if op.fn.data == "max":
            return any((constant_of(v) or 0.0) >= TINY for v in op.operands)
        case _:
            return False


def _is_of_powers(value: SSAValue) -> bool:
    """Whether a value is the sum of exponentials below their own maximum: 1 at least."""
    value = behind_views(value)
    if isinstance(owner := value.owner, region.ReduceTogetherOp):
        # The sum of the part with the maximum is scaled by 1.
        assert isinstance(value, OpResult)
        value = cast(StateOp, owner.chunk.block.last_op).values[value.index]
    op = value.owner
    if not isinstance(op, region.ReduceOp) or op.fn.data != "sum":
        return False
    return is_below_maximum(behind_views(op.operand), op.labels)


def stores_halves(kernel: region.KernelOp) -> bool:
    """Whether all that a region stores has 16 bits, which hide the last bits of f32."""
    return all(element_bytes(kind.element_type) <= 2 for kind in kernel.outs)


def _row_of(kernel: region.KernelOp) -> str | None:
    """The axis that a kernel of rows reduces along, or that the vectors of one lie along that
    reduces nothing; None where kernels of other kinds are built of the region."""
    around = kernel.parent_op()
    plans = [around] if isinstance(around, ScheduleOp) else schedules_of(kernel)
    together = region.ReduceOp, region.ReduceTogetherOp
    reduced = [op.labels[0] for op in kernel.walk() if isinstance(op, together)]
    if plans and reduced and all(plan.pattern == "rows" for plan in plans):
        return reduced[0]
    if not plans or reduced or any(plan.pattern != "loops" for plan in plans):
        return None
    rows = {plan.vectorize_axis.data.partition(".")[0] for plan in plans}
    return rows.pop() if len(rows) == 1 and plans[0].integer("vectorize") > 1 else None


def _is_of_each_row(value: SSAValue) -> bool:
    """Whether a value takes a read or a reduction, and is no number or size."""
    work, seen = [value], set[SSAValue]()
    while work:
        op = work.pop().owner
        if isinstance(op, region.ReadOp | region.ReduceOp | region.ReduceTogetherOp):
            return True
        if isinstance(op, Operation):
            work += [v for v in op.operands if v not in seen]
            seen.update(op.operands)
    return False


@dataclass(frozen=True)
class RegionInvertDivisors(ModulePass):
    """Divide by what a row has one of through its inverse, in kernels of rows."""

    name = "region-invert-divisors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InvertDivisors()])
