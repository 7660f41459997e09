"""How well sums of columns, middle axes, rows and whole tensors are shared out (S11.1).

    python bench/regret_columns.py [--count 30] [--seed 1] [--part 1/2] [--tried 12] [--spread 4]
                                   [--seconds 100] [--out FILE]

Reductions of ``bench/reductions.py`` with random sizes, 4 to 128 million elements of f16; rows are
8 to 2**20 long, a quarter of them odd.  For each problem these take turns: what the compiler makes
of the graph with its sizes in it (``own``) and with open ones (``open``), the plans of the space in
the order of the model of time, others of it that are drawn, so that its constants can be fitted,
and PyTorch.  The regret of a choice is how much longer it takes than the fastest of all.

Programs are built in other processes, and kept on disk, while the GPU times those before them.
Needs an NVIDIA GPU and PyTorch, but for ``--dry``, which prints the choices and compiles nothing.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from functools import cache, partial
from math import exp, log, prod
from typing import Any, TypeVar

from polyc.bench import race
from polyc.bench.reductions import BETWEEN, CASES, known
from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.schedules import others, shared_schedule
from polyc.families.rows.recognise import find_rows
from polyc.families.rows.schedules import others as rows_space
from polyc.passes.plan.select import propose
from polyc.runtime import kept
from polyc.runtime.lowered import Lowered, lowered
from polyc.runtime.program import Program
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.tuning import regions
from polyc.tuning.candidates import candidates, laid
from polyc.tuning.records import plan_fields

ARCH = "sm_90a"
OPS = (
    "column_sum",
    "middle_sum",
    "column_max",
    "channel_mean",
    "column_sum",
    "full_sum",
    "row_sum",
)
LEAST, MOST = 8, 1 << 20
ELEMENTS = 1 << 22, 1 << 27

FAR = 2.5
"""How many times the model's best time a plan may take to be drawn."""

Problem = tuple[str, int, int]
"""A graph of ``bench/reductions.py``, M and N."""

Row = dict[str, Any]


