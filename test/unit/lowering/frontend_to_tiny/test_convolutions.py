"""Convolutions along one axis and three: what they mean, at every layer, and on which kernels."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import LowerGraph
from polyc.lowering.frontend_to_tiny.convolutions import LowerConv
from polyc.playback.frontend import run
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import rewrite
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree
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
