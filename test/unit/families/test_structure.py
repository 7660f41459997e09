"""What of a plan's structure kernels on tensor cores have, and what is refused (S8.1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.tile.schedule import BANDS, ONCE, RASTERS
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Value
from polyc.dialects.plan.resources import CLUSTERED
from polyc.families.structure import (
    MOST_PARTS,
    check_group,
    check_raster,
    check_reduction,
    check_split,
    check_structure,
)

ONE_TILE: dict[str, Value] = {
    "arch": "sm_90a",
    "tensorize": "acc",
    "mma": "wgmma",
    "loader": "tma",
    "tile": [128, 128, 64],
    "stages": 4,
    "warp_tile": [64, 128],
    "consumers": 2,
    "vectorize": 8,
}
SYNC: dict[str, Value] = {"mma": "mma.sync", "loader": "cp_async", "consumers": 1}
PERSISTENT: dict[str, Value] = {**ONE_TILE, "persistent": True}


def plan(base: dict[str, Value], **other: Value) -> ScheduleOp:
    return ScheduleOp("g", "p", {**base, **other})


def follows(op: ScheduleOp) -> None:
    check_structure(op, follows=True)


def alone(op: ScheduleOp) -> None:
    check_structure(op, follows=False)


@pytest.mark.parametrize("raster", RASTERS)
def test_persistent_kernels_have_every_order(raster: str) -> None:
    check_raster(plan(PERSISTENT, raster=raster, group=4 if raster in BANDS else 1))


@pytest.mark.parametrize("raster", ONCE)
def test_others_have_those_of_one_tile(raster: str) -> None:
    check_raster(plan(ONE_TILE, raster=raster))


@pytest.mark.parametrize("parts", (1, *CLUSTERED, 3, 132, MOST_PARTS))
def test_ctas_share_the_steps_of_a_tile(parts: int) -> None:
    check_split(plan(ONE_TILE, split_k=parts))
    alone(plan(ONE_TILE, split_k=parts))


def test_what_is_built_passes() -> None:
    alone(plan(PERSISTENT, cluster=[2, 1], multicast=True))
    alone(plan(PERSISTENT, pingpong=True))
    follows(plan(ONE_TILE, cluster=[1, 2]))
    alone(plan(ONE_TILE, cluster=[1, 2], multicast=True))
    check_reduction("acc", plan(ONE_TILE))


Check = Callable[[ScheduleOp], None]
REFUSED: dict[str, tuple[Check, dict[str, Value], str]] = {
    "hilbert": (check_raster, {"raster": "hilbert", "group": 4}, "only persistent kernels have"),
    "group": (check_group, {"raster": "column", "group": 4}, "is 4 for the raster 'column'; use 1"),
    "reduction": (lambda op: check_reduction("sum", op), {}, "the region reduces 'sum'"),
    "split too far": (check_split, {"split_k": 1025}, "into 1025 parts; use 1024 or less"),
    "split of no cluster": (
        check_split,
        {"split_k": 3, "algo_choice": {"matmul": "tiled"}},
        'use algo_choice {"matmul": "partial_sums"}',
    ),
    "split walks": (check_split, {"split_k": 2, "persistent": True}, "persistent kernel does not"),
    "split cluster": (check_split, {"split_k": 2, "cluster": [2, 1]}, "CTAs of a cluster for"),
    "cluster of both": (alone, {"cluster": [2, 2]}, "use [1, 2] and persistent false"),
    "cluster of no wgmma": (alone, {**SYNC, "cluster": [1, 2]}, "[1, 1], or a kernel of wgmma"),
    "cluster of rows": (alone, {**SYNC, "cluster": [2, 1]}, "or a kernel that loads by tma"),
    "shared by no copy": (
        follows,
        {**SYNC, "cluster": [1, 2], "multicast": True},
        "a multicast that",
    ),
    "turns of one tile": (alone, {"pingpong": True}, "or a persistent kernel that loads by tma"),
    "turns in a cluster": (
        alone,
        {"pingpong": True, "persistent": True, "cluster": [2, 1]},
        "a pingpong that region-to-gpu does not build yet; use cluster [1, 1]",
    ),
    "turns and rows": (
        follows,
        {"pingpong": True, "persistent": True},
        "use false: rows are reduced",
    ),
}


@pytest.mark.parametrize(("check", "other", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_built_is_refused(check: Check, other: dict[str, Value], why: str) -> None:
    with pytest.raises(PolycError) as caught:
        check(plan(ONE_TILE, **other))
    assert caught.value.kind == "UnsupportedPlan" and why in caught.value.message
