"""Random pools, resizes, scans, gathers, scatters and orders: graphs mean what NumPy says, and the
worst that was found stays mended by the model of time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from polyc.bench.any_ops import (
    OURS,
    PEERS,
    Ops,
    Problem,
    module_of,
    moved,
    parse_problem,
    problems,
)
from polyc.bench.random_problems import results_of
from polyc.dialects.frontend import GraphOp
from polyc.playback import frontend
from polyc.test.support.gpu_text import only

Array = np.ndarray[Any, Any]


def played(problem: Problem, *arrays: Array) -> list[Array]:
    """What the graph of a problem gives."""
    return [np.asarray(one) for one in frontend.run(only(module_of(problem), GraphOp), arrays, {})]


def test_problems_are_the_same_in_every_run_and_of_every_op() -> None:
    found = problems(3, len(OURS))
    assert found == problems(3, len(OURS)) and [p.op for p in found] == list(OURS)
    assert found != problems(4, len(OURS)) and set(OURS) == set(PEERS)
    assert all(parse_problem(p.said) == p for p in found)
    with pytest.raises(ValueError, match="roll of f16 is none of max_pool"):
        parse_problem('roll:4:f16:{"axis": 0}')


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_scans(axis: int, exclusive: bool, reverse: bool) -> None:
    how = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    x = np.arange(1, 13, dtype=np.int32).reshape(3, 4) % 5
    (found,) = played(Problem("cumsum", x.shape, "i32", json.dumps(how)), x)
    y = np.flip(x, axis) if reverse else x
    wanted = y.cumsum(axis) - (y if exclusive else 0)
    np.testing.assert_array_equal(found, np.flip(wanted, axis) if reverse else wanted)


def test_indices() -> None:
    draw = np.random.default_rng(1)
    x, u = draw.random((4, 6, 3), np.float32), draw.random((4, 5, 3), np.float32)
    rows, each = draw.integers(0, 6, 5), draw.integers(0, 6, (4, 5, 3))

    def asked(op: str, **more: str) -> Problem:
        how = {"axis": 1, "index": "i64", "of": 5, **more}
        return Problem(op, x.shape, "f32", json.dumps(how))

    np.testing.assert_array_equal(played(asked("take"), x, rows)[0], x[:, rows])
    taken = np.take_along_axis(x, each, 1)
    np.testing.assert_array_equal(played(asked("take_along"), x, each)[0], taken)
    wanted = x.copy()
    for number, row in enumerate(rows):
        wanted[:, row] += u[:, number]
    found = played(asked("scatter", fn="add"), x, rows, u)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    a, c = np.indices((4, 5, 3))[::2]
    wanted = x.copy()
    np.maximum.at(wanted, (a, each, c), u)
    np.testing.assert_array_equal(played(asked("scatter_along", fn="max"), x, each, u)[0], wanted)


def test_orders() -> None:
    x = np.random.default_rng(2).integers(-9, 9, (5, 7))
    by = {"axis": 1}
    values, places = played(Problem("sort", x.shape, "i64", json.dumps(by)), x)
    np.testing.assert_array_equal(places, x.argsort(1, kind="stable"))
    np.testing.assert_array_equal(values, np.sort(x, 1))
    values, _ = played(Problem("topk", x.shape, "i64", json.dumps({**by, "k": 3})), x)
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :3])
    (found,) = played(Problem("argmax", x.shape, "i64", json.dumps(by)), x)
    np.testing.assert_array_equal(found, x.argmax(1))


def test_windows_and_resizes() -> None:
    x = np.random.default_rng(3).random((2, 9, 4), np.float32)
    how = {"last": True, "size": [3], "stride": [2], "padding": [1], "ceil": False}
    one = Problem("max_pool", x.shape, "f32", json.dumps({**how, "dilation": [1]}))
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)), constant_values=-np.inf)
    wanted = np.stack([padded[:, i : i + 3].max(1) for i in range(0, 9, 2)], 1)
    np.testing.assert_array_equal(played(one, x)[0], wanted)
    twice = json.dumps({"last": True, "to": [18], "corners": False})
    found = played(Problem("nearest", x.shape, "f32", twice), x)[0]
    np.testing.assert_array_equal(found, x.repeat(2, 1))
    parts = json.dumps({"last": True, "to": [3]})
    found = played(Problem("adaptive", x.shape, "f32", parts), x)[0]
    np.testing.assert_allclose(found, x.reshape(2, 3, 3, 4).mean(2), rtol=1e-6)


def test_what_is_moved() -> None:
    problem = parse_problem('take:50x64:f16:{"axis": 0, "index": "i32", "of": 8}')
    assert moved(problem, results_of(module_of(problem))) == 2 * 8 * 64 * 2 + 8 * 4
    problem = parse_problem('topk:50x64:f16:{"axis": 1, "k": 2}')
    assert moved(problem, results_of(module_of(problem))) == 50 * (64 * 2 + 2 * (2 + 8))


MENDED = [
    # Windows that were written to memory, each whole.
    (
        'max_pool:452x27x10x28x16:bf16:{"last": true, "size": [7, 4, 3], "stride": [1, 2, 1], '
        '"padding": [0, 0, 0], "ceil": true, "dilation": [1, 2, 1]}',
        10,
    ),
    # Each element of 64 bits was compared with all.
    ('sort:16x8x7706:i64:{"axis": 2}', 20),
    # A block had a line of five elements.
    ('scatter_along:16x24808x5:f32:{"axis": 2, "index": "i64", "of": 5, "fn": "add"}', 2),
    # Neighbours of a warp stored to lines of their own.
    ('nearest:145x3x45x20x39:f16:{"last": false, "to": [90, 40, 78], "corners": false}', 4),
    # Elements had lists, which were kernels of their own, or saw all updates of their line.
    ('scatter_along:1562592:f32:{"axis": 0, "index": "i64", "of": 390648, "fn": "max"}', 4),
    ('scatter_along:3x800x1408x10:f16:{"axis": 1, "index": "i64", "of": 800, "fn": "add"}', 12),
    # What is before 33,792 parts of a line was found one after another.
    ('cumprod:2x7597325x2:i64:{"axis": 1, "reverse": false, "exclusive": true}', 4),
    # Each of 21 windows was a kernel.
    ('adaptive:247x3x32x136:f16:{"last": false, "to": [14, 7]}', 4),
    # Each element went through 169 others.
    (
        'max_pool:8x64x112x112:f16:{"last": false, "size": [13, 13], "stride": [1, 1], '
        '"padding": [6, 6], "ceil": false, "dilation": [1, 1]}',
        4,
    ),
    # Places that are no period's were found again for each row.
    ('linear:99x1x201x165:f16:{"last": false, "to": [623, 512], "corners": true}', 4),
    # Rows were read by axes of two elements.
    ('take:6430x2x69x2:i32:{"axis": 0, "index": "i64", "of": 6430}', 1.2),
]


@pytest.mark.parametrize(("said", "times"), MENDED, ids=[said for said, _ in MENDED])
def test_what_was_worst_is_mended(said: str, times: float) -> None:
    us, copy, _ = Ops().modelled(parse_problem(said))
    assert us < times * copy