def problems(seed: int, count: int) -> list[Problem]:
    """Random problems, the graphs in turn."""
    draw = random.Random(seed)
    found: list[Problem] = []
    while len(found) < count:
        op = OPS[len(found) % len(OPS)]
        length = round(exp(draw.uniform(log(LEAST), log(MOST))))
        length = length | 1 if draw.random() < 0.25 else max(8, length // 8 * 8)
        elements = exp(draw.uniform(*map(log, ELEMENTS)))
        rows = max(1, round(elements / length / BETWEEN.get(op, 1)))
        if rows * length * BETWEEN.get(op, 1) <= ELEMENTS[1]:
            found.append((op, rows, length))
    return found


def said(problem: Problem) -> str:
    """A problem as text."""
    op, rows, length = problem
    return f"{op} {rows}x{length}"


@cache
def region_of(problem: Problem) -> tuple[Compilation, Any]:
    """The one region of a problem of known sizes."""
    op, rows, length = problem
    ctx = make_context()
    text = known(CASES[op].text, {"M": rows, "N": length})
    job = Compilation(ctx, parse_text(ctx, text, "columns.mlir"), ARCH)
    (region,) = regions.regions_of(job)
    return job, region


def planned(problem: Problem, tried: int, spread: int) -> list[tuple[float, ScheduleOp]]:
    """The plans to time with what the model expects of each in us: the compiler's own, the model's
    first ones, and some that are drawn of those behind."""
    _, region = region_of(problem)
    family, (own, *_), _ = propose(region, ARCH)
    draw = random.Random(said(problem))
    if family.name == "rows":
        plans = picked(rows_space(find_rows(region), ARCH), tried, spread, draw)
    else:
        loops = find_loops(region)
        tiles = picked(others(loops, ARCH), tried, spread, draw)
        plans = [(ns / 1e3, shared_schedule(loops, ARCH, tile)) for ns, tile in tiles]
    if not plans:
        found = candidates(region, ARCH, {}, tried + spread)
        plans = [(one.time.seconds * 1e6, one.plan) for one in found]
    known_as = fields_of(own)
    rest = [one for one in plans if fields_of(one[1]) != known_as]
    return [(modelled(region, own, {}).seconds * 1e6, own), *rest]


Plan = TypeVar("Plan")


def picked(
    found: Sequence[tuple[float, Plan]], tried: int, spread: int, draw: random.Random
) -> list[tuple[float, Plan]]:
    """The first of a space, and some of those behind that are not far."""
    first, behind = found[: tried + 1], found[tried + 1 :]
    near = [one for one in behind if one[0] < FAR * found[0][0]]
    return [*first, *sorted(draw.sample(near, min(spread, len(near))), key=lambda one: one[0])]


def fields_of(plan: ScheduleOp) -> Mapping[str, object]:
    """What makes a plan, without its name."""
    return plan_fields(plan.to_json())


def program(problem: Problem, plan: ScheduleOp, entry: str | None) -> Program:
    """A problem's program under a plan, lowered where it is not on disk."""
    job, region = region_of(problem)
    return Program(kept.origin(entry, lambda: lowered(regions.lowered(job, region, plan))))


def made(problem: Problem, tried: int, spread: int) -> list[race.Planned]:
    """The plans of a problem, compiled and kept on disk."""
    found: list[race.Planned] = []
    for us, plan in planned(problem, tried, spread):
        entry = kept.key("bench", {"columns": list(problem), "plan": plan.to_json()})
        fault = ""
        try:
            kernels = program(problem, plan, entry).kernels
            if spilled := [kernel for kernel, info in kernels.items() if info.spill_bytes]:
                fault = f"{', '.join(spilled)} spills"
        except Exception as error:  # One that fails is reported, and the others go on.
            fault = f"{type(error).__name__}: {str(error)[:200]}"
        found.append(race.Planned(plan.variant.data, us, fields_of(plan), entry, fault))
    load(CASES[problem[0]].text, ARCH)
    return found


def there(problem: Problem, one: race.Planned) -> Program:
    """The program of a plan that was made."""

    def lower() -> Lowered:
        job, region = region_of(problem)
        plan = laid(region, ARCH, one.fields, (), one.name)
        return lowered(regions.lowered(job, region, plan))

    return Program(kept.origin(one.entry, lower))


@cache
def opened(op: str) -> Program:
    """What the compiler makes of open sizes."""
    return load(CASES[op].text, ARCH)


def shape_of(problem: Problem) -> tuple[int, ...]:
    """The shape of the tensor that is reduced."""
    op, rows, length = problem
    return tuple(CASES[op].whole({"M": rows, "N": length}))


def raced(torch: Any, problem: Problem, plans: Sequence[race.Planned]) -> Row:
    """One problem: PyTorch, what is chosen of open sizes, and each plan."""
    op, rows, length = problem
    case, sizes, shape = CASES[op], {"M": rows, "N": length}, shape_of(problem)
    copies = race.copies_for(2 * prod(shape), torch.cuda.get_device_properties(0).L2_cache_size)
    sets = [torch.randn(*shape, device="cuda", dtype=torch.float16) for _ in range(copies)]
    outs = [torch.empty(case.out(sizes), device="cuda", dtype=torch.float16) for _ in sets]
    right = case.peer(torch.nn.functional, [sets[0].float()])
    # Sums of numbers of either sign: their size, and a step of f16 of the largest.
    most = max((right.abs().max().item() or 1.0) * 2.0**-9, 2.0**-24)

    def eager(i: int) -> None:
        case.peer(torch.nn.functional, [sets[i % copies]])

    runs: list[Any] = [eager]
    named: list[Row] = []
    asked: list[tuple[Row, Program, dict[str, int]]] = [({"name": "open"}, opened(op), sizes)]
    for one in plans:
        if one.fault:
            print(f"LEFT OUT {said(problem)} {one.name}: {one.fault}", flush=True)
        else:
            row = {"name": one.name, "model_us": one.model_us, "fields": one.fields}
            asked.append((row, there(problem, one), {}))
    for row, compiled, given in asked:
        try:
            pairs = zip(sets, outs, strict=True)
            launches = [compiled.launch([x], [o], given) for x, o in pairs]
        except PolycError as error:
            print(f"{said(problem)}: {row['name']} does not run, {error.kind}", flush=True)
            continue
        outs[0].fill_(float("nan"))
        run = race.in_turns(torch, launches)
        run(0)
        off = (outs[0].float() - right).abs().max().item() / most
        if not off <= 1:
            print(f"WRONG {row['name']} {said(problem)} by {off:.3g}", flush=True)
        if not given:
            row["registers"] = [kernel.registers for kernel in compiled.kernels.values()]
        else:
            row["variant"] = compiled.chosen(sizes)
        runs.append(run)
        named.append(row)
    eager_us, *times = race.paced(torch, runs, copies)
    for row, us in zip(named, times, strict=True):
        row["us"] = us
    found = {one["name"]: one for one in named if one["name"] == "open"}
    own, *rest = [one for one in named if one["name"] != "open"]
    return {"op": op, "m": rows, "n": length, "eager_us": eager_us, **found, "own": own} | {
        "plans": rest
    }


def line(row: Row) -> str:
    """A problem: its choices beside PyTorch and the fastest."""
    best = min(row["plans"], key=lambda plan: plan["us"], default=row["own"])
    found = f"{row['op']} {row['m']}x{row['n']}: eager {row['eager_us']:.1f}"
    for what in ("own", "open"):
        if one := row.get(what):
            name = one.get("variant") or one["name"]
            found += f", {what} {name} {one['us']:.1f} (+{race.regret(row, what):.0%})"
    return f"{found}, best {best['name']} {best['us']:.1f}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = race.regret_options(__doc__ or "", 30, 12, 4)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args(argv)
    asked = race.part_of(problems(args.seed, args.count), args.part)
    if args.dry:
        for problem in asked:
            many = planned(problem, args.tried, args.spread)
            listed = ", ".join(f"{plan.variant.data} {us:.1f}" for us, plan in many)
            print(f"{said(problem)}: {listed}")
        return 0
    make = partial(made, tried=args.tried, spread=args.spread)
    rows = race.regrets(args, "bench/regret_columns.py", asked, make, raced, line)
    for row in sorted(rows, key=lambda row: race.regret(row, "own"))[::-1][:10]:
        print(f"  {line(row)}")
    for text in race.summary(rows):
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
