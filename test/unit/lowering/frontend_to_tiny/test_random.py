"""Random numbers are those of their places, at every layer, in every kernel (S12.6)."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import ui8, ui32, ui64
from polyc.dialects.frontend import tensor
from polyc.dialects.frontend.random import UNIFORM_BITS, chances
from polyc.dialects.gpu.hardware import PhiloxOp
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import LowerConstant, LowerGraph
from polyc.lowering.frontend_to_tiny.random import LowerDropout, LowerRandom
from polyc.playback import philox
from polyc.playback.frontend import run
from polyc.playback.frontend.random import from_bits
from polyc.playback.functions import DTYPES, round_to
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import rewrite
from polyc.runtime.program import Program
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Size, Sketch, dim
from polyc.test.support.split_programs import wanted_of

CASES: list[tuple[str, Attribute, float | None]] = [
    ("bits", ui32, None),
    ("uniform", f32, None),
    ("uniform", f16, None),
    ("uniform", bf16, None),
    ("normal", f32, None),
    ("normal", f16, None),
    ("bernoulli", i1, 0.3),
]


def drawn(
    fn: str,
    shape: tuple[Size, ...],
    element: Attribute,
    p: float | None = None,
    counters: tuple[Attribute, Attribute] = (i64, ui64),
) -> ModuleOp:
    """A tensor of random numbers, whose seed and offset are inputs."""
    s = Sketch("f", f32)
    seed, offset = (
        s.input(n, element=k) for n, k in zip(("seed", "offset"), counters, strict=True)
    )
    kind = tensor([dim(n) for n in shape], element)
    return s.done(y=s.add(frontend.RandomOp(fn, seed, offset, kind, p)))


def numbers(module: ModuleOp, seed: int, offset: int, **sizes: int) -> Any:
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    return run(graph, [np.asarray(seed, np.int64), np.asarray(offset, np.uint64)], sizes)[0]


@pytest.mark.turns(2)
@pytest.mark.parametrize(("fn", "element", "p"), CASES)
def test_all_layers_have_the_same(fn: str, element: Attribute, p: float | None) -> None:
    shapes: list[tuple[Size, ...]] = [(), (5,), ("M", 6), (3, "M", 2), ("M", "N", 3), (0, 4)]
    for number, shape in enumerate(shapes):
        program = RandomProgram(drawn(fn, shape, element, p), {"M": number, "N": 5})
        assert layers.failure(program, number) is None, shape


@pytest.mark.parametrize(("fn", "element", "p"), CASES)
def test_kernels_have_the_same(fn: str, element: Attribute, p: float | None) -> None:
    module = drawn(fn, (3, 20), element, p)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)


def test_places_are_those_of_the_whole_tensor_and_wrap_in_64_bits() -> None:
    whole = numbers(drawn("bits", (4, 6), ui32), 9, 0)
    assert numbers(drawn("bits", (24,), ui32), 9, 0).tolist() == whole.ravel().tolist()
    assert numbers(drawn("bits", (2, 6), ui32), 9, 12).tolist() == whole[2:].tolist()
    for offset in (2**32 - 3, 2**34 - 1, 2**64 - 3):
        places = np.asarray([(offset + i) % 2**64 for i in range(6)], np.uint64)
        wanted = philox.pair(places, np.asarray(2**64 - 5, np.uint64)) & np.uint64(0xFFFFFFFF)
        assert numbers(drawn("bits", (2, 3), ui32), -5, offset).tolist() == [
            wanted[:3].tolist(),
            wanted[3:].tolist(),
        ]
        module = drawn("bits", (2, 3), ui32)
        built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
        inputs = [np.asarray(-5, np.int64), np.asarray(offset, np.uint64)]
        for variant in built.dispatch().variants():
            result = simulate(built, inputs, {}, variant.variant_name)
            result.check()
            assert result.outputs[0].ravel().tolist() == wanted.tolist(), variant.variant_name


def test_seeds_of_other_types_are_cast() -> None:
    program = RandomProgram(drawn("bits", ("M", 3), ui32, counters=(ui8, i64)), {"M": 4})
    assert layers.failure(program, 3) is None


@pytest.mark.parametrize("element", [f16, bf16, f32])
def test_a_uniform_number_is_below_1_and_exact_in_its_type(element: Attribute) -> None:
    words = np.asarray([0, 1, 2**31, 2**32 - 1], np.uint32)
    found = from_bits(words, UNIFORM_BITS[element])
    assert found.min() == 0
    assert found.max() == 1 - 2.0 ** -UNIFORM_BITS[element]
    assert (round_to(found, element).astype(np.float32) == found).all()
    assert np.finfo(np.float16).nmant + 1 == UNIFORM_BITS[f16], DTYPES[f16]


def test_numbers_are_spread_as_their_distribution_is() -> None:
    count = 1 << 16
    uniform = numbers(drawn("uniform", (count,), f32), 1, 0).astype(np.float64)
    assert abs(uniform.mean() - 0.5) < 4 * (1 / 12 / count) ** 0.5
    normal = numbers(drawn("normal", (count,), f32), 2, 0).astype(np.float64)
    assert abs(normal.mean()) < 4 / count**0.5
    assert abs(normal.var() - 1) < 4 * (2 / count) ** 0.5
    assert abs((normal**4).mean() - 3) < 4 * (96 / count) ** 0.5
    pairs = normal.reshape(-1, 2)
    assert abs((pairs[:, 0] * pairs[:, 1]).mean()) < 4 / (count / 2) ** 0.5
    for p in (0.0, 0.1, 1.0):
        held = numbers(drawn("bernoulli", (count,), i1, p), 3, 0)
        assert abs(held.mean() - p) <= 4 * (p * (1 - p) / count) ** 0.5
    assert [chances(p) for p in (0.0, 0.5, 1.0)] == [0, 2**31, 2**32]


# Dropout -------------------------------------------------------------------------------


def dropped(p: float, *shape: Size) -> ModuleOp:
    s = Sketch("f", f16)
    x, seed = s.input("x", *shape), s.input("seed", element=i64)
    return s.done(y=s.add(frontend.DropoutOp(x, seed, s.number(0, ui64), p)))


@pytest.mark.parametrize("p", [0.0, 0.25, 1.0])
def test_a_dropout_keeps_where_a_bernoulli_of_the_rest_holds(p: float) -> None:
    module = dropped(p, 5, 8)
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    x = np.full((5, 8), np.nan, np.float16)
    x[:, :4] = 3.0
    found = run(graph, [x, np.asarray(4, np.int64)], {})[0]
    kept = numbers(drawn("bernoulli", (5, 8), i1, 1 - p), 4, 0)
    scale = np.float32(1 if p == 1 else 1 / (1 - p))
    wanted = np.where(kept, x.astype(np.float32) * scale, np.float32(0)).astype(np.float16)
    np.testing.assert_array_equal(found, wanted)
    assert layers.failure(RandomProgram(dropped(p, "M", 8), {"M": 5}), 2) is None


def test_a_dropout_alone_is_lowered_in_one_place() -> None:
    module = dropped(0.5, 4)
    rewrite(module, [LowerGraph(), LowerDropout()])
    names = [op.name for op in module.walk()]
    assert "frontend.dropout" in names  # its seed is a frontend constant still
    rewrite(module, [LowerConstant(), LowerDropout(), LowerRandom()])
    assert "frontend.dropout" not in [op.name for op in module.walk()]


def in_two_kernels() -> ModuleOp:
    """A dropout before a product, and the same on the way of another one's result."""
    s = Sketch("f", f16)
    x, w = s.input("x", 16, 32), s.input("w", 32, 32)
    seed, other = s.input("seed", element=i64), s.input("other", 16, 32)
    offset = s.number(0, ui64)
    first = s.gemm(s.add(frontend.DropoutOp(x, seed, offset, 0.5)), w)
    ones = s.add(frontend.DropoutOp(other, seed, offset, 0.5))
    mean = s.reduce("mean", ones, 0)
    return s.done(y=first, z=s.fn("mul", ones, mean))


