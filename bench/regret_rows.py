"""How well rows are held: random norms and softmaxes, each in all ways of the space (S11.1).

    python bench/regret_rows.py [--count 24] [--seed 1] [--tried 12] [--seconds 100] [--out FILE]

Rows have 64 to 2**20 elements, logarithmically uniform, whole vectors, and tensors 16 to 128 MB.
For each problem these take turns: what the compiler makes of the graph with its sizes in it
(``own``) and with open ones (``open``), the plans of ``families/rows/space.py`` that the model of
time expects to be the fastest, and others that are drawn, so that its constants can be fitted.  The
regret of a choice is how much longer it takes than the fastest of all.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from math import exp, log
from pathlib import Path
from typing import Any

from polyc.bench import race
from polyc.bench.reductions import CASES, known
from polyc.bench.regret import faults_of, mean, timed
from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import fitted
from polyc.families.rows.recognise import Rows, find_rows
from polyc.families.rows.schedules import conditions, schedule_fields, variants
from polyc.families.rows.space import space
from polyc.families.rows.variants import RowsVariant
from polyc.passes.pipeline import STAGES, build
from polyc.runtime.program import Program
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCH = "sm_90a"
OPS = ("softmax", "layer_norm", "rms_norm", "residual_rms_norm")
LEAST, MOST = 64, 1 << 20
ELEMENTS = 1 << 23, 1 << 26

Problem = tuple[str, int, int]
"""A graph of ``bench/reductions.py``, its rows and their length."""

Row = dict[str, Any]


def problems(seed: int, count: int) -> list[Problem]:
    """Random problems, the graphs in turn."""
    draw = random.Random(seed)
    found: list[Problem] = []
    for number in range(count):
        length = round(exp(draw.uniform(log(LEAST), log(MOST))) / 8) * 8
        elements = exp(draw.uniform(*map(log, ELEMENTS)))
        found.append((OPS[number % len(OPS)], max(1, round(elements / length)), length))
    return found


def region(problem: Problem) -> tuple[Any, KernelOp]:
    """The module of a problem of known sizes, and its one region."""
    op, count, length = problem
    ctx = make_context()
    module = parse_text(ctx, known(CASES[op].text, {"M": count, "N": length}), "rows.mlir")
    for stage in ("tiny", "index", "region"):
        for name in STAGES[stage]:
            build(name, ARCH).apply(ctx, module)
    return module, next(op for op in module.walk() if isinstance(op, KernelOp))


def plan_of(rows: Rows, variant: RowsVariant) -> ScheduleOp | None:
    """The schedule of a variant, if it can run."""
    when = conditions(rows, ARCH, variant)
    if when is None:
        return None
    fields = schedule_fields(rows, ARCH, variant)
    return fitted(rows.kernel.sym_name.data, variant.name, fields, when)


def ways(problem: Problem) -> list[tuple[float, RowsVariant]]:
    """The variants for a problem with what the model expects in us, the fastest first."""
    _, kernel = region(problem)
    rows = find_rows(kernel)
    own = variants(rows, ARCH)
    found: list[tuple[float, RowsVariant]] = []
    for variant in (*own, *space(rows, ARCH, own[0].vector)):
        try:
            plan = plan_of(rows, variant)
            if plan is not None:
                plan.verify()
                found.append((modelled(kernel, plan, {}).seconds * 1e6, variant))
        except Exception:  # More than the hardware has.
            continue
    return sorted(found, key=lambda one: one[0])


def wanted(problem: Problem, tried: int, seed: int) -> list[tuple[float, RowsVariant]]:
    """The plans to time: half of them the model's first ones, half drawn from the others."""
    found = ways(problem)
    first, rest = found[: tried // 2], found[tried // 2 :]
    return [*first, *random.Random(seed).sample(rest, min(len(rest), tried - len(first)))]


@cache
def chosen(op: str, count: int | None, length: int | None) -> Program:
    """What the compiler makes of a graph: of known sizes, or of open ones."""
    text = CASES[op].text
    if count is not None and length is not None:
        text = known(text, {"M": count, "N": length})
    return load(text, ARCH)


@cache
def program(problem: Problem, variant: RowsVariant) -> Program:
    """The kernel of a problem under a variant."""
    module, kernel = region(problem)
    plan = plan_of(find_rows(kernel), variant)
    block = kernel.parent_block()
    assert block is not None and plan is not None
    block.insert_op_after(plan, kernel)
    ctx = make_context()
    for name in ("region-expand-together", *STAGES["tiles"], *STAGES["gpu"]):
        build(name, ARCH).apply(ctx, module)
    return Program.compile(module)


def compiled(job: tuple[Any, ...]) -> str:
    """Bring a job's cubins into the cache; what is wrong with it, if anything is."""
    try:
        made = chosen(*job) if len(job) == 3 else program(*job)
    except Exception as error:  # One that fails is reported, and the others go on.
        return f"{job}: {type(error).__name__}: {str(error)[:200]}"
    spilled = [kernel for kernel, info in made.kernels.items() if info.spill_bytes]
    return f"{job}: spills" if spilled and len(job) == 2 else ""


def raced(
    torch: Any, problem: Problem, plans: Sequence[tuple[float, RowsVariant]], peer: bool
) -> Row:
    """One problem: a copy, what is chosen, and each plan."""
    op, count, length = problem
    case, sizes = CASES[op], {"M": count, "N": length}
    copies = race.copies_for(4 * count * length, torch.cuda.get_device_properties(0).L2_cache_size)

    def made(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.float16)

    shapes = {"N": (length,), "MN": (count, length)}
    sets = [[made(count, length), *(made(*shapes[o]) for o in case.others)] for _ in range(copies)]
    outs = [torch.empty_like(one[0]) for one in sets]
    wanted_out = case.peer(torch.nn.functional, [t.float() for t in sets[0]])
    most = max((wanted_out.abs().max().item() or 1.0) * 2.0**-9, 2.0**-24)
    guess = 2 * count * length * case.passes / 4e6

    def us(run: Any) -> float:
        return timed(torch, run, copies, guess)

    row: Row = {"op": op, "m": count, "n": length, "plans": []}

    def copy(i: int) -> None:
        outs[i % copies].copy_(sets[i % copies][0])

    def function(*tensors: Any) -> Any:
        return case.peer(torch.nn.functional, tensors)

    row["copy_us"] = us(copy) * case.passes / 2
    if peer:
        torch.compiler.reset()
        theirs = torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(*sets[0])

        def inductor(i: int) -> None:
            theirs(*sets[i % copies])

        row["inductor_us"] = us(inductor)
    contestants: list[tuple[str, float, Any, dict[str, int], Any]] = [
        ("own", 0.0, chosen(*problem), {}, None),
        ("open", 0.0, chosen(op, None, None), sizes, None),
    ]
    for model, variant in plans:
        contestants.append((variant.name, model, program(problem, variant), {}, variant))
    for name, model, compiled_program, given, variant in contestants:
        taken = compiled_program.chosen(given)
        try:
            pairs = zip(sets, outs, strict=True)
            launches = [compiled_program.launch(i, [o], given, taken) for i, o in pairs]
        except PolycError:
            continue  # It does not find room on this chip.
        outs[0].fill_(float("nan"))
        mine = us(race.in_turns(torch, launches))
        off = (outs[0].float() - wanted_out).abs().max().item() / most
        if not off <= 1:
            print(f"WRONG {name} {problem} by {off:.3g}", flush=True)
        one: Row = {"name": name, "us": mine, "model_us": model, "variant": taken}
        if variant is None:
            row[name] = one
        else:
            fields = {
                key: getattr(variant, key)
                for key in ("way", "columns", "warps_a_row", "parts", "kept", "turns", "stages")
            }
            row["plans"].append({**one, **fields})
    return row


def regret(row: Row, of: str) -> float:
    """How much longer a choice takes than the fastest that was tried."""
    best = min(one["us"] for one in (*row["plans"], row["own"], row["open"]))
    return row[of]["us"] / best - 1


def line(row: Row) -> str:
    """A problem: its choices beside the copy and the fastest."""
    best = min(row["plans"], key=lambda plan: plan["us"])
    found = f"{row['op']} {row['m']}x{row['n']}: copy {row['copy_us']:.1f}"
    if "inductor_us" in row:
        found += f", inductor {row['inductor_us']:.1f}"
    for what, one in (("own", row["own"]), ("open", row["open"]), ("best", best)):
        name = str(one["variant"]).removeprefix(f"{row['op']}_")
        found += f", {what} {name} {one['us']:.1f}"
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
        for value, row in found[::-1][:10]:
            print(f"  {value:.0%} {line(row)}")
    plans = [plan for row in rows for plan in row["plans"]]
    off = [abs(log(plan["model_us"] / plan["us"])) for plan in plans if plan["model_us"]]
    print(f"the model is off by {exp(sum(off) / max(1, len(off))) - 1:.0%} in the mean")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tried", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--inductor", action="store_true", help="time torch.compile too")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--out")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = problems(args.seed, args.count)
    with ProcessPoolExecutor(1 if race.shared() else None) as pool:
        orders = [(p, args.tried, args.seed + i) for i, p in enumerate(asked)]
        plans = list(pool.map(wanted, *zip(*orders, strict=True)))
    jobs: list[tuple[Any, ...]] = [(op, None, None) for op in OPS]
    jobs += asked
    jobs += [(p, v) for p, many in zip(asked, plans, strict=True) for _, v in many]
    faults = faults_of(compiled, jobs)
    print(f"{len(jobs)} programs after {time.perf_counter() - start:.1f} s", flush=True)
    torch = race.load_torch("bench/regret_rows.py")
    torch.manual_seed(args.seed)
    rows: list[Row] = []
    for problem, many in zip(asked, plans, strict=True):
        if time.perf_counter() - start > args.seconds:
            print(f"stopped after {len(rows)} of {len(asked)} problems")
            break
        left = [one for one in many if not faults[problem, one[1]]]
        # Beside other benchmarks these are compiled here, before the GPU is asked for.
        if any([faults[problem], faults[problem[0], None, None]]):
            continue
        try:
            with race.alone():
                rows.append(raced(torch, problem, left, args.inductor))
        except Exception as error:  # A problem that fails must not stop the others.
            print(f"FAILED {problem}: {type(error).__name__}: {str(error)[:200]}", flush=True)
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
