"""Convolutions of few planes: a product's depth is all points of a window."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv import variants
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.passes.pipeline import STAGES, build
from polyc.playback import tile
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import verify
from polyc.runtime import nvrtc
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

Pair = tuple[int, int]


@dataclass(frozen=True)
class Few:
    """A convolution in NCHW of few channels."""

    images: int
    channels: int
    sizes: Pair
    filters: int
    taps: Pair = (3, 3)
    steps: Pair = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    dilation: Pair = (1, 1)
    element: str = "f16"
    relu: bool = False

    @property
    def made(self) -> Pair:
        (top, bottom, left, right), (h, w) = self.padding, self.sizes
        whole = (h + top + bottom, w + left + right)
        rows, columns = (
            (size - d * (t - 1) - 1) // s + 1
            for size, t, s, d in zip(whole, self.taps, self.steps, self.dilation, strict=True)
        )
        return rows, columns

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [
            (self.images, self.channels, *self.sizes),
            (self.filters, self.channels, *self.taps),
            (self.images, self.filters, *self.made),
        ]

    @property
    def text(self) -> str:
        x, w, y = (
            f"!frontend.tensor<[{', '.join(map(str, shape))}], {self.element}>"
            for shape in self.shapes
        )
        moves = f"stride {list(self.steps)} padding {list(self.padding)}"
        moves += f" dilation {list(self.dilation)} groups 1 {{acc = f32}}"
        after = f"  %1 = frontend.elementwise relu %0 : {y}\n" if self.relu else ""
        return f"""frontend.graph @g(%X: {x}, %F: {w}) -> (Y: {y}) {{
  %0 = frontend.conv2d nchw %X, %F {moves} : ({x}, {w}) -> {y}
{after}  frontend.output %{int(self.relu)} : {y}
}}
"""

    @staticmethod
    def drawn(seed: int) -> Few:
        draw = random.Random(seed)

        def pair(low: int, high: int) -> Pair:
            return draw.randint(low, high), draw.randint(low, high)

        steps = pair(1, 3)
        taps = (draw.randint(1, steps[0] + steps[0] // 2), draw.randint(2, 5))
        pads = tuple(draw.randint(0, 2) for _ in range(4))
        assert len(pads) == 4
        moves = (steps, pads, pair(1, 2))
        return Few(draw.randint(1, 3), draw.randint(2, 7), pair(50, 70), 136, taps, *moves)


def inputs_of(few: Few) -> list[Any]:
    """Small whole numbers."""
    rng = np.random.default_rng(few.filters)
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[few.element]
    return [rng.integers(-2, 3, shape).astype(kind) for shape in few.shapes[:2]]


def direct(few: Few, x: Any, w: Any) -> Any:
    """The convolution tap by tap."""
    top, bottom, left, right = few.padding
    wide = np.pad(x.astype(np.float32), ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows, columns = few.made
    found = np.zeros(few.shapes[2], np.float32)
    for r in range(few.taps[0]):
        for s in range(few.taps[1]):
            seen = wide[:, :, r * few.dilation[0] :, s * few.dilation[1] :]
            seen = seen[:, :, :: few.steps[0], :: few.steps[1]][:, :, :rows, :columns]
            found += np.einsum("ncpq,fc->nfpq", seen, w[:, :, r, s].astype(np.float32))
    return (np.maximum(found, 0) if few.relu else found).astype(x.dtype)


CASES = {
    "three planes, every second pixel": Few(2, 3, (29, 46), 72, steps=(2, 2)),
    "patches of one image": Few(1, 3, (41, 53), 200, (4, 4), (4, 4), (0, 0, 0, 0)),
    "far apart": Few(2, 4, (29, 19), 72, (3, 2), (1, 2), (1, 1, 0, 0), (1, 2), relu=True),
    "one plane of bf16": Few(2, 1, (24, 27), 136, (4, 5), (3, 1), (2, 2, 2, 2), element="bf16"),
    "one row of taps": Few(2, 7, (9, 40), 136, (1, 5), padding=(0, 0, 2, 1)),
}


def planned(few: Few, arch: str = "sm_90a") -> ModuleOp:
    ctx = make_context()
    module = parse_text(ctx, few.text, "t.mlir")
    for stage in ("tiny", "index", "region", "plan"):
        for name in STAGES[stage]:
            build(name, arch).apply(ctx, module)
        verify(module)
    return module


def of_windows(module: ModuleOp) -> KernelOp:
    """The region of the windows."""
    (plan,) = (o for o in module.walk() if isinstance(o, ScheduleOp) and o.pattern == "conv")
    assert plan.loader.data == "gather"
    regions = [o for o in module.walk() if isinstance(o, KernelOp)]
    names = {f"{one.sym_name.data}_{plan.variant.data}": one for one in regions}
    return names[plan.kernel_name]


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_agree_with_a_direct_evaluation(name: str) -> None:
    """In tiles and in threads, without a race."""
    few = CASES[name]
    module = planned(few)
    assert find_convolution(of_windows(module)).whole
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    kernels = gpu_module_of(module)
    inputs = inputs_of(few)
    wanted = direct(few, *inputs)
    np.testing.assert_array_equal(np.asarray(tile.run(kernels, inputs, {})[0]), wanted)
    found = simulate(finished(kernels), inputs, {}, schedule="random", completion="random")
    found.check()
    np.testing.assert_array_equal(np.asarray(found.outputs[0]), wanted)


@pytest.mark.turns(1)
@pytest.mark.parametrize("seed", range(6))
def test_any_window_agrees_in_tiles(seed: int) -> None:
    few = Few.drawn(seed)
    module = planned(few)
    conv = find_convolution(of_windows(module))
    moves = (few.taps, few.steps, few.padding[::2])
    apart = [d if t > 1 else 1 for d, t in zip(few.dilation, few.taps, strict=True)]
    assert conv.geometry == Im2colAttr.of(*moves, apart, conv.geometry.pads_after)
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    inputs = inputs_of(few)
    found = tile.run(gpu_module_of(module), inputs, {})[0]
    np.testing.assert_array_equal(np.asarray(found), direct(few, *inputs))


def test_threads_of_sm_80_simulate() -> None:
    few = CASES["three planes, every second pixel"]
    module = planned(few, "sm_80")
    assert find_convolution(of_windows(module)).whole
    build("region-to-gpu", "sm_80").apply(make_context(), module)
    inputs = inputs_of(few)
    found = simulate(finished(gpu_module_of(module)), inputs, {})
    found.check()
    np.testing.assert_array_equal(np.asarray(found.outputs[0]), direct(few, *inputs))


@pytest.mark.parametrize("filters", [16, 24])
def test_few_filters_are_rows_of_warps(filters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warp has 16 filters, where a warpgroup's 64 would be mostly empty."""
    few = Few(2, 3, (62, 66), filters, steps=(2, 2))
    monkeypatch.setattr(variants, "FEW_TILES", 0)
    module = planned(few)
    (plan,) = (o for o in module.walk() if isinstance(o, ScheduleOp) and o.pattern == "conv")
    assert plan.variant.data == "gather_few" and plan.mma.data == "mma.sync"
    assert plan.tile_sizes == (16 if filters == 16 else 32, 128, 32)
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    inputs = inputs_of(few)
    found = simulate(finished(gpu_module_of(module)), inputs, {})
    found.check()
    np.testing.assert_array_equal(np.asarray(found.outputs[0]), direct(few, *inputs))


