"""Many architectures that no issue names: which can be said, are right, and are planned for.

Models of timm, transformers and torchvision, with random weights and small
(``test/support/zoo.py``), are exported, imported, and played back in f32 beside PyTorch.  Then they
are made as wide as they are used, of one layer a run of equal ones, and planned in f16 for sm_90a:
the model of time says what share of them is in loops, and which kernel loses most to its roofline.
The board has how far each gets, and a test holds a sample of it.

    python bench/zoo.py [--only vit mixtral] [--workers 2]    # on any machine
    python bench/zoo.py --no-plans                            # only to playback, a few seconds each
    python bench/zoo.py --again missing unmodelled            # those on the board, and new ones
    python bench/zoo.py --again --merge other.json --only -   # a board that another process made
    python bench/zoo.py --compiled                            # f16, torch.compile, on a GPU
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import random
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyc.bench import race
from polyc.importers.registry import library
from polyc.test.support import zoo
from polyc.test.support.zoo import Case, Outcome

BOARD = Path("bench/results/zoo.json")

MOST_TEXT = 400
"""Letters of what a diagnostic says that are kept."""

BUSY = 10
"""Times the processor's seconds of a case until its process is ended, on a machine that is busy."""


def _in_process(told: Any, make: Callable[[Case], Outcome], case: Case) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    logging.disable(logging.WARNING)
    told.send(make(case))


def outcomes(
    cases: Sequence[Case],
    make: Callable[[Case], Outcome],
    workers: int,
    each: int,
    until: float | None = None,
) -> Iterator[tuple[Case, Outcome]]:
    """Cases in processes of their own, forked from this one; those not begun ``until`` then are
    left out."""
    forked = multiprocessing.get_context("fork")
    waiting = list(cases)
    running: list[tuple[Any, Any, Case, float]] = []
    while waiting or running:
        late = until is not None and time.monotonic() > until
        if late:
            waiting.clear()
        while waiting and len(running) < workers:
            case = waiting.pop(0)
            here, there = forked.Pipe(duplex=False)
            process = forked.Process(target=_in_process, args=(there, make, case))
            process.start()
            there.close()
            running.append((process, here, case, time.monotonic()))
        time.sleep(0.02)
        for one in list(running):
            process, here, case, begun = one
            if here.poll():
                try:
                    found = here.recv()
                except EOFError:
                    process.join()
                    found = Outcome("broken", f"its process ended with {process.exitcode}")
            elif late or time.monotonic() - begun > each * BUSY:
                found = Outcome("unmade", f"more than {each} s")
            else:
                continue
            process.kill()
            process.join()
            running.remove(one)
            yield case, found


def _warm() -> None:
    """Have in this process what each would read anew."""
    torch = library("torch", "torch")
    torch.set_num_threads(1)
    for name in ("timm", "transformers.models.auto.modeling_auto"):
        try:
            library(name, "torch")
        except Exception:
            print(f"{name} is not there")
    small = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softmax(-1))
    zoo.outcome(Case("warm", lambda: (small, (torch.randn(2, 4),), {})))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", help="parts of the names of cases")
    parser.add_argument("--no-plans", action="store_true", help="play back, choose no plans")
    again = "states on the board that run once more; unmodelled are those that no plans are of"
    parser.add_argument("--again", nargs="*", help=again)
    parser.add_argument("--merge", nargs="+", default=[], help="boards whose rows are taken over")
    parser.add_argument("--seed", type=int, help="shuffle the cases")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--each", type=int, default=90, help="processor seconds of a case")
    parser.add_argument("--seconds", type=float, help="begin no case after so many")
    parser.add_argument("--compiled", action="store_true", help="f16 through torch.compile, GPU")
    parser.add_argument("--output", default=None, help="where the board goes; - is nowhere")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    until = None if args.seconds is None else time.monotonic() + args.seconds
    asked = [
        case
        for case in zoo.cases()
        if not args.only or any(part in case.name for part in args.only)
    ]
    if args.seed is not None:
        random.Random(args.seed).shuffle(asked)
    _warm()

    def make(case: Case) -> Outcome:
        if args.compiled:
            return zoo.compiled(case, args.each)
        return zoo.outcome(case, args.each, plan=not args.no_plans)

    rows: dict[str, dict[str, Any]] = {}
    if args.again is not None:
        held: dict[str, Any] = {}
        for path in [BOARD, *map(Path, args.merge)]:
            if path.exists() or path is not BOARD:
                held |= json.loads(path.read_text("utf-8"))["models"]
        asked = [one for one in asked if _states(held.get(one.name)) & {"new", *args.again}]
        known = {one.name for one in zoo.cases()}
        rows = {name: row for name, row in held.items() if name in known}
    found: dict[str, Outcome] = {}
    part = args.compiled or (args.only and args.again is None)
    output = args.output or ("-" if part else str(BOARD))

    def keep() -> None:
        if output != "-":
            Path(output).write_text(json.dumps(board(rows), indent=1) + "\n", "utf-8")

    for case, one in outcomes(asked, make, args.workers, args.each, until):
        found[case.name] = one
        print(f"{case.name:44}{one.state:11}{one.seconds} {one.why}", flush=True)
        rows[case.name] = _row(one)
        keep()
    keep()
    for state, many in Counter(one.state for one in found.values()).most_common():
        print(f"{many:5} {state}")
    return 0


def board(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Rows by cases' names as the board that is kept."""
    torch = library("torch", "torch")
    states = Counter(str(one["state"]) for one in rows.values())
    return {
        "date": race.now(),
        "commit": race.commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load": list(os.getloadavg()),
        "torch": torch.__version__,
        **{name: library(name, "torch").__version__ for name in ("timm", "transformers")},
        "rows": [{"state": one, "models": states[one]} for one in zoo.STATES if states[one]],
        "modelled": _summary([one["modelled"] for one in rows.values() if "modelled" in one]),
        "models": {name: rows[name] for name in sorted(rows)},
    }


def _summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the model of time says of all models: each counts alike, whatever it takes."""
    if not found:
        return {}
    return {
        "models": len(found),
        "over, geometric mean": round(statistics.geometric_mean(one["over"] for one in found), 2),
        "loops, mean": round(statistics.mean(one["loops"] for one in found), 3),
        "products in loops, mean": round(
            statistics.mean(one["products in loops"] for one in found), 3
        ),
        "with a slow kernel": sum("slowest" in one for one in found),
    }


def _states(row: Mapping[str, Any] | None) -> set[str]:
    """The states that a case on the board is asked for by."""
    if row is None:
        return {"new"}
    return {row["state"], *(() if "modelled" in row else ("unmodelled",))}


def _row(one: Outcome) -> dict[str, Any]:
    row: dict[str, Any] = {"state": one.state}
    if one.why:
        row["why"] = one.why[:MOST_TEXT]
    if one.modelled:
        row["modelled"] = one.modelled
    if one.regions:
        row["regions"] = dict(Counter(one.regions).most_common())
    return row


if __name__ == "__main__":
    sys.exit(main())
