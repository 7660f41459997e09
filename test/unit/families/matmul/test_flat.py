"""Products of rows that no tensor map begins at: when they come as one, and what kernels give."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.module import ModuleOp as GpuModule
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.flat import chunk, rows
from polyc.dialects.region import KernelOp
from polyc.families.matmul.flat import flat_of
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import measured
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.passes.support.plan.estimate import estimate
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.rewriting.driver import verify
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import Product, inputs_of, regions
from polyc.test.support.gpu_text import find, only
from polyc.test.support.split_programs import written
from polyc.tools.play import play
from polyc.tools.registry import make_context

ARCH = "sm_90a"


def product(
    columns: str | int, k: str | int, m: int = 40, batch: str | int = 2, more: bool = False
) -> str:
    """Filters by the pixels of images, with a bias and a residual."""
    beside = (((m, 1), "add"), ((batch, m, columns), "add")) if more else ()
    return Product((m, k), (batch, k, columns), (batch, m, columns), more=beside).text


def proposed(module: ModuleOp) -> list[ScheduleOp]:
    """The plans of a region that are worth measuring and take rows as one, the first one first."""
    found = measured(find_contraction(only(module, KernelOp)), ARCH)
    return [plan for plan in found if plan.loader.data == "flat"]


@cache
def planned(text: str) -> ModuleOp:
    """A product under the first of them."""
    module = regions(text)
    region = only(module, KernelOp)
    block = region.parent_block()
    assert block is not None
    block.insert_op_after(proposed(module)[0], region)
    return module


@cache
def built(text: str) -> GpuModule:
    """Its kernels, as tiles."""
    module = planned(text).clone()
    build("region-to-gpu", ARCH).apply(make_context(), module)
    verify(module)
    return gpu_module_of(module)


@pytest.mark.parametrize(
    ("columns", "k", "found"),
    [
        (49, 64, (49, 64)),
        (196, 480, (196, 64)),
        (49, 160, (98, 32)),  # 160 rows are 245 lines of 32
        (9, 40, (72, 8)),
        (49, 72, None),  # 392 lines of 8
        (196, 200, None),  # 392 lines of 32 are more than a box has: steps of 32 have half as many
        (64, 64, None),  # rows that a tensor map takes
        (257, 64, None),  # more than a tile has
        (49, 60, None),  # rows of filters that it does not take
        ("N", 64, None),
        (49, "K", None),
    ],
)
def test_rows_of_a_step_are_a_matrix(
    columns: str | int, k: str | int, found: tuple[int, int] | None
) -> None:
    taken = flat_of(find_contraction(only(regions(product(columns, k)), KernelOp)), 64)
    assert (None if taken is None else taken.tile(64)) == found
    if taken is not None:
        assert isinstance(k, int) and isinstance(columns, int)
        sizes = ["2", str(k * columns // taken.chunk), str(taken.chunk)]
        assert [str(size) for size in taken.dims] == sizes and taken.number == 1


@pytest.mark.parametrize(
    "other",
    [
        Product((40, 64), (49, 64), (40, 49), ("transpose_b",)),
        Product((64, 40), (64, 49), (40, 49), ("transpose_a",)),
    ],
)
def test_operands_that_lie_otherwise_are_not_taken_so(other: Product) -> None:
    assert flat_of(find_contraction(only(regions(other.text), KernelOp)), 64) is None


def test_lines_of_the_matrix_are_whole_ones_of_a_step() -> None:
    assert (chunk(49, 64, 64), chunk(49, 160, 64), chunk(196, 200, 32)) == (64, 32, 32)
    assert chunk(3, 4, 64) is None
    assert [rows(length) for length in (1, 49, 64, 196)] == [64, 64, 64, 256]


@pytest.mark.parametrize(("columns", "k", "high"), [(49, 512, 64), (196, 200, 256), (98, 96, 128)])
def test_of_known_sizes_such_plans_are_worth_measuring(columns: int, k: int, high: int) -> None:
    plans = proposed(regions(product(columns, k, 256, 8)))
    assert plans and {plan.tile_sizes[0] for plan in plans} == {high}
    assert all(plan.brings == "tma" for plan in plans)
    assert len({plan.variant.data for plan in plans}) == len(plans)
    assert not proposed(regions(product(columns, k, 256, "B")))


CASES = (product(49, 96, more=True), product(49, 160, 16, 1), product(98, 96, 24, 1))


@pytest.mark.turns(2)
@pytest.mark.parametrize("text", CASES)
def test_the_kernels_agree_with_the_region(text: str) -> None:
    """In tiles and in threads, without a race, as a plan foretells."""
    module, tiles = planned(text), built(text)
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    plan = only(module, ScheduleOp)
    np.testing.assert_array_equal(tile.run(tiles, inputs, {}, plan.kernel_name)[0], wanted[0])
    found = simulate(
        finished(tiles), inputs, {}, plan.kernel_name, schedule="random", completion="random"
    )
    found.check()
    np.testing.assert_array_equal(found.outputs[0], wanted[0])
    foretold = estimate(only(module, KernelOp), plan, {}, 132).as_dict()
    for field in ("ctas", "tma_loads", "tma_bytes", "wgmma", "mbarrier_waits", "peak_shared_bytes"):
        assert getattr(found.counters, field) == foretold[field], field


def test_each_step_waits_for_its_sums() -> None:
    """A GPU had wrong ones of wide tiles where the last step's stayed under way."""
    module = finished(built(product(49, 256)))
    waits = [op.pending.value.data for op in find(module, hw.WgmmaWaitOp)]
    assert waits and set(waits) == {0}


