"""Resizes take the elements that ONNX's and PyTorch's formulas name, at every layer."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32

from polyc.dialects import frontend, tiny
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback import tiny as tiny_playback
from polyc.playback.frontend import run
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of
from polyc.test.unit.lowering.frontend_to_tiny.test_pooling import lowered
from polyc.tools.registry import make_context


def resized(size: int, count: int, coordinates: str, rounding: str) -> ModuleOp:
    s = Sketch("resized", f32)
    op = frontend.ResizeOp(
        s.input("x", size), [0], [count], coordinates=coordinates, rounding=rounding
    )
    return s.done(y=s.add(op))


def formula(size: int, count: int, coordinates: str, rounding: str) -> list[int]:
    """ONNX's text, times an even number that makes all of it whole."""
    found: list[int] = []
    for i in range(count):
        whole = 2 * count * max(count - 1, 1)
        match coordinates:
            case "asymmetric":
                place = i * size * whole // count
            case "align_corners":
                place = 0 if count == 1 else i * (size - 1) * whole // (count - 1)
            case "pytorch_half_pixel" if count == 1:
                place = 0
            case _:
                place = (2 * i + 1) * size * whole // (2 * count) - whole // 2
        down, rest = divmod(place, whole)
        match rounding:
            case "floor":
                up = False
            case "ceil":
                up = rest > 0
            case "round_prefer_floor":
                up = 2 * rest > whole
            case _:
                up = 2 * rest >= whole
        found.append(min(max(down + up, 0), size - 1))
    return found


@pytest.mark.parametrize("coordinates", frontend.COORDINATES)
def test_elements_are_those_of_the_formula(coordinates: str) -> None:
    for rounding, (size, count) in product(
        frontend.ROUNDINGS,
        ((3, 6), (4, 10), (7, 5), (5, 1), (1, 4), (6, 6), (2, 7), (9, 3), (0, 0)),
    ):
        module = resized(size, count, coordinates, rounding)
        graph = next(iter(module.ops))
        assert isinstance(graph, frontend.GraphOp)
        x = np.arange(size).astype(np.float32)
        wanted = formula(size, count, coordinates, rounding)
        assert run(graph, [x], {})[0].tolist() == wanted, (size, count, rounding)
        FrontendToTiny().apply(make_context(), module)
        module.verify()
        lower = next(iter(module.ops))
        assert isinstance(lower, tiny.GraphOp)
        below = tiny_playback.run(lower, [x], {})[0]
        assert below.tolist() == wanted, (size, count, rounding)


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(2))
def test_all_layers_agree_on_random_ones(part: int) -> None:
    for number in range(10):
        dice = random.Random(f"resize {part} {number}")
        sizes = {s: dice.choice((0, 1, 2, 3, 4, 5)) for s in "MNK"}
        maker = Maker(dice, sizes)
        made = maker.resize(dice.choice(maker.values))
        assert made is not None
        maker.values.append(made)
        program = RandomProgram(maker.closed(), sizes)
        assert layers.failure(program, dice.randrange(100)) is None, f"{part} {number}"


def twice(channels: int, high: int) -> ModuleOp:
    s = Sketch("twice", f16)
    x = s.input("x", 2, high, high, channels)
    y = s.add(frontend.ResizeOp(x, [1, 2], [2 * high, 2 * high]))
    return s.done(y=s.fn("add", y, s.input("z", 2, 2 * high, 2 * high, channels)))


def test_a_resize_with_what_follows_is_one_kernel() -> None:
    found = lowered(twice(64, 32), "region")
    assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 1


def test_kernels_compute_what_the_graph_means() -> None:
    module = twice(8, 3)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_compile_without_a_spill(arch: str) -> None:
    program = Program.compile(lowered(twice(64, 32), "gpu", arch))
    assert all(info.spill_bytes == 0 for info in program.kernels.values())
