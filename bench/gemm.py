"""Time polyc's GEMM + bias + ReLU beside cuBLAS on one GPU, in one process.

``bench/race.py`` says how it is timed.

    python bench/gemm.py [--shapes 4096 8192x8192x1024] [--dtype f16] [--archs sm_90a sm_80]

Of f32 both sides multiply in FP32: TF32 is off.

Needs an NVIDIA GPU and PyTorch, which brings cuBLAS.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyc.bench import race, right
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {"f16": "gemm_bias_relu.mlir", "bf16": "gemm_bias_relu_bf16.mlir"}
DTYPES = (*EXAMPLES, "f32")
SHAPES = [
    "512",
    "1024",
    "2048",
    "4096",
    "8192",
    "4096x14336x4096",
    "16x14336x4096",
    "128x14336x4096",
    "1000",
    "4095",
    "4097x4104x4100",
    "128x128x65536",
]
Shape = tuple[int, int, int]
Inputs = tuple[Any, Any, Any, Any]
"""A, B, bias and the output."""


FUSED = {"fused": True}
PLAIN = {"fused": False}
"""Whether a contestant adds the bias and applies ReLU, or only multiplies."""


def parse_shape(text: str) -> Shape:
    """``4096`` is 4096x4096x4096; else MxNxK."""
    sizes = [int(size) for size in text.split("x")]
    if len(sizes) == 1:
        sizes *= 3
    if len(sizes) != 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a size or MxNxK")
    return sizes[0], sizes[1], sizes[2]


def make_inputs(torch: Any, shape: Shape, dtype: Any, l2_bytes: int) -> list[Inputs]:
    """Random inputs, in as many copies as make four times the L2 cache, at most 32.

    B is scaled so that the products have variance 1 whatever K is: the tolerance is absolute
    near 0, and tensor cores round partial sums to less than FP32.
    """
    m, n, k = shape
    one = dtype.itemsize * (m * k + k * n + m * n)
    copies = race.copies_for(one, l2_bytes)
    found: list[Inputs] = []
    for _ in range(copies):
        a = torch.randn(m, k, device="cuda", dtype=dtype)
        b = torch.randn(k, n, device="cuda", dtype=dtype) * max(1, k) ** -0.5
        bias = torch.randn(n, device="cuda", dtype=dtype)
        found.append((a, b, bias, torch.empty(m, n, device="cuda", dtype=dtype)))
    return found


def check(torch: Any, inputs: Inputs, run: Callable[[int], object], fused: bool) -> float:
    """The largest error in parts of what agrees; over 1 is wrong (S0.6)."""
    a, b, bias, out = inputs
    out.fill_(float("nan"))
    run(0)
    weights, added = right.on_host(torch, b), right.on_host(torch, bias).astype(np.float32)

    def wanted(rows: Sequence[int]) -> Any:
        found = right.product(right.on_host(torch, a[list(rows)]), weights)
        return np.maximum(found + added, np.float32(0)) if fused else found

    return right.worst(torch, out, right.picked(a.shape[0]), wanted)


def contestants(
    torch: Any, programs: dict[str, Program], sets: Sequence[Inputs]
) -> list[Contestant]:
    """polyc's kernels and cuBLAS's for one shape."""
    found: list[Contestant] = []
    count = len(sets)
    for arch, program in programs.items():
        launches = [program.launch([a, b, bias], [out]) for a, b, bias, out in sets]
        name = f"polyc {arch} {launches[0].name}"
        found.append(Contestant(name, race.in_turns(torch, launches), False, FUSED))

    def plain(i: int) -> None:
        a, b, _, out = sets[i % count]
        torch.mm(a, b, out=out)

    def fused(i: int) -> None:
        a, b, bias, out = sets[i % count]
        torch._addmm_activation(bias, a, b, use_gelu=False, out=out)

    def two_steps(i: int) -> None:
        a, b, bias, out = sets[i % count]
        torch.addmm(bias, a, b, out=out).relu_()

    found.append(Contestant("cuBLAS matmul", plain, True, PLAIN))
    found.append(Contestant("cuBLASLt bias+relu", fused, True, FUSED))
    found.append(Contestant("cuBLAS addmm, relu", two_steps, True, FUSED))
    return found


def launch_overhead(torch: Any, program: Program, dtype: Any) -> dict[str, float]:
    """Host microseconds a call on 128³ tensors, each the median of 20 batches (J4).

    A batch of 100 calls fits the launch queue, so that the host never waits for the GPU.
    """
    a, b, bias, out = make_inputs(torch, (128, 128, 128), dtype, 1)[0]
    launch = program.launch([a, b, bias], [out])
    stream = torch.cuda.current_stream().cuda_stream
    calls: dict[str, Callable[[], object]] = {
        "Launch.run": lambda: launch.run(stream),
        "Program.run, out=": lambda: program.run([a, b, bias], out=[out]),
        "Program.run": lambda: program.run([a, b, bias]),
        "torch.add, out=": lambda: torch.add(a, b, out=out),
        "torch.mm, out=": lambda: torch.mm(a, b, out=out),
    }
    found: dict[str, float] = {}
    for name, call in calls.items():
        times: list[float] = []
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(100):
                call()
            times.append((time.perf_counter() - start) * 1e4)
        found[name] = statistics.median(times)
    return found


def surroundings(torch: Any, programs: dict[str, Program], args: argparse.Namespace) -> Any:
    """What a reader needs to trust the numbers."""
    return {
        **race.surroundings(torch, args.rounds, args.commit),
        "dtype": args.dtype,
        "reduced_precision_reduction": bool(
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction
        ),
        "kernels": {
            arch: {
                name: {
                    "registers": info.registers,
                    "spill_bytes": info.spill_bytes,
                    "static_shared_bytes": info.smem,
                }
                for name, info in program.kernels.items()
            }
            for arch, program in programs.items()
        },
    }


def compile_programs(args: argparse.Namespace) -> dict[str, Program]:
    """The example for each architecture that this GPU runs."""
    text = (ROOT / "examples" / EXAMPLES.get(args.dtype, EXAMPLES["f16"])).read_text()
    if args.dtype not in EXAMPLES:
        text = text.replace("f16", args.dtype)
    found: dict[str, Program] = {}
    for arch in args.archs:
        if arch.endswith("a") and not driver.device().runs(arch):
            print(f"{driver.device().name} does not run {arch}; left out")
            continue
        ctx = make_context()
        job = Compilation(ctx, parse_text(ctx, text, f"gemm_{args.dtype}"), arch)
        job.plan = args.plan if arch == args.plan_arch else None
        start = time.perf_counter()
        program = Program.compile(job.run().module)
        print(f"compiled for {arch} in {time.perf_counter() - start:.2f} s")
        for line in program.warnings():
            print(f"  {line}")
        found[arch] = program
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time polyc's GEMM beside cuBLAS.")
    parser.add_argument("--shapes", nargs="+", type=parse_shape, metavar="MxNxK")
    parser.add_argument("--dtype", choices=DTYPES, default="f16")
    parser.add_argument("--archs", nargs="+", default=["sm_90a", "sm_80"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--plan", help="a plan in JSON instead of plan-select's")
    parser.add_argument("--plan-arch", default="sm_90a", help="the architecture of --plan")
    parser.add_argument(
        "--out", default=str(ROOT / "bench" / "results"), help="folder, or - for none"
    )
    parser.add_argument("--commit", help="what to record where there is no git")
    args = parser.parse_args(argv)
    torch = race.load_torch("bench/gemm.py")
    try:
        return run(torch, args)
    except PolycError as error:
        print(error, file=sys.stderr)
        return 1


def run(torch: Any, args: argparse.Namespace) -> int:
    programs = compile_programs(args)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[args.dtype]
    report = surroundings(torch, programs, args)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    shapes: list[Shape] = args.shapes or [parse_shape(text) for text in SHAPES]
    print(f"{report['device']}, driver CUDA {report['driver_cuda']}, torch {report['torch']}, ")
    print(
        f"NVRTC {report['nvrtc']}, {args.dtype}, commit {report['commit']}; TFLOP/s, median of "
        f"{args.rounds} rounds, ms a launch"
    )
    rows: list[dict[str, Any]] = []
    wrong = False
    for shape in shapes:
        m, n, k = shape
        sets = make_inputs(torch, shape, dtype, report["l2_bytes"])
        racers = contestants(torch, programs, sets)
        errors = {r.name: check(torch, sets[0], r.run, bool(r.traits["fused"])) for r in racers}
        race.measure(torch, racers, args.rounds, len(sets))
        print(f"{m}x{n}x{k}, {len(sets)} copies")
        for racer in racers:
            middle = racer.median
            tflops = 2 * m * n * k / middle / 1e9
            good = errors[racer.name] <= 1.0
            wrong |= not good and racer.name.startswith("polyc")
            mark = "" if good else f"  WRONG by {errors[racer.name]:.3g} of the tolerance"
            print(f"  {racer.name:36} {tflops:8.1f} {middle:9.4f}{mark}", flush=True)
            rows.append(
                {
                    "m": m,
                    "n": n,
                    "k": k,
                    "contestant": racer.name,
                    **racer.traits,
                    "copies": len(sets),
                    "tflops": round(tflops, 2),
                    "milliseconds": middle,
                    "milliseconds_min": min(racer.milliseconds),
                    "milliseconds_max": max(racer.milliseconds),
                    "error_of_tolerance": errors[racer.name],
                }
            )
        del racers, sets
    report["rows"] = rows
    program = next(iter(programs.values()))
    report["launch_overhead_us"] = overhead = launch_overhead(torch, program, dtype)
    print("host time a call, µs: " + ", ".join(f"{k} {v:.1f}" for k, v in overhead.items()))
    if args.out != "-":
        path = race.write_report(f"gemm-{args.dtype}", report, args.out)
        print(f"wrote {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
