"""The modelled time of scatters: what a block looks at, what it takes, and which way is before."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute

from polyc.cost import scatters as model
from polyc.cost.device import device_of
from polyc.cost.scatters import scatters_work
from polyc.cost.time import Time, modelled
from polyc.cost.values import Values
from polyc.cost.work import Work, at_once
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.scatters.schedules import SCATTERS
from polyc.lowering.region_to_gpu import scatter_lists as lists
from polyc.test.unit.families.scatters.test_recognise import ROWS, TUPLES, region


def rows(element: Attribute = f32, fn: str = "add") -> KernelOp:
    """Rows of a table at indices, of open sizes."""
    return region(ROWS, ("V", "D"), ("N",), ("N", "D"), element=element, fn=fn).kernel


def plan_of(kernel: KernelOp, variant: str) -> ScheduleOp:
    plans = SCATTERS.schedules(kernel, "sm_90a")
    return next(plan for plan in plans if plan.variant.data == variant)


def work(kernel: KernelOp, variant: str, **sizes: int) -> Work:
    plan = plan_of(kernel, variant)
    device = device_of("sm_90a")
    return scatters_work(Values(kernel, sizes), plan, at_once(plan, device), device)


def time(kernel: KernelOp, variant: str, **sizes: int) -> Time:
    return modelled(kernel, plan_of(kernel, variant), sizes)


@pytest.mark.parametrize("sizes", [(50257, 768, 4096), (1000, 64, 1 << 20), (1 << 20, 4, 1 << 16)])
def test_many_updates_are_pooled_first(sizes: tuple[int, int, int]) -> None:
    kernel, known = rows(), dict(zip("VDN", sizes, strict=True))
    times = [time(kernel, way, **known).seconds for way in ("pooled_vector", "vector")]
    assert times[0] < times[1] / 2
    times = [time(kernel, way, **known).seconds for way in ("pooled", "scalar")]
    assert times[0] < times[1] / 2


def test_few_updates_are_not_worth_a_pool() -> None:
    kernel = rows()
    known = {"V": 64, "D": 512, "N": 4}
    assert time(kernel, "vector", **known).seconds <= time(kernel, "pooled_vector", **known).seconds


def test_vectors_are_before_elements() -> None:
    kernel, known = rows(), {"V": 4096, "D": 512, "N": 8192}
    assert time(kernel, "vector", **known).seconds < time(kernel, "scalar", **known).seconds


def test_serial_blocks_read_all_updates_and_indices() -> None:
    """A tile of 8 x 128: of each update its columns, of each its index, and what is updated."""
    found = work(rows(), "vector", V=80, D=256, N=100)
    blocks = 10 * 2
    assert found.blocks == blocks and found.threads == 256
    assert found.cache == blocks * (100 * 128 * 4 + 100 * 8 + 8 * 128 * 4)


def test_pooled_blocks_read_all_indices_and_the_updates_of_their_rows() -> None:
    """A tile of 16 x 512, with a fifth of the rows."""
    found = work(rows(), "pooled_vector", V=80, D=1024, N=100)
    blocks = 5 * 2
    assert found.blocks == blocks
    assert found.cache == blocks * (100 / 5 * 512 * 4 + 100 * 8 + 16 * 512 * 4)


def test_blocks_with_lists_read_the_updates_of_their_rows_and_no_index() -> None:
    """A tile of 4 x 256, with a 20th of the rows."""
    found = work(rows(), "listed_vector", V=80, D=1024, N=100)
    blocks = 20 * 4
    assert found.blocks == blocks
    assert found.cache == blocks * (100 / 20 * 256 * 4 + 4 * 256 * 4)
    assert found.before > 0


def test_long_lists_are_as_long_here_as_there() -> None:
    """The model counts the kernels' own parts and chunks."""
    for name in ("LONG", "CHUNK", "RUN_CHAINS", "PART", "GROWS", "FIRST", "GROUP", "CHAINS"):
        assert getattr(model, name) == getattr(lists, name), name
    for name in ("LINKING", "POOLED", "EACH"):
        assert getattr(model, name) == getattr(lists, name), name


def test_of_set_one_update_of_a_place_is_read() -> None:
    kernel = rows(fn="set")
    few, many = (work(kernel, "last_vector", V=80, D=1024, N=n) for n in (8, 80000))
    tiles = 80 * 4 * 256 * 4
    assert tiles < few.cache < tiles * 1.1
    assert many.cache == pytest.approx(2 * tiles)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.parametrize("sizes", [(16384, 4096, 16384), (262144, 128, 65536), (4096, 64, 4096)])
def test_lists_are_before_pools_where_there_is_much(sizes: tuple[int, int, int]) -> None:
    known = dict(zip("VDN", sizes, strict=True))
    times = [time(rows(), way, **known).seconds for way in ("listed_vector", "pooled_vector")]
    assert times[0] < times[1] / 1.6
    assert time(rows(fn="set"), "last_vector", **known).seconds < times[0]


@pytest.mark.parametrize("rows_of_table", [1, 64, 512])
def test_long_lists_cost_what_they_have(rows_of_table: int) -> None:
    """Twice as many updates of few rows take twice as long, and no other way is as fast."""
    once, twice = (
        time(rows(), "listed_vector", V=rows_of_table, D=1024, N=n).seconds
        for n in (1 << 17, 1 << 18)
    )
    assert 1.5 * once < twice < 2.5 * once
    for way in ("pooled_vector", "vector"):
        assert time(rows(), way, V=rows_of_table, D=1024, N=1 << 17).seconds > 2 * once


def test_kernels_ahead_are_not_worth_it_for_few_updates() -> None:
    known = {"V": 4096, "D": 1024, "N": 300}
    times = [time(rows(), way, **known).seconds for way in ("listed_vector", "pooled_vector")]
    assert times[0] > times[1]


def test_halves_are_half_of_the_bytes_of_updates() -> None:
    whole, half = (work(rows(kind), "scalar", V=80, D=256, N=100) for kind in (f32, f16))
    assert half.blocks == whole.blocks
    indices = whole.blocks * 100 * 8
    assert half.cache - indices == (whole.cache - indices) / 2


def test_what_a_thread_does_grows_with_the_updates_that_it_looks_at() -> None:
    for way in ("pooled_vector", "vector", "pooled", "scalar"):
        one, other = (work(rows(), way, V=1600, D=512, N=n) for n in (1 << 14, 1 << 16))
        assert 3.5 < other.operations / one.operations <= 4
        assert 3.5 < other.steps / one.steps <= 4


def test_a_table_is_read_and_written_at_least() -> None:
    """Few updates of much: what there is to do is to copy the table."""
    found = time(rows(), "vector", V=1 << 20, D=256, N=1)
    assert found.memory * device_of("sm_90a").memory >= 2 * (1 << 28) * 4


def test_tuples_are_modelled_too() -> None:
    kernel = region(TUPLES, ("V", "D"), ("N", 2), ("N",)).kernel
    plans = SCATTERS.schedules(kernel, "sm_90a")
    short, long = (modelled(kernel, plans[-1], {"V": 512, "D": 512, "N": n}) for n in (64, 1 << 14))
    assert 0 < short.seconds < long.seconds / 4
