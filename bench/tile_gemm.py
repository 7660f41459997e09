"""Time the GEMM kernels of examples/tile beside cuBLAS on one GPU, in one process.

``bench/race.py`` says how it is timed.  Each file is one contestant, as its dispatch chooses for
the shape; ``choice`` marks the one that a user would take: the best of them at the shape.

    python bench/tile_gemm.py [--shapes 4096 16x14336x4096] [--dtype f16] [--kernels gemm_split_k]

Needs an NVIDIA GPU and PyTorch, which brings cuBLAS.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyc.bench import race, right
from polyc.bench.gemm import Shape, parse_shape
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.load import load

ROOT = Path(__file__).resolve().parent.parent
KERNELS = [
    "gemm_sm90_cooperative",
    "gemm_sm90_pingpong",
    "gemm_sm90_cluster",
    "gemm_sm90_decode",
    "gemm_split_k",
    "gemm_unaligned",
    "gemm_pipelined",
]
SHAPES = [
    "2048",
    "4096",
    "8192",
    "4096x14336x4096",
    "16x14336x4096",
    "128x14336x4096",
    "128x128x65536",
    "4095",
]
Inputs = tuple[Any, Any, Any]
"""A, B and the output."""


def suits(kernel: str, shape: Shape) -> bool:
    """Whether a kernel is meant for a shape; others would only take the time."""
    m, n, k = shape
    if n % 8 or k % 8:
        return kernel == "gemm_unaligned"
    if m <= 128 and n <= 128:
        return kernel == "gemm_split_k"
    if m <= 128:
        return kernel in ("gemm_sm90_decode", "gemm_split_k")
    return kernel.startswith("gemm_sm90_") and kernel != "gemm_sm90_decode"


def make_inputs(torch: Any, shape: Shape, dtype: Any, l2_bytes: int) -> list[Inputs]:
    """Random inputs, in as many copies as make four times the L2 cache, at most 32.

    B is scaled so that the products have variance 1 whatever K is.
    """
    m, n, k = shape
    found: list[Inputs] = []
    for _ in range(race.copies_for(2 * (m * k + k * n + m * n), l2_bytes)):
        a = torch.randn(m, k, device="cuda", dtype=dtype)
        b = torch.randn(k, n, device="cuda", dtype=dtype) * max(1, k) ** -0.5
        found.append((a, b, torch.empty(m, n, device="cuda", dtype=dtype)))
    return found


def check(torch: Any, inputs: Inputs, contestant: Contestant) -> float:
    """The largest error in parts of what agrees; over 1 is wrong (S0.6)."""
    a, b, out = inputs
    out.fill_(float("nan"))
    contestant.run(0)
    weights = right.on_host(torch, b)

    def wanted(rows: Sequence[int]) -> Any:
        return right.product(right.on_host(torch, a[list(rows)]), weights)

    return right.worst(torch, out, right.picked(a.shape[0]), wanted)


def contestants(
    torch: Any, programs: Mapping[str, Program], sets: Sequence[Inputs], shape: Shape
) -> list[Contestant]:
    """The kernels that are meant for a shape, and cuBLAS."""
    found: list[Contestant] = []
    count = len(sets)
    for name, program in programs.items():
        if not suits(name, shape):
            continue
        launches = [program.launch([a, b], [out]) for a, b, out in sets]
        found.append(Contestant(name, race.in_turns(torch, launches), False))

    def cublas(i: int) -> None:
        a, b, out = sets[i % count]
        torch.mm(a, b, out=out)

    found.append(Contestant("cuBLAS", cublas, True))
    return found


def compiled(names: Sequence[str], dtype: str) -> dict[str, Program]:
    """The programs of these files, with their f16 as ``dtype``."""
    found: dict[str, Program] = {}
    for name in names:
        path = ROOT / "examples" / "tile" / f"{name}.mlir"
        start = time.perf_counter()
        found[name] = load(re.sub(r"\bf16\b", dtype, path.read_text()))
        print(f"{name}: compiled in {time.perf_counter() - start:.2f} s", flush=True)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shapes", nargs="+", type=parse_shape, metavar="S", help="M or MxNxK")
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16")
    parser.add_argument("--kernels", nargs="+", default=KERNELS, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"), metavar="DIR")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    options = parser.parse_args(argv)
    torch = race.load_torch("tile_gemm.py")
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[options.dtype]
    try:
        programs = compiled(options.kernels, options.dtype)
    except PolycError as error:
        print(error, file=sys.stderr)
        return 1
    report: dict[str, Any] = {
        "benchmark": "tile_gemm",
        "dtype": options.dtype,
        **race.surroundings(torch, options.rounds, options.commit),
        "rows": [],
    }
    wrong = False
    for shape in options.shapes or [parse_shape(s) for s in SHAPES]:
        sets = make_inputs(torch, shape, dtype, report["l2_bytes"])
        racers = contestants(torch, programs, sets, shape)
        errors = {r.name: check(torch, sets[0], r) for r in racers}
        wrong |= any(errors[r.name] > 1 for r in racers if not r.peer)
        race.measure(torch, racers, options.rounds, len(sets))
        m, n, k = shape
        rows = race.result_rows(f"{m}x{n}x{k}", racers, 2.0 * m * n * k, "TFLOP/s", errors)
        own = [row for row in rows if not row["peer"]]
        best = max(own, key=lambda row: row["ratio"]) if own else None
        for row in rows:
            row["choice"] = row is best
        race.print_rows(rows)
        report["rows"] += rows
        del sets, racers
    name = f"tile_gemm-{options.dtype}"
    print(race.write_report(name, report, options.out))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
