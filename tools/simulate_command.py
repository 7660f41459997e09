"""``polyc simulate``: run a program's kernel thread by thread on NumPy, and look for faults.

Takes a program at the frontend layer, or a ``gpu.module`` at the tile or the hardware level.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from polyc.dialects.arch import ARCHS
from polyc.dialects.diagnostic import PolycError
from polyc.tools.check import Expected, sizes_text
from polyc.tools.pipeline import Compilation, check_arch
from polyc.tools.play import Signature
from polyc.tools.run_command import check_tensors, parse_sizes, the_graph
from polyc.tools.steps import Steps, on_stdout, quiet
from polyc.tools.streams import make_folder, write

if TYPE_CHECKING:
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.dialects.signature import SignatureOp
    from polyc.passes.plan_estimate import Estimate
    from polyc.playback.gpu import Counters, SimulationResult

NAME = "simulate"
HELP = "Run a kernel thread by thread on the CPU, and find races and misuse of the hardware."

EVERY = 5.0
"""Seconds between lines of progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="a program, or a gpu.module at tile or hardware level")
    parser.add_argument("--arch", help="sm_80 or sm_90a; text of the gpu dialect says it itself")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a symbol, one for each (may be repeated)",
    )
    parser.add_argument("--graph", help="the graph to run, when the file has several")
    parser.add_argument("--kernel", help="the kernel to run, in place of the dispatch's choice")
    parser.add_argument(
        "--schedule",
        default="round-robin",
        help="round-robin, random, producer-first, consumer-first or one-warp-ahead",
    )
    parser.add_argument(
        "--completion",
        default="late",
        help="when asynchronous operations complete: late, early or random",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="the seed of the inputs and of the interleaving"
    )
    parser.add_argument(
        "--check", action="store_true", help="compare the outputs with the FP32 reference too"
    )
    parser.add_argument("--json", metavar="FILE", help="write findings and counters as JSON")
    parser.add_argument(
        "--timeline", metavar="FILE", help="write who does what in CTA 0 at each step as SVG"
    )
    parser.add_argument("--layouts", metavar="DIR", help="write each shared tile's layout as SVG")


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    from polyc.playback.gpu import simulate
    from polyc.playback.reference import make_inputs

    if args.seed < 0:
        raise PolycError("Usage", f"--seed {args.seed}: a seed is 0 or more")
    steps = on_stdout()
    arch: str | None = args.arch
    job = Compilation.of_file(args.file, next(iter(ARCHS)) if arch is None else arch, quiet())
    module, graph = lower(job, arch, args.file, args.graph, steps)
    signature = Signature.of(module) if graph is None else graph
    assert signature is not None
    symbols = parse_sizes(args.set, signature)
    expected: Expected | None = None
    if graph is not None:
        check_tensors(graph, symbols)
        expected = Expected.of(graph, symbols, args.seed)
        inputs = expected.inputs
    else:
        inputs = make_inputs(signature, symbols, args.seed)
    steps.say(
        f"@{module.sym_name.data} for {module.arch.data} at {sizes_text(symbols)}, "
        f"{args.schedule}, copies {args.completion}, seed {args.seed}"
    )
    with steps.step("simulate") as step:
        result = simulate(
            module,
            inputs,
            symbols,
            args.kernel,
            args.schedule,
            args.seed,
            args.completion,
            progress=progress(steps),
            timeline=args.timeline is not None,
        )
        plural = "" if result.grid == 1 else "s"
        step.note = f"kernel {result.variant}, {result.grid} CTA{plural}"
        if result.seconds:
            step.note += f", {result.counters.thread_ops / result.seconds:.2g} thread-ops/s"
    plan = plan_of(job, result.variant, symbols)
    for line in counter_lines(result.counters, plan):
        steps.say(f"  {line}")
    _write_pictures(module, result, args.timeline, args.layouts)
    if args.json is not None:
        data = {
            "kernel": result.variant,
            "grid": result.grid,
            "findings": [f.as_dict() for f in result.findings],
            "counters": result.counters.as_dict(),
            "plan": None if plan is None else plan.as_dict(),
        }
        write(args.json, (json.dumps(data, indent=1) + "\n").encode())
    result.check()
    if args.check:
        if expected is None:
            raise PolycError(
                "NothingToCompare",
                "text of the gpu dialect has no reference; --check needs a frontend.graph",
            )
        error = expected.compare(f"the kernel {result.variant}", result.outputs)
        steps.say(f"no findings; agrees with the FP32 reference, largest error {error:.1e}")
    else:
        steps.say("no findings")
    return 0


