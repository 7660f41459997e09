"""Compare the model of time with what was measured.

    python bench/modelled.py [--names decoder vit] [--parts]
    python bench/modelled.py --kernels [--names "gemm 4096x4096x4096"]

Each program of ``bench/models.py``, or with ``--kernels`` each graph of the tables of GEMM,
attention, convolutions and norms, is compiled to its plans, on any machine, and modelled at the
sizes of the latest run in bench/results.  ``--parts`` prints each kernel.  ``--write`` keeps the
figures, of which ``bench/table.py`` makes the tables of docs/passes/model-of-time.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from polyc.bench.attention import FEATURES, GRAPH, POSITIONS
from polyc.bench.conv import GRAPH_TEXT
from polyc.cost.device import H100, H200, Device
from polyc.cost.time import Time, times_of
from polyc.test.support.model_programs import MODELS
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
EXAMPLES = HERE.parent / "examples"
ARCH = "sm_90a"
CHIPS = {"H100": H100, "H200": H200}


@dataclass(frozen=True)
class Measured:
    """A graph's seconds at its sizes, the chip, and the file that says so."""

    seconds: float
    sizes: Mapping[str, int]
    file: str
    device: Device
    text: str = ""
    """The graph, where it is none of the programs."""


Read = Callable[[Mapping[str, Any]], "tuple[str, Mapping[str, int], str]"]
"""A row of a report to its name, the sizes, and the graph's text."""


def _runs(start: str, read: Read, own: str, folder: Path) -> Iterator[tuple[str, Measured]]:
    """The rows of the reports whose names begin so and whose contestant is ours."""
    for path in sorted(folder.glob(f"{start}-*.json")):
        report = json.loads(path.read_text("utf-8"))
        chip = next(c for name, c in CHIPS.items() if name in report["device"])
        for row in report["rows"]:
            if row["contestant"].startswith(own):
                name, sizes, text = read(row)
                yield name, Measured(row["milliseconds"] / 1e3, sizes, path.name, chip, text)


def measured(folder: Path = RESULTS) -> dict[str, Measured]:
    """The latest run of each program of ``bench/models.py``, at its own tokens and at others."""
    return dict(_runs("models-f16", lambda row: (row["case"], row["sizes"], ""), "polyc", folder))


def measured_kernels(folder: Path = RESULTS) -> dict[str, Measured]:
    """The latest run of each graph of one kernel, in f16."""
    return {
        **dict(_runs("gemm-f16", _gemm, "polyc sm_90a", folder)),
        **dict(_runs("attention-f16", _attention, "polyc graph", folder)),
        **dict(_runs("conv-f16-stride1", _conv, "polyc graph", folder)),
        **dict(_runs("norms-f16", _norm, "polyc graph", folder)),
    }


def _gemm(row: Mapping[str, Any]) -> tuple[str, Mapping[str, int], str]:
    sizes = {name: row[name.lower()] for name in "MNK"}
    text = (EXAMPLES / "gemm_bias_relu.mlir").read_text("utf-8")
    return f"gemm {'x'.join(map(str, sizes.values()))}", sizes, text


def _attention(row: Mapping[str, Any]) -> tuple[str, Mapping[str, int], str]:
    found = re.fullmatch(r"d(\d+) (\w+) (\d+)", row["case"])
    assert found is not None
    width, length = int(found[1]), int(found[3])
    causal = " causal" if found[2] == "causal" else ""
    sizes = {"B": POSITIONS // length, "H": FEATURES // width, "M": length, "N": length}
    return f"attention {row['case']}", sizes, GRAPH.format(size=width, causal=causal)


def _conv(row: Mapping[str, Any]) -> tuple[str, Mapping[str, int], str]:
    images, channels, height, filters = map(int, row["case"].split()[0].split("x"))
    sizes = {"N": images, "H": height, "W": height, "C": channels, "K": filters}
    return f"conv {row['case'].split()[0]}", sizes, GRAPH_TEXT.format(P="H", Q="W", s=1)


def _norm(row: Mapping[str, Any]) -> tuple[str, Mapping[str, int], str]:
    name, shape = row["case"].split()
    rows, columns = map(int, shape.split("x"))
    text = (EXAMPLES / f"{name}.mlir").read_text("utf-8")
    return row["case"], {"M": rows, "N": columns}, text


@cache
def planned(text: str) -> ModuleOp:
    """A graph with its regions and plans."""
    ctx = make_context()
    with redirect_stderr(StringIO()):
        return Compilation(ctx, parse_text(ctx, text, "bench.mlir"), ARCH).run("plan").module


def program_of(case: str) -> str:
    """The program of a case of ``bench/models.py``, behind which its tokens may stand."""
    return case.partition(" ")[0]


def modelled_times(name: str, run: Measured) -> list[Time]:
    """The kernels of a graph, at the sizes and on the chip of a run."""
    text = run.text or str(MODELS[program_of(name)].module(large=True))
    return times_of(planned(text), run.sizes, run.device)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernels", action="store_true", help="graphs of one kernel")
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--parts", action="store_true", help="print each kernel's parts")
    parser.add_argument("--write", action="store_true", help="keep the figures in bench/results")
    args = parser.parse_args(argv)
    there = measured_kernels() if args.kernels else measured()
    rows: list[dict[str, object]] = []
    for name in args.names or there:
        if name not in there:
            parser.error(f"{name} was not measured; there are {', '.join(there)}")
        run = there[name]
        times = modelled_times(name, run)
        total = sum(t.seconds for t in times)
        rows.append(
            {
                "case": name,
                "kernels": len(times),
                "modelled_us": round(total * 1e6, 1),
                "measured_us": round(run.seconds * 1e6, 1),
                "ratio": round(total / run.seconds, 2),
                "bound": max(times, key=lambda t: t.seconds).bound,
                "file": run.file,
                "device": run.device.name,
            }
        )
        print(f"{name:34}{total * 1e6:9.1f} {run.seconds * 1e6:9.1f} {total / run.seconds:5.2f}")
        for time in times if args.parts else ():
            print(f"    {json.dumps(time.as_dict())}")
    if args.write and not args.names:
        file = "modelled-kernels.json" if args.kernels else "modelled.json"
        (RESULTS / file).write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
