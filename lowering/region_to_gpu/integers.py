"""``region-to-gpu``: arithmetic of integers and conditions at one point, as ``arith`` ops (S0.6).

A region's type says whether an integer is signed; ``arith`` has types without a sign, and ops that
say it.  What C leaves open is defined here as docs/semantics.md says: a division by 0, the quotient
that does not fit, shifts by more than the type has bits, a real number beyond an integer type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f32, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.elements import (
    MAX_BITS,
    bounds,
    is_integer,
    is_unsigned,
    width,
    without_sign,
)
from polyc.dialects.gpu.hardware import CutOp, PhiloxOp, PowerOp
from polyc.dialects.gpu.scalars import wrapping
from polyc.rewriting.emit import Emit

Op2 = Callable[[SSAValue, SSAValue], Operation]

PLAIN: Mapping[str, Op2] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "and": arith.AndIOp,
    "or": arith.OrIOp,
    "xor": arith.XOrIOp,
}
"""Functions that wrap, whose bits no sign changes."""

SIGNED: Mapping[str, tuple[Op2, Op2]] = {
    "max": (arith.MaxSIOp, arith.MaxUIOp),
    "min": (arith.MinSIOp, arith.MinUIOp),
}
"""Functions by sign: of signed numbers, and of others."""

CUT_BITS = 32
"""The width to which the hardware cuts numbers, and clamps them."""

_ORDER = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


def number(emit: Emit, value: int, element: Attribute) -> SSAValue:
    """A constant of an integer type or a condition."""
    kind = cast("IntegerType", without_sign(element))
    bits = kind.width.data
    wrapped = (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) if bits > 1 else value
    return emit.value(arith.ConstantOp(IntegerAttr(wrapped, kind)))


def compare(emit: Emit, fn: str, lhs: SSAValue, rhs: SSAValue, element: Attribute) -> SSAValue:
    """A relation of two integers, or of two conditions."""
    name = _ORDER.get(fn, fn)
    if is_unsigned(element) and fn in _ORDER:
        name = "u" + fn
    return emit.value(arith.CmpiOp(lhs, rhs, name))


def unary(emit: Emit, fn: str, value: SSAValue, element: Attribute) -> SSAValue:
    """A function of one integer, or of one condition."""
    if fn == "not":
        ones = number(emit, 1 if element == i1 else -1, element)
        return emit.value(arith.XOrIOp(value, ones))
    zero = number(emit, 0, element)
    negative = _plain(emit, "sub", zero, value, element)
    if fn == "neg":
        return negative
    assert fn == "abs", fn
    if is_unsigned(element):
        return value
    below = compare(emit, "lt", value, zero, element)
    return emit.value(arith.SelectOp(below, negative, value))


def binary(emit: Emit, fn: str, lhs: SSAValue, rhs: SSAValue, element: Attribute) -> SSAValue:
    """A function of two integers of one type, or of two conditions."""
    if fn in PLAIN:
        return _plain(emit, fn, lhs, rhs, element)
    if fn in SIGNED:
        return emit.value(SIGNED[fn][is_unsigned(element)](lhs, rhs))
    if fn in ("shl", "shr"):
        return _shift(emit, fn, lhs, rhs, element)
    if fn == "philox":
        return emit.value(PhiloxOp(lhs, rhs))
    if fn == "pow":
        return _power(emit, lhs, rhs, element)
    return _division(emit, fn, lhs, rhs, element)


def _plain(emit: Emit, fn: str, lhs: SSAValue, rhs: SSAValue, element: Attribute) -> SSAValue:
    op = PLAIN[fn](lhs, rhs)
    overflows = fn in ("add", "sub", "mul") and element != i1 and width(element) == MAX_BITS
    return emit.value(wrapping(op) if overflows else op)


def _shift(emit: Emit, fn: str, value: SSAValue, by: SSAValue, element: Attribute) -> SSAValue:
    bits = number(emit, width(element), element)
    inside = emit.value(arith.CmpiOp(by, bits, "ult"))
    most = number(emit, width(element) - 1, element)
    least = emit.value(arith.SelectOp(inside, by, most))
    if fn == "shr" and not is_unsigned(element):
        return emit.value(arith.ShRSIOp(value, least))
    op = arith.ShLIOp if fn == "shl" else arith.ShRUIOp
    zero = number(emit, 0, element)
    return emit.value(arith.SelectOp(inside, emit.value(op(value, least)), zero))


def _power(emit: Emit, base: SSAValue, by: SSAValue, element: Attribute) -> SSAValue:
    """What is to a number below 0 is the quotient of 1: of 1 and -1 themselves, of others 0."""
    power = emit.value(PowerOp(base, by))
    if is_unsigned(element):
        return power
    zero, one = number(emit, 0, element), number(emit, 1, element)
    # The low bit of an exponent below 0 says the sign, as of others.
    unit = compare(emit, "eq", unary(emit, "abs", base, element), one, element)
    below = compare(emit, "lt", by, zero, element)
    least = emit.value(arith.AndIOp(by, one))
    short = emit.value(PowerOp(base, least))
    inverse = emit.value(arith.SelectOp(unit, short, zero))
    return emit.value(arith.SelectOp(below, inverse, power))


def _division(emit: Emit, fn: str, lhs: SSAValue, rhs: SSAValue, element: Attribute) -> SSAValue:
    """``div`` is cut towards 0, ``fmod`` leaves what it does, ``mod`` has the divisor's sign.

    By 0 all are 0.  By -1 the quotient of the least number is that number, which the hardware does
    not promise: it is not divided, but negated.
    """
    zero = number(emit, 0, element)
    nothing = compare(emit, "eq", rhs, zero, element)
    special = nothing
    if not is_unsigned(element):
        minus = compare(emit, "eq", rhs, number(emit, -1, element), element)
        special = emit.value(arith.OrIOp(nothing, minus))
    divisor = emit.value(arith.SelectOp(special, number(emit, 1, element), rhs))
    if is_unsigned(element):
        op: Op2 = arith.DivUIOp if fn == "div" else arith.RemUIOp
        return emit.value(arith.SelectOp(nothing, zero, emit.value(op(lhs, divisor))))
    if fn == "div":
        quotient = emit.value(arith.DivSIOp(lhs, divisor))
        negated = _plain(emit, "sub", zero, lhs, element)
        other = emit.value(arith.SelectOp(nothing, zero, negated))
        return emit.value(arith.SelectOp(special, other, quotient))
    # Over 1 nothing is left, and over -1 and 0 nothing is to be.
    rest = emit.value(arith.RemSIOp(lhs, divisor))
    if fn == "fmod":
        return rest
    assert fn == "mod", fn
    some = compare(emit, "ne", rest, zero, element)
    unlike = emit.value(arith.XOrIOp(rest, rhs))
    across = compare(emit, "lt", unlike, zero, element)
    moved = emit.value(arith.AddiOp(rest, rhs))
    return emit.value(arith.SelectOp(emit.both(some, across), moved, rest))


# Conversions -------------------------------------------------------------------------------


def resized(emit: Emit, value: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """An integer in another type: it wraps in a narrower one."""
    kind = cast("IntegerType", without_sign(target))
    have, want = width(source), width(target)
    if have == want:
        return value
    if want < have:
        return emit.value(arith.TruncIOp(value, kind))
    return emit.value((arith.ExtUIOp if is_unsigned(source) else arith.ExtSIOp)(value, kind))


def to_real(emit: Emit, value: SSAValue, source: Attribute) -> SSAValue:
    """An integer as an f32, rounded to nearest even."""
    return emit.value((arith.UIToFPOp if is_unsigned(source) else arith.SIToFPOp)(value, f32))


def from_real(emit: Emit, value: SSAValue, target: Attribute) -> SSAValue:
    """An f32 cut towards 0 to an integer; beyond the type its least or most, and 0 of NaN."""
    least, most = bounds(target)
    kind = cast("IntegerType", without_sign(target))
    if width(target) == CUT_BITS:
        return emit.value(CutOp(value, is_unsigned(target)))
    if width(target) < CUT_BITS:
        whole = emit.value(CutOp(value))
        whole = emit.value(arith.MaxSIOp(whole, number(emit, least, i32)))
        whole = emit.value(arith.MinSIOp(whole, number(emit, most, i32)))
        return emit.value(arith.TruncIOp(whole, kind))

    def real(number: float) -> SSAValue:
        return emit.value(arith.ConstantOp(FloatAttr(number, f32)))

    # The first numbers beyond the type are powers of two, which f32 has.
    low, high = (real(float(n)) for n in (least, most + 1))
    above = emit.value(arith.CmpfOp(value, high, "oge"))
    inside = emit.both(
        emit.value(arith.CmpfOp(value, low, "oge")), emit.value(arith.CmpfOp(value, high, "olt"))
    )
    held = emit.value(arith.SelectOp(inside, value, real(0.0)))
    cut = emit.value((arith.FPToUIOp if is_unsigned(target) else arith.FPToSIOp)(held, kind))
    found = emit.value(arith.SelectOp(above, number(emit, most, target), cut))
    if least == 0:
        return found
    below = emit.value(arith.CmpfOp(value, low, "olt"))
    return emit.value(arith.SelectOp(below, number(emit, least, target), found))


def from_index(emit: Emit, value: SSAValue, target: Attribute) -> SSAValue:
    """A place or a size, a number of 32 bits, in an integer type."""
    return resized(emit, emit.value(arith.IndexCastOp(value, i32)), i32, target)


# Places ------------------------------------------------------------------------------------


def nearest(emit: Emit, index: SSAValue, size: SSAValue, element: Attribute) -> SSAValue:
    """The place of an axis that is nearest to an index; outside of an axis that has none."""
    last = _plain(emit, "sub", size, number(emit, 1, element), element)
    if not is_unsigned(element):
        index = emit.value(arith.MaxSIOp(index, number(emit, 0, element)))
    return binary(emit, "min", index, last, element)


def place_inside(
    emit: Emit, index: SSAValue, size: SSAValue, element: Attribute
) -> tuple[SSAValue, SSAValue]:
    """Whether an index is a place of an axis, and the place, or 0."""
    inside = emit.value(arith.CmpiOp(index, size, "ult"))
    return inside, emit.value(arith.SelectOp(inside, index, number(emit, 0, element)))


def is_whole(element: Attribute) -> bool:
    """Whether arithmetic of a type is this file's: integers and conditions."""
    return is_integer(element) or element == i1
