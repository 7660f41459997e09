"""A candidate that is wrong is refused, wherever it is wrong, on a driver that runs Python.

The region is too large to be played back whole, by what the tests say, so that candidates are
compared at smaller sizes, at some points, and with one another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

from polyc.runtime.program import Program
from polyc.test.support.running_cuda import RunningCuda
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.steps import quiet
from polyc.tools.tuning import samples, workshop
from polyc.tools.tuning.regions import regions_of
from polyc.tools.tuning.workshop import Workshop
from polyc.tuning.candidates import candidates

TEXT = """
frontend.graph @f(%X: !frontend.tensor<[M, N], f32>) -> (Y: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.elementwise neg %X : !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}
"""
ROWS, COLUMNS = 50, 1100
COUNT = ROWS * COLUMNS


class Made:
    """A workshop of two candidates, and what a kernel does beside what is right.

    ``at`` spoils outputs of the asked size, ``small`` of the smaller one; both are told which
    candidate it is.
    """

    def __init__(self, running: RunningCuda) -> None:
        ctx = make_context()
        job = Compilation(ctx, parse_text(ctx, TEXT, "text"), "sm_90a")
        (region,) = regions_of(job)
        sizes = {"M": ROWS, "N": COLUMNS}
        self.listed = candidates(region, "sm_90a", sizes, 3)
        self.shop = Workshop(job, region, sizes, self.listed, 0, quiet())
        self.programs = [self.shop.compile(c) for c in self.listed]
        self.at: Callable[[int, npt.NDArray[np.float32]], object] = lambda which, y: None
        self.small: Callable[[int, npt.NDArray[np.float32]], object] = lambda which, y: None
        self.which = 0
        running.kernel = self.kernel

    def kernel(self, values: list[int]) -> None:
        small = self.shop.small
        assert small is not None
        inside = [p.view.pointer for places in self.shop.bench.outputs for p in places]
        asked = values[1] in inside
        count = COUNT if asked else small["M"] * small["N"]
        x, y = (np.ctypeslib.as_array((ctypes.c_float * count).from_address(v)) for v in values[:2])
        y[:] = -x
        (self.at if asked else self.small)(self.which, y)

    def wrong(self, which: int) -> str | None:
        self.which = which
        return self.shop.wrong(self.programs[which])


@pytest.fixture
def made(running: RunningCuda, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    monkeypatch.setattr(workshop, "WHOLE", 1000)
    monkeypatch.setattr(workshop, "SMALL", 5000)
    monkeypatch.setattr(samples, "COUNTS", (4,))
    found = Made(running)
    yield found
    for program in found.programs:
        program.close()  # its code was loaded by this test's driver


FAR = 20 * COLUMNS + 500
"""An element that the sample has not."""


def test_right_candidates_are_right_at_both_sizes(made: Made) -> None:
    assert made.shop.small is not None and made.shop.small["M"] < ROWS
    assert [made.wrong(i) for i in range(3)] == [None] * 3 and made.shop.fallen() == []


def test_what_is_wrong_at_the_smaller_sizes_alone_is_refused_there(made: Made) -> None:
    def spoiled(which: int, y: npt.NDArray[np.float32]) -> None:
        y[-1] += which

    made.small = spoiled
    assert made.wrong(0) is None and made.shop.small is not None
    said = made.wrong(1) or ""
    rows, columns = made.shop.small["M"], made.shop.small["N"]
    assert f"at M={rows}, N={columns}, element [{rows - 1}, {columns - 1}] is" in said


def test_what_is_wrong_in_the_sample_is_refused_at_its_place(made: Made) -> None:
    def spoiled(which: int, y: npt.NDArray[np.float32]) -> None:
        y[-1] = 7

    made.at = spoiled
    said = made.wrong(0) or ""
    assert f"output Y at M={ROWS}, N={COLUMNS}, element [49, 1099] is 7, expected" in said
    assert "1 of 16 elements differ" in said


def test_what_was_not_written_is_found_though_nothing_else_is_there(made: Made) -> None:
    def spoiled(which: int, y: npt.NDArray[np.float32]) -> None:
        y.view(np.uint32)[FAR] = 0xFFFFFFFF

    made.at = spoiled
    assert "element [20, 500] is nan, expected" in (made.wrong(0) or "")
    assert made.shop.fallen() == []


def test_what_differs_from_others_outside_of_the_sample_is_wrong(made: Made) -> None:
    def spoiled(which: int, y: npt.NDArray[np.float32]) -> None:
        y[FAR] += 0.001 * (which == 1)

    made.at = spoiled
    assert made.wrong(0) is None
    assert "element [20, 500] is" in (made.wrong(1) or "")
    assert made.wrong(2) is None and made.shop.fallen() == []


@pytest.mark.parametrize("run", [1, 2])
def test_what_two_runs_make_unlike_is_wrong_where_there_is_no_other(made: Made, run: int) -> None:
    count: list[int] = []

    def spoiled(which: int, y: npt.NDArray[np.float32]) -> None:
        count.append(which)
        y[FAR] += 0.001 * (len(count) == run)

    made.at = spoiled
    assert "element [20, 500] is" in (made.wrong(0) or "")


def test_those_that_are_wrong_alike_fall_when_one_is_right(made: Made) -> None:
    def spoiled(which: int, y: npt.NDArray[np.float32]) -> None:
        y[FAR] += 0.001 * (which != 2)

    made.at = spoiled

    def kernel_of(program: Program) -> int:
        return made.programs.index(program)

    before = made.shop.bench.results

    def results(program: Program) -> list[object]:
        made.which = kernel_of(program)
        return before(program)

    made.shop.bench.results = results  # type: ignore[method-assign]
    assert [made.wrong(i) for i in range(3)] == [None] * 3
    fallen = made.shop.fallen()
    assert [kernel_of(program) for program, _ in fallen] == [0, 1]
    assert all("element [20, 500] is" in why for _, why in fallen)
    assert made.shop.fallen() == []
