"""Scalar functions of a kernel that are several ops, and what they may be approximated by."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import FloatAttr, UnitAttr
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue

from polyc.dialects.gpu.hardware.threads import PackOp

APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
"""Of an op whose function may be the device's own, an ulp or two from the true value."""


def is_approximate(op: math.Exp2Op | arith.DivfOp) -> bool:
    """Whether an op allows an approximation (``fastmath<afn>``)."""
    return FastMathFlag.APPROX_FUNC in op.fastmath.data


def is_one(value: SSAValue) -> bool:
    """Whether a value is the constant 1."""
    op = value.owner
    number = op.value if isinstance(op, arith.ConstantOp) else None
    return isinstance(number, FloatAttr) and number.value.data == 1.0


def inverts_each(op: Operation) -> bool:
    """Whether an op divides 1 by each element of a vector."""
    ones = op.lhs.owner if isinstance(op, arith.DivfOp) else None
    return isinstance(ones, PackOp) and all(map(is_one, ones.values))


WRAPS = "gpu.wraps"
"""The attribute of an op on i64 whose result may be beyond 64 bits: it has the low ones.

Without it, as for places in memory, nothing is."""


def wraps(op: Operation) -> bool:
    """Whether an op on i64 may be beyond 64 bits."""
    return WRAPS in op.attributes


def wrapping(op: Operation) -> Operation:
    """An op on integers that has the low bits of its result."""
    op.attributes[WRAPS] = UnitAttr()
    return op


def sigmoid(value: SSAValue, one: SSAValue) -> list[Operation]:
    """``1 / (1 + exp(-x))`` of an f32: the ops, of which the last one gives it.  ``one`` is 1.0.

    What is divided by is at least 1, infinite or NaN.  The device's reciprocal of these is an ulp
    off at most, and takes no branch, as a division does.
    """
    minus = arith.NegfOp(value)
    power = math.ExpOp(minus)
    total = arith.AddfOp(one, power)
    return [minus, power, total, arith.DivfOp(one, total, APPROXIMATE)]


def near_quotient(lhs: SSAValue, rhs: SSAValue, one: SSAValue) -> list[Operation]:
    """``lhs / rhs`` of f32, where what is divided by is neither small nor large, or NaN: a product
    with the device's reciprocal, two ulps off at most, which takes no branch as a division does.
    The ops, of which the last one gives it; ``one`` is 1.0."""
    inverse = arith.DivfOp(one, rhs, APPROXIMATE)
    return [inverse, arith.MulfOp(lhs, inverse)]
