"""How well sums of columns, middle axes, rows and whole tensors are shared out (S11.1).

    python bench/regret_columns.py [--count 30] [--seed 1] [--tried 8] [--seconds 100] [--out FILE]

Reductions of ``bench/reductions.py`` with random sizes, 4 to 128 million elements of f16; rows are
8 to 2**20 long, a quarter of them odd.  For each problem these take turns: what the compiler makes
of the graph with its sizes in it (``own``) and with open ones (``open``), the plans that ``polyc
tune`` would try, in the order of the model of time, and PyTorch.  The regret of a choice is how
much longer it takes than the fastest of all.

Needs an NVIDIA GPU and PyTorch, but for ``--dry``, which prints the choices and compiles nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from functools import cache
from math import exp, log, prod
from pathlib import Path
from typing import Any

from polyc.bench import race
from polyc.bench.reductions import BETWEEN, CASES, known
from polyc.bench.regret import faults_of, mean, timed
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.tuning.regions import compiled as kernels_of
from polyc.tools.tuning.regions import regions_of
from polyc.tuning.candidates import Candidate, candidates

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
HOST = 20.0
"""Microseconds that a launch of its own takes beside its kernel's, about."""

NEAR = 2.0
"""How many times the model's best time a plan may take to be tried."""

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
def planned(problem: Problem, tried: int) -> tuple[Compilation, Any, list[Candidate]]:
    """The one region of a problem of known sizes, and the plans to time, its own first."""
    op, rows, length = problem
    ctx = make_context()
    text = known(CASES[op].text, {"M": rows, "N": length})
    job = Compilation(ctx, parse_text(ctx, text, "columns.mlir"), ARCH)
    (region,) = regions_of(job)
    found = candidates(region, ARCH, {}, 2 * tried)
    least = min(one.time.seconds for one in found)
    own, rest = found[:1], [one for one in found[1:] if one.time.seconds < NEAR * least]
    return job, region, [*own, *sorted(rest, key=lambda one: one.time.seconds)][:tried]


@cache
def program(problem: Problem, tried: int, at: int) -> Program:
    """A problem under one of its plans."""
    job, region, plans = planned(problem, tried)
    return kernels_of(job, region, plans[at].plan)


@cache
def opened(op: str) -> Program:
    """What the compiler makes of open sizes."""
    return load(CASES[op].text, ARCH)


def compiled(job: tuple[Problem, int, int]) -> str:
    """Bring a job's cubins into the cache; what is wrong with it, if anything is."""
    try:
        made = program(*job)
    except Exception as error:  # One that fails is reported, and the others go on.
        return f"{said(job[0])}: {type(error).__name__}: {str(error)[:200]}"
    spilled = [kernel for kernel, info in made.kernels.items() if info.spill_bytes]
    return f"{said(job[0])}: spills in {', '.join(spilled)}" if spilled else ""


def shape_of(problem: Problem) -> tuple[int, ...]:
    """The shape of the tensor that is reduced."""
    op, rows, length = problem
    return tuple(CASES[op].whole({"M": rows, "N": length}))


