"""Random programs as people write them, against what their ops mean by a second account.

A program is drawn from a number as text, of nearly every op of ``frontend``, all element types,
ranks 0 to 7 and sizes from 0 on, with symbols or without.  What it gives is computed beside it on
NumPy (``op_meanings.py``), which shares no function with playback.  The reference and the playback
of the graph must agree with that; with ``--layers`` also every layer down to tiles, and with
``--kernels`` the compiled kernels in the simulator.  Only there may a program be refused.

    python test/fuzz/meanings.py --runs 20000 --seed 0 --layers --kernels
"""

from __future__ import annotations

import random
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from signal import ITIMER_VIRTUAL

import numpy as np
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.agreement import unknown
from polyc.playback.gpu.schedule import SCHEDULES
from polyc.playback.gpu.simulate import COMPLETIONS, gpu_module_of, simulate
from polyc.rewriting.driver import verify
from polyc.test.fuzz import layers, op_draws, place_draws
from polyc.test.fuzz.layers import REFUSED, differs
from polyc.test.fuzz.meant_programs import Program, Writer
from polyc.test.fuzz.models import SECONDS
from polyc.test.fuzz.op_meanings import DTYPE
from polyc.test.fuzz.search import parser, search
from polyc.test.support.agreeing import meant
from polyc.test.support.limits import TooLong, limited
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.play import play
from polyc.tools.registry import make_context

DRAWS = (*op_draws.DRAWS, *place_draws.DRAWS)
STEPS = (1, 2, 3, 4, 5, 6, 8, 12)
TO_TILES, SIMULATED, KNOWN = "to tiles", "simulated", "with all elements known"


def drawn(dice: random.Random, wide: bool = False) -> Program:
    """A program of one to twelve ops; ``wide`` ones have larger sizes, and are as large."""
    writer = Writer(dice, wide)
    if writer.chance(0.9):
        writer.input(writer.shape(), dice.choice(tuple(DTYPE)))
    for _ in range(dice.choice(STEPS)):
        writer.step(DRAWS)
    return writer.program()


def failure(
    program: Program,
    seed: int,
    reached: Counter[str],
    every_layer: bool = False,
    kernels: bool = False,
) -> str | None:
    """What is wrong with a program, or None; ``reached`` counts how far it comes."""
    ctx = make_context()
    module = parse_text(ctx, program.text, "fuzz.mlir")
    verify(module)
    if str(parse_text(ctx, str(module), "fuzz.mlir")) != str(module):
        return "the text does not read back"
    reference = meant(module, program.inputs, program.sizes)
    if (why := differs(program.outputs, reference)) is not None:
        return f'the reference has another meaning, where "is" says what is meant: {why}'
    played = play(module, "f", program.inputs, program.sizes)
    assert played is not None
    for found, right in zip(played, program.outputs, strict=True):
        if found.dtype != right.dtype:
            return f"playback gives {found.dtype}, and {right.dtype} is meant"
    if (why := differs(played, reference)) is not None:
        return f"playback differs from the reference: {why}"
    reached[KNOWN] += not any(unknown(output) for output in reference)
    if every_layer:
        passes = Counter[str]()
        why = layers.difference(ctx, module.clone(), program.inputs, program.sizes, seed, passes)
        if why is not None:
            return why
        reached[TO_TILES] += passes[layers.TO_TILES[-1]]
    return _of_kernels(ctx, program, seed, reached) if kernels else None


def _of_kernels(ctx: Context, program: Program, seed: int, reached: Counter[str]) -> str | None:
    """What is wrong with the kernels of a program on one architecture, in one order."""
    dice, arch = random.Random(seed), ("sm_80", "sm_90a")[seed % 2]
    order, completion = dice.choice(tuple(SCHEDULES)), dice.choice(COMPLETIONS)
    module = parse_text(ctx, program.text, "fuzz.mlir")
    reference = meant(module, program.inputs, program.sizes)
    try:
        made = gpu_module_of(Compilation(ctx, module, arch).run().module)
    except PolycError as error:
        if error.kind not in REFUSED:
            return f"{arch}: {error.format()}"
        reached[f"end as {error.kind}"] += 1
        return None
    try:
        with limited(SECONDS, ITIMER_VIRTUAL):
            result = simulate(made, program.inputs, program.sizes, None, order, seed, completion)
    except TooLong:
        reached["too long to simulate"] += 1
        return None
    where = f"{arch}, {result.variant}, {order}, {completion}"
    if result.findings:
        return f"{where}: {result.findings[0].error().format()}"
    if (why := differs(result.outputs, reference)) is not None:
        return f"{where}: {why}"
    reached[SIMULATED] += 1
    return None


def attempt(
    number: int,
    seed: int,
    every_layer: bool = False,
    kernels: bool = False,
    wide: bool = False,
    show: bool = False,
) -> tuple[str | None, Counter[str]]:
    """What is wrong with the program of a number, and how far it came; any exception is a fault."""
    dice, reached = random.Random(f"{seed} {number}"), Counter[str]()
    program = drawn(dice, wide)
    try:
        with np.errstate(all="ignore"):
            why = failure(program, dice.randrange(100), reached, every_layer, kernels)
    except Exception as error:
        why = f"{_place(error)}: {str(error).splitlines()[:1]}"
    if why is not None:
        why = f"at {dict(program.sizes)}: {why}"
        why += f"\n{program.text}" if show else ""
    return why, reached


def _place(error: Exception) -> str:
    """The kind of an exception, and where it comes from."""
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)[-3:]
    places = ", ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames)
    return f"{type(error).__name__} at {places}"


def main() -> int:
    options = parser(__doc__ or "", 20_000)
    options.add_argument("--layers", action="store_true", help="play back every layer")
    options.add_argument("--kernels", action="store_true", help="simulate the compiled kernels")
    options.add_argument("--wide", action="store_true", help="draw sizes up to 64")
    options.add_argument("--show", action="store_true", help="print the programs that fail")
    args = options.parse_args()
    one = partial(
        attempt,
        every_layer=args.layers,
        kernels=args.kernels,
        wide=args.wide,
        show=args.show,
    )
    return search("program", one, args, every=500)


if __name__ == "__main__":
    sys.exit(main())
