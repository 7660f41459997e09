"""Random programs through every layer: what one computes, all compute.

A program is drawn from a number, played at the frontend, and after every pass down to the
regions and to the tiles of their kernels; each layer is compared with the FP32 reference, on a
kind of inputs that the number chooses.  A program that a layer refuses counts as one that ends
above it.

    python test/fuzz/layers.py --runs 20000 --seed 0
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Fuse, Split
from polyc.playback.agreement import tolerance_check
from polyc.playback.draws import DRAWS
from polyc.playback.estimate import Estimate
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import verify
from polyc.test.fuzz.random_programs import RandomProgram, drawn
from polyc.test.fuzz.search import parser, search
from polyc.test.support.agreeing import meant, type_of
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import PassRegistry, make_context

Arrays = Sequence[Any]

PASSES = (
    "frontend-to-tiny",
    "tiny-canonicalize-movements",
    "tiny-to-index",
    "index-to-region",
    "region-srnf",
    "region-inline-deferred",
    "region-streaming-softmax",
)
TO_TILES = ("plan-select", "region-expand-together", "region-invert-divisors", "region-to-gpu")
"""Every program goes on to the tiles of one architecture."""
FUSIONS: Sequence[tuple[Fuse, Split]] = tuple(
    product(("cost", "legal", "none"), ("none", "contractions"))
)
"""``fuse`` and ``split`` of index-to-region; a program's number says which."""
REFUSED = ("UnsupportedProgram", "NonSCoP")
"""Kinds by which a pass may say that it has no form for a program."""
REGISTRY = PassRegistry()
KINDS = tuple(DRAWS)


def differs(found: Arrays, wanted: Sequence[Estimate]) -> str | None:
    """The first output with an element that does not agree, or None (S0.6)."""
    for number, (array, right) in enumerate(zip(found, wanted, strict=True)):
        if array.shape != right.shape:
            return f"output {number} is {array.shape}, and {right.shape} is meant"
        if (wrong := tolerance_check(array, right, type_of(array))) is not None:
            return f"output {number}, {wrong}"
    return None


def made(name: str, seed: int) -> ModulePass:
    """The pass ``name``, with the options that a seed gives it."""
    if name == "index-to-region":
        fuse, split = FUSIONS[seed % len(FUSIONS)]
        return IndexToRegion(fuse, split)
    cls: Any = REGISTRY.find(name)
    arch = "sm_80" if seed % 2 else "sm_90a"
    return cast(ModulePass, cls(arch=arch) if name == "plan-select" else cls())


def failure(program: RandomProgram, seed: int, reached: Counter[str] | None = None) -> str | None:
    """What is wrong with a program at some layer, or None; ``reached`` counts its passes."""
    ctx = make_context()
    verify(program.module)
    text = str(program.module)
    module = parse_text(ctx, text, "fuzz.mlir")
    if str(module) != text:
        return "the text does not read back"
    graph = next(iter(module.ops))
    assert isinstance(graph, GraphOp)
    inputs = make_inputs(graph, program.sizes, seed, KINDS[seed % len(KINDS)])
    return difference(ctx, module, inputs, program.sizes, seed, reached)


def difference(
    ctx: Context,
    module: ModuleOp,
    inputs: Arrays,
    sizes: Mapping[str, int],
    seed: int,
    reached: Counter[str] | None = None,
) -> str | None:
    """What is wrong at the first layer that differs from what the graph ``@f`` of ``module`` gives
    for these inputs, or None; the module is left at the last layer.  ``reached`` counts the passes.
    """
    wanted = meant(module, inputs, sizes)
    for name in (*PASSES, *TO_TILES):
        try:
            run_pass(ctx, made(name, seed), module)
        except PolycError as error:
            if error.kind in REFUSED and name in ("index-to-region", "plan-select"):
                return None
            return f"{name}: {error.format()}"
        after = play(module, "f", inputs, sizes)
        if after is None:
            return f"{name} leaves nothing to play"
        if (why := differs(after, wanted)) is not None:
            return f"{name} changes the result: {why}"
        if reached is not None:
            reached[name] += 1
    return None


def fault(number: str, reached: Counter[str] | None = None) -> str | None:
    """What is wrong with the program of a number, or None; any exception is a fault."""
    dice = random.Random(number)
    program = drawn(dice)
    try:
        found = failure(program, dice.randrange(100), reached)
    except Exception as error:
        found = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    return None if found is None else f"at {dict(program.sizes)}: {found}"


def attempt(number: int, seed: int, show: bool = False) -> tuple[str | None, Counter[str]]:
    """The program of a number, and how far it came."""
    reached = Counter[str]()
    name = f"{seed} {number}"
    why = fault(name, reached)
    if why is not None and show:
        why += f"\n{drawn(random.Random(name)).module}"
    ends = {"to the regions": reached[PASSES[-1]], "to tiles": reached[TO_TILES[-1]]}
    return why, Counter(ends)


def main() -> int:
    options = parser(__doc__ or "", 20_000)
    options.add_argument("--show", action="store_true", help="print the programs that fail")
    args = options.parse_args()
    return search("program", partial(attempt, show=args.show), args, every=500)


if __name__ == "__main__":
    sys.exit(main())
