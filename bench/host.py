"""What the benchmarks of the compiler itself share: fresh processes, medians, limits, a report.

Nothing here needs a GPU.  What is timed inside a process runs once in it, after all imports, so
that nothing is remembered from the run before.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from polyc.bench.race import ROOT, commit, now
from polyc.bench.table import figure

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / ".typecheck")}

IMPORTS = """
import json, sys, time
from polyc.passes.pipeline import ORDER
from polyc.tools.commands import command_line
from polyc.tools import opt, pipeline, polyc, polyc_opt, printing, streams
from polyc.tools.registry import DIALECTS, PassRegistry, make_context
ctx = make_context()
for name in DIALECTS:
    ctx.load_registered_dialect(name)
for name in ORDER:
    PassRegistry().find(name)
import polyc.lowering.gpu_to_cuda, polyc.affine.isl, islpy
"""
"""Everything that a compilation imports, so that the work alone is timed after it."""

START = "wall, cpu = time.perf_counter(), time.process_time()\n"
STOP = """
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps([wall * 1e3, cpu * 1e3]))
"""


@dataclass(frozen=True)
class Time:
    """Milliseconds on the wall and of the processor; on an idle machine they are the same."""

    wall: float
    cpu: float


def whole(args: Sequence[str], runs: int) -> list[Time]:
    """The times of whole Python processes, after one that warms the file cache."""
    times: list[Time] = []
    for _ in range(runs + 1):
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *args], check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append(Time((time.perf_counter() - start) * 1e3, cpu * 1e3))
    return times[1:]


def inside(code: str, args: Sequence[str], runs: int) -> list[Time]:
    """The times of ``code`` after ``IMPORTS``, once in a fresh process each, after one more."""
    command = [sys.executable, "-c", IMPORTS + START + code + STOP, *args]
    done = [
        subprocess.run(command, check=True, env=ENVIRONMENT, capture_output=True, text=True).stdout
        for _ in range(runs + 1)
    ]
    return [Time(*json.loads(text)) for text in done[1:]]


def load() -> float:
    """Processes that wanted a core, on average over the last minute."""
    return round(os.getloadavg()[0], 2)


@dataclass
class Report:
    """Figures as they are found, each printed at once; ``held`` says whether all limits are."""

    title: str
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    load_before: float = field(default_factory=load)

    def __post_init__(self) -> None:
        print(f"{self.title}, {os.cpu_count()} cores", flush=True)

    def add(self, name: str, times: Sequence[Time], limit: float | None = None) -> float:
        """Add the median of times on the wall, to be below ``limit``.

        Returns that of the processor's time, on which other processes have less influence.
        """
        wall, cpu = ([round(t, 1) for t in ts] for ts in zip(*map(astuple, times), strict=True))
        used = statistics.median(cpu)
        more = {"runs": wall, "cpu": used, "cpu_runs": cpu}
        self.figure(name, statistics.median(wall), "ms", limit, **more)
        return used

    def figure(
        self, name: str, value: float, unit: str, limit: float | None = None, **more: object
    ) -> None:
        """Add a figure, to be below ``limit``."""
        held = limit is None or value < limit
        row = {"name": name, "median": round(value, 2), "unit": unit, "limit": limit}
        self.rows.append({**row, "held": held, **more})
        against = "" if limit is None else f"  limit {limit:g}{'' if held else '  NOT HELD'}"
        print(f"  {name:<56}{figure(value, unit):>10}{against}", flush=True)

    @property
    def held(self) -> bool:
        """Whether every figure is below its limit."""
        return all(row["held"] for row in self.rows)

    def write(self, output: Path) -> None:
        """Keep the report, with where and when it was made."""
        output.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "date": now(),
            "commit": commit(),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load": [self.load_before, load()],
            "rows": self.rows,
        }
        output.write_text(json.dumps(record, indent=2) + "\n")
        print(f"wrote {output}")
