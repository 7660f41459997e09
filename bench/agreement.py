"""How many of its errors right kernels are off: what the factor of the comparison stands on (S0.6).

Every program of the corpus below is computed on every kind of inputs, and each output is held
against the reference and its derived errors (``polyc.playback.estimate``).  On the CPU the layers
are played back, and small kernels simulated; with ``--device cuda`` the kernels of both
architectures run, at sizes of several tiles.  What is printed and written is, for each family and
way, the largest number of errors that a right result needs; the factor is held to at most 16
times the largest of all by test/unit/bench/test_table.py.

    python bench/agreement.py [--device cuda] [--output bench/results/agreement-cpu.json]

It also measures what the tensor cores' own sums lose, towards zero, for each 16 products.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyc.bench.race import commit, now
from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.agreement import errors_needed, unknown
from polyc.playback.draws import DRAWS
from polyc.playback.estimate import FACTOR
from polyc.playback.reference import make_inputs
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.play import play
from polyc.tools.registry import make_context

ROOT = Path(__file__).resolve().parent.parent
ARCHS = ("sm_80", "sm_90a")
LAYERS = ("frontend", "tiny", "index", "region")
ROUNDS_UP = 2.0**-23
"""The unit in the last place of f32, relative to a number just above a power of 2."""


@dataclass(frozen=True)
class Case:
    """A graph, its family, and sizes for the layers and the simulator, and for a GPU."""

    family: str
    name: str
    text: str
    small: Mapping[str, int]
    large: Mapping[str, int]


def product(out: str, element: str = "f16") -> str:
    a, b, c = (
        f"!frontend.tensor<[{shape}], {kind}>"
        for shape, kind in (("M, K", element), ("K, N", element), ("M, N", out))
    )
    return (
        f"frontend.graph @product(%A: {a}, %B: {b}) -> (C: {c}) {{\n"
        f"  %0 = frontend.gemm %A, %B {{acc = f32}} : ({a}, {b}) -> {c}\n"
        f"  frontend.output %0 : {c}\n}}\n"
    )


def corpus() -> Iterator[Case]:
    """Programs of every family, those of the unit tests among them."""
    from polyc.test.support import attention_programs, loop_programs, row_programs

    def example(name: str) -> str:
        return (ROOT / "examples" / f"{name}.mlir").read_text(encoding="utf-8")

    small, large = {"M": 70, "N": 72, "K": 200}, {"M": 300, "N": 520, "K": 4096}
    for name in ("gemm_bias_relu", "gemm_bias_relu_bf16"):
        yield Case("matmul", name, example(name), small, large)
    for element in ("f16", "bf16"):
        deep = {"M": 130, "N": 264, "K": 16_384}
        yield Case("matmul", f"product, f32 out, {element}", product("f32", element), small, deep)
    yield Case("matmul", "mlp", example("mlp"), small | {"L": 40}, large | {"L": 1000})
    pixels = {"N": 2, "H": 9, "W": 7, "C": 24, "F": 40}
    yield Case("conv", "conv_silu", example("conv_silu"), pixels, pixels | {"C": 136, "F": 264})
    for name, program in attention_programs.PROGRAMS.items():
        for sizes in program.sizes[:1]:
            yield Case("attention", name, program.text(), sizes, sizes)
    heads = attention_programs.PROGRAMS["causal"]
    yield Case("attention", "long", heads.text(), heads.sizes[0], {"H": 2, "M": 600, "N": 3000})
    for name, rows in row_programs.PROGRAMS.items():
        yield Case("rows", name, rows.text, rows.sizes(264), rows.sizes(8200))
    for name, loops in loop_programs.PROGRAMS.items():
        sizes = loops.sizes[0]
        yield Case("loops", name, str(loops.module()), sizes, sizes)


Found = dict[tuple[str, str], tuple[float, str]]


class Needs:
    """The largest number of errors by family and way, and the program that needs it."""

    def __init__(self) -> None:
        self.worst: Found = {}
        self.elements, self.unknown, self.wrong = 0, 0, 0

    def note(self, case: Case, way: str, expected: Expected, outputs: Sequence[Any]) -> None:
        for kind, actual, wanted in zip(expected.types, outputs, expected.outputs, strict=True):
            needed = errors_needed(np.asarray(actual), wanted, kind)
            most = float(needed.max()) if needed.size else 0.0
            self.elements += needed.size
            self.unknown += unknown(wanted)
            key, where = (case.family, way), f"{case.name}, {expected.draw}"
            if most > FACTOR:
                self.wrong += 1
                print(f"over the factor: {case.family} {way} {where}: {most:.3g}", flush=True)
            if most >= self.worst.get(key, (-1.0, ""))[0]:
                self.worst[key] = most, where

    def join(self, other: Needs) -> None:
        """Take in what another process found."""
        self.elements += other.elements
        self.unknown += other.unknown
        self.wrong += other.wrong
        for key, found in other.worst.items():
            if found[0] >= self.worst.get(key, (-1.0, ""))[0]:
                self.worst[key] = found

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"family": family, "way": way, "needed": needed, "program": where}
            for (family, way), (needed, where) in sorted(self.worst.items())
        ]


def drawn(case: Case, sizes: Mapping[str, int]) -> Iterator[Expected]:
    graph = next(graphs(parse_text(make_context(), case.text, case.name)))
    for draw in DRAWS:
        with np.errstate(all="ignore"):
            yield Expected.of(graph, sizes, 0, draw)


def on_cpu(needs: Needs, case: Case, simulated: bool) -> None:
    """Play the layers back, and simulate the kernel for one architecture."""
    job = Compilation(make_context(), parse_text(make_context(), case.text, case.name), "sm_90a")
    job.keep = LAYERS
    job.run()
    for expected in drawn(case, case.small):
        for layer in LAYERS:
            with np.errstate(all="ignore"):
                outputs = play(job.kept[layer], expected.name, expected.inputs, expected.symbols)
            if outputs is not None:
                needs.note(case, layer, expected, outputs)
        if simulated:
            outputs = play(job.module, expected.name, expected.inputs, expected.symbols)
            if outputs is not None:
                needs.note(case, "simulator", expected, outputs)


def on_gpu(needs: Needs, case: Case) -> None:
    """Run every variant of both architectures' kernels that takes the sizes."""
    from polyc.runtime.program import Program

    found = [*drawn(case, case.large)]
    for arch in ARCHS:
        ctx = make_context()
        job = Compilation(ctx, parse_text(ctx, case.text, case.name), arch)
        program = Program.compile(job.run().module)
        for expected in found:
            for variant in program.variants:
                try:
                    made = program.run(expected.inputs, symbols=expected.symbols, variant=variant)
                except PolycError as error:
                    if error.kind == "NoVariant":
                        continue
                    raise
                needs.note(case, arch, expected, [np.asarray(x) for x in made])


