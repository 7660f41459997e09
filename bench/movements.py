"""Time copies that turn axes beside PyTorch's ``contiguous``, and beside what memory gives.

``bench/graphs.py`` says how it is timed.  Each is a graph of one ``permute`` at sizes that models
have; TB/s count what is read and written once.

    python bench/movements.py [--names heads nhwc] [--dtype f16]

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32

from polyc.bench import graphs, race
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.test.support.sketch import Sketch

KINDS = {"f16": (f16, 2), "bf16": (bf16, 2), "f32": (f32, 4)}
"""Elements and their bytes."""
MOVEMENTS: Mapping[str, tuple[Sequence[int | str], Sequence[int]]] = {
    "transposed": (("M", "N"), (1, 0)),
    "nhwc": (("N", 256, "H", "W"), (0, 2, 3, 1)),
    "nchw": (("N", "H", "W", 256), (0, 3, 1, 2)),
    "batch": (("B", "M", 128), (0, 2, 1)),
    "heads": (("T", 32, 128), (1, 0, 2)),
    "first_channels": (("N", 3, 224, 224), (0, 2, 3, 1)),
    "pairs": (("M", 4096, 2), (1, 0, 2)),
    "rows_of_two": (("R", 2), (1, 0)),
    "rows_of_three": (("R", 3), (1, 0)),
    "threes": (("M", 2048, 3), (1, 0, 2)),
    "planes": (("P", 4, 32), (0, 2, 1)),
    "short_heads": (("P", 16, 8), (0, 2, 1)),
    "reversed": ((16, 8, 16, 16, 32, 32), (5, 4, 3, 2, 1, 0)),
}
"""Shapes, and the order that their axes take."""
SIZES = {"M": 4096, "N": 4096, "B": 32, "H": 56, "W": 56, "T": 16384, "R": 1 << 23, "P": 1 << 18}


def module(name: str, kind: Any) -> ModuleOp:
    """The graph of a movement."""
    shape, order = MOVEMENTS[name]
    s = Sketch(name, kind)
    return s.done(y=s.permute(s.input("x", *shape), *order))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time copies that turn axes.")
    parser.add_argument("--names", nargs="+", choices=MOVEMENTS, default=list(MOVEMENTS))
    parser.add_argument("--dtype", choices=KINDS, default="f16")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results")
    options = parser.parse_args(argv)
    torch = race.load_torch("bench/movements.py")
    rows: list[dict[str, Any]] = []
    wrong = False
    for name in options.names:
        kind, size = KINDS[options.dtype]
        made = module(name, kind)
        sizes = SIZES | {"N": 32 if len(MOVEMENTS[name][0]) == 4 else SIZES["N"]}
        graph = next(op for op in made.ops if isinstance(op, GraphOp))
        moved = 2 * size
        for d in tensor_of(graph.body.block.args[0]).dims:
            moved *= d.evaluate(sizes)
        with torch.no_grad():
            raced = graphs.raced(torch, name, made, sizes, options.rounds, "default", moved)
        wrong |= any((row["error_of_tolerance"] or 0) > 1 for row in raced)
        rows += raced
    report = {**race.surroundings(torch, options.rounds, options.commit), "rows": rows}
    print(race.write_report(f"movements-{options.dtype}", report, options.out))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
