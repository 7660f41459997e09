"""The tables of bench/README.md and docs/semantics.md, made from the files in bench/results.

A line ``<!-- table: results/FILE.json -->`` is followed by a table of that file's figures;
``python bench/table.py`` writes them anew, and a test holds that they are what it writes.  A name
with a ``*`` stands for every file that it fits, of which the later has the word on a case that both
have; there is no table until there is one.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
PAGES = (
    HERE / "README.md",
    DOCS / "semantics.md",
    DOCS / "tools" / "mutation.md",
    DOCS / "tools" / "onnx.md",
    DOCS / "passes" / "model-of-time.md",
)
MARK = re.compile(r"(<!-- table: (results/\S+\.json) -->\n)(?:\|.*\n)*")

COLUMNS = {
    "sm_90a": "polyc sm_90a",
    "sm_80": "polyc sm_80",
    "matmul": "cuBLAS matmul",
    "Lt": "cuBLASLt bias+relu",
    "addmm": "cuBLAS addmm, relu",
}
"""A column's key, and how the names of its contestants begin."""

FORMAT = {"TFLOP/s": ".1f", "TB/s": ".2f", "forwards/s": ".1f"}
"""How a rate is written."""


def rows(report: dict[str, Any]) -> list[str]:
    """The table's lines: a case or shape a line, rates, and the ratio to the peer.

    Reports of the compiler itself have a figure a line, beside its limit.
    """
    if all("needed" in row for row in report["rows"]):
        return agreement_rows(report)
    if any("of_model" in row for row in report["rows"]):
        return composition_rows(report)
    if all("playback" in row for row in report["rows"]):
        return function_rows(report)
    if all("modelled_us" in row for row in report["rows"]):
        return modelled_rows(report)
    if all("problem" in row for row in report["rows"]):
        return problem_rows(report)
    if all("models" in row for row in report["rows"]):
        return model_rows(report)
    if all("state" in row for row in report["rows"]):
        return state_rows(report)
    if all("mutants" in row for row in report["rows"]):
        return mutant_rows(report)
    if all("limit" in row for row in report["rows"]):
        return limit_rows(report)
    if any("of_contiguous" in row for row in report["rows"]):
        return paged_rows(report["rows"])
    if all("case" in row for row in report["rows"]):
        return case_rows(report["rows"])
    return gemm_rows(report)


def agreement_rows(report: dict[str, Any]) -> list[str]:
    """The largest number of errors that each family needs, in each way to compute it."""
    found = {(row["family"], row["way"]): row["needed"] for row in report["rows"]}
    ways = list(dict.fromkeys(way for _, way in found))
    lines = [f"| {report['device']} | {' | '.join(ways)} |", "|---|" + "---:|" * len(ways)]
    for family in dict.fromkeys(family for family, _ in found):
        cells = [found.get((family, way)) for way in ways]
        figures = ("" if cell is None else f"{cell:.2f}" for cell in cells)
        lines.append(f"| {family} | {' | '.join(figures)} |")
    return lines


