"""Which schedules are worth a second kernel, by the model of time (S11.1)."""

from __future__ import annotations

import pytest

from polyc.cost.time import chosen, modelled
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.schedules import GEMM
from polyc.passes.support.plan.worth import SURE, worth
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size
from polyc.test.support.split_programs import plain, run


def proposed(m: Size, n: Size, k: Size, arch: str) -> tuple[KernelOp, list[ScheduleOp]]:
    kernel = only(run(plain(m, n, k), "region"), KernelOp)
    return kernel, GEMM.schedules(kernel, arch)


@pytest.mark.parametrize(
    ("m", "n", "k", "arch"),
    [(128, 128, 65536, "sm_80"), (33, 72, 8192, "sm_80")],
)
def test_the_fastest_of_known_sizes_stays(m: int, n: int, k: int, arch: str) -> None:
    kernel, plans = proposed(m, n, k, arch)
    (kept, *rest) = worth(kernel, plans)
    times = {plan: modelled(kernel, plan, {}).seconds for plan in plans}
    assert kept.stores_sums and times[kept] == min(times[p] for p in plans if p.stores_sums)
    assert times[kept] < SURE * min(times[p] for p in plans if not p.stores_sums)
    assert rest == [] and not kept.when.data


@pytest.mark.parametrize(("m", "n", "k"), [(1, 4096, 4096), (128, 128, 65536), ("M", "N", "K")])
def test_what_the_model_ranked_stays(m: Size, n: Size, k: Size) -> None:
    kernel, plans = proposed(m, n, k, "sm_90a")
    assert worth(kernel, plans) == plans


def test_open_sizes_keep_what_is_faster_where_it_runs() -> None:
    kernel, plans = proposed("M", "N", "K", "sm_80")
    kept = worth(kernel, plans)
    assert kept[0].stores_sums and not kept[1].stores_sums
    sizes = {"M": 64, "N": 64, "K": 65536}
    others = chosen(kept[1:], sizes)
    assert chosen(kept, sizes) is kept[0] and others is not None
    mine, theirs = (modelled(kernel, one, sizes).seconds for one in (kept[0], others))
    assert mine < SURE * theirs


def test_plan_select_asks_it() -> None:
    (plan,) = find(run(plain(128, 128, 65536), "plan", None, "sm_80"), ScheduleOp)
    assert plan.stores_sums
