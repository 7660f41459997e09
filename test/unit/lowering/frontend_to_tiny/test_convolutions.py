"""Convolutions along one axis and three: what they mean, at every layer, and on which kernels."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.common.precision import TF32
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import LowerGraph
from polyc.lowering.frontend_to_tiny.convolutions import LowerConv
from polyc.playback.frontend import run
from polyc.playback.functions import dtype_of
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import rewrite
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of

KINDS = {1: frontend.Conv1dOp, 3: frontend.Conv3dOp}


def of(
    kind: type[frontend.ConvOp],
    x: tuple[int | str, ...],
    w: tuple[int | str, ...],
    element: Attribute = f16,
    **how: Any,
) -> ModuleOp:
    s = Sketch("conv", element)
    return s.done(y=s.add(kind(s.input("x", *x), s.input("w", *w), **how)))


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(3))
def test_all_layers_agree_on_random_ones(part: int) -> None:
    for number in range(2):
        dice = random.Random(f"conv {part} {number}")
        sizes = {s: dice.choice((0, 1, 2, 3, 4, 5)) for s in "MNK"}
        maker = Maker(dice, sizes)
        maker.values.append(maker.conv(maker.values[0]))
        program = RandomProgram(maker.closed(), sizes)
        assert layers.failure(program, dice.randrange(100)) is None, f"{part} {number}"


@pytest.mark.parametrize("count", KINDS)
def test_each_element_is_a_sum_over_taps_and_channels(count: int) -> None:
    """By the definition, an element after another."""
    dice = np.random.default_rng(count)
    sides, taps = (5, 4, 6)[:count], (3, 2, 2)[:count]
    stride, dilation, low = (2, 1, 1)[:count], (1, 2, 1)[:count], (1, 0, 2)[:count]
    x = dice.integers(-4, 5, (1, 4, *sides)).astype(np.float32)
    w = dice.integers(-4, 5, (6, 2, *taps)).astype(np.float32)
    how = {"stride": stride, "dilation": dilation, "padding": [p for p in low for _ in range(2)]}
    module = of(KINDS[count], x.shape, w.shape, f32, groups=2, **how)
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    found = run(graph, [x, w], {})[0]
    wanted = np.zeros(found.shape, np.float32)
    for n, f, *place in np.ndindex(*found.shape):
        for c, *tap in product(range(2), *map(range, taps)):
            at = [
                s * o + d * r - p
                for s, o, d, r, p in zip(stride, place, dilation, tap, low, strict=True)
            ]
            if all(0 <= i < size for i, size in zip(at, sides, strict=True)):
                wanted[(n, f, *place)] += x[(n, f // 3 * 2 + c, *at)] * w[(f, c, *tap)]
    np.testing.assert_array_equal(found, wanted)


def test_taps_along_the_depth_are_channels_of_each_plane() -> None:
    x, w = ("N", 5, 6, 7, 8), (16, 3, 2, 2, 8)
    module = of(frontend.Conv3dOp, x, w, layout="ndhwc", padding=[1, 1, 0, 0, 0, 0])
    rewrite(module, [LowerGraph()])
    assert rewrite(module, [LowerConv()])
    windows = [op for op in module.walk() if isinstance(op, tiny.WindowOp)]
    assert [op.axes for op in windows] == [(1,), (1, 2)]
    assert str(tiny.tensor_of(windows[1].operand).shape) == "#polyc.shape<[5 * N, 6, 7, 24]>"


WHOLE: list[tuple[type[frontend.ConvOp], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (frontend.Conv1dOp, (8, 256, 64), (128, 3, 64), {"layout": "nwc", "padding": [1, 1]}),
    (frontend.Conv1dOp, (8, 64, 256), (128, 64, 3), {"layout": "ncw", "padding": [1, 1]}),
    (frontend.Conv3dOp, (2, 8, 16, 16, 64), (64, 3, 3, 3, 64), {"layout": "ndhwc"}),
    (frontend.Conv3dOp, (2, 64, 8, 16, 16), (64, 64, 1, 3, 3), {"layout": "ncdhw"}),
]


@pytest.mark.parametrize(("kind", "x", "w", "how"), WHOLE)
def test_tensor_cores_compute_them(
    kind: type[frontend.ConvOp], x: tuple[int, ...], w: tuple[int, ...], how: dict[str, Any]
) -> None:
    found = lowered(of(kind, x, w, **how), "sm_90a", "plan")
    plans = [op for op in found.walk() if isinstance(op, ScheduleOp)]
    assert sum("wgmma" in str(plan.fields()["mma"]) for plan in plans) == 1


def test_a_line_is_read_and_written_where_it_lies() -> None:
    kind, x, w, how = WHOLE[0]
    found = lowered(of(kind, x, w, **how), "sm_90a", "region")
    kernels = [op for op in found.walk() if isinstance(op, KernelOp)]
    assert [len(kernel.seen) for kernel in kernels] == [3]
    # Of planes there is one copy with a plane for each tap, and one of the filters.
    kind, x, w, how = WHOLE[2]
    found = lowered(of(kind, x, w, **how), "sm_90a", "region")
    kernels = [op for op in found.walk() if isinstance(op, KernelOp)]
    assert len(kernels) == 3


@pytest.mark.parametrize(
    ("kind", "x", "w", "how"),
    [
        (frontend.Conv1dOp, (1, 20, 16), (16, 3, 16), {"layout": "nwc", "padding": [1, 1]}),
        (frontend.Conv3dOp, (1, 16, 3, 4, 4), (16, 16, 2, 2, 1), {"padding": [1, 0, 0, 1, 0, 0]}),
    ],
)
def test_kernels_compute_what_the_graph_means(
    kind: type[frontend.ConvOp], x: tuple[int, ...], w: tuple[int, ...], how: dict[str, Any]
) -> None:
    module = of(kind, x, w, **how)
    inputs, wanted = wanted_of(module, {})
    result = simulate(gpu_module_of(lowered(module, "sm_80", "gpu")), inputs, {})
    result.check()
    assert_agree(result.outputs, wanted)


UNEVEN: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "planes": ((2, 48, 20, 21), (48, 24, 3, 3), {"padding": [1, 1, 1, 1], "groups": 2}),
    "channels last": ((3, 17, 18, 48), (34, 2, 3, 24), {"layout": "nhwc", "groups": 2}),
    "a step": ((2, 32, 41, 41), (40, 16, 3, 2), {"stride": [2, 2], "groups": 2}),
    "dilated": ((2, 40, 18, 31), (64, 20, 3, 3), {"dilation": [2, 1], "groups": 2}),
}


def uneven(name: str, element: Attribute = f16) -> ModuleOp:
    """A convolution in groups, of which filters or channels are no multiples of 16; one of f32 may
    be rounded to TF32."""
    x, w, how = UNEVEN[name]
    module = of(frontend.Conv2dOp, x, w, element, **how)
    if element == f32:
        for op in module.walk():
            if isinstance(op, frontend.ConvOp):
                op.properties["precision"] = StringAttr(TF32)
    return module


@pytest.mark.turns(4)
@pytest.mark.parametrize("element", [f16, f32], ids=str)
@pytest.mark.parametrize("name", UNEVEN)
def test_groups_get_zeros_up_to_whole_tiles(name: str, element: Attribute) -> None:
    """Fires: windows go over a padded image, and are no tensor of their own; a group's infinities
    and NaNs stay in it."""
    module = uneven(name, element)
    dice = np.random.default_rng(len(name))
    image, filters = (dice.integers(-3, 4, s).astype(dtype_of(element)) for s in UNEVEN[name][:2])
    image[0, 1, 1] = np.inf
    image[0, 3, 3] = np.nan
    wanted = run(only(module, frontend.GraphOp), [image, filters], {})
    assert np.isnan(wanted[0]).any() and np.isfinite(wanted[0]).any()
    done = module.clone()
    rewrite(done, [LowerGraph()])
    assert rewrite(done, [LowerConv()])
    image_pads = [op for op in find(done, tiny.PadOp) if tiny.tensor_of(op.operand).rank == 5]
    assert image_pads
    found = lowered(module, "sm_90a", "plan")
    plans = {op.region.string_value(): op for op in find(found, ScheduleOp)}
    assert [(str(op.pattern), op.mma.data) for op in plans.values()].count(("conv", "wgmma")) == 1
    result = simulate(gpu_module_of(lowered(module, "sm_90a", "gpu")), [image, filters], {})
    result.check()
    assert_agree(result.outputs, wanted)


@pytest.mark.parametrize(("each", "tile"), [(48, 64), (112, 128), (16, 16)])
def test_tiles_of_groups_are_those_of_the_space_where_zeros_are_few(each: int, tile: int) -> None:
    module = of(
        frontend.Conv2dOp, (32, 2 * each, 28, 28), (2 * each, each, 3, 3), groups=2, padding=[1] * 4
    )
    plans = find(lowered(module, "sm_90a", "plan"), ScheduleOp)
    assert {plan.tile_sizes[1] for plan in plans if plan.mma.data == "wgmma"} == {tile}


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        ((1, 48, 6, 7), (48, 24, 1, 1), {"groups": 2}),  # products of each group as it lies
        ((1, 64, 6, 7), (64, 32, 3, 3), {"groups": 2}),  # whole already
        ((1, 16, 6, 7), (48, 8, 3, 3), {"groups": 2}),  # smaller than a step
        ((1, 32, 6, 7), (32, 16, 3, 3), {"groups": 2}),  # as many zeros
        ((1, 48, 6, 7), (48, 24, 3, 3), {"groups": 2, "element": f32}),
    ],
)
def test_other_groups_get_no_zeros(
    x: tuple[int | str, ...], w: tuple[int | str, ...], how: dict[str, Any]
) -> None:
    """Refuses."""
    module = of(frontend.Conv2dOp, x, w, **how)
    rewrite(module, [LowerGraph()])
    assert rewrite(module, [LowerConv()])
    assert not find(module, tiny.PadOp)
