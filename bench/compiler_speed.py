"""How fast the compiler is: whole processes, and the work beside imports.

    python bench/compiler_speed.py [--runs 7] [--output bench/results/compiler_speed.json]

`polyc compile` of the example to CUDA C is to take under 1.5 s whole process, its work
outside imports and NVRTC under 300 ms, and `polyc-opt` on the example with no pass under
0.5 s.  A decoder block of a 7B model is to take 15 s from its text to cubins, as a whole
process on two cores whose cache is empty, and 3 s of that to the kernels' IR and text.
Each figure is the median of the runs, after one that warms the file cache.  Exit code 1
when a limit is not held.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from polyc.bench import host

EXAMPLE = host.ROOT / "examples" / "gemm_bias_relu.mlir"
ARCHS = ("sm_80", "sm_90a")

BLOCK = host.ROOT / "examples" / "models" / "decoder.mlir"
"""A decoder block of 4096 features, 32 heads and 14336 hidden features, of any number of tokens."""

COLD = """
import os, sys
os.environ["POLYC_CACHE"] = "0"
from polyc.tools.load import load
load(sys.argv[1], "sm_90a")
"""

WORK = "pipeline.Compilation.of_file(sys.argv[1], sys.argv[2]).run().cuda()"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    output = host.ROOT / "bench" / "results" / "compiler_speed.json"
    parser.add_argument("--output", type=Path, default=output)
    args = parser.parse_args()
    runs: int = args.runs
    report = host.Report(f"compiler speed, median of {runs} runs")
    report.add("`python -c pass`", host.whole(["-c", "pass"], runs))
    opt = ["-m", "polyc.tools.polyc_opt", str(EXAMPLE)]
    report.add("`polyc-opt`, no pass, whole process", host.whole(opt, runs), 500)
    for arch in ARCHS:
        compile_ = ["-m", "polyc.tools.polyc", "compile", str(EXAMPLE), "--arch", arch]
        compile_ += ["--emit", "cuda", "-o", os.devnull]
        name = f"`polyc compile --arch {arch}`, whole process"
        report.add(name, host.whole(compile_, runs), 1500)
        name = f"work outside imports and NVRTC, {arch}"
        report.add(name, host.inside(WORK, [str(EXAMPLE), arch], runs), 300)
    few = max(1, runs // 2)
    times = host.inside(WORK, [str(BLOCK), "sm_90a"], few)
    report.add("a 7B decoder block: work outside imports and NVRTC, sm_90a", times, 3000)
    times = host.whole(["-c", COLD, str(BLOCK)], few)
    report.add("a 7B decoder block: text to cubins, cold, whole process", times, 15_000)
    report.write(args.output)
    return 0 if report.held else 1


if __name__ == "__main__":
    sys.exit(main())
