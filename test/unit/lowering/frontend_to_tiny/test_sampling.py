"""Grid samples are what PyTorch's and ONNX's text says, at every layer, by hostile coordinates."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.frontend.sampling import PADDINGS
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny.sampling import LowerGridSample
from polyc.playback.frontend import run
from polyc.playback.functions import Array
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import rewrite
from polyc.runtime.program import Program
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Size, Sketch
from polyc.test.support.split_programs import wanted_of

MODES = ("nearest", "linear", "cubic")


def sampled(
    mode: str,
    padding: str,
    corners: bool,
    x: Sequence[Size],
    grid: Sequence[Size],
    element: Attribute = f32,
) -> ModuleOp:
    s = Sketch("f", element)
    op = frontend.GridSampleOp(
        s.input("x", *x), s.input("g", *grid), mode=mode, padding=padding, align_corners=corners
    )
    return s.done(y=s.add(op))


# What each element is, one by one and in f64 -------------------------------------------------


def reflected(place: float, low: float, high: float) -> float:
    """Between two walls, by going back and forth."""
    if low == high:
        return 0.0
    span = high - low
    turns, rest = divmod(abs(place - low), span)
    return low + (rest if turns % 2 == 0 else span - rest)


def padded(padding: str, corners: bool, place: float, size: int) -> float:
    if padding == "zeros":
        return place
    if padding == "reflection":
        walls = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        place = reflected(place, *walls)
    return min(max(place, 0.0), size - 1.0)


def keys(x: float, a: float = -0.75) -> float:
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0


def weights(
    mode: str, padding: str, corners: bool, place: float, size: int
) -> list[tuple[int, float]]:
    """Elements along an axis and their weights."""
    if mode == "cubic":
        before = math.floor(place)
        taps = range(before - 1, before + 3)
        return [(int(padded(padding, corners, t, size)), keys(place - t)) for t in taps]
    place = padded(padding, corners, place, size)
    if mode == "nearest":
        return [(round(place), 1.0)]
    before = math.floor(place)
    return [(before, before + 1 - place), (before + 1, place - before)]


def by_hand(mode: str, padding: str, corners: bool, x: Array, grid: Array) -> Array:
    sizes = x.shape[2:]
    found = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for at in np.ndindex(*grid.shape[:-1]):
        rows: list[list[tuple[int, float]]] = []
        for axis, size in enumerate(sizes):
            one = float(grid[at][len(sizes) - 1 - axis]) + 1
            place = one / 2 * (size - 1) if corners else (one * size - 1) / 2
            rows.append(weights(mode, padding, corners, place, size))
        for taps in product(*rows):
            where = tuple(index for index, _ in taps)
            if all(0 <= i < n for i, n in zip(where, sizes, strict=True)):
                weight = math.prod(w for _, w in taps)
                found[(at[0], slice(None), *at[1:])] += x[(at[0], slice(None), *where)] * weight
    return found


def played(module: ModuleOp, *inputs: Array) -> Array:
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    return run(graph, inputs, {})[0]


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_elements_are_those_of_the_formulas(mode: str, padding: str, corners: bool) -> None:
    dice = np.random.default_rng(11)
    for shape in ((2, 3, 4, 5), (1, 2, 1, 3), (2, 1, 6)):
        if mode != "cubic" and len(shape) == 3:
            shape = (2, 1, 2, 6, 3)
        rank = len(shape) - 2
        x = dice.standard_normal(shape).astype(np.float32)
        grid = dice.uniform(-2.5, 2.5, (shape[0], *[5] * rank, rank)).astype(np.float32)
        module = sampled(mode, padding, corners, x.shape, grid.shape)
        wanted = by_hand(mode, padding, corners, x, grid)
        np.testing.assert_allclose(played(module, x, grid), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.turns(3)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_all_layers_agree(mode: str, padding: str) -> None:
    cases = (
        ((2, "C", "H", 4), (2, "P", 3, 2), {"C": 2, "H": 3, "P": 2}, f16),
        ((1, 1, "H", 1), (1, "P", 2, 2), {"H": 1, "P": 1}, f32),
        ((1, 2, "H", 3), (1, 2, "P", 2), {"H": 0, "P": 2}, bf16),
        ((2, 1, "H"), (2, "P", 1), {"H": 2, "P": 0}, f32),
    )
    for number, (x, grid, sizes, element) in enumerate(cases):
        if mode == "cubic" and number == 0:
            continue  # two axes of four elements each take seconds; as one kernel below
        corners = (number + len(padding)) % 2 == 0
        program = RandomProgram(sampled(mode, padding, corners, x, grid, element), sizes)
        assert layers.failure(program, number) is None, (x, sizes, corners)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_volumes_agree_at_all_layers(mode: str) -> None:
    module = sampled(mode, "reflection", False, (1, 2, 3, 2, 4), (1, 2, 2, 3, 3))
    assert layers.failure(RandomProgram(module, {}), 2) is None


HOSTILE = (math.nan, math.inf, -math.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 1e9, -1.0, 1.0, 0.0)


def hostile(size: Callable[[int], tuple[int, ...]]) -> Array:
    pairs = list(product(HOSTILE, repeat=2))
    return np.asarray(pairs, np.float32).reshape(1, *size(len(pairs)), 2)


@pytest.mark.parametrize("mode", MODES)
def test_hostile_coordinates_read_nothing_else(mode: str) -> None:
    """NaN makes NaN; infinitely far outside are zeros, or an end, and nothing is reflected."""
    grid = hostile(lambda n: (n, 1))
    x = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 2, 3)
    lost = np.isnan(grid[0, :, 0]).any(-1)
    far = np.isinf(grid[0, :, 0]).any(-1) & ~lost
    for padding in PADDINGS:
        module = sampled(mode, padding, mode == "cubic", x.shape, grid.shape)
        found = played(module, x, grid)[0, 0, :, 0]
        assert np.isnan(found[lost]).all()
        if padding == "reflection":
            assert np.isnan(found[far]).all()
        elif padding == "zeros":
            assert (found[far] == 0).all()
        else:
            assert np.isfinite(found[far]).all() and (found[far] > 0.5).all()
        # The simulator reports each access that is not the tensor's.
        inputs = [x, grid]
        built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
        for variant in built.dispatch().variants():
            result = simulate(built, inputs, {}, variant.variant_name)
            result.check()
            kernel = result.outputs[0][0, 0, :, 0]
            assert np.isnan(kernel[lost]).all(), padding
            np.testing.assert_array_equal(np.isnan(kernel[far]), np.isnan(found[far]))


def test_a_weight_of_zero_outside_makes_nothing_of_infinities() -> None:
    """At the last element the one behind it is none, and is no infinity times 0."""
    x = np.asarray([[[1.0, np.inf]]], np.float32)
    for padding in PADDINGS:
        module = sampled("linear", padding, True, x.shape, (1, 1, 1))
        assert played(module, x, np.ones((1, 1, 1), np.float32)).tolist() == [[[np.inf]]]


@pytest.mark.parametrize("mode", MODES)
def test_a_sample_is_one_kernel_which_computes_its_indices(mode: str) -> None:
    for padding in PADDINGS:
        module = sampled(mode, padding, False, ("N", 64, "H", "W"), ("N", 64, 64, 2), f16)
        found = lowered(module, "sm_90a", "region")
        assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 1, padding


def test_a_grid_that_is_computed_is_one_kernel_with_its_sample() -> None:
    s = Sketch("flow", f16)
    x, base = s.input("x", 2, 8, 32, 32), s.input("base", 2, 32, 32, 2)
    grid = s.fn("add", base, s.fn("tanh", s.input("flow", 2, 32, 32, 2)))
    made = s.fn("relu", s.add(frontend.GridSampleOp(x, grid, padding="border")))
    found = lowered(s.done(y=made), "sm_90a", "region")
    assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 1


@pytest.mark.parametrize("mode", MODES)
def test_kernels_compute_what_the_graph_means(mode: str) -> None:
    module = sampled(mode, "reflection", mode == "linear", (2, 3, 4, 5), (2, 3, 4, 2), f16)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("mode", MODES)
def test_kernels_compile_without_a_spill(mode: str, arch: str) -> None:
    module = sampled(mode, "reflection", False, (8, 64, 128, 128), (8, 64, 64, 2), f16)
    program = Program.compile(lowered(module, arch, "gpu"))
    assert all(info.spill_bytes == 0 for info in program.kernels.values())


@pytest.mark.turns(3)
def test_all_layers_agree_on_random_ones() -> None:
    for number in range(10):
        dice = random.Random(f"sample {number}")
        sizes = {s: dice.choice((0, 1, 2, 3, 4)) for s in "MNK"}
        maker = Maker(dice, sizes)
        if (made := maker.sampled(dice.choice(maker.values))) is not None:
            maker.values.append(made)
            program = RandomProgram(maker.closed(), sizes)
            assert layers.failure(program, dice.randrange(100)) is None, number


def test_the_pattern_waits_for_its_operands() -> None:
    module = sampled("linear", "zeros", False, (1, 1, 3), (1, 2, 1))
    before = str(module)
    assert not rewrite(module, [LowerGridSample()])
    assert str(module) == before
