"""Convolutions as implicit GEMMs: which region is one, and that every variant's kernel agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from polyc.cost.products import CONV_RATES, Stored
from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.gpu import kernel as gpu_kernel
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import fault, schedules
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.passes.region.im2col import MaterializeColumns
from polyc.passes.support.plan.given import user_schedule
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import rewrite
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.conv_programs import Conv, of
from polyc.test.support.gemm_programs import (
    assert_tiles_agree,
    inputs_of,
    regions,
    runnable,
    tensor,
    tiles,
)
from polyc.test.support.gpu_text import assert_refused, find, only, parsed, printed
from polyc.test.support.gpu_text import refusal as refused
from polyc.test.support.im2col_programs import GEOMETRIES
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")
SIZES = [
    {"N": 3, "H": 9, "W": 7, "C": 40, "F": 136},
    {"N": 3, "H": 5, "W": 8, "C": 6, "F": 10},
    {"N": 1, "H": 7, "W": 6, "C": 3, "F": 5},
]
"""Sizes for variants that read 16 bytes at once, 4 bytes, and single elements."""

RESIDUAL = ("N", "(H + 1) floordiv 2", "(W + 1) floordiv 2", "F")
EPILOGUES = {
    "silu": replace(of(), after=("silu",)),
    "bias and residual": replace(
        of(strides=(2, 2)), more=((("F",), "add"), (RESIDUAL, "add")), after=("relu",)
    ),
    "the image itself": replace(of(), filters="C", more=((("X",), "add"),)),
    "one number": replace(of(), more=(((1,), "mul"),), out="f32"),
    "a vector of ones": replace(of(), more=(((1, 1, 1, "F"), "max"),)),
    "images of one row": replace(of((1, 3), padding=(0, 1)), x=("N", 1, "W", "C")),
    "known sizes": replace(of(), x=(1, 9, 7, 16), filters=24, after=("silu",)),
}


def convolution_of(conv: Conv) -> Im2colAttr:
    return find_convolution(only(regions(conv.text), KernelOp)).geometry


# Recognition -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", GEOMETRIES)
def test_the_geometry_is_read_from_the_windows(name: str) -> None:
    assert convolution_of(Conv(GEOMETRIES[name])) == GEOMETRIES[name]


def test_equal_sizes_are_equal_where_the_assumptions_hold() -> None:
    """A padded last row that no window needs: by the frontend's formula another number of rows."""
    halves = replace(of(strides=(2, 2), after=(0, 0)), assuming="H mod 2 == 0, W mod 2 == 0")
    text = halves.text.replace("(H - 2) floordiv 2 + 1", "H floordiv 2")
    assert find_convolution(only(regions(text), KernelOp)).geometry.taps == (3, 3)


def refusal(text: str | ModuleOp) -> str:
    """Why the one region of a text is no convolution."""
    module = regions(text) if isinstance(text, str) else text
    with pytest.raises(PolycError) as caught:
        find_convolution(only(module, KernelOp))
    assert caught.value.kind == "UnsupportedProgram"
    return caught.value.message


def edited(*edits: tuple[str, str]) -> ModuleOp:
    """The region of a 3x3 convolution with its text changed."""
    text = printed(regions(of().text))
    for old, new in edits:
        assert old in text, text
        text = text.replace(old, new)
    return parsed(text)


def test_channels_stand_last() -> None:
    """But where filters come first, and sizes are known."""
    module = parse_text(make_context(), replace(of(), planes=True).text, "t.mlir")
    for transform in (FrontendToTiny(), TinyToIndex(), IndexToRegion(fuse="legal")):
        transform.apply(make_context(), module)
    assert "the channels of X are not its last axis" in refusal(module)


