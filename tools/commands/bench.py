"""``polyc bench``: how long a program takes, measured on a GPU, or by the model of time without.

A figure is the time of one call in a CUDA graph of many, over copies of random inputs that exceed
the L2 cache; parameters are bound as ``polyc.load`` binds them, and what is made of them alone is
no part of it.  The table has what the model says of each kernel, the slowest first, kernels that
take the same together.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from polyc.cost.device import modelled_on
from polyc.cost.time import Time, microseconds, times_of
from polyc.dialects.common.arch import check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.check import sizes_text
from polyc.tools.commands.inputs import (
    add_device,
    add_params,
    add_records,
    add_sizes,
    check_held,
    settings_with,
    the_graph,
    use_measured,
)
from polyc.tools.pipeline import Compilation
from polyc.tools.sizes import given_sizes, sizes_of
from polyc.tools.steps import Steps, on_stdout, quiet

if TYPE_CHECKING:
    from polyc.dialects.common.signature import SignatureOp
    from polyc.runtime.const_pool import Constants
    from polyc.runtime.program import Program

NAME = "bench"
HELP = "Time a program on the GPU at given sizes; without one the model of time speaks."

ROUNDS = 5
"""Batches of calls, of which the median counts."""

SHOWN = 12
"""Rows of the table."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the program, textual IR of the frontend layer")
    add_sizes(parser)
    parser.add_argument("--arch", help="sm_80 or sm_90a; without it that of the GPU, or sm_90a")
    parser.add_argument("--graph", help="the graph to time, when the file has several")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random inputs")
    add_records(parser)
    add_params(parser, "in place of random ones")
    add_device(parser)


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    from polyc.tools.commands.run import find_gpu

    given_sizes(args.set)
    if args.seed < 0:
        raise PolycError("Usage", f"--seed {args.seed}: a seed is 0 or more")
    gpu = find_gpu(None)
    arch = args.arch or ("sm_80" if gpu is not None and not gpu.runs("sm_90a") else "sm_90a")
    steps = on_stdout()
    source = Compilation.of_file(args.file, check_arch(arch), quiet())
    graph = the_graph(source.module, args.file, args.graph)
    held = None
    if args.params is not None:
        from polyc.tools.held import bound

        held = bound(graph, args.params)
    symbols = sizes_of(settings_with(args.set, held), graph)
    check_held(held, symbols)
    where = "no GPU: by the model of time" if gpu is None else gpu.name
    steps.say(f"@{graph.sym_name.data} at {sizes_text(symbols)}, {arch}, {where}")
    times = _modelled(source, graph, held, symbols, args)
    if gpu is not None:
        with steps.step("compile"):
            program = _program(source.module, arch, args)
            program.compiled_at(symbols)
        seconds = _measured(program, graph, held, symbols, args.seed)
        steps.say(f"{microseconds(seconds):g} us a call, variant {program.chosen(symbols)}")
    _table(steps, times)
    return 0


def _modelled(
    source: Compilation,
    graph: SignatureOp,
    held: Constants | None,
    symbols: Mapping[str, int],
    args: argparse.Namespace,
) -> list[Time]:
    """What the model says of each kernel that a call launches."""
    job = source.fresh(source.arch)
    use_measured(job, args.records, args.device)
    device, records = job.device, job.records
    if held is not None:
        from polyc.tools.bound import split

        own, main, _ = split(source.module, source.arch, graph.sym_name.data)
        job = Compilation(own.ctx, ModuleOp([main.clone()]), source.arch)
        job.device, job.records = device, records
    job.run("plan")
    with modelled_on(source.arch, device):
        return times_of(job.module, symbols)


def _program(module: ModuleOp, arch: str, args: argparse.Namespace) -> Program:
    from polyc.tools.load import load

    return load(module, arch, args.graph, records=args.records, params=args.params)


def _measured(
    program: Program,
    graph: SignatureOp,
    held: Constants | None,
    symbols: Mapping[str, int],
    seed: int,
) -> float:
    """Seconds of a call on random inputs, the median of some batches."""
    from statistics import median

    from polyc.playback.reference import make_inputs
    from polyc.tuning.gpu import Bench

    signature = program.signature
    kept = set[int]() if held is None else set(held.entries)
    arrays: list[Any] = [
        array for i, array in enumerate(make_inputs(graph, symbols, seed)) if i not in kept
    ]
    count = signature.num_inputs
    shapes = [tuple(d.evaluate(symbols) for d in dims) for dims in signature.shapes]
    kinds = list(zip(shapes, signature.elements, strict=True))
    if not any(prod(shape) for shape, _ in kinds[count:]):
        raise PolycError("BadArgument", "the outputs are empty; there is nothing to time")
    bench = Bench([arrays], kinds[:count], kinds[count:], dict(symbols))
    launches = bench.timed(program)
    return median(launches.seconds() for _ in range(ROUNDS))


def _table(steps: Steps, times: Sequence[Time]) -> None:
    """The kernels by what the model says that they take, those alike together."""
    whole = sum(time.seconds for time in times) or 1.0
    alike: dict[tuple[str, float], list[Time]] = {}
    for time in times:
        alike.setdefault((time.variant, microseconds(time.seconds)), []).append(time)
    rows = sorted(alike.values(), key=lambda row: -sum(time.seconds for time in row))
    plural = "" if len(times) == 1 else "s"
    steps.say(f"by the model {microseconds(whole):g} us in {len(times)} launch{plural and 'es'}")
    for row in rows[:SHOWN]:
        own = sum(time.seconds for time in row)
        names = row[0].kernel if len(row) == 1 else f"{row[0].kernel} and {len(row) - 1} alike"
        each = microseconds(row[0].seconds)
        steps.say(f"  {own / whole:4.0%}  {len(row):>3} of {each:g} us  {row[0].variant}  @{names}")
    if len(rows) > SHOWN:
        left = sum(time.seconds for row in rows[SHOWN:] for time in row)
        steps.say(f"  {left / whole:4.0%}  {len(rows) - SHOWN} other kinds")
