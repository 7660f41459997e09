"""How large a value of a region may be, by what it is made of: what sums of it may come to."""

from __future__ import annotations

from math import copysign
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects.common.elements import bounds, is_integer, number_of, width
from polyc.dialects.region.axes import BroadcastInDimOp
from polyc.dialects.region.elementwise import CastOp, SelectOp
from polyc.dialects.region.leaves import ConstantOp
from polyc.dialects.region.types import ValType

EXACT = 1 << 24
"""The largest magnitude up to which f32 has all integers."""

EXACT_NARROW = 1 << 8
"""And that up to which bf16 and f16 have them."""

NARROW = 16
"""Bits of integers whose sums are looked at for their type alone."""


def whole_up_to(value: SSAValue) -> int | None:
    """The largest magnitude of a real number that is an integer, and not -0; None of others."""
    op = value.owner
    if isinstance(op, BroadcastInDimOp):
        return whole_up_to(op.operand)
    if isinstance(op, CastOp):
        source, target = (cast(ValType, v.type).element_type for v in (op.operand, op.result))
        if is_integer(target):
            return None  # It may be cut, or wrap.
        found = _of_type(source)
        found = whole_up_to(op.operand) if found is None else found
        return None if found is None or (target != f32 and found > EXACT_NARROW) else found
    if not isinstance(op, ConstantOp):
        return None
    number = float(number_of(op.value))
    if not number.is_integer() or copysign(1.0, number) < 0 == number:
        return None
    return int(abs(number))


def integer_up_to(value: SSAValue) -> int | None:
    """The largest magnitude of an integer, where it is known to be far below its type's."""
    op = value.owner
    if isinstance(op, BroadcastInDimOp):
        return integer_up_to(op.operand)
    if isinstance(op, CastOp):
        source, target = (cast(ValType, v.type).element_type for v in (op.operand, op.result))
        if not is_integer(source) or not is_integer(target):
            return None
        found = _of_type(source)
        found = integer_up_to(op.operand) if found is None else found
        return None if found is None or found > bounds(target)[1] else found
    if isinstance(op, SelectOp):
        both = integer_up_to(op.if_true), integer_up_to(op.if_false)
        return None if None in both else max(size or 0 for size in both)
    return abs(int(number_of(op.value))) if isinstance(op, ConstantOp) else None


def _of_type(source: Attribute) -> int | None:
    """The largest magnitude of an integer of a narrow type; None of other types."""
    if not is_integer(source) or width(source) > NARROW:
        return None
    return max(map(abs, bounds(source)))