def test_groups_are_refused() -> None:
    x, w = (
        "!region.memref<[N, H, G, C], f16, align 16>",
        "!region.memref<[G, F, 3, C], f16, align 16>",
    )
    sides = ["n: N, i1: H - 2, g: G, r0: 3, c: C", "g: G, f: F, r0: 3, c: C"]
    xs, ws = (f"!region.val<[{side}], f16>" for side in sides)
    xf, wf = (f"!region.val<[{side}], f32>" for side in sides)
    out = "n: N, i1: H - 2, g: G, f: F"
    every, done = f"!region.val<[{out}, r0: 3, c: C], f32>", f"!region.val<[{out}], f32>"
    symbols = "[s0, s1, s2, s3, s4]"
    text = f"""region.kernel @g iters [{out}] ins(%X: {x}, %W: {w})
    outs(Y: !region.memref<[N, H - 2, G, F], f32, align 16> gmem) {{
  %x = region.read %X affine_map<(n, h, g, r, c){symbols} -> (n, h + r, g, c)> : {x} -> {xs}
  %xf = region.cast %x : {xs} -> {xf}
  %xe = region.broadcast_in_dim %xf dims [0, 1, 2, 4, 5] : {xf} -> {every}
  %w = region.read %W affine_map<(g, f, r, c){symbols} -> (g, f, r, c)> : {w} -> {ws}
  %wf = region.cast %w : {ws} -> {wf}
  %we = region.broadcast_in_dim %wf dims [2, 3, 4, 5] : {wf} -> {every}
  %t = region.binary mul %xe, %we : {every}
  %acc = region.reduce sum %t over [r0, c] init 0.0 acc f32 name "acc" : {every} -> {done}
  region.yield %acc : {done}
}}"""
    message = refusal(parsed(text))
    assert "image and filter are both read along g, so that it is in groups" in message


def test_a_product_of_matrices_is_no_convolution() -> None:
    a, b, c = (f"!frontend.tensor<[{s}], f16>" for s in ("M, K", "K, N", "M, N"))
    text = f"""frontend.graph @g(%A: {a}, %B: {b}) -> (C: {c}) {{
  %0 = frontend.gemm %A, %B {{acc = f32}} : ({a}, {b}) -> {c}
  frontend.output %0 : {c}
}}"""
    assert "neither factor is read in windows" in refusal(text)


def test_symbolic_taps_are_refused() -> None:
    text = of(padding=(0, 0)).text.replace("[F, 3, 3, C]", "[F, R, 3, C]")
    text = text.replace("[N, H - 2, W - 2, F]", "[N, H - R + 1, W - 2, F]")
    assert "its filter has R taps along i1; taps and padding are numbers" in refusal(text)


def test_the_guard_is_the_image() -> None:
    """One row less than the image, or another value than 0 around it, is no loader's."""
    tight = edited(("((((d1 * -1) + (d2 * -1)) + s1) >= 0", "((((d1 * -1) + (d2 * -1)) + s1) >= 1"))
    assert "the guard of its windows is not what lies in the image" in refusal(tight)
    filled = edited(("else 0.0", "else 1.0"))
    assert "outside of the image it reads 1.0, and loaders fill in zeros" in refusal(filled)


def test_windows_begin_at_the_edge() -> None:
    moved = edited(
        ("((d1 + d2) + -1), ((d3 + d4) + -1)", "((d1 + d2) + 1), ((d3 + d4) + -1)"),
        ("((((d1 * -1) + (d2 * -1)) + s1) >= 0", "((((d1 * -1) + (d2 * -1)) + s1) >= 2"),
    )
    assert "it reads X along h from 1 on, not from its edge" in refusal(moved)


def test_the_filter_lies_tap_by_tap() -> None:
    turned = edited(("-> (d0, d1, d2, d3)>", "-> (d0, d2, d1, d3)>"))
    assert "its filter G is read as [f, r1, r0, c]" in refusal(turned)


def test_the_filter_is_read_whole() -> None:
    """What pads or joins filters reads this one under a guard: the kernel would see more of it."""
    s = Sketch("joined")
    x, w = s.input("x", "N", 9, 9, 64), s.input("w", 64, 3, 3, 64)
    y = s.add(frontend.Conv2dOp(x, w, layout="nhwc"))
    module = run(s.done(y=s.concat(3, y, s.input("z", "N", 7, 7, 64))), "region")
    first, second = find(module, KernelOp)
    assert find_convolution(first).filter_dims[0] == Dim.const(64) == first.outs.data[0].shape[3]
    assert second.outs.data[0].shape[3] == Dim.const(128)
    whole = "affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3, s4] -> (d0, d1, d2, d3)> :"
    some = "where affine_set<(d0, d1, d2, d3)[s0, s1, s2, s3, s4] : (d0 >= 0)> else 0.0 :"
    assert "it reads its filter G under a guard" in refusal(
        edited((whole, whole.replace(" :", f" {some}")))
    )


