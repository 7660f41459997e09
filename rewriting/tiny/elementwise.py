"""What several passes of ``tiny`` ask of ops that compute element by element."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.movements import MovementOp

ELEMENTWISE = (
    *(tiny.UnaryOp, tiny.BinaryOp, tiny.CompareOp, tiny.SelectOp, tiny.CastOp),
    tiny.BitcastOp,
)
"""Ops that compute each element of elements at the same place."""


def is_product(value: SSAValue) -> bool:
    """Whether a value is the product of two others."""
    op = value.owner
    return isinstance(op, tiny.BinaryOp) and op.function == "mul" and op.lhs is not op.rhs


def is_repeated(value: SSAValue, axes: frozenset[int]) -> bool:
    """Whether a value is the same everywhere along some axes."""
    op = value.owner
    if not isinstance(op, tiny.ExpandOp):
        return False
    return axes.isdisjoint(set(op.dims) - set(op.stretched()))


def waits(value: SSAValue, axes: frozenset[int]) -> bool:
    """Whether a value is computed, element by element, of one of a reduction that is repeated along
    some axes."""
    return _waits(value, axes, set())


def _waits(value: SSAValue, axes: frozenset[int], seen: set[Operation]) -> bool:
    op = value.owner
    if not isinstance(op, ELEMENTWISE) or op in seen:
        return False
    seen.add(op)
    return any(
        (is_repeated(operand, axes) and _is_reduced(operand, set())) or _waits(operand, axes, seen)
        for operand in op.operands
    )


def _is_reduced(value: SSAValue, seen: set[Operation]) -> bool:
    """Whether a value is a reduction, or moved or computed of one element by element."""
    op = value.owner
    if not isinstance(op, Operation) or op in seen:
        return False
    seen.add(op)
    if isinstance(op, tiny.ReduceOp):
        return True
    along = isinstance(op, (MovementOp, *ELEMENTWISE))
    return along and any(_is_reduced(operand, seen) for operand in op.operands)
