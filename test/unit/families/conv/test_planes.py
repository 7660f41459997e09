"""Convolutions of an image that lies as [N, C, H, W]: threads load its planes, beside TMA."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.module import ModuleOp as GpuModule
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV, measured, schedules
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.lowering.index_to_region import IndexToRegion
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.rewriting.driver import verify
from polyc.runtime import nvrtc
from polyc.test.support.conv_programs import Conv, of
from polyc.test.support.gemm_programs import ABOVE, inputs_of, runnable, tiles
from polyc.test.support.gpu_text import only
from polyc.test.support.im2col_programs import convolution
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

PLANES = replace(of(), turned=True, planes=True)


def regions(text: str) -> ModuleOp:
    """The region of a graph, in one, whatever that takes."""
    ctx = make_context()
    module = parse_text(ctx, text, "t.mlir")
    for name in ABOVE:
        made = IndexToRegion(fuse="legal") if name == "index-to-region" else build(name, "")
        made.apply(ctx, module)
    verify(module)
    return module


def drawn(seed: int) -> Conv:
    """A filter with any strides, dilation, and padding before and after, of known sizes."""
    draw = random.Random(seed)

    def pair(low: int, high: int) -> list[int]:
        return [draw.randint(low, high) for _ in range(2)]

    geometry = Im2colAttr.of(pair(1, 3), pair(1, 3), pair(0, 2), pair(1, 2), pair(0, 2))
    spans = [(t - 1) * d + 1 for t, d in zip(geometry.taps, geometry.dilations, strict=True)]
    height, width = (draw.randint(span + 2, 11) for span in spans)
    x = (draw.randint(1, 3), height, width, 8 * draw.randint(2, 5))
    return Conv(geometry, x, draw.randint(1, 40), turned=True, planes=True)


def planned(conv: Conv, number: int) -> ModuleOp:
    """A convolution under one of the plans that the model has first."""
    module = regions(conv.text)
    region = only(module, KernelOp)
    found = find_convolution(region)
    assert found.planes
    plans = measured(found, "sm_90a")
    block = region.parent_block()
    assert block is not None
    block.insert_op_after(plans[number % len(plans)], region)
    return module


def built(module: ModuleOp) -> GpuModule:
    """Its kernels, as tiles."""
    module = module.clone()
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    verify(module)
    return gpu_module_of(module)


CASES = {
    "three taps": replace(PLANES, x=(2, 9, 7, 24), filters=40),
    "every second pixel": replace(
        PLANES, geometry=of((1, 1), (2, 2), (0, 0)).geometry, x=(2, 8, 8, 72), filters=72
    ),
    "patches": replace(
        PLANES, geometry=of((2, 2), (2, 2), (0, 0)).geometry, x=(2, 8, 8, 16), filters=40
    ),
    "a row of four": replace(
        PLANES, geometry=of((2, 2), (1, 4), (0, 0), (1, 2)).geometry, x=(2, 5, 16, 24), filters=40
    ),
    "steps and a bias": replace(
        PLANES,
        geometry=of(strides=(2, 2)).geometry,
        x=(3, 9, 11, 40),
        filters=64,
        more=(((64, 1, 1), "add"),),
        after=("relu",),
    ),
    "far apart": replace(
        PLANES, geometry=of(padding=(2, 2), dilation=(2, 2)).geometry, x=(1, 6, 9, 16), filters=16
    ),
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_agree_with_the_region(name: str) -> None:
    """In tiles and in threads, without a race."""
    for number in (0, 3):
        module = planned(CASES[name], number)
        kernels = built(module)
        plan = only(module, ScheduleOp)
        assert plan.loader.data == "gather"
        inputs = inputs_of(module, {})
        wanted = play(module, "g", inputs, {})
        assert wanted is not None
        np.testing.assert_array_equal(tile.run(kernels, inputs, {}, plan.kernel_name)[0], wanted[0])
        found = simulate(
            finished(kernels), inputs, {}, plan.kernel_name, schedule="random", completion="random"
        )
        found.check()
        np.testing.assert_array_equal(found.outputs[0], wanted[0])


@pytest.mark.turns(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("seed", range(4))
def test_any_geometry_agrees_with_a_direct_evaluation(seed: int, arch: str) -> None:
    conv = drawn(seed)
    module = regions(conv.text)
    assert find_convolution(only(module, KernelOp)).planes
    kernels = tiles(module, arch)
    x, w = inputs_of(module, {})
    found = play(module, "g", [x, w], {})
    assert found is not None
    wanted = convolution(np.moveaxis(x, 1, -1), w, conv.geometry).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(np.asarray(found[0]), wanted.astype(np.float16))
    for variant in (ran := runnable(kernels, {})):
        (mine,) = tile.run(kernels, [x, w], {}, variant)
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(found[0]))
    assert ran


def test_threads_of_sm_80_simulate() -> None:
    conv = CASES["steps and a bias"]
    module = regions(conv.text)
    build("plan-select", "sm_80").apply(make_context(), module)
    (plan,) = (op for op in module.ops if isinstance(op, ScheduleOp))
    assert (plan.variant.data, plan.brings) == ("gather", "cp_async")
    inputs = inputs_of(regions(conv.text), {})
    wanted = play(regions(conv.text), "g", inputs, {})
    assert wanted is not None
    build("region-to-gpu", "sm_80").apply(make_context(), module)
    found = simulate(finished(gpu_module_of(module)), inputs, {}, plan.kernel_name)
    found.check()
    np.testing.assert_array_equal(found.outputs[0], wanted[0])


@pytest.mark.parametrize(
    ("conv", "why"),
    [
        (replace(PLANES, x=(2, 9, 7, 20), filters=8), "are not its last axis"),
        (replace(PLANES, x=("N", 9, 7, 16), filters=8), "and its sizes are not known"),
        (replace(PLANES, x=(2, 9, 7, 16), filters=8, turned=False), "are not its last axis"),
    ],
    ids=["channels in no vectors", "open sizes", "pixels first"],
)
def test_what_it_is_not_for(conv: Conv, why: str) -> None:
    refused = CONV.attempt(only(regions(conv.text), KernelOp), "sm_90a")
    assert why in str(refused)


@pytest.mark.parametrize("name", ["three taps", "every second pixel"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_they_spill_nothing(name: str, arch: str) -> None:
    x = (32, 28, 28, 256) if name == "three taps" else (32, 56, 56, 256)
    conv = replace(CASES[name], x=x, filters=512)
    module = regions(conv.text)
    region = only(module, KernelOp)
    found = find_convolution(region)
    plans = measured(found, arch) if arch == "sm_90a" else schedules(found, arch)
    block = region.parent_block()
    assert block is not None
    for plan in plans[:6]:
        block.insert_op_after(plan.clone(), region)
    build("region-to-gpu", arch).apply(make_context(), module)
    units = cuda_units(finished(gpu_module_of(module)))
    for result in nvrtc.compile_each(units, arch):
        spilled = {name: info.spill_bytes for name, info in result.kernels.items()}
        assert set(spilled.values()) <= {0}, (spilled, nvrtc.version())
