"""Numbers in text: f32 constants that read back as they were, infinities and NaN included."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.parser import Parser


def as_f32(value: float) -> float | None:
    """``value`` rounded to f32, None where a finite value is too large for that."""
    try:
        return FloatAttr(value, f32).value.data
    except OverflowError:
        return None


def parse_f32(parser: Parser) -> float:
    """Parse a number, ``inf``, ``-inf`` or ``nan``; refuse a finite one beyond f32."""
    start = parser.pos
    negative = parser.parse_optional_punctuation("-") is not None
    if parser.parse_optional_keyword("inf") is not None:
        value = math.inf
    elif parser.parse_optional_keyword("nan") is not None:
        value = math.nan
    else:
        value = float(parser.parse_number(allow_boolean=False))
    if as_f32(value) is None:
        parser.raise_error(
            f"{value:g} is beyond the largest f32, 3.4028235e+38; write inf", start, parser.pos
        )
    return -value if negative else value


def number_text(value: float) -> str:
    """The shortest decimal text that reads back as the f32 ``value``; inf, -inf or nan."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    single = as_f32(value)
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        if as_f32(float(text)) == single:
            break
    else:
        text = repr(value)
    if "e" in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
    return text if "." in text else text + ".0"