def test_two_kernels_drop_the_same() -> None:
    """What a kernel of rows, of loops and of a product computes again is what it was."""
    module = in_two_kernels()
    inputs, wanted = wanted_of(module, {})
    kernels = [
        op
        for op in lowered(in_two_kernels(), "sm_90a", "region").walk()
        if isinstance(op, KernelOp)
    ]
    makes = [k for k in kernels if any("philox" in str(o.properties) for o in k.walk())]
    assert len(makes) > 1
    built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    result = simulate(built, inputs, {})
    result.check()
    assert_agree(result.outputs, wanted)


def rows(fn: str, columns: int = 64) -> ModuleOp:
    s = Sketch("f", f16)
    x, seed = s.input("x", "M", columns), s.input("seed", element=i64)
    if fn == "after":
        made = frontend.DropoutOp(s.add(frontend.SoftmaxOp(x, [1])), seed, seed, 0.1)
        return s.done(y=s.add(made))
    kept = s.add(frontend.DropoutOp(x, seed, s.number(0, ui64), 0.1))
    return s.done(y=s.rms_norm(s.fn("add", kept, s.input("skip", "M", columns)), "w"))


@pytest.mark.parametrize("fn", ["after", "before"])
def test_a_row_s_dropout_is_in_the_row_s_kernel(fn: str) -> None:
    module, sizes = rows(fn), {"M": 5}
    found = [op for op in lowered(rows(fn), "sm_90a", "region").walk() if isinstance(op, KernelOp)]
    assert len(found) == 1
    inputs, wanted = wanted_of(module, sizes)
    built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    variants = [v.variant_name for v in built.dispatch().variants()]
    assert any("warp" in name for name in variants)
    for name in variants:
        result = simulate(built, inputs, sizes, name)
        result.check()
        assert_agree(result.outputs, wanted)


