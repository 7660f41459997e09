"""KernelBench's levels 1 and 2: what can be said, what runs on tensor cores, and how fast it is.

The problems come from a checkout (github.com/ScalingIntelligence/KernelBench); each is a file of
Python that is executed.  Without a GPU, ``--dry`` imports each problem at its own sizes, chooses
the plans of its regions, and writes the board; with ``--cubins`` it compiles them too.  ``--small``
makes the sizes small and compares with eager PyTorch at playback.  Else each problem is raced
against eager PyTorch and ``torch.compile``, all of them in eval mode with TF32 permitted, in CUDA
graphs over rotating inputs, after its result was compared with that of eager f32.

    python bench/kernelbench.py --kernelbench KernelBench --dry
    python bench/kernelbench.py --kernelbench KernelBench --seconds 600
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import re
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from polyc.bench import race
from polyc.bench.graphs import kernel_times
from polyc.bench.race import Contestant
from polyc.importers.registry import library
from polyc.test.support import kernelbench as kb
from polyc.test.support.kernelbench import Outcome, Problem

BOARD = Path("bench/results/kernelbench.json")

LONG = 4e-3
"""Seconds of a graph, which has as many launches as take about that long."""


BROKEN = 3
"""What is returned where a kernel left the GPU's context unusable: others go on with --resume."""


# Without a GPU -------------------------------------------------------------------------------


def compiled(problem: Problem) -> Outcome:
    """A problem's outcome with its kernels compiled: what spills or fails is said."""
    import polyc

    found = kb.outcome(problem)
    if found.state == "missing":
        return found
    try:
        kernels = polyc.compile(kb.sized(problem), kb.ARCH).warm().resources
        spills = {name: info.spill_bytes for name, info in kernels.items() if info.spill_bytes}
        found.why = f"spills: {spills}" if spills else ""
    except Exception as error:
        found.why = f"{type(error).__name__}: {str(error)[:300]}"
    return found


def dry(args: argparse.Namespace, asked: Sequence[Problem]) -> int:
    """Write the board; prints what is in loops or missing."""
    make = compiled if args.cubins else kb.outcome
    found: dict[str, Outcome] = {}
    with ProcessPoolExecutor(args.workers) as pool:
        for problem, one in zip(asked, pool.map(make, asked, chunksize=4), strict=True):
            found[problem.name] = one
            if one.state in ("loops", "missing") or one.why:
                left = ", ".join(text for text in one.regions if " product" in text)
                print(f"{problem.name}: {one.state} {left} {one.why}", flush=True)
    board = kb.board(found)
    torch = library("torch", "torch")
    whole: dict[str, Any] = {
        "when": race.now(),
        "commit": race.commit(),
        "torch": torch.__version__,
    }
    if args.output != "-":
        Path(args.output).write_text(json.dumps(whole | board, indent=1) + "\n", "utf-8")
    for row in board["rows"]:
        print(row)
    return 0


def agreeing(problem: Problem) -> str:
    """How a problem of small sizes differs from eager PyTorch at playback; "" where it agrees."""
    import polyc

    torch = library("torch", "torch")
    torch.manual_seed(0)
    try:
        module = kb.module_of(problem, shrunk=True)
        with torch.no_grad():
            model = module.Model(*module.get_init_inputs()).eval()
            inputs = module.get_inputs()
            wanted = leaves(torch, model(*inputs))
            kept = kb.imported(model, inputs)
            found = leaves(torch, polyc.compile(kept, device="cpu")(*inputs))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    for one, right in zip(found, wanted, strict=True):
        off = error_of(torch, one, right)
        if not off < 1e-4:
            return f"off by {off:.2e} of the largest"
    return ""


def compared(args: argparse.Namespace, asked: Sequence[Problem]) -> int:
    """Compare problems of small sizes at playback; returns how many differ."""
    with ProcessPoolExecutor(args.workers) as pool:
        found = list(pool.map(agreeing, asked))
    for problem, why in zip(asked, found, strict=True):
        if why:
            print(f"{problem.name}: {why}")
    print(f"{found.count('')} of {len(found)} agree with eager PyTorch at small sizes")
    return min(1, len(found) - found.count(""))


# Races ---------------------------------------------------------------------------------------


def leaves(torch: Any, found: Any) -> list[Any]:
    """The tensors of a result."""
    return [found] if torch.is_tensor(found) else [x for one in found for x in leaves(torch, one)]


def error_of(torch: Any, found: Any, right: Any) -> float:
    """The largest difference over the largest number; of integers how many of all differ."""
    if tuple(found.shape) != tuple(right.shape) or found.dtype != right.dtype:
        return float("inf")
    if not right.is_floating_point():
        return float((found != right).float().mean())
    odd = ~torch.isfinite(right)
    if bool((odd != ~torch.isfinite(found)).any()):
        return float("inf")
    away = (found - right).abs_().masked_fill_(odd, 0)
    largest = right.abs().masked_fill_(odd, 0).max()
    return float(away.max() / largest.clamp_min(1e-30))