def test_numbers_behind_a_row_are_in_no_sum() -> None:
    text = product(49, 96)
    module = planned(text)
    a, b = inputs_of(module, {})
    b[:, 9, 5] = np.inf
    b[0, 3, 4] = np.nan
    wanted = play(module, "g", [a, b], {})
    assert wanted is not None and np.isnan(wanted[0]).any() and not np.isnan(wanted[0]).all()
    name = only(module, ScheduleOp).kernel_name
    found = simulate(finished(built(text)), [a, b], {}, name)
    found.check()
    np.testing.assert_array_equal(found.outputs[0], wanted[0])


OWN = {
    "mma": "wgmma",
    "loader": "flat",
    "tile": [64, 32, 64],
    "warp_tile": [64, 32],
    "stages": 4,
    "vectorize": 8,
}


def test_users_may_have_such_a_plan(tmp_path: Path) -> None:
    module = regions(product(49, 64))
    build("plan-select", ARCH, written(tmp_path, OWN)).apply(make_context(), module)
    plan = next(op for op in module.ops if isinstance(op, ScheduleOp))
    assert plan.loader.data == "flat" and plan.tile_sizes == (64, 32, 64)


@pytest.mark.parametrize(
    ("text", "fields", "why"),
    [
        (product(64, 64, batch=2), {"loader": "flat"}, "takes rows of B as one, which is for"),
        (
            product(49, 64, batch=2),
            {**OWN, "tile": [128, 32, 64], "consumers": 2},
            "has tiles of 128 rows, and one has all 49 points",
        ),
    ],
)
def test_plans_that_it_is_not_for_are_refused(
    text: str, fields: dict[str, object], why: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError, match=why):
        build("plan-select", ARCH, written(tmp_path, fields)).apply(make_context(), regions(text))


@pytest.mark.parametrize(("columns", "m"), [(49, 768), (196, 384)])
def test_they_spill_nothing(columns: int, m: int) -> None:
    units = cuda_units(finished(built(product(columns, 256, m, 32, more=True))))
    (unit,) = (unit for unit in units if "_flat" in unit)
    (result,) = nvrtc.compile_each([unit], ARCH)
    found = {name: info.spill_bytes for name, info in result.kernels.items()}
    assert set(found.values()) == {0}, (found, nvrtc.version())
