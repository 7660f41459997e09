"""``polyc run``: play a program back at every layer, run its kernel, compare.

Without a GPU the kernels of both architectures are compiled all the same, so that a
machine without one finds what NVRTC would refuse.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyc.dialects.diagnostic import PolycError

if TYPE_CHECKING:
    from polyc.dialects.signature import SignatureOp

NAME = "run"
HELP = "Run a program at given sizes and compare every layer with the FP32 reference."


def parse_sizes(settings: Sequence[str], graph: SignatureOp) -> dict[str, int]:
    """The sizes that ``--set NAME=VALUE`` gives, in the order of the graph's symbols.

    Raises PolycError: ``BadSize`` for text that is no size, ``UnknownSymbol``,
    ``MissingSize``, and ``AssumptionViolated`` with the fact that does not hold.
    """
    symbols = graph.symbol_names
    listed = ", ".join(symbols) or "none"
    values: dict[str, int] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not re.fullmatch(r"[+-]?\d{1,18}", text):
            raise PolycError(
                "BadSize", f"--set {setting} is not NAME=INTEGER; write --set M=512", graph
            )
        if name not in symbols:
            raise PolycError(
                "UnknownSymbol",
                f"--set {setting}: @{graph.sym_name.data} has no symbol {name!r}; it has {listed}",
                graph,
            )
        if name in values:
            raise PolycError(
                "BadSize", f"--set gives {name} twice, {values[name]} and {text}", graph
            )
        values[name] = int(text)
        if values[name] < 0:
            raise PolycError(
                "BadSize", f"--set {setting}: a size is 0 or more, {name} is {text}", graph
            )
    missing = [name for name in symbols if name not in values]
    if missing:
        flags = " ".join(f"--set {name}=VALUE" for name in missing)
        plural = "s" if len(missing) > 1 else ""
        raise PolycError(
            "MissingSize",
            f"@{graph.sym_name.data} needs a value for the symbol{plural} {', '.join(missing)}; "
            f"add {flags}",
            graph,
        )
    for fact in graph.facts:
        if not fact.holds(values):
            given = ", ".join(f"{name} = {values[name]}" for name in fact.expr.symbols())
            raise PolycError(
                "AssumptionViolated",
                f"@{graph.sym_name.data} assumes {fact}, which does not hold at {given}",
                graph,
            )
    return {name: values[name] for name in symbols}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="the program, textual IR of the frontend layer")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the value of a symbol, one for each (may be repeated)",
    )
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], help="where to run; the GPU when there is one"
    )
    parser.add_argument("--arch", help="sm_80 or sm_90a; without it both, or what the GPU runs")
    parser.add_argument(
        "--check", action="store_true", help="play back after every pass, not only every layer"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the random inputs")


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    raise PolycError("NotAvailable", "run is not there yet")
