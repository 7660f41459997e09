"""Random reductions: the graphs mean what they say, and none is a disaster by the model of time."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from polyc.bench.any_axes import (
    EPSILON,
    PEERS,
    SAME,
    Axes,
    Problem,
    parse_problem,
    problems,
    text_of,
)
from polyc.dialects.frontend import GraphOp
from polyc.playback.reference import reference
from polyc.test.support.gpu_text import only, parsed

DISASTER = 8
"""Times that a copy of the same bytes takes."""


def meant(op: str, x: Any, axes: tuple[int, ...]) -> Any:
    """What NumPy makes of a problem in f64."""
    kept: dict[str, Any] = {"axis": axes, "keepdims": True}
    top = x.max(**kept)
    grown = np.exp(x - top)
    match op:
        case "layer_norm":
            return (x - x.mean(**kept)) / np.sqrt(x.var(**kept) + EPSILON)
        case "rms_norm":
            return x / np.sqrt((x * x).mean(**kept) + EPSILON)
        case "softmax":
            return grown / grown.sum(**kept)
        case "log_softmax":
            return x - top - np.log(grown.sum(**kept))
        case "logsumexp":
            return (top + np.log(grown.sum(**kept))).squeeze(axes)
        case "argmax":
            return x.argmax(axes[0])
        case "any" | "all":
            return getattr(x > 100, op)(axis=axes)
        case "frobenius":
            return x / np.sqrt((x * x).sum(**kept))
        case "l1_norm":
            return x / np.abs(x).mean(**kept)
        case "variance":
            return x.var(axis=axes)
        case _:
            return getattr(x, op)(axis=axes)


@pytest.mark.parametrize("op", PEERS)
def test_graphs_compute_what_they_say(op: str) -> None:
    axes = (1,) if op == "argmax" else (0, 2)
    kind = "ui8" if op in ("any", "all") else "f32"
    problem = Problem(op, (5, 7, 11), axes, kind)
    assert parse_problem(problem.said) == problem
    assert (problem.result == problem.shape) == (op in SAME)
    draw = np.random.default_rng(3)
    x = draw.integers(0, 256, problem.shape).astype(np.uint8)
    if kind == "f32":
        x = draw.normal(1.0, 0.3, problem.shape).astype(np.float32)
    (found,) = reference(only(parsed(text_of(problem)), GraphOp), [x], {})
    wanted = meant(op, x.astype(np.float64), axes)
    np.testing.assert_allclose(np.asarray(found.value), wanted, rtol=1e-4, atol=1e-5)


def test_problems_are_the_same_again() -> None:
    found = problems(3, 60)
    assert found == problems(3, 60) != problems(4, 60)
    assert len({problem.op for problem in found}) >= 12
    assert all(1 << 22 < prod(problem.shape) < 1 << 30 for problem in found)


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(3))
def test_no_problem_is_a_disaster_by_the_model(seed: int) -> None:
    slow = {}
    for problem in problems(seed, 40):
        us, copy, names = Axes().modelled(problem)
        if us > DISASTER * copy:
            slow[problem.said] = us, copy, names
    assert not slow
