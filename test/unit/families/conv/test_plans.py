"""Plans of the space for convolutions: legal, right with tails, and chosen by the model of time."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.cost.products import CONV_RATES
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.conv.convolution import Convolution
from polyc.families.conv.problems import depths_of, form_of, problem_of
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV, MEASURED, is_ranked, schedules
from polyc.families.space import Tiling, space
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.conv_programs import Conv, of, scheduled, under
from polyc.test.support.gemm_programs import inputs_of, regions, tiles
from polyc.test.support.gpu_text import only
from polyc.tools.play import play

CHIP = ARCHS["sm_90a"].multiprocessors


def found_in(module: ModuleOp) -> Convolution:
    return find_convolution(only(module, KernelOp))


@pytest.mark.parametrize("depth", [64, 32, 16])
def test_every_plan_is_legal_and_keeps_its_stages(depth: int) -> None:
    conv = found_in(regions(replace(of(), x=(4, 28, 28, depth * 4), filters=256).text))
    for plan in ranking.Form(alone=True, depths=(depth,)).space("sm_90a"):
        schedule = scheduled(conv, plan)
        CONV.check_found(conv, schedule)
        assert schedule.integer("stages") == plan.stages, plan.name
        assert schedule.tile_sizes == (plan.rows, plan.columns, depth)
        assert plan.at_once * schedule.shared_bytes() <= ARCHS["sm_90a"].shared_bytes + 1024
        assert schedule.stores_sums == plan.summed


def named(name: str, depth: int = 64) -> Tiling:
    (plan,) = (p for p in space("sm_90a", depth=depth) if p.name == name)
    return plan


STRIDED = Conv(of(strides=(2, 1)).geometry, x=("N", "H", "W", 72), filters=40)
TAILS: dict[str, tuple[str, int, Conv, dict[str, int]]] = {
    "a cluster of two": ("tma_64x64_split2", 64, STRIDED, {"N": 3, "H": 9, "W": 7}),
    "a cluster of eight, of few steps": (
        *("tma_64x64_split8", 64),
        Conv(of((1, 3), padding=(0, 1)).geometry, x=("N", "H", "W", 72), filters=40),
        {"N": 1, "H": 5, "W": 4},
    ),
    "parts through memory": ("tma_64x64_parts3_by3", 64, STRIDED, {"N": 2, "H": 9, "W": 5}),
    "several on a multiprocessor": ("tma_64x32_once_by4", 64, STRIDED, {"N": 2, "H": 9, "W": 7}),
    "four warpgroups": ("tma_256x32", 64, STRIDED, {"N": 5, "H": 11, "W": 9}),
    "steps of 32": (
        *("tma_128x64x32_split2", 32),
        replace(of(), x=("N", "H", "W", 96), filters=72, more=((("N", "H", "W", 72), "add"),)),
        {"N": 2, "H": 7, "W": 9},
    ),
    "an output in f32": (
        *("tma_64x96_split4", 64),
        replace(of(), x=("N", "H", "W", 40), filters=104, after=("silu",), out="f32"),
        {"N": 1, "H": 9, "W": 8},
    ),
}
"""A plan, its depth, a convolution and sizes at which its last tiles are not full."""


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", TAILS)
def test_plans_agree_with_the_region_at_tails(name: str) -> None:
    plan, depth, conv, sizes = TAILS[name]
    module = regions(conv.text)
    inputs = inputs_of(module, sizes)
    wanted = play(module, "g", inputs, sizes)
    assert wanted is not None
    kernels = gpu_module_of(under(module.clone(), named(plan, depth)))
    results = [
        simulate(kernels, inputs, sizes, schedule="random", completion="random", seed=seed)
        for seed in (1, 2)
    ]
    for result in results:
        result.check()
        np.testing.assert_array_equal(result.outputs[0], np.asarray(wanted[0]))


def test_a_sample_of_the_space_compiles_without_a_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bias and a residual, where that leaves the registers."""
    monkeypatch.setenv("POLYC_CACHE", "0")
    residual = replace(of(), x=(4, 14, 14, 128), filters=256)
    crowded = replace(residual, more=(((256,), "add"), ((4, 14, 14, 256), "add")))
    plans = list(ranking.Form(alone=True).space("sm_90a"))
    random.Random(3).shuffle(plans)
    asked = [(residual, plan) for plan in plans[:4]]
    form = ranking.Form(crowded=True, alone=True)
    asked += [(crowded, plan) for plan in list(form.space("sm_90a"))[:4]]
    for conv, plan in asked:
        kernels = gpu_module_of(under(regions(conv.text), plan))
        result = nvrtc.compile_cuda(cuda_source(kernels), "sm_90a")
        assert not result.warnings()
        for kernel, info in result.kernels.items():
            assert (info.spill_bytes, info.stack) == (0, 0), kernel


