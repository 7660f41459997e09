"""Lengths that are data: masks that hide every key of a sequence from one on (S6.4).

A mask ``n < length[b]``, as of sequences of a cache that is filled so far, is a condition for each
key; what a kernel needs to know of it is a number for each point of the batch: where its walk over
the keys ends.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.dialects import region
from polyc.dialects.common.elements import is_integer, is_unsigned, width
from polyc.families.attention.queries import ELEMENTWISE
from polyc.rewriting.postorder import operands_of, reached
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.views import behind_views

LEAST_WIDTH = 32
"""Bits of an integer from which on a key's number does not wrap in it."""


@dataclass(frozen=True)
class End:
    """``gate`` holds of the keys before ``value``, an integer for each point of the batch, and of
    that key too where it is ``closed``."""

    gate: SSAValue
    value: SSAValue
    closed: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """The axes that the value depends on."""
        return type_of(self.value).labels


def ends_among(gates: Sequence[SSAValue], n: str, batch: Collection[str]) -> tuple[End, ...]:
    """Those gates that hide every key from some number on, which the batch alone has a part in."""
    found = (_end_of(gate, n, batch) for gate in gates)
    return tuple(end for end in found if end is not None)


def _end_of(gate: SSAValue, n: str, batch: Collection[str]) -> End | None:
    op = gate.owner
    if not isinstance(op, region.CompareOp) or op.fn.data not in ("lt", "le", "gt", "ge"):
        return None
    key, value = (behind_views(side) for side in op.operands)
    if op.fn.data in ("gt", "ge"):
        key, value = value, key
    index, kind = key.owner, type_of(key).element_type
    if not isinstance(index, region.IndexOp) or index.expr != AffineDimExpr(0):
        return None
    if index.result.type.labels != (n,) or is_unsigned(kind) or width(kind) < LEAST_WIDTH:
        return None
    if unlike_scalars(value) is not None or not set(type_of(value).labels) <= set(batch):
        return None
    return End(gate, value, op.fn.data in ("le", "ge"))


def unlike_scalars(value: SSAValue) -> Operation | None:
    """The first op by which an integer is more than what a thread computes of what it reads.

    That is a reduction, say, or a read or a set that a guard bounds.  None where there is none.
    """
    assert is_integer(type_of(value).element_type)
    for made in reached([value], operands_of):
        op = made.owner
        if not isinstance(op, Operation):
            continue  # the tensor that is read
        if not isinstance(op, ELEMENTWISE) or isinstance(op, region.InsideOp):
            return op
        if isinstance(op, region.ReadOp) and op.guard is not None:
            return op
    return None
