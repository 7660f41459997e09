"""How well the model of time chooses plans for attention and decode, over random problems (S11.1).

    python bench/attention_regret.py [--count 30] [--decode 20] [--seed 1] [--seconds 60]

An attention has 1 to 1024 heads in all, lengths from 128 to 16384, features of 64, 96, 128 or 256,
and sees all keys, those before a query, or a window of these; a decode has one query of 32 heads,
of which 1, 4 or 8 share keys.  For each problem all plans of the space take turns: the model's
first choice of known sizes (``own``), what the conditions of dispatch choose of open ones
(``open``), and the fastest.  Regret is what a choice takes over the fastest.  Programs are of open
sizes, so that one serves all problems of its kind, and are compiled side by side.  A plan that
fails is reported, and stops nothing.

Needs an NVIDIA GPU and PyTorch, but for ``--dry``, which prints the choices and compiles nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import cache
from io import StringIO
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from polyc.bench import race, regret
from polyc.bench.decode import HEADS, Case
from polyc.cost.attention import nanoseconds
from polyc.cost.walks import nanoseconds as walked
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention import ranking, schedules
from polyc.families.attention.few import few_queries, leaves
from polyc.families.attention.recognise import StreamingAttention, find_attention
from polyc.families.family import fitted
from polyc.passes.pipeline import STAGES, build
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCH = "sm_90a"
FORMS = {"full": "", "causal": " causal", "window": " causal window [511, 0]"}
FEATURES = (64, 128, 64, 128, 96, 256)
GROUPS = (1, 4, 8)
PARTS = (1, 2, 4, 8, 16, 32, 64)
MOST_ELEMENTS = 1 << 25
"""Of a tensor."""

GRAPH = """
frontend.graph @attention(
    %Q: !frontend.tensor<[H, M, {size}], f16>, %K: !frontend.tensor<[H, N, {size}], f16>,
    %V: !frontend.tensor<[H, N, {size}], f16>) -> (O: !frontend.tensor<[H, M, {size}], f16>) {{
  %0 = frontend.attention %Q, %K, %V{how} {{acc = f32}}
      : (!frontend.tensor<[H, M, {size}], f16>, !frontend.tensor<[H, N, {size}], f16>,
         !frontend.tensor<[H, N, {size}], f16>) -> !frontend.tensor<[H, M, {size}], f16>
  frontend.output %0 : !frontend.tensor<[H, M, {size}], f16>
}}
"""

Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """What one program serves: an attention of a form, or a decode of heads that share keys."""

    features: int
    form: str = "decode"
    group: int = 1

    @property
    def text(self) -> str:
        """The graph, of open sizes."""
        if self.form == "decode":
            return Case(1, 1024, self.group, self.features, 1).text("f16")
        return GRAPH.format(size=self.features, how=FORMS[self.form])


@dataclass(frozen=True)
class Problem:
    """A kind at sizes: heads in all or sequences, and a length."""

    kind: Kind
    heads: int
    length: int

    @property
    def sizes(self) -> dict[str, int]:
        """Of the symbols."""
        if self.kind.form == "decode":
            return {"B": self.heads, "N": self.length}
        return {"H": self.heads, "M": self.length, "N": self.length}

    @property
    def name(self) -> str:
        kind = self.kind
        group = f" {HEADS}/{HEADS // kind.group}" if kind.form == "decode" else ""
        return f"{self.heads}x{self.length} d{kind.features}{group} {kind.form}"


def problems(seed: int, attentions: int, decodes: int) -> list[Problem]:
    """Random problems."""
    draw = random.Random(seed)

    def size(least: int, most: int) -> int:
        return round(exp(draw.uniform(log(least), log(most))))

    found: list[Problem] = []
    for number in range(attentions):
        features = FEATURES[number % len(FEATURES)]
        form = draw.choice([*FORMS])
        length = size(128, 16384)
        most = min(1024, MOST_ELEMENTS // (features * length))
        found.append(Problem(Kind(features, form), size(1, max(1, most)), length))
    for number in range(decodes):
        kind = Kind(FEATURES[number % 4], group=draw.choice(GROUPS))
        length = size(1024, 32768)
        each = length * kind.features * HEADS // kind.group
        found.append(Problem(kind, size(1, max(1, min(64, 4 * MOST_ELEMENTS // each))), length))
    return found


def tabled() -> list[Problem]:
    """The attentions of ``bench/attention.py``, and shorter ones."""
    return [
        Problem(Kind(features, form), 2048 // features * (16384 // length), length)
        for features in (128, 64)
        for form in ("full", "causal")
        for length in (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    ]


def _region(kind: Kind) -> tuple[Any, Any, KernelOp, StreamingAttention]:
    ctx = make_context()
    module = parse_text(ctx, kind.text, "attention.mlir")
    with redirect_stderr(StringIO()):
        for stage in ("tiny", "index", "region"):
            for name in STAGES[stage]:
                build(name, ARCH).apply(ctx, module)
        kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
        return ctx, module, kernel, find_attention(kernel)


region = cache(_region)
"""A kind's region in its module, not to be changed."""