def needs_of(case: Case, device: str) -> Needs:
    """What one program needs, in a process of its own."""
    needs = Needs()
    try:
        if device == "cuda":
            on_gpu(needs, case)
        else:
            on_cpu(needs, case, simulated=case.family != "loops")
    except PolycError as error:
        print(f"{case.family} {case.name}: {error}", flush=True)
        needs.wrong += 1
    return needs


def tensor_cores() -> list[dict[str, Any]]:
    """Units in the last place that sums of products lose for each 16 products, by depth.

    Both operands are positive, so that every partial sum is as large as it can be; random signs
    are beside it.  Positive figures are losses towards zero.
    """
    from polyc.runtime.program import Program

    rows: list[dict[str, Any]] = []
    for arch in ARCHS:
        for element in ("f16", "bf16"):
            ctx = make_context()
            text = product("f32", element)
            program = Program.compile(
                Compilation(ctx, parse_text(ctx, text, "product"), arch).run().module
            )
            graph = next(graphs(parse_text(ctx, text, "product")))
            for depth in (256, 4096, 65_536):
                for positive in (True, False):
                    sizes = {"M": 64, "N": 64, "K": depth}
                    inputs = make_inputs(graph, sizes, 1)
                    if positive:
                        inputs = [np.abs(x) for x in inputs]
                    (found,) = program.run(inputs, symbols=sizes)
                    a, b = (x.astype(np.float64) for x in inputs)
                    exact, size = a @ b, np.sqrt((a * a) @ (b * b))
                    lost = (np.abs(exact) - np.abs(np.asarray(found, np.float64))) / (
                        ROUNDS_UP * (depth / 16) * (np.abs(exact) + size)
                    )
                    rows.append(
                        {
                            "arch": arch,
                            "element": element,
                            "depth": depth,
                            "positive": positive,
                            "mean_lost": float(lost.mean()),
                            "largest": float(np.abs(lost).max()),
                        }
                    )
                    print(rows[-1], flush=True)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--families", nargs="+", help="only these families")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--output", metavar="FILE")
    args = parser.parse_args(argv)
    needs = Needs()
    cases = [c for c in corpus() if not args.families or c.family in args.families]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
        for found in pool.map(needs_of, cases, [args.device] * len(cases)):
            needs.join(found)
    report: dict[str, Any] = {
        "device": args.device,
        "commit": args.commit or commit(),
        "date": now(),
        "factor": FACTOR,
        "elements": needs.elements,
        "unknown": needs.unknown,
        "over_the_factor": needs.wrong,
        "rows": needs.rows(),
    }
    if args.device == "cuda":
        from polyc.runtime import driver

        report["device"] = driver.device().name
        report["tensor_cores"] = tensor_cores()
    for row in report["rows"]:
        print(f"{row['family']:10} {row['way']:10} {row['needed']:8.3f}  {row['program']}")
    print(f"{needs.elements} elements, {needs.unknown} of which nothing is known")
    if args.output is not None:
        Path(args.output).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if needs.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
