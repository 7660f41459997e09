"""Time polyc's softmax, LayerNorm and RMSNorm beside a copy and PyTorch's own, in one process.

``bench/race.py`` says how it is timed.  A kernel that reads every element once and writes it once
can be as fast as ``Tensor.copy_`` of the same tensor, which is the peer; PyTorch's own kernels are
timed beside it.  ``polyc`` are the kernels of examples/tile, ``polyc graph`` what the compiler
makes of the graphs in examples by its own plan, both as the dispatch takes them; with ``--all``
every variant that takes the shape is timed.

    python bench/norms.py [--shapes 16384x4096 32x1048576] [--ops softmax] [--dtype f16] [--all]

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polyc.bench import race, right
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.estimate import Estimate
from polyc.playback.functions import widen
from polyc.runtime.program import Program
from polyc.tools.load import load

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ["16384x4096", "16384x8192", "2048x32768", "32x1048576"]
EPSILON = 1e-5
Shape = tuple[int, int]


@dataclass(frozen=True)
class Norm:
    """One function of rows: its file, how many vectors it takes, and PyTorch's own."""

    file: str
    vectors: int
    own: Callable[[Any, Any, Sequence[Any]], Any]
    meant: Callable[[Any, Sequence[Any]], Any]
    """The function on rows of the host, f32 with errors."""


def _mean(x: Any) -> Any:
    """The mean of each row, summed in f64."""
    return widen(x.sum(1, keepdims=True, dtype=np.float64)) / np.float32(x.shape[1])


def _softmax(x: Any, _: Sequence[Any]) -> Any:
    powers = np.exp(x - np.max(x, axis=1, keepdims=True))
    return powers / widen(powers.sum(1, keepdims=True, dtype=np.float64))


def _rms_norm(x: Any, vectors: Sequence[Any]) -> Any:
    return x * (np.float32(1) / np.sqrt(_mean(x * x) + np.float32(EPSILON))) * vectors[0]


def _layer_norm(x: Any, vectors: Sequence[Any]) -> Any:
    return _rms_norm(x - _mean(x), vectors) + vectors[1]


ARCH = "sm_90a"
"""What the graphs are compiled for; those of examples/tile name it themselves."""

NORMS = {
    "softmax": Norm("softmax.mlir", 0, lambda f, x, _: f.softmax(x, 1), _softmax),
    "layer_norm": Norm(
        "layer_norm.mlir",
        2,
        lambda f, x, v: f.layer_norm(x, x.shape[1:], v[0], v[1], EPSILON),
        _layer_norm,
    ),
    "rms_norm": Norm(
        "rms_norm.mlir", 1, lambda f, x, v: f.rms_norm(x, x.shape[1:], v[0], EPSILON), _rms_norm
    ),
}
EXTRA = {"softmax": "softmax_two_pass.mlir"}
"""For comparison: a program beside the first of its kind."""


def parse_shape(text: str) -> Shape:
    """``16384x4096`` is 16384 rows of 4096."""
    sizes = [int(size) for size in text.split("x")]
    if len(sizes) != 2 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not ROWSxCOLUMNS")
    return sizes[0], sizes[1]


@dataclass(frozen=True)
class Inputs:
    """A matrix, the vectors of its columns, and the output."""

    x: Any
    vectors: tuple[Any, ...]
    out: Any


def make_inputs(torch: Any, shape: Shape, dtype: Any, l2_bytes: int) -> list[Inputs]:
    """Random matrices, in as many copies as make four times the L2 cache, and at least two."""
    rows, columns = shape
    vectors = tuple(torch.randn(columns, device="cuda", dtype=dtype) for _ in range(2))
    found: list[Inputs] = []
    for _ in range(max(2, race.copies_for(4 * rows * columns, l2_bytes))):
        x = torch.randn(rows, columns, device="cuda", dtype=dtype)
        found.append(Inputs(x, vectors, torch.empty_like(x)))
    return found


def check(torch: Any, norm: Norm, inputs: Inputs, run: Callable[[int], object]) -> float:
    """The largest error in parts of what agrees; over 1 is wrong (S0.6)."""
    inputs.out.fill_(float("nan"))
    run(0)
    vectors = [right.on_host(torch, v).astype(np.float32) for v in inputs.vectors]

    def wanted(rows: Sequence[int]) -> Any:
        x = Estimate(right.on_host(torch, inputs.x[list(rows)]))
        return norm.meant(x.astype(np.float32), vectors)

    return right.worst(torch, inputs.out, right.picked(inputs.x.shape[0]), wanted)


