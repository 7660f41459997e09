"""``polyc analyze FILE``: what the polyhedral analyses say of a program, as text or JSON (S7.1)."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ModuleOp

from polyc.cost.device import modelled_on
from polyc.cost.time import TYPICAL, microseconds, times_of
from polyc.dialects.common.arch import ARCHS, arch_names, check_arch
from polyc.dialects.common.diagnostic import PolycError
from polyc.poly.indexbook import Json
from polyc.tools.commands.inputs import add_device, add_records, add_sizes, use_measured
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.sizes import check_extents, check_facts, check_names, given_sizes
from polyc.tools.streams import write

NAME = "analyze"
SHOWN = ("region", "variant", "algo_choice", "when", "mma", "loader", "tile", "stages", "split_k")
"""What a report shows of a schedule; --dump=plan has all of it."""

HELP = "Say where values are computed, what may be fused, and what kept a program from TMA."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the program, textual IR of the frontend or tiny layer")
    parser.add_argument("--json", action="store_true", help="the whole report as JSON")
    parser.add_argument("--arch", default="sm_90a", help=f"{arch_names()}; without it sm_90a")
    parser.add_argument("--graph", help="one graph of the file; without it all of them")
    parser.add_argument(
        "--tile",
        action="append",
        default=[],
        metavar="AXIS=SIZE",
        help="the tile along an axis, in place of the report's own (may be repeated)",
    )
    add_sizes(
        parser,
        f"the size that kernels are timed at; a symbol without one is taken as {TYPICAL}",
    )

    add_records(parser)
    add_device(parser)


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    arch = check_arch(args.arch)
    tiles = parse_tiles(args.tile)
    source = Compilation.of_file(args.file, arch)
    use_measured(source, args.records, args.device)
    reports = reports_of(source, tiles, args.graph, args.file, args.set)
    if args.json:
        whole = reports[0] if len(reports) == 1 else reports
        write("-", (json.dumps(whole, indent=2, allow_nan=False) + "\n").encode())
        return 0
    from polyc.tools.commands.analyze_text import report_text

    write("-", "\n".join(report_text(r) for r in reports).encode())
    return 0


def reports_of(
    source: Compilation,
    tiles: dict[str, int],
    wanted: str | None,
    file: str,
    settings: Sequence[str] = (),
) -> list[Json]:
    """A report for each graph of a module, with what ``plan-select`` made of the program.

    ``settings`` are sizes as ``--set`` has them, at which kernels are timed.
    """
    from polyc.poly.report import report_json

    check_settings(source.module, settings)
    booked = source.fresh(source.arch).run("index").module
    found = {g.sym_name.data: g for g in graphs(booked)}
    listed = ", ".join(found) or "none"
    if not found:
        raise PolycError(
            "NothingToAnalyze", "the file has no graph of the frontend or tiny layer", booked
        )
    if wanted is not None and wanted not in found:
        raise PolycError("NothingToAnalyze", f"{file} has no graph {wanted!r}; it has {listed}")
    lowered = lowered_json(source, settings)
    reports: list[Json] = []
    used: set[str] = set()
    for name, graph in found.items():
        if wanted in (None, name):
            made = report_json(graph, ARCHS[source.arch], tiles)
            used |= {t for b in cast("list[Json]", made["analysis"]) for t in cast(Json, b["tile"])}
            reports.append({"graph": name, **made, **lowered})
    unknown = sorted(set(tiles) - used)
    if unknown:
        raise PolycError(
            "Usage",
            f"--tile {unknown[0]}: no block has the axis; there are {', '.join(sorted(used))}",
        )
    return reports


def check_settings(module: ModuleOp, settings: Sequence[str]) -> dict[str, int]:
    """The sizes that ``--set`` gives the graphs of a module.

    Raises PolycError: ``BadSize``, ``UnknownSymbol``, and ``AssumptionViolated``.
    """
    programs = [*graphs(module)]
    sizes = given_sizes(settings, module)
    check_names(sizes, programs, module)
    for program in programs:
        check_facts(sizes, program)
        check_extents(program, {**dict.fromkeys(program.symbol_names, 1), **sizes})
    return sizes


def times_json(source: ModuleOp, planned: ModuleOp, settings: Sequence[str]) -> Json:
    """What the model of time says of each kernel of a module, at the sizes of ``--set``.

    Other symbols are ``TYPICAL``, which ``assumed`` names; where a graph assumes that they are not,
    ``unknown`` says what to give.
    """
    given = check_settings(source, settings)
    programs = [*graphs(source)]
    symbols = dict.fromkeys(symbol for program in programs for symbol in program.symbol_names)
    sizes = {symbol: given.get(symbol, TYPICAL) for symbol in symbols}
    out: Json = {"sizes": sizes, "assumed": [s for s in sizes if s not in given]}
    for program in programs:
        try:
            check_facts(sizes, program)
            check_extents(program, sizes)
        except PolycError as error:
            return out | {"unknown": f"{error.message}; give sizes by --set"}
    times = times_of(planned, sizes)
    out["kernels"] = [time.as_dict() for time in times]
    out["us"] = microseconds(sum(time.seconds for time in times))
    return out


def lowered_json(source: Compilation, settings: Sequence[str] = ()) -> Json:
    """The regions of the program and their schedules, with the time that each kernel is modelled
    to take; where a pass refuses it, its sentence."""
    from polyc.dialects.plan import ScheduleOp
    from polyc.dialects.region import KernelOp
    from polyc.poly.regions import region_dependences, region_json

    out: Json = {"regions": [], "region_dependences": [], "schedules": []}
    job = source.fresh(source.arch)
    job.records, job.device = source.records, source.device
    job.keep = ("region", "plan")
    refused: Json = {}
    try:
        job.run("plan")
    except PolycError as error:
        refused = {"refused": error.as_dict()}
    for module in job.kept.values():
        ops = list(module.ops)  # not the forms that schedules have of regions
        kernels = [op for op in ops if isinstance(op, KernelOp)]
        out["regions"] = [region_json(op) for op in kernels]
        out["region_dependences"] = region_dependences(kernels)
        plans = [op.to_json() for op in ops if isinstance(op, ScheduleOp)]
        out["schedules"] = [{name: plan[name] for name in SHOWN} for plan in plans]
    if "plan" in job.kept:
        with modelled_on(source.arch, source.device):
            out["times"] = times_json(source.module, job.kept["plan"], settings)
    return out | refused


def parse_tiles(settings: list[str]) -> dict[str, int]:
    """``axis=size`` settings by axis.  Raises PolycError of kind ``Usage``."""
    tiles: dict[str, int] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if not name or not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
            raise PolycError("Usage", f"--tile {setting} is not AXIS=SIZE; write --tile m=128")
        if name in tiles:
            raise PolycError("Usage", f"--tile gives {name} twice, {tiles[name]} and {text}")
        tiles[name] = int(text)
    return tiles
