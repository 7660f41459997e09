"""Arrays with errors (S0.6): each rule against perturbed and reordered computations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.playback.estimate import (
    FACTOR,
    Estimate,
    accumulated,
    erf,
    products_of,
    rounded,
    rounding_freely,
    scattered,
)
from polyc.playback.estimate.array import UFUNCS, U
from polyc.playback.functions import erf as erf_of_arrays

np: Any = numpy
"""NumPy, whose functions take Estimates, which their types do not know."""
Array = Any
INF = float("inf")


def values(low: float, high: float, seed: int = 0, shape: tuple[int, ...] = (400,)) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def with_errors(x: Array, relative: float, seed: int = 0) -> Estimate:
    """Half of the error random, half shared."""
    size = (
        relative * np.abs(x.astype(np.float64)) * np.random.default_rng(seed).uniform(0, 1, x.shape)
    )
    return Estimate(x, size / 2, size / 2)


# What functions of elements do ---------------------------------------------------------------

UNARY: dict[str, tuple[Callable[..., Any], float, float]] = {
    "exp": (np.exp, -80.0, 80.0),
    "exp2": (np.exp2, -100.0, 100.0),
    "log": (np.log, 1e-6, 1e6),
    "log2": (np.log2, 1e-6, 1e6),
    "sqrt": (np.sqrt, 0.0, 1e6),
    "tanh": (np.tanh, -12.0, 12.0),
    "negative": (np.negative, -5.0, 5.0),
    "absolute": (np.abs, -5.0, 5.0),
    "floor": (np.floor, -9.0, 9.0),
    "ceil": (np.ceil, -9.0, 9.0),
    "rint": (np.rint, -9.0, 9.0),
    "trunc": (np.trunc, -9.0, 9.0),
}


def rest_of_nine(x: Any, y: Any) -> Any:
    return np.fmod(x * np.float32(9), y)


BINARY: dict[str, tuple[Callable[..., Any], float, float]] = {
    "add": (np.add, -9.0, 9.0),
    "subtract": (np.subtract, -9.0, 9.0),
    "multiply": (np.multiply, -9.0, 9.0),
    "divide": (np.divide, 0.01, 9.0),
    "maximum": (np.maximum, -1.0, 1.0),
    "minimum": (np.minimum, -1.0, 1.0),
    "power": (np.power, 0.1, 8.0),
    "fmod": (np.fmod, 0.5, 9.0),
    "fmod of a product": (rest_of_nine, 0.5, 9.0),
}


def off(found: Estimate, exact: Array) -> float:
    """The largest distance of exact values, in errors."""
    away = np.abs(exact - found.value.astype(np.float64))
    with np.errstate(all="ignore"):
        ratio = np.where(away == 0, 0.0, away / found.error)
    return float(np.max(np.where(np.isinf(found.error), 0.0, ratio)))


@pytest.mark.parametrize("relative", [0.0, 1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("name", UNARY)
def test_a_function_of_one_moves_within_its_error(name: str, relative: float) -> None:
    function, low, high = UNARY[name]
    x = values(low, high)
    known = with_errors(x, relative) if relative else Estimate(x)
    found = function(known)
    np.testing.assert_array_equal(found.value, function(x))
    rng = np.random.default_rng(1)
    for _ in range(20):
        moved = x.astype(np.float64) + known.error * rng.uniform(-1, 1, x.shape)
        if name in ("log", "log2", "sqrt"):
            moved = np.abs(moved)
        assert off(found, function(moved)) <= (FACTOR if relative else 1.0)
    if name not in ("floor", "ceil", "rint", "trunc"):
        # Not only large enough: the error is of the size of what was done.
        assert np.nanmedian(found.error) <= 60 * (relative + 40 * U) * np.nanmax(
            np.abs(function(x))
        )


@pytest.mark.parametrize("relative", [0.0, 1e-6, 1e-3, 0.05])
@pytest.mark.parametrize("name", BINARY)
def test_a_function_of_two_moves_within_its_error(name: str, relative: float) -> None:
    function, low, high = BINARY[name]
    pair = [values(low, high, seed) for seed in (1, 2)]
    known = [with_errors(x, relative, i) if relative else Estimate(x) for i, x in enumerate(pair)]
    found = function(*known)
    np.testing.assert_array_equal(found.value, function(*pair))
    rng = np.random.default_rng(1)
    for _ in range(20):
        moved = [k.value.astype(np.float64) + k.error * rng.uniform(-1, 1, 400) for k in known]
        assert off(found, function(*moved)) <= (FACTOR if relative else 1.0)


def test_erf_moves_within_its_error() -> None:
    x = values(-4, 4)
    known = with_errors(x, 1e-2)
    found = erf(known, erf_of_arrays)
    for sign in (-1, 1):
        moved = x.astype(np.float64) + sign * known.error
        assert off(found, erf_of_arrays(moved).astype(np.float64)) <= FACTOR


def test_every_function_that_a_rule_is_for_is_numpys() -> None:
    for name in UFUNCS:
        assert isinstance(getattr(np, name), np.ufunc)


def test_what_is_exact_stays_exact() -> None:
    x = Estimate(np.array([0.0, 1.0, -2.0, 65504.0], np.float32))
    for found in (np.maximum(x, np.float32(0)), -x, x * np.float32(2), x.reshape(2, 2).T, x[1:]):
        assert not found.error.any()
    assert not np.where(x > 0, x, np.float32(3)).error.any()
    assert not x.astype(np.float16).error.any()
    assert not (x + np.float32(0)).error.any()


# NaN, infinities and what nothing is known of ------------------------------------------------


def test_infinities_are_certain_where_they_do_not_hang_on_a_rounding() -> None:
    x = Estimate(np.array([1000.0, INF, -INF, np.nan], np.float32), np.full(4, 1e-3))
    found = np.exp(x)
    assert found.value[0] == INF and found.value[2] == 0 and np.isnan(found.value[3])
    assert not found.error.any()
    edge = np.exp(Estimate(np.array([88.722839], np.float32), np.array([1e-3])))
    assert np.isinf(edge.error).all()


def test_a_divisor_that_may_be_zero_tells_nothing() -> None:
    one = np.ones(3, np.float32)
    y = Estimate(np.array([0.5, 1e-3, 0.0], np.float32), np.full(3, 1e-3))
    assert np.isinf((one / y).error).tolist() == [False, True, True]
    assert not np.isinf((one / Estimate(np.zeros(3, np.float32))).error).any()


def test_terms_that_may_overflow_tell_nothing() -> None:
    big = np.float32(3e38)
    terms = Estimate(np.array([[big, big, -big], [big, big, big], [1, 2, 3]], np.float32))
    with np.errstate(all="ignore"):
        found = np.sum(terms, axis=1, dtype=np.float32)
    assert np.isinf(found.error).tolist() == [True, False, False]
    assert found.value[1] == INF


def test_what_nothing_is_known_of_spreads_and_choice_leaves_it() -> None:
    x = Estimate(np.ones(2, np.float32), np.array([INF, 0.0]))
    assert np.isinf((x + x).error).tolist() == [True, False]
    assert np.isinf((x * np.float32(0)).error[1]) == np.False_
    assert np.isinf(np.sum(x, axis=0).error)
    left = np.where(np.array([False, True]), x, np.float32(2))
    assert not left.error.any()


# Conditions ----------------------------------------------------------------------------------


def test_a_relation_of_near_numbers_may_be_either() -> None:
    x = Estimate(np.array([0.0, 0.0, 0.0], np.float32), np.full(3, 1e-3))
    y = np.array([1.0, 1e-3, -1.0], np.float32)
    found = x < y
    assert found.value.tolist() == [True, True, False]
    assert np.isinf(found.error).tolist() == [False, True, False]
    chosen = np.where(found, np.float32(5), np.float32(7))
    assert chosen.error.tolist() == [0.0, 2.0, 0.0]
    assert not (Estimate(y) == y).error.any()


# Sums ----------------------------------------------------------------------------------------


def reordered(terms: Array, seed: int) -> Array:
    """The sums of rows in f32, one term after the other, in another order."""
    order = np.random.default_rng(seed).permutation(terms.shape[1])
    total = np.zeros(len(terms), np.float32)
    for column in order:
        total += terms[:, column]
    return total


@pytest.mark.parametrize("count", [2, 33, 1000])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_a_sum_in_any_order_is_within_its_error(count: int, low: float) -> None:
    terms = values(low, 1.0, count, (200, count))
    found = np.sum(Estimate(terms), axis=1, dtype=np.float64)
    needed = max(off(found, reordered(terms, seed).astype(np.float64)) for seed in range(5))
    assert needed <= FACTOR
    # An error of f32 is asked for, and not one of a thousand times its size.
    assert needed >= FACTOR / 64


def test_a_sum_of_integers_is_exact_until_f32_is_not() -> None:
    ones = np.ones((1, 5000), np.float32)
    assert not np.sum(Estimate(ones), axis=1).error.any()
    assert not np.matmul(Estimate(ones), ones.T).error.any()
    assert np.sum(Estimate(ones * 4096), axis=1).error.all()
    assert np.sum(Estimate(ones / 3), axis=1).error.all()


def test_random_errors_grow_as_the_root_and_shared_ones_in_full() -> None:
    x, error = np.ones((1, 10_000), np.float32), np.full((1, 10_000), 1e-3)
    random = np.sum(Estimate(x, None, error), axis=1).error[0]
    shared = np.sum(Estimate(x, error, None), axis=1).error[0]
    assert random == pytest.approx(1e-3 * 100, rel=0.4)
    assert shared == pytest.approx(1e-3 * 10_000, rel=0.01)


def test_what_is_repeated_is_shared() -> None:
    one = Estimate(np.ones((1, 1), np.float32), None, np.full((1, 1), 1e-3))
    wide = np.broadcast_to(one, (1, 100))
    assert np.sum(wide, axis=1).error[0] == pytest.approx(0.1, rel=1e-3)
    assert np.sum(one + np.zeros((1, 100), np.float32), axis=1).error[0] >= 0.1


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_a_contraction_is_within_its_error(kind: str) -> None:
    a, b = values(-1, 1, 1, (20, 600)), values(-1, 1, 2, (600, 30))
    if kind == "f16":
        a, b = (x.astype(np.float16).astype(np.float32) for x in (a, b))
    found = np.matmul(Estimate(a), b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert 0 < off(found, exact) <= 1.0
    # The operands' errors are carried on.
    moved = with_errors(a, 1e-3)
    found, rng = np.matmul(moved, b), np.random.default_rng(0)
    for _ in range(10):
        other = a.astype(np.float64) + moved.error * rng.uniform(-1, 1, a.shape)
        assert off(found, other @ b.astype(np.float64)) <= FACTOR


def cut(x: Array) -> Array:
    """What tensor cores take of numbers as TF32: the lower 13 bits are left out."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def nearest(x: Array) -> Array:
    """The nearest numbers of TF32, ties away from 0."""
    return cut((x.view(np.uint32) + np.uint32(0x1000)).view(np.float32))


