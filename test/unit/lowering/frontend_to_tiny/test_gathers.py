"""Gathers read what their indices say, and nothing outside, at every layer and in kernels."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import ELEMENTS, INTEGERS
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.frontend_to_tiny.gathers import as_stored
from polyc.playback.functions import Array
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.fuzz.layers import PASSES, TO_TILES, made
from polyc.test.support.gathering import (
    BY_ELEMENT,
    TAKE,
    TUPLES,
    Gathering,
    Kind,
    assert_same,
    cases,
    data,
    hostile,
)
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")


def all_layers(
    module: ModuleOp,
    inputs: Sequence[Array],
    wanted: Array,
    sizes: Mapping[str, int],
    seed: int,
    graph: str = "gathered",
) -> None:
    """Play a module after every pass, down to its tiles."""
    ctx = make_context()
    found = parse_text(ctx, str(module), "gathers.mlir")
    for name in (*PASSES, *TO_TILES):
        run_pass(ctx, made(name, seed), found)
        after = play(found, graph, inputs, sizes)
        assert after is not None
        assert_same(after[0], wanted, (name, [i.tolist() for i in inputs[1:]]))


def in_kernels(
    module: ModuleOp, inputs: Sequence[Array], wanted: Array, sizes: Mapping[str, int], arch: str
) -> None:
    """Simulate every variant of a module's kernels, which read nothing outside of a tensor."""
    built = gpu_module_of(lowered(parse_text(make_context(), str(module), "g.mlir"), arch, "gpu"))
    ran = 0
    for variant in built.dispatch().variants():
        try:
            result = simulate(built, inputs, sizes, variant.variant_name)
        except PolycError as error:
            assert error.kind == "NoVariant", error
            continue
        result.check()
        assert_same(np.asarray(result.outputs[0]), wanted, (arch, variant.variant_name))
        ran += 1
    assert ran


EVERY = list(cases())


