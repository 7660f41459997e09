"""Functions of elements that graphs write as several, and kernels compute as one."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from polyc.dialects.region.axes import BroadcastInDimOp, TransposeOp
from polyc.dialects.region.elementwise import BinaryOp, CompareOp, SelectOp, UnaryOp
from polyc.dialects.region.leaves import ConstantOp


def is_tanh_of_softplus(op: Operation) -> bool:
    """Whether an op is the quotient that ``frontend-to-tiny`` makes of a softplus's tanh.

    Of ``t = exp(-|x|)`` it is ``(a + 2t) / (a + 2t + 2b)``, where a is 1 and b is t² of an x from 0
    on, and the other way round below: what is divided by is 1 to 5, or NaN.
    """
    over = _of(op, "div")
    under = over and _of(over[1].owner, "add")
    top = over and _of(over[0].owner, "add")
    if over is None or under is None or top is None or under[0] is not over[0]:
        return False
    power, rest = _half(top[1]), _half(under[1])
    if power is None or rest is None:
        return False
    first, second = top[0].owner, rest.owner
    if not isinstance(first, SelectOp) or not isinstance(second, SelectOp):
        return False
    square = _of(first.if_false.owner, "mul")
    return (
        first.condition is second.condition
        and _is_from_zero(first.condition, _under(power))
        and _is_number(first.if_true, 1)
        and _is_number(second.if_false, 1)
        and second.if_true is first.if_false
        and square == (power, power)
    )


def _of(op: object, name: str) -> tuple[SSAValue, SSAValue] | None:
    """The operands of a binary function of that name."""
    if not isinstance(op, BinaryOp) or op.fn.data != name:
        return None
    return op.lhs, op.rhs


def _half(value: SSAValue) -> SSAValue | None:
    """What a value is twice."""
    product = _of(value.owner, "mul")
    return product[0] if product is not None and _is_number(product[1], 2) else None


def _under(power: SSAValue) -> SSAValue | None:
    """What x is in ``exp(-|x|)``."""
    for name in ("exp", "neg", "abs"):
        op = power.owner
        if not isinstance(op, UnaryOp) or op.fn.data != name:
            return None
        power = op.operand
    return power


def _is_from_zero(condition: SSAValue, x: SSAValue | None) -> bool:
    """Whether a condition is ``x >= 0``."""
    op = condition.owner
    if not isinstance(op, CompareOp) or op.fn.data != "ge":
        return False
    return op.lhs is x and _is_number(op.rhs, 0)


def _is_number(value: SSAValue, number: int) -> bool:
    while isinstance(value.owner, BroadcastInDimOp | TransposeOp):
        value = value.owner.operand
    return isinstance(value.owner, ConstantOp) and value.owner.number == number
