"""Time products whose rows have any length: copies of operands beside kernels that take them as
they are, and cuBLAS, on one GPU, in one process.

    python bench/odd.py [--shapes 4095 2048x2048x2044] [--random 12] [--dtype f16]

A shape is as ``bench/gemm.py`` has it; what runs is its example, each variant that takes the shape
by name, the one that the dispatch takes first.  ``bench/race.py`` says how it is timed.  Needs an
NVIDIA GPU and PyTorch, which brings cuBLAS.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from math import exp, log

from polyc.bench import gemm, race
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.pipeline import Compilation

SHAPES = [
    "4095",
    "4097x4104x4100",
    "2048x2048x2044",
    "1000",
    "1001",
    "2047",
    "511",
    "4096x4095x4096",
    "4096x4096x4095",
    "17x4096x4095",
    "128x50257x4096",
    "4095x4095x127",
    "254x254x254",
]
ALSO = ("padded", "cp_async", "scalar")
"""Variants that are timed beside the one that is chosen, where they take a shape."""


def drawn(count: int, seed: int) -> list[gemm.Shape]:
    """Shapes of which two sizes at least are odd."""
    rng = random.Random(seed)

    def size() -> int:
        return round(exp(rng.uniform(log(200), log(5000))))

    return [(size() | 1, size() | 1, size() | rng.randint(0, 1)) for _ in range(count)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time products of odd sizes beside cuBLAS.")
    parser.add_argument("--shapes", nargs="*", type=gemm.parse_shape, metavar="MxNxK")
    parser.add_argument("--random", type=int, default=12, help="shapes drawn beside them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", choices=gemm.EXAMPLES, default="f16")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args(argv)
    torch = race.load_torch("bench/odd.py")
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[args.dtype]
    torch.manual_seed(0)
    job = Compilation.of_file(gemm.ROOT / "examples" / gemm.EXAMPLES[args.dtype], "sm_90a")
    program = Program.compile(job.run().module)
    l2 = race.surroundings(torch, args.rounds, None)["l2_bytes"]
    listed = [gemm.parse_shape(s) for s in SHAPES] if args.shapes is None else args.shapes
    wrong, ratios = False, list[float]()
    for shape in [*listed, *drawn(args.random, args.seed)]:
        m, n, k = shape
        sets = gemm.make_inputs(torch, shape, dtype, l2)
        racers = gemm.contestants(torch, {"sm_90a": program}, sets)
        chosen = racers[0].name.rpartition("_")[2]
        for name in ALSO:
            if name != chosen and (found := by_name(torch, program, sets, name)) is not None:
                racers.insert(1, found)
        print(f"{m}x{n}x{k}")
        errors = [gemm.check(torch, sets[0], r.run, bool(r.traits["fused"])) for r in racers]
        race.measure(torch, racers, args.rounds, len(sets))
        for racer, error in zip(racers, errors, strict=True):
            tflops = 2 * m * n * k / racer.median / 1e9
            bad = error > 1.0 and not racer.peer
            wrong |= bad
            mark = f"  WRONG by {error:.3g} of the tolerance" if bad else ""
            print(f"  {racer.name:40} {tflops:8.1f} {racer.median * 1e3:9.2f} us{mark}", flush=True)
        peer = min(r.median for r in racers if r.name == "cuBLASLt bias+relu")
        ratios.append(peer / racers[0].median)
        print(f"  of cuBLASLt fused: {ratios[-1]:.2f}")
    print(f"geometric mean of {len(ratios)}: {exp(sum(map(log, ratios)) / len(ratios)):.3f}")
    return 1 if wrong else 0


def by_name(
    torch: object, program: Program, sets: Sequence[gemm.Inputs], name: str
) -> Contestant | None:
    """A variant of the program, or None where it does not take the shape."""
    variant = f"{program.name}_{name}"
    try:
        launches = [program.launch([a, b, v], [out], variant=variant) for a, b, v, out in sets]
    except PolycError:
        return None
    return Contestant(f"polyc {variant}", race.in_turns(torch, launches), False, gemm.FUSED)


if __name__ == "__main__":
    sys.exit(main())
