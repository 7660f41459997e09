"""A wide sweep of simulated kernels: random programs, sizes, schedules and completions.

Each run compiles a GEMM with a random epilogue, element type and storage order, takes a kernel
whose conditions hold, simulates it, and compares with an FP32 product.  A failure prints what
replays it.  ``make fuzz`` runs many; ``make test`` a few of the same (``test_fuzz.py``).

    python test/fuzz/kernels.py --runs 500 --seed 0
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.gpu.schedule import SCHEDULES
from polyc.playback.gpu.simulate import COMPLETIONS, gpu_module_of, simulate
from polyc.test.fuzz.search import parser, search
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]
TYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
EPILOGUES = ("none", "bias", "relu", "bias relu")


@dataclass(frozen=True)
class Run:
    """Everything that one run is made of; its text replays it."""

    arch: str
    element: str
    order: str
    epilogue: str
    sizes: tuple[int, int, int]
    schedule: str
    completion: str
    variant: int
    seed: int


def graph(element: str, order: str, epilogue: str) -> str:
    """The frontend graph; ``order`` is ``n`` or ``t`` for each operand."""
    a = f"!frontend.tensor<{'[K, M]' if order[0] == 't' else '[M, K]'}, {element}>"
    b = f"!frontend.tensor<{'[N, K]' if order[1] == 't' else '[K, N]'}, {element}>"
    bias, out = f"!frontend.tensor<[N], {element}>", f"!frontend.tensor<[M, N], {element}>"
    flags = ["acc = f32"]
    flags += [f"transpose_{s}" for s, o in zip("ab", order, strict=True) if o == "t"]
    lines = [f"%0 = frontend.gemm %A, %B {{{', '.join(flags)}}} : ({a}, {b}) -> {out}"]
    last, inputs = "%0", f"%A: {a}, %B: {b}"
    if "bias" in epilogue:
        inputs += f", %bias: {bias}"
        lines.append(f"%1 = frontend.elementwise add {last}, %bias : ({out}, {bias}) -> {out}")
        last = "%1"
    if "relu" in epilogue:
        lines.append(f"%2 = frontend.elementwise relu {last} : {out}")
        last = "%2"
    lines.append(f"frontend.output {last} : {out}")
    body = "\n".join(f"  {line}" for line in lines)
    return f"frontend.graph @gemm({inputs}) -> (C: {out}) {{\n{body}\n}}\n"


@cache
def compiled(arch: str, element: str, order: str, epilogue: str) -> ModuleOp:
    ctx = make_context()
    source = parse_text(ctx, graph(element, order, epilogue), "fuzz.mlir")
    return gpu_module_of(Compilation(ctx, source, arch).run().module)


def drawn(dice: random.Random) -> Run:
    """A random run; sizes are small, near tiles' edges, and of every divisibility."""

    def size(edge: int) -> int:
        kind = dice.randrange(4)
        if kind == 0:
            return dice.randint(0, 20)
        if kind == 1:
            return max(0, edge + dice.randint(-9, 9))
        step = dice.choice((1, 2, 8))
        return dice.randint(0, edge + 40) // step * step

    return Run(
        dice.choice(("sm_80", "sm_90a")),
        dice.choice(tuple(TYPES)),
        dice.choice(("nn", "nt", "tn", "tt")),
        dice.choice(EPILOGUES),
        (size(128), size(dice.choice((128, 256))), size(dice.choice((32, 64, 200)))),
        dice.choice(tuple(SCHEDULES)),
        dice.choice(COMPLETIONS),
        dice.randrange(3),
        dice.randrange(1 << 30),
    )


def failure(run: Run) -> str | None:
    """What is wrong with a run, or None."""
    module = compiled(run.arch, run.element, run.order, run.epilogue)
    m, n, k = run.sizes
    values = {"M": m, "N": n, "K": k}
    holding = [
        variant.variant_name
        for variant in module.dispatch().variants()
        if all(fact.holds(values) for fact in variant.facts.data)
    ]
    variant = holding[run.variant % len(holding)]
    rng = np.random.default_rng(run.seed)

    def tensor(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32).astype(TYPES[run.element])

    a = tensor(*((k, m) if run.order[0] == "t" else (m, k)))
    b = tensor(*((n, k) if run.order[1] == "t" else (k, n)))
    inputs = [a, b]
    left = a.T if run.order[0] == "t" else a
    right = b.T if run.order[1] == "t" else b
    want = left.astype(np.float32) @ right.astype(np.float32)
    if "bias" in run.epilogue:
        inputs.append(tensor(n))
        want = want + inputs[2].astype(np.float32)
    if "relu" in run.epilogue:
        want = np.maximum(want, np.float32(0.0))
    result = simulate(
        module,
        inputs,
        values,
        variant=variant,
        schedule=run.schedule,
        completion=run.completion,
        seed=run.seed,
    )
    if result.findings:
        return f"{variant}: {result.findings[0].error().format()}"
    found = result.outputs[0].astype(np.float32)
    ulp = np.abs(want) * (2.0**-10 if run.element == "f16" else 2.0**-7)
    wrong = np.abs(found - want) > 1e-3 + 1e-3 * np.abs(want) + ulp
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        return f"{variant}: [{i}, {j}] is {found[i, j]}, not {want[i, j]}"
    return None


def attempt(number: int, seed: int) -> tuple[str | None, Counter[str]]:
    """The kernel and launch of a number."""
    run = drawn(random.Random(f"{seed} {number}"))
    why = failure(run)
    return None if why is None else f"{run}\n  {why}", Counter()


def main() -> int:
    return search("kernel", attempt, parser(__doc__ or "", 500).parse_args(), every=50)


if __name__ == "__main__":
    sys.exit(main())
