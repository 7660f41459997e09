"""The plots of docs/performance.md, made from the files in bench/results.

    python bench/plots.py

writes ``docs/figures/KERNEL.svg`` for each figure of that page, from the newest report of its
benchmark: bars of polyc's best kernel and of each peer, a group a case.  Needs matplotlib
(``pip install polyc[bench]``).
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
FIGURES = ROOT / "docs" / "figures"
PAGE = ROOT / "docs" / "performance.md"


def newest_reports(folder: Path) -> dict[str, Path]:
    """The newest report of each benchmark that has cases, by the benchmark's name."""
    found: dict[str, tuple[str, Path]] = {}
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text())
        rows = report.get("rows")
        if not rows or "case" not in rows[0] or "date" not in report:
            continue
        name = path.stem.split("-sm_")[0]
        if name not in found or found[name][0] < report["date"]:
            found[name] = (report["date"], path)
    return {name: path for name, (_, path) in found.items()}


def series(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], dict[str, list[float]]]:
    """``(cases, rates)``: a list of rates a contestant, 0 where it did not run.

    polyc's kernels of a case are one contestant, with the fastest one's rate.
    """
    cases = list(dict.fromkeys(row["case"] for row in rows))
    rates: dict[str, list[float]] = {}
    for row in rows:
        name = row["contestant"] if row["peer"] else "polyc"
        own = rates.setdefault(name, [0.0] * len(cases))
        at = cases.index(row["case"])
        own[at] = max(own[at], row["rate"])
    return cases, rates


def draw(plt: Any, name: str, report: Mapping[str, Any], path: Path) -> None:
    """One figure: a group of bars a case."""
    cases, rates = series(report["rows"])
    figure, axes = plt.subplots(figsize=(max(6.0, 1.1 * len(cases)), 3.6))
    width = 0.8 / len(rates)
    order = sorted(rates, key=lambda contestant: contestant != "polyc")
    for i, contestant in enumerate(order):
        places = [j + (i - (len(order) - 1) / 2) * width for j in range(len(cases))]
        axes.bar(places, rates[contestant], width, label=contestant)
    axes.set_xticks(range(len(cases)), cases, rotation=30, ha="right", fontsize=7)
    axes.set_ylabel(report["rows"][0]["unit"])
    axes.set_title(f"{name}, {report['device']}, commit {report['commit']}", fontsize=8)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> int:
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
    except ImportError:
        sys.exit("bench/plots.py draws with matplotlib: pip install polyc[bench]")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "polyc"
    plt = importlib.import_module("matplotlib.pyplot")
    FIGURES.mkdir(parents=True, exist_ok=True)
    newest = newest_reports(RESULTS)
    for name in re.findall(r"figures/(\S+)\.svg", PAGE.read_text("utf-8")):
        path = newest[name]
        target = FIGURES / f"{name}.svg"
        draw(plt, name, json.loads(path.read_text()), target)
        print(f"{target.relative_to(ROOT)} from {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
