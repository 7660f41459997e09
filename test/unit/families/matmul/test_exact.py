"""Products of f32: tiles that threads multiply by themselves (``mma = "fma"``)."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.utils.exceptions import VerifyException

from polyc.cost.time import chosen
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.exact import ExactForm
from polyc.families.matmul.schedules import GEMM
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import Product, inputs_of, regions
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run, written
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

TEXT = Product(("M", "K"), ("K", "N"), ("M", "N")).text.replace("f16", "f32")


def plan(**changes: object) -> ScheduleOp:
    """The schedule of the smallest tile, or one that differs from it."""
    found = GEMM.schedules(only(regions(TEXT), KernelOp), "sm_90a")
    first = next(p for p in found if p.variant.data == "fma_small")
    return ScheduleOp(first.region, "own", {**first.fields(), **changes})  # pyright: ignore


def test_a_product_of_f32_is_multiplied_by_threads_in_tiles() -> None:
    found = GEMM.schedules(only(regions(TEXT), KernelOp), "sm_90a")
    names = {p.variant.data for p in found}
    assert names >= {"fma_small", "fma", "fma_large", "fma_any_small", "fma_any", "fma_any_large"}
    assert all(p.mma.data == "fma" and p.operand_bytes == 4 for p in found)
    assert any(p.stores_sums for p in found)


@pytest.mark.parametrize(
    ("sizes", "variant"),
    [
        ((256, 256, 16384), "fma_32x128_parts"),
        ((16, 4096, 4096), "fma_32x128_parts"),
        ((4096, 16, 4096), "fma_128x32_parts"),
        ((1024, 1024, 1024), "fma_small"),
        ((1280, 1280, 1280), "fma"),
        ((4096, 4096, 4096), "fma_large"),
        ((4096, 4096, 4095), "fma_large"),
        ((4095, 4095, 4095), "fma_any_large"),
    ],
)
def test_tiles_that_fill_the_chip_are_taken(sizes: tuple[int, int, int], variant: str) -> None:
    """An odd depth is no matter: operands along it are turned one by one."""
    found = GEMM.schedules(only(regions(TEXT), KernelOp), "sm_90a")
    plan = chosen(found, dict(zip("MNK", sizes, strict=True)))
    assert plan is not None and plan.variant.data.rstrip("0123456789") == variant


def test_of_known_sizes_one_is_built() -> None:
    sizes = {"M": "256", "N": "256", "K": "16384"}
    text = re.sub(r"\b[MNK]\b", lambda found: sizes[found[0]], TEXT)
    (plan,) = GEMM.schedules(only(regions(text), KernelOp), "sm_90a")
    assert plan.stores_sums and not plan.when.data


def test_no_copy_turns_its_operands() -> None:
    s = Sketch("turned", f32)
    module = run(s.done(y=s.linear(s.input("x", "M", "K"), "w", "N")), "region")
    assert len(find(module, KernelOp)) == 1


OWN: dict[str, object] = {
    "variant": "fma",
    "tile": [32, 32, 8],
    "warp_tile": [32, 32],
    "stages": 3,
    "fragment_buffers": 2,
    "vectorize": 1,
}
PARTS = {"split_k": 3, "algo_choice": {"matmul": "partial_sums"}}


@pytest.mark.parametrize(
    ("flags", "sizes", "changes"),
    [
        ((), (33, 36, 19), {"vectorize": 4}),
        (("transpose_a",), (35, 33, 9), {}),
        (("transpose_b",), (31, 37, 17), {}),
        (("transpose_a", "transpose_b"), (34, 5, 8), {"fragment_buffers": 1}),
        (("transpose_b",), (33, 34, 53), PARTS),
        ((), (17, 35, 9), {"tile": [16, 32, 8], "warp_tile": [16, 32]}),
        (("transpose_b",), (67, 5, 17), {"tile": [64, 16, 8], "warp_tile": [32, 16]}),
    ],
)
def test_tails_and_races(
    tmp_path: Path, flags: tuple[str, ...], sizes: tuple[int, int, int], changes: dict[str, object]
) -> None:
    """Operands that lie along k are turned on the way, others brought as they lie."""
    a = ("K", "M") if "transpose_a" in flags else ("M", "K")
    b = ("N", "K") if "transpose_b" in flags else ("K", "N")
    text = Product(a, b, ("M", "N"), flags).text.replace("f16", "f32")
    graph, module = parse_text(make_context(), text, "t.mlir"), regions(text)
    when = ["N mod 4 == 0"] if changes.get("vectorize") == 4 else []
    plan = written(tmp_path, {**OWN, **changes, "when": when})
    known = dict(zip("MNK", sizes, strict=True))
    inputs = inputs_of(module, known)
    wanted = play(module, "g", inputs, known)
    assert wanted is not None
    kernels = gpu_module_of(run(graph, "gpu", plan, "sm_80"))
    found = simulate(kernels, inputs, known, "g_fma", schedule="random")
    found.check()
    np.testing.assert_array_equal(found.outputs[0], wanted[0])


@pytest.mark.turns(1)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("variant", ["fma_large", "fma_any"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nothing_spills(arch: str, variant: str, turned: bool) -> None:
    s = Sketch("exact", f32)
    x, w = s.input("x", "M", "K"), s.input("w", *(("N", "K") if turned else ("K", "N")))
    y = s.fn("relu", s.gemm(x, w, turned=turned))
    if not turned:
        y = s.fn("add", s.fn("add", y, s.input("skip", "M", "N")), s.input("more", "M", "N"))
    found = gpu_module_of(run(s.done(y=y), "gpu", arch=arch, variant=variant))
    units = cuda_units(found)
    assert units
    for result in nvrtc.compile_each(units, arch):
        assert {info.spill_bytes for info in result.kernels.values()} == {0}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"warp_tile": [16, 16]},
            "four neighbouring rows and columns each of a warp_tile, and 16x16",
        ),
        ({"tile": [128, 128, 12]}, "BK is 12; fma takes a multiple of 8"),
        ({"loader": "padded"}, "fma is fed by cp_async or register, not by padded"),
        ({"loader": "register"}, "fma with fragment_buffers 2 reads operands that cp.async turns"),
        ({"fragment_buffers": 3}, "fragment_buffers is 1 or 2, not 3"),
        ({"split_k": 4}, "split_k is 4; with fma the sums of parts go through memory"),
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


@pytest.mark.parametrize("size", [512, 1024, 2048, 4096])
def test_known_sizes_are_ranked_by_the_formula_of_threads(size: int) -> None:
    """And not by that of tensor cores: a multiprocessor has 128 multiply-adds in a cycle."""
    form, sizes = ExactForm(), (1, size, size, size)
    times = ranking.ranked(sizes, "sm_90a", form)
    assert all(form.nanoseconds(sizes, one, "sm_90a") == time for time, one in times)
    assert times[0][0] > size**3 / (132 * 128 * 2)
