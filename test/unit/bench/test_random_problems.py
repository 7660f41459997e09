"""What random problems share: their command without a GPU, and what goes to other processes."""

from __future__ import annotations

import pickle
import random
from math import prod

import pytest

from polyc.bench.any_axes import Axes
from polyc.bench.any_ops import Ops
from polyc.bench.random_problems import bytes_of, line, results_of, some_shape


def test_the_command_says_what_would_run(capsys: pytest.CaptureFixture[str]) -> None:
    said = "sum:4096x4096:1:f16"
    assert Axes().main("Race.", ["--dry", "--problems", said]) == 0
    first, then = capsys.readouterr().out.splitlines()[:2]
    assert said in first and float(first.split()[0]) < 2
    assert then == "slowest by the model:"


def test_other_processes_have_the_mode() -> None:
    race = Ops()
    race.mode = "max-autotune"
    assert pickle.loads(pickle.dumps(race.make)).__self__.mode == "max-autotune"


def test_a_copy_moves_what_the_problem_moves() -> None:
    race = Axes()
    problem = race.parse("argmax:64x128x32:1:bf16")
    results = results_of(race.module(problem))
    assert results == [([64, 32], "i64")]
    assert race.moved(problem, results) == 2 * 64 * 128 * 32 + 8 * 64 * 32
    assert bytes_of((), "f32") == 4


def test_shapes_have_about_so_many_elements() -> None:
    draw = random.Random(1)
    for rank in range(1, 6):
        shape = some_shape(draw, rank, 1e6)
        assert len(shape) == rank and min(shape) >= 2 and 1e4 < prod(shape) < 1e8


def test_a_row_without_a_peer_says_why() -> None:
    row = {"ratio": 2.0, "problem": "x", "own_us": 1, "copy_us": 2, "eager_us": 2}
    row |= {"fault": "no triton", "kernels": ["k"]}
    assert "no torch.compile (no triton) | k" in line(row)
