"""Convolutions of f32: implicit GEMMs that threads multiply by themselves (``mma = "fma"``)."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.bench.conv_networks import Case
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.schedules import CONV
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.conv_programs import Conv, of
from polyc.test.support.gpu_text import find, only
from polyc.test.support.split_programs import run, written
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

EXACT = replace(of(strides=(2, 1)), element="f32", out="f32", more=((("F",), "add"),))
TURNED = replace(EXACT, turned=True, more=((("F", 1, 1), "add"),))


def lowered(conv: Conv, until: str, arch: str = "sm_80", variant: str | None = None) -> ModuleOp:
    module = parse_text(make_context(), conv.text, "conv.mlir")
    return run(module, until, arch=arch, variant=variant)


def test_its_tiles_are_multiplied_by_threads() -> None:
    kernel = only(lowered(EXACT, "region"), KernelOp)
    found = CONV.schedules(kernel, "sm_90a")
    names = {plan.variant.data for plan in found}
    assert names >= {"fma", "fma_small", "fma_any", "fma_any_small"}
    assert all(plan.mma.data == "fma" and plan.operand_bytes == 4 for plan in found)
    # Where the place of each pixel is in registers too, sums for the largest tiles are not.
    assert not any(name.endswith("large") for name in names)


@pytest.mark.parametrize(
    ("images", "size", "variant"), [(1, 7, "parts"), (8, 28, "fma_"), (64, 28, "fma")]
)
def test_larger_tiles_wait_until_they_fill_the_chip(images: int, size: int, variant: str) -> None:
    conv = replace(EXACT, x=(images, size, size, 128), filters=256)
    (plan,) = CONV.schedules(only(lowered(conv, "region"), KernelOp), "sm_90a")
    assert variant in plan.variant.data and (variant != "fma" or plan.variant.data == variant)


def test_channels_may_be_any() -> None:
    """What is turned comes by elements; lines of the output alone are vectors."""
    conv = replace(EXACT, x=("N", "H", "W", 18), filters=64, more=(((64,), "add"),))
    plans = CONV.schedules(only(lowered(conv, "region"), KernelOp), "sm_90a")
    assert {plan.integer("vectorize") for plan in plans} == {4}


@pytest.mark.parametrize("channels", [16, 24])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_low_tiles_have_low_warps_where_channels_are_few(size: int, channels: int) -> None:
    """A tile of 16 rows keeps warps of 16 when its steps are shortened to the channels."""
    conv = replace(EXACT, x=(2, size, size, channels), filters=16, more=(((16,), "add"),))
    plans = CONV.schedules(only(lowered(conv, "region"), KernelOp), "sm_90a")
    assert plans
    for plan in plans:
        rows, columns = plan.tile_sizes[:2]
        high, wide = plan.warp_tile_sizes
        assert rows % high == 0 and columns % wide == 0, plan.variant.data


OWN = {"variant": "fma_any", "tile": [32, 32, 8], "warp_tile": [32, 32], "vectorize": 1, "when": []}
WIDE = {"vectorize": 4, "when": ["F mod 4 == 0"]}
PARTS = {"split_k": 3, "algo_choice": {"conv": "partial_sums"}}


@pytest.mark.parametrize("conv", [EXACT, TURNED], ids=["channels last", "filters first"])
def test_tails_and_races(tmp_path: Path, conv: Conv) -> None:
    """Channels and filters that end inside of a tile, of one block or of several."""
    for sizes, more in (
        ({"N": 2, "H": 5, "W": 6, "C": 11, "F": 36}, WIDE),
        ({"N": 1, "H": 5, "W": 7, "C": 5, "F": 35}, PARTS),
    ):
        module = parse_text(make_context(), conv.text, "conv.mlir")
        rng = np.random.default_rng(3)
        shapes = [tuple(sizes[n] for n in "NHWC"), (sizes["F"], 3, 3, sizes["C"])]
        shapes.append((sizes["F"], 1, 1) if conv.turned else (sizes["F"],))
        inputs = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
        wanted = play(module, "g", inputs, sizes)
        assert wanted is not None
        own = {**OWN, **more}
        if more is WIDE and conv.turned:
            own = OWN  # Its lines are pixels.
        kernels = gpu_module_of(run(module, "gpu", written(tmp_path, own), "sm_80"))
        found = simulate(kernels, inputs, sizes, "g_fma_any", schedule="random")
        found.check()
        np.testing.assert_array_equal(found.outputs[0], wanted[0])


@pytest.mark.turns(2)
@pytest.mark.parametrize("conv", [EXACT, TURNED], ids=["channels last", "filters first"])
@pytest.mark.parametrize("variant", ["fma", "fma_any"])
def test_nothing_spills(variant: str, conv: Conv) -> None:
    for arch in ("sm_80", "sm_90a"):
        units = cuda_units(gpu_module_of(lowered(conv, "gpu", arch, variant)))
        for result in nvrtc.compile_each([u for u in units if f"{variant}(" in u], arch):
            assert {info.spill_bytes for info in result.kernels.values()} == {0}


@pytest.mark.parametrize("groups", [1, 2])
def test_an_image_of_channels_first_is_turned(groups: int) -> None:
    """Pixels outside and channels inside, once; not its windows, which are larger."""
    case = replace(Case.of(f"64x28x64 k3 g{groups}"), images=8, layout="nchw", element="f32")
    module = run(parse_text(make_context(), case.text(), "conv.mlir"), "plan")
    plans = [plan for plan in find(module, ScheduleOp) if plan.pattern == "conv"]
    assert plans and all(plan.mma.data == "fma" for plan in plans)
    stored = [[d.constant() for d in k.outs.data[0].shape] for k in find(module, KernelOp)]
    assert max(prod(n or 0 for n in sizes) for sizes in stored) == 8 * 64 * 28 * 28


def test_tensor_cores_do_not_take_its_windows() -> None:
    kernel = only(lowered(EXACT, "region"), KernelOp)
    first = CONV.schedules(kernel, "sm_90a")[0]
    own = {"mma": "mma.sync", "tile": [128, 128, 32], "warp_tile": [64, 32], "stages": 3}
    plan = ScheduleOp(first.region, "own", {**first.fields(), **own})
    with pytest.raises(PolycError, match=r"mma\.sync does not multiply operands of f32"):
        CONV.check(kernel, plan)
