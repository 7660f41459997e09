"""What the benchmarks share: kernels race in one process, in turns, and a report is kept.

Each contestant is captured into a CUDA graph of several launches, so that no figure holds a
host's time.  In every round each graph is timed once, over a batch of replays between two CUDA
events, and the order rotates from round to round, so that clock and temperature are the same
for all.  Inputs are random, and launches walk over as many copies of them as exceed the L2
cache, two at least.  A figure is the median over the rounds.  Before it is timed, each result is
compared with an FP32 reference.

Where ``POLYC_BENCH_LOCK`` names a file, benchmarks that run side by side share one GPU: each is one
process that compiles what it needs next, beside the others, and locks the file while it times.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from polyc.runtime import driver, nvrtc
from polyc.runtime.variants import Bound

ROOT = Path(__file__).resolve().parent.parent

BATCH_SECONDS = 0.01
"""A batch has as many replays as take about this long, and one at least."""

GRAPH_LAUNCHES = 16
"""A graph has at least as many launches, and as many for each copy of the inputs."""


LOCK = "POLYC_BENCH_LOCK"
"""What names the file that who uses the GPU has locked."""

HANDOVER = 0.002
"""Seconds in which another may take the lock that was given back."""


_inside: list[bool] = []
"""Has an element where this process has the lock."""


@contextmanager
def alone() -> Generator[None]:
    """The GPU is this process's own, among those that share ``POLYC_BENCH_LOCK``."""
    name = os.environ.get(LOCK)
    if not name or _inside:
        yield
        return
    with Path(name).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        _inside.append(True)
        try:
            yield
        finally:
            _inside.clear()
    time.sleep(HANDOVER)


def shared() -> bool:
    """Whether benchmarks run side by side."""
    return bool(os.environ.get(LOCK))


@dataclass
class Contestant:
    """``run(i)`` launches once on PyTorch's current stream, on copy ``i`` of the inputs.

    ``peer`` marks what polyc is measured against; ``traits`` are facts for the report.
    """

    name: str
    run: Callable[[int], object]
    peer: bool = True
    traits: Mapping[str, object] = field(default_factory=dict[str, object])
    milliseconds: list[float] = field(default_factory=list[float])

    @property
    def median(self) -> float:
        """Milliseconds a launch."""
        return statistics.median(self.milliseconds)


def load_torch(script: str) -> Any:
    """PyTorch with a GPU; exits with one sentence when it is not there."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        sys.exit(f"{script} compares with kernels of PyTorch, which is not installed")
    if not torch.cuda.is_available():
        sys.exit(f"{script} needs an NVIDIA GPU, and PyTorch finds none")
    return torch


def copies_for(one: int, l2_bytes: int, most: int = 32) -> int:
    """How many copies of ``one`` bytes of tensors make four times the L2 cache; two at least."""
    return max(2, min(most, -(-4 * l2_bytes // max(1, one))))


def in_turns(torch: Any, launches: Sequence[Bound]) -> Callable[[int], None]:
    """A contestant's ``run`` of these launches, one for each copy of the inputs."""

    def run(i: int) -> None:
        launches[i % len(launches)].run(torch.cuda.current_stream().cuda_stream)

    return run


def captured(torch: Any, run: Callable[[int], object], several: int) -> Any:
    """A CUDA graph of ``run(0)`` … ``run(several - 1)``, each of which runs before it once.

    Results that a run allocates are let go when newer ones are four times the L2 cache: an
    allocator that had each of them back at once would give all runs the same memory, which is in
    the cache when it is written again.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(several):
            run(i)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    most = 4 * torch.cuda.get_device_properties(0).L2_cache_size
    with torch.cuda.graph(graph):
        kept: list[object] = []
        for i in range(several):
            kept.append(run(i))
            while sum(map(_bytes, kept[1:])) > most:
                kept.pop(0)
        del kept
    return graph


def _bytes(result: object) -> int:
    """Of the tensors that a run gives."""
    if isinstance(result, tuple | list):
        return sum(map(_bytes, cast("Sequence[object]", result)))
    return int(getattr(result, "nbytes", 0))


def time_batch(torch: Any, graph: Any, replays: int) -> float:
    """Milliseconds a replay."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(replays):
        graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / replays


