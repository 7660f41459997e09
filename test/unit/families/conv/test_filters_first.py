"""Convolutions whose output lies as [N, F, P, Q]: rows are filters, and columns pixels."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.region import KernelOp
from polyc.families.conv.convolution import Convolution
from polyc.families.conv.problems import problem_of
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV, schedules
from polyc.families.space import Tiling
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.finish import finished
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.conv_programs import Conv, of, under
from polyc.test.support.gemm_programs import assert_tiles_agree, inputs_of, regions, tiles
from polyc.test.support.gpu_text import only
from polyc.test.support.im2col_programs import convolution
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

TURNED = replace(of(), turned=True)
RESIDUAL = ("N", "F", "(H + 1) floordiv 2", "(W + 1) floordiv 2")
EPILOGUES = {
    "a residual": replace(
        TURNED,
        geometry=of(strides=(2, 2)).geometry,
        more=((("F", 1, 1), "add"), (RESIDUAL, "add")),
        after=("relu",),
    ),
    "what images and filters have": replace(TURNED, more=((("N", "F", 1, 1), "mul"),)),
    "one of all images": replace(TURNED, more=((("H", "W"), "add"),), out="f32"),
}


def found_in(conv: Conv) -> Convolution:
    return find_convolution(only(regions(conv.text), KernelOp))


def test_rows_are_filters_of_an_image() -> None:
    conv = found_in(TURNED)
    assert conv.turned
    assert conv.tile_axes == (conv.filters, "pixels")
    assert conv.output_dims == (*map(Dim.sym, ("N", "H", "W", "F")),)
    assert conv.matrix_dims == (Dim.sym("N"), Dim.sym("F"), Dim.sym("H") * Dim.sym("W"))
    assert problem_of(conv).sizes[:2] == (Dim.sym("N"), Dim.sym("F"))


@pytest.mark.parametrize(
    "shape", [("H", 1), (1, "W"), ("N", "F", "H", 1)], ids=["rows", "columns", "rows of images"]
)
def test_what_goes_by_rows_alone_is_no_pixels(shape: tuple[str | int, ...]) -> None:
    conv = replace(TURNED, more=((shape, "add"),))
    module = parse_text(make_context(), conv.text, "t.mlir")
    for transform in (FrontendToTiny(), TinyToIndex(), IndexToRegion(fuse="legal")):
        transform.apply(make_context(), module)
    refused = CONV.attempt(only(module, KernelOp), "sm_90a")
    assert "not pixel by pixel" in str(refused)


@pytest.mark.turns(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("conv", EPILOGUES.values(), ids=EPILOGUES)
def test_every_variant_agrees_with_the_region(conv: Conv, arch: str) -> None:
    """Tiles go beyond an image's pixels, which lie in whole vectors or do not."""
    for sizes in ((3, 8, 8, 24, 72), (2, 9, 7, 6, 10)):
        assert assert_tiles_agree(conv.text, arch, dict(zip("NHWCF", sizes, strict=True)))


def drawn(seed: int) -> tuple[Conv, dict[str, int]]:
    """A filter with any strides, dilation, and padding before and after, and sizes for it."""
    draw = random.Random(seed)

    def pair(low: int, high: int) -> list[int]:
        return [draw.randint(low, high) for _ in range(2)]

    geometry = Im2colAttr.of(pair(1, 3), pair(1, 3), pair(0, 2), pair(1, 2), pair(0, 2))
    spans = [(t - 1) * d + 1 for t, d in zip(geometry.taps, geometry.dilations, strict=True)]
    step = draw.choice((1, 2, 8))
    sizes = {"N": draw.randint(1, 3)}
    sizes |= {name: draw.randint(span, 11) for name, span in zip("HW", spans, strict=True)}
    sizes |= {name: step * draw.randint(1, 40 // step) for name in "CF"}
    return Conv(geometry, turned=True), sizes


@pytest.mark.parametrize("seed", range(3, 6))
def test_any_geometry_agrees_with_a_direct_evaluation(seed: int) -> None:
    conv, sizes = drawn(seed)
    assert assert_tiles_agree(conv.text, ("sm_80", "sm_90a")[seed % 2], sizes)
    module = regions(conv.text)
    x, w = inputs_of(module, sizes)
    found = play(module, "g", [x, w], sizes)
    assert found is not None
    wanted = convolution(x, w, conv.geometry).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(np.asarray(found[0]), wanted.astype(np.float16))


PLANS = {
    "goes on": (Tiling(128, 96, 4, persistent=True), (2, 24, 8, 24, 136)),
    "one tile": (Tiling(64, 64, 4), (2, 8, 8, 72, 40)),
    "parts in a cluster": (Tiling(64, 64, 4, parts=2), (2, 8, 8, 72, 40)),
    "parts in memory": (Tiling(64, 64, 4, parts=2, summed=True), (2, 8, 8, 72, 40)),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_the_space_store_filters_first(name: str) -> None:
    """Run by the simulator, with no findings, and compiled without a spill."""
    plan, (images, height, width, channels, filters) = PLANS[name]
    conv = replace(TURNED, x=(images, height, width, channels), filters=filters)
    conv = replace(conv, more=(((filters, 1, 1), "add"), (conv.y, "add")))
    module = regions(conv.text)
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    kernels = gpu_module_of(under(module, plan))
    result = simulate(kernels, inputs, {}, schedule="random", seed=1)
    result.check()
    np.testing.assert_array_equal(result.outputs[0], np.asarray(wanted[0]))
    made = nvrtc.compile_cuda(cuda_source(kernels), "sm_90a")
    assert {(info.spill_bytes, info.stack) for info in made.kernels.values()} == {(0, 0)}


@pytest.mark.parametrize(("width", "vectorize"), [(7, 1), (10, 4)])
def test_pixels_of_any_number_are_stored_by_threads(width: int, vectorize: int) -> None:
    conv = replace(TURNED, x=(2, 6 if width == 10 else 7, width, 16), filters=24)
    module = regions(conv.text)
    plan, *_ = schedules(found_in(conv), "sm_90a")
    assert (plan.loader.data, plan.integer("vectorize")) == ("tma", vectorize)
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    result = simulate(finished(tiles(module, "sm_90a")), inputs, {}, schedule="random", seed=1)
    result.check()
    np.testing.assert_array_equal(result.outputs[0], np.asarray(wanted[0]))


def test_one_tap_that_no_axis_walks_is_one() -> None:
    """A filter of one point along rows and columns, wherever those axes stand in it."""
    s = Sketch("skipping")
    x, w = s.input("x", "N", "H", "W", 64), s.input("w", 128, 64, 1, 1)
    made = frontend.Conv2dOp(x, s.permute(w, 0, 2, 3, 1), layout="nhwc", stride=(2, 2))
    found = find_convolution(only(regions(module_text(s.done(y=s.add(made)))), KernelOp))
    assert (found.geometry.taps, found.geometry.steps) == ((1, 1), (2, 2))
