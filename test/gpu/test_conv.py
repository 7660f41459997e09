"""Convolutions on the GPU: every geometry, every variant, both architectures' kernels.

Inputs are small integers.  Every partial sum is then exact in FP32, and the output's rounding is
all that differs from the reference, so that a pixel read from the wrong place shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyc.bench.conv_networks import Case
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.families import ranking
from polyc.families.conv.problems import depths_of
from polyc.playback.reference import make_inputs
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.conv_programs import Conv, of, under
from polyc.test.support.each_variant import results
from polyc.test.support.gemm_programs import regions
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.im2col_programs import GEOMETRIES, convolution

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")
DTYPES: dict[str, Any] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
}
SIZES = [
    {"N": 3, "H": 9, "W": 7, "C": 40, "F": 136},
    {"N": 2, "H": 17, "W": 20, "C": 6, "F": 10},
    {"N": 1, "H": 7, "W": 6, "C": 3, "F": 5},
    {"N": 1, "H": 30, "W": 33, "C": 128, "F": 264},
    {"N": 17, "H": 31, "W": 29, "C": 64, "F": 256},
]
"""One tile and many, images that end within one, and channels for every loader."""


def tensors(conv: Conv, sizes: Mapping[str, int]) -> list[Any]:
    """The image and the filter."""
    rng = np.random.default_rng(sorted(sizes.values()))
    taps = conv.geometry.taps
    x = (sizes["N"], sizes["H"], sizes["W"], sizes["C"])
    kind = DTYPES[conv.element]
    shapes = (x, (sizes["F"], *taps, sizes["C"]))
    return [rng.integers(-2, 3, shape).astype(np.float32).astype(kind) for shape in shapes]


def assert_variants_give(program: Program, inputs: Sequence[object], wanted: Any) -> None:
    """What the dispatch takes gives it, and so does each variant whose conditions hold."""
    ran = 0
    for _, (found,) in results(program, inputs):
        np.testing.assert_array_equal(np.asarray(found), wanted)
        ran += 1
    assert ran >= 2


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s.values())))
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_variant_at_every_geometry(
    build: Build, name: str, sizes: dict[str, int], arch: str
) -> None:
    conv = replace(Conv(GEOMETRIES[name]), out="f32")
    program = build(conv.text, arch)
    inputs = tensors(conv, sizes)
    wanted = convolution(inputs[0], inputs[1], conv.geometry)
    assert_variants_give(program, inputs, wanted)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_a_bottleneck_of_a_network(build: Build, element: str, arch: str) -> None:
    """Bias, residual and relu after 3x3, stored by TMA or by threads in 16 bits."""
    more = ((("F",), "add"), (("N", "H", "W", "F"), "add"))
    conv = replace(of(), more=more, after=("relu",), element=element, out=element)
    program = build(conv.text, arch)
    for sizes in (SIZES[0], SIZES[-1]):
        x, w = tensors(conv, sizes)
        rng = np.random.default_rng(1)
        kind = DTYPES[element]
        bias = rng.integers(-2, 3, sizes["F"]).astype(np.float32).astype(kind)
        shape = (sizes["N"], sizes["H"], sizes["W"], sizes["F"])
        residual = rng.integers(-2, 3, shape).astype(np.float32).astype(kind)
        exact = convolution(x, w, conv.geometry) + bias.astype(np.float32)
        wanted = np.maximum(exact + residual.astype(np.float32), 0).astype(kind)
        for variant in program.variants:
            try:
                (found,) = program.run([x, w, bias, residual], variant=variant)
            except PolycError as error:
                assert error.kind == "NoVariant"
                continue
            np.testing.assert_array_equal(np.asarray(found).view(kind), wanted)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("turned", [False, True], ids=["filters last", "filters first"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_f32(build: Build, name: str, turned: bool, arch: str) -> None:
    """Threads multiply; the sums of small integers are exact."""
    conv = replace(Conv(GEOMETRIES[name]), element="f32", out="f32", turned=turned)
    program = build(conv.text, arch)
    for sizes in SIZES:
        inputs = tensors(conv, sizes)
        wanted = convolution(inputs[0], inputs[1], conv.geometry)
        assert_variants_give(program, inputs, wanted.transpose(0, 3, 1, 2) if turned else wanted)


GROUPED = ["64x28x64 k3 g2", "96x15x192 k3 s2 g3", "128x14x128 k5 g8", "256x28x256 k3 g4"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("text", GROUPED)
def test_groups(build: Build, text: str, layout: str, element: str, arch: str) -> None:
    case = replace(Case.of(text), images=3, layout=layout, element=element)
    program = build(case.text(), arch)
    graph = only(parsed(case.text()), GraphOp)
    inputs = make_inputs(graph, {}, 7)
    assert_agree(program.run(inputs), meant(parsed(case.text()), inputs, {}))


STRIDED = ["64x56x128 k1 s2", "128x14x96 k1 s2", "40x15x24 k1 s3"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("text", STRIDED)
def test_strided_filters_of_one_tap(build: Build, text: str, arch: str) -> None:
    """The pixels that a step reads are copied, channels inside."""
    case = replace(Case.of(text), images=3, layout="nchw")
    inputs = make_inputs(only(parsed(case.text()), GraphOp), {}, 7)
    found = build(case.text(), arch).run(inputs)
    assert_agree(found, meant(parsed(case.text()), inputs, {}))


UNEVEN = ["256x14x1024 k1", "520x7x136 k1", "96x14x72 k1", "256x10x64 k1", "1024x6x128 k1"]


@pytest.mark.parametrize("images", [1, 5])
@pytest.mark.parametrize("constant", [False, True], ids=["", "constant"])
@pytest.mark.parametrize("text", UNEVEN)
def test_rows_of_pixels_that_begin_anywhere(
    build: Build, text: str, constant: bool, images: int
) -> None:
    """A filter of one tap multiplies an image whose rows are no multiples of 16 bytes."""
    case = replace(Case.of(text), images=images, layout="nchw", constant=constant)
    program = build(case.text(), "sm_90a")
    x, f = make_inputs(only(parsed(case.text()), GraphOp), {}, 7)
    assert_agree(program.run([x, f]), meant(parsed(case.text()), [x, f], {}))


@pytest.mark.parametrize("text", ["64x28x96 k3", "64x14x96 k1", "64x14x64 k3 g64"])
def test_filters_that_are_constants_are_turned_once(build: Build, text: str) -> None:
    """A bound launch is right for other images, in graphs too, and a new one for other filters."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    case = replace(Case.of(text), images=2, layout="nchw")
    program = build(case.text(), "sm_90a")
    graph = only(parsed(case.text()), GraphOp)
    for seed in (1, 2):
        x, f = make_inputs(graph, {}, seed)
        there = [torch.from_numpy(np.asarray(one)).cuda() for one in (x, f)]
        y = torch.full(case.shapes()[2], float("nan"), dtype=torch.float16, device="cuda")
        bound = program.launch(there, [y], constants=["F"])
        captured: Any = None
        for round in range(3):
            again, _ = make_inputs(graph, {}, 7 + round)
            there[0].copy_(torch.from_numpy(np.asarray(again)))
            torch.cuda.synchronize()
            if round == 1:
                captured = torch.cuda.CUDAGraph()
                with torch.cuda.graph(captured):
                    bound.run(torch.cuda.current_stream().cuda_stream)
            if round:
                captured.replay()
            else:
                bound.run(torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
            found = y.cpu().numpy()
            assert_agree([found], meant(parsed(case.text()), [again, f], {}))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_filters_first(build: Build, name: str, arch: str) -> None:
    """Stored as [N, F, P, Q], with a bias and a residual: lines of whole vectors, and others."""
    made = Conv(GEOMETRIES[name], turned=True)
    program = build(replace(made, more=((("F", 1, 1), "add"), (made.y, "add"))).text, arch)
    for sizes in SIZES:
        x, w = tensors(made, sizes)
        exact = convolution(x, w, made.geometry).transpose(0, 3, 1, 2)
        rng = np.random.default_rng(1)
        bias, residual = (
            rng.integers(-2, 3, shape).astype(np.float16)
            for shape in ((sizes["F"], 1, 1), exact.shape)
        )
        wanted = (exact + bias + residual).astype(np.float16)
        assert_variants_give(program, [x, w, bias, residual], wanted)


SPACE_TURNED = [
    {"N": 1, "H": 30, "W": 32, "C": 128, "F": 264},
    {"N": 3, "H": 16, "W": 12, "C": 72, "F": 104},
]
"""Lines of pixels that TMA stores."""


@pytest.mark.parametrize("sizes", SPACE_TURNED)
def test_plans_of_the_space_store_filters_first(sizes: dict[str, int]) -> None:
    """Tiles that go beyond an image, clusters and parts through memory."""
    if not driver.device().runs("sm_90a"):
        pytest.skip("this GPU has no wgmma")
    conv = replace(of(), x=tuple(sizes[n] for n in "NHWC"), filters=sizes["F"], turned=True)
    inputs = tensors(conv, sizes)
    wanted = convolution(inputs[0], inputs[1], conv.geometry).transpose(0, 3, 1, 2)
    plans = list(ranking.Form(alone=True).space("sm_90a"))
    random.Random(5).shuffle(plans)
    for plan in plans[:12]:
        program = Program.compile(under(regions(conv.text), plan))
        (found,) = program.run(inputs)
        np.testing.assert_array_equal(np.asarray(found), wanted.astype(np.float16))


@pytest.mark.parametrize("arch", ARCHS)
def test_the_padding_is_zeros_beside_nan(build: Build, arch: str) -> None:
    """A NaN reaches the pixels whose windows hold it, of its own image, and no others."""
    conv = replace(of(), out="f32")
    program = build(conv.text, arch)
    sizes = {"N": 2, "H": 6, "W": 5, "C": 16, "F": 24}
    x, w = tensors(conv, sizes)
    x[0, 5, 4, 3] = np.nan
    w[...] = 1
    for variant in program.variants:
        try:
            (found,) = program.run([x, w], variant=variant)
        except PolycError as error:
            assert error.kind == "NoVariant"
            continue
        spoilt = np.zeros((2, 6, 5, 24), np.bool_)
        spoilt[0, 4:, 3:] = True
        np.testing.assert_array_equal(np.isnan(np.asarray(found)), spoilt)


SPACE = [
    ({"N": 3, "H": 17, "W": 13, "C": 72, "F": 104}, (3, 3), (1, 1)),
    ({"N": 5, "H": 14, "W": 14, "C": 256, "F": 264}, (3, 3), (2, 2)),
    ({"N": 2, "H": 9, "W": 30, "C": 96, "F": 40}, (1, 5), (1, 2)),
]
"""Sizes with tails, taps and strides of convolutions under plans of the space."""


@pytest.mark.parametrize(("sizes", "taps", "strides"), SPACE)
def test_plans_of_the_space(
    sizes: dict[str, int], taps: tuple[int, int], strides: tuple[int, int]
) -> None:
    """Every number of warpgroups, clusters, parts through memory, and twice the same bits."""
    if not driver.device().runs("sm_90a"):
        pytest.skip("this GPU has no wgmma")
    padding = (taps[0] // 2, taps[1] // 2)
    conv = replace(of(taps, strides, padding), out="f32")
    conv = replace(conv, x=tuple(sizes[n] for n in "NHWC"), filters=sizes["F"])
    inputs = tensors(conv, sizes)
    wanted = convolution(inputs[0], inputs[1], conv.geometry)
    for depth in depths_of(sizes["C"]):
        plans = list(ranking.Form(alone=True, depths=(depth,)).space("sm_90a"))
        random.Random(depth).shuffle(plans)
        for plan in plans[:12]:
            program = Program.compile(under(regions(conv.text), plan))
            for _ in range(2):
                (found,) = program.run(inputs)
                np.testing.assert_array_equal(np.asarray(found), wanted, plan.name)
