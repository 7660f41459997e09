"""How fast the middle is: from frontend text to the text of a region, outside imports.

    python bench/middle_speed.py [--runs 3] [--seeds 3] [--output bench/results/middle_speed.json]

Causal attention with symbolic sizes has 500 ms.  Graphs of 50, 100, 200 and 400 elementwise,
movement and reduce ops (``random_graph.py``) have 3 s for 200 ops, and the time of 400 may be
5 times that of 100.  Every pass is followed by verification, as in `polyc-opt`.  A figure is the
median over the runs, and of graphs over their seeds too; the ratio is of the processor's times,
on which other processes have less influence.  Exit code 1 when a limit is not held.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from polyc.bench import host
from polyc.bench.random_graph import random_graph
from polyc.tools.printing import module_text

ATTENTION = host.ROOT / "examples" / "causal_attention.mlir"
SIZES = (50, 100, 200, 400)
LIMITS = {200: 3000.0}

WORK = """
job = pipeline.Compilation.of_file(sys.argv[1], "sm_90a")
job.check_each = True
printing.module_text(job.run("region").module)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    output = host.ROOT / "bench" / "results" / "middle_speed.json"
    parser.add_argument("--output", type=Path, default=output)
    args = parser.parse_args()
    report = host.Report(f"speed of the middle, median of {args.runs} runs and {args.seeds} seeds")
    attention = host.inside(WORK, [str(ATTENTION)], args.runs)
    report.add("causal attention, symbolic sizes", attention, 500)
    cpu: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            found: list[host.Time] = []
            for seed in range(args.seeds):
                path = Path(folder) / f"graph{size}_{seed}.mlir"
                path.write_text(module_text(random_graph(size, seed)))
                found += host.inside(WORK, [str(path)], args.runs)
            cpu[size] = report.add(f"a graph of {size} ops", found, LIMITS.get(size))
    report.figure("400 ops to 100 ops, CPU time", cpu[400] / cpu[100], "", 5)
    report.write(args.output)
    return 0 if report.held else 1


if __name__ == "__main__":
    sys.exit(main())
