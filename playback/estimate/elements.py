"""What functions of elements do to errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polyc.playback.estimate.array import (
    FACTOR,
    FLOOR,
    UFUNCS,
    Array,
    Estimate,
    U,
    errors_of,
    in_f64,
    made,
    plus,
    times,
    together,
    unsure_where,
)

COST = {
    "divide": 2.0,
    "exp": 4.0,
    "exp2": 4.0,
    "log": 2.0,
    "log2": 2.0,
    "power": 16.0,
    "sqrt": 2.0,
    "tanh": 4.0,
    "erf": 4.0,
    "erfc": 8.0,
    "acos": 4.0,
    "acosh": 8.0,
    "asin": 4.0,
    "asinh": 6.0,
    "atan": 4.0,
    "atanh": 6.0,
    "cbrt": 2.0,
    "cos": 4.0,
    "cosh": 4.0,
    "expm1": 2.0,
    "log10": 4.0,
    "log1p": 2.0,
    "sin": 4.0,
    "sinh": 6.0,
    "tan": 8.0,
}
"""Unit roundoffs that a function's own computation costs, relative to its result.

From the CUDA C++ Programming Guide, *Mathematical Functions*, whose ulps are twice as large; an
exponential may be ``ex2.approx`` of a scaled argument, a quotient a product with an inverse.
"""


def _add(sign: int) -> Callable[[Estimate, Estimate], Estimate]:
    """Sum or difference; what rounds is of the size of the terms.

    A difference that is exact is charged too: a product of it may be taken term by term.
    """

    def rule(a: Estimate, b: Estimate) -> Estimate:
        a, b = together(a, b)
        value = (np.add if sign > 0 else np.subtract)(a.value, b.value)
        x, y = np.abs(in_f64(a)), np.abs(in_f64(b))
        size = np.fmax(np.fmax(x, y), np.abs(value.astype(np.float64)))
        cost = np.where((x == 0) | (y == 0), 0.0, U * size)
        return made(value, plus(a.shared, b.shared), plus(a.random, b.random, cost), a, b)

    return rule


def _multiply(a: Estimate, b: Estimate) -> Estimate:
    a, b = together(a, b)
    value = np.multiply(a.value, b.value)
    x, y = np.abs(in_f64(a)), np.abs(in_f64(b))
    both = None if a.exact or b.exact else a.error * b.error
    inexact = np.where(in_f64(a) * in_f64(b) == value, 0.0, U * np.abs(value) + 2.0**-149)
    shared = plus(times(y, a.shared), times(x, b.shared), both)
    random = plus(times(y, a.random), times(x, b.random), inexact)
    return made(value, shared, random, a, b)


def _divide(a: Estimate, b: Estimate) -> Estimate:
    a, b = together(a, b)
    value = np.divide(a.value, b.value)
    least = np.abs(in_f64(b)) - (0.0 if b.exact else FACTOR * b.error)
    quotient = np.abs(in_f64(a) / in_f64(b))

    def part(over: Array | None, under: Array | None) -> Array | None:
        found = plus(over, times(quotient, under))
        return None if found is None else np.where(found == 0, 0.0, found / np.maximum(least, 0.0))

    exact = np.asarray(in_f64(a) / in_f64(b) == value)
    cost = np.where(exact, 0.0, COST["divide"] * U * np.abs(value) + FLOOR)
    found = made(value, part(a.shared, b.shared), plus(part(a.random, b.random), cost), a, b)
    return found if b.exact else unsure_where(found, least <= 0)


def _extreme(larger: bool) -> Callable[[Estimate, Estimate], Estimate]:
    """The larger or smaller operand: its error, or that of both where they are near."""

    def rule(a: Estimate, b: Estimate) -> Estimate:
        a, b = together(a, b)
        value = (np.maximum if larger else np.minimum)(a.value, b.value)
        if a.exact and b.exact:
            return Estimate(value)
        x, y = in_f64(a), in_f64(b)
        near = np.abs(x - y) <= FACTOR * (a.error + b.error)
        first = (x > y) if larger else (x < y)

        def part(name: str) -> Array:
            p, q = errors_of(a, name), errors_of(b, name)
            return np.where(near, np.maximum(p, q), np.where(first, p, q))

        found = Estimate(value, part("shared"), part("random"))
        return unsure_where(found, np.isnan(value) & (np.isinf(a.error) | np.isinf(b.error)))

    return rule


def sloped(
    name: str, function: Callable[[Array], Array], change: Callable[[Array, Array], Array]
) -> Callable[[Estimate], Estimate]:
    """A function of one operand; ``change(x, e)`` is how far it moves within ``e`` of ``x``."""

    def rule(a: Estimate) -> Estimate:
        value = function(a.value)
        cost = np.where(np.abs(value) == 0, 0.0, COST.get(name, 1.0) * U * np.abs(value))
        cost = cost + np.where(np.isfinite(value) & _inexact(name, a.value, value), FLOOR, 0.0)
        if a.exact:
            return made(value, None, cost)
        e = a.error
        moved = change(in_f64(a), FACTOR * e) / FACTOR
        ratio = np.where(e > 0, moved / np.where(e > 0, e, 1.0), 0.0)
        found = made(value, times(ratio, a.shared), plus(times(ratio, a.random), cost), a)
        # A value that is not finite is certain when it is so at both ends of its operand.
        inside = np.isfinite(a.value) & ~np.isfinite(value) & (e > 0)
        if not inside.any():
            return found
        unclear = np.zeros(value.shape, np.bool_)
        for sign in (-1.0, 1.0):
            end = function(in_f64(a) + sign * FACTOR * e).astype(np.float32)
            unclear |= inside & ((end != value) & ~(np.isnan(end) & np.isnan(value)))
        return unsure_where(found, unclear)

    return rule


_CERTAIN: dict[str, Callable[[Array, Array], Array]] = {
    "exp": lambda x, y: (x == 0) | (x == -np.inf),
    "sqrt": lambda x, y: (x == 0) | (x == 1),
    "tanh": lambda x, y: x == 0,
    "erf": lambda x, y: x == 0,
    "log": lambda x, y: x == 1,
    "log2": lambda x, y: x == 1,
    "log10": lambda x, y: x == 1,
    **dict.fromkeys(
        (
            *("asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erfc", "exp2", "expm1"),
            *("log1p", "sin", "sinh", "tan"),
        ),
        lambda x, y: x == 0,
    ),
    **dict.fromkeys(("acos", "acosh"), lambda x, y: x == 1),
}
"""Where a function has one result, which every way to compute it gives."""


def _inexact(name: str, x: Array, y: Array) -> Array:
    certain = _CERTAIN.get(name)
    return np.ones(y.shape, np.bool_) if certain is None else ~certain(x, y)


def _log_change(x: Array, e: Array) -> Array:
    return np.where(e < x, -np.log1p(-np.minimum(e / x, 1.0)), np.inf)


def _sqrt_change(x: Array, e: Array) -> Array:
    return np.where(x > 0, e / (np.sqrt(x) + np.sqrt(np.maximum(x - e, 0.0))), np.sqrt(e))


def _bell(x: Array, e: Array) -> Array:
    """The most that erf moves: its slope where it is steepest."""
    nearest = np.maximum(np.abs(x) - e, 0.0)
    return np.minimum(e * (2 / np.sqrt(np.pi)) * np.exp(-nearest * nearest), 2.0)


def _tanh_change(x: Array, e: Array) -> Array:
    nearest = np.maximum(np.abs(x) - e, 0.0)
    return np.minimum(e / np.cosh(np.minimum(nearest, 300.0)) ** 2, 2.0)


def erf(x: Estimate, function: Callable[[Array], Array]) -> Estimate:
    """The error function, which NumPy has not; ``function`` computes it on arrays."""
    return sloped("erf", function, _bell)(x)


def _sign_change(function: Callable[[Array], Array]) -> Callable[[Estimate], Estimate]:
    return lambda a: Estimate(function(a.value), a.shared, a.random)


def _power(a: Estimate, b: Estimate) -> Estimate:
    a, b = together(a, b)
    value = np.power(a.value, b.value)
    here, x, y = np.power(in_f64(a), in_f64(b)), in_f64(a), in_f64(b)
    cost = np.where(here == value, 0.0, COST["power"] * U * np.abs(value) + FLOOR)
    if a.exact and b.exact:
        return made(value, None, cost, a, b)
    moved = np.zeros(value.shape)
    for p in (x - FACTOR * a.error, x + FACTOR * a.error):
        for q in (y - FACTOR * b.error, y + FACTOR * b.error):
            moved = np.maximum(moved, np.abs(np.power(p, q) - here))
    return made(value, np.where(np.isnan(moved), np.inf, moved / FACTOR), cost, a, b)


def _compare(function: Callable[[Array, Array], Array]) -> Callable[[Estimate, Estimate], Estimate]:
    """A relation, unknown where its operands are nearer than their errors."""

    def rule(a: Estimate, b: Estimate) -> Estimate:
        a, b = together(a, b)
        value = function(a.value, b.value)
        if a.exact and b.exact:
            return Estimate(value)
        both = FACTOR * (a.error + b.error)
        # Infinities of one sign have no difference, and are equal.
        apart = np.abs(in_f64(a) - in_f64(b))
        apart = np.where(np.isnan(apart) & (a.value == b.value), 0.0, apart)
        doubtful = (both > 0) & ((apart <= both) | np.isinf(both))
        return Estimate(value, np.where(doubtful, np.inf, 0.0) if doubtful.any() else None)

    return rule


def _logical(function: Callable[..., Array]) -> Callable[..., Estimate]:
    def rule(*args: Estimate) -> Estimate:
        args = tuple(together(*args))
        value = function(*(a.value for a in args))
        return Estimate(value, plus(*(a.shared for a in args)))

    return rule


def _predicate(function: Callable[[Array], Array]) -> Callable[[Estimate], Array]:
    return lambda a: function(a.value)


UFUNCS.update(
    {
        "add": _add(1),
        "subtract": _add(-1),
        "multiply": _multiply,
        "divide": _divide,
        "maximum": _extreme(True),
        "minimum": _extreme(False),
        "fmax": _extreme(True),
        "fmin": _extreme(False),
        "exp": sloped("exp", np.exp, lambda x, e: np.exp(x) * np.expm1(e)),
        "exp2": sloped("exp2", np.exp2, lambda x, e: np.exp2(x) * np.expm1(e * np.log(2.0))),
        "log": sloped("log", np.log, _log_change),
        "log2": sloped("log2", np.log2, lambda x, e: _log_change(x, e) / np.log(2.0)),
        "sqrt": sloped("sqrt", np.sqrt, _sqrt_change),
        "tanh": sloped("tanh", np.tanh, _tanh_change),
        "negative": _sign_change(np.negative),
        "absolute": _sign_change(np.abs),
        "power": _power,
        "equal": _compare(np.equal),
        "not_equal": _compare(np.not_equal),
        "less": _compare(np.less),
        "less_equal": _compare(np.less_equal),
        "greater": _compare(np.greater),
        "greater_equal": _compare(np.greater_equal),
        "logical_and": _logical(np.logical_and),
        "logical_or": _logical(np.logical_or),
        "logical_not": _logical(np.logical_not),
        "bitwise_and": _logical(np.bitwise_and),
        "bitwise_or": _logical(np.bitwise_or),
        "isfinite": _predicate(np.isfinite),
        "isinf": _predicate(np.isinf),
        "isnan": _predicate(np.isnan),
    }
)
