"""What is known of values that may have been stored in a narrower type, or not (S0.6)."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.playback.estimate.array import (
    FACTOR,
    Array,
    Estimate,
    errors_of,
    in_f64,
    made,
)

ALIKE = 2.0
"""How many times its standard deviation a sum of roundings is that have something in common."""


def may_be_stored(x: Estimate, dtype: np.dtype[Any]) -> Estimate:
    """``x``, which another computation may have rounded to ``dtype`` before it is read.

    The values stay.  To the errors comes what rounding changes: the distance to what the value
    rounds to, or half an ulp where numbers within the error round apart.  It is shared by elements
    that round to one number from one side of it, as equal ones do, since a sum of them is off by
    all of it.  Where a number may become infinite nothing is known.
    """
    if np.can_cast(x.dtype, dtype):
        return x
    with np.errstate(all="ignore"):
        value, room = in_f64(x), FACTOR * x.error
        here, low, high = (_rounded(v, dtype) for v in (value, value - room, value + room))
        moved = np.where(np.isfinite(value) & np.isfinite(here), here - value, 0.0)
        apart = (low != high) & (room > 0)
        away = np.where(apart, _half_ulp(np.abs(value) + room, dtype), np.abs(moved))
        beyond = ~(np.isfinite(here) & np.isfinite(low) & np.isfinite(high))
        away = np.where(np.isfinite(value), np.where(beyond, np.inf, away), 0.0)
        if not away.any():
            return x
        alike = _alike(here, moved) & np.isfinite(away)
        shared = errors_of(x, "shared") + np.where(alike, away, 0.0)
        random = errors_of(x, "random") + np.where(alike, 0.0, away)
        return made(x.value, shared, random, x)


def _rounded(x: Array, dtype: np.dtype[Any]) -> Array:
    return x.astype(np.float32).astype(dtype).astype(np.float64)


def _half_ulp(size: Array, dtype: np.dtype[Any]) -> Array:
    """Half of the distance between neighbours of ``dtype`` around numbers of a size, in f64."""
    bits, lowest = (10, -14) if dtype == np.float16 else (7, -126)
    exponent = np.frexp(np.where(np.isfinite(size), size, 0.0))[1] - 1
    return np.ldexp(0.5, np.maximum(exponent, lowest) - bits)


def _alike(to: Array, moved: Array) -> Array:
    """Which elements are ``moved`` like others that are rounded ``to`` the same number."""
    if not to.size:
        return np.zeros(to.shape, np.bool_)
    _, cell = np.unique(to.ravel(), return_inverse=True)
    cell = np.asarray(cell).ravel()
    total = np.bincount(cell, moved.ravel())
    squares = np.bincount(cell, (moved * moved).ravel())
    alike = total * total > ALIKE * ALIKE * squares
    return alike[cell].reshape(to.shape)
