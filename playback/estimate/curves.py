"""What further functions of elements do to errors: NumPy's are in ``elements.py``.

A function that playback computes in f64 comes here by its name in the dialects; how far it moves
within an error is its slope, or what it is at both ends where it is monotone.  Beyond the end of
a domain, or beside a pole, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from polyc.playback.estimate.array import (
    FACTOR,
    FLOOR,
    UFUNCS,
    Array,
    Estimate,
    U,
    as_estimate,
    errors_of,
    in_f64,
    made,
    together,
)
from polyc.playback.estimate.elements import sloped

Change = Callable[[Array, Array], Array]


def _monotone(function: Callable[[Array], Array]) -> Change:
    """From the values at both ends, in f64; NaN, which is nothing known, where one has none."""

    def change(x: Array, e: Array) -> Array:
        here = function(x)
        return np.maximum(np.abs(function(x + e) - here), np.abs(here - function(x - e)))

    return change


def _sin_change(x: Array, e: Array) -> Array:
    return np.minimum(np.minimum(e, np.abs(np.cos(x)) * e + e * e / 2), 2.0)


def _cos_change(x: Array, e: Array) -> Array:
    return np.minimum(np.minimum(e, np.abs(np.sin(x)) * e + e * e / 2), 2.0)


def _tan_change(x: Array, e: Array) -> Array:
    """Between two poles it is monotone; where one may be within the error nothing is known."""
    pole = (np.rint(x / np.pi - 0.5) + 0.5) * np.pi
    return np.where(np.abs(x - pole) > e, _monotone(np.tan)(x, e), np.inf)


def _cosh_change(x: Array, e: Array) -> Array:
    size, here = np.abs(x), np.cosh(x)
    return np.maximum(np.cosh(size + e) - here, here - np.cosh(np.maximum(size - e, 0.0)))


_erfc = np.frompyfunc(math.erfc, 1, 1)


def erfc(x: Array) -> Array:
    """1 less the error function, in f64; NumPy has none."""
    return np.asarray(_erfc(np.asarray(x, np.float64)), np.float64)


CHANGES: dict[str, Change] = {
    "acos": _monotone(np.arccos),
    "acosh": _monotone(np.arccosh),
    "asin": _monotone(np.arcsin),
    "asinh": _monotone(np.arcsinh),
    "atan": _monotone(np.arctan),
    "atanh": _monotone(np.arctanh),
    "cbrt": _monotone(np.cbrt),
    "cos": _cos_change,
    "cosh": _cosh_change,
    "erfc": _monotone(erfc),
    "exp2": lambda x, e: np.exp2(x) * np.expm1(e * np.log(2.0)),
    "expm1": lambda x, e: np.exp(x) * np.expm1(e),
    "log10": _monotone(np.log10),
    "log1p": _monotone(np.log1p),
    "log2": _monotone(np.log2),
    "sin": _sin_change,
    "sinh": _monotone(np.sinh),
    "tan": _tan_change,
}
"""How far each function moves within ``e`` of ``x``."""


def curve(name: str, x: Estimate, function: Callable[[Array], Array]) -> Estimate:
    """A function of ``CHANGES``, which ``function`` computes on arrays."""
    return sloped(name, function, CHANGES[name])(x)


def _step(function: Callable[[Array], Array]) -> Callable[[Estimate], Estimate]:
    """A function that is exact, and jumps: from its values at both ends.

    The jump is shared: numbers that are alike jump together.
    """
    ends = _monotone(function)

    def rule(a: Estimate) -> Estimate:
        value = function(a.value)
        if a.exact:
            return Estimate(value)
        return made(value, ends(in_f64(a), FACTOR * a.error) / FACTOR, None, a)

    return rule


def _fmod(a: Estimate, b: Estimate) -> Estimate:
    """Exact of what it is given; where how often the divisor fits may differ, it may be any rest.

    Where the divisor may be 0 nothing is known.
    """
    a, b = together(a, b)
    value = np.fmod(a.value, b.value)
    if a.exact and b.exact:
        return Estimate(value)
    x, y = np.abs(in_f64(a)), np.abs(in_f64(b))
    ex, ey = FACTOR * a.error, FACTOR * b.error
    fewest = np.trunc(np.maximum(x - ex, 0.0) / (y + ey))
    most = np.trunc((x + ex) / np.maximum(y - ey, 0.0))
    moved = np.where(fewest == most, ex + most * ey, y + ey + np.abs(value))
    off = np.where((ex == 0) & (ey == 0), 0.0, moved / FACTOR)
    return made(value, np.where((y <= ey) & (ey > 0), np.inf, off), None, a, b)


def atan2(y: Any, x: Any, function: Callable[[Array, Array], Array]) -> Estimate:
    """The angle of (x, y): by the distance from 0, and a whole turn where it may be cut."""
    a, b = together(as_estimate(y), as_estimate(x))
    value = function(a.value, b.value)
    cost = np.where(value == 0, 0.0, 6.0 * U * np.abs(value) + FLOOR)
    if a.exact and b.exact:
        return made(value, None, cost, a, b)
    up, along = in_f64(a), in_f64(b)
    far = np.hypot(up, along)
    slopes = (np.abs(along) / far**2, np.abs(up) / far**2)
    reach = FACTOR * np.hypot(a.error, b.error)
    crosses = (np.abs(up) <= FACTOR * a.error) & (a.error > 0) & (along <= FACTOR * b.error)
    lost = (crosses | (reach >= far)) & (reach > 0)

    def part(name: str) -> Array:
        p, q = errors_of(a, name), errors_of(b, name)
        # The slope is steeper at the near end of the error.
        near = far / np.where(reach < far, far - reach, 1.0)
        return np.where(p + q > 0, (slopes[0] * p + slopes[1] * q) * near * near, 0.0)

    shared, random = (np.where(np.isfinite(far), part(n), np.inf) for n in ("shared", "random"))
    return made(value, np.where(lost, np.inf, shared), random + cost, a, b)


UFUNCS.update(
    {
        "floor": _step(np.floor),
        "ceil": _step(np.ceil),
        "rint": _step(np.rint),
        "trunc": _step(np.trunc),
        "fmod": _fmod,
    }
)
