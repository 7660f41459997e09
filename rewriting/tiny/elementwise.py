"""What several passes of ``tiny`` ask of ops that compute element by element."""

from __future__ import annotations

from collections.abc import Iterator

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
    made = (v for v in _behind(value, ELEMENTWISE) if v is not value)
    return any(is_repeated(one, axes) and _is_reduced(one) for one in made)


def _is_reduced(value: SSAValue) -> bool:
    """Whether a value is a reduction, or moved or computed of one element by element."""
    made = _behind(value, (MovementOp, *ELEMENTWISE))
    return any(isinstance(one.owner, tiny.ReduceOp) for one in made)


def _behind(value: SSAValue, kinds: tuple[type, ...]) -> Iterator[SSAValue]:
    """A value, and all that ops of some kinds make it of."""
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        if (one := work.pop()) in seen:
            continue
        seen.add(one)
        yield one
        if isinstance(op := one.owner, Operation) and isinstance(op, kinds):
            work += reversed(op.operands)
