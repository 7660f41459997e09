"""Resizes take the elements that ONNX's and PyTorch's formulas name, at every layer."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import frontend, tiny
from polyc.dialects.common.elements import ui8
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback import tiny as tiny_playback
from polyc.playback.frontend import run
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of
from polyc.tools.parsing import parse_text
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


def between(size: int, count: int, mode: str, coordinates: str) -> frontend.GraphOp:
    s = Sketch("between", f32)
    x = s.input("x", size)
    module = s.done(y=s.add(frontend.ResizeOp(x, [0], [count], mode=mode, coordinates=coordinates)))
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    return graph


def test_what_lies_between_is_what_pytorch_has() -> None:
    x = np.asarray([1.0, 2.0, 3.0, 4.0], np.float32)

    def found(count: int, mode: str, coordinates: str) -> list[float]:
        return run(between(4, count, mode, coordinates), [x], {})[0].tolist()

    assert found(8, "linear", "half_pixel") == [1.0, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4.0]
    assert found(7, "linear", "align_corners") == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert found(2, "linear", "asymmetric") == [1.0, 3.0]
    # Weights at a rest of 3/4: -9/256, 67/256, 225/256, -27/256, turned at 1/4.
    wanted = (-27 * 1 + 225 * 2 + 67 * 3 - 9 * 4) / 256
    assert found(8, "cubic", "half_pixel")[3] == pytest.approx(wanted, abs=1e-6)
    assert found(1, "cubic", "align_corners") == [1.0]


@pytest.mark.turns(2)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_all_layers_agree_between_elements(mode: str) -> None:
    cases = product(((3, 6), (4, 10), (7, 5), (5, 1), (1, 4), (2, 7)), frontend.COORDINATES)
    for number, ((size, count), coordinates) in enumerate(cases):
        if number % 3 == 0:
            s = Sketch("f", f16)
            x = s.input("x", size, size)
            op = frontend.ResizeOp(x, [0, 1], [count, count], mode=mode, coordinates=coordinates)
            program = RandomProgram(s.done(y=s.add(op)), {})
            assert layers.failure(program, number) is None, (size, count, coordinates)


def onnxs_cubic(x: Sequence[float], count: int, a: float, exclude: bool) -> list[float]:
    """ONNX's text for half pixels: weights by distance; without those outside, over their sum."""
    found: list[float] = []
    for i in range(count):
        place = (i + 0.5) * len(x) / count - 0.5
        first = math.floor(place) - 1
        weights: list[float] = []
        for at in range(first, first + 4):
            d = abs(place - at)
            near, far = (
                ((a + 2) * d - (a + 3)) * d * d + 1,
                ((a * d - 5 * a) * d + 8 * a) * d - 4 * a,
            )
            weights.append(near if d <= 1 else far)
        inside = [0 <= at < len(x) for at in range(first, first + 4)]
        if exclude:
            weights = [w * held for w, held in zip(weights, inside, strict=True)]
            weights = [w / sum(weights) for w in weights]
        ends = [x[min(max(at, 0), len(x) - 1)] for at in range(first, first + 4)]
        found.append(sum(w * e for w, e in zip(weights, ends, strict=True)))
    return found


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("coefficient", [-0.75, -0.5])
def test_cubic_weights_are_those_of_onnx(coefficient: float, exclude: bool) -> None:
    for size, count in ((4, 8), (5, 3), (1, 3), (3, 10), (2, 3)):
        s = Sketch("f", f32)
        op = frontend.ResizeOp(
            s.input("x", size),
            [0],
            [count],
            mode="cubic",
            coefficient=coefficient,
            exclude_outside=exclude,
        )
        module = s.done(y=s.add(op))
        graph = next(iter(module.ops))
        assert isinstance(graph, frontend.GraphOp)
        x = np.asarray([3.0, -1.0, 4.0, 1.0, -5.0][:size], np.float32)
        wanted = onnxs_cubic(x.tolist(), count, coefficient, exclude)
        np.testing.assert_allclose(run(graph, [x], {})[0], wanted, rtol=1e-5, atol=1e-5)
        assert layers.failure(RandomProgram(module, {}), count) is None, (size, count)


def test_what_is_outside_is_left_out_of_open_sizes() -> None:
    text = """
frontend.graph @f(%x: !frontend.tensor<[N], f32>) -> !frontend.tensor<[2 * N], f32>
    assuming (N >= 2) {
  %0 = frontend.resize cubic %x axes [0] half_pixel coefficient -0.5 exclude_outside
      : !frontend.tensor<[N], f32> -> !frontend.tensor<[2 * N], f32>
  frontend.output %0 : !frontend.tensor<[2 * N], f32>
}"""
    for size in (2, 5):
        module = parse_text(make_context(), text, "f.mlir")
        assert layers.failure(RandomProgram(module, {"N": size}), size) is None, size


def test_open_sizes_go_by_their_ratio() -> None:
    text = """
frontend.graph @f(%x: !frontend.tensor<[N], f32>) -> !frontend.tensor<[3 * N], f32>
    assuming (N >= 1) {
  %0 = frontend.resize linear %x axes [0] half_pixel
      : !frontend.tensor<[N], f32> -> !frontend.tensor<[3 * N], f32>
  frontend.output %0 : !frontend.tensor<[3 * N], f32>
}"""
    for size in (1, 2, 5):
        module = parse_text(make_context(), text, "f.mlir")
        assert layers.failure(RandomProgram(module, {"N": size}), size) is None, size


def test_integers_are_taken_as_they_are() -> None:
    s = Sketch("f", ui8)
    module = s.done(y=s.add(frontend.ResizeOp(s.input("x", 3, 4), [1], [9])))
    assert layers.failure(RandomProgram(module, {}), 5) is None


def test_a_rounding_is_the_nearest_s_alone() -> None:
    s = Sketch("f", f32)
    x = s.input("x", 4)
    op = frontend.ResizeOp(x, [0], [8], mode="linear", rounding="floor")
    with pytest.raises(VerifyException, match="resize linear takes no rounding; leave it out"):
        op.verify()


def smooth(channels: int, high: int) -> ModuleOp:
    s = Sketch("smooth", f16)
    x = s.input("x", 2, channels, high, high)
    return s.done(y=s.add(frontend.ResizeOp(x, [2, 3], [2 * high, 2 * high], mode="linear")))


def test_kernels_compute_what_lies_between() -> None:
    module = smooth(2, 5)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)
    program = Program.compile(lowered(smooth(16, 32), "sm_90a", "gpu"))
    assert all(info.spill_bytes == 0 for info in program.kernels.values())


def twice(channels: int, high: int) -> ModuleOp:
    s = Sketch("twice", f16)
    x = s.input("x", 2, high, high, channels)
    y = s.add(frontend.ResizeOp(x, [1, 2], [2 * high, 2 * high]))
    return s.done(y=s.fn("add", y, s.input("z", 2, 2 * high, 2 * high, channels)))


def test_a_resize_with_what_follows_is_one_kernel() -> None:
    found = lowered(twice(64, 32), "sm_90a", "region")
    assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 1


def test_kernels_compute_what_the_graph_means() -> None:
    module = twice(8, 3)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_compile_without_a_spill(arch: str) -> None:
    program = Program.compile(lowered(twice(64, 32), arch, "gpu"))
    assert all(info.spill_bytes == 0 for info in program.kernels.values())