def raced(torch: Any, problem: Problem, tried: int, faults: Sequence[str]) -> Row:
    """One problem: PyTorch, what is chosen of open sizes, and each plan."""
    op, rows, length = problem
    case, sizes, shape = CASES[op], {"M": rows, "N": length}, shape_of(problem)
    copies = race.copies_for(2 * prod(shape), torch.cuda.get_device_properties(0).L2_cache_size)
    sets = [torch.randn(*shape, device="cuda", dtype=torch.float16) for _ in range(copies)]
    outs = [torch.empty(case.out(sizes), device="cuda", dtype=torch.float16) for _ in sets]
    right = case.peer(torch.nn.functional, [sets[0].float()])
    # Sums of numbers of either sign: their size, and a step of f16 of the largest.
    most = max((right.abs().max().item() or 1.0) * 2.0**-9, 2.0**-24)

    def us(run: Any) -> float:
        run(0)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run(1)
        end.record()
        end.synchronize()
        return timed(torch, run, copies, max(2.0, start.elapsed_time(end) * 1e3 - HOST))

    def eager(i: int) -> None:
        case.peer(torch.nn.functional, [sets[i % copies]])

    row: Row = {"op": op, "m": rows, "n": length, "eager_us": us(eager), "plans": []}
    _, _, plans = planned(problem, tried)
    contestants: list[tuple[str, float, Program, dict[str, int]]] = []
    contestants.append(("open", 0.0, opened(op), sizes))
    for at, (one, fault) in enumerate(zip(plans, faults, strict=True)):
        if not fault:
            model = one.time.seconds * 1e6
            contestants.append((one.name, model, program(problem, tried, at), {}))
    for name, model, made, given in contestants:
        try:
            pairs = zip(sets, outs, strict=True)
            launches = [made.launch([x], [o], given) for x, o in pairs]
        except PolycError as error:
            print(f"{said(problem)}: {name} does not run, {error.kind}", flush=True)
            continue
        outs[0].fill_(float("nan"))
        mine = us(race.in_turns(torch, launches))
        off = (outs[0].float() - right).abs().max().item() / most
        if not off <= 1:
            print(f"WRONG {name} {said(problem)} by {off:.3g}", flush=True)
        one_row: Row = {"name": name, "us": mine, "model_us": model}
        if name == "open":
            row["open"] = {**one_row, "variant": made.chosen(sizes)}
        else:
            row["plans"].append(one_row)
    return row


def regret(row: Row, of: str) -> float:
    """How much longer a choice takes than the fastest that was tried."""
    one = row["plans"][0] if of == "own" else row["open"]
    best = min(plan["us"] for plan in (*row["plans"], row["open"]))
    return one["us"] / best - 1


def line(row: Row) -> str:
    """A problem: its choices beside PyTorch and the fastest."""
    best = min(row["plans"], key=lambda plan: plan["us"])
    found = f"{row['op']} {row['m']}x{row['n']}: eager {row['eager_us']:.1f}"
    for what, one in (("own", row["plans"][0]), ("open", row["open"]), ("best", best)):
        found += f", {what} {one.get('variant') or one['name']} {one['us']:.1f}"
    return f"{found} (regret {regret(row, 'own'):.0%} {regret(row, 'open'):.0%})"


def show(rows: Sequence[Row]) -> None:
    """The regrets, and the problems with the largest."""
    for what in ("own", "open"):
        found = sorted(((regret(row, what), row) for row in rows), key=lambda one: one[0])
        if not found:
            return
        values = [one for one, _ in found]
        high = values[min(len(values) - 1, int(0.95 * len(values)))]
        whole = mean([1 + one for one in values]) - 1
        print(f"{what}: regret {whole:.1%} in the mean, 95th percentile {high:.0%}")
        for _, row in found[::-1][:10]:
            print(f"  {line(row)}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tried", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--out")
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = problems(args.seed, args.count)
    plans = {problem: planned(problem, args.tried)[2] for problem in asked}
    if args.dry:
        for problem, many in plans.items():
            listed = ", ".join(f"{one.name} {one.time.seconds * 1e6:.1f}" for one in many)
            print(f"{said(problem)}: {listed}")
        return 0
    jobs = [(problem, args.tried, at) for problem, many in plans.items() for at in range(len(many))]
    faults = faults_of(compiled, jobs)
    print(f"{len(jobs)} programs after {time.perf_counter() - start:.1f} s", flush=True)
    torch = race.load_torch("bench/regret_columns.py")
    torch.manual_seed(args.seed)
    rows: list[Row] = []
    for problem, many in plans.items():
        if time.perf_counter() - start > args.seconds:
            print(f"stopped after {len(rows)} of {len(asked)} problems")
            break
        wrong = [faults[problem, args.tried, at] for at in range(len(many))]
        try:
            for at, fault in enumerate(wrong):
                if not fault:
                    program(problem, args.tried, at)
            with race.alone():
                rows.append(raced(torch, problem, args.tried, wrong))
        except Exception as error:  # A problem that fails must not stop the others.
            print(f"FAILED {said(problem)}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        print(line(rows[-1]), flush=True)
        if args.out:
            report = {**race.surroundings(torch, 3, args.commit), "seed": args.seed, "rows": rows}
            Path(args.out).write_text(json.dumps(report, indent=1) + "\n")
    show(rows)
    print(f"{time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
