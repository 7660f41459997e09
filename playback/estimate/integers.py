"""Integers and conditions made of them: each is known, or nothing is known of it (S0.6).

What is computed with integers has no rounding.  An integer that a doubtful number was cut to, or a
doubtful condition chose, may be any; so is all that is made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyc.playback.estimate.array import (
    FACTOR,
    INTEGERS,
    Array,
    Estimate,
    as_estimate,
    together,
    unsure_where,
)


def _function(ufunc: Callable[..., Array], *args: Estimate) -> Estimate:
    """A function of elements, of integers."""
    value = np.asarray(ufunc(*(a.value for a in args)))
    if all(a.exact for a in args):
        return Estimate(value)
    unknown = np.zeros(value.shape, np.bool_)
    for a in together(*args):
        unknown = unknown | (a.error > 0)
    return unsure_where(Estimate(value), unknown)


def of_integers(function: Callable[..., Array], *args: Any) -> Estimate:
    """A function of integers that is none of NumPy's: not known where an operand is not."""
    return _function(function, *map(as_estimate, args))


def _reduction(ufunc: np.ufunc, x: Estimate, **kwargs: Any) -> Estimate:
    """A reduction of integers: not known where one of them is not."""
    value = np.asarray(ufunc.reduce(x.value, **kwargs))
    if x.exact:
        return Estimate(value)
    axes = {name: kwargs[name] for name in ("axis", "keepdims") if name in kwargs}
    unknown = np.asarray(np.any(x.error > 0, **axes))
    return unsure_where(Estimate(value), unknown)


def to_integers(x: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers as integers: a real one is cut towards 0 and saturates, NaN is 0; integers wrap."""
    if x.dtype.kind in "iub":
        return x.astype(dtype)
    bounds = np.iinfo(dtype)
    # Beyond what a double can hold below the most of 64 bits, all saturates.
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.clip(whole, float(bounds.min), float(np.nextafter(float(bounds.max) + 1, 0)))
    found = inside.astype(dtype)
    found = np.where(whole >= float(bounds.max) + 1, dtype.type(bounds.max), found)
    return np.asarray(np.where(whole < float(bounds.min), dtype.type(bounds.min), found))


def _cast(x: Estimate, dtype: np.dtype[Any]) -> Estimate:
    """``x`` to or from integers.

    A real number is not known as one where both ends of what it may be are not cut to the same.
    """
    value = to_integers(x.value, dtype) if dtype.kind in "iu" else x.value.astype(dtype)
    if x.exact:
        return Estimate(value)
    if x.dtype.kind in "iub":
        return unsure_where(Estimate(value), x.error > 0)
    wide, error = x.value.astype(np.float64), FACTOR * x.error
    low, high = (to_integers(np.asarray(wide + s * error), dtype) for s in (-1.0, 1.0))
    return unsure_where(Estimate(value), (low != high) | np.isinf(error))


INTEGERS.update({"__call__": _function, "reduce": _reduction, "cast": _cast})
