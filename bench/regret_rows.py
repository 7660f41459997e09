"""How well rows are held: random norms and softmaxes, each in all ways of the space (S11.1).

    python bench/regret_rows.py [--count 24] [--seed 1] [--part 1/2] [--tried 8] [--spread 4]
                                [--seconds 100] [--cases column_softmax:8192x4096] [--out FILE]

Rows have 64 to 2**20 elements, logarithmically uniform, whole vectors, and tensors 16 to 128 MB.
For each problem these take turns: what the compiler makes of the graph with its sizes in it
(``own``) and with open ones (``open``), the plans of ``families/rows/space.py`` that the model of
time expects to be the fastest, and others that are drawn, so that its constants can be fitted.  The
regret of a choice is how much longer it takes than the fastest of all.

Programs are built in other processes, and kept on disk, while the GPU times those before them.
Needs an NVIDIA GPU and PyTorch, but for ``--dry``, which prints the choices and compiles nothing.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from math import exp, log, prod
from typing import Any, NamedTuple

from polyc.bench import race
from polyc.bench.reductions import CASES, MIDDLE, known, parse_case
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
from polyc.runtime import kept
from polyc.runtime.lowered import Lowered, lowered
from polyc.runtime.program import Program
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCH = "sm_90a"
OPS = ("softmax", "layer_norm", "rms_norm", "residual_rms_norm")
LEAST, MOST = 64, 1 << 20
ELEMENTS = 1 << 23, 1 << 26

FAR = 3.0
"""How many times the model's best time a plan may take to be drawn."""

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


class Made(NamedTuple):
    """A variant of a problem, what the model expects of it in us, and what is wrong with its
    program, if anything is."""

    variant: RowsVariant
    model_us: float
    fault: str


def wanted(problem: Problem, tried: int, spread: int) -> list[tuple[float, RowsVariant]]:
    """The plans to time: the model's first ones, and some that are drawn of the others."""
    found = ways(problem)
    first = found[:tried]
    near = [one for one in found[tried:] if one[0] < FAR * found[0][0]]
    drawn = random.Random(str(problem)).sample(near, min(len(near), spread))
    return [*first, *sorted(drawn, key=lambda one: one[0])]


@cache
def chosen(op: str, count: int | None, length: int | None) -> Program:
    """What the compiler makes of a graph: of known sizes, or of open ones."""
    text = CASES[op].text
    if count is not None and length is not None:
        text = known(text, {"M": count, "N": length})
    return load(text, ARCH)


def program(problem: Problem, variant: RowsVariant) -> Program:
    """The kernel of a problem under a variant, lowered where it is not on disk."""

    def lower() -> Lowered:
        module, kernel = region(problem)
        plan = plan_of(find_rows(kernel), variant)
        block = kernel.parent_block()
        assert block is not None and plan is not None
        block.insert_op_after(plan, kernel)
        ctx = make_context()
        for name in (*STAGES["plan"][1:], *STAGES["tiles"], *STAGES["gpu"]):
            build(name, ARCH).apply(ctx, module)
        return lowered(module)

    entry = kept.key("bench", {"rows": list(problem), "variant": asdict(variant)})
    return Program(kept.origin(entry, lower))


def made(problem: Problem, tried: int, spread: int) -> list[Made]:
    """The plans of a problem, compiled and kept on disk, as what is chosen is."""
    for sizes in (problem, (problem[0], None, None)):
        assert chosen(*sizes).kernels
    found: list[Made] = []
    for us, variant in wanted(problem, tried, spread):
        fault = ""
        try:
            spilled = [
                k for k, info in program(problem, variant).kernels.items() if info.spill_bytes
            ]
            fault = f"{', '.join(spilled)} spills" if spilled else ""
        except Exception as error:  # One that fails is reported, and the others go on.
            fault = f"{type(error).__name__}: {str(error)[:200]}"
        found.append(Made(variant, us, fault))
    return found


