"""How well the model of time chooses plans for products: random sizes beside cuBLAS (S11.1).

    python bench/regret.py [--count 40] [--batched 8] [--seed 1] [--tried 6] [--spread 12] [--all 4]
                           [--sizes 16x4096x4096 8x512x512x512]

Sizes are random, logarithmically uniform up to 16384, of products of 1 MFLOP or more: half are
multiples of 64, a quarter of 8, a quarter odd; ``--batched`` are so many of batches beside them.
For each problem these take turns with ``torch.mm``: what ``plan-select`` chooses for the sizes as
they are (``own``), the product of open sizes with its conditions of dispatch (``open``), the first
``--tried`` plans of the space by the model, and ``--spread`` of those that other problems wanted,
by the model within twice the time of the first, so that its constants can be fitted.  Of the first
``--all`` problems all plans of the space are timed.  Where nvMatmulHeuristics is installed, the
plan of the space that is nearest to what that picks is timed too (``picked``).  A plan that does
not take a problem is skipped and counted, and a problem that fails is reported; neither stops the
others.  Regret is the time of a choice over that of the fastest plan that was timed, less 1.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache, partial
from math import exp, log, prod
from pathlib import Path
from typing import Any, TypeVar

from polyc.bench import heuristics, race, splits
from polyc.cost.products import STEP, Stored, nanoseconds
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.families import ranking
from polyc.families.family import fitted
from polyc.families.matmul import conditions, schedules
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.variants import MatmulVariant
from polyc.families.space import Tiling
from polyc.passes.pipeline import STAGES, build
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCH = "sm_90a"
LEAST, MOST = 16, 16384
"""Of a size."""

SECONDS = 0.004
"""Of a batch of replays."""

ROUNDS = 3

KINDS = ("64", "8", "64", "odd")
"""What sizes are multiples of, one problem after another."""

ROOM = 3 * 16385 * 16448
"""Elements of which operands are made: more than the largest problem's."""

LEAST_FLOPS = 1e6

MOST_BATCH, MOST_BATCHED = 64, 2048
"""Matrices of a batch, and their sizes."""

Sizes = tuple[int, int, int, int]
"""Matrices of a batch, rows, columns, depth."""

Row = dict[str, Any]
"""A problem, or a contestant of it, with what was measured."""


def problems(seed: int, count: int, batched: bool = False) -> list[tuple[str, Sizes]]:
    """Random sizes, each with its class."""
    draw = random.Random(f"{seed} batched" if batched else seed)
    found: list[tuple[str, Sizes]] = []

    def number(least: int, most: int) -> float:
        return exp(draw.uniform(log(least), log(most)))

    while len(found) < count:
        kind = KINDS[len(found) % len(KINDS)]

        def size(kind: str = kind) -> int:
            value = number(LEAST, MOST_BATCHED if batched else MOST)
            if kind == "odd":
                return int(value) | 1
            step = int(kind)
            return max(step, round(value / step) * step)

        sizes = (round(number(2, MOST_BATCH)) if batched else 1, size(), size(), size())
        if 2 * prod(sizes) >= LEAST_FLOPS:
            found.append((kind, sizes))
    return found


def given(text: str) -> tuple[str, Sizes]:
    """A problem of these sizes, as ``MxNxK`` or a cube's, or of a batch, with its class."""
    sizes = [int(size) for size in text.split("x")]
    *batch, m, n, k = sizes * 3 if len(sizes) == 1 else sizes
    kind = "odd" if n % 8 or k % 8 else "64" if n % 64 == k % 64 == 0 else "8"
    return kind, (batch[0] if batch else 1, m, n, k)


def said(sizes: Sizes) -> str:
    """Sizes as text."""
    return "x".join(map(str, sizes[sizes[0] == 1 :]))


def ranked(sizes: Sizes, kind: str) -> list[tuple[float, Tiling]]:
    """The plans of the space with what the model expects in us, the fastest first."""
    found = ranking.ranked(sizes, ARCH, form_of(sizes, kind))
    return [(time / 1e3, plan) for time, plan in found]


def form_of(sizes: Sizes, kind: str) -> ranking.Form:
    """What there is of a problem beside its sizes."""
    *_, n, k = sizes
    if kind == "odd":
        return ranking.Form(loose=n % 8 > 0)
    return ranking.Form(stored=Stored(k % ranking.LINE > 0, n % ranking.LINE > 0))


