"""What several passes of ``tiny`` ask of ops that compute element by element."""

from __future__ import annotations

from xdsl.ir import SSAValue

from polyc.dialects import tiny

ELEMENTWISE = (
    *(tiny.UnaryOp, tiny.BinaryOp, tiny.CompareOp, tiny.SelectOp, tiny.CastOp),
    tiny.BitcastOp,
)
"""Ops that compute each element of elements at the same place."""


def is_product(value: SSAValue) -> bool:
    """Whether a value is the product of two others."""
    op = value.owner
    return isinstance(op, tiny.BinaryOp) and op.function == "mul" and op.lhs is not op.rhs