def prepared(problem: Problem) -> str:
    """Compile a problem's kernels into the store, from which the race has them; what was wrong."""
    import polyc

    try:
        polyc.compile(kb.sized(problem), kb.ARCH).warm()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return ""


def graph_of(torch: Any, racer: Contestant, copies: int) -> tuple[Any, int, int]:
    """A CUDA graph of a contestant, its launches, and its replays in a batch."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    racer.run(0)
    start.record()
    racer.run(1 % copies)
    end.record()
    end.synchronize()
    once = start.elapsed_time(end) / 1e3
    launches = -(-max(1, min(16, round(LONG / once))) // copies) * copies
    graph = race.captured(torch, racer.run, launches)
    whole = race.time_batch(torch, graph, 1) / 1e3
    return graph, launches, max(1, round(race.BATCH_SECONDS / whole))


def measured(torch: Any, racers: Sequence[Contestant], copies: int, rounds: int) -> None:
    """Time contestants in turns."""
    made = [graph_of(torch, racer, copies) for racer in racers]
    for turn in range(rounds):
        for at in race.order(turn, range(len(racers))):
            graph, launches, replays = made[at]
            time_ = race.time_batch(torch, graph, replays)
            racers[at].milliseconds.append(time_ / launches)


def raced(torch: Any, problem: Problem, args: argparse.Namespace) -> dict[str, Any]:
    """The row of a problem."""
    import polyc

    begun = time.perf_counter()
    module = kb.module_of(problem)
    with torch.device("cuda"):
        model = module.Model(*module.get_init_inputs()).eval()
        first = [x.cuda() if torch.is_tensor(x) else x for x in module.get_inputs()]
    tensors = [x for x in first if torch.is_tensor(x)]
    bytes_of = sum(x.numel() * x.element_size() for x in tensors)
    copies = 2 if bytes_of < args.twice * 2**30 else 1
    if bytes_of < 2**28:
        copies = race.copies_for(bytes_of, race.driver.device().l2_bytes, 8)
    sets = [
        first,
        *([x.clone() if torch.is_tensor(x) else x for x in first] for _ in range(copies - 1)),
    ]
    kept = kb.imported(model, first)
    ours = polyc.compile(kept, kb.ARCH)

    def over(call: Callable[..., Any]) -> Callable[[int], object]:
        return lambda i: call(*sets[i % copies])

    row: dict[str, Any] = {"case": problem.name, "input_bytes": bytes_of, "copies": copies}
    with torch.no_grad(), kb.tf32(torch):
        with race.alone():
            with kb.tf32(torch, False):
                wanted = leaves(torch, model(*first))
            found = leaves(torch, model(*first))
            off = max(error_of(torch, *pair) for pair in zip(found, wanted, strict=True))
            del found
            found = leaves(torch, ours(*first))
            torch.cuda.synchronize()
            own = max(error_of(torch, *pair) for pair in zip(found, wanted, strict=True))
            del found, wanted
        row |= {"error": own, "error_of_eager": off}
        torch.cuda.empty_cache()
        racers = [Contestant("polyc", over(ours), False), Contestant("eager", over(model))]
        row["seconds_before"] = round(time.perf_counter() - begun, 2)
        if not args.eager_only:
            start = time.perf_counter()
            torch._dynamo.reset()
            fast = torch.compile(model)
            fast(*first)
            torch.cuda.synchronize()
            row["seconds_of_torch_compile"] = round(time.perf_counter() - start, 2)
            racers.append(Contestant("torch.compile", over(fast)))
        with race.alone():
            measured(torch, racers, copies, args.rounds)
            own_us, others = racers[0].median, min(racer.median for racer in racers[1:])
            if args.kernels and others < own_us:
                row["kernels_us"] = kernel_times(torch, over(ours), copies)
    us = {racer.name: racer.median * 1e3 for racer in racers}
    row |= {"us": {name: round(value, 2) for name, value in us.items()}}
    row["over_eager"] = round(us["eager"] / us["polyc"], 4)
    if "torch.compile" in us:
        row["over_compile"] = round(us["torch.compile"] / us["polyc"], 4)
    row["seconds"] = round(time.perf_counter() - begun, 2)
    return row


def line(row: Mapping[str, Any]) -> str:
    times = ", ".join(f"{name} {us:.1f}" for name, us in row["us"].items())
    off = f"off {row['error']:.1e} (eager {row['error_of_eager']:.1e})"
    over = (
        f"over eager {row['over_eager']:.2f}, over torch.compile {row.get('over_compile', 0):.2f}"
    )
    return f"{row['case'][:60]:60} {times} us; {over}; {off} {row['seconds']:.1f} s"


def is_right(row: Mapping[str, Any]) -> bool:
    """Whether a result is as near to exact products as TF32 permits, or as eager PyTorch's is."""
    return row["error"] <= max(2 * row["error_of_eager"], 4e-3)


