"""What nvMatmulHeuristics picks for products, where it is installed: for comparison alone.

It is NVIDIA's model of which CUTLASS kernel is fastest (``pip install nvidia-matmul-heuristics``).
It is asked in a process of its own, which says a kernel a line and need not end well.

    echo "1000 1000 1000" | python bench/heuristics.py
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

LIBRARY = "nvMatmulHeuristics"

KERNEL = re.compile(r"cta\((\d+) (\d+) \d+\).*splitK\((\d+)\).*cluster\((\d+) (\d+)\)")
"""A kernel as it is described: tile, parts of the depth, and cluster."""


@dataclass(frozen=True)
class Pick:
    """A tile's rows and columns, the parts of its depth, and the tiles of a cluster."""

    tile: tuple[int, int]
    parts: int
    cluster: tuple[int, int]


def picks(products: Sequence[tuple[int, int, int]]) -> list[Pick | None]:
    """Its first pick for each product of ``m, n, k``; None where it has none, or is not there."""
    nothing: list[Pick | None] = [None] * len(products)
    if find_spec(LIBRARY) is None:
        return nothing
    asked = "".join(f"{m} {n} {k}\n" for m, n, k in products)
    done = subprocess.run(
        [sys.executable, __file__], input=asked, capture_output=True, text=True, check=False
    )
    found = [parsed(line) for line in done.stdout.splitlines()]
    return [*found, *nothing][: len(products)]


def parsed(kernel: str) -> Pick | None:
    """A kernel's description; None for one that says no tile."""
    match = KERNEL.search(kernel)
    if match is None:
        return None
    rows, columns, parts, below, beside = map(int, match.groups())
    return Pick((rows, columns), parts, (below, beside))


def main() -> None:
    """Say what it picks for each line's product of f16, row by row, on an H200."""
    library: Any = importlib.import_module(LIBRARY)
    model: Any = library.NvMatmulHeuristicsInterface(
        library.NvMatmulHeuristicsTarget.CUTLASS3,
        precision="HSH",
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
    )
    chip = model.createHardwareDescriptor()
    model.setHardwarePredefinedGpu(chip, library.NvMatmulHeuristicsNvidiaGpu.H200_SXM)
    layout = library.NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
    for line in sys.stdin:
        m, n, k = map(int, line.split())
        found: Any = model.get_with_mnk(m, n, k, layout, 1, chip)
        print(found[0]["kernel"] if found else "", flush=True)


if __name__ == "__main__":
    main()
