"""Errors of the functions that playback computes in f64: each rule against moved operands."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from polyc.playback.estimate import FACTOR, Estimate, erfc
from polyc.playback.estimate.array import U
from polyc.playback.estimate.curves import CHANGES
from polyc.playback.functions import binary, unary

np: Any = numpy
"""NumPy, whose functions take Estimates, which their types do not know."""
Array = Any

DOMAINS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("acos", "asin", "atanh"), (-0.93, 0.93)),
    "acosh": (1.1, 1e4),
    **dict.fromkeys(("log2", "log10", "log1p"), (1e-5, 1e5)),
    **dict.fromkeys(("cosh", "sinh", "expm1", "exp2"), (-60.0, 60.0)),
}
"""Where a function is asked for, (-9, 9) unless it says."""

WIDE = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
}
"""NumPy's name, where it is another."""


def values(low: float, high: float, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, 400).astype(np.float32)


def with_errors(x: Array, relative: float, seed: int = 0) -> Any:
    """Half of the error random, half shared."""
    part = np.random.default_rng(seed).uniform(0, 0.5, x.shape)
    size = relative * np.abs(x.astype(np.float64)) * part
    return Estimate(x, size, size) if relative else Estimate(x)


def off(found: Any, exact: Array) -> float:
    """The largest distance of exact values, in errors, where something is known."""
    away = np.abs(exact - found.value.astype(np.float64))
    with np.errstate(all="ignore"):
        ratio = np.where(away == 0, 0.0, away / found.error)
    return float(np.max(np.where(np.isinf(found.error), 0.0, ratio)))


@pytest.mark.parametrize("name", CHANGES)
def test_a_function_moves_within_its_error(name: str) -> None:
    x = values(*DOMAINS.get(name, (-9.0, 9.0)))
    wide = erfc if name == "erfc" else getattr(np, WIDE.get(name, name))
    for relative in (0.0, 1e-6, 1e-3):
        known = with_errors(x, relative)
        found: Any = unary(name, known)
        np.testing.assert_array_equal(found.value, wide(x.astype(np.float64)).astype(np.float32))
        rng = np.random.default_rng(1)
        for _ in range(10):
            moved = x.astype(np.float64) + known.error * rng.uniform(-1, 1, x.shape)
            assert off(found, wide(moved)) <= (FACTOR if relative else 1.0)
        # Not only large enough: the error is of the size of what was done.
        certain = np.isfinite(found.error)
        assert certain.mean() > 0.95
        size = np.max(np.abs(found.value[certain]))
        assert np.median(found.error[certain]) <= 60 * (relative + 40 * U) * size


@pytest.mark.parametrize("relative", [0.0, 1e-6, 1e-3, 0.05])
def test_the_angle_of_a_point_moves_within_its_error(relative: float) -> None:
    known = [with_errors(values(-9, 9, seed), relative, seed) for seed in (1, 2)]
    found: Any = binary("atan2", *known)
    rng = np.random.default_rng(1)
    for _ in range(10):
        moved = [k.value.astype(np.float64) + k.error * rng.uniform(-1, 1, 400) for k in known]
        assert off(found, np.arctan2(*moved)) <= (FACTOR if relative else 1.0)
    assert np.median(found.error) <= 60 * (relative + 40 * U)


def test_beside_the_cut_an_angle_is_not_known() -> None:
    y: Any = Estimate(np.full(3, 1e-3, np.float32), np.full(3, 1e-3))
    found: Any = binary("atan2", y, np.array([-1.0, 1.0, 1e-3], np.float32))
    assert np.isinf(found.error).tolist() == [True, False, True]


def test_beyond_a_domain_and_beside_a_pole_nothing_is_known() -> None:
    edges = {"asin": 1.0, "acosh": 1.0, "atanh": 1.0, "log1p": -1.0, "tan": np.pi / 2}
    for name, edge in edges.items():
        x: Any = Estimate(np.array([edge], np.float32), np.full(1, 1e-3))
        found: Any = unary(name, x)
        assert np.isinf(found.error).all(), name


def test_what_jumps_is_exact_but_for_the_jump() -> None:
    x: Any = Estimate(np.array([0.5, 0.999, 2.5], np.float32), np.array([0.0, 1e-3, 1e-3]))
    floor: Any = unary("floor", x)
    assert (floor.error * FACTOR).tolist() == [0.0, 1.0, 0.0]
    sign: Any = unary("sign", x - np.float32(0.999))
    assert sign.value.tolist() == [-1.0, 0.0, 1.0] and sign.error[0] == 0 and sign.error[1] > 0
    rest: Any = binary("fmod", x, np.float32(0.5))
    assert rest.error[0] == 0 and rest.error[2] * FACTOR >= 0.5
