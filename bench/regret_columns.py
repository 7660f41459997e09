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
from typing import Any, NamedTuple

from polyc.bench import race
from polyc.bench.reductions import BETWEEN, CASES, known
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.schedules import others
from polyc.families.rows.recognise import find_rows
from polyc.families.rows.schedules import others as rows_space
from polyc.runtime import kept
from polyc.runtime.lowered import lowered
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


class Made(NamedTuple):
    """A plan of a problem: what the model expects of it in us, its fields, and what is wrong with
    its program, if anything is."""

    name: str
    model_us: float
    fields: Mapping[str, object]
    fault: str


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
    found = candidates(region, ARCH, {}, 2 * tried)
    own, *rest = [(one.time.seconds * 1e6, one.plan) for one in found]
    of_rows = own[1].pattern == "rows"
    space = rows_space(find_rows(region), ARCH) if of_rows else others(find_loops(region), ARCH)
    known_as = fields_of(own[1])
    rest = [
        one
        for one in space or sorted(rest, key=lambda one: one[0])
        if fields_of(one[1]) != known_as
    ]
    firsts, behind = rest[:tried], rest[tried:]
    near = [one for one in behind if one[0] < FAR * rest[0][0]]
    drawn = random.Random(said(problem)).sample(near, min(spread, len(near)))
    return [own, *firsts, *sorted(drawn, key=lambda one: one[0])]


def fields_of(plan: ScheduleOp) -> Mapping[str, object]:
    """What makes a plan, without its name."""
    return plan_fields(plan.to_json())


def entry_of(problem: Problem, plan: ScheduleOp) -> str | None:
    """The name on disk of a problem's program under a plan."""
    return kept.key("bench", {"columns": list(problem), "plan": plan.to_json()})


def program(problem: Problem, name: str, fields: Mapping[str, object]) -> Program:
    """A problem's program under a plan with these fields, lowered where it is not on disk."""
    job, region = region_of(problem)
    plan = laid(region, ARCH, fields, (), name)
    entry = entry_of(problem, plan)
    return Program(kept.origin(entry, lambda: lowered(regions.lowered(job, region, plan))))


def made(problem: Problem, tried: int, spread: int) -> list[Made]:
    """The plans of a problem, compiled and kept on disk."""
    found: list[Made] = []
    for us, plan in planned(problem, tried, spread):
        name, fields, fault = plan.variant.data, fields_of(plan), ""
        try:
            kernels = program(problem, name, fields).kernels
            fault = ", ".join(kernel for kernel, info in kernels.items() if info.spill_bytes)
            fault = fault and f"{fault} spills"
        except Exception as error:  # One that fails is reported, and the others go on.
            fault = f"{type(error).__name__}: {str(error)[:200]}"
        found.append(Made(name, us, fields, fault))
    load(CASES[problem[0]].text, ARCH)
    return found


@cache
def opened(op: str) -> Program:
    """What the compiler makes of open sizes."""
    return load(CASES[op].text, ARCH)


def shape_of(problem: Problem) -> tuple[int, ...]:
    """The shape of the tensor that is reduced."""
    op, rows, length = problem
    return tuple(CASES[op].whole({"M": rows, "N": length}))


def raced(torch: Any, problem: Problem, plans: Sequence[Made]) -> Row:
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
            asked.append((row, program(problem, one.name, one.fields), {}))
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
