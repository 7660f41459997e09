"""Random programs on the GPU: every variant of their kernels computes what the program means.

Sizes are small and often 0 or 1, indices point anywhere, and inputs are of every kind that playback
draws: what a whole grid does here, the simulator does with a few blocks (``test/unit/fuzz``).
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.playback.reference import make_inputs
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.fuzz import random_gathers, random_integers, random_programs
from polyc.test.fuzz.layers import KINDS, REFUSED
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.each_variant import results
from polyc.test.support.gpu_text import only
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

DRAWN: dict[str, Callable[[random.Random], RandomProgram]] = {
    "programs": random_programs.drawn,
    "gathers": random_gathers.drawn,
    "integers": random_integers.drawn,
}
ARCHS = ("sm_80", "sm_90a")
EACH = 8


def compiled(text: str, arch: str) -> Program:
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text, "random.mlir"), arch)
    return Program.compile(job.run().module)


@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("kind", DRAWN)
def test_random_programs(kind: str, part: int) -> None:
    archs, ran = [a for a in ARCHS if driver.device().runs(a)], 0
    for number in range(EACH):
        dice = random.Random(f"gpu {part} {number}")
        program = DRAWN[kind](dice)
        module, seed = program.module, dice.randrange(100)
        inputs = make_inputs(only(module, GraphOp), program.sizes, seed, KINDS[seed % len(KINDS)])
        wanted = meant(module, inputs, program.sizes)
        try:
            made = compiled(str(module), archs[number % len(archs)])
        except PolycError as error:
            assert error.kind in REFUSED, f"{number}: {error.format()}"
            continue
        for variant, found in results(made, inputs, program.sizes):
            assert_agree(found, wanted, f"{number} {variant}")
            ran += 1
    assert ran >= EACH // 2