AWAKE = 0.06
"""Seconds of work after which a chip that was idle reads its memory as fast as it will: an H100's
elementwise kernel over 13 GB takes 4.97 ms before, and 4.30 ms after."""


def awake(torch: Any, graphs: Sequence[Any]) -> None:
    """Replay graphs in turn until the chip's clocks are up, so that none of them is timed cold."""
    spent = 0.0
    while graphs and spent < AWAKE * 1e3:
        spent += sum(time_batch(torch, graph, 1) for graph in graphs)


def measure(
    torch: Any,
    racers: Sequence[Contestant],
    rounds: int,
    copies: int,
    least: int = GRAPH_LAUNCHES,
) -> None:
    """Time every contestant ``rounds`` times, in turns, each on ``copies`` of the inputs.

    A graph has ``least`` launches, or one for each copy: a few do where each takes long.
    """
    launches = -(-least // copies) * copies
    graphs = [captured(torch, racer.run, launches) for racer in racers]
    replays: list[int] = []
    awake(torch, graphs)
    for graph in graphs:
        time_batch(torch, graph, 2)
        milliseconds = time_batch(torch, graph, 3)
        replays.append(max(1, round(BATCH_SECONDS * 1e3 / milliseconds)))
    for turn in range(rounds):
        for at in order(turn, range(len(racers))):
            milliseconds = time_batch(torch, graphs[at], replays[at])
            racers[at].milliseconds.append(milliseconds / launches)


def order(turn: int, racers: Sequence[int]) -> list[int]:
    """The order of a round: another one each time, the same in each run.

    Who comes after a contestant that takes little power finds a cool chip and a high clock, so that
    nobody always comes after the same one.
    """
    return random.Random(turn).sample(racers, len(racers))


# Choices beside all that there is ----------------------------------------------------------


NEAR = 1.3
"""How many times the fastest contestant's time one takes that is timed again."""

PACE = 0.0015
"""Seconds of a batch."""

READINGS = 4
"""Of what is near the fastest."""


def paced(torch: Any, runs: Sequence[Callable[[int], object]], copies: int) -> list[float]:
    """Microseconds a launch of each of several, timed in turns on ``copies`` of the inputs.

    What is far behind is timed once, and what is near the fastest ``READINGS`` times.
    """
    launches = -(-GRAPH_LAUNCHES // copies) * copies
    graphs = [captured(torch, run, launches) for run in runs]
    awake(torch, graphs)
    replays: list[int] = []
    found: list[list[float]] = []
    for graph in graphs:
        first = time_batch(torch, graph, 1)
        replays.append(max(1, round(PACE * 1e3 / first)))
        found.append([time_batch(torch, graph, replays[-1])])
    limit = NEAR * min(one[0] for one in found)
    near = [at for at, one in enumerate(found) if one[0] <= limit]
    for turn in range(READINGS - 1):
        for at in order(turn, near):
            found[at].append(time_batch(torch, graphs[at], replays[at]))
    return [statistics.median(one) / launches * 1e3 for one in found]


class Planned(NamedTuple):
    """A plan to be timed: what the model expects of it in us, its fields, the entry on disk that
    has its program, and what is wrong with that, if anything is."""

    name: str
    model_us: float
    fields: Mapping[str, object]
    entry: str | None
    fault: str


KEPT = 16
"""Problems after which a report is written."""

Asked = TypeVar("Asked")
Made = TypeVar("Made")


def prepared(
    make: Callable[[Asked], Made], asked: Sequence[Asked], start: str = "fork"
) -> Generator[tuple[Asked, Made | Exception]]:
    """Several problems in their order, each with what another process has made of it, or with what
    it raised.

    Some are made ahead while the caller works on one.  Two processors are left to the caller; where
    benchmarks run side by side it is one process.  These ``start`` by a fork, or, if they use the
    GPU themselves, anew (``spawn``).
    """
    many = 1 if shared() else max(1, (os.cpu_count() or 1) - 2)
    with ProcessPoolExecutor(many, get_context(start)) as pool:
        waiting = [pool.submit(make, one) for one in asked]
        try:
            for one, future in zip(asked, waiting, strict=True):
                wrong = future.exception()
                if wrong is not None and not isinstance(wrong, Exception):
                    raise wrong
                yield one, future.result() if wrong is None else wrong
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def regret_options(doc: str, count: int, tried: int, spread: int) -> argparse.ArgumentParser:
    """The options of a benchmark that measures how well plans are chosen."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--count", type=int, default=count, help="problems")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", help="i/n: each n-th problem, from the i-th on")
    parser.add_argument("--tried", type=int, default=tried, help="plans that the model has first")
    parser.add_argument("--spread", type=int, default=spread, help="plans of those behind them")
    parser.add_argument("--seconds", type=float, default=100, help="begin no problem after these")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--out")
    return parser


def part_of(asked: Sequence[Asked], part: str) -> list[Asked]:
    """Each n-th of some problems, from the i-th on, as ``i/n`` says."""
    first, _, step = part.partition("/")
    return list(asked[int(first) - 1 :: int(step)])


def regrets(
    args: argparse.Namespace,
    script: str,
    asked: Sequence[Asked],
    make: Callable[[Asked], Made],
    raced: Callable[[Any, Asked, Made], dict[str, Any]],
    line: Callable[[dict[str, Any]], str],
    start: str = "fork",
) -> list[dict[str, Any]]:
    """The rows of ``raced`` for each problem and what ``make`` made of it in another process.

    Kept in ``args.out`` as they come.  No problem begins after ``args.seconds``, and one that fails
    is reported and stops no other.
    """
    begun, rows = time.perf_counter(), list[dict[str, Any]]()

    def keep() -> None:
        if args.out:
            report = {**surroundings(torch, READINGS, args.commit), "seed": args.seed, "rows": rows}
            Path(args.out).write_text(json.dumps(report, indent=1) + "\n")

    ready = prepared(make, asked, start)
    torch = load_torch(script)
    torch.manual_seed(args.seed)
    failed = 0
    for problem, made in ready:
        if time.perf_counter() - begun > args.seconds:
            print(f"stopped after {len(rows) + failed} of {len(asked)} problems")
            break
        try:
            if isinstance(made, Exception):
                raise made
            with alone():
                rows.append(raced(torch, problem, made))
        except Exception as error:  # A problem that fails must not stop the others.
            failed += 1
            print(f"FAILED {problem}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        print(line(rows[-1]), flush=True)
        if len(rows) % KEPT == 0:
            keep()
    ready.close()
    keep()
    taken = time.perf_counter() - begun
    print(f"{len(rows)} problems in {taken:.1f} s, {failed} failed", flush=True)
    return rows


def least_of(row: Mapping[str, Any]) -> float:
    """The least time of a problem's choices and of all plans that were timed."""
    chosen = [row[what] for what in ("own", "open") if row.get(what)]
    return min(one["us"] for one in (*chosen, *row["plans"]))


def regret(row: Mapping[str, Any], what: str) -> float:
    """How much longer a choice of a problem takes than the fastest that was timed."""
    return row[what]["us"] / least_of(row) - 1


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The regrets of choices, and of the fastest of the model's first few."""
    for what in ("own", "open"):
        some = [row for row in rows if row.get(what)]
        if some:
            yield f"{what}: {spread_of([1 + regret(row, what) for row in some])}"
    for count in (4, 16):
        losses: list[float] = []
        for row in rows:
            firsts = [row["own"]["us"], *(plan["us"] for plan in row["plans"][: count - 1])]
            losses.append(min(firsts) / least_of(row))
        if losses:
            yield f"after {count} measurements: {spread_of(losses)}"


def spread_of(losses: Sequence[float]) -> str:
    """Times over the least, as a geometric mean and the one that 95 of 100 are below."""
    ordered = sorted(max(1.0, loss) for loss in losses)
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))] - 1
    return f"{statistics.geometric_mean(ordered) - 1:.1%} ({high:.0%})"


