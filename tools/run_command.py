"""``polyc run``: play a program back at every layer, run its kernel, compare.

A ``gpu.module``, written in tiles or below, is run by ``run_tiles``.  Without a GPU the kernels
of both architectures are compiled all the same, so that a machine without one finds what NVRTC
would refuse; a program that no kernel computes is played back at every layer above.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from polyc.dialects.arch import ARCHS
from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import MAX_SIZE
from polyc.tools.check import EachPass, Expected, sizes_text
from polyc.tools.pipeline import Compilation, check_arch, graphs
from polyc.tools.steps import Steps, on_stdout, quiet

if TYPE_CHECKING:
    from polyc.dialects.signature import SignatureOp
    from polyc.dialects.sized_tensor import SizedTensorType
    from polyc.runtime.driver import Device
    from polyc.runtime.program import Program

LAYERS = ("frontend", "tiny", "index", "region")
"""The layers that are played back."""

NAME = "run"
HELP = "Run a program at given sizes and compare every layer with the FP32 reference."


def given_sizes(settings: Sequence[str], at: Operation | None = None) -> dict[str, int]:
    """The sizes that ``--set NAME=VALUE`` gives.

    Raises PolycError of kind ``BadSize`` for text that is no size, and for a second one.
    """
    values: dict[str, int] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not re.fullmatch(r"[+-]?\d{1,18}", text):
            raise PolycError(
                "BadSize", f"--set {setting} is not NAME=INTEGER; write --set M=512", at
            )
        if name in values:
            raise PolycError("BadSize", f"--set gives {name} twice, {values[name]} and {text}", at)
        values[name] = int(text)
        if values[name] < 0:
            raise PolycError(
                "BadSize", f"--set {setting}: a size is 0 or more, {name} is {text}", at
            )
    return values


def parse_sizes(settings: Sequence[str], graph: SignatureOp) -> dict[str, int]:
    """The sizes that ``--set NAME=VALUE`` gives, in the order of the graph's symbols.

    Raises PolycError: ``BadSize`` for text that is no size, ``UnknownSymbol``,
    ``MissingSize``, and ``AssumptionViolated`` with the fact that does not hold.
    """
    symbols = graph.symbol_names
    listed = ", ".join(symbols) or "none"
    values = given_sizes(settings, graph)
    for name, value in values.items():
        if name not in symbols:
            raise PolycError(
                "UnknownSymbol",
                f"--set {name}={value}: @{graph.sym_name.data} has no symbol {name!r}; it has "
                f"{listed}",
                graph,
            )
    missing = [name for name in symbols if name not in values]
    if missing:
        flags = " ".join(f"--set {name}=VALUE" for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise PolycError(
            "MissingSize",
            f"@{graph.sym_name.data} needs a value for the symbol{plural} {', '.join(missing)}; "
            f"add {flags}",
            graph,
        )
    for fact in graph.facts:
        if not fact.holds(values):
            given = ", ".join(f"{name} = {values[name]}" for name in fact.expr.symbols())
            raise PolycError(
                "AssumptionViolated",
                f"@{graph.sym_name.data} assumes {fact}, which does not hold at {given}",
                graph,
            )
    return {name: values[name] for name in symbols}


def check_tensors(graph: SignatureOp, symbols: Mapping[str, int]) -> None:
    """Raises PolycError: ``BadSize`` for a tensor's size that is negative or over 32 bits,
    ``OutOfMemory`` when playback would not fit the host's memory.

    The memory is an estimate: every input is held as it is stored and in f32, every value
    of the graph in f32 at each of the layers, and the comparison makes copies in f64.
    """
    for tensor in (*graph.inputs, *graph.outputs):
        for size in tensor.type.dims:
            if not 0 <= (value := size.evaluate(symbols)) <= MAX_SIZE:
                given = ", ".join(f"{name} = {symbols[name]}" for name in size.symbols())
                raise PolycError(
                    "BadSize",
                    f"{tensor.name} has a size of {size}, which is {value} at {given}; sizes "
                    f"are 0 to {MAX_SIZE}, as kernels index with 32 bits",
                    graph,
                )
    inputs = [cast("SizedTensorType", arg.type) for arg in graph.body.block.args]
    values = [
        cast("SizedTensorType", result.type) for op in graph.body.block.ops for result in op.results
    ]
    held = [(4, t) for t in inputs] + [(5, t) for t in values]
    needed = sum(4 * n * prod(d.evaluate(symbols) for d in t.dims) for n, t in held)
    if (there := free_memory()) is not None and needed > there:
        raise PolycError(
            "OutOfMemory",
            f"@{graph.sym_name.data} at {sizes_text(symbols)} takes about {needed / 1e9:.1f} GB to "
            f"play back, and {there / 1e9:.1f} GB are free; use smaller sizes",
            graph,
        )


KINDS = ("uniform", "large", "mixed", "rows", "tiny", "special")
"""The kinds of random inputs, as ``playback/draws.py`` has them, which imports NumPy."""


def free_memory() -> int | None:
    """Bytes that the host can still give without swapping, or None where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the program, textual IR of the frontend or the gpu layer")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a symbol, one for each (may be repeated)",
    )
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