def compile_programs(op: str, dtype: str) -> list[tuple[str, Program]]:
    """The programs of one function, each with what its kernels are called."""
    files = [("polyc", f"tile/{name}") for name in (NORMS[op].file, EXTRA.get(op)) if name]
    found: list[tuple[str, Program]] = []
    for kind, file in [*files, ("polyc graph", NORMS[op].file)]:
        text = (ROOT / "examples" / file).read_text(encoding="utf-8")
        text = re.sub(r"\bf16\b", dtype, text)
        text = re.sub(r"\beps \S+", f"eps {EPSILON:.1e}", text)
        start = time.perf_counter()
        program = load(text, ARCH if kind == "polyc graph" else None)
        print(f"compiled {file} in {time.perf_counter() - start:.2f} s", flush=True)
        for line in program.warnings():
            print(f"  {line}")
        found.append((kind, program))
    return found


def contestants(
    torch: Any,
    op: str,
    programs: Sequence[tuple[str, Program]],
    sets: Sequence[Inputs],
    every: bool,
) -> list[Contestant]:
    """The copy, polyc's kernels and PyTorch's for one function and shape."""
    norm, count = NORMS[op], len(sets)
    rows, columns = sets[0].x.shape
    sizes = {"M": rows, "N": columns}

    def copy(i: int) -> None:
        sets[i % count].out.copy_(sets[i % count].x)

    found = [Contestant("copy", copy)]
    kinds: set[str] = set()
    for kind, program in programs:
        first = kind not in kinds
        kinds.add(kind)
        chosen = program.chosen(sizes)
        for name in program.variants:
            if name != chosen and not every:
                continue
            try:
                launches = [
                    program.launch([s.x, *s.vectors[: norm.vectors]], [s.out], sizes, name)
                    for s in sets
                ]
            except PolycError:
                continue  # The kernel does not take this shape.
            traits = {"chosen": name == chosen and first}
            run = race.in_turns(torch, launches)
            found.append(Contestant(f"{kind} {name}", run, False, traits))

    def own(i: int) -> None:
        norm.own(torch.nn.functional, sets[i % count].x, sets[i % count].vectors)

    found.append(Contestant(f"torch {op}", own, False))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time polyc's norms beside a copy.")
    parser.add_argument("--shapes", nargs="+", type=parse_shape, metavar="ROWSxCOLUMNS")
    parser.add_argument("--ops", nargs="+", choices=NORMS, default=list(NORMS))
    parser.add_argument("--all", action="store_true", help="time every variant")
    parser.add_argument("--dtype", choices=["f16", "bf16"], default="f16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--out", default=str(ROOT / "bench" / "results"), help="folder, or - for none"
    )
    parser.add_argument("--commit", help="what to record where there is no git")
    args = parser.parse_args(argv)
    torch = race.load_torch("bench/norms.py")
    try:
        return run(torch, args)
    except PolycError as error:
        print(error, file=sys.stderr)
        return 1


def run(torch: Any, args: argparse.Namespace) -> int:
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[args.dtype]
    torch.manual_seed(0)
    programs = {op: compile_programs(op, args.dtype) for op in args.ops}
    report: dict[str, Any] = {
        **race.surroundings(torch, args.rounds, args.commit),
        "dtype": args.dtype,
        "kernels": {
            f"{kind} {name}": {"registers": info.registers, "spill_bytes": info.spill_bytes}
            for of_op in programs.values()
            for kind, program in of_op
            for name, info in program.kernels.items()
        },
    }
    print(f"{report['device']}, torch {report['torch']}, {args.dtype}")
    rows: list[dict[str, Any]] = []
    wrong = False
    shapes: list[Shape] = args.shapes or [parse_shape(text) for text in SHAPES]
    for shape in shapes:
        sets = make_inputs(torch, shape, dtype, report["l2_bytes"])
        for op in args.ops:
            racers = contestants(torch, op, programs[op], sets, args.all)
            errors = {
                r.name: check(torch, NORMS[op], sets[0], r.run)
                for r in racers
                if r.name.startswith("polyc")
            }
            wrong |= any(error > 1 for error in errors.values())
            race.measure(torch, racers, args.rounds, len(sets))
            case = f"{op} {shape[0]}x{shape[1]}"
            found = race.result_rows(case, racers, 4 * shape[0] * shape[1], "TB/s", errors)
            race.print_rows(found)
            rows += found
        del sets
        torch.cuda.empty_cache()
    report["rows"] = rows
    if args.out != "-":
        path = race.write_report(f"norms-{args.dtype}", report, args.out)
        print(f"wrote {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
