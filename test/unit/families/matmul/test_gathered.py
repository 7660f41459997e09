"""Products of rows that no tensor map begins at, which the producer's threads load."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.gathered import gathered_of
from polyc.families.matmul.loose import loose_variants
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import measured
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.rewriting.driver import verify
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import Product, inputs_of, regions
from polyc.test.support.gpu_text import only
from polyc.test.support.split_programs import written
from polyc.tools.play import play
from polyc.tools.registry import make_context

ARCH = "sm_90a"


def product(
    columns: str | int, k: str | int, m: int = 40, batch: int = 2, more: bool = False
) -> str:
    """Filters by the pixels of images, with a bias and a residual."""
    beside = (((m, 1), "add"), ((batch, m, columns), "add")) if more else ()
    return Product((m, k), (batch, k, columns), (batch, m, columns), more=beside).text


@cache
def planned(text: str, number: int, loader: str = "gather") -> ModuleOp:
    """A product under one of the plans whose producers load."""
    module = regions(text)
    region = only(module, KernelOp)
    found = measured(find_contraction(region), ARCH)
    plans = [plan for plan in found if plan.loader.data == loader]
    block = region.parent_block()
    assert block is not None
    block.insert_op_after(plans[number % len(plans)], region)
    return module


@pytest.mark.parametrize(
    ("columns", "k", "found"),
    [
        (49, 64, ([2, 64, 1, 49], False)),  # of odd length
        (196, 480, ([2, 480, 1, 196], True)),
        (64, 64, None),  # rows that a tensor map takes
        (49, 60, None),  # rows of filters that it does not take
        ("N", 64, None),
    ],
)
def test_rows_are_planes(columns: str | int, k: int, found: tuple[list[int], bool] | None) -> None:
    gemm = find_contraction(only(regions(product(columns, k)), KernelOp))
    taken, late = gathered_of(gemm), gathered_of(gemm, late=True)
    assert (taken is None) == (found is None)
    if taken is not None and found is not None:
        assert ([size.constant() for size in taken.dims], late is not None) == found


CASES = (
    (product(49, 96, more=True), "gather"),
    (product(36, 200, 136), "gather"),
    (product(36, 200, 136), "gather_async"),
    (product(98, 320, 24, 1), "gather_async"),
    (product(18, 64), "gather_async"),
)


@pytest.mark.turns(4)
@pytest.mark.parametrize(("text", "loader"), CASES)
@pytest.mark.parametrize("number", [0, 3])
def test_the_kernels_agree_with_the_region(text: str, loader: str, number: int) -> None:
    """In tiles and in threads, without a race; by registers, and by cp.async of more steps than the
    ring has slots, or fewer."""
    module = planned(text, number, loader)
    kernels = module.clone()
    build("region-to-gpu", ARCH).apply(make_context(), kernels)
    verify(kernels)
    made = gpu_module_of(kernels)
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    name = only(module, ScheduleOp).kernel_name
    np.testing.assert_array_equal(tile.run(made, inputs, {}, name)[0], wanted[0])
    found = simulate(finished(made), inputs, {}, name, schedule="random", completion="random")
    found.check()
    np.testing.assert_array_equal(found.outputs[0], wanted[0])


def test_numbers_behind_a_row_are_in_no_sum() -> None:
    text = product(49, 96)
    module = planned(text, 0)
    a, b = inputs_of(module, {})
    b[:, 9, 5] = np.inf
    b[0, 3, 4] = np.nan
    wanted = play(module, "g", [a, b], {})
    assert wanted is not None and np.isnan(wanted[0]).any() and not np.isnan(wanted[0]).all()
    kernels = module.clone()
    build("region-to-gpu", ARCH).apply(make_context(), kernels)
    found = simulate(
        finished(gpu_module_of(kernels)), [a, b], {}, only(module, ScheduleOp).kernel_name
    )
    found.check()
    np.testing.assert_array_equal(found.outputs[0], wanted[0])


@pytest.mark.parametrize(
    ("columns", "k", "m", "loader"),
    [
        (196, 1024, 256, "gather_async"),
        (49, 2048, 512, "flat"),  # many steps, each of which would wait for memory
        (196, 256, 1024, "gather_async"),  # of few rows, and many filters
        (49, 512, 2048, None),  # copies of few rows that cp.async does not bring
    ],
)
def test_the_model_says_how_they_come(columns: int, k: int, m: int, loader: str | None) -> None:
    """As an H100 was found to take the least time; not of few tiles, none of which was timed."""
    gemm = find_contraction(only(regions(product(columns, k, m, 32)), KernelOp))
    found = [variant.fields["loader"] for variant in loose_variants(gemm, ARCH)]
    assert found == ([] if loader is None else [loader])
    assert not loose_variants(gemm, "sm_80")
    one = find_contraction(only(regions(product(columns, k, m, 1)), KernelOp))
    assert not loose_variants(one, ARCH)


GATHER = {"mma": "wgmma", "loader": "gather", "tile": [64, 64, 64], "warp_tile": [64, 64]}


@pytest.mark.parametrize(
    ("text", "fields", "why"),
    [
        (product(64, 64), {**GATHER, "stages": 4}, "lets threads load B, which is for"),
        (product(49, 64), {**GATHER, "registers": [40, 232]}, "leave registers out"),
    ],
)
def test_plans_that_it_is_not_for_are_refused(
    text: str, fields: dict[str, object], why: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError, match=why):
        build("plan-select", ARCH, written(tmp_path, fields)).apply(make_context(), regions(text))


@pytest.mark.parametrize(("columns", "m"), [(49, 768), (196, 384)])
def test_they_spill_nothing(columns: int, m: int) -> None:
    module = planned(product(columns, 256, m, 32, more=True), 0).clone()
    build("region-to-gpu", ARCH).apply(make_context(), module)
    units = [u for u in cuda_units(finished(gpu_module_of(module))) if "_gather" in u]
    (result,) = nvrtc.compile_each(units, ARCH)
    found = {name: info.spill_bytes for name, info in result.kernels.items()}
    assert set(found.values()) == {0}, (found, nvrtc.version())
