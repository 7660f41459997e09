"""How fast kernels are simulated: GEMM + bias + ReLU of each architecture, thread-ops a second.

A thread-op is one op of the kernel's IR executed by one active thread; happens-before is
checked all the while.  The target is a 128 x 128 x 128 program in under 20 s on two cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from polyc.playback.gpu import simulate
from polyc.tools.check import Expected
from polyc.tools.pipeline import Compilation, graphs

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "gemm_bias_relu.mlir"
TARGET = 20.0


def measure(arch: str, shape: tuple[int, int, int], repeat: int) -> dict[str, object]:
    """One row: the fastest of ``repeat`` runs, and the whole time from text to result."""
    start = time.perf_counter()
    job = Compilation.of_file(EXAMPLE, arch)
    expected = Expected.of(next(graphs(job.module)), dict(zip("MNK", shape, strict=True)))
    module = job.run().module
    lowered = time.perf_counter() - start
    runs = [simulate(module, expected.inputs, expected.symbols) for _ in range(repeat)]
    best = min(runs, key=lambda r: r.seconds)
    best.check()
    expected.compare(f"the kernel {best.variant}", best.outputs)
    return {
        "arch": arch,
        "shape": "x".join(map(str, shape)),
        "kernel": best.variant,
        "ctas": best.grid,
        "thread_ops": best.counters.thread_ops,
        "seconds": best.seconds,
        "rate": best.counters.thread_ops / best.seconds,
        "with_compilation": lowered + best.seconds,
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--shapes", nargs="*", default=["128x128x128", "127x129x131", "512x512x256"]
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", help="a JSON file for the rows")
    args = parser.parse_args(argv)
    rows: list[dict[str, object]] = []
    print(f"{'arch':<9}{'M x N x K':<14}{'kernel':<30}{'CTAs':>5}{'s':>9}{'thread-ops/s':>14}")
    for arch in ("sm_80", "sm_90a"):
        for text in args.shapes:
            m, n, k = map(int, text.split("x"))
            row = measure(arch, (m, n, k), args.repeat)
            rows.append(row)
            print(
                f"{arch:<9}{text:<14}{row['kernel']!s:<30}{row['ctas']:>5}"
                f"{row['seconds']:>9.3f}{row['rate']:>14.2e}",
                flush=True,
            )
    if args.output:
        Path(args.output).write_text(json.dumps(rows, indent=1) + "\n")
    slow = [r for r in rows if r["shape"] == "128x128x128" and float(str(r["seconds"])) > TARGET]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
