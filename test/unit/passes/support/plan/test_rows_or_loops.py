"""Rows that loops take instead, by the model of time (S8, S11.1)."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f32

from polyc.bench.any_axes import Problem, text_of
from polyc.cost.time import modelled
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.schedules import GEMM
from polyc.families.rows.schedules import ROWS
from polyc.passes.pipeline import ORDER, build
from polyc.passes.support.plan.rows_or_loops import (
    CLEARLY,
    SURE,
    loops_instead,
    small_products_instead,
)
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.sketch import Sketch
from polyc.tools.registry import make_context


def planned(problem: Problem) -> tuple[KernelOp, list[ScheduleOp]]:
    """A problem's region and its schedules."""
    module = parsed(text_of(problem))
    for name in ORDER[: ORDER.index("plan-select") + 1]:
        build(name, "sm_90a").apply(make_context(), module)
    return only(module, KernelOp), find(module, ScheduleOp)


@pytest.mark.parametrize("op", ["max", "prod", "variance"])
def test_few_long_rows_are_shared_by_the_whole_chip(op: str) -> None:
    kernel, plans = planned(Problem(op, (4, 16 << 20), (1,), "f16"))
    theirs = ROWS.schedules(kernel, "sm_90a")
    assert plans[0].pattern == "loops" and plans[0].stores_sums
    times = [modelled(kernel, one, {}).seconds for one in (plans[0], theirs[0])]
    assert times[0] < SURE * times[1]


@pytest.mark.parametrize(("rows", "length"), [(65536, 512), (512, 1 << 17)])
def test_rows_enough_for_all_blocks_stay(rows: int, length: int) -> None:
    _, plans = planned(Problem("sum", (rows, length), (1,), "f16"))
    assert {plan.pattern for plan in plans} == {"rows"}


def test_open_rows_are_not_asked() -> None:
    text = text_of(Problem("max", (4, 1 << 24), (1,), "f16")).replace("16777216", "N")
    module = parsed(text)
    for name in ORDER[: ORDER.index("plan-select")]:
        build(name, "sm_90a").apply(make_context(), module)
    kernel = only(module, KernelOp)
    assert loops_instead(kernel, "sm_90a", ROWS.schedules(kernel, "sm_90a")) is None


def product(*shape: int | str, turned: bool = False) -> KernelOp:
    """A batch of products, of so many rows, depth and columns."""
    batch, m, k, n = shape
    s = Sketch("products", f32)
    y = s.permute(s.input("y", batch, n, k), 0, 2, 1) if turned else s.input("y", batch, k, n)
    module = parsed(str(s.done(z=s.gemm(s.input("x", batch, m, k), y))))
    for name in ORDER[: ORDER.index("plan-select")]:
        build(name, "sm_90a").apply(make_context(), module)
    return only(module, KernelOp)


@pytest.mark.parametrize("turned", [False, True])
def test_many_small_products_are_loops(turned: bool) -> None:
    """As rotations of points are: a tile of tensor cores would hold one each."""
    kernel = product(65536, 16, 3, 3, turned=turned)
    theirs = GEMM.schedules(kernel, "sm_90a")
    found = small_products_instead(kernel, "sm_90a", theirs)
    assert found is not None and found[0].pattern == "loops"
    times = [modelled(kernel, one[0], {}).seconds for one in (found, theirs)]
    assert times[0] < CLEARLY * times[1]


@pytest.mark.parametrize("shape", [(64, 128, 64, 128), (1, 16, 3, 3), ("B", 16, 3, 3)])
def test_other_products_are_not(shape: tuple[int | str, ...]) -> None:
    kernel = product(*shape)
    theirs = GEMM.schedules(kernel, "sm_90a")
    assert small_products_instead(kernel, "sm_90a", theirs) is None
