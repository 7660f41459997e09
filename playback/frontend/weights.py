"""Which operands of products are a softmax's weights: exponentials below a maximum, or divided
(S0.6)."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.movements import MovementOp


def are_weights(value: SSAValue) -> bool:
    """Whether a value is a softmax, or exponentials divided, moved, cast, scaled or hidden.

    A product may take the exponentials, and the sum be divided: the two round unlike numbers.  Nor
    need exponentials below a maximum be divided before the product, as they may be rounded below
    another one.
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
            case frontend.ElementwiseOp() if _is_power(op):
                if divided or _is_below_maximum(op.args[-1]):
                    return True
            case frontend.ElementwiseOp() if op.function in ("mul", "div"):
                divided = divided or op.function == "div"
                stack += op.operands if op.function == "mul" else op.operands[:1]
            case MovementOp() | frontend.CastOp():
                stack += op.operands
            case frontend.SelectOp() if _is_constant(op.otherwise):
                stack.append(op.then)
            case _:
                pass
    return False


def _is_power(op: frontend.ElementwiseOp) -> bool:
    """Whether an op is an exponential, or a power of a number."""
    return op.function == "exp" or (op.function == "pow" and _is_constant(op.args[0]))


def _is_below_maximum(value: SSAValue) -> bool:
    """Whether a value, perhaps scaled, is a difference to a maximum."""
    op = value.owner
    while isinstance(op, frontend.ElementwiseOp) and op.function in ("mul", "div"):
        op = next((a.owner for a in op.args if not _is_constant(a)), None)
    if not isinstance(op, frontend.ElementwiseOp) or op.function != "sub":
        return False
    stack = [op.args[1]]
    while stack:
        match stack.pop().owner:
            case frontend.ReduceOp() as top:
                return top.function == "max"
            case MovementOp() | frontend.CastOp() as moved:
                stack.append(moved.operands[0])
            case frontend.SelectOp() as chosen:
                stack += [chosen.then, chosen.otherwise]
            case frontend.ElementwiseOp() as one if one.function in ("max", "mul", "div"):
                stack += one.args
            case _:
                pass
    return False


def _is_constant(value: SSAValue) -> bool:
    while isinstance(op := value.owner, MovementOp | frontend.CastOp):
        value = op.operands[0]
    return isinstance(op, frontend.ConstantOp)


def are_multiplied(value: SSAValue) -> bool:
    """Whether a product reads a value, moved, cast, scaled or not."""
    stack = [value]
    while stack:
        for use in stack.pop().uses:
            op: Operation = use.operation
            if isinstance(op, frontend.GemmOp):
                return True
            scaled = isinstance(op, frontend.ElementwiseOp) and op.function in ("mul", "div")
            if scaled or isinstance(op, MovementOp | frontend.CastOp):
                stack += op.results
    return False