def expected(sizes: Sizes, kind: str, tiling: Tiling) -> float:
    """What the model expects of a plan, in us."""
    stored = form_of(sizes, kind).stored
    return nanoseconds(sizes, tiling, ARCHS[ARCH].multiprocessors, stored=stored) / 1e3


def wanted(
    asked: Sequence[tuple[str, Sizes]], tried: int, spread: int, seed: int, whole: int = 0
) -> list[list[tuple[float, Tiling]]]:
    """The plans to time for each problem: its first ones, and some that others want; all of the
    first ``whole``.
    """
    draw = random.Random(seed)
    # Copies of operands are kernels of their own, and a quarter of the problems has them.
    firsts = [
        ranked(sizes, kind)[: None if i < whole else tried // 2 if kind == "odd" else tried]
        for i, (kind, sizes) in enumerate(asked)
    ]
    pools: dict[bool, list[Tiling]] = {}
    for odd in (False, True):
        of_class = (f for f, (kind, _) in zip(firsts, asked, strict=True) if odd == (kind == "odd"))
        pools[odd] = list(dict.fromkeys(plan for first in of_class for _, plan in first[:tried]))
    found: list[list[tuple[float, Tiling]]] = []
    for first, (kind, sizes) in zip(firsts, asked, strict=True):
        steps, own = -(-sizes[3] // STEP), [plan for _, plan in first]
        others = [p for p in pools[kind == "odd"] if p not in own and p.parts <= steps]
        near = [(expected(sizes, kind, p), p) for p in others]
        near = [one for one in near if one[0] < 2 * first[0][0]]
        found.append([*first, *draw.sample(near, min(spread, len(near)))])
    return found


def picked(asked: Sequence[tuple[str, Sizes]]) -> list[tuple[float, Tiling] | None]:
    """The plan of the space that is nearest to what nvMatmulHeuristics picks for each problem; None
    where it is not installed, for odd sizes and for batches.
    """
    plain = [sizes for kind, sizes in asked if kind != "odd" and sizes[0] == 1]
    found = dict(zip(plain, heuristics.picks([(m, n, k) for _, m, n, k in plain]), strict=True))
    return [
        nearest(sizes, kind, pick) if (pick := found.get(sizes)) else None for kind, sizes in asked
    ]


def nearest(sizes: Sizes, kind: str, pick: heuristics.Pick) -> tuple[float, Tiling]:
    """The plan of the space that is nearest to a kernel, and the fastest of several."""

    def far(one: tuple[int, Tiling]) -> tuple[float, int]:
        time, plan = one
        own = (plan.rows, plan.columns, plan.parts, plan.below, plan.beside)
        wants = (*pick.tile, pick.parts, *pick.cluster)
        return sum(abs(log(a / b)) for a, b in zip(own, wants, strict=True)), time

    time, plan = min(ranking.ranked(sizes, ARCH, form_of(sizes, kind)), key=far)
    return time / 1e3, plan


@cache
def chosen(*sizes: object) -> Program:
    """What the compiler makes of a product: of known sizes, or of open ones."""
    ctx = make_context()
    module = parse_text(ctx, splits.text_of(sizes), "product.mlir")
    for stage, names in STAGES.items():
        for name in names:
            build(name, ARCH).apply(ctx, module)
        if stage == "tiles":
            break
    return Program.compile(module, lazily=True)


@cache
def program(tiling: Tiling, padded: bool, batched: bool = False) -> Program:
    """Kernels of a product of any sizes under a plan."""
    sizes = splits.BATCHED if batched else splits.OPEN
    kernel = splits.region_of(splits.regions(sizes))
    gemm = find_contraction(kernel)
    more: dict[str, Any] = {"loader": "padded", "vectorize": 1} if padded else {}
    fields = {**tiling.fields(), **more}
    # Where it runs is what the bench says, and no condition of the model's.
    variant = MatmulVariant(tiling.name, 1 if padded else 8, fields, where=())
    found = conditions.filled_facts(gemm) if padded else conditions.conditions(gemm, variant, ARCH)
    assert found is not None
    fields = schedules.schedule_fields(gemm, ARCH, variant)
    plan = fitted(kernel.sym_name.data, tiling.name, fields, tuple(found))
    return Program.compile(splits.built(sizes, plan))


def own_sizes(sizes: Sizes) -> tuple[int, ...]:
    """The sizes of a product, without a batch of one matrix."""
    return sizes[sizes[0] == 1 :]


def open_sizes(sizes: Sizes) -> tuple[str, ...]:
    """The same of open sizes."""
    return splits.OPEN if sizes[0] == 1 else splits.BATCHED


def compiled(job: tuple[Any, ...]) -> str:
    """Bring a job's cubins into the cache; what is wrong with it, if anything is."""
    name = job[0].name if isinstance(job[0], Tiling) else "x".join(map(str, job))
    try:
        made = program(*job) if isinstance(job[0], Tiling) else chosen(*job)
    except Exception as error:  # One that fails is reported, and the others go on.
        return f"{name}: {type(error).__name__}: {error}"
    spilled = [kernel for kernel, info in made.kernels.items() if info.spill_bytes]
    return f"{name}: spills in {', '.join(spilled)}" if spilled else ""


Made = TypeVar("Made")


class Asked(dict[Made, str]):
    """What is wrong with programs, each compiled here when it is asked for."""

    def __init__(self, compiled: Callable[[Made], str]) -> None:
        super().__init__()
        self.compiled = compiled

    def __missing__(self, job: Made) -> str:
        self[job] = self.compiled(job)
        if self[job]:
            print("LEFT OUT", self[job], flush=True)
        return self[job]


def faults_of(compiled: Callable[[Made], str], jobs: Sequence[Made]) -> dict[Made, str]:
    """What is wrong with each of several programs, or nothing, compiled side by side.

    Those that are left out for it are printed.  Beside other benchmarks each is compiled when it is
    asked for.
    """
    if race.shared():
        return Asked(compiled)
    with ProcessPoolExecutor() as pool:
        faults = dict(zip(jobs, pool.map(compiled, jobs), strict=True))
    for fault in filter(None, faults.values()):
        print("LEFT OUT", fault, flush=True)
    return faults


def timed(torch: Any, run: Any, copies: int, guess: float) -> float:
    """Microseconds a launch, of which one is thought to take ``guess``."""
    several = max(copies, min(race.GRAPH_LAUNCHES, round(SECONDS * 1e6 / guess)))
    launches = -(-several // copies) * copies
    graph = race.captured(torch, run, launches)
    first = race.time_batch(torch, graph, 1)
    replays = max(1, round(SECONDS * 1e3 / first))
    found = sorted(race.time_batch(torch, graph, replays) for _ in range(ROUNDS))
    return found[ROUNDS // 2] / launches * 1e3


def operands(torch: Any, data: Any, sizes: Sizes, copies: int) -> list[tuple[Any, Any, Any]]:
    """So many problems of random numbers, each in other places of ``data``."""
    *batch, m, n, k = own_sizes(sizes)
    found: list[tuple[Any, Any, Any]] = []
    at = 0
    for _ in range(copies):
        made: list[Any] = []
        for shape in ((*batch, m, k), (*batch, k, n)):
            size = -(-prod(shape) // 128) * 128
            if at + size > data.numel():
                at = 0
            made.append(data[at : at + prod(shape)].view(shape))
            at += size
        found.append((*made, torch.empty(*batch, m, n, device="cuda", dtype=torch.float16)))
    return found


Job = tuple[str, float, Tiling | None, Callable[[], Program]]
"""A contestant: its name, what the model expects of it in us, its plan, and its kernels."""


def raced(
    torch: Any, data: Any, kind: str, sizes: Sizes, jobs: Sequence[Job], skipped: Counter[str]
) -> Row:
    """One problem: ``torch.mm``, and each contestant with what the model expects of it."""
    batch, m, n, k = sizes
    size = 2 * batch * (m * k + k * n + m * n)
    copies = race.copies_for(size, driver.device().l2_bytes, most=8)
    sets = operands(torch, data, sizes, copies)

    def peer(i: int) -> None:
        a, b, out = sets[i % copies]
        multiply(a, b, out=out)

    multiply = torch.mm if batch == 1 else torch.bmm
    row: Row = {"class": kind, "batch": batch, "m": m, "n": n, "k": k, "plans": []}
    least = jobs[0][1] if jobs else 10.0
    row["torch_us"] = timed(torch, peer, copies, least)
    right = sets[0][2].float()
    scale = max(1.0, right.abs().max().item())
    for name, guess, tiling, make in jobs:
        try:
            made = make()
            launches = [made.launch([a, b], [out]) for a, b, out in sets]
        except PolycError as error:
            skipped[error.kind] += 1
            if tiling is None:
                print(f"FAILED {name} of {said(sizes)}: {error}", flush=True)
            continue
        sets[0][2].fill_(float("nan"))
        mine = timed(torch, race.in_turns(torch, launches), copies, guess)
        wrong = (sets[0][2].float() - right).abs().max().item() / scale
        if not wrong < 0.02:
            print(f"WRONG {name} {said(sizes)} by {wrong:.3g}", flush=True)
        one: Row = {"name": name, "model_us": guess, "us": mine}
        if tiling is None:
            one["variant"] = made.chosen({"B": batch, "M": m, "N": n, "K": k})
            row[name] = one
        elif name == "picked":
            row[name] = {**one, "variant": tiling.name}
        else:
            row["plans"].append({**one, "tiling": asdict(tiling)})
    return row


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--batched", type=int, default=0)
    parser.add_argument("--all", type=int, default=0, help="time all plans of so many problems")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tried", type=int, default=6)
    parser.add_argument("--spread", type=int, default=12)
    parser.add_argument("--sizes", nargs="*", default=[])
    parser.add_argument("--own", action="store_true", help="compile every problem's own choice")
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--out")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = [*map(given, args.sizes), *problems(args.seed, args.count)]
    asked += problems(args.seed, args.batched, batched=True)
    plans = wanted(asked, args.tried, args.spread, args.seed, args.all)
    others = picked(asked)
    # Of what TMA takes as it is, the first plan of the space is the choice.
    owned = [
        one for i, one in enumerate(asked) if args.own or i < len(args.sizes) or one[0] == "odd"
    ]
    listed: list[tuple[Any, ...]] = [own_sizes(sizes) for _, sizes in owned]
    for (kind, sizes), many, other in zip(asked, plans, others, strict=True):
        listed.append(open_sizes(sizes))
        more = [] if other is None else [other]
        listed += [(tiling, kind == "odd", sizes[0] > 1) for _, tiling in (*many, *more)]
    kernels = list(dict.fromkeys(listed))
    print(f"{len(kernels)} programs, ranked in {time.perf_counter() - start:.1f} s", flush=True)
    faults = faults_of(compiled, kernels)
    print(f"compiled after {time.perf_counter() - start:.1f} s", flush=True)
    torch = race.load_torch("bench/regret.py")
    torch.manual_seed(args.seed)
    data = torch.randn(1 << 28, device="cuda", dtype=torch.float32).to(torch.float16)
    data = torch.cat([data] * -(-ROOM // data.numel()))
    rows: list[Row] = []
    skipped: Counter[str] = Counter()
    failed = 0
    for (kind, sizes), many, other in zip(asked, plans, others, strict=True):
        if time.perf_counter() - start > args.seconds:
            print(f"stopped after {len(rows) + failed} of {len(asked)} problems")
            break
        jobs: list[Job] = [("open", many[0][0], None, partial(chosen, *open_sizes(sizes)))]
        # Beside other benchmarks it is compiled here, before the GPU is asked for.
        faults[open_sizes(sizes)]
        if (kind, sizes) in owned:
            faults[own_sizes(sizes)]
            jobs.append(("own", many[0][0], None, partial(chosen, *own_sizes(sizes))))
        named = [(tiling.name, guess, tiling) for guess, tiling in many]
        if other is not None:
            named.append(("picked", *other))
        for name, guess, tiling in named:
            key = (tiling, kind == "odd", sizes[0] > 1)
            if not faults[key]:
                jobs.append((name, guess, tiling, partial(program, *key)))
        try:
            with race.alone():
                rows.append(raced(torch, data, kind, sizes, jobs, skipped))
        except Exception as error:  # A problem that fails must not stop the others.
            failed += 1
            print(f"FAILED {said(sizes)}: {type(error).__name__}: {error}", flush=True)
            continue
        print(line(rows[-1]), flush=True)
        if args.out:
            report = {
                **race.surroundings(torch, ROUNDS, args.commit),
                "seed": args.seed,
                "rows": rows,
            }
            Path(args.out).write_text(json.dumps(report, indent=1) + "\n")
    show(rows, args.tried)
    print(f"{failed} problems failed; skipped: {dict(skipped)}")
    print(f"{time.perf_counter() - start:.1f} s")
    return 0


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / max(1, len(values)))


def fastest(plans: Sequence[Row]) -> Row:
    """The one of least time."""
    return min(plans, key=lambda plan: plan["us"])


def choice(row: Row) -> Row | None:
    """What the compiler chooses for a problem's sizes, and how long that takes."""
    return row.get("own") or next(iter(row["plans"]), None)


def line(row: Row) -> str:
    """A problem: sizes, cuBLAS, and what was chosen beside what was the fastest."""
    sizes = said((row["batch"], row["m"], row["n"], row["k"]))
    found = f"{sizes}: torch.mm {row['torch_us']:.1f} us"
    for what, one in (
        ("open", row.get("open")),
        ("own", choice(row)),
        ("picked", row.get("picked")),
        ("best", fastest(row["plans"]) if row["plans"] else None),
    ):
        if one is not None:
            ratio = row["torch_us"] / one["us"]
            name = one.get("variant") or one["name"]
            found += f", {what} {name.removeprefix('product_')} {one['us']:.1f} ({ratio:.2f})"
    return found


def least_of(row: Row) -> float:
    """The least time of all that polyc had."""
    others = [row[name] for name in ("own", "open", "picked") if row.get(name)]
    return min(one["us"] for one in (*row["plans"], *others))


def after(rows: Sequence[Row]) -> list[tuple[str, list[tuple[Row, Row | None]]]]:
    """The fastest of so many that the model has ahead, where as many were measured."""
    found: list[tuple[str, list[tuple[Row, Row | None]]]] = []
    for count in (1, 4, 16):
        many = [row for row in rows if len(row["plans"]) >= count]
        picks: list[tuple[Row, Row | None]] = [(row, fastest(row["plans"][:count])) for row in many]
        found.append((f"the first {count}", picks))
    return found


def show(rows: Sequence[Row], tried: int) -> None:
    """Geometric means by class, of what is chosen and of the best of those tried."""
    rows = [row for row in rows if row["plans"]]
    for kind in ("all", *dict.fromkeys(KINDS), "batched"):
        of = {kind == "batched"} if kind != "all" else {False, True}
        of_class = ("all", "batched") if kind == "batched" else ("all",)
        own = [
            row
            for row in rows
            if (kind in of_class or row["class"] == kind) and (row["batch"] > 1) in of
        ]
        if not own:
            continue
        figures: list[str] = []
        picks: dict[str, list[tuple[Row, Row | None]]] = {
            "own": [(row, choice(row)) for row in own],
            "open": [(row, row.get("open")) for row in own],
            "picked": [(row, row.get("picked")) for row in own],
            f"best of {tried}": [(row, fastest(row["plans"][:tried])) for row in own],
            "best of all": [(row, fastest(row["plans"])) for row in own],
        }
        for what, pairs in picks.items():
            ratios = sorted(row["torch_us"] / one["us"] for row, one in pairs if one is not None)
            if ratios:
                above = sum(ratio > 0.85 for ratio in ratios) / len(ratios)
                figures.append(
                    f"{what} {mean(ratios):.3f} (least {ratios[0]:.2f}, {above:.0%} above 0.85)"
                )
        if figures:
            print(f"{kind:7} {len(own):3} problems, torch.mm / polyc: {', '.join(figures)}")
        for what, pairs in (("own", picks["own"]), ("open", picks["open"]), *after(own)):
            lost = sorted(one["us"] / least_of(row) - 1 for row, one in pairs if one is not None)
            if lost:
                worst = lost[min(len(lost) - 1, round(0.95 * len(lost)))]
                mid = mean([1 + part for part in lost]) - 1
                print(f"        regret of {what}: {mid:.1%} (95th percentile {worst:.0%})")
    off = [abs(log(p["model_us"] / p["us"])) for row in rows for p in row["plans"]]
    print(f"the model is off by {exp(sum(off) / max(1, len(off))) - 1:.0%} in the mean")


if __name__ == "__main__":
    sys.exit(main())
