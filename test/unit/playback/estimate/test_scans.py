"""What scans do to errors: each element within its own in any order, and not by far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.scans import SCANS
from polyc.playback import functions
from polyc.playback.estimate import FACTOR, Estimate

RNG = np.random.default_rng(4)


def by_halves(terms: Any, fn: str) -> Any:
    """The scan of rows by halves, of which the second goes on from the first's end: f32."""
    joined, size = functions.SCANNED[fn], terms.shape[1]
    if size == 1:
        return terms.copy()
    first, second = (by_halves(part, fn) for part in np.array_split(terms, 2, axis=1))
    return np.concatenate([first, joined(first[:, -1:], second)], axis=1)


@pytest.mark.parametrize("fn", SCANS)
@pytest.mark.parametrize("low", [-1.0, 0.3])
def test_a_scan_in_another_order_is_within_its_error(fn: str, low: float) -> None:
    terms = RNG.uniform(low, 1.0, (60, 700)).astype(np.float32)
    if fn == "prod":
        terms = (1 + (terms - 0.5) / 8).astype(np.float32)
    found: Any = functions.scan(fn, Estimate(terms), 1)  # pyright: ignore[reportArgumentType]
    wanted = functions.scan(fn, terms, 1, kind=np.float64).astype(np.float64)
    error = np.abs(by_halves(terms, fn) - wanted)
    allowed = FACTOR * found.error + 2.0**-24 * np.abs(wanted)
    assert (error <= allowed).all()
    if fn in ("sum", "prod"):
        # An error of f32 is asked for, and not one of a thousand times its size.
        assert (error > allowed / 500).any()


@pytest.mark.parametrize("fn", SCANS)
def test_each_element_has_the_errors_of_its_own_reduction(fn: str) -> None:
    terms = RNG.uniform(0.5, 1.5, (5, 40)).astype(np.float32)
    size = 1e-3 * RNG.uniform(0, 1, terms.shape)
    x: Any = Estimate(terms, size / 2, size / 2)
    found: Any = functions.scan(fn, x, 1)
    for end in (1, 7, 40):
        one: Any = functions.reduce(fn, x[:, :end], (1,))
        np.testing.assert_allclose(found.value[:, end - 1], one.value, rtol=1e-5)
        ratio = found.error[:, end - 1] / one.error
        assert (ratio > 0.3).all() and (ratio < 4).all()


def test_integers_have_none_and_what_is_unknown_stays_so() -> None:
    whole: Any = functions.scan("sum", Estimate(np.arange(5, dtype=np.int8)), 0)  # pyright: ignore
    assert whole.exact
    ones: Any = functions.scan("sum", Estimate(np.ones(50, np.float32)), 0)  # pyright: ignore
    assert not ones.error.any()
    errors = np.array([0.0, np.inf, 0.0])
    x: Any = Estimate(np.ones(3, np.float32), errors, None)
    for fn in SCANS:
        found: Any = functions.scan(fn, x, 0)
        assert np.isinf(found.error).tolist() == [False, True, True]
        back: Any = functions.scan(fn, x, 0, reverse=True, exclusive=True)
        assert np.isinf(back.error).tolist() == [True, False, False]
    big: Any = Estimate(np.array([3e38, 3e38, -3e38], np.float32))
    assert np.isinf(functions.scan("sum", big, 0).error).tolist()[2]  # pyright: ignore