PARTS = {
    "channels of both": ((0, 40), (0, 3), (0, 40)),
    "channels that a step ends with": ((0, 64), (0, 3), (0, 64)),
    "channels of the image": ((0, 40), (0, 3), None),
    "taps of the filter": (None, (1, 4), None),
}
"""Parts of the image's channels, of taps, and of the filter's channels."""


@pytest.mark.parametrize(("depth", "refused"), [(32, False), (128, True)])
def test_steps_that_end_behind_a_part_are_refused(depth: int, refused: bool) -> None:
    """64 channels with others behind them, in steps that divide them or do not."""
    s = Sketch("part")
    image = s.cut(s.input("x", "N", 6, 6, 80), 3, 0, 64)
    made = s.done(y=s.add(frontend.Conv2dOp(image, s.input("w", 24, 3, 3, 64), layout="nhwc")))
    conv = find_convolution(only(run(made, "region", arch="sm_80"), KernelOp))
    plan = user_schedule(schedules(conv, "sm_80")[0], {"tile": [128, 64, depth], "stages": 2})
    assert ("in steps of 128" in str(fault(conv, plan))) == refused


@pytest.mark.turns(2)
@pytest.mark.parametrize(("channels", "taps", "own"), PARTS.values(), ids=PARTS)
def test_what_is_beside_a_part_changes_nothing(
    channels: tuple[int, int] | None,
    taps: tuple[int, int],
    own: tuple[int, int] | None,
) -> None:
    """An infinity beside a part stays out of its sum, and a filter's part is no view of it."""
    size = 40 if channels is None else channels[1]
    s = Sketch("parts")
    x = s.input("x", "N", 6, 6, 80 if channels else size)
    w = s.input("w", 24, 5, 3, 80 if own else size)
    image = s.cut(x, 3, *channels) if channels else x
    filter = s.cut(w, 1, *taps)
    filter = s.cut(filter, 3, *own) if own else filter
    module = s.done(y=s.add(frontend.Conv2dOp(image, filter, layout="nhwc")))
    sizes = {"N": 1}
    inputs = make_inputs(only(module, frontend.GraphOp), sizes, 4)
    wanted = meant(module, inputs, sizes)
    inputs[0][..., size:] = np.inf
    beside = np.ones(5, bool)
    beside[slice(*taps)] = False
    inputs[1][:, beside] = np.inf
    inputs[1][..., size:] = np.inf
    for arch in ARCHS:
        kernels = gpu_module_of(run(module, "gpu", arch=arch))
        result = simulate(kernels, inputs, sizes)
        assert not result.findings
        assert_agree(result.outputs, wanted)


def test_an_epilogue_goes_pixel_by_pixel() -> None:
    scaled = replace(of(), more=((("N", 1, 1, "F"), "mul"),))
    assert "its epilogue reads x0 at" in refusal(scaled.text)
    rowwise = replace(of(), more=((("H", 1, "F"), "add"),))
    assert "not pixel by pixel" in refusal(rowwise.text)


# Values ----------------------------------------------------------------------------------


