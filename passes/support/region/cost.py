"""A first cost of a kernel's ops: operations at nominal sizes, for rewrites to compare.

An operation is one instruction of one element; what an access or a launch costs is not in
it.  Only differences between two forms of the same values mean something.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.ir import Operation

from polyc.dialects import region
from polyc.dialects.region.types import ValType, val_type

NOMINAL = 1024
"""What a symbol counts as where nothing else is said."""

SLOW = 8
"""Operations of a function that the special function units or several instructions compute."""

EXCHANGE = 10
"""Operations by which threads bring their partial results to one, a result."""

SIMPLE_UNARY, SLOW_BINARY = ("abs", "neg"), ("atan2", "div", "fmod", "philox", "pow")


def points(value: ValType, nominal: int = NOMINAL) -> int:
    """Elements of a value where every symbol is ``nominal``."""
    return prod(d.evaluate(dict.fromkeys(d.symbols(), nominal)) for d in value.shape)


def operations(op: Operation, nominal: int = NOMINAL) -> int:
    """What ``op`` costs.  Views are free, and so is a product that only a sum reads (an FMA)."""
    match op:
        case region.UnaryOp():
            weight = 1 if op.fn.data in SIMPLE_UNARY else SLOW
            return weight * points(op.result.type, nominal)
        case region.BinaryOp():
            if op.fn.data == "mul" and _only_summed(op):
                return 0
            weight = SLOW if op.fn.data in SLOW_BINARY else 1
            return weight * points(op.result.type, nominal)
        case region.CompareOp() | region.SelectOp() | region.CastOp() | region.BitcastOp():
            return points(op.result.type, nominal)
        case region.ReduceOp():
            taken = val_type(op.operand)
            return points(taken, nominal) + EXCHANGE * points(op.result.type, nominal)
        case _:
            return 0


def total(ops: Iterable[Operation], nominal: int = NOMINAL) -> int:
    """What several ops cost together."""
    return sum(operations(op, nominal) for op in ops)


def _only_summed(op: region.BinaryOp) -> bool:
    users = [use.operation for use in op.result.uses]
    return bool(users) and all(
        isinstance(user, region.ReduceOp) and user.fn.data == "sum" for user in users
    )