@pytest.mark.turns(5)
@pytest.mark.parametrize("number", range(len(EVERY)))
def test_every_layer_and_kernels(number: int) -> None:
    one, dice = EVERY[number], random.Random(number)
    element = ELEMENTS[number % len(ELEMENTS)]
    index = INTEGERS[(number // 4 + number) % len(INTEGERS)]
    x = data(one.shape, element, dice)
    i = hostile(one.indices, index, one.shape[one.axes()[-1]], dice)
    wanted, module = one.meant(x, i), one.module(element, index)
    all_layers(module, [x, i], wanted, {}, number)
    in_kernels(module, [x, i], wanted, {}, ARCHS[number % 2])


# Sizes of the call's, and what is around a gather ------------------------------------------


def rows(*, fill: float | None = None, element: Attribute = f16, wide: int = 16) -> ModuleOp:
    """Rows of a table at indices, with what follows."""
    s = Sketch("gathered", element)
    table, at = s.input("x", "V", wide), s.input("i", "N", element=i64)
    found = s.add(frontend.GatherOp(table, at, 0, fill))
    return s.done(y=s.fn("neg", found))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("fill", [None, 0.5])
def test_rows_of_any_sizes(fill: float | None, arch: str) -> None:
    for rows_there, count in ((5, 3), (1, 4), (0, 2), (4, 0)):
        dice = random.Random(rows_there)
        one = Gathering(TAKE, (rows_there, 16), (count,), 0, fill)
        x, i = data(one.shape, f16, dice), hostile((count,), i64, rows_there, dice)
        wanted, sizes = -one.meant(x, i), {"V": rows_there, "N": count}
        all_layers(rows(fill=fill), [x, i], wanted, sizes, 0)
        in_kernels(rows(fill=fill), [x, i], wanted, sizes, arch)


def around(batch: int) -> ModuleOp:
    """Indices that are computed, of data that is computed, and a sum of what is read."""
    s = Sketch("gathered", f32)
    x, i = s.input("x", "M", "K", 8), s.input("i", "M", "N", 2 - batch, element=i32)
    shifted = s.fn("add", i, s.number(1, i32))
    found = s.add(frontend.GatherNdOp(s.fn("neg", x), shifted, batch, from_end=True))
    return s.done(y=s.reduce("max", found, 1))


@pytest.mark.parametrize("batch", [0, 1])
def test_data_and_indices_may_be_computed(batch: int) -> None:
    sizes, dice = {"M": 2, "K": 3, "N": 4}, random.Random(batch)
    x = np.asarray(np.random.default_rng(3).integers(-9, 9, (2, 3, 8)), np.float32)
    i = np.asarray([dice.randrange(-7, 7) for _ in range(8 * (2 - batch))], np.int32)
    i = i.reshape(2, 4, 2 - batch)
    one = Gathering(TUPLES, x.shape, i.shape, batch, from_end=True)
    wanted = one.meant(-x, i + 1).max(1)
    all_layers(around(batch), [x, i], wanted, sizes, batch)
    in_kernels(around(batch), [x, i], wanted, sizes, ARCHS[batch])


def test_rows_with_what_follows_are_one_kernel() -> None:
    found = lowered(rows(), "sm_90a", "region")
    assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 1


def of_each_op(number: int, element: Attribute, index: Attribute) -> ModuleOp:
    """An op with sizes of the call's, clamped or filled."""
    kind, fill = divmod(number, 2)
    op: type[Kind] = (TAKE, BY_ELEMENT, TUPLES)[kind]
    shape: Sequence[Size] = (("N",), ("M", "N", 64), ("M", 1))[kind]
    s = Sketch("gathered", element)
    x, i = s.input("x", "M", "K", 64), s.input("i", *shape, element=index)
    return s.done(y=s.add(op(x, i, 1, 1 if fill else None, from_end=True)))


@pytest.mark.turns(4)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("number", range(6))
def test_kernels_compile_without_a_spill(number: int, arch: str) -> None:
    element = (f16, bf16, f32, INTEGERS[0], INTEGERS[3], ELEMENTS[-1])[number]
    index = INTEGERS[(number + 2) % len(INTEGERS)]
    program = Program.compile(lowered(of_each_op(number, element, index), arch, "gpu"))
    assert all(info.spill_bytes == 0 for info in program.kernels.values())


@pytest.mark.parametrize(
    ("element", "fill", "stored"),
    [
        (f16, None, f16),
        (f16, 0.5, f16),
        (f16, float("nan"), f16),
        (f16, 0.1, f32),
        (bf16, 2.0**100, bf16),
        (f16, 2.0**100, f32),
        (f32, 0.1, f32),
        (INTEGERS[0], -1, INTEGERS[0]),
    ],
)
def test_elements_are_read_as_they_lie_where_that_type_holds_the_fill(
    element: Attribute, fill: float | None, stored: Attribute
) -> None:
    module = Gathering(TAKE, (4,), (3,), 0, fill).module(element)
    FrontendToTiny().apply(make_context(), module)
    (gather,) = (op for op in module.walk() if isinstance(op, tiny.GatherOp))
    assert tiny.tensor_of(gather.operand).element_type == stored
    assert as_stored(gather.operand, fill) is gather.operand


def test_joined_indices_are_taken_apart() -> None:
    """Each index of a tuple is the tensor that was joined, from the end too, and no slice."""
    s = Sketch("gathered", f32)
    x, i, j = (
        s.input("x", 5, 7, 3),
        s.input("i", 4, 1, element=i64),
        s.input("j", 4, 1, element=i64),
    )
    both = s.concat(1, i, s.fn("neg", j))
    module = s.done(y=s.add(frontend.GatherNdOp(x, both, 0, None, from_end=True)))
    rng = np.random.default_rng(1)
    data = rng.standard_normal((5, 7, 3)).astype(np.float32)
    one, other = rng.integers(-5, 5, (4, 1)), rng.integers(1, 8, (4, 1))
    all_layers(module, [data, one, other], data[one[:, 0], -other[:, 0]], {}, 0)
    run_pass(make_context(), FrontendToTiny(), module)
    assert not any(isinstance(op, tiny.SliceOp) for op in module.walk())