@pytest.mark.parametrize("low", [-1.0, 0.5])
@pytest.mark.parametrize("precision", ["tf32", "f32x3"])
def test_products_of_a_precision_are_within_its_error(precision: str, low: float) -> None:
    a, b = values(low, 1, 1, (20, 600)), values(low, 1, 2, (600, 30))
    with products_of(precision):
        found = np.matmul(Estimate(a), b)
        summed = np.sum(Estimate(a[:, :, None] * b), axis=1)
    if precision == "tf32":
        other = cut(a).astype(np.float64) @ cut(b)
    else:
        (x, p), (y, q) = ((nearest(z), nearest(z - nearest(z))) for z in (a, b))
        wide = x.astype(np.float64)
        other = wide @ q + p.astype(np.float64) @ y + wide @ y
        with products_of(precision):
            assert np.matmul(Estimate(np.full((1, 1), INF)), np.ones((1, 1))).error[0, 0] == INF
    assert off(found, other) <= FACTOR and off(summed, other) <= FACTOR
    if precision == "tf32":  # An exact product's error does not hold them.
        assert off(np.matmul(Estimate(a), b), other) > FACTOR


def test_contractions_of_all_spellings_are_one() -> None:
    a, b = with_errors(values(-1, 1, 1, (4, 9)), 1e-3), values(-1, 1, 2, (9, 5))
    found = [
        np.matmul(a, b),
        np.tensordot(a, b, axes=((1,), (0,))),
        np.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.value, found[0].value, rtol=1e-6)
        np.testing.assert_allclose(other.error, found[0].error, rtol=1e-6)