def test_known_sizes_get_the_best_plan_of_the_space() -> None:
    conv = found_in(regions(replace(of(), x=(32, 7, 7, 512), filters=512).text))
    plans = schedules(conv, "sm_90a")
    times = ranking.ranked(
        (1, 32 * 49, 512, 512), "sm_90a", ranking.Form(taps=9, alone=True, rates=CONV_RATES)
    )
    assert [plan.variant.data for plan in plans] == [times[0][1].name]
    assert is_ranked(conv.kernel, plans[0])
    # Tiles of 52 fill less than half of the chip: the steps of each are shared.
    assert plans[0].integer("split_k") > 1


def test_what_is_measured_is_the_fastest_of_each_tile() -> None:
    conv = found_in(regions(replace(of(), x=(32, 7, 7, 512), filters=512).text))
    found = CONV.others(conv, "sm_90a")
    assert len(found) == MEASURED
    assert found[0].variant.data == schedules(conv, "sm_90a")[0].variant.data
    assert CONV.others(found_in(regions(of().text)), "sm_90a") == []
    assert CONV.others(conv, "sm_80") == []


def test_the_first_that_may_run_is_the_fastest() -> None:
    """The host takes the first whose conditions hold: that is the least modelled time of all."""
    conv = found_in(regions(replace(of(), x=("N", "H", "W", 128), filters=128).text))
    problem = problem_of(conv)
    plans = ranking.chosen(problem, "sm_90a", form_of(conv))
    assert 2 <= len(plans) <= ranking.MOST_KERNELS[1]
    listed = [plan for plan in schedules(conv, "sm_90a") if plan.loader.data == "tma"]
    draw = random.Random(0)
    for _ in range(100):
        sizes = {"N": draw.randint(1, 64), "H": draw.randint(3, 96), "W": draw.randint(3, 96)}
        pixels = sizes["N"] * sizes["H"] * sizes["W"]
        first = next(p for p in listed if all(fact.holds(sizes) for fact in p.when.data))
        times = [form_of(conv).nanoseconds((1, pixels, 128, 128), plan, "sm_90a") for plan in plans]
        assert times[listed.index(first)] == min(times), sizes


@pytest.mark.parametrize(
    ("channels", "depths"),
    [
        (None, (64,)),
        (8, (16,)),
        (16, (16,)),
        (24, (32,)),
        (40, (64, 16)),
        (96, (64, 32)),
        (64, (64,)),
    ],
)
def test_steps_are_as_deep_as_leaves_few_zeros(
    channels: int | None, depths: tuple[int, ...]
) -> None:
    assert depths_of(channels) == depths


@pytest.mark.parametrize(
    ("filters", "sizes", "variant"),
    [
        (37, {"N": 1, "H": 6, "W": 5}, ""),
        (20, {"N": 2, "H": 5, "W": 4}, ""),
        ("F", {"N": 2, "H": 6, "W": 5, "F": 37}, "g_tma_singly"),
    ],
)
def test_filters_of_any_number_are_stored_by_threads(
    filters: int | str, sizes: dict[str, int], variant: str
) -> None:
    """Their rows are no whole vectors, which TMA stores; operands still come by it.  Threads store
    neighbouring elements, out of shared memory: where each stored what it has of an accumulator,
    nearly every sector of the L2 cache would be written by parts."""
    conv = replace(of(), x=("N", "H", "W", 72), filters=filters, after=("relu",))
    module = regions(conv.text)
    plans = schedules(found_in(module), "sm_90a")
    assert plans[0].loader.data == "tma"
    if variant:
        assert plans[-1].variant.data == "tma_singly"
        (plan,) = (p for p in plans if p.kernel_name == variant)
    else:
        alone = (p for p in plans if not p.stores_sums)
        plan = next(p for p in alone if all(fact.holds(sizes) for fact in p.when.data))
        assert plan.integer("vectorize") == (4 if filters == 20 else 1)
    assert plan.staged_tile is not None and not plan.stores_lines
    inputs = inputs_of(module, sizes)
    wanted = play(module, "g", inputs, sizes)
    assert wanted is not None
    lowered = tiles(module, "sm_90a")
    launch = next(op for op in lowered.dispatch().launches() if op.kernel_name == plan.kernel_name)
    size = 2 * plan.integer("vectorize")
    assert list(launch.align.data) == [16, 16, size]
    result = simulate(finished(lowered), inputs, sizes, plan.kernel_name, schedule="random", seed=1)
    result.check()
    np.testing.assert_array_equal(result.outputs[0], np.asarray(wanted[0]))
