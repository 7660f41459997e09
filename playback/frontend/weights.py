"""Which operands of products are a softmax's weights: divided exponentials (S0.6)."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.movements import MovementOp


def are_weights(value: SSAValue) -> bool:
    """Whether a value is a softmax, or exponentials that are divided, moved, cast or scaled.

    A product may take the exponentials, and the sum be divided: the two round unlike numbers.
    """
    divided = False
    stack = [value]
    seen: set[SSAValue] = set()
    while stack:
        found = stack.pop()
        op = found.owner
        if found in seen:
            continue
        seen.add(found)
        match op:
            case frontend.SoftmaxOp():
                return True
            case frontend.ElementwiseOp() if op.function == "exp" and divided:
                return True
            case frontend.ElementwiseOp() if op.function in ("mul", "div"):
                divided = divided or op.function == "div"
                stack += op.operands if op.function == "mul" else op.operands[:1]
            case MovementOp() | frontend.CastOp():
                stack += op.operands
            case _:
                pass
    return False


def are_multiplied(value: SSAValue) -> bool:
    """Whether a product reads a value, moved or not."""
    stack = [value]
    while stack:
        for use in stack.pop().uses:
            op: Operation = use.operation
            if isinstance(op, frontend.GemmOp):
                return True
            if isinstance(op, MovementOp | frontend.CastOp):
                stack += op.results
    return False
