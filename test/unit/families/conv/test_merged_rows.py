"""Convolutions whose rows are pixels of all images, though the output lies as [N, F, P, Q]."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.region import KernelOp as RegionOp
from polyc.families.conv.convolution import PIXELS
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV, schedules
from polyc.families.family import fitted
from polyc.families.space import Tiling
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.conv_programs import Conv, of, scheduled, under
from polyc.test.support.gemm_programs import inputs_of, regions
from polyc.test.support.gpu_text import only
from polyc.tools.play import play

FIRST = replace(of(), turned=True)

CASES: dict[str, tuple[Conv, Tiling]] = {
    "images of 8 by 8, by TMA": (
        replace(FIRST, x=(3, 8, 8, 24), filters=72),
        Tiling(128, 96, 4, persistent=True),
    ),
    "images of 14 by 14": (
        replace(FIRST, x=(2, 14, 14, 16), filters=40, more=(((40, 1, 1), "add"),), after=("relu",)),
        Tiling(128, 64, 4),
    ),
    "images of 7 by 7": (
        replace(FIRST, x=(3, 7, 7, 16), filters=24),
        Tiling(64, 32, 4, at_once=2),
    ),
    "tiles of three panels": (
        replace(FIRST, x=(3, 8, 16, 16), filters=160),
        Tiling(192, 160, 3, persistent=True),
    ),
    "every second pixel": (
        replace(FIRST, geometry=of(strides=(2, 2)).geometry, x=(3, 10, 10, 16), filters=64),
        Tiling(64, 64, 4, persistent=True),
    ),
    "parts in a cluster": (
        replace(FIRST, x=(3, 6, 6, 40), filters=64),
        Tiling(64, 64, 4, parts=2),
    ),
}


def built(conv: Conv, plan: Tiling) -> tuple[ModuleOp, ModuleOp]:
    """The region, and its kernels as tiles."""
    return regions(conv.text), under(regions(conv.text), plan, "tiles", merged=True)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_agree_with_the_region(name: str) -> None:
    """In tiles and in threads, without a race; and they spill nothing."""
    module, kernels = built(*CASES[name])
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    found = gpu_module_of(kernels)
    kernel = only(found, KernelOp).sym_name.data
    np.testing.assert_array_equal(tile.run(found, inputs, {}, kernel)[0], wanted[0])
    threads = finished(found)
    ran = simulate(threads, inputs, {}, kernel, schedule="random", completion="random")
    ran.check()
    np.testing.assert_array_equal(ran.outputs[0], wanted[0])
    turned = [op.transpose is not None for op in threads.walk() if isinstance(op, hw.StmatrixOp)]
    assert turned and all(turned)
    for result in nvrtc.compile_each(cuda_units(threads), "sm_90a"):
        spilled = {name: info.spill_bytes for name, info in result.kernels.items()}
        assert set(spilled.values()) <= {0}, (spilled, nvrtc.version())


NETWORK = replace(of(strides=(2, 2)), turned=True, x=(32, 14, 14, 512), filters=512)


def test_the_model_says_which_side_pixels_are_on() -> None:
    """Pixels of 7 by 7 fill tiles badly, image by image; of 16 by 16, in few tiles, well."""
    (plan,) = schedules(find_convolution(only(regions(NETWORK.text), RegionOp)), "sm_90a")
    assert plan.merges_rows and plan.variant.data.startswith("merged_")
    own = replace(FIRST, x=(1, 16, 16, 64), filters=64)
    plans = schedules(find_convolution(only(regions(own.text), RegionOp)), "sm_90a")
    assert not any(plan.merges_rows for plan in plans)


def test_rows_are_pixels_of_all_images() -> None:
    conv = find_convolution(only(regions(NETWORK.text), RegionOp))
    assert conv.why_not_merged is None and conv.turned
    own = conv.merged
    assert own.tile_axes == (PIXELS, conv.filters) and not own.batch
    assert own.pixels == Dim.const(32 * 49) and own.line == Dim.const(49)
    assert own.matrix_dims == tuple(map(Dim.const, (32, 512, 49)))


@pytest.mark.parametrize(
    ("conv", "why"),
    [
        (replace(NETWORK, turned=False), "filters last"),
        (replace(NETWORK, x=("N", 14, 14, 512)), "not known"),
        (replace(NETWORK, more=(((32, 512, 7, 7), "add"),)), "reads or counts pixels or images"),
        (replace(NETWORK, more=(((32, 512, 1, 1), "mul"),)), "reads or counts pixels or images"),
        (replace(NETWORK, out="f32"), "another output than one of 16 bits"),
    ],
    ids=["pixels first", "open sizes", "a residual", "what images have", "f32"],
)
def test_what_it_is_not_for(conv: Conv, why: str) -> None:
    found = find_convolution(only(regions(conv.text), RegionOp))
    assert why in (found.why_not_merged or "")
    if found.turned:
        with pytest.raises(PolycError, match=r"way of conv .merged_rows.*use .implicit_gemm"):
            under(regions(conv.text), Tiling(128, 128, 4), "tiles", merged=True)


def test_a_plan_stores_no_more_pixels_at_once_than_follow_each_other() -> None:
    conv = find_convolution(only(regions(NETWORK.text), RegionOp))
    plan = scheduled(conv, Tiling(128, 128, 4), merged=True)
    assert plan.integer("vectorize") == 1
    wide = fitted("g", "own", {**plan.fields(), "vectorize": 8}, ())
    with pytest.raises(PolycError, match="stores 8 pixels at once, and an image has 49; store 1"):
        CONV.check_plan(conv, wide)
