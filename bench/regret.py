"""How well the model of time chooses plans for products: random sizes beside cuBLAS (S11.1).

    python bench/regret.py [--count 40] [--seed 1] [--tried 16] [--spread 0] [--out FILE.json]

Sizes are random, logarithmically uniform up to 16384: half are multiples of 64, a quarter of 8, a
quarter odd.  For each, the plans of the space are ranked by the model, and the first ``--tried``
are timed beside ``torch.mm``; with ``--spread`` so many more are drawn from those that the model
expects within twice the time of its first, so that its constants can be fitted.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from math import exp, log, prod
from pathlib import Path
from typing import Any

from polyc.bench import race
from polyc.bench.splits import TEXT
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
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


def ranked(sizes: Sizes) -> list[tuple[float, Tiling]]:
    """The plans of the space with what the model expects in us, the fastest first."""
    return [(time / 1e3, plan) for time, plan in ranking.ranked((1, *sizes), ARCH)]


@cache
def program(tiling: Tiling, padded: bool) -> Program:
    """Kernels of a product of any sizes under a plan."""
    ctx = make_context()
    module = parse_text(ctx, TEXT.format(m="M", n="N", k="K"), "product.mlir")
    for stage in ("tiny", "index", "region"):
        for name in STAGES[stage]:
            build(name, ARCH).apply(ctx, module)
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    gemm = find_contraction(kernel)
    more: dict[str, Any] = {"loader": "padded", "vectorize": 1} if padded else {}
    fields = {**tiling.fields(), **more}
    variant = schedules.MatmulVariant(tiling.name, 1 if padded else 8, fields)
    found = schedules.filled_facts(gemm) if padded else schedules.conditions(gemm, variant, ARCH)
    assert found is not None
    when = tuple(found)
    fields = schedules.schedule_fields(gemm, ARCH, variant)
    plan = fitted(kernel.sym_name.data, tiling.name, fields, when)
    block = kernel.parent_block()
    assert block is not None
    block.insert_op_after(plan, kernel)
    for name in ("region-expand-together", *STAGES["gpu"]):
        build(name, ARCH).apply(ctx, module)
    return Program.compile(module)


def compiled(one: tuple[Tiling, bool]) -> str:
    """Bring a plan's cubin into the cache; what is wrong with it, if anything is."""
    try:
        made = program(*one)
    except (PolycError, AssertionError, ValueError) as error:
        return f"{one[0].name}: {error}"
    spilled = [name for name, info in made.kernels.items() if info.spill_bytes]
    return f"{one[0].name}: spills in {', '.join(spilled)}" if spilled else ""


