"""``index-to-region``: the types in which values lie in memory between kernels (S0.6)."""

from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from polyc.cost.values import size_in_bytes
from polyc.dialects import index, tiny
from polyc.dialects.common.elements import Number, holds
from polyc.dialects.common.movements import MovementOp


def stored_type(value: SSAValue) -> Attribute:
    """The element type in which a value is stored between two kernels.

    It is the one that its op says to be its own, or that in which it is computed.  What is moved
    has the type of what it is made of, or widened from, where that holds the numbers that a pad or
    a mask adds.
    """
    moved, computed = value, tiny.tensor_of(value).element_type
    fills: list[Number] = []
    while isinstance(op := moved.owner, MovementOp):
        if isinstance(op, tiny.PadOp | tiny.MaskOp):
            fills.append(op.number)
        moved = op.source
    match op:
        case tiny.FunctionOp() | tiny.SelectOp() | tiny.ReduceOp() | tiny.ScanOp():
            own = op.own
        case tiny.CastOp() if index.is_widening(moved):
            own = tiny.tensor_of(op.operand).element_type
        case _:
            own = None
    if own is None or not all(holds(own, number) for number in fills):
        return computed
    return own


def stored_size(value: SSAValue) -> int:
    """The bytes of one element of a value that is stored between two kernels."""
    return size_in_bytes(stored_type(value))


def same_number(a: Number, b: Number) -> bool:
    return a == b or (a != a and b != b)