def known(conv: Conv, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes that a program has symbols for."""
    names = {s for dim in (*conv.x, conv.filters) for s in Dim.of(dim).symbols()}
    return {name: size for name, size in sizes.items() if name in names}


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_variant_agrees_with_the_region(name: str, arch: str) -> None:
    conv = replace(Conv(GEOMETRIES[name]), after=("silu",))
    whole, *others = [len(assert_tiles_agree(conv.text, arch, sizes)) for sizes in SIZES]
    assert others == [2, 1] and whole >= 3


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("conv", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues_agree_with_the_region(conv: Conv, arch: str) -> None:
    for sizes in SIZES[::2]:
        assert assert_tiles_agree(conv.text, arch, known(conv, sizes))


@st.composite
def geometries(draw: st.DrawFn) -> Im2colAttr:
    """A filter with any strides, dilation, and padding before and after."""

    def pair(low: int, high: int) -> list[int]:
        return [draw(st.integers(low, high)) for _ in range(2)]

    return Im2colAttr.of(pair(1, 4), pair(1, 3), pair(0, 3), pair(1, 2), pair(0, 3))


@settings(max_examples=examples(12), deadline=None)
@given(geometries(), st.sampled_from(ARCHS), st.sampled_from([1, 2, 8]), st.data())
def test_any_geometry_agrees_with_the_region(
    geometry: Im2colAttr, arch: str, step: int, data: st.DataObject
) -> None:
    conv = Conv(geometry)
    found = convolution_of(conv)
    assert found == geometry
    spans = [(t - 1) * d + 1 for t, d in zip(geometry.taps, geometry.dilations, strict=True)]
    sizes = {"N": data.draw(st.integers(1, 3))}
    sizes |= {n: data.draw(st.integers(span, 12)) for n, span in zip("HW", spans, strict=True)}
    sizes |= {name: step * data.draw(st.integers(1, 136 // step)) for name in "CF"}
    assert assert_tiles_agree(conv.text, arch, sizes)


CHAIN = """frontend.graph @g(%X: {x}, %A: {a}, %B: {b}) -> (Y: {y}) {{
  %0 = frontend.conv2d nhwc %X, %A stride [1, 1] {rest} : ({x}, {a}) -> {m}
  %1 = frontend.elementwise relu %0 : {m}
  %2 = frontend.conv2d nhwc %1, %B stride [2, 2] {rest} : ({m}, {b}) -> {y}
  frontend.output %2 : {y}
}}"""


@pytest.mark.parametrize("arch", ARCHS)
def test_a_convolution_of_a_convolution(arch: str) -> None:
    """What is between them is a matrix of pixels to the first, and an image to the second."""
    shapes = {
        "x": ("N", "H", "W", "C"),
        "a": ("F", 3, 3, "C"),
        "m": ("N", "H", "W", "F"),
        "b": ("G", 3, 3, "F"),
        "y": ("N", "(H + 1) floordiv 2", "(W + 1) floordiv 2", "G"),
    }
    text = CHAIN.format(
        rest="padding [1, 1, 1, 1] dilation [1, 1] groups 1 {acc = f32}",
        **{name: tensor(shape) for name, shape in shapes.items()},
    )
    assert assert_tiles_agree(text, arch, {"N": 2, "H": 9, "W": 8, "C": 8, "F": 16, "G": 24})


@pytest.mark.parametrize("arch", ARCHS)
def test_stored_columns_agree_with_the_implicit_gemm(arch: str) -> None:
    """The other way of computing it: a kernel that stores the columns, and a gemm of them."""
    conv = replace(of(strides=(2, 1)), after=("silu",))
    implicit = regions(conv.text)
    apart = implicit.clone()
    assert rewrite(apart, [MaterializeColumns("all")])
    for sizes in SIZES:
        inputs = inputs_of(implicit, sizes)
        one, other = (
            tile.run(tiles(module, arch), inputs, sizes)[0] for module in (implicit, apart)
        )
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_images_of_nothing_are_zeros() -> None:
    """Without channels, and of no rows at all but those of the padding."""
    wide = Conv(Im2colAttr.of([3, 3], [1, 1], [2, 2]))
    module = regions(wide.text)
    for sizes in (
        {"N": 1, "H": 4, "W": 5, "C": 0, "F": 8},
        {"N": 1, "H": 0, "W": 5, "C": 8, "F": 8},
    ):
        for arch in ARCHS:
            kernels = tiles(module, arch)
            ran = runnable(kernels, sizes)
            assert ran and not any("tma" in name for name in ran)
            for variant in ran:
                (found,) = tile.run(kernels, inputs_of(module, sizes), sizes, variant)
                assert found.size and not np.asarray(found).any()


def unbounded(kernels: gpu.ModuleOp) -> gpu.ModuleOp:
    """Kernels for few pixels and filters too, for which they would be too large."""
    for launch in kernels.dispatch().launches():
        facts = [fact for fact in launch.when.data if len(fact.expr.symbols()) == 1]
        wide = Assumption(Dim.sym("F").mod(8), "==")
        facts = [wide if fact.expr == Dim.sym("F").mod(256) else fact for fact in facts]
        launch.properties["when"] = AssumptionsAttr(tuple(dict.fromkeys(facts)))
    return kernels


def test_large_tiles_agree_with_the_region() -> None:
    module = regions(replace(of(), after=("silu",)).text)
    kernels = unbounded(tiles(module, "sm_90a"))
    sizes = {"N": 3, "H": 9, "W": 11, "C": 72, "F": 264}
    inputs = inputs_of(module, sizes)
    wanted = play(module, "g", inputs, sizes)
    assert wanted is not None
    ran = [v for v in runnable(kernels, sizes) if "tma" in v]
    assert {"g_tma", "g_tma_small"} < set(ran) and any("split" in v for v in ran)
    for variant in ran:
        (found,) = tile.run(kernels, inputs, sizes, variant)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted[0]))


SIMULATED = {
    "strided": replace(of(strides=(2, 2)), after=("silu",)),
    "lopsided": Conv(GEOMETRIES["lopsided"], more=((("F",), "add"),)),
    "residual": replace(of(), more=((("N", "H", "W", "F"), "add"),), out="f32"),
    "pointwise": Conv(GEOMETRIES["pointwise"]),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "arch"),
    # In turn, and one on both.
    [(name, ("sm_90a", "sm_80")[i % 2]) for i, name in enumerate(SIMULATED)]
    + [("strided", "sm_80")],
)
def test_kernels_on_the_simulator(name: str, arch: str) -> None:
    """No findings of the hardware's rules, and the region's values."""
    module = regions(SIMULATED[name].text)
    kernels = finished(unbounded(tiles(module, arch)))
    for sizes, least in (
        ({"N": 2, "H": 9, "W": 7, "C": 16, "F": 24}, 3),
        ({"N": 1, "H": 5, "W": 6, "C": 3, "F": 5}, 1),
    ):
        inputs = inputs_of(module, sizes)
        wanted = play(module, "g", inputs, sizes)
        assert wanted is not None
        ran = runnable(kernels, sizes)
        assert len(ran) >= least
        for variant in ran:
            result = simulate(
                kernels, inputs, sizes, variant, schedule="random", completion="random", seed=1
            )
            result.check()
            np.testing.assert_array_equal(result.outputs[0], np.asarray(wanted[0]))


# Plans -----------------------------------------------------------------------------------


def variants(conv: Conv, arch: str) -> list[str]:
    module = regions(conv.text)
    build("plan-select", arch).apply(make_context(), module)
    return [op.variant.data for op in find(module, ScheduleOp)]


def test_a_filter_that_no_descriptor_moves_as_is_gathered() -> None:
    """TMA steps by 8 at most, and pads by 128."""
    gathers = ["cp_async16", "cp_async4", "scalar"]
    assert variants(of(strides=(9, 1)), "sm_90a") == gathers
    found = variants(of(strides=(8, 1)), "sm_90a")
    assert found[-5:] == ["tma_small", "tma", "tma_singly", *gathers[1:]]


def test_what_the_assumptions_settle_is_not_asked() -> None:
    conv = replace(of(), x=(4, 64, 64, 64), filters=256)
    _, best = ranking.ranked(
        (1, 4 * 64 * 64, 256, 64),
        "sm_90a",
        ranking.Form(taps=9, alone=True, rates=CONV_RATES, stored=Stored(along=False)),
    )[0]
    assert variants(conv, "sm_90a") == [best.name]
    assert variants(conv, "sm_80") == ["cp_async16"]


def test_every_tensor_counts_where_addresses_are_promised() -> None:
    """A bias that may lie anywhere leaves a variant for it, whatever the operands promise."""
    conv = replace(of(), x=(4, 64, 64, 64), filters=256, more=(((256,), "add"),))
    module = regions(conv.text)
    text = printed(module).replace("[256], f16, align 16", "[256], f16, align 2")
    loose = parsed(text)
    build("plan-select", "sm_80").apply(make_context(), loose)
    found = [op.variant.data for op in find(loose, ScheduleOp)]
    assert found == ["cp_async16", "cp_async4", "scalar"]


def test_a_wide_tile_has_no_registers_for_a_residual() -> None:
    residual = replace(of(), more=((("N", "H", "W", "F"), "add"),))
    found = find_convolution(only(regions(residual.text), KernelOp))
    plans = schedules(found, "sm_90a")
    assert plans and all(plan.tile_sizes[1] <= ranking.CROWDED_COLUMNS for plan in plans)


def test_what_no_implicit_gemm_takes_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Loops take it, and the reason is the convolution's own, not that it is no product."""
    scaled = replace(of(), more=((("N", 1, 1, "F"), "mul"),))
    assert variants(scaled, "sm_80")[-2:] == ["vector", "scalar"]
    assert "its epilogue reads x0 at" in capsys.readouterr().err


def scheduled(arch: str, *edits: tuple[str, str]) -> str:
    """The region of a 3x3 convolution and its schedules, with their text changed."""
    module = regions(of().text)
    build("plan-select", arch).apply(make_context(), module)
    text = printed(module)
    for old, new in edits:
        assert old in text, text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize(
    ("arch", "edits", "message"),
    [
        (
            "sm_80",
            [('"conv" = "implicit_gemm"', '"conv" = "im2col"')],
            "plan 'cp_async16' stores the columns of the image first; run region-im2col, and "
            "plan-select again",
        ),
        (
            "sm_90a",
            [("cluster = [1, 1]", "cluster = [2, 1]")],
            "plan 'tma_64x64_parts8_by3' asks for a split_k that takes the CTAs of a cluster for "
            "itself; use it with cluster [1, 1]",
        ),
        (
            "sm_80",
            [('tensorize = "acc"', 'tensorize = "sum"')],
            "the plan tensorizes 'sum' and the region reduces 'acc'",
        ),
    ],
    ids=["im2col", "cluster", "tensorize"],
)
def test_plans_that_are_not_built_are_refused(
    arch: str, edits: Sequence[tuple[str, str]], message: str
) -> None:
    text = scheduled(arch, *edits)
    kind = "UnsupportedPlan" if "tensorize" in message or "asks for" in message else "BadPlan"
    assert_refused(text, kind, message, "plan.schedule", "region-to-gpu")


def test_a_ring_of_another_depth_is_refused() -> None:
    error = refused(scheduled("sm_80", ('"depth" = 3', '"depth" = 4')), "region-to-gpu")
    assert error.kind == "BadPlan" and error.message.startswith(
        'plan \'cp_async16\' says local_edges [{"from": "X", "to": "acc", "buffer": "smem_ring", '
        '"depth": 4}'
    )


# CUDA ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "arch"), [("silu", "sm_90a"), ("bias and residual", "sm_80")])
def test_kernels_compile_without_a_spill(
    name: str, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYC_CACHE", "0")
    kernels = finished(tiles(regions(EPILOGUES[name].text), arch))
    result = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert not result.warnings()
    made = find(kernels, gpu_kernel.KernelOp)
    assert len(result.kernels) == len(made) >= 3
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel


# Few channels ------------------------------------------------------------------------------


@pytest.mark.parametrize(("channels", "depth"), [(16, 16), (24, 32), (32, 32), (40, 64)])
def test_a_tile_is_no_deeper_than_the_channels(channels: int, depth: int) -> None:
    """A step has the channels of one tap: beyond them it would multiply zeros."""
    conv = replace(of(), x=("N", "H", "W", channels), filters=64)
    found = find_convolution(only(regions(conv.text), KernelOp))
    plans = [plan for plan in schedules(found, "sm_90a") if plan.loader.data == "tma"]
    assert plans and {plan.tile_sizes[2] for plan in plans} == {depth}
    assert all(2 <= plan.integer("stages") <= 8 for plan in plans)


def test_few_filters_have_a_narrow_tile() -> None:
    """So many as a tile of 64 holds are known; the kernel agrees, with pixels and filters left."""
    conv = replace(of(), x=("N", "H", "W", 16), filters=40, after=("silu",))
    first, *_ = variants(conv, "sm_90a")
    assert "x64x16_once" in first
    module, sizes = regions(conv.text), {"N": 2, "H": 11, "W": 9}
    kernels = finished(unbounded(tiles(module, "sm_90a")))
    inputs = inputs_of(module, sizes)
    wanted = play(module, "g", inputs, sizes)
    assert wanted is not None
    result = simulate(kernels, inputs, sizes, f"g_{first}", schedule="random", seed=2)
    result.check()
    np.testing.assert_array_equal(result.outputs[0], np.asarray(wanted[0]))