def planned(kind: Kind) -> dict[str, ScheduleOp]:
    """The plans of the space for a kind, by their names, with no conditions of the model's."""
    _, _, kernel, attention = region(kind)
    found: dict[str, ScheduleOp] = {}
    name = kernel.sym_name.data
    if kind.form == "decode":
        few = next(iter(few_queries(attention, ARCH)))
        for parts in PARTS:
            fields = {**few.fields, "split_k": parts}
            made = schedules.completed_fields(attention, ARCH, fields)
            found[f"parts{parts}"] = fitted(name, f"parts{parts}", made, ())
        return found
    with redirect_stderr(StringIO()):
        for own, fields in schedules.all_of_space(attention, ARCH).values():
            plan = fitted(name, own, fields, tuple(schedules.conditions(attention, tma=True)))
            if schedules.lacking(attention, plan) <= 0:
                found[own] = plan
    return found


def expected(problem: Problem) -> list[tuple[float, str]]:
    """The plans with what the model expects in us, the fastest first."""
    _, _, _, attention = region(problem.kind)
    plans = planned(problem.kind)
    if problem.kind.form == "decode":
        few = next(iter(few_queries(attention, ARCH)))
        tiles = few.tiles.evaluate(problem.sizes)
        walks = {name: replace(few.walk, parts=p.integer("split_k")) for name, p in plans.items()}
        times = {
            name: walked(tiles, problem.length, walk) / 1e3
            for name, walk in walks.items()
            if leaves(walk, problem.length)
        }
    else:
        sight = ranking.at_sizes(ranking.sight_of(attention), problem.sizes)
        chip = ARCHS[ARCH].multiprocessors
        times = {
            name: nanoseconds(sight, schedules.tiling_of_plan(plan), chip) / 1e3
            for name, plan in plans.items()
        }
    return sorted((time, name) for name, time in times.items())


@cache
def program(kind: Kind, name: str | None) -> Program:
    """The kernels of a kind under a plan, or under what the compiler chooses of open sizes."""
    ctx, module, kernel, _ = _region(kind)
    names = STAGES["plan"] if name is None else ("region-expand-together",)
    if name is not None:
        block = kernel.parent_block()
        assert block is not None
        block.insert_op_after(planned(kind)[name].clone(), kernel)
    with redirect_stderr(StringIO()):
        for one in (*names, *STAGES["tiles"], *STAGES["gpu"]):
            build(one, ARCH).apply(ctx, module)
    return Program.compile(module)


