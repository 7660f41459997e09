"""Between which numbers the elements of a tiny value lie, as far as the ops that make it say."""

from __future__ import annotations

from math import inf

from xdsl.ir import SSAValue

from polyc.dialects import tiny

MOST_OPS = 16
"""Ops behind a value that are asked."""

_MOVEMENTS = (tiny.ExpandOp, tiny.PermuteOp, tiny.ReshapeOp, tiny.SliceOp)
_RANGES = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "erf": (-1.0, 1.0)}


def bounds(value: SSAValue, most: int = MOST_OPS) -> tuple[float, float]:
    """The least and the largest number that an element may be, unless it is NaN."""
    op = value.owner
    if most == 0:
        return -inf, inf
    if isinstance(op, _MOVEMENTS):
        return bounds(op.operands[0], most - 1)
    if isinstance(op, tiny.ConstantOp):
        number = float(op.number)
        return (number, number) if number == number else (-inf, inf)
    if isinstance(op, tiny.UnaryOp):
        return _RANGES.get(op.function, (-inf, inf))
    if isinstance(op, tiny.BinaryOp) and op.function in ("max", "min"):
        (low, high), (less, more) = (bounds(x, most - 1) for x in (op.lhs, op.rhs))
        take = max if op.function == "max" else min
        return take(low, less), take(high, more)
    return -inf, inf


def is_within(value: SSAValue, size: float) -> bool:
    """Whether no element is larger than ``size``, or smaller than that below 0."""
    low, high = bounds(value)
    return -size <= low and high <= size