def timed(torch: Any, run: Any, copies: int) -> float:
    """Microseconds a launch."""
    launches = -(-race.GRAPH_LAUNCHES // copies) * copies
    graph = race.captured(torch, run, launches)
    first = race.time_batch(torch, graph, 1)
    first = min(first, race.time_batch(torch, graph, 1))
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


def raced(
    torch: Any, data: Any, kind: str, sizes: Sizes, plans: Sequence[tuple[float, Tiling]]
) -> dict[str, Any]:
    """One problem: ``torch.mm``, and each plan with what the model expects of it."""
    m, n, k = sizes
    copies = race.copies_for(2 * (m * k + k * n + m * n), driver.device().l2_bytes, most=8)
    sets = operands(torch, data, sizes, copies)

    def peer(i: int) -> None:
        a, b, out = sets[i % copies]
        torch.mm(a, b, out=out)

    row: dict[str, Any] = {"class": kind, "m": m, "n": n, "k": k, "torch_us": 0.0, "plans": []}
    row["torch_us"] = timed(torch, peer, copies)
    right = sets[0][2].float()
    scale = max(1.0, right.abs().max().item())
    for guess, tiling in plans:
        made = program(tiling, kind == "odd")
        run = race.in_turns(torch, [made.launch([a, b], [out]) for a, b, out in sets])
        sets[0][2].fill_(float("nan"))
        mine = timed(torch, run, copies)
        wrong = (sets[0][2].float() - right).abs().max().item() / scale
        if not wrong < 0.02:
            print("WRONG", tiling.name, sizes, wrong, flush=True)
        row["plans"].append(
            {"name": tiling.name, "tiling": asdict(tiling), "model_us": guess, "us": mine}
        )
    return row


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tried", type=int, default=16)
    parser.add_argument("--spread", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=75)
    parser.add_argument("--out")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = problems(args.seed, args.count)
    draw = random.Random(args.seed)
    wanted: list[list[tuple[float, Tiling]]] = []
    for kind, sizes in asked:
        order = ranked(sizes)
        # Copies of operands are kernels of their own.
        tried, spread = (v // (3 if kind == "odd" else 1) for v in (args.tried, args.spread))
        near = [one for one in order[tried:] if one[0] < 2 * order[0][0]]
        wanted.append([*order[:tried], *draw.sample(near, min(spread, len(near)))])
    pairs = [
        (t, kind == "odd") for (kind, _), many in zip(asked, wanted, strict=True) for _, t in many
    ]
    kernels = list(dict.fromkeys(pairs))
    print(f"{len(kernels)} kernels, ranked in {time.perf_counter() - start:.1f} s", flush=True)
    with ProcessPoolExecutor() as pool:
        faults = dict(zip(kernels, pool.map(compiled, kernels, chunksize=2), strict=True))
    for fault in filter(None, faults.values()):
        print("LEFT OUT", fault, flush=True)
    print(f"compiled after {time.perf_counter() - start:.1f} s", flush=True)
    torch = race.load_torch("bench/regret.py")
    torch.manual_seed(args.seed)
    data = torch.randn(1 << 28, device="cuda", dtype=torch.float32).to(torch.float16)
    data = torch.cat([data] * -(-ROOM // data.numel()))
    rows: list[dict[str, Any]] = []
    for (kind, sizes), many in zip(asked, wanted, strict=True):
        if time.perf_counter() - start > args.seconds:
            print(f"stopped after {len(rows)} of {len(asked)} problems")
            break
        good = [one for one in many if not faults[one[1], kind == "odd"]]
        rows.append(raced(torch, data, kind, sizes, good))
        if args.out:
            report = {**race.surroundings(torch, ROUNDS), "seed": args.seed, "rows": rows}
            Path(args.out).write_text(json.dumps(report, indent=1) + "\n")
    show(rows, args.tried)
    print(f"{time.perf_counter() - start:.1f} s")
    return 0


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / max(1, len(values)))


def show(rows: Sequence[dict[str, Any]], tried: int) -> None:
    """Geometric means by class, of the model's first plan and of the best of the first few."""
    rows = [row for row in rows if row["plans"]]
    for kind in ("all", *dict.fromkeys(KINDS)):
        own = [row for row in rows if kind in ("all", row["class"])]
        if not own:
            continue
        figures: list[str] = []
        for most in dict.fromkeys((1, 4, tried, 1000)):
            ratios = [r["torch_us"] / min(p["us"] for p in r["plans"][:most]) for r in own]
            figures.append(f"best of {most} {mean(ratios):.3f} (least {min(ratios):.2f})")
        print(f"{kind:4} {len(own):3} problems, torch.mm / polyc: {', '.join(figures)}")
    off = [abs(log(p["model_us"] / p["us"])) for row in rows for p in row["plans"]]
    print(f"the model is off by {exp(sum(off) / max(1, len(off))) - 1:.0%} in the mean")
    for row in sorted(rows, key=lambda r: r["torch_us"] / r["plans"][0]["us"])[:10]:
        first = row["plans"][0]
        best = min(row["plans"], key=lambda p: p["us"])
        print(
            f"  {row['m']}x{row['n']}x{row['k']}: torch.mm {row['torch_us']:.1f} us, "
            f"{first['name']} {first['us']:.1f} (model {first['model_us']:.1f}), "
            f"best {best['name']} {best['us']:.1f}"
        )


if __name__ == "__main__":
    sys.exit(main())
