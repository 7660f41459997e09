"""Random programs in the shape of models, from their graph down to simulated kernels.

A program is drawn from a number (``random_models.py``): one to four of the pieces that models are
made of, in sizes of which many fit TMA, cp.async and the tensor cores.  It is played back at every
layer, its kernels are printed, and one of its variants is simulated in one order of warps and of
completions; each is compared with the FP32 reference on a kind of inputs that the number chooses.
In most programs the cost decides which contractions have kernels of their own, in the others all
have.  A program that a pass refuses counts as one that ends there.

    python test/fuzz/models.py --runs 2000 --seed 0
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from signal import ITIMER_VIRTUAL
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import AttentionOp, GraphOp
from polyc.dialects.gpu.launches import why_crowded
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Split
from polyc.passes.pipeline import STAGES, build
from polyc.playback.draws import DRAWS
from polyc.playback.gpu.schedule import SCHEDULES
from polyc.playback.gpu.simulate import COMPLETIONS, MULTIPROCESSORS, gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import verify
from polyc.test.fuzz.layers import REFUSED, differs
from polyc.test.fuzz.random_models import drawn
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.test.fuzz.search import parser, search
from polyc.test.support.agreeing import meant
from polyc.test.support.limits import TooLong, limited
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context

ALONE = 3
"""Most of a symbol's size where threads compute alone, which takes the simulator long."""
SECONDS = 1.5
"""Of processor time, after which a simulation goes no further."""
LAYERS = ("frontend", "tiny", "index", "region")


def sources(value: SSAValue) -> set[int]:
    """The graph's inputs, by position, that a value is computed from."""
    found: set[int] = set()
    seen, left = {value}, [value]
    while left:
        one = left.pop()
        if isinstance(one, BlockArgument):
            found.add(one.index)
        elif isinstance(one.owner, Operation):
            new = set(one.owner.operands) - seen
            seen |= new
            left += new
    return found


def inputs_of(graph: GraphOp, sizes: Mapping[str, int], dice: random.Random) -> list[Any]:
    """Inputs of a kind; what a mask may hide of V stays finite, as docs/semantics.md asks for."""
    kind, seed = dice.choice(tuple(DRAWS)), dice.randrange(1 << 20)
    hidden: set[int] = set()
    computed = False
    for op in graph.walk():
        if isinstance(op, AttentionOp) and (op.masks or any(x is not None for x in op.span)):
            hidden |= sources(op.v)
            computed |= not isinstance(op.v, BlockArgument)
    free = [i for i in range(len(graph.inputs)) if i not in hidden]
    if (kind == "large" and computed) or (kind == "special" and not free):
        kind = "uniform"
    if kind == "special":
        seed = seed * len(graph.inputs) + dice.choice(free)
    return make_inputs(graph, sizes, seed, kind)


def on_tensor_cores(module: ModuleOp) -> bool:
    """Whether a plan of the module has a region on the tensor cores."""
    plans = (op for op in module.walk() if isinstance(op, ScheduleOp))
    return any(plan.mma.data not in ("none", "fma") for plan in plans)


def variant_of(module: GpuModuleOp, sizes: dict[str, int], dice: random.Random) -> str | None:
    """One of the variants that may run at the sizes, or None for the dispatch's choice."""
    holding = [
        variant.variant_name
        for variant in module.dispatch().variants()
        if all(fact.holds(sizes) for fact in variant.facts.data)
        and why_crowded(variant, sizes, MULTIPROCESSORS) is None
    ]
    return dice.choice([None, *holding])


def failure(
    program: RandomProgram, dice: random.Random, reached: Counter[str] | None = None
) -> str | None:
    """What is wrong with a program at some layer or in the simulator, or None."""
    counts = Counter[str]() if reached is None else reached
    ctx = make_context()
    verify(program.module)
    text = str(program.module)
    module = parse_text(ctx, text, "fuzz.mlir")
    if str(module) != text:
        return "the text does not read back"
    arch = dice.choice(("sm_80", "sm_90a"))
    order, completion = dice.choice(tuple(SCHEDULES)), dice.choice(COMPLETIONS)
    split: Split = dice.choice(("none", "none", "none", "contractions"))
    kept, refused = {"frontend": module.clone()}, None
    try:
        for stage, names in STAGES.items():
            for name in names:
                made = IndexToRegion("cost", split) if name == "index-to-region" else None
                run_pass(ctx, made or build(name, arch), module, check=made is not None)
            verify(module)
            kept[stage] = module.clone()
    except PolycError as error:
        if error.kind not in REFUSED:
            return f"{arch}, split {split}: {error.format()}"
        refused = error.kind
    sizes = dict(program.sizes)
    if "plan" in kept and on_tensor_cores(kept["plan"]):
        counts["on tensor cores"] += 1
    else:
        sizes = {name: min(size, ALONE) for name, size in sizes.items()}
    graph = next(iter(kept["frontend"].ops))
    assert isinstance(graph, GraphOp)
    with np.errstate(all="ignore"):
        inputs = inputs_of(graph, sizes, dice)
        wanted = meant(kept["frontend"], inputs, sizes)
    for layer in LAYERS:
        if layer in kept:
            with np.errstate(all="ignore"):
                found = play(kept[layer], "f", inputs, sizes)
            if found is None:
                return f"{layer} has nothing to play"
            if (why := differs(found, wanted)) is not None:
                return f"{layer} changes the result: {why}"
    if refused is not None:
        counts[f"end as {refused}"] += 1
        return None
    kernels = gpu_module_of(module)
    try:
        cuda_source(kernels)
    except PolycError as error:
        return f"{arch}, split {split}, the kernels have no text: {error.format()}"
    variant = variant_of(kernels, sizes, dice)
    seed = dice.randrange(1 << 20)
    with np.errstate(all="ignore"):
        try:
            with limited(SECONDS, ITIMER_VIRTUAL):
                result = simulate(kernels, inputs, sizes, variant, order, seed, completion)
        except TooLong:
            counts["too long to simulate"] += 1
            return None
    where = f"{arch}, split {split}, {result.variant}, {order}, {completion}"
    if result.findings:
        return f"{where}: {result.findings[0].error().format()}"
    if (why := differs(result.outputs, wanted)) is not None:
        return f"{where}: {why}"
    counts["simulated"] += 1
    return None


def fault(number: str, reached: Counter[str] | None = None) -> str | None:
    """What is wrong with the program of a number, or None; any exception is a fault."""
    dice = random.Random(number)
    program = drawn(dice)
    try:
        found = failure(program, dice, reached)
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
    return why, reached


def main() -> int:
    options = parser(__doc__ or "", 2000)
    options.add_argument("--show", action="store_true", help="print the programs that fail")
    args = options.parse_args()
    return search("model", partial(attempt, show=args.show), args, every=100)


if __name__ == "__main__":
    sys.exit(main())
