"""``polyc simulate``: run a program's kernel thread by thread on NumPy, and look for faults.

Takes a program at the frontend layer, or a ``gpu.module`` at the tile or the hardware level.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from polyc.dialects.common.arch import ARCHS, check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.check import Expected, operation, sizes_text
from polyc.tools.commands.inputs import add_draw, add_kernels, add_sizes, the_graph, use_kernels
from polyc.tools.pipeline import Compilation, add_file_arguments
from polyc.tools.play import Signature
from polyc.tools.sizes import given_sizes, sizes_of
from polyc.tools.steps import Steps, on_stdout, quiet
from polyc.tools.streams import make_folder, write

if TYPE_CHECKING:
    from polyc.dialects.common.signature import SignatureOp
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.passes.support.plan.estimate import Estimate
    from polyc.playback.gpu import Counters, SimulationResult

NAME = "simulate"
HELP = "Run a kernel thread by thread on the CPU, and find races and misuse of the hardware."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_arguments(parser, "a program, or a gpu.module at tile or hardware level")
    parser.add_argument("--arch", help="sm_80 or sm_90a; text of the gpu dialect says it itself")
    add_sizes(parser)
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
        "--check",
        action="store_true",
        help="compare the outputs with the FP32 reference, or with what the tiles mean",
    )
    add_draw(parser)
    add_kernels(parser)
    parser.add_argument("--json", metavar="FILE", help="write findings and counters as JSON")
    parser.add_argument(
        "--timeline", metavar="FILE", help="write who does what in CTA 0 at each step as SVG"
    )
    parser.add_argument("--layouts", metavar="DIR", help="write each shared tile's layout as SVG")


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    from polyc.playback.gpu import simulate
    from polyc.playback.gpu.simulate import check_options
    from polyc.playback.reference import make_inputs

    given_sizes(args.set)
    if args.seed < 0:
        raise PolycError("Usage", f"--seed {args.seed}: a seed is 0 or more")
    check_options(args.schedule, args.completion)
    steps = on_stdout()
    arch: str | None = args.arch
    first = next(iter(ARCHS)) if arch is None else arch
    job = Compilation.of_file(args.file, first, quiet(), args.program)
    program = program_of(job, arch, args.file, args.graph)
    symbols = sizes_of(args.set, program)
    use_kernels(job, args.kernels, symbols)
    graph = program if operation(program) is program else None
    if graph is not None:
        graph = graph.clone()  # lowering the module leaves it as it is
    expected: list[Expected] = []
    if args.check:
        with steps.step("play back tiles" if graph is None else "FP32 reference"):
            expected = references(program, symbols, args)
    inputs = make_inputs(program, symbols, args.seed)
    module = lower(job, graph, args.graph, steps, symbols, args.kernel)
    steps.say(
        f"@{module.sym_name.data} for {module.arch.data} at {sizes_text(symbols)}, "
        f"{args.schedule}, copies {args.completion}, seed {args.seed}"
    )

    def simulated(inputs: Sequence[Any], timeline: bool = False) -> SimulationResult:
        return simulate(
            module,
            inputs,
            symbols,
            args.kernel,
            args.schedule,
            args.seed,
            args.completion,
            progress=steps.progress("CTAs"),
            timeline=timeline,
        )

    with steps.step("simulate") as step:
        result = simulated(inputs, timeline=args.timeline is not None)
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
    if not args.check:
        steps.say("no findings")
        return 0
    errors: list[float] = []
    with steps.step("check") as step:
        for wanted in expected:
            found = result
            if wanted.draw != "uniform":
                found = simulated(wanted.inputs)
                found.check()
            errors.append(wanted.compare(f"the kernel {found.variant}", found.outputs))
        step.note = f"on {', '.join(e.draw for e in expected)} inputs"
    what = "the tiles" if graph is None else "the FP32 reference"
    steps.say(f"no findings; agrees with {what}, largest error {errors[0]:.1e}")
    return 0


def program_of(job: Compilation, arch: str | None, file: str, name: str | None) -> SignatureOp:
    """The frontend graph to lower, or the signature of the ``gpu.module``.

    Raises PolycError where it is not for ``arch``.
    """
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.playback.gpu.simulate import gpu_module_of

    if not any(isinstance(op, GpuModuleOp) for op in job.module.ops):
        if arch is None:
            raise PolycError(
                "Usage", f"a program is compiled for one of {', '.join(ARCHS)}; add --arch"
            )
        return the_graph(job.module, file, name)
    module = gpu_module_of(job.module, name)
    own = module.arch.data
    if arch is not None and arch != own:
        raise PolycError("ArchMismatch", f"the text is for {own}, not for {arch}", module)
    signature = Signature.of(module)
    assert signature is not None
    return signature


def references(
    program: SignatureOp, symbols: Mapping[str, int], args: argparse.Namespace
) -> list[Expected]:
    """What the graph or the tiles mean; the hardware level has no such reference.

    Raises PolycError of kind ``NothingToCompare``.
    """
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.passes.finish import is_finished

    op = operation(program)
    finished = isinstance(op, GpuModuleOp) and is_finished(op)
    try:
        if not finished:
            return Expected.of_each_draw(program, symbols, args.seed, args.draw)
    except PolycError as error:
        if error.kind != "NotPlayed":
            raise
    level = "the hardware level" if finished else "ops that no playback knows"
    raise PolycError(
        "NothingToCompare",
        f"@{program.sym_name.data} is of {level}, which has no reference; leave --check out, or "
        "give the frontend.graph or the tiles that it comes from",
        op,
    )


def _running(
    module: GpuModuleOp, symbols: Mapping[str, int], kernel: str | None
) -> GpuModuleOp | None:
    """The variant that runs at these sizes, or ``kernel``, at hardware level; None where nothing
    does, of which the simulator says why."""
    from polyc.dialects.gpu.launches import why_crowded
    from polyc.passes.on_demand import OnDemand, module_around
    from polyc.playback.gpu.simulate import MULTIPROCESSORS

    later = OnDemand(module)
    for number, variant in enumerate(module.dispatch().variants()):
        asked = kernel is None or variant.variant_name == kernel
        if asked and all(fact.holds(symbols) for fact in variant.facts.data):
            made, _ = later.variant(number)
            if why_crowded(made, symbols, MULTIPROCESSORS) is None:
                return module_around(made)
    return None


def lower(
    job: Compilation,
    graph: SignatureOp | None,
    name: str | None,
    steps: Steps,
    symbols: Mapping[str, int] = MappingProxyType({}),
    kernel: str | None = None,
) -> GpuModuleOp:
    """The ``gpu.module`` at hardware level, from a frontend graph or from tiles; of a graph the
    variant that runs at these sizes, or ``kernel``."""
    from polyc.passes.finish import finish, is_finished
    from polyc.playback.gpu.simulate import gpu_module_of

    if graph is not None:
        job.keep = ("plan",)
        with steps.step(f"lower to {check_arch(job.arch)}"):
            job.run("tiles")
            module = gpu_module_of(job.module, graph.sym_name.data)
            if (found := _running(module, symbols, kernel)) is not None:
                return found
            finish(job.module)
        return module
    if not is_finished(gpu_module_of(job.module, name)):
        with steps.step("lower from tile level"):
            finish(job.module)
    return gpu_module_of(job.module, name)


def plan_of(job: Compilation, variant: str | None, symbols: Mapping[str, int]) -> Estimate | None:
    """What the plan of the kernel ``variant`` expects; None where text began below the plan, or
    where nothing is foretold of its family."""
    from polyc.dialects.plan import ScheduleOp
    from polyc.dialects.region import KernelOp
    from polyc.passes.support.plan.estimate import estimate
    from polyc.playback.gpu.simulate import MULTIPROCESSORS

    planned = job.kept.get("plan")
    if planned is None or variant is None:
        return None
    regions = {op.sym_name.data: op for op in planned.ops if isinstance(op, KernelOp)}
    for op in planned.ops:
        if isinstance(op, ScheduleOp) and variant == op.kernel_name and op.pattern == "matmul":
            if op.stores_sums:
                return None
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