def tensors(torch: Any, problem: Problem) -> list[tuple[Any, ...]]:
    """Random Q, K and V and an output, in as many copies as exceed the L2 cache."""
    kind, n = problem.kind, problem.length
    if kind.form == "decode":
        few = (problem.heads, HEADS, 1, kind.features)
        many = (problem.heads, HEADS // kind.group, n, kind.features)
    else:
        few = many = (problem.heads, n, kind.features)
    each = 2 * sum(2 * torch.Size(shape).numel() for shape in (few, many))
    found: list[tuple[Any, ...]] = []
    for _ in range(race.copies_for(each, 60 << 20, most=8)):
        q, k, v = (
            torch.randn(shape, device="cuda", dtype=torch.float16) for shape in (few, many, many)
        )
        found.append((q, k, v, torch.empty_like(q)))
    return found


def raced(torch: Any, problem: Problem) -> Row:
    """The times of a problem's plans."""
    ordered = expected(problem)
    sets = tensors(torch, problem)
    row: Row = {"name": problem.name, "plans": []}
    for guess, name in [(ordered[0][0], None), *ordered]:
        made = program(problem.kind, name)
        try:
            launches = [made.launch([q, k, v], [out]) for q, k, v, out in sets]
        except PolycError:
            continue  # Its conditions do not hold.
        us = regret.timed(torch, race.in_turns(torch, launches), len(sets), max(guess, 5.0))
        if name is None:
            row["open"] = {"name": made.chosen(problem.sizes), "us": us}
        else:
            row["plans"].append({"name": name, "model_us": guess, "us": us})
    return row


Job = tuple[Kind, Sequence[Problem], float]
"""A kind, its problems, and when the last may begin."""


def worked(job: Job) -> list[Row | str]:
    """The rows of a kind's problems, and what is wrong: programs are built beside other kinds', and
    timed alone."""
    kind, asked, end = job
    found: list[Row | str] = []
    for name in (None, *planned(kind)):
        made = program(kind, name)
        spilled = [kernel for kernel, info in made.kernels.items() if info.spill_bytes]
        found += [f"{kind} {name}: {kernel} spills" for kernel in spilled]
    torch = race.load_torch("bench/attention_regret.py")
    for problem in asked:
        with race.alone():
            if time.time() > end:
                found.append(f"{problem.name}: left out, the time is over")
                continue
            try:
                found.append(raced(torch, problem))
            except Exception as error:  # A problem that fails must not stop the others.
                found.append(f"FAILED {problem.name}: {type(error).__name__}: {str(error)[:200]}")
            torch.cuda.empty_cache()
    return found


def shown(row: Row) -> str:
    """A problem's choices beside the fastest plan."""
    own, best = row["plans"][0], min(row["plans"], key=lambda p: p["us"])
    found = f"{row['name']}: best {best['name']} {best['us']:.1f}"
    found += f", own {own['name']} {own['us']:.1f} (+{own['us'] / best['us'] - 1:.0%})"
    if "open" in row:
        one = row["open"]
        found += f", open {one['name']} {one['us']:.1f} (+{one['us'] / best['us'] - 1:.0%})"
    return found


def summary(rows: Sequence[Row], what: str) -> str:
    """The regrets of some problems: geometric mean, and 95 of 100 below."""
    found: list[str] = []
    for label in ("own", "open"):
        losses: list[float] = []
        for row in rows:
            best = min(p["us"] for p in row["plans"])
            one = row["plans"][0] if label == "own" else row.get("open")
            if one is not None:
                losses.append(max(1.0, one["us"] / best))
        if losses:
            losses.sort()
            high = losses[min(len(losses) - 1, int(0.95 * len(losses)))] - 1
            found.append(f"{label} {regret.mean(losses) - 1:.1%} ({high:.0%})")
    return f"{what}: {len(rows)} problems, regret {', '.join(found)}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--decode", type=int, default=20)
    parser.add_argument("--tabled", action="store_true", help="those of bench/attention.py first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--out")
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = [*(tabled() if args.tabled else ()), *problems(args.seed, args.count, args.decode)]
    if args.dry:
        for problem in asked:
            (us, name), *_ = expected(problem)
            print(f"{problem.name}: {name}, {us:.1f} us")
        return 0
    kinds = dict.fromkeys(problem.kind for problem in asked)
    end = time.time() + args.seconds
    rows: list[Row] = []
    with tempfile.NamedTemporaryFile() as held:
        # One that is shared with other benchmarks stays.
        os.environ.setdefault(race.LOCK, held.name)
        jobs = [(k, [p for p in asked if p.kind == k], end) for k in kinds]
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            for found in pool.map(worked, jobs):
                for row in found:
                    print(row if isinstance(row, str) else shown(row), flush=True)
                rows += [row for row in found if not isinstance(row, str)]
    print(
        f"{len(rows)} of {len(asked)} problems in {time.perf_counter() - start:.1f} s", flush=True
    )
    if args.out:
        torch = race.load_torch("bench/attention_regret.py")
        around = race.surroundings(torch, regret.ROUNDS, args.commit)
        report = {**around, "seed": args.seed, "rows": rows}
        Path(args.out).write_text(json.dumps(report, indent=1) + "\n")
    decodes = [row for row in rows if row["name"].endswith("decode")]
    for what, some in (
        ("attention", [row for row in rows if row not in decodes]),
        ("decode", decodes),
    ):
        if some:
            print(summary(some, what))
    return 0


if __name__ == "__main__":
    sys.exit(main())
