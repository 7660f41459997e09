"""What scans do to errors: each element's are those of a reduction of what is before it."""

from __future__ import annotations

import numpy as np

from polyc.playback.estimate.array import (
    FACTOR,
    FINITE,
    Array,
    Estimate,
    U,
    errors_of,
    in_f64,
    made,
    plus,
    unsure_where,
)
from polyc.playback.estimate.sums import EXACT, product_of, whole_numbers


def scanned(fn: str, x: Estimate, value: Array) -> Estimate:
    """The errors of ``value``, the inclusive scan of ``x`` along its last axis.

    The order in which a sum or a product is computed is anyone's.  Integers are exact.
    """
    if x.dtype.kind in "iu":
        found = np.logical_or.accumulate(np.isinf(x.error), -1)
        return Estimate(value, None if x.exact else np.where(found, np.inf, 0.0))
    with np.errstate(all="ignore"):
        if fn == "sum":
            return _sums(x, value)
        if fn == "prod":
            return product_of(x, value, _products, _counts(x))
        return _extremes(fn == "max", x, value)


def _counts(x: Estimate) -> Array:
    """How many terms each element has."""
    return np.broadcast_to(np.arange(1.0, x.shape[-1] + 1), x.shape)


def _products(terms: Array) -> Array:
    return np.multiply.accumulate(terms, -1)


def _unknown(x: Estimate) -> Estimate:
    """Whether a term so far is unknown."""
    if x.exact:
        return Estimate(np.zeros(()))
    found = np.logical_or.accumulate(np.isinf(x.error), -1)
    return Estimate(np.zeros(x.shape), np.where(found, np.inf, 0.0))


def _sums(x: Estimate, value: Array) -> Estimate:
    terms = in_f64(x)
    sums = np.cumsum(terms, -1)
    size = np.sqrt(np.cumsum(terms * terms, -1))
    most = np.maximum(np.maximum.accumulate(sums, -1), 0.0)
    least = np.minimum(np.minimum.accumulate(sums, -1), 0.0)
    count = _counts(x)
    cost = np.where(count < 2, 0.0, U * np.sqrt(count) * (most - least + size) / 2)
    total = np.cumsum(np.abs(terms), -1)
    if whole_numbers(x):
        cost = np.where(total <= EXACT, 0.0, cost)
    shared = None if x.shared is None else np.cumsum(x.shared, -1)
    random = None if x.random is None else np.sqrt(np.cumsum(x.random**2, -1))
    found = made(value, shared, plus(random, cost), _unknown(x))
    finite = np.logical_and.accumulate(np.isfinite(terms), -1)
    beyond = finite & (total > 0.999 * FINITE)
    one_sign = np.abs(sums) >= 0.999 * total
    return unsure_where(found, beyond & ~(one_sign & (total > 1.001 * FINITE)))


def _extremes(larger: bool, x: Estimate, value: Array) -> Estimate:
    """The largest or smallest so far, and how far that of shifted numbers is from it."""
    if x.exact:
        return Estimate(value)
    joined = np.maximum if larger else np.minimum
    terms, off = in_f64(x), FACTOR * x.error
    ends = [joined.accumulate(terms + sign * off, -1) for sign in (1.0, -1.0)]
    own = value.astype(np.float64)
    error = np.maximum(*(np.abs(end - own) for end in ends)) / FACTOR
    # What shifts one element shifts all of which it is the largest.
    return made(value, np.where(np.isfinite(value), error, 0.0), None, _unknown(x))


def start_at(x: Estimate, number: Array) -> Estimate:
    """Each element that of the one before it along the last axis, and ``number`` first."""

    def later(a: Array, first: Array) -> Array:
        head = np.broadcast_to(first, (*a.shape[:-1], min(1, a.shape[-1]))).astype(a.dtype)
        return np.concatenate([head, a[..., :-1]], -1)

    zero = np.zeros(())
    shared, random = (
        None if getattr(x, name) is None else later(errors_of(x, name), zero)
        for name in ("shared", "random")
    )
    return Estimate(later(x.value, number), shared, random)
