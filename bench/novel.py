"""Modules that nobody named: which can be said, are right, and how near they come to the chip.

``test/support/novel/`` has modules of PyTorch in many fields, which no issue, benchmark or library
of models has.  Each is played back at its small size beside PyTorch in f64; at the size that it is
used at, its kernels are planned, and the model of time says how far they are over the floor: bytes
once at the rate of a copy, or products on tensor cores (``bench/kernelbench_modelled.py``).  On a
GPU they are raced beside eager PyTorch and ``torch.compile`` (``bench/kernelbench_races.py``).

    python bench/novel.py                           # on any machine; writes the board
    python bench/novel.py --only vision gru         # parts of names
    python bench/novel.py --again                   # those that the board does not hold for right
    python bench/novel.py --race --seconds 80       # on a GPU
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polyc.bench import kernelbench_modelled, kernelbench_races, race
from polyc.bench.zoo import MOST_TEXT, outcomes
from polyc.test.support import zoo
from polyc.test.support.novel import Novel, corpus
from polyc.test.support.zoo import Case, Outcome

BOARD = Path("bench/results/novel.json")

FAR = 3.0
"""Times the floor from which on a module is told of."""


def made(case: Case, seconds: int, plan: bool = True) -> Outcome:
    """A module's outcome at its small size, with its row by the model at its own."""
    found = zoo.outcome(case, seconds, plan=False)
    if plan and found.state in ("right", "wrong", "unplanned"):
        found.modelled = kernelbench_modelled.row_of(Novel(case.name))
    return found


def row_of(found: Outcome) -> dict[str, Any]:
    """An outcome as a row of the board."""
    row: dict[str, Any] = {"state": found.state}
    if found.why and found.state != "right":
        row["why"] = found.why[:MOST_TEXT]
    model = dict(found.modelled)
    if "why" in model:
        row |= {"state": "unplanned", "why": str(model["why"])[:MOST_TEXT]}
    elif model:
        row["kernels"] = len(model["kernels"])
        row["slowest"] = model["kernels"][:3]
        kept = ("us", "floor_us", "over_floor", "in_loops", "products_in_loops")
        row |= {name: model[name] for name in (*kept, "seconds_of_import", "seconds_of_plans")}
    return row


def line(name: str, row: Mapping[str, Any]) -> str:
    """A row for the reader."""
    text = f"{name:38} {row['state']:9}"
    if "us" in row:
        text += (
            f" {row['us']:8.1f} us {row['over_floor']:7.2f}x {row['kernels']:3} kernels,"
            f" loops {row['in_loops']:.2f} products {row['products_in_loops']:.2f}"
            f" {row['seconds_of_import']:.1f}+{row['seconds_of_plans']:.1f} s "
        )
        text += ", ".join(f"{one['kernel']} {one['us']:.0f}" for one in row["slowest"])
    return f"{text} {row.get('why', '')}".rstrip()


def board(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Rows by names as the board that is kept."""
    planned = [row for row in rows.values() if "us" in row]
    whole: dict[str, Any] = {"date": race.now(), "commit": race.commit(), "modules": len(rows)}
    whole["states"] = dict(Counter(str(row["state"]) for row in rows.values()).most_common())
    if planned:
        over = [max(row["over_floor"], 1e-3) for row in planned]
        whole |= {
            "over floor, geometric mean": round(statistics.geometric_mean(over), 2),
            f"over {FAR:g} times the floor": sum(one > FAR for one in over),
            "with products in loops": sum(row["products_in_loops"] > 0 for row in planned),
            "seconds of import and plans, most": max(
                round(row["seconds_of_import"] + row["seconds_of_plans"], 1) for row in planned
            ),
        }
    return whole | {"rows": {name: rows[name] for name in sorted(rows)}}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", help="parts of names")
    parser.add_argument("--without", nargs="+", default=[], help="parts of names to leave out")
    parser.add_argument("--again", action="store_true", help="what the board holds for not right")
    parser.add_argument("--no-plans", action="store_true", help="play back, choose no plans")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--each", type=int, default=120, help="processor seconds of a module")
    parser.add_argument("--output", help="where the board goes; - is nowhere")
    parser.add_argument("--race", action="store_true", help="beside PyTorch, on a GPU")
    parser.add_argument("--first", type=Path, help="a file of names that are raced before others")
    kernelbench_races.add_arguments(parser)
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    asked = [one for one in corpus() if not args.only or any(p in one.name for p in args.only)]
    asked = [one for one in asked if not any(part in one.name for part in args.without)]
    if args.race:
        random.Random(args.seed).shuffle(asked)
        first: list[str] = args.first.read_text("utf-8").split() if args.first else []
        asked.sort(key=lambda one: first.index(one.name) if one.name in first else len(first))
        return kernelbench_races.in_turn(args, asked)
    rows: dict[str, dict[str, Any]] = {}
    if args.again or args.only:
        rows = json.loads(BOARD.read_text("utf-8"))["rows"] if BOARD.exists() else {}
        rows = {one.name: rows[one.name] for one in corpus() if one.name in rows}
    if args.again:
        asked = [one for one in asked if rows.get(one.name, {}).get("state") != "right"]
    cases = [one.case() for one in asked]
    output = args.output or ("-" if args.no_plans else str(BOARD))

    def make(case: Case) -> Outcome:
        return made(case, args.each, not args.no_plans)

    for case, found in outcomes(cases, make, args.workers, args.each):
        rows[case.name] = row_of(found)
        print(line(case.name, rows[case.name]), flush=True)
        if output != "-":
            Path(output).write_text(json.dumps(board(rows), indent=1) + "\n", "utf-8")
    asked_rows = {case.name: rows[case.name] for case in cases if case.name in rows}
    for key, value in board(asked_rows).items():
        if key != "rows":
            print(f"{key}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