def test_the_largest_has_the_errors_of_those_that_it_may_be() -> None:
    x = Estimate(np.array([1.0, 0.999, -5.0], np.float32), np.array([1e-3, 2e-3, 9.0 / FACTOR]))
    found = np.max(x, axis=0)
    assert found.value == 1 and found.error == pytest.approx(9.0 / FACTOR)
    apart = Estimate(np.array([1.0, 0.9, -5.0], np.float32), np.array([1e-3, 2e-3, 1.0]))
    assert np.max(apart, axis=0).error == pytest.approx(1e-3)
    assert np.minimum.reduce(-apart, axis=0).error == pytest.approx(1e-3)
    assert (
        np.max(Estimate(np.zeros((2, 0), np.float32)), axis=1, initial=-INF).value.tolist()
        == [-INF] * 2
    )


def test_parts_of_a_sum_add_their_roundings_as_roots() -> None:
    x = Estimate(np.ones(1, np.float32), None, np.full(1, 3.0))
    y = Estimate(np.ones(1, np.float32), None, np.full(1, 4.0))
    assert accumulated(x, y).error[0] == pytest.approx(5.0)
    assert (x + y).error[0] == pytest.approx(7.0)
    assert accumulated(np.float32(1), np.float32(2)) == 3


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_scattered_is_the_reduction(kind: str) -> None:
    x = with_errors(values(-1, 1, 3, (6, 50)), 1e-3)
    if kind == "prod":
        x = x + np.float32(1.5)
    start = np.full(6, {"sum": 0, "prod": 1, "max": -INF, "min": INF}[kind], np.float32)
    at = (np.broadcast_to(np.arange(6)[:, None], (6, 50)),)
    found = scattered(kind, x, at, start)
    wanted = {
        "sum": np.sum,
        "prod": np.multiply.reduce,
        "max": np.max,
        "min": np.min,
    }[kind](x, axis=1)
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-5)
    assert (found.error >= wanted.error * 0.9).all() and (found.error <= wanted.error * 60).all()


