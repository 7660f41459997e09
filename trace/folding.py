"""Numbers that are known while a graph is traced (constant folding).

Only functions that IEEE 754 rounds correctly are folded, in f32 as kernels compute them: what is
folded is what they would give, to the bit (docs/semantics.md).
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence


def to_f32(value: float) -> float:
    """``value`` rounded to f32; infinite where it is beyond."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _div(a: float, b: float) -> float:
    if b:
        return a / b
    if math.isnan(a) or a == 0:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _larger(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def _smaller(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else min(a, b)


def _sqrt(a: float) -> float:
    return math.nan if a < 0 else math.sqrt(a)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding to whole numbers: a zero that comes of a negative number is -0."""

    def rounding(a: float) -> float:
        return math.copysign(function(a), a) if math.isfinite(a) else a

    return rounding


def _sign(a: float) -> float:
    return math.copysign(1.0, a) if abs(a) > 0 else a


# A double holds the sum, the product and the quotient of two f32 well enough that rounding it once
# more gives the f32 nearest to the exact one.
_PAIRS: Mapping[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _div,
    "max": _larger,
    "min": _smaller,
}

_ALONE: Mapping[str, Callable[[float], float]] = {
    "neg": operator.neg,
    "abs": math.fabs,
    "relu": lambda a: _larger(a, 0.0),
    "reciprocal": lambda a: _div(1.0, a),
    "sqrt": _sqrt,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "round": _whole(round),
    "sign": _sign,
}


def folded(fn: str, numbers: Sequence[float]) -> float | None:
    """The f32 that ``fn`` gives on f32s, or None where the result is a library's to round."""
    if len(numbers) == 1:
        alone = _ALONE.get(fn)
        return None if alone is None else to_f32(alone(*numbers))
    pair = _PAIRS.get(fn)
    return None if pair is None else to_f32(pair(*numbers))


def is_neutral(fn: str, position: int, number: float) -> bool:
    """Whether ``number`` as operand ``position`` leaves the other operand as it is, to the bit.

    ``x + 0`` does not: it makes 0 of -0.
    """
    negative = math.copysign(1.0, number) < 0
    match fn:
        case "add":
            return number == 0 and negative
        case "sub":
            return position == 1 and number == 0 and not negative
        case "mul":
            return number == 1
        case "div" | "pow":
            return position == 1 and number == 1
        case _:
            return False
