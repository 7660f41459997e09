"""The tables of bench/README.md, made from the files in bench/results.

A line ``<!-- table: results/FILE.json -->`` is followed by a table of that file's figures;
``python bench/table.py`` writes them anew, and a test holds that they are what it writes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MARK = re.compile(r"(<!-- table: (results/\S+\.json) -->\n)(?:\|.*\n)*")

COLUMNS = {
    "sm_90a": "polyc sm_90a",
    "sm_80": "polyc sm_80",
    "matmul": "cuBLAS matmul",
    "Lt": "cuBLASLt bias+relu",
    "addmm": "cuBLAS addmm, relu",
}
"""A column's key, and how the names of its contestants begin."""


def rows(report: dict[str, Any]) -> list[str]:
    """The table's lines: a shape a line, TFLOP/s, and the ratio to the fused vendor kernel."""
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


def written(text: str) -> str:
    """``text`` with every marked table made anew."""

    def table(found: re.Match[str]) -> str:
        report = json.loads((HERE / found[2]).read_text())
        return found[1] + "\n".join(rows(report)) + "\n"

    return MARK.sub(table, text)


def main() -> int:
    path = HERE / "README.md"
    path.write_text(written(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