def summary(rows: Sequence[Mapping[str, Any]]) -> None:
    """Geometric means by level."""
    for level in kb.LEVELS:
        own = [row for row in rows if row["case"].startswith(f"level{level}/")]
        for what in ("over_eager", "over_compile"):
            ratios = sorted(row[what] for row in own if what in row)
            if ratios:
                mean, below = statistics.geometric_mean(ratios), sum(r < 0.8 for r in ratios)
                print(
                    f"level {level} {what}: {len(ratios)} problems, geometric mean {mean:.3f}, "
                    f"least {ratios[0]:.2f}, {below} below 0.8"
                )


def is_broken(torch: Any) -> bool:
    """Whether nothing runs any more after a fault of a kernel."""
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").add_(1).item()
    except Exception:
        return True
    return False


def in_turn(args: argparse.Namespace, asked: Sequence[Problem]) -> int:
    """Race problems until the time is over; their rows are written as they come."""
    start = time.perf_counter()
    rows: list[dict[str, Any]] = []
    wrong: dict[str, str] = {}
    if args.resume and Path(args.out).is_file():
        before = json.loads(Path(args.out).read_text("utf-8"))
        rows, wrong = before["rows"], before["failed"]
        done = {*(row["case"] for row in rows), *wrong}
        asked = [one for one in asked if one.name not in done]
    pool = ProcessPoolExecutor(args.workers)
    ahead = [(one, pool.submit(prepared, one)) for one in asked]
    torch = race.load_torch("bench/kernelbench.py")
    torch.manual_seed(args.seed)
    broken = False
    for problem, future in ahead:
        left = args.seconds - (time.perf_counter() - start)
        if left < 0:
            break
        try:
            if why := future.result(timeout=left):
                wrong[problem.name] = why
                print(f"FAILED {problem.name}: {why}", flush=True)
                continue
            row = raced(torch, problem, args)
            rows.append(row)
            print(("" if is_right(row) else "WRONG ") + line(row), flush=True)
        except torch.cuda.OutOfMemoryError:
            print(f"LEFT OUT {problem.name}: no memory beside what else runs", flush=True)
        except Exception as error:  # One that fails must not stop the others.
            wrong[problem.name] = f"{type(error).__name__}: {str(error)[:300]}"
            print(f"FAILED {problem.name}: {wrong[problem.name]}", flush=True)
            if args.trace:
                traceback.print_exc()
            broken = is_broken(torch)
        if args.out != "-":
            report = race.surroundings(torch, args.rounds, args.commit)
            report |= {"seed": args.seed, "rows": rows, "failed": wrong}
            Path(args.out).write_text(json.dumps(report, indent=1) + "\n")
        if broken:
            print("the GPU's context is broken; go on with --resume", flush=True)
            break
        gc.collect()
        torch.cuda.empty_cache()
    pool.shutdown(wait=False, cancel_futures=True)
    summary(rows)
    print(f"{len(rows)} raced, {len(wrong)} failed, in {time.perf_counter() - start:.1f} s")
    if broken:
        return BROKEN
    return 1 if any(not is_right(row) for row in rows) else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernelbench", type=Path, required=True, help="a checkout")
    parser.add_argument("--levels", type=int, nargs="+", default=list(kb.LEVELS))
    parser.add_argument("--only", help="a regular expression of names, as level1/23_")
    parser.add_argument("--part", default="1/1", help="i/n: each n-th problem, from the i-th on")
    parser.add_argument("--workers", type=int, default=2, help="processes that compile")
    parser.add_argument("--dry", action="store_true", help="states of regions; needs no GPU")
    parser.add_argument("--cubins", action="store_true", help="with --dry: compile the kernels")
    parser.add_argument("--small", action="store_true", help="small sizes at playback")
    parser.add_argument("--output", default=str(BOARD), help="of --dry; - for none")
    parser.add_argument("--out", default="kernelbench-race.json", help="of a race; - for none")
    parser.add_argument("--seed", type=int, default=1, help="of the order, in which a part is fair")
    parser.add_argument("--seconds", type=float, default=600, help="begin no problem after these")
    parser.add_argument("--resume", action="store_true", help="without what --out has already")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--twice", type=float, default=4, help="GiB of inputs that are there twice")
    parser.add_argument("--eager-only", action="store_true", help="leave torch.compile out")
    parser.add_argument("--kernels", action="store_true", help="time ours where one is slower")
    parser.add_argument("--trace", action="store_true", help="where a problem failed")
    parser.add_argument("--commit", help="what to record where there is no git")
    args = parser.parse_args(argv)
    asked = kb.problems(args.kernelbench, args.levels)
    if args.only:
        asked = [one for one in asked if re.search(args.only, one.name)]
    if not asked:
        print(f"{args.kernelbench} has no problems of KernelBench that are asked for")
        return 2
    if args.dry or args.small:
        asked = race.part_of(asked, args.part)
        return dry(args, asked) if args.dry else compared(args, asked)
    random.Random(args.seed).shuffle(asked)
    return in_turn(args, race.part_of(asked, args.part))


if __name__ == "__main__":
    sys.exit(main())
