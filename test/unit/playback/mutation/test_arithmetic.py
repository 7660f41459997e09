"""Mistakes of arithmetic in kernels: each kind fires, and the comparison tells it (S0.6)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.playback import draws
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants, mutated
from polyc.playback.mutation.arithmetic import ARITHMETIC
from polyc.playback.mutation.verdict import Case, judge
from polyc.test.support.tile_cases import CASES, lowered
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context

KINDS = {
    "arith.maximumf -> arith.minimumf",
    "arith.addf -> arith.subf",
    "arith.subf -> arith.addf",
    "arith.divf -> arith.mulf",
    "math.exp -> math.exp2",
    "branches exchanged",
    "operands exchanged",
    "the first iteration left out",
    "the last iteration left out",
    "an index is one further",
    "a shuffle of another kind",
    "-inf -> 0",
}
SIZES = {"M": 5, "N": 264}


def job() -> Compilation:
    """The example in f32, whose exponentials are not the device's short ones."""
    ctx = make_context()
    text = Path("examples/softmax.mlir").read_text(encoding="utf-8").replace("f16", "f32")
    return Compilation(ctx, parse_text(ctx, text, "softmax.mlir"), "sm_80")


@cache
def softmax() -> ModuleOp:
    return gpu_module_of(job().run().module)


@cache
def cases(draw: str) -> list[Case]:
    graph = next(graphs(job().module))
    wanted = Expected.of(graph, SIZES, 0, draw)
    return [Case.of(softmax(), None, SIZES, wanted.inputs, wanted.outputs)]


def test_every_kind_of_mistake_fires_and_changes_one_place() -> None:
    found = mutants(softmax(), ARITHMETIC)
    assert {m.change for m in found} >= KINDS
    assert not {str(m) for m in found} & {str(m) for m in mutants(softmax())}
    before = str(softmax())
    for change in sorted(KINDS):
        mutant = next(m for m in found if m.change == change)
        assert str(mutated(softmax(), mutant)) != before == str(softmax())


@pytest.mark.parametrize("change", ["math.exp -> math.exp2", "arith.divf -> arith.mulf"])
def test_a_wrong_function_is_caught(change: str) -> None:
    """On rows of one number a softmax needs no right exponential, so on others."""
    kernel = cases("uniform")[0].right.variant
    (first, *_) = [
        m for m in mutants(softmax(), ARITHMETIC) if m.change == change and m.kernel == kernel
    ]
    assert judge(first, cases("uniform")).outcome == "caught"


def test_a_rows_least_in_place_of_its_largest_is_caught_on_large_inputs() -> None:
    kernel = cases("uniform")[0].right.variant
    every = [
        m
        for m in mutants(softmax(), ARITHMETIC)
        if m.change == "arith.maximumf -> arith.minimumf" and m.kernel == kernel
    ]
    assert len(every) > 4
    hidden = [m for m in every if judge(m, cases("uniform")).outcome != "caught"]
    assert hidden, "numbers in [-1, 1) hide what is subtracted from them"
    told = [m for m in hidden if judge(m, cases("large")).outcome == "caught"]
    # What joins the few elements beyond a whole vector a lane may meet no large one.
    assert len(told) >= len(hidden) / 2


def test_a_key_too_many_is_caught() -> None:
    """The bound of attention's last block of keys, where 150 keys are there."""
    case, sizes = CASES["attention_sm80_d64"], {"BH": 1, "SQ": 8, "SK": 150}
    module = lowered(case.name)
    dispatch = module.dispatch()
    kinds = list(dispatch.arg_types)[: dispatch.num_inputs.value.data]
    inputs = [
        draws.draw("uniform", [0, i], tuple(d.evaluate(sizes) for d in k.dims), k.element_type)
        for i, k in enumerate(kinds)
    ]
    right = Case.of(module, case.variant, sizes, inputs, case.expected(inputs, sizes))
    bounds = [m for m in mutants(module) if m.change == "slt -> sle"]
    told = [m for m in bounds if judge(m, [right]).how == "the result"]
    assert told and np.isfinite(right.right.outputs[0].astype(np.float32)).all()
