"""How near is near enough: one comparison for playback, simulator, GPU and benchmarks (S0.6).

The expected values come with errors that are derived from their computation
(``playback/estimate.py``).  A stored value stands for all numbers that round to it; it agrees when
the nearest of these is within ``FACTOR`` errors of the expected value.  So an output whose
computation is exact must be right to the last bit.  docs/semantics.md, *Agreement*, has how many
errors right kernels are off: the factor is at most 16 times that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute

from polyc.dialects.common.elements import Number, is_integer
from polyc.playback.estimate import FACTOR, Estimate
from polyc.playback.functions import MANTISSA_BITS, Array, round_to, ulp


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first element that differs, and how many do.

    ``tolerance`` is how far the element may be from what is expected.
    """

    index: tuple[int, ...]
    actual: Number
    expected: Number
    tolerance: float
    count: int
    total: int

    def __str__(self) -> str:
        return (
            f"element {list(self.index)} is {_text(self.actual)}, expected {_text(self.expected)} "
            f"within {self.tolerance:.3g}; {self.count} of {self.total} elements differ"
        )


def _text(value: Number) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


class ShapeMismatch(ValueError):
    """Arrays of unlike shapes were compared."""


def tolerance_check(
    actual: Array, expected: Estimate | Array, element_type: Attribute
) -> Mismatch | None:
    """None when ``actual`` agrees with ``expected``, else what differs.

    ``actual`` is stored as ``element_type``.  An array in place of an Estimate is exact.  NaN
    agrees with NaN only, an infinity with the same infinity or with what may round to it.  An
    element of which nothing is known agrees with everything (``unknown``).  Raises ShapeMismatch.
    """
    needed = errors_needed(actual, expected, element_type)
    differing = np.flatnonzero(needed > FACTOR)
    if not differing.size:
        return None
    first = int(differing[0])
    index = tuple(int(i) for i in np.unravel_index(first, actual.shape))
    wanted = _estimate(expected)
    if is_integer(element_type):
        given, asked = int(actual[index]), int(wanted.value[index])
        return Mismatch(index, given, asked, 0.0, int(differing.size), int(actual.size))
    value = float(wanted.value[index])
    room = 0.0
    if np.isfinite(value):
        kind = f32 if element_type == i1 else element_type
        room = FACTOR * float(wanted.error[index])
        room += float(ulp(np.asarray(value), kind)) / 2
    return Mismatch(index, float(actual[index]), value, room, int(differing.size), int(actual.size))


def errors_needed(actual: Array, expected: Estimate | Array, element_type: Attribute) -> Array:
    """How many of its errors each element of ``actual`` is away from ``expected``.

    0 where it is what the expected value rounds to, infinite where no number of errors reaches
    it.  Raises ShapeMismatch.
    """
    wanted = _estimate(expected)
    if actual.shape != wanted.shape:
        raise ShapeMismatch(f"shape {list(actual.shape)}, expected {list(wanted.shape)}")
    with np.errstate(all="ignore"):
        a, e, errors = actual.astype(np.float64), wanted.value.astype(np.float64), wanted.error
        if element_type == i1 or is_integer(element_type):
            away = np.where(actual == wanted.value, 0.0, np.inf)
            errors = np.where(errors > 0, np.inf, 0.0)
        else:
            low, high = _cell(round_to(actual, element_type), element_type)
            away = np.maximum(np.maximum(low - e, e - high), 0.0)
            # Zeros of both signs round alike here, and NaN is itself.
            away = np.where((a == e) | (np.isnan(a) & np.isnan(e)), 0.0, away)
            away = np.where(np.isnan(away), np.inf, away)
        ratio = np.where(away == 0, 0.0, away / errors)
        return np.where(np.isinf(errors), 0.0, ratio)


def unknown(expected: Estimate | Array) -> int:
    """Of how many elements nothing is known, so that any result agrees."""
    return int(np.isinf(_estimate(expected).error).sum())


def _estimate(x: Estimate | Array) -> Estimate:
    return x if isinstance(x, Estimate) else Estimate(x)


def _cell(stored: Array, element_type: Attribute) -> tuple[Array, Array]:
    """The ends of what rounds to each stored value, in f64; an end may be infinite, or NaN's."""
    ends: list[Array] = []
    wide = stored.astype(np.float64)
    for side in (-np.inf, np.inf):
        beside = np.nextafter(stored, stored.dtype.type(side)).astype(np.float64)
        middle = (wide + beside) / 2
        # Beyond the largest finite value a half of its ulp rounds to it, all else to infinity.
        largest = np.isinf(beside) & np.isfinite(wide)
        middle = np.where(largest, wide + np.sign(side) * ulp(wide, element_type) / 2, middle)
        ends.append(np.where(np.isinf(wide) & (wide == side), wide, middle))
    # From the inside an infinity begins half an ulp beyond the largest finite value.
    top = float(np.finfo(stored.dtype).max) if stored.dtype.kind == "f" else _largest(element_type)
    edge = top + float(ulp(np.asarray(top), element_type)) / 2
    low = np.where(wide == np.inf, edge, ends[0])
    high = np.where(wide == -np.inf, -edge, ends[1])
    return low, high


def _largest(element_type: Attribute) -> float:
    """The largest finite value of a type that NumPy does not know."""
    return float(2.0**127 * (2 - 2.0 ** -MANTISSA_BITS[element_type]))