def over_cases(
    script: str,
    report: str,
    cases: Callable[[Any], Iterable[tuple[str, Callable[[], list[dict[str, Any]]]]]],
    args: argparse.Namespace,
) -> int:
    """Time the cases of ``bench/<script>.py`` and write their rows; its exit code, 1 where one was
    wrong.

    ``cases`` has of a PyTorch each case's name and what times it.  No case is begun after
    ``args.budget`` seconds, and one that fails does not lose the others.  ``args`` has ``rounds``,
    ``commit`` and ``out`` too, the folder of the report, - for none.
    """
    start = time.perf_counter()
    torch = load_torch(f"bench/{script}.py")
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    left: list[str] = []
    for name, timed in cases(torch):
        if time.perf_counter() - start > args.budget:
            left.append(name)
            continue
        try:
            rows += timed()
        except Exception as error:
            print(f"{name} failed: {str(error)[:300]}", flush=True)
        torch.cuda.empty_cache()
    if left:
        print(f"no time was left for {', '.join(left)}")
    found = {**surroundings(torch, args.rounds, args.commit), "rows": rows}
    if args.out != "-":
        print(f"wrote {write_report(report, found, args.out)}")
    return 1 if any((row["error_of_tolerance"] or 0) > 1 for row in rows) else 0