def product(bias: bool) -> ModuleOp:
    s = Sketch("f", f16)
    x, seed = s.input("x", "M", 64), s.input("seed", element=i64)
    made = s.linear(x, "w", 64, bias=bias)
    return s.done(y=s.add(frontend.DropoutOp(made, seed, s.number(0, ui64), 0.1)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_compile_without_a_spill(arch: str) -> None:
    programs = [dropped(0.1, "M", "N"), rows("after"), rows("before", 4096), product(True)]
    for module in (*programs, product(False), drawn("normal", ("M", 64), f16)):
        built = Program.compile(lowered(module, arch, "gpu"))
        assert all(info.spill_bytes == 0 for info in built.kernels.values())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_product_s_epilogue_drops(arch: str) -> None:
    module, sizes = product(True), {"M": 40}
    inputs, wanted = wanted_of(module, sizes)
    built = gpu_module_of(lowered(module, arch, "gpu"))
    result = simulate(built, inputs, sizes)
    result.check()
    assert_agree(result.outputs, wanted)
    assert any(isinstance(op, PhiloxOp) and op.count > 1 for op in built.walk())


def test_a_block_is_made_once_for_its_neighbours() -> None:
    """Rows of any size begin anywhere; those of whole vectors, and an offset of 0, at a block."""

    def counts(module: ModuleOp) -> set[tuple[int, int | None]]:
        found = [op for op in lowered(module, "sm_90a", "gpu").walk() if isinstance(op, PhiloxOp)]
        return {(op.count, None if op.multiple is None else op.multiple.value.data) for op in found}

    assert counts(dropped(0.1, "M", 64)) >= {(8, 4)}
    # What reads a seed alone has vectors too.
    assert counts(drawn("normal", ("M", 64), f16)) == {(8, 1), (1, None)}
    assert counts(dropped(0.1, "M", "N")) >= {(8, 4), (1, None)}
    assert counts(rows("after")) == {(8, 1)}
    assert counts(rows("before")) == {(8, 4)}


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(3))
def test_all_layers_agree_on_random_programs(part: int) -> None:
    for number in range(8):
        dice = random.Random(f"random {part} {number}")
        sizes = {s: dice.choice((0, 1, 2, 3, 4, 5)) for s in "MNK"}
        maker = Maker(dice, sizes)
        maker.values.append(maker.dropout(dice.choice(maker.values)))
        maker.step()
        program = RandomProgram(maker.closed(), sizes)
        assert layers.failure(program, dice.randrange(100)) is None, f"{part} {number}"