STEM = Few(32, 3, (224, 224), 16, steps=(2, 2))


@pytest.mark.parametrize(
    ("few", "chosen"),
    [
        (STEM, True),
        (replace(STEM, images=1), False),
        (replace(STEM, filters=40), False),
        (replace(STEM, taps=(5, 5), padding=(2, 2, 2, 2)), False),
    ],
    ids=["16 filters", "few tiles", "more filters", "two steps"],
)
def test_where_few_filters_are(few: Few, chosen: bool) -> None:
    """As was timed: where there are many tiles of one step."""
    plans = [o for o in planned(few).walk() if isinstance(o, ScheduleOp) and o.pattern == "conv"]
    assert [plan.variant.data == "gather_few" for plan in plans] == [chosen]


@pytest.mark.parametrize(
    "few",
    [
        replace(CASES["far apart"], channels=16),
        replace(CASES["far apart"], filters=6),
        replace(CASES["far apart"], filters=512),
        replace(CASES["far apart"], channels=15, taps=(5, 5), padding=(2, 2, 2, 2)),
    ],
    ids=["many channels", "few filters", "many filters", "many points"],
)
def test_others_are_read_as_before(few: Few) -> None:
    plans = [op for op in planned(few).walk() if isinstance(op, ScheduleOp)]
    assert not [plan for plan in plans if plan.gathers and plan.pattern == "conv"]


