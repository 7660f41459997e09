"""Mutants of the kernels that the compiler makes of each family, as a user's fault would look.

Each program is lowered for both architectures.  Of the mistakes of synchronisation and of
arithmetic (``playback/mutation``) a sample runs, even over
the kinds, at sizes with tails, in several interleavings and on several kinds of inputs, until one
shows it.  A mutant survives when none does, and it is not the same to the bit with the same order
of events.

    python bench/family_mutants.py [--each 24] [--jobs 2] [--output FILE]

The figures of docs/tools/mutation.md are those of bench/results/family_mutants.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyc.bench.conv_forms import Form
from polyc.bench.race import commit, now
from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import CHANGES, Mutant, mutants
from polyc.playback.mutation.arithmetic import ARITHMETIC
from polyc.playback.mutation.verdict import Case, Verdict, judge
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context

ROOT = Path(__file__).resolve().parent.parent
ARCHS = ("sm_80", "sm_90a")
RUNS = (
    ("uniform", ("round-robin", "late")),
    ("large", ("random", "random")),
    ("rows", ("one-warp-ahead", "early")),
    ("mixed", ("random", "late")),
    ("special", ("round-robin", "random")),
)
"""A kind of inputs, and the interleaving with when copies complete."""


@dataclass(frozen=True)
class Program:
    """A graph, its family, and sizes with tails."""

    family: str
    name: str
    text: str
    sizes: Sequence[Mapping[str, int]]


def programs() -> list[Program]:
    """Programs of every family."""
    from polyc.test.support import attention_programs, loop_programs, row_programs
    from polyc.test.support.gemm_programs import Product

    def example(name: str) -> str:
        return (ROOT / "examples" / f"{name}.mlir").read_text(encoding="utf-8")

    product = [{"M": 136, "N": 136, "K": 200}, {"M": 9, "N": 40, "K": 72}]
    found = [
        Program("matmul", "gemm_bias_relu", example("gemm_bias_relu"), product),
        Program("matmul", "gemm_bias_relu, odd sizes", example("gemm_bias_relu"),
                [{"M": 9, "N": 33, "K": 77}, {"M": 130, "N": 17, "K": 38}]),
        Program("conv", "conv_silu", example("conv_silu"),
                [{"N": 2, "H": 7, "W": 5, "C": 24, "F": 40}]),
        Program("conv", "conv_silu, odd channels", example("conv_silu"),
                [{"N": 1, "H": 5, "W": 6, "C": 5, "F": 9}]),
    ]  # fmt: skip
    pixels = Product((40, 704), ("B", 704, 49), ("B", 40, 49), more=((("B", 40, 49), "add"),))
    found.append(Program("matmul", "rows of 49 taken as one", pixels.text, [{"B": 2}]))
    late = Product((136, 200), ("B", 200, 36), ("B", 136, 36))
    found.append(Program("matmul", "rows of 36 by threads", late.text, [{"B": 2}]))
    square = ((3, 3), (2, 2), (1, 1), (1, 1), 1, False)
    few, floats = (
        Form(1, 3, 136, (29, 46), *square, "f16"),
        Form(1, 36, 40, (17, 19), *square, "f32"),
    )
    for name, form in (("whole windows of three planes", few), ("windows of TF32", floats)):
        found.append(Program("conv", name, form.text(constant=False), [{}]))
    heads = attention_programs.PROGRAMS
    for name in ("full", "causal", "window to both sides", "boolean mask, causal", "log-sum-exp"):
        found.append(
            Program(
                "attention",
                name,
                heads[name].text(),
                [{"H": 1, "M": 40, "N": 75}, {"H": 1, "M": 70, "N": 150}],
            )
        )
    rows = row_programs.PROGRAMS
    for name in ("softmax", "layer_norm", "rms_norm", "log_softmax"):
        sizes = [rows[name].sizes(264), rows[name].sizes(77)]
        found.append(Program("rows", name, rows[name].text, sizes))
    loops = loop_programs.PROGRAMS
    for name in (
        "a softmax over columns",
        "a product of f32",
        "a convolution in groups",
        "windows along lines",
    ):
        program = loops[name]
        found.append(Program("loops", name, str(program.module()), program.sizes[:2]))
    return found


def sampled(module: ModuleOp, kernels: set[str], count: int, seed: str) -> list[Mutant]:
    """Mutants of some kernels, as evenly over the kinds of mistakes as there are."""
    dice = random.Random(seed)
    kinds: dict[str, list[Mutant]] = {}
    for rules in (CHANGES, ARITHMETIC):
        for mutant in mutants(module, rules):
            if mutant.kernel in kernels:
                kinds.setdefault(f"{mutant.op} {mutant.change}", []).append(mutant)
    for found in kinds.values():
        dice.shuffle(found)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(kinds.values()):
        for kind in dice.sample(sorted(kinds), len(kinds)):
            if kinds[kind] and len(chosen) < count:
                chosen.append(kinds[kind].pop())
    return chosen


def verdicts(program: Program, arch: str, count: int) -> list[Verdict]:
    """The verdicts on a sample of a program's mutants, in a process of its own."""
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, program.text, program.name), arch)
    graph = next(graphs(parse_text(ctx, program.text, program.name)))
    module = gpu_module_of(job.run().module)
    cases: list[Case] = []
    for sizes in program.sizes:
        for draw, order in RUNS:
            with np.errstate(all="ignore"):
                wanted = Expected.of(graph, sizes, 0, draw)
                cases.append(Case.of(module, None, sizes, wanted.inputs, wanted.outputs, order))
    ran = {name for case in cases for name, _ in case.right.launches}
    found: list[Verdict] = []
    for mutant in sampled(module, ran, count, f"{program.name} {arch}"):
        with np.errstate(all="ignore"):
            found.append(judge(mutant, cases))
    return found


def task(item: tuple[Program, str, int]) -> tuple[Program, str, list[Verdict]]:
    program, arch, count = item
    return program, arch, verdicts(program, arch, count)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--each", type=int, default=24, help="mutants of a program and architecture"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--families", nargs="+", help="only these families")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--output", metavar="FILE")
    args = parser.parse_args(argv)
    chosen = [p for p in programs() if not args.families or p.family in args.families]
    items = [(p, arch, args.each) for p in chosen for arch in ARCHS]
    counts: dict[tuple[str, str], Counter[str]] = {}
    survived: list[dict[str, Any]] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
        for program, arch, found in pool.map(task, items):
            count = counts.setdefault((program.family, arch), Counter())
            count.update(v.outcome for v in found)
            count["by the result"] += sum(v.how == "the result" for v in found)
            print(program.family, program.name, arch, dict(Counter(v.outcome for v in found)))
            for v in found:
                if v.outcome == "survived":
                    survived.append(
                        {"program": program.name, "arch": arch, "mutant": str(v.mutant)}
                    )
                    print(f"    survived: {v.mutant}", flush=True)
    report = {
        "machine": "two cores" if args.jobs == 2 else f"{args.jobs} processes",
        "commit": args.commit or commit(),
        "date": now(),
        "rows": [
            {"family": family, "arch": arch, "mutants": sum(
                count[o] for o in ("caught", "harmless", "survived")), **count}
            for (family, arch), count in counts.items()
        ],
        "survived": survived,
    }  # fmt: skip
    if args.output is not None:
        Path(args.output).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    total = sum(counts.values(), Counter[str]())
    print(dict(total))
    return 0


if __name__ == "__main__":
    sys.exit(main())
