"""Scalar functions of a kernel that are several ops, and what they may be approximated by."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import FloatAttr, UnitAttr, f32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation, SSAValue

APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
"""Of an op whose function may be the device's own, an ulp or two from the true value."""


def is_approximate(op: math.Exp2Op | arith.DivfOp) -> bool:
    """Whether an op allows an approximation (``fastmath<afn>``)."""
    return FastMathFlag.APPROX_FUNC in op.fastmath.data


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


def tanh_of_softplus(x: SSAValue) -> list[Operation]:
    """``tanh(log(1 + exp(x)))`` of an f32, by one exponential: the ops, of which the last gives it.

    It is ``(n² - 1) / (n² + 1)`` of ``n = 1 + exp(x)``.  Of ``e = exp(-|x|)``, which does not
    overflow, that is ``(1 + 2e) / (1 + 2e + 2e²)``, and where x is below 0
    ``(e² + 2e) / (e² + 2e + 2)``.  What is divided by is 1 to 5, or NaN, of which the device's
    reciprocal takes no branch: six ulps off at most.
    """
    zero, one = (arith.ConstantOp(FloatAttr(number, f32)) for number in (0.0, 1.0))
    size = math.AbsFOp(x)
    minus = arith.NegfOp(size)
    e = math.ExpOp(minus)
    square, twice = arith.MulfOp(e, e), arith.AddfOp(e, e)
    is_below = arith.CmpfOp(x, zero, "olt")
    first = arith.SelectOp(is_below, square, one)
    rest = arith.SelectOp(is_below, one, square)
    over = arith.AddfOp(first, twice)
    again = arith.AddfOp(rest, rest)
    under = arith.AddfOp(over, again)
    inverse = arith.DivfOp(one, under, APPROXIMATE)
    ops = [zero, one, size, minus, e, square, twice, is_below, first, rest, over, again, under]
    return [*ops, inverse, arith.MulfOp(over, inverse)]