def lower(
    job: Compilation, arch: str | None, file: str, name: str | None, steps: Steps
) -> tuple[GpuModuleOp, SignatureOp | None]:
    """The ``gpu.module`` at hardware level, and the frontend graph that it comes from."""
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.passes.finish import finish, is_finished
    from polyc.playback.gpu.simulate import gpu_module_of

    if not any(isinstance(op, GpuModuleOp) for op in job.module.ops):
        if arch is None:
            raise PolycError(
                "Usage", f"a program is compiled for one of {', '.join(ARCHS)}; add --arch"
            )
        graph = the_graph(job.module, file, name)
        copy = graph.clone()
        copy.location = graph.location
        job.keep = ("plan",)
        with steps.step(f"lower to {check_arch(arch)}"):
            job.run()
        return gpu_module_of(job.module, graph.sym_name.data), copy
    module = gpu_module_of(job.module, name)
    own = module.arch.data
    if arch is not None and arch != own:
        raise PolycError("ArchMismatch", f"the text is for {own}, not for {arch}", module)
    if not is_finished(module):
        with steps.step("lower from tile level"):
            finish(job.module)
        module = gpu_module_of(job.module, name)
    return module, None


def progress(steps: Steps) -> Callable[[int, int], None]:
    last = time.monotonic()

    def say(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > EVERY and done < total:
            last = time.monotonic()
            steps.say(f"    {done} of {total} CTAs")

    return say


def plan_of(job: Compilation, variant: str | None, symbols: Mapping[str, int]) -> Estimate | None:
    """What the plan of the kernel ``variant`` expects; None where text began below the plan, or
    where nothing is foretold of its family."""
    from polyc.dialects.plan import ScheduleOp
    from polyc.dialects.region import KernelOp
    from polyc.passes.plan_estimate import estimate
    from polyc.playback.gpu.simulate import MULTIPROCESSORS

    planned = job.kept.get("plan")
    if planned is None or variant is None:
        return None
    regions = {op.sym_name.data: op for op in planned.ops if isinstance(op, KernelOp)}
    for op in planned.ops:
        if isinstance(op, ScheduleOp) and variant == op.kernel_name and op.pattern == "matmul":
            region = regions[op.region.string_value()]
            return estimate(region, op, symbols, MULTIPROCESSORS)
    return None


def counter_lines(counters: Counters, plan: Estimate | None = None) -> list[str]:
    """The counters in words, a line a level, each beside what the plan expects of it."""
    planned = {} if plan is None else plan.as_dict()

    def show(name: str) -> str:
        value, expected = int(getattr(counters, name)), planned.get(name, 0)
        return f"{value} (plan {expected})" if planned and (value or expected) else str(value)

    lines = [
        f"global: {show('global_read_bytes')} bytes read in {counters.global_read_sectors} "
        f"sectors, {show('global_write_bytes')} written in {counters.global_write_sectors}",
        f"shared: {show('peak_shared_bytes')} bytes a CTA, {show('shared_read_bytes')} read, "
        f"{show('shared_write_bytes')} written, {show('bank_conflicts')} bank conflicts",
    ]
    if counters.cp_async_bytes or counters.tma_bytes or counters.tma_stores:
        lines.append(
            f"copies: {show('cp_async_bytes')} bytes by cp.async, {show('tma_bytes')} by "
            f"{show('tma_loads')} TMA loads, {counters.tma_stores} TMA stores"
        )
    lines.append(f"tensor cores: {show('mma')} mma, {show('wgmma')} wgmma")
    lines.append(
        f"barriers: {show('barriers')} waits of a warp, {show('mbarrier_waits')} at mbarriers"
    )
    return lines


def _write_pictures(
    module: GpuModuleOp, result: SimulationResult, timeline: str | None, layouts: str | None
) -> None:
    from polyc.dialects.gpu.hardware import SharedTileOp
    from polyc.tools.pictures import Event, layout_svg, timeline_svg

    if timeline is not None:
        events = [Event(e.agent, e.start, e.end, e.what, e.stage) for e in result.events]
        write(timeline, timeline_svg(events, f"@{result.variant}, CTA 0").encode())
    if layouts is None:
        return
    folder = Path(layouts)
    make_folder(folder)
    kernel = next((k for k in module.kernels() if k.sym_name.data == result.variant), None)
    for op in () if kernel is None else kernel.walk():
        if isinstance(op, SharedTileOp):
            name, kind = op.tile.name_hint or "tile", op.tile.type
            if len(kind.sizes) == 2 and kind.swizzle_bytes is not None:
                svg = layout_svg(kind, f"%{name}: {kind}")
                write(str(folder / f"{name}.svg"), svg.encode())
