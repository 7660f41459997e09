"""Convolutions of f32 on tensor cores, as TF32, where the precision permits it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV, schedules
from polyc.families.family import fitted
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.passes.pipeline import STAGES, build
from polyc.playback import tile
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.conv_programs import Conv, of
from polyc.test.support.gemm_programs import inputs_of, regions
from polyc.test.support.gpu_text import only
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

TF32 = replace(of(), element="f32", out="f32", precision="tf32")

CASES = {
    "pixels first": replace(TF32, x=(2, 7, 6, 36), filters=40),
    "filters first": replace(TF32, x=(2, 8, 6, 40), filters=24, turned=True),
    "lines of an odd length": replace(TF32, x=(2, 7, 5, 20), filters=20, turned=True),
    "few channels, and steps": replace(
        TF32, geometry=of(strides=(2, 2)).geometry, x=(1, 9, 9, 16), filters=12
    ),
    "far apart, with a bias": replace(
        TF32,
        geometry=of(padding=(2, 1), dilation=(2, 1)).geometry,
        x=(2, 6, 9, 16),
        filters=16,
        more=(((16,), "add"),),
        after=("relu",),
    ),
}

PARTED = {
    "few pixels of many channels": replace(
        TF32, x=(1, 5, 5, 128), filters=32, more=(((32,), "add"),), after=("relu",)
    ),
    "the same, filters first": replace(TF32, x=(1, 6, 6, 160), filters=40, turned=True),
}


def planned(conv: Conv, number: int = 0) -> ModuleOp:
    """A convolution under one of its schedules on tensor cores, or the last of them."""
    module = regions(conv.text)
    region = only(module, KernelOp)
    found = [p for p in schedules(find_convolution(region), "sm_90a") if p.tensor_float]
    block = region.parent_block()
    assert block is not None
    block.insert_op_after(found[min(number, len(found) - 1)], region)
    return module


def built(module: ModuleOp) -> ModuleOp:
    module = module.clone()
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    return module


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_agree_with_the_region(name: str) -> None:
    """In tiles and in threads, without a race: of whole numbers TF32 has all."""
    module = planned(CASES[name])
    plan, kernels = only(module, ScheduleOp), gpu_module_of(built(module))
    assert (plan.mma.data, plan.loader.data, plan.tensor_float) == ("wgmma", "tma", "tf32")
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    np.testing.assert_array_equal(tile.run(kernels, inputs, {}, plan.kernel_name)[0], wanted[0])
    found = simulate(
        finished(kernels), inputs, {}, plan.kernel_name, schedule="random", completion="random"
    )
    found.check()
    np.testing.assert_array_equal(found.outputs[0], wanted[0])


@pytest.mark.parametrize("name", PARTED)
def test_sums_of_parts_go_through_memory(name: str) -> None:
    """Blocks share the steps of few tiles, and the sums are the same bits in every run."""
    module = planned(PARTED[name])
    plan, kernels = only(module, ScheduleOp), gpu_module_of(built(module))
    assert plan.stores_sums and plan.tensor_float == "tf32"
    rng: Any = np.random.default_rng(3)
    shapes: list[Any] = [x.shape for x in inputs_of(module, {})]
    inputs: list[Any] = [np.float32(rng.standard_normal(shape)) for shape in shapes]
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    runs = [simulate(finished(kernels), inputs, {}, schedule="random", seed=n) for n in (1, 2)]
    for found in runs:
        found.check()
        np.testing.assert_allclose(found.outputs[0], wanted[0], rtol=0, atol=0.1)
    np.testing.assert_array_equal(runs[0].outputs[0], runs[1].outputs[0])
    for result in nvrtc.compile_each(cuda_units(finished(kernels)), "sm_90a"):
        assert {info.spill_bytes for info in result.kernels.values()} == {0}


@pytest.mark.parametrize(
    ("conv", "arch"),
    [
        (replace(TF32, precision=""), "sm_90a"),
        (replace(TF32, precision="f32x3"), "sm_90a"),
        (TF32, "sm_80"),
    ],
    ids=["exact", "of three products", "no wgmma"],
)
def test_others_are_multiplied_by_threads(conv: Conv, arch: str) -> None:
    found = schedules(find_convolution(only(regions(conv.text), KernelOp)), arch)
    assert found and not [plan for plan in found if plan.mma.data != "fma"]


def test_channels_in_no_vectors_get_zeros() -> None:
    conv = replace(TF32, x=(2, 27, 26, 18), filters=40)
    module = parse_text(make_context(), conv.text, "t.mlir")
    for stage in ("tiny", "index", "region", "plan"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(make_context(), module)
    (plan,) = (op for op in module.walk() if isinstance(op, ScheduleOp) and op.tensor_float)
    assert plan.pattern == "conv"


def test_a_plan_of_open_sizes_says_what_it_needs() -> None:
    found = schedules(find_convolution(only(regions(TF32.text), KernelOp)), "sm_90a")
    first = next(plan for plan in found if plan.tensor_float)
    assert "C mod 4 == 0" in str(first.when) and found[-1].mma.data == "fma"


@pytest.mark.parametrize("precision", ["", "f32x3"])
def test_a_plan_that_the_precision_does_not_permit_is_refused(precision: str) -> None:
    fields = only(planned(CASES["pixels first"]), ScheduleOp).fields()
    conv = replace(CASES["pixels first"], precision=precision)
    region = only(regions(conv.text), KernelOp)
    said = f'"{precision}"' if precision else "nothing"
    with pytest.raises(PolycError, match=f"this one of f32 has precision {said}"):
        CONV.check(region, fitted("g", "mine", fields, ()))


@pytest.mark.parametrize("turned", [False, True])
def test_they_spill_nothing(turned: bool) -> None:
    conv = replace(TF32, x=(32, 28, 28, 256), filters=512, turned=turned)
    module = planned(conv)
    units = cuda_units(finished(gpu_module_of(built(module))))
    for result in nvrtc.compile_each(units, "sm_90a"):
        spilled = {name: info.spill_bytes for name, info in result.kernels.items()}
        assert set(spilled.values()) <= {0}, (spilled, nvrtc.version())
