"""Numbers in text: constants that read back as they were, infinities and NaN included.

A number is written as Python or C print it: ``1``, ``1.5``, ``1e-05``, ``-2.5E+3``, ``inf``,
``-inf``, ``nan``.  A bit pattern (``0x7FC00000``) is of one type alone, and no op of ours takes it.
A number of an integer type is written without a point.
"""

from __future__ import annotations

import math
import sys

from xdsl.dialects.builtin import AnyFloat, Float32Type, FloatAttr, IntAttr, f32
from xdsl.ir import Attribute
from xdsl.parser import AttrParser

from polyc.dialects.common.elements import (
    Number,
    NumberAttr,
    bounds,
    holds,
    is_integer,
    number_attr,
)


def as_type(value: float, kind: AnyFloat) -> float | None:
    """``value`` rounded to ``kind``, None where a finite value is too large for that."""
    try:
        rounded = FloatAttr(value, kind).value.data
    except OverflowError:
        return None
    return None if math.isinf(rounded) and not math.isinf(value) else rounded


def parse_real(parser: AttrParser) -> float:
    """Parse a number, ``inf`` or ``nan``, with an optional sign; refuse one beyond Python's."""
    return float(parse_number(parser))


MOST = sys.float_info.max
"""The largest number that Python's floats hold."""


def parse_number(parser: AttrParser) -> Number:
    """Parse as ``parse_real``, and give an int of what is written without a point."""
    start = parser.pos
    negative = parser.parse_optional_punctuation("-") is not None
    if not negative:
        parser.parse_optional_punctuation("+")
    if parser.parse_optional_keyword("inf") is not None:
        value = math.inf
    elif parser.parse_optional_keyword("nan") is not None:
        value = math.nan
    else:
        at = parser.pos
        found = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        if found is None:
            found = parser.parse_optional_float(allow_negative=False)
        text = parser.lexer.input.slice(at, parser.pos) or ""
        if found is None:
            parser.raise_error("expected a number, inf or nan", start)
        if text.lstrip().startswith(("0x", "0X")):
            parser.raise_error(
                f"{text.strip()} is a bit pattern; write the number, inf or nan", start, parser.pos
            )
        value = found
        if abs(value) > MOST:
            parser.raise_error(
                f"{text.strip()} is beyond every floating-point type; write inf", start, parser.pos
            )
    if negative and value == 0:
        return -0.0
    return -value if negative else value


def check_fits(parser: AttrParser, value: float, kind: AnyFloat, start: int) -> None:
    """Refuse a finite number that the text gives at ``start`` and that ``kind`` does not hold."""
    if as_type(value, kind) is None:
        parser.raise_error(
            f"{value:g} is beyond the largest {kind}, {_largest(kind):.8g}; write inf",
            start,
            parser.pos,
        )


def _largest(kind: AnyFloat) -> float:
    """The largest finite number of a type: the one whose bit pattern is below infinity's."""
    infinity = int.from_bytes(kind.pack([math.inf]), "little")
    return kind.unpack((infinity - 1).to_bytes(kind.compile_time_size, "little"), 1)[0]


def parse_f32(parser: AttrParser) -> float:
    """Parse a number, ``inf``, ``-inf`` or ``nan``; refuse a finite one beyond f32."""
    start = parser.pos
    value = parse_real(parser)
    check_fits(parser, value, f32, start)
    return value


PlainAttr = FloatAttr[Float32Type] | IntAttr
"""A number in IR that has its type from what it stands beside: an int of integers, else an f32."""


def plain_attr(value: Number, element: Attribute) -> PlainAttr:
    """A number beside values of ``element``."""
    return IntAttr(int(value)) if is_integer(element) else FloatAttr(float(value), f32)


def plain_number(attr: PlainAttr) -> Number:
    """The number of an attribute, an int of integers."""
    return attr.data if isinstance(attr, IntAttr) else float(attr.value.data)


def parse_plain(parser: AttrParser, element: Attribute | None = None) -> PlainAttr:
    """Parse a number; what has no point is an int, unless it stands beside floats or conditions."""
    start = parser.pos
    value = parse_number(parser)
    if isinstance(value, int) and (element is None or is_integer(element)):
        return IntAttr(value)
    check_fits(parser, float(value), f32, start)
    return FloatAttr(float(value), f32)


def beside(attr: PlainAttr, element: Attribute) -> PlainAttr:
    """A number as it is beside values of ``element``, also where it was written without a point.

    A number that f32 does not hold stays an integer, which ``plain_fault`` refuses.
    """
    if not isinstance(attr, IntAttr):
        whole = is_integer(element) and holds(element, plain_number(attr))
        return plain_attr(plain_number(attr), element) if whole else attr
    real = not is_integer(element) and as_type(float(attr.data), f32) is not None
    return FloatAttr(float(attr.data), f32) if real else attr


def plain_fault(attr: PlainAttr, element: Attribute) -> str | None:
    """What is wrong with a number beside values of ``element``, or None."""
    if is_integer(element):
        return not_held(plain_number(attr), element)
    if isinstance(attr, IntAttr):
        return f"{attr.data} is an integer beside {element}; write it with a point"
    return None


def not_held(value: Number, element: Attribute) -> str | None:
    """The sentence for a number that an integer type does not hold, or None."""
    if holds(element, value):
        return None
    least, most = bounds(element)
    return f"{number_text(value)} is no {element}, which holds integers from {least} to {most}"


def typed_number(parser: AttrParser, value: Number, element: Attribute, start: int) -> NumberAttr:
    """The number that stood at ``start`` in a type, which may have come later in the text."""
    if is_integer(element):
        if (fault := not_held(value, element)) is not None:
            parser.raise_error(fault, start, parser.pos)
    else:
        check_fits(parser, float(value), element if isinstance(element, AnyFloat) else f32, start)
    return number_attr(value, element)


def number_text(value: Number, kind: Attribute = f32) -> str:
    """The shortest decimal text that reads back as ``value`` in ``kind``; inf, -inf or nan."""
    if isinstance(value, int):
        return str(value)
    kind = kind if isinstance(kind, AnyFloat) else f32
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    rounded = as_type(value, kind)
    text = repr(value)
    for digits in range(1, 18):
        shorter = f"{value:.{digits}g}"
        if as_type(float(shorter), kind) == rounded:
            text = shorter
            break
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{mark}{exponent}"
