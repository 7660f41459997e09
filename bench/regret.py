"""How well the model of time chooses plans for products: random sizes beside cuBLAS (S11.1).

    python bench/regret.py [--count 40] [--seed 1] [--tried 6] [--spread 12] [--sizes 16x4096x4096]

Sizes are random, logarithmically uniform up to 16384: half are multiples of 64, a quarter of 8, a
quarter odd.  For each problem these take turns with ``torch.mm``: what ``plan-select`` chooses for
the sizes as they are (``own``), the product of open sizes with its conditions of dispatch
(``open``), the first ``--tried`` plans of the space by the model, and ``--spread`` of those that
other problems wanted, by the model within twice the time of the first, so that its constants can be
fitted.  A plan that does not take a problem is skipped and counted, and a problem that fails is
reported; neither stops the others.
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
from typing import Any

from polyc.bench import race, splits
from polyc.cost.products import STEP, nanoseconds
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.families.family import fitted
from polyc.families.matmul import ranking, schedules
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.space import Tiling
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

Sizes = tuple[int, int, int]

Row = dict[str, Any]
"""A problem, or a contestant of it, with what was measured."""


def problems(seed: int, count: int) -> list[tuple[str, Sizes]]:
    """Random sizes, each with its class."""
    draw = random.Random(seed)
    found: list[tuple[str, Sizes]] = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]

        def size(kind: str = kind) -> int:
            value = exp(draw.uniform(log(LEAST), log(MOST)))
            if kind == "odd":
                return int(value) | 1
            step = int(kind)
            return max(step, round(value / step) * step)

        found.append((kind, (size(), size(), size())))
    return found


def given(text: str) -> tuple[str, Sizes]:
    """A problem of these sizes, as ``MxNxK`` or a cube's, with its class."""
    sizes = [int(size) for size in text.split("x")]
    m, n, k = sizes * 3 if len(sizes) == 1 else sizes
    return ("odd" if n % 8 or k % 8 else "64" if n % 64 == k % 64 == 0 else "8"), (m, n, k)


def ranked(sizes: Sizes) -> list[tuple[float, Tiling]]:
    """The plans of the space with what the model expects in us, the fastest first."""
    return [(time / 1e3, plan) for time, plan in ranking.ranked((1, *sizes), ARCH)]


def expected(sizes: Sizes, tiling: Tiling) -> float:
    """What the model expects of a plan, in us."""
    return nanoseconds((1, *sizes), tiling, ARCHS[ARCH].multiprocessors) / 1e3