def add_draw(parser: argparse.ArgumentParser) -> None:
    """The option ``--draw``: which kinds of random inputs are compared on."""
    parser.add_argument(
        "--draw",
        action="append",
        choices=KINDS,
        help="a kind of random inputs to compare on (may be repeated); without it all",
    )


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    archs = list(ARCHS) if args.arch is None else [check_arch(args.arch)]
    steps = on_stdout()
    gpu = find_gpu(args.device)
    start = quiet()
    source = Compilation.of_file(args.file, archs[0], start)
    if any(op.name == "gpu.module" for op in source.module.ops):
        from polyc.tools.run_tiles import run

        return run(source, args, gpu, steps)
    graph = the_graph(source.module, args.file, args.graph)
    symbols = parse_sizes(args.set, graph)
    check_tensors(graph, symbols)
    if args.seed < 0:
        raise PolycError("Usage", f"--seed {args.seed}: a seed is 0 or more")
    steps.say(f"@{graph.sym_name.data} at {sizes_text(symbols)}, {_device_text(gpu, args.device)}")
    steps.finish(start.done[0])
    with steps.step("FP32 reference"):
        expected = Expected.of_each_draw(graph, symbols, args.seed, args.draw)
    kept: dict[str, ModuleOp] = {}
    programs: list[Program] = []
    refused: PolycError | None = None
    for arch in archs:
        job = source.fresh(arch)
        if not kept:
            # What lies above the plan is the same for every architecture.
            job.keep, kept = LAYERS, job.kept
        with steps.step(f"lower to {arch}") as step:
            if args.check:
                check = EachPass(expected)
                check.start(job.module)
                job.after, job.check_each = check.after, True
                step.note = "each pass played back"
            try:
                job.run()
            except PolycError as error:
                if error.kind != "UnsupportedProgram" or "region" not in (kept or job.kept):
                    raise
                refused, step.note = error, "no kernel"
        if refused is not None:
            break
        programs.append(_compile(job, steps))
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


def the_graph(module: ModuleOp, file: str, name: str | None) -> SignatureOp:
    """The frontend graph to run.  Raises PolycError of kind ``NothingToRun``."""
    from polyc.dialects.frontend import GraphOp

    found = {g.sym_name.data: g for g in graphs(module) if isinstance(g, GraphOp)}
    listed = ", ".join(found)
    if not found:
        raise PolycError(
            "NothingToRun", "the file has no frontend.graph; run takes the frontend layer", module
        )
    if name is None and len(found) > 1:
        raise PolycError(
            "NothingToRun", f"the file has the graphs {listed}; choose one with --graph", module
        )
    if name is not None and name not in found:
        raise PolycError("NothingToRun", f"{file} has no graph {name!r}; it has {listed}", module)
    return next(iter(found.values())) if name is None else found[name]


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


def _compile(job: Compilation, steps: Steps) -> Program:
    from polyc.runtime.program import Program

    with steps.step(f"compile {job.arch}") as step:
        program = Program.compile(job.module)
        kernels = program.kernels
        spilled = [name for name, info in kernels.items() if info.spill_bytes]
        plural = "" if len(kernels) == 1 else "s"
        step.note = f"{len(kernels)} kernel{plural}, {len(program.result.image) // 1024} KiB"
        if program.result.cached:
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
                outputs = cast("list[Any]", program.run(wanted.inputs, wanted.symbols))
                errors.append(wanted.compare(f"the kernel for {program.arch}", outputs))
        except PolycError as error:
            if error.kind != "ArchMismatch" or args.arch is not None:
                raise
            step.note = "this GPU does not run it"
            return False
        chosen = program.chosen(expected[0].symbols)
        step.note = f"{_agrees(errors)}, kernel {chosen}" if chosen else _agrees(errors)
        return True