def function_rows(report: dict[str, Any]) -> list[str]:
    """The largest error of each function at playback, and what is known of it in kernels."""
    lines = ["| | playback | kernels, at most | by |", "|---|---:|---:|---|"]
    for row in report["rows"]:
        cells = [row["function"], f"{row['playback']:.2f}", f"{row['kernel']:g}", row["by"]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def modelled_rows(report: dict[str, Any]) -> list[str]:
    """What the model says of each program beside what was measured, the nearest to it first."""
    head = (
        "| | kernels | most of it is bound by | modelled, µs | measured, µs | modelled / measured |"
    )
    lines = [head, "|---|---:|---|---:|---:|---:|"]
    for row in sorted(report["rows"], key=lambda row: abs(math.log(row["ratio"]))):
        figures = [f"{row[key]:.0f}" for key in ("modelled_us", "measured_us")]
        cells = [row["case"], str(row["kernels"]), row["bound"], *figures, f"{row['ratio']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def composition_rows(report: dict[str, Any]) -> list[str]:
    """Our time of each composition, in parts of the model's and of PyTorch's, as they were run."""
    head = "| | µs | measured / modelled | PyTorch / polyc |"
    lines = [head, "|---|---:|---:|---:|"]
    for row in report["rows"]:
        if "of_model" in row:
            time, parts = row["milliseconds"] * 1e3, (row["of_model"], row["ratio"])
            cells = [row["case"], f"{time:.0f}", *(f"{part:.2f}" for part in parts)]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def problem_rows(report: dict[str, Any]) -> list[str]:
    """Each problem's time beside those of a copy and of PyTorch, the furthest behind first."""
    names = ("own", "copy", "eager", "torch.compile")
    lines = ["| µs | polyc | copy | eager | torch.compile | polyc / best |"]
    lines.append("|---|" + "---:|" * 5)
    for row in sorted(report["rows"], key=lambda row: row["ratio"]):
        times = [row.get(f"{name}_us") for name in names]
        figures = ["" if time is None else f"{time:.0f}" for time in times]
        cells = [row["problem"], *figures, f"{row['ratio']:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def state_rows(report: dict[str, Any]) -> list[str]:
    """How many cases of a scoreboard are in each state, and what those that are missing need."""
    lines = [f"| onnx {report['onnx']}, {report['cases']} cases | |", "|---|---:|"]
    for row in report["rows"]:
        lines.append(f"| {row['state']} | {row['count']} |")
    for what, names in report["not right"]["missing"].items():
        lines.append(f"| missing: {what} | {len(names)} |")
    return lines


def model_rows(report: dict[str, Any]) -> list[str]:
    """How many models are in each state, and what the model of time says of those with plans."""
    count = sum(row["models"] for row in report["rows"])
    versions = ", ".join(f"{name} {report[name]}" for name in ("timm", "transformers"))
    lines = [f"| {count} models of {versions} | |", "|---|---:|"]
    lines += [f"| {row['state']} | {row['models']} |" for row in report["rows"]]
    for what, figure in report["modelled"].items():
        lines.append(f"| by the model of time: {what} | {figure} |")
    return lines


def mutant_rows(report: dict[str, Any]) -> list[str]:
    """What became of the mutants of each family's kernels."""
    outcomes = ("caught", "by the result", "harmless", "survived")
    lines = [f"| family | arch | mutants | {' | '.join(outcomes)} |", "|---|---|" + "---:|" * 5]
    total: Counter[str] = Counter()
    for row in report["rows"]:
        total.update({key: row.get(key, 0) for key in ("mutants", *outcomes)})
        figures = (str(row.get(key, 0)) for key in ("mutants", *outcomes))
        lines.append(f"| {row['family']} | {row['arch']} | {' | '.join(figures)} |")
    figures = (str(total[key]) for key in ("mutants", *outcomes))
    lines.append(f"| all |  | {' | '.join(figures)} |")
    return lines


def limit_rows(report: dict[str, Any]) -> list[str]:
    """A figure a line, with its fastest and slowest run, the processor's time, and its limit.

    The last line is how many processes wanted a core, before and after.
    """
    lines = ["| | median | runs | CPU time | limit |", "|---|---:|---:|---:|---:|"]
    for row in report["rows"]:
        unit, runs = row["unit"], row.get("runs", [])
        spread = f"{figure(min(runs), unit)} to {figure(max(runs), unit)}" if runs else ""
        cpu = figure(row["cpu"], unit) if "cpu" in row else ""
        limit = "" if row["limit"] is None else figure(row["limit"], unit)
        cells = [row["name"], figure(row["median"], unit), spread, cpu, limit]
        lines.append(f"| {' | '.join(cells)} |")
    before, after = (f"{load:.1f}" for load in report["load"])
    lines.append(f"| load of the {report['cores']} cores |  | {before} to {after} |  |  |")
    return lines


def figure(value: float, unit: str) -> str:
    """A figure with its unit: whole milliseconds, ratios with one digit."""
    return f"{value:.0f} ms" if unit == "ms" else f"{value:.1f}"


def case_rows(found: Sequence[dict[str, Any]]) -> list[str]:
    """A case a line: polyc's best kernel, every peer, and the ratio to the fastest peer.

    What the compiler makes of a graph has columns of its own, where it was timed, and so has what
    it makes of the sizes of the case.
    """
    peers = list(dict.fromkeys(row["contestant"] for row in found if row["peer"]))
    unit = found[0]["unit"] if found else ""
    kinds = {kind_of(row) for row in found}
    own = ["polyc", *(kind for kind in ("graph", "known") if kind in kinds)]
    names = [*own, *peers, *(f"{name} / best" for name in own)]
    lines = [f"| {unit} | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for case in dict.fromkeys(row["case"] for row in found):
        of_case = [row for row in found if row["case"] == case]
        best = [
            max(
                (row for row in of_case if kind_of(row) == kind),
                key=lambda row: row["rate"],
                default=None,
            )
            for kind in own
        ]
        by_peer = {row["contestant"]: row for row in of_case if row["peer"]}
        rates = [*best, *(by_peer.get(peer) for peer in peers)]
        cells = [
            case,
            *("" if r is None else f"{r['rate']:{FORMAT[r['unit']]}}" for r in rates),
            *("" if r is None else f"{r['ratio']:.2f}" for r in best),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def paged_rows(found: Sequence[dict[str, Any]]) -> list[str]:
    """Attention over pages a line, beside the contestants and as parts of each."""
    names = list(dict.fromkeys(row["contestant"] for row in found))
    parts = [f"{names[0]} / {name.removeprefix('polyc, ')}" for name in names[1:]]
    lines = [f"| {found[0]['unit']} | {' | '.join([*names, *parts])} |"]
    lines.append("|---|" + "---:|" * len([*names, *parts]))
    for case in dict.fromkeys(row["case"] for row in found):
        own, *others = (row for row in found if row["case"] == case)
        rates = [f"{row['rate']:{FORMAT[row['unit']]}}" for row in (own, *others)]
        ratios = [f"{row['milliseconds'] / own['milliseconds']:.2f}" for row in others]
        lines.append(f"| {' | '.join([case, *rates, *ratios])} |")
    return lines


def kind_of(row: Mapping[str, Any]) -> str | None:
    """Whose a row is: a kernel of ours, one that the compiler made of a ``graph`` by its own plan,
    or of one of ``known`` sizes; None for a peer's."""
    if row["peer"]:
        return None
    words = row["contestant"].split()
    return words[1] if len(words) > 1 and words[1] in ("graph", "known") else "polyc"


def gemm_rows(report: dict[str, Any]) -> list[str]:
    """TFLOP/s of ``bench/gemm.py``, and the ratio to the fused vendor kernel."""
    shapes = list(dict.fromkeys((r["m"], r["n"], r["k"]) for r in report["rows"]))
    lines = [
        "| M x N x K | polyc sm_90a | polyc sm_80 | cuBLAS | cuBLASLt bias+relu | addmm, relu "
        "| sm_90a / fused |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for shape in shapes:
        cells: dict[str, float] = {}
        for row in report["rows"]:
            if (row["m"], row["n"], row["k"]) == shape:
                key = next(k for k, start in COLUMNS.items() if row["contestant"].startswith(start))
                cells[key] = row["tflops"]
        figures = " | ".join(f"{cells[key]:.1f}" if key in cells else "" for key in COLUMNS)
        ratio = f"{cells['sm_90a'] / cells['Lt']:.2f}" if {"sm_90a", "Lt"} <= cells.keys() else ""
        lines.append(f"| {'x'.join(map(str, shape))} | {figures} | {ratio} |")
    return lines


def reports(name: str, folder: Path = HERE) -> list[dict[str, Any]]:
    """What a mark names: a file's report, or those that a ``*`` fits, the earliest first."""
    if "*" not in name:
        return [json.loads((folder / name).read_text())]
    found = [json.loads(path.read_text()) for path in folder.glob(name)]
    return sorted(found, key=lambda report: report["date"])


def merged(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several reports as one: each case as the last of them has it, where the first one had it."""
    if len(found) == 1:
        return found[0]
    by_case: dict[str, list[Any]] = {}
    for report in found:
        own: dict[str, list[Any]] = {}
        for row in report["rows"]:
            own.setdefault(row["case"], []).append(row)
        by_case |= own
    return {**found[-1], "rows": [row for several in by_case.values() for row in several]}


def written(text: str, folder: Path = HERE) -> str:
    """``text`` with every marked table made anew."""

    def table(found: re.Match[str]) -> str:
        there = reports(found[2], folder)
        return found[1] + "".join(f"{line}\n" for line in (rows(merged(there)) if there else ()))

    return MARK.sub(table, text)


def main() -> int:
    for path in PAGES:
        path.write_text(written(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
