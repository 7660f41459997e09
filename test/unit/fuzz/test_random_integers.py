"""A short run of random programs of integers: every layer gives every bit."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from polyc.dialects import frontend
from polyc.dialects.common.elements import INTEGERS
from polyc.dialects.frontend import tensor_of
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_integers import drawn
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

EACH = 12


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(6))
def test_every_layer_gives_every_bit(part: int) -> None:
    reached = Counter[str]()
    for number in range(EACH):
        dice = random.Random(f"ci {part} {number}")
        program = drawn(dice)
        assert layers.failure(program, dice.randrange(100), reached) is None, (part, number)
    assert reached[layers.TO_TILES[-1]] == EACH, "a program of integers was refused"


def test_kernels_give_every_bit() -> None:
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


def test_the_programs_have_all_types_and_functions() -> None:
    types, functions = set[str](), set[str]()
    for number in range(300):
        for op in drawn(random.Random(f"all {number}")).module.walk():
            types |= {str(tensor_of(r).element_type) for r in op.results}
            if isinstance(op, frontend.ElementwiseOp):
                functions.add(op.function)
    assert set(map(str, INTEGERS)) <= types
    assert {*frontend.BINARY.integers, *frontend.UNARY.integers} <= functions
