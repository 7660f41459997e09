"""Functions of elements that graphs write as several, and kernels compute as one."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from polyc.dialects.region.axes import BroadcastInDimOp, TransposeOp
from polyc.dialects.region.elementwise import BinaryOp, UnaryOp
from polyc.dialects.region.leaves import ConstantOp

_TAIL = ("log1p", "exp", "neg", "abs")


def under_softplus(op: Operation) -> SSAValue | None:
    """What x is where an op is the tanh of x's softplus, ``max(x, 0) + log1p(exp(-|x|))``; None of
    any other op.

    Mish is x times that.
    """
    if not isinstance(op, UnaryOp) or op.fn.data != "tanh":
        return None
    total = op.operand.owner
    if not isinstance(total, BinaryOp) or total.fn.data != "add":
        return None
    for above, tail in ((total.lhs, total.rhs), (total.rhs, total.lhs)):
        below = _under(tail)
        if below is not None and _is_positive_part(above.owner, below):
            return below
    return None


def is_left_out(op: Operation) -> bool:
    """Whether an op is the logarithm of a softplus of which only the tanh is taken."""
    if not isinstance(op, UnaryOp) or op.fn.data != "log1p":
        return False
    totals = [use.operation for use in op.result.uses]
    takers = [use.operation for total in totals for use in total.results[0].uses]
    return bool(takers) and all(under_softplus(taker) is not None for taker in takers)


def _under(tail: SSAValue) -> SSAValue | None:
    """What x is in ``log1p(exp(-|x|))``."""
    for name in _TAIL:
        op = tail.owner
        if not isinstance(op, UnaryOp) or op.fn.data != name:
            return None
        tail = op.operand
    return tail


def _is_positive_part(op: object, x: SSAValue) -> bool:
    """Whether an op is ``max(x, 0)``."""
    if not isinstance(op, BinaryOp) or op.fn.data != "max":
        return False
    return any(a is x and _is_zero(b) for a, b in ((op.lhs, op.rhs), (op.rhs, op.lhs)))


def _is_zero(value: SSAValue) -> bool:
    while isinstance(value.owner, BroadcastInDimOp | TransposeOp):
        value = value.owner.operand
    return isinstance(value.owner, ConstantOp) and value.owner.number == 0