CORRUPTED = {
    "a plane too few": ("d1 floordiv 9)", "d1 floordiv 18)"),
    "a step of three": ("d2 * 2", "d2 * 3"),
    "a bound that is not the image's": ("(d1 * -1) + 26) >= 0", "(d1 * -1) + 25) >= 0"),
}


@pytest.mark.parametrize("name", CORRUPTED)
def test_other_windows_are_refused(name: str) -> None:
    """A region of the same shape that reads something else is no such convolution."""
    region = of_windows(planned(CASES["three planes, every second pixel"]))
    old, new = CORRUPTED[name]
    text = str(region)
    assert old in text
    changed = parse_text(make_context(), text.replace(old, new), "t.mlir")
    kernel = next(op for op in changed.walk() if isinstance(op, KernelOp))
    assert "error" in str(CONV.attempt(kernel, "sm_90a"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("few", [STEM, Few(32, 3, (224, 224), 64, (7, 7), (2, 2), (3, 3, 3, 3))])
def test_they_spill_nothing(few: Few, arch: str) -> None:
    module = planned(few, arch)
    build("region-to-gpu", arch).apply(make_context(), module)
    for result in nvrtc.compile_each(cuda_units(finished(gpu_module_of(module))), arch):
        spilled = {name: info.spill_bytes for name, info in result.kernels.items()}
        assert set(spilled.values()) <= {0}, (spilled, nvrtc.version())


def test_what_is_around_them_agrees_too() -> None:
    """An image that is computed, a bias and a residual; what follows reads planes."""
    x, w, y = (
        f"!frontend.tensor<[{', '.join(map(str, shape))}], f16>"
        for shape in ((2, 3, 30, 34), (72, 3, 3, 3), (2, 72, 15, 17))
    )
    one, bias = "!frontend.tensor<[3, 1, 1], f16>", "!frontend.tensor<[72, 1, 1], f16>"
    next_w, z = "!frontend.tensor<[64, 72, 1, 1], f16>", "!frontend.tensor<[2, 64, 15, 17], f16>"
    moves = "dilation [1, 1] groups 1 {acc = f32}"
    given = f"%X: {x}, %S: {one}, %F: {w}, %B: {bias}, %R: {y}, %G: {next_w}"
    text = f"""frontend.graph @g({given}) -> (Z: {z}) {{
  %0 = frontend.elementwise mul %X, %S : ({x}, {one}) -> {x}
  %1 = frontend.conv2d nchw %0, %F stride [2, 2] padding [1, 1, 1, 1] {moves} : ({x}, {w}) -> {y}
  %2 = frontend.elementwise add %1, %B : ({y}, {bias}) -> {y}
  %3 = frontend.elementwise add %2, %R : ({y}, {y}) -> {y}
  %4 = frontend.elementwise relu %3 : {y}
  %5 = frontend.conv2d nchw %4, %G stride [1, 1] padding {[0] * 4} {moves} : ({y}, {next_w}) -> {z}
  frontend.output %5 : {z}
}}
"""
    ctx = make_context()
    graph = parse_text(ctx, text, "t.mlir")
    module = parse_text(ctx, text, "t.mlir")
    for stage in ("tiny", "index", "region", "plan"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(ctx, module)
        verify(module)
    assert find_convolution(of_windows(module)).whole
    rng = np.random.default_rng(1)
    shapes = ((2, 3, 30, 34), (3, 1, 1), (72, 3, 3, 3), (72, 1, 1), (2, 72, 15, 17), (64, 72, 1, 1))
    inputs: list[Any] = [rng.integers(-2, 3, shape).astype(np.float16) for shape in shapes]
    wanted = play(graph, "g", inputs, {})
    assert wanted is not None
    build("region-to-gpu", "sm_90a").apply(ctx, module)
    (found,) = tile.run(gpu_module_of(module), inputs, {})
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted[0]))
