"""``polyc tune``: time the plans of a program's regions on this GPU, keep the fastest (S11.2)."""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from polyc.dialects.common.arch import check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.commands.inputs import add_device, add_sizes, the_graph, use_measured
from polyc.tools.interrupt import instead
from polyc.tools.pipeline import Compilation, add_file_arguments
from polyc.tools.sizes import check_extents, check_facts, given_sizes, parse_sizes
from polyc.tools.steps import Steps, on_stdout
from polyc.tools.streams import write

if TYPE_CHECKING:
    from polyc.dialects.region import KernelOp
    from polyc.tuning.candidates import Candidate
    from polyc.tuning.regions import Size

NAME = "tune"
HELP = "Time the plans of each region of a program on this GPU, and record the fastest."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_arguments(parser, "the program, textual IR of the frontend layer")
    add_sizes(parser)
    parser.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="NAME=LOW..HIGH",
        help="the values of a symbol at which what is measured at its size is used "
        "(may be repeated); without it the size alone",
    )
    parser.add_argument("--arch", help="sm_80 or sm_90a; without it what the GPU runs best")
    parser.add_argument("--graph", help="the graph to tune, when the file has several")
    parser.add_argument("--records", metavar="FILE", help="the file to keep the fastest plans in")
    parser.add_argument("--log", metavar="FILE", help="write every candidate as a line of CSV")
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds for each region; without it 60"
    )
    parser.add_argument(
        "--candidates", type=int, default=16, help="plans for each region; without it 16"
    )
    parser.add_argument(
        "--dry", action="store_true", help="print the candidates with their modelled times alone"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random inputs")
    add_device(parser)


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    if args.candidates < 1 or not args.budget > 0 or args.seed < 0:
        raise PolycError(
            "Usage", "--candidates is 1 or more, --budget above 0, and --seed 0 or more"
        )
    given_sizes(args.set)
    ranges = parse_ranges(args.range)
    steps = on_stdout()
    if not args.dry:
        need_gpu()
    arch = args.arch or ("sm_90a" if args.dry else own_arch())
    job = Compilation.of_file(args.file, check_arch(arch), program=args.program)
    graph = the_graph(job.module, args.file, args.graph)
    sizes = parse_sizes(args.set, graph)
    check_extents(graph, sizes)
    recorded_sizes: dict[str, Size] = dict(sizes)
    for name, (low, high) in ranges.items():
        if name not in sizes or not low <= sizes[name] <= high:
            raise PolycError(
                "BadSize",
                f"--range {name}={low}..{high} is around no size of {name}; "
                "give one in it by --set",
            )
        check_facts({**sizes, name: low}, graph)
        check_facts({**sizes, name: high}, graph)
        recorded_sizes[name] = (low, high)
    use_measured(job, None, args.device)
    from polyc.tuning.records import read

    before = None
    if args.records is not None and Path(args.records).exists():
        before = read(args.records)  # what is broken is said before anything is measured
    from polyc.tools.tuning.regions import regions_of

    code, logs = 0, list[str]()
    stopped = threading.Event()
    for region in regions_of(job):
        if stopped.is_set():
            break
        own = {s: n for s, n in recorded_sizes.items() if s in region.symbol_names}
        points = {s: n for s, n in sizes.items() if s in region.symbol_names}
        found = tune(job, region, own, points, args, steps, stopped, before, logs)
        code = max(code, found)
    if args.log is not None:
        write(args.log, "".join(logs).encode())
        steps.say(f"wrote {args.log}")
    return code


def tune(
    job: Compilation,
    region: KernelOp,
    sizes: dict[str, Size],
    points: dict[str, int],
    args: argparse.Namespace,
    steps: Steps,
    stopped: threading.Event,
    before: object,
    logs: list[str],
) -> int:
    """One region; returns 1 where a candidate is wrong."""
    from polyc.tools.tuning.tuner import Tried, Tuner, log_text, regret_text, table
    from polyc.tools.tuning.workshop import Workshop
    from polyc.tuning.candidates import candidates
    from polyc.tuning.chip import Chip, Compiler
    from polyc.tuning.records import Records, save
    from polyc.tuning.regions import canonical, digest, sizes_text

    name = region.sym_name.data
    known: Mapping[str, object] | None = None
    if isinstance(before, Records):
        own = digest(canonical(region))
        known = next(
            (
                r.plan
                for r in before.records
                if (r.region, r.arch) == (own, job.arch) and dict(r.sizes) == sizes
                if args.dry or r.compiler == Compiler.here()
            ),
            None,
        )
    with steps.step("rank plans") as step:
        listed = candidates(region, job.arch, points, args.candidates, job.device, known)
        step.note = f"{len(listed)} of @{name} at {sizes_text(sizes)}"
    if args.dry:
        tried = [Tried(c) for c in listed]
        lines = table(tried)
        steps.say(f"@{name} for {job.arch} at {sizes_text(sizes)}, by the model")
        for line in lines:
            steps.say(line.replace("  measured us  of best", ""))
        logs.append(log_text(region, sizes, points, job.arch, tried, job.device, not logs))
        return 0
    # A candidate holds at the sizes that it is recorded for.
    ranged = [_over(region, c, sizes) for c in listed] if sizes != points else listed
    chip = Chip.here()
    taken = [c for c in ranged if c is not None]
    shop = Workshop(job, region, points, taken, args.seed, steps)
    tuner = Tuner(
        region,
        sizes,
        taken,
        shop,
        steps,
        args.budget,
        stop=stopped.is_set,
    )
    try:
        with instead(stopped.set):
            tuner.run()
    except KeyboardInterrupt:
        stopped.set()
    steps.say(f"@{name} for {job.arch} at {sizes_text(sizes)} on {chip}: {tuner.ended}")
    for line in table(tuner.tried):
        steps.say(line)
    logs.append(log_text(region, sizes, points, job.arch, tuner.tried, job.device, not logs))
    new, raced = tuner.record(chip, job.arch)
    best = tuner.best
    if best is not None and best.seconds is not None:
        steps.say(f"the fastest is {best.candidate.name}, {best.seconds * 1e6:.2f} us")
    if (regret := regret_text(tuner.tried)) is not None:
        steps.say(regret)
    if args.records is not None and new.records:
        save(args.records, new, raced)
        steps.say(f"recorded in {args.records}")
    for one in tuner.wrong:
        steps.say(
            f"WRONG: plan {one.candidate.name!r} of @{name} at {sizes_text(sizes)}: {one.why}; "
            "this is a fault of polyc, and it is not recorded"
        )
    if tuner.lost:
        stopped.set()
        steps.say("a kernel failed, and the GPU runs nothing more in this process")
    return 1 if tuner.wrong or best is None else 0


def _over(region: KernelOp, candidate: Candidate, sizes: dict[str, Size]) -> Candidate | None:
    """A candidate for a range of sizes, or None where its plan does not hold in all of it."""
    from dataclasses import replace

    from polyc.tuning.candidates import laid
    from polyc.tuning.regions import facts

    try:
        plan = laid(
            region, candidate.plan.arch.data, candidate.fields, facts(sizes), candidate.name
        )
    except PolycError:
        return None
    return replace(candidate, plan=plan)


def need_gpu() -> None:
    """Raises PolycError ``NoGPU`` where there is none."""
    from polyc.runtime import driver

    if not driver.available():
        raise PolycError(
            "NoGPU",
            "polyc tune times kernels on a GPU, and there is none here; --dry prints the "
            "candidates with their modelled times",
        )


def own_arch() -> str:
    """The architecture that the GPU runs.  Raises PolycError where it runs none."""
    from polyc.dialects.common.arch import ARCHS, arch_names
    from polyc.runtime import driver

    here = driver.device()
    for arch in reversed(list(ARCHS)):
        if here.runs(arch):
            return arch
    major, minor = here.capability
    raise PolycError(
        "ArchMismatch",
        f"{here.name} is sm_{major}{minor}, and polyc makes kernels for {arch_names()}",
    )


def parse_ranges(settings: list[str]) -> dict[str, tuple[int, int]]:
    """``NAME=LOW..HIGH`` by name.  Raises PolycError ``BadSize``."""
    found: dict[str, tuple[int, int]] = {}
    for setting in settings:
        match = re.fullmatch(r"(\w+)=([0-9]{1,9})\.\.([0-9]{1,9})", setting)
        if match is None or int(match[2]) > int(match[3]):
            raise PolycError(
                "BadSize", f"--range {setting} is not NAME=LOW..HIGH; write --range M=1..64"
            )
        if match[1] in found:
            raise PolycError("BadSize", f"--range gives {match[1]} twice")
        found[match[1]] = int(match[2]), int(match[3])
    return found
