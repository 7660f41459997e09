"""``polyc run``: play a program back at every layer, run its kernel, compare.

A ``gpu.module``, written in tiles or below, is run by ``run_tiles``.  Without a GPU the kernels
that run at these sizes are compiled all the same, for both architectures, so that a machine without
one finds what NVRTC would refuse; a program that no kernel computes is played back at every layer
above.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.arch import ARCHS, check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.check import EachPass, Expected, sizes_text
from polyc.tools.commands.inputs import (
    add_draw,
    add_kernels,
    add_params,
    add_records,
    add_sizes,
    check_held,
    settings_with,
    the_graph,
    use_kernels,
    use_measured,
)
from polyc.tools.pipeline import Compilation, add_file_arguments
from polyc.tools.sizes import given_sizes, sizes_of
from polyc.tools.steps import Steps, on_stdout, quiet

if TYPE_CHECKING:
    from polyc.runtime.driver import Device
    from polyc.runtime.program import Program

LAYERS = ("frontend", "tiny", "index", "region")
"""The layers that are played back."""

NAME = "run"
HELP = "Run a program at given sizes and compare every layer with the FP32 reference."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_arguments(parser, "the program, textual IR of the frontend or the gpu layer")
    add_sizes(parser)
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="where to run; the GPU when there is one"
    )
    parser.add_argument("--arch", help="sm_80 or sm_90a; without it both")
    parser.add_argument("--graph", help="the graph to run, when the file has several")
    parser.add_argument(
        "--check", action="store_true", help="play back after every pass, not only every layer"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random inputs")
    add_draw(parser)
    add_records(parser)
    add_kernels(parser)
    add_params(parser, "in place of random ones")


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    archs = list(ARCHS) if args.arch is None else [check_arch(args.arch)]
    given_sizes(args.set)
    if args.seed < 0:
        raise PolycError("Usage", f"--seed {args.seed}: a seed is 0 or more")
    steps = on_stdout()
    gpu = find_gpu(args.device)
    start = quiet()
    source = Compilation.of_file(args.file, archs[0], start, args.program)
    if any(op.name == "gpu.module" for op in source.module.ops):
        from polyc.tools.commands.run_tiles import run

        if args.records is not None:
            raise PolycError("Usage", "--records is about a frontend.graph, not a gpu.module")
        if args.params is not None:
            raise PolycError("Usage", "--params is about a frontend.graph, not a gpu.module")
        use_kernels(source, args.kernels, {})
        return run(source, args, gpu, steps)
    graph = the_graph(source.module, args.file, args.graph)
    held = None
    if args.params is not None:
        from polyc.tools.held import bound

        held = bound(graph, args.params)
    symbols = sizes_of(settings_with(args.set, held), graph)
    check_held(held, symbols)
    steps.say(f"@{graph.sym_name.data} at {sizes_text(symbols)}, {_device_text(gpu, args.device)}")
    steps.finish(start.done[0])
    with steps.step("FP32 reference"):
        arrays = {} if held is None else held.arrays()
        expected = Expected.of_each_draw(graph, symbols, args.seed, args.draw, arrays)
    kept: dict[str, ModuleOp] = {}
    programs: list[Program] = []
    refused: PolycError | None = None
    for arch in archs:
        job = source.fresh(arch)
        if not kept:
            # What lies above the plan is the same for every architecture.
            job.keep, kept = LAYERS, job.kept
        with steps.step(f"lower to {arch}") as step:
            check = EachPass(expected) if args.check else None
            if check is not None:
                check.start(job.module)
                job.after, job.check_each = check.after, True
                step.note = "each pass played back"
            use_measured(job, args.records)
            use_kernels(job, args.kernels, symbols)
            try:
                job.run("tiles" if check is None else "gpu")
                if check is not None:
                    check.finish()
            except PolycError as error:
                if error.kind != "UnsupportedProgram" or "region" not in (kept or job.kept):
                    raise
                refused, step.note = error, "no kernel"
        if refused is not None:
            break
        programs.append(_compile(job, symbols, steps, args.params))
    for layer in LAYERS:
        with steps.step(f"play back {layer}") as step:
            errors = [e.check(kept[layer], f"the {layer} layer") for e in expected]
            found = [e for e in errors if e is not None]
            step.note = _agrees(found) if found else "no playback"
    agreeing = f"{', '.join(LAYERS[:-1])} and {LAYERS[-1]} agree with the FP32 reference"
    if refused is not None:
        if args.device == "cuda":
            raise refused
        steps.say(f"{agreeing}; no kernel, as {refused.message}")
        return 0
    ran = [] if gpu is None else [p.arch for p in programs if _on_gpu(p, expected, steps, args)]
    kernels = f"; so do the kernels of {' and '.join(ran)} on the GPU" if ran else ""
    steps.say(f"{agreeing}{kernels}; {' and '.join(archs)} compiled to cubins")
    return 0


def find_gpu(wanted: str | None) -> Device | None:
    """The GPU to run on, or None.  Raises PolycError where ``cuda`` is asked and there is none."""
    if wanted == "cpu":
        return None
    from polyc.runtime import driver

    if not driver.available():
        if wanted == "cuda":
            raise PolycError(
                "NoGPU",
                "--device cuda needs a CUDA driver and a GPU, and there is none; use --device cpu",
            )
        return None
    return driver.device()


def _device_text(gpu: Device | None, asked: str | None) -> str:
    if gpu is not None:
        return gpu.name
    return "on the CPU" if asked == "cpu" else "no GPU: on the CPU"


def _agrees(errors: Sequence[float]) -> str:
    """In words; the first draw's error speaks of numbers near 1, and stands for all."""
    return f"agrees, largest error {errors[0]:.1e}"


def _compile(
    job: Compilation, symbols: Mapping[str, int], steps: Steps, params: Sequence[str] | None
) -> Program:
    """The program, with the kernels that run at these sizes."""
    from polyc.runtime.program import Program

    with steps.step(f"compile {job.arch}") as step:
        program = Program.compile(job.module, lazily=True, params=params)
        results = program.compiled_at(symbols)
        kernels = {name: info for r in results for name, info in r.kernels.items()}
        spilled = [name for name, info in kernels.items() if info.spill_bytes]
        there = len(program.described.kernels)
        plural = "" if there == 1 else "s"
        size = sum(len(result.image) for result in results)
        step.note = f"{len(kernels)} of {there} kernel{plural}, {size // 1024} KiB"
        if all(result.cached for result in results):
            step.note += ", from the cache"
        if spilled:
            step.note += f", spills in {', '.join(spilled)}"
    return program


def _on_gpu(
    program: Program, expected: Sequence[Expected], steps: Steps, args: argparse.Namespace
) -> bool:
    """Run and compare; False where this GPU does not run the code and nobody asked for it."""
    with steps.step(f"run {program.arch}") as step:
        errors: list[float] = []
        try:
            for wanted in expected:
                held = program.constants
                kept = () if held is None else held.entries
                data = [array for i, array in enumerate(wanted.inputs) if i not in kept]
                outputs = cast("list[Any]", program.run(data, wanted.symbols))
                errors.append(wanted.compare(f"the kernel for {program.arch}", outputs))
        except PolycError as error:
            if error.kind != "ArchMismatch" or args.arch is not None:
                raise
            step.note = "this GPU does not run it"
            return False
        chosen = program.chosen(expected[0].symbols)
        step.note = f"{_agrees(errors)}, kernel {chosen}" if chosen else _agrees(errors)
        return True
