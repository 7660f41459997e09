"""Transposed convolutions: how an axis comes apart, what they mean, and on which kernels."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.frontend_to_tiny.transposed import side_of
from polyc.playback.frontend import run
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of

KINDS = {
    1: frontend.ConvTranspose1dOp,
    2: frontend.ConvTranspose2dOp,
    3: frontend.ConvTranspose3dOp,
}


def of(
    count: int, x: tuple[int, ...], w: tuple[int, ...], element: Attribute = f16, **how: Any
) -> ModuleOp:
    s = Sketch("up", element)
    return s.done(y=s.add(KINDS[count](s.input("x", *x), s.input("w", *w), **how)))


def test_each_tap_is_in_one_phase_and_reads_where_it_should() -> None:
    for taps, stride, low, high, more, dilation in product(
        (1, 2, 3, 4, 5), (1, 2, 3), (0, 1, 3), (0, 1), (0, 1), (1, 2, 3)
    ):
        side = side_of(taps, stride, low, high, more, dilation)
        seen: list[int] = []
        for group in side.phases:
            for j, t in product(range(group.count), range(group.taps)):
                tap = group.tap + j + group.step * t
                seen.append(tap)
                # Place stride * q + phase of what is not cut reads the image at a whole place.
                read = group.shift + group.spread * t
                assert dilation * tap == stride * read + group.first + j
        assert sorted(seen) == list(range(taps))
        # What is computed has all of the result, which begins at the low end's cut.
        size = 6
        length = (size - 1) * stride - low - high + dilation * (taps - 1) + more + 1
        assert side.stride * side.start + side.cut == low
        assert side.cut + length <= (size + side.more) * stride < side.cut + length + stride


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("count", KINDS)
def test_each_element_of_the_image_is_spread_over_the_result(count: int, layout: int) -> None:
    """By the definition of a gradient, an element after another."""
    dice = np.random.default_rng(count)
    sides, taps = (4, 3, 3)[:count], (3, 4, 2)[:count]
    stride, dilation = (2, 2, 1)[:count], (2, 1, 1)[:count]
    low, high, more = (1, 0, 1)[:count], (0, 2, 0)[:count], (1, 0, 0)[:count]
    x = dice.integers(-4, 5, (2, 4, *sides)).astype(np.float32)
    w = dice.integers(-4, 5, (4, 3, *taps)).astype(np.float32)
    rows = list(zip(sides, taps, stride, dilation, more, strict=True))
    whole = [(n - 1) * s + d * (r - 1) + o + 1 for n, r, s, d, o in rows]
    spread = np.zeros((2, 6, *whole), np.float32)
    for n, c, *at in np.ndindex(*x.shape):
        for f, *tap in np.ndindex(*w.shape[1:]):
            place = [s * i + d * r for s, i, d, r in zip(stride, at, dilation, tap, strict=True)]
            spread[(n, c // 2 * 3 + f, *place)] += x[(n, c, *at)] * w[(c, f, *tap)]
    ends = zip(whole, low, high, strict=True)
    wanted = spread[(..., *(slice(a, n - b) for n, a, b in ends))]
    if layout:
        x, w, wanted = (np.moveaxis(a, 1, -1) for a in (x, w, wanted))
    module = of(
        count,
        x.shape,
        w.shape,
        f32,
        layout=frontend.LAYOUTS_OF[count][layout],
        stride=stride,
        dilation=dilation,
        padding=[p for pair in zip(low, high, strict=True) for p in pair],
        output_padding=more,
        groups=2,
    )
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    np.testing.assert_array_equal(run(graph, [x, w], {})[0], wanted)


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(3))
def test_all_layers_agree_on_random_ones(part: int) -> None:
    for number in range(2):
        dice = random.Random(f"transposed {part} {number}")
        sizes = {s: dice.choice((0, 1, 2, 3)) for s in "MNK"}
        maker = Maker(dice, sizes)
        maker.values.append(maker.transposed(maker.values[0]))
        program = RandomProgram(maker.closed(), sizes)
        assert layers.failure(program, dice.randrange(100)) is None, f"{part} {number}"


@pytest.mark.parametrize(
    ("taps", "products"), [(2, 1), (4, 1), (3, 4)], ids=["2x2", "4x4", "3x3: four kinds of phases"]
)
def test_tensor_cores_compute_the_phases(taps: int, products: int) -> None:
    module = of(
        2,
        (4, 32, 32, 64),
        (64, taps, taps, 64),
        layout="nhwc",
        stride=[2, 2],
        padding=[taps // 3] * 4,
    )
    plans = [op for op in lowered(module, "sm_90a", "plan").walk() if isinstance(op, ScheduleOp)]
    assert sum("wgmma" in str(plan.fields()["mma"]) for plan in plans) == products


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        ((1, 5, 16), (16, 4, 16), {"layout": "nwc", "padding": [1, 1]}),
        ((1, 16, 4), (16, 16, 3), {"padding": [0, 1], "output_padding": [1]}),
    ],
)
def test_kernels_compute_what_the_graph_means(
    x: tuple[int, ...], w: tuple[int, ...], how: dict[str, Any]
) -> None:
    module = of(1, x, w, stride=[2], **how)
    inputs, wanted = wanted_of(module, {})
    result = simulate(gpu_module_of(lowered(module, "sm_80", "gpu")), inputs, {})
    result.check()
    assert_agree(result.outputs, wanted)