def test_a_product_is_within_its_error_in_any_order() -> None:
    x = values(-1.3, 1.3, 5, (40, 60))
    known = with_errors(x, 1e-4)
    rng = np.random.default_rng(2)
    for one, most in ((Estimate(x), 1.0), (known, FACTOR)):
        found = np.multiply.reduce(one, axis=1)
        moved = x.astype(np.float64) + one.error * rng.uniform(-1, 1, x.shape)
        assert off(found, np.multiply.reduce(moved, axis=1)) <= most
        for seed in range(5):
            total = np.ones(40, np.float32)
            for column in np.random.default_rng(seed).permutation(60):
                total *= x[:, column]
            assert off(found, total.astype(np.float64)) <= most
        assert np.median(found.error) <= 1e-2 * np.max(np.abs(found.value))


def test_products_that_overflow_in_one_order_tell_nothing() -> None:
    big, small = np.float32(1e30), np.float32(1e-30)
    rows = [[big, big, small], [small, small, big], [2, 3, 7], [big, big, big], [INF, 0, 1]]
    x = np.array(rows, np.float32)
    found = np.multiply.reduce(Estimate(x), axis=1)
    assert np.isinf(found.error).tolist() == [True, True, False, False, False]
    assert found.value[2] == 42 and found.error[2] == 0 and found.value[3] == INF
    assert np.multiply.reduce(Estimate(np.zeros((2, 0), np.float32)), axis=1).value.tolist() == [
        1,
        1,
    ]