def wanted(
    asked: Sequence[tuple[str, Sizes]], tried: int, spread: int, seed: int
) -> list[list[tuple[float, Tiling]]]:
    """The plans to time for each problem: its first ones, and some that others want."""
    draw = random.Random(seed)
    # Copies of operands are kernels of their own, and a quarter of the problems has them.
    firsts = [ranked(sizes)[: tried // 2 if kind == "odd" else tried] for kind, sizes in asked]
    pools: dict[bool, list[Tiling]] = {}
    for odd in (False, True):
        of_class = (f for f, (kind, _) in zip(firsts, asked, strict=True) if odd == (kind == "odd"))
        pools[odd] = list(dict.fromkeys(plan for first in of_class for _, plan in first))
    found: list[list[tuple[float, Tiling]]] = []
    for first, (kind, sizes) in zip(firsts, asked, strict=True):
        steps, own = -(-sizes[2] // STEP), [plan for _, plan in first]
        others = [p for p in pools[kind == "odd"] if p not in own and p.parts <= steps]
        near = [(expected(sizes, p), p) for p in others]
        near = [one for one in near if one[0] < 2 * first[0][0]]
        found.append([*first, *draw.sample(near, min(spread, len(near)))])
    return found


@cache
def chosen(m: object, n: object, k: object) -> Program:
    """What the compiler makes of a product: of known sizes, or of open ones."""
    ctx = make_context()
    module = parse_text(ctx, splits.TEXT.format(m=m, n=n, k=k), "product.mlir")
    for stage in STAGES:
        for name in STAGES[stage]:
            build(name, ARCH).apply(ctx, module)
    return Program.compile(module)


@cache
def program(tiling: Tiling, padded: bool) -> Program:
    """Kernels of a product of any sizes under a plan."""
    kernel = splits.region_of(splits.regions(splits.OPEN))
    gemm = find_contraction(kernel)
    more: dict[str, Any] = {"loader": "padded", "vectorize": 1} if padded else {}
    fields = {**tiling.fields(), **more}
    # Where it runs is what the bench says, and no condition of the model's.
    variant = schedules.MatmulVariant(tiling.name, 1 if padded else 8, fields, where=())
    found = schedules.filled_facts(gemm) if padded else schedules.conditions(gemm, variant, ARCH)
    assert found is not None
    fields = schedules.schedule_fields(gemm, ARCH, variant)
    plan = fitted(kernel.sym_name.data, tiling.name, fields, tuple(found))
    return Program.compile(splits.built(splits.OPEN, plan))


def compiled(job: tuple[Any, ...]) -> str:
    """Bring a job's cubins into the cache; what is wrong with it, if anything is."""
    name = job[0].name if isinstance(job[0], Tiling) else "x".join(map(str, job))
    try:
        made = chosen(*job) if len(job) == 3 else program(*job)
    except Exception as error:  # One that fails is reported, and the others go on.
        return f"{name}: {type(error).__name__}: {error}"
    spilled = [kernel for kernel, info in made.kernels.items() if info.spill_bytes]
    return f"{name}: spills in {', '.join(spilled)}" if spilled else ""


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
    m, n, k = sizes
    found: list[tuple[Any, Any, Any]] = []
    at = 0
    for _ in range(copies):
        made: list[Any] = []
        for shape in ((m, k), (k, n)):
            size = -(-prod(shape) // 128) * 128
            if at + size > data.numel():
                at = 0
            made.append(data[at : at + prod(shape)].view(shape))
            at += size
        found.append((*made, torch.empty(m, n, device="cuda", dtype=torch.float16)))
    return found


Job = tuple[str, float, Tiling | None, Callable[[], Program]]
"""A contestant: its name, what the model expects of it in us, its plan, and its kernels."""


def raced(
    torch: Any, data: Any, kind: str, sizes: Sizes, jobs: Sequence[Job], skipped: Counter[str]
) -> Row:
    """One problem: ``torch.mm``, and each contestant with what the model expects of it."""
    m, n, k = sizes
    copies = race.copies_for(2 * (m * k + k * n + m * n), driver.device().l2_bytes, most=8)
    sets = operands(torch, data, sizes, copies)

    def peer(i: int) -> None:
        a, b, out = sets[i % copies]
        torch.mm(a, b, out=out)

    row: Row = {"class": kind, "m": m, "n": n, "k": k, "plans": []}
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
                print(f"FAILED {name} of {m}x{n}x{k}: {error}", flush=True)
            continue
        sets[0][2].fill_(float("nan"))
        mine = timed(torch, race.in_turns(torch, launches), copies, guess)
        wrong = (sets[0][2].float() - right).abs().max().item() / scale
        if not wrong < 0.02:
            print(f"WRONG {name} {m}x{n}x{k} by {wrong:.3g}", flush=True)
        one: Row = {"name": name, "model_us": guess, "us": mine}
        if tiling is None:
            one["variant"] = made.chosen({"M": m, "N": n, "K": k})
            row[name] = one
        else:
            row["plans"].append({**one, "tiling": asdict(tiling)})
    return row


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tried", type=int, default=6)
    parser.add_argument("--spread", type=int, default=12)
    parser.add_argument("--sizes", nargs="*", default=[])
    parser.add_argument("--own", action="store_true", help="compile every problem's own choice")
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--out")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = [*map(given, args.sizes), *problems(args.seed, args.count)]
    plans = wanted(asked, args.tried, args.spread, args.seed)
    # Of what TMA takes as it is, the first plan of the space is the choice.
    owned = [
        one for i, one in enumerate(asked) if args.own or i < len(args.sizes) or one[0] == "odd"
    ]
    listed: list[tuple[Any, ...]] = [("M", "N", "K"), *(sizes for _, sizes in owned)]
    for (kind, _), many in zip(asked, plans, strict=True):
        listed += [(tiling, kind == "odd") for _, tiling in many]
    kernels = list(dict.fromkeys(listed))
    print(f"{len(kernels)} programs, ranked in {time.perf_counter() - start:.1f} s", flush=True)
    with ProcessPoolExecutor() as pool:
        faults = dict(zip(kernels, pool.map(compiled, kernels), strict=True))
    for fault in filter(None, faults.values()):
        print("LEFT OUT", fault, flush=True)
    print(f"compiled after {time.perf_counter() - start:.1f} s", flush=True)
    torch = race.load_torch("bench/regret.py")
    torch.manual_seed(args.seed)
    data = torch.randn(1 << 28, device="cuda", dtype=torch.float32).to(torch.float16)
    data = torch.cat([data] * -(-ROOM // data.numel()))
    rows: list[Row] = []
    skipped: Counter[str] = Counter()
    failed = 0
    for (kind, sizes), many in zip(asked, plans, strict=True):
        if time.perf_counter() - start > args.seconds:
            print(f"stopped after {len(rows) + failed} of {len(asked)} problems")
            break
        jobs: list[Job] = [("open", many[0][0], None, partial(chosen, "M", "N", "K"))]
        if (kind, sizes) in owned:
            jobs.append(("own", many[0][0], None, partial(chosen, *sizes)))
        for guess, tiling in many:
            if not faults[tiling, kind == "odd"]:
                jobs.append((tiling.name, guess, tiling, partial(program, tiling, kind == "odd")))
        try:
            rows.append(raced(torch, data, kind, sizes, jobs, skipped))
        except Exception as error:  # A problem that fails must not stop the others.
            failed += 1
            print(f"FAILED {sizes}: {type(error).__name__}: {error}", flush=True)
            continue
        print(line(rows[-1]), flush=True)
        if args.out:
            report = {**race.surroundings(torch, ROUNDS), "seed": args.seed, "rows": rows}
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
    found = f"{row['m']}x{row['n']}x{row['k']}: torch.mm {row['torch_us']:.1f} us"
    for what, one in (
        ("open", row.get("open")),
        ("own", choice(row)),
        ("best", fastest(row["plans"]) if row["plans"] else None),
    ):
        if one is not None:
            ratio = row["torch_us"] / one["us"]
            name = one.get("variant") or one["name"]
            found += f", {what} {name.removeprefix('product_')} {one['us']:.1f} ({ratio:.2f})"
    return found


def show(rows: Sequence[Row], tried: int) -> None:
    """Geometric means by class, of what is chosen and of the best of those tried."""
    rows = [row for row in rows if row["plans"]]
    for kind in ("all", *dict.fromkeys(KINDS)):
        own = [row for row in rows if kind in ("all", row["class"])]
        figures: list[str] = []
        picks: dict[str, list[tuple[Row, Row | None]]] = {
            "own": [(row, choice(row)) for row in own],
            "open": [(row, row.get("open")) for row in own],
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
            print(f"{kind:4} {len(own):3} problems, torch.mm / polyc: {', '.join(figures)}")
    off = [abs(log(p["model_us"] / p["us"])) for row in rows for p in row["plans"]]
    print(f"the model is off by {exp(sum(off) / max(1, len(off))) - 1:.0%} in the mean")


if __name__ == "__main__":
    sys.exit(main())
