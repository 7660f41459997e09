"""Numbers in text: constants that read back as they were, infinities and NaN included.

A number is written as Python or C print it: ``1``, ``1.5``, ``1e-05``, ``-2.5E+3``, ``inf``,
``-inf``, ``nan``.  A bit pattern (``0x7FC00000``) is of one type alone, and no op of ours takes it.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32
from xdsl.parser import AttrParser


def as_type(value: float, kind: AnyFloat) -> float | None:
    """``value`` rounded to ``kind``, None where a finite value is too large for that."""
    try:
        rounded = FloatAttr(value, kind).value.data
    except OverflowError:
        return None
    return None if math.isinf(rounded) and not math.isinf(value) else rounded


def parse_real(parser: AttrParser) -> float:
    """Parse a number, ``inf`` or ``nan``, with an optional sign; refuse one beyond Python's."""
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
        try:
            value = float(found)
        except OverflowError:
            value = math.inf
        if math.isinf(value):
            parser.raise_error(
                f"{text.strip()} is beyond every floating-point type; write inf", start, parser.pos
            )
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


def number_text(value: float, kind: AnyFloat = f32) -> str:
    """The shortest decimal text that reads back as ``value`` in ``kind``; inf, -inf or nan."""
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