# Roundings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_rounding_is_the_same_away_from_a_border(dtype: Any) -> None:
    ulp = 2.0**-10 if dtype is np.float16 else 2.0**-7
    x = np.array([1.0, 1 + ulp / 2, 1 + 0.25 * ulp], np.float32)
    error = np.full(3, ulp / 100)
    found = Estimate(x, None, error).astype(dtype)
    assert (found.error < ulp / 2).tolist() == [True, False, True]
    freely = rounded(Estimate(x, None, error), np.dtype(dtype), reproducible=False)
    assert (freely.error >= ulp / 2 * 0.99).all()
    with rounding_freely():
        assert (Estimate(x, None, error).astype(dtype).error >= ulp / 2 * 0.99).all()
        assert not Estimate(x).astype(dtype).error.any()


@given(st.floats(-1e4, 1e4, width=32), st.floats(0, 10), st.floats(-1, 1))
def test_what_rounds_from_within_the_error_is_within_the_error(
    value: float, error: float, part: float
) -> None:
    x = np.array([value], np.float32)
    found = Estimate(x, None, np.array([error])).astype(np.float16)
    other = (x.astype(np.float64) + part * FACTOR * error).astype(np.float32).astype(np.float16)
    if np.isfinite(other).all():
        away = abs(float(other[0]) - float(found.value[0]))
        assert away <= FACTOR * float(found.error[0]) * (1 + 1e-6)


def test_a_widening_changes_nothing() -> None:
    x = Estimate(np.ones(2, np.float16), None, np.full(2, 0.5))
    assert x.astype(np.float32).error.tolist() == [0.5, 0.5]


# Movements and memory ------------------------------------------------------------------------


def test_movements_move_errors_too() -> None:
    x = Estimate(np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6.0).reshape(2, 3))
    moved: list[tuple[Any, Any]] = [
        (x.T, x.value.T),
        (np.transpose(x, (1, 0)), x.value.T),
        (x.reshape(3, 2), x.value.reshape(3, 2)),
        (np.pad(x, ((1, 0), (0, 0))), np.pad(x.value, ((1, 0), (0, 0)))),
        (np.concatenate([x, x], 1), np.concatenate([x.value, x.value], 1)),
        (np.repeat(x, 2, 0), np.repeat(x.value, 2, 0)),
        (np.squeeze(x[:1], 0), x.value[0]),
        (np.expand_dims(x, 0), x.value[None]),
        (np.moveaxis(x, 0, 1), x.value.T),
        (x[:, ::-1], x.value[:, ::-1]),
        (x[np.array([1, 0])], x.value[[1, 0]]),
    ]
    for found, value in moved:
        np.testing.assert_array_equal(found.value, value)
        np.testing.assert_array_equal(found.error, value)


def test_memory_is_written_through_views() -> None:
    memory = Estimate.memory(np.zeros((2, 3), np.float32))
    row = memory[1]
    row[1:] = Estimate(np.array([5.0, 6.0], np.float32), np.array([0.5, 0.25]))
    assert memory.value.tolist() == [[0, 0, 0], [0, 5, 6]]
    assert memory.error.tolist() == [[0, 0, 0], [0, 0.5, 0.25]]
    memory[...] = 1.0
    assert not memory.error.any() and (memory.value == 1).all()
    with pytest.raises(TypeError, match=r"Estimate\.memory"):
        Estimate(np.zeros(2, np.float32))[0] = 1.0


def test_what_has_no_rule_is_refused_and_nothing_is_lost() -> None:
    x = Estimate(np.ones(2, np.float32))
    for lossy in (np.asarray, np.median, np.sin, np.cumsum, np.fft.fft):
        with pytest.raises(TypeError):
            lossy(x)
    with pytest.raises(TypeError, match="no plain array"):
        np.zeros(2)[...] = x
