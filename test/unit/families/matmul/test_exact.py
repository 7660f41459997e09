"""Products of f32: tiles that threads multiply by themselves (``mma = "fma"``)."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.utils.exceptions import VerifyException

from polyc.cost.time import chosen
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.schedules import GEMM
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import Product, inputs_of, regions, tiles
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.tools.play import play

TEXT = Product(("M", "K"), ("K", "N"), ("M", "N")).text.replace("f16", "f32")


def plan(**changes: object) -> ScheduleOp:
    """The first schedule of the product, or one that differs from it."""
    first = GEMM.schedules(only(regions(TEXT), KernelOp), "sm_90a")[0]
    return ScheduleOp(first.region, "own", {**first.fields(), **changes})  # pyright: ignore


def test_a_product_of_f32_is_multiplied_by_threads_in_tiles() -> None:
    found = GEMM.schedules(only(regions(TEXT), KernelOp), "sm_90a")
    assert [p.variant.data for p in found] == ["fma_small", "fma", "fma_any_small", "fma_any"]
    assert all(p.mma.data == "fma" and p.operand_bytes == 4 for p in found)


@pytest.mark.parametrize(
    ("sizes", "variant"),
    [
        ((1, 4096, 4096), "fma_small"),
        ((512, 512, 512), "fma_small"),
        ((1024, 1024, 1024), "fma_small"),
        ((4096, 4096, 4096), "fma"),
        ((4095, 4095, 4095), "fma_any"),
    ],
)
def test_tiles_that_fill_the_chip_are_taken(sizes: tuple[int, int, int], variant: str) -> None:
    found = GEMM.schedules(only(regions(TEXT), KernelOp), "sm_90a")
    plan = chosen(found, dict(zip("MNK", sizes, strict=True)))
    assert plan is not None and plan.variant.data == variant


def test_no_copy_turns_its_operands() -> None:
    s = Sketch("turned", f32)
    module = run(s.done(y=s.linear(s.input("x", "M", "K"), "w", "N")), "region")
    assert len(find(module, KernelOp)) == 1


def test_tails_and_races() -> None:
    """By pieces of one element too, as rows of 37 and 35 are brought."""
    module = regions(TEXT)
    kernels = finished(tiles(module, "sm_80"))
    for sizes, variant in (
        ({"M": 66, "K": 36, "N": 68}, "g_fma_small"),
        ({"M": 65, "K": 37, "N": 35}, "g_fma_any_small"),
    ):
        inputs = inputs_of(module, sizes)
        wanted = play(module, "g", inputs, sizes)
        assert wanted is not None
        found = simulate(kernels, inputs, sizes, variant, schedule="random")
        found.check()
        np.testing.assert_array_equal(found.outputs[0], wanted[0])


@pytest.mark.parametrize(("arch", "turned"), [("sm_80", True), ("sm_90a", False)])
def test_nothing_spills(arch: str, turned: bool) -> None:
    s = Sketch("exact", f32)
    x, w = s.input("x", "M", "K"), s.input("w", *(("N", "K") if turned else ("K", "N")))
    module = s.done(y=s.fn("relu", s.gemm(x, w, turned=turned)))
    found = gpu_module_of(run(module, "gpu", arch=arch, variant="fma"))
    units = [unit for unit in cuda_units(found) if "_fma(" in unit]
    assert units
    for result in nvrtc.compile_each(units, arch):
        assert {info.spill_bytes for info in result.kernels.values()} == {0}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"warp_tile": [16, 32]}, "warp_tile 16x32 is not a multiple of 32x16"),
        ({"tile": [128, 128, 12]}, "BK is 12; fma takes a multiple of 8"),
        ({"loader": "padded"}, "fma is fed by cp_async or register, not by padded"),
        ({"split_k": 4}, "split_k is 4; sums of parts are those of tensor cores"),
        ({"vectorize": 8}, "vectorize is 8 elements, 32 bytes"),
    ],
)
def test_a_plan_of_fma_that_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(VerifyException) as caught:
        plan(**changes).verify_()
    assert sentence in str(caught.value)


def test_tensor_cores_do_not_take_f32_nor_threads_16_bits() -> None:
    kernel = only(regions(TEXT), KernelOp)
    half = only(regions(TEXT.replace("f32", "f16")), KernelOp)
    own = {"mma": "mma.sync", "tile": [128, 128, 32], "warp_tile": [64, 32], "vectorize": 4}
    for region, schedule in ((kernel, plan(**own)), (half, plan())):
        with pytest.raises(PolycError, match="does not multiply operands of f"):
            GEMM.check(region, schedule)
