"""Values that may have been stored in a narrower type, or not (S0.6)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy
import pytest

from polyc.playback.estimate import FACTOR, Estimate, may_be_stored

np: Any = numpy
"""NumPy, whose functions take Estimates, which their types do not know."""
DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def draw(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(0, 3, count).astype(np.float32)


def stored(x: Any, dtype: Any) -> Any:
    return x.astype(dtype).astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_value_stays_and_what_rounding_changes_is_allowed(dtype: Any) -> None:
    x = draw(500)
    found = may_be_stored(Estimate(x), dtype)
    np.testing.assert_array_equal(found.value, x)
    away = np.abs(stored(x, dtype).astype(np.float64) - x)
    np.testing.assert_array_equal(found.error, away)
    assert (away > 0).mean() > 0.9


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_the_type_has_is_exact(dtype: Any) -> None:
    x = stored(draw(500), dtype)
    assert may_be_stored(Estimate(x), dtype).exact
    assert may_be_stored(Estimate(x), np.dtype(np.float32)).exact


def test_a_value_beside_a_border_is_off_by_half_an_ulp() -> None:
    """2049 is between 2048 and 2050: which of them it becomes nobody knows."""
    x = np.array([2049.0, 2049.0], np.float32)
    error = np.array([0.001, 0.3])
    found = may_be_stored(Estimate(x, None, error), DTYPES[0])
    np.testing.assert_allclose(found.error - error, 1.0)


def test_nothing_is_known_where_it_may_become_infinite() -> None:
    x = np.array([65519.0, 65519.0, 65530.0, -70000.0, np.inf, 60000.0], np.float32)
    error = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    found = may_be_stored(Estimate(x, None, error), DTYPES[0])
    assert np.isinf(found.error).tolist() == [False, True, True, True, False, False]
    assert np.isfinite(may_be_stored(Estimate(x, None, error), DTYPES[1]).error).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["spread", "equal", "near", "equal rows", "small"])
def test_a_sum_of_stored_values_agrees(dtype: Any, kind: str) -> None:
    """Also where all are rounded the same way, and no more is allowed than that asks for."""
    for seed in range(20):
        x = draw(4096, seed)
        if kind == "equal":
            x = np.full(4096, x[0])
        elif kind == "near":
            x = (np.float32(0.1) + x * np.float32(1e-7)).astype(np.float32)
        elif kind == "equal rows":
            x = np.repeat(x[:64], 64)
        elif kind == "small":
            x = (np.float32(0.5) + np.abs(x) * np.float32(1e-6)).astype(np.float32)
        x = x.reshape(64, 64)
        total: Any = np.sum(may_be_stored(Estimate(x), dtype), axis=(0, 1))
        away = abs(float(stored(x, dtype).astype(np.float64).sum() - x.astype(np.float64).sum()))
        assert away <= FACTOR * float(total.error)
        if kind == "spread":
            # Each may be off by half an ulp, a sum of all of them by far less than the sum of that.
            assert total.error < 0.2 * np.abs(stored(x, dtype) - x).sum()
