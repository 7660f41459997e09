"""Compare the model of time with what ``bench/models.py`` measured.

    python bench/modelled.py [--models decoder vit] [--parts] [--output bench/results/modelled.json]

Each program is compiled to its plans, on any machine, and modelled at the sizes of the latest run
in bench/results.  ``--parts`` prints each kernel.  The table of docs/passes/model-of-time.md is of
the file (``bench/table.py``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from polyc.cost.time import Time, times_of
from polyc.test.support.model_programs import MODELS
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

RESULTS = Path(__file__).resolve().parent / "results"
ARCH = "sm_90a"


@dataclass(frozen=True)
class Measured:
    """A program's seconds, at its sizes, and the file that says so."""

    seconds: float
    sizes: Mapping[str, int]
    file: str
    device: str


def measured(folder: Path = RESULTS) -> dict[str, Measured]:
    """The latest run of each program."""
    found: dict[str, Measured] = {}
    for path in sorted(folder.glob("models-*.json")):
        report = json.loads(path.read_text("utf-8"))
        for row in report["rows"]:
            if row["contestant"] == "polyc":
                seconds = row["milliseconds"] / 1e3
                found[row["case"]] = Measured(seconds, row["sizes"], path.name, report["device"])
    return found


def modelled_times(name: str, sizes: Mapping[str, int]) -> list[Time]:
    """The kernels of a program at a model's size."""
    with redirect_stderr(StringIO()):
        job = Compilation(make_context(), MODELS[name].module(large=True), ARCH).run("plan")
    return times_of(job.module, sizes)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    there = measured()
    parser.add_argument("--models", nargs="+", choices=list(there), default=list(there))
    parser.add_argument("--parts", action="store_true", help="print each kernel's parts")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args(argv)
    rows: list[dict[str, object]] = []
    for name in args.models:
        run = there[name]
        times = modelled_times(name, run.sizes)
        total = sum(t.seconds for t in times)
        most = max(times, key=lambda t: t.seconds)
        rows.append(
            {
                "case": name,
                "kernels": len(times),
                "modelled_us": round(total * 1e6, 1),
                "measured_us": round(run.seconds * 1e6, 1),
                "ratio": round(total / run.seconds, 2),
                "bound": most.bound,
                "file": run.file,
                "device": run.device,
            }
        )
        print(f"{name:16} {total * 1e6:9.1f} {run.seconds * 1e6:9.1f} {total / run.seconds:5.2f}")
        for time in times if args.parts else ():
            print(f"    {json.dumps(time.as_dict())}")
    if args.output is not None:
        args.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