def raced(torch: Any, problem: Problem, plans: Sequence[Made], peer: bool) -> Row:
    """One problem: a copy, what is chosen, and each plan."""
    op, count, length = problem
    case, sizes = CASES[op], {"M": count, "N": length}
    shape = case.whole(sizes)
    copies = race.copies_for(4 * prod(shape), torch.cuda.get_device_properties(0).L2_cache_size)

    def made(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.float16)

    shapes = {"N": (length,), "M": (count,), "middle": (MIDDLE,), "MN": shape}
    sets = [[made(*shape), *(made(*shapes[o]) for o in case.others)] for _ in range(copies)]
    outs = [torch.empty(case.out(sizes), device="cuda", dtype=torch.float16) for _ in sets]
    wanted_out = case.peer(torch.nn.functional, [t.float() for t in sets[0]])
    most = max((wanted_out.abs().max().item() or 1.0) * 2.0**-9, 2.0**-24)

    spare = torch.empty_like(sets[0][0])

    def copy(i: int) -> None:
        spare.copy_(sets[i % copies][0])

    def function(*tensors: Any) -> Any:
        return case.peer(torch.nn.functional, tensors)

    peers: dict[str, Any] = {"copy_us": copy}
    if peer:
        torch.compiler.reset()
        theirs = torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(*sets[0])

        def inductor(i: int) -> None:
            theirs(*sets[i % copies])

        peers["inductor_us"] = inductor
    asked: list[tuple[Row, Program, dict[str, int]]] = [
        ({"name": "own"}, chosen(*problem), {}),
        ({"name": "open"}, chosen(op, None, None), sizes),
    ]
    for one in plans:
        if one.fault:
            print(f"LEFT OUT {problem} {one.variant.name}: {one.fault}", flush=True)
            continue
        row = {"name": one.variant.name, "model_us": one.model_us, "fields": asdict(one.variant)}
        asked.append((row, program(problem, one.variant), {}))
    runs, named = [*peers.values()], list[Row]()
    for row, compiled, given in asked:
        taken = compiled.chosen(given)
        try:
            pairs = zip(sets, outs, strict=True)
            launches = [compiled.launch(i, [o], given, taken) for i, o in pairs]
        except PolycError:
            continue  # It does not find room on this chip.
        outs[0].fill_(float("nan"))
        run = race.in_turns(torch, launches)
        run(0)
        off = (outs[0].float() - wanted_out).abs().max().item() / most
        if not off <= 1:
            print(f"WRONG {row['name']} {problem} by {off:.3g}", flush=True)
        runs.append(run)
        named.append({**row, "variant": taken})
    times = race.paced(torch, runs, copies)
    for row, us in zip(named, times[len(peers) :], strict=True):
        row["us"] = us
    own, opened, *rest = named
    theirs_us = dict(zip(peers, times, strict=False))
    theirs_us["copy_us"] *= case.passes / 2
    row = {"op": op, "m": count, "n": length, **theirs_us}
    return {**row, "own": own, "open": opened, "plans": rest}


def line(row: Row) -> str:
    """A problem: its choices beside the copy and the fastest."""
    best = min(row["plans"], key=lambda plan: plan["us"])
    found = f"{row['op']} {row['m']}x{row['n']}: copy {row['copy_us']:.1f}"
    if "inductor_us" in row:
        found += f", inductor {row['inductor_us']:.1f}"
    for what, one in (("own", row["own"]), ("open", row["open"]), ("best", best)):
        name = str(one["variant"]).removeprefix(f"{row['op']}_")
        found += f", {what} {name} {one['us']:.1f}"
    return f"{found} (regret {race.regret(row, 'own'):.0%} {race.regret(row, 'open'):.0%})"


def main(argv: Sequence[str] | None = None) -> int:
    parser = race.regret_options(__doc__ or "", 24, 8, 4)
    parser.add_argument("--inductor", action="store_true", help="time torch.compile too")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--cases", nargs="+", type=parse_case, metavar="OP:ROWSxCOLUMNS")
    args = parser.parse_args(argv)
    if args.cases:
        asked: list[Problem] = [(op, *sizes) for op, sizes in args.cases]
    else:
        asked = race.part_of(problems(args.seed, args.count), args.part)
    if args.dry:
        for problem in asked:
            many = wanted(problem, args.tried, args.spread)
            print(problem, ", ".join(f"{variant.name} {us:.1f}" for us, variant in many))
        return 0
    make = partial(made, tried=args.tried, spread=args.spread)
    race_one = partial(raced, peer=args.inductor)
    rows = race.regrets(args, "bench/regret_rows.py", asked, make, race_one, line)
    for row in sorted(rows, key=lambda row: race.regret(row, "own"))[::-1][:10]:
        print(f"  {line(row)}")
    for text in race.summary(rows):
        print(text)
    plans = [plan for row in rows for plan in row["plans"]]
    off = [abs(log(plan["model_us"] / plan["us"])) for plan in plans]
    print(f"the model is off by {exp(sum(off) / max(1, len(off))) - 1:.0%} in the mean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
