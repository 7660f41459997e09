"""A short run of random programs of gathers: what one layer computes, all compute."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

from polyc.dialects import frontend
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.gathers import SCATTERS
from polyc.dialects.frontend import tensor_of
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_gathers import drawn
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

EACH = 10
GATHERS = (frontend.GatherOp, frontend.GatherElementsOp, frontend.GatherNdOp)
SCATTERERS = (frontend.ScatterOp, frontend.ScatterElementsOp, frontend.ScatterNdOp)


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(6))
def test_every_layer_gives_the_same(part: int) -> None:
    reached = Counter[str]()
    for number in range(EACH):
        dice = random.Random(f"ci {part} {number}")
        program = drawn(dice)
        assert layers.failure(program, dice.randrange(100), reached) is None, (part, number)
    assert reached[layers.PASSES[-1]] >= EACH - 2, "programs of gathers were refused"
    assert reached[layers.TO_TILES[-1]] >= EACH // 2


def test_kernels_give_the_same() -> None:
    for number in range(examples(9)):
        program = drawn(random.Random(f"kernels {number}"))
        text, ctx = str(program.module), make_context()
        module = parse_text(ctx, text, "f.mlir")
        graph = next(iter(module.ops))
        assert isinstance(graph, frontend.GraphOp)
        inputs = make_inputs(graph, program.sizes, number, "special")
        right = meant(module, inputs, program.sizes)
        made = Compilation(ctx, module, ("sm_80", "sm_90a")[number % 2]).run("gpu").module
        result = simulate(next(iter(made.ops)), inputs, program.sizes)
        result.check()
        assert_agree(result.outputs, right, number)


def test_the_programs_have_all_gathers() -> None:
    kinds, types, fills, ends, sizes = set[type](), set[str](), set[bool](), set[bool](), set[int]()
    for number in range(200):
        program = drawn(random.Random(f"all {number}"))
        sizes |= set(program.sizes.values())
        for op in program.module.walk():
            if isinstance(op, GATHERS):
                element = tensor_of(op.indices).element_type
                assert is_integer(element)
                kinds.add(type(op))
                types.add(str(element))
                fills.add(op.outside is None)
                ends.add(op.counts_from_end)
    assert kinds == set(GATHERS)
    assert {"i8", "ui8", "i32", "i64"} <= types
    assert fills == ends == {False, True}
    assert {0, 1} <= sizes


def test_the_programs_have_all_scatters() -> None:
    drawn_ones = Counter[tuple[type, str]]()
    types, ends = set[str](), set[bool]()
    for number in range(200):
        for op in drawn(random.Random(f"all {number}")).module.walk():
            if isinstance(op, SCATTERERS):
                drawn_ones[type(op), op.function] += 1
                types.add(str(tensor_of(op.indices).element_type))
                ends.add(op.counts_from_end)
    assert set(drawn_ones) == set(product(SCATTERERS, SCATTERS))
    assert {"i8", "ui8", "i32", "i64"} <= types
    assert ends == {False, True}
