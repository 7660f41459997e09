"""Products of few tiles: which plans split k, for which sizes, and what they take (S8)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.split import least_steps, splits
from polyc.families.ranking import MOST_KERNELS
from polyc.families.space import LEAST_STAGES
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size
from polyc.test.support.split_programs import (
    batched,
    gated,
    leave_only,
    plain,
    residual,
    run,
    split,
    written,
)


@cache
def plans(m: Size, n: Size, k: Size, arch: str = "sm_90a") -> list[ScheduleOp]:
    return find(run(plain(m, n, k), "plan", arch=arch), ScheduleOp)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("m", "n", "k", "splits_k"),
    [
        (9, 64, 4096, True),
        (128, 128, 65536, True),
        (64, 1024, 4096, True),
        (9, 1024, 4096, True),
        # Enough tiles for all multiprocessors, or so few steps that there is nothing to share.
        (4096, 4096, 4096, False),
        (8192, 8192, 512, False),
        (1, 4096, 64, False),
    ],
)
def test_sizes_decide_whether_a_tile_is_shared(m: int, n: int, k: int, splits_k: bool) -> None:
    """Of known sizes, where rows alone are a symbol, and where all sizes are one."""
    (plan,) = plans(m, n, k)
    assert (plan.integer("split_k") > 1) == splits_k
    assert not plan.when.data and not plan.notes
    for found, sizes in (
        (plans("M", n, k), {"M": m}),
        (plans("M", "N", "K"), {"M": m, "N": n, "K": k}),
    ):
        first = next(p for p in found if all(f.holds(sizes) for f in p.when.data))
        assert (first.integer("split_k") > 1) == splits_k


def test_plans_that_split_fit() -> None:
    shared = 0
    for m, n, k in (("M", "N", "K"), ("M", 4096, 4096), ("M", 64, "K"), (8, "N", 4096)):
        found = [p for p in plans(m, n, k) if p.integer("split_k") > 1 and not p.stores_sums]
        assert len(found) < max(MOST_KERNELS.values())
        shared += len(found)
        for plan in found:
            assert plan.shared_bytes() <= plan.target.shared_bytes
            assert plan.integer("stages") >= LEAST_STAGES and not plan.flag("persistent")
    assert shared


def test_only_clusters_split() -> None:
    assert all(p.cluster_blocks == 1 for p in plans(1, 4096, 4096, "sm_80"))


def test_a_split_saves_steps_and_leaves_some() -> None:
    """Each CTA keeps 4 steps, and the others take 12 of what it would have."""
    assert [least_steps(parts) for parts in (2, 4, 8)] == [24, 16, 32]


@pytest.mark.parametrize(
    ("m", "n", "k", "found"),
    [
        # No tile keeps half of the chip busy: a narrow one, of all CTAs that the depth is worth.
        (1, 512, 2048, [(64, 64, 8)]),
        (1, 512, 1024, [(64, 64, 4)]),
        # The fewest CTAs of a cluster that do; of 64 columns, but of 128 for few rows.
        ("M", 4096, 1536, [(64, 128, 2), (128, 64, 2), (128, 128, 2)]),
        ("M", 2048, 4096, [(64, 64, 2), (128, 64, 2), (128, 128, 2)]),
        ("M", 1024, 4096, [(64, 64, 4), (128, 64, 4), (128, 128, 2)]),
        ("M", 4096, 1016, []),
        (64, "N", 4096, [(64, 128, 8)]),
        (4096, 4096, 4096, []),
    ],
)
def test_the_tile_fills_the_chip(
    m: Size, n: Size, k: Size, found: list[tuple[int, int, int]]
) -> None:
    gemm = find_contraction(only(run(plain(m, n, k), "plan"), KernelOp))
    assert [(s.rows, s.columns, s.parts) for s in splits(gemm, "sm_90a")] == found
    assert splits(gemm, "sm_80") == []


def test_two_products_leave_room_for_both_sums() -> None:
    gemm = find_contraction(only(run(gated(), "plan"), KernelOp))
    found = [(s.rows, s.columns, s.stages) for s in splits(gemm, "sm_90a")]
    assert found == [(64, 128, 4), (128, 64, 5), (128, 64, 5)]


def leave_split(module: ModuleOp) -> None:
    names = [plan.variant.data for plan in find(module, ScheduleOp)]
    leave_only(module, *(name for name in names if "_split" in name))


def test_splits_spill_nothing() -> None:
    """The kernels that the compiler offers, by the compiler's own report."""
    for make in (plain, residual, batched, gated):
        kernels = gpu_module_of(run(make(), "gpu", leave=leave_split))
        units = [text for text in cuda_units(kernels) if "_split" in text]
        assert units
        for result in nvrtc.compile_each(units, "sm_90a"):
            found = {k: i.spill_bytes for k, i in result.kernels.items()}
            assert set(found.values()) == {0}, (found, nvrtc.version())
            assert not result.warnings()


def test_sums_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    tile = {"tile": [128, 128, 64], "warp_tile": [64, 128], "consumers": 2}
    plan = written(tmp_path, split(2, tile, stages=6))
    with pytest.raises(PolycError) as refused:
        run(plain(), "plan", plan)
    assert refused.value.kind == "ResourceExceeded"
    # 6 stages of 32784 bytes, 65544 for the sums, and 1024 to align them.
    assert "takes 263272 bytes of shared memory" in refused.value.message
