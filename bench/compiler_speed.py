"""How fast the compiler is: whole processes, and the work beside imports.

    python bench/compiler_speed.py [--runs 7] [--output bench/results/compiler_speed.json]

Three figures have limits: `polyc compile` of the example to CUDA C in under 1.5 s whole
process, its work outside imports and NVRTC in under 300 ms, and `polyc-opt` on the
example with no pass in under 0.5 s.  Each figure is the median of the runs, after one
that warms the file cache.  Exit code 1 when a limit is not held.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"
ARCHS = ("sm_80", "sm_90a")

WORK = """
import json, sys, time
from polyc.passes import lower_to_gpu
from polyc.tools import polyc, polyc_opt, pipeline
from polyc.tools.registry import DIALECTS, PassRegistry, make_context
ctx = make_context()
for name in DIALECTS:
    ctx.load_registered_dialect(name)
for name in lower_to_gpu.names():
    PassRegistry().find(name)
import polyc.lowering.gpu_to_cuda, polyc.poly.isl, islpy
start = time.perf_counter()
job = pipeline.Compilation.of_file(sys.argv[1], sys.argv[2]).run()
text = job.cuda()
spent = (time.perf_counter() - start) * 1e3
steps = {step.name: step.milliseconds for step in job.steps.done}
print(json.dumps({"ms": spent, "steps": steps, "bytes": len(text)}))
"""
"""Everything is imported first, then the first compilation of the process is timed."""


def process(args: list[str], runs: int) -> list[float]:
    """Milliseconds of whole processes, after one that is not counted."""
    env = os.environ | {"PYTHONPATH": str(ROOT / ".typecheck")}
    times: list[float] = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *args], check=True, env=env, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - start) * 1e3)
    return times[1:]


def work(arch: str, runs: int) -> list[dict[str, object]]:
    """What the timed part of ``WORK`` printed, a run each."""
    env = os.environ | {"PYTHONPATH": str(ROOT / ".typecheck")}
    args = [sys.executable, "-c", WORK, str(EXAMPLE), arch]
    done = [
        subprocess.run(args, check=True, env=env, capture_output=True, text=True).stdout
        for _ in range(runs + 1)
    ]
    return [json.loads(text) for text in done[1:]]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument(
        "--output", type=Path, default=ROOT / "bench" / "results" / "compiler_speed.json"
    )
    args = parser.parse_args()
    runs: int = args.runs
    figures: list[dict[str, object]] = []

    def add(name: str, limit: float | None, times: list[float], **more: object) -> None:
        median = statistics.median(times)
        held = limit is None or median < limit
        figures.append(
            {
                "name": name,
                "median_ms": round(median, 1),
                "runs_ms": [round(t, 1) for t in times],
                "limit_ms": limit,
                "held": held,
                **more,
            }
        )
        against = "" if limit is None else f"  limit {limit:.0f} ms{'' if held else '  NOT HELD'}"
        print(f"  {name:<44}{median:>8.0f} ms{against}", flush=True)

    print(f"compiler speed, median of {runs} runs, {os.cpu_count()} cores")
    add("python -c pass", None, process(["-c", "pass"], runs))
    opt = ["-m", "polyc.tools.polyc_opt", str(EXAMPLE)]
    add("polyc-opt, no pass, whole process", 500, process(opt, runs))
    for arch in ARCHS:
        compile_ = ["-m", "polyc.tools.polyc", "compile", str(EXAMPLE), "--arch", arch]
        add(
            f"polyc compile --arch {arch}, whole process",
            1500,
            process([*compile_, "--emit", "cuda", "-o", os.devnull], runs),
        )
        results = work(arch, runs)
        times = [float(str(result["ms"])) for result in results]
        middle = results[times.index(statistics.median_low(times))]
        add(f"work outside imports and NVRTC, {arch}", 300, times, steps=middle["steps"])
    record = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "runs": runs,
        "figures": figures,
    }
    output: Path = args.output
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(record, indent=2) + "\n")
    print(f"wrote {output}")
    return 0 if all(figure["held"] for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