def best_peer(racers: Sequence[Contestant]) -> Contestant:
    """The fastest of what polyc is measured against."""
    return min((r for r in racers if r.peer), key=lambda r: r.median)


def result_rows(
    case: str, racers: Sequence[Contestant], work: float, unit: str, errors: Mapping[str, float]
) -> list[dict[str, Any]]:
    """The report's rows of one case.

    ``work`` is in floating-point operations where ``unit`` is ``TFLOP/s``, in bytes where it
    is ``TB/s``.  ``ratio`` is the speed relative to the fastest peer.
    """
    peer = best_peer(racers)
    return [
        {
            "case": case,
            "contestant": racer.name,
            "peer": racer.peer,
            "rate": round(work / racer.median / 1e9, 3),
            "unit": unit,
            "ratio": round(peer.median / racer.median, 4),
            "milliseconds": racer.median,
            "milliseconds_min": min(racer.milliseconds),
            "milliseconds_max": max(racer.milliseconds),
            "error_of_tolerance": errors.get(racer.name),
            **racer.traits,
        }
        for racer in racers
    ]


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """A case's rows as text, a contestant a line."""
    print(rows[0]["case"] if rows else "nothing")
    for row in rows:
        error = row["error_of_tolerance"]
        mark = f"  WRONG by {error:.3g} of the tolerance" if error is not None and error > 1 else ""
        print(
            f"  {row['contestant']:36} {row['rate']:9.3f} {row['unit']} {row['milliseconds']:9.4f} "
            f"ms {row['ratio']:6.3f}{mark}",
            flush=True,
        )


def now() -> str:
    """The date and the time of the day, as results have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def commit() -> str:
    """The checkout's commit, with a mark when files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def surroundings(torch: Any, rounds: int, recorded_commit: str | None = None) -> dict[str, Any]:
    """What a reader needs to trust the numbers."""
    gpu = driver.device()
    return {
        "date": now(),
        "commit": recorded_commit or commit(),
        "device": gpu.name,
        "capability": f"sm_{gpu.capability[0]}{gpu.capability[1]}",
        "multiprocessors": gpu.multiprocessors,
        "l2_bytes": gpu.l2_bytes,
        "driver_cuda": gpu.driver,
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "nvrtc": ".".join(map(str, nvrtc.version())),
        "rounds": rounds,
    }


def write_report(name: str, report: Mapping[str, Any], folder: str | Path) -> Path:
    """Keep a report as ``NAME-CAPABILITY-DATE.json`` and return its path."""
    stamp = str(report["date"])[:19].replace(":", "").replace("-", "")
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"{name}-{report['capability']}-{stamp}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path
