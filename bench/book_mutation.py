"""How many mistakes in an index book its verifier and its playback catch.

Every mutant of the book of every graph of the examples, and of a graph with each movement; with
``--random`` of random programs too.  Prints the mutants that survive and a row a kind of mistake.

    python bench/book_mutation.py --output bench/results/book_mutation.json
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.playback import index as index_playback
from polyc.playback.agreement import tolerance_check
from polyc.playback.mutation.index import BookMutant, is_harmless, mutants, mutated
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import verify
from polyc.test.fuzz.random_programs import drawn
from polyc.tools.check import small_sizes
from polyc.tools.parsing import parse_text
from polyc.tools.play import estimated
from polyc.tools.registry import make_context

ROOT = Path(__file__).resolve().parent.parent

MOVEMENTS = """
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>, %w: !tiny.tensor<[4, N], f32>)
    -> (y: !tiny.tensor<[N], f32>, z: !tiny.tensor<[M, N], f32>, u: !tiny.tensor<[4, 2, 3], f32>,
        v: !tiny.tensor<[M + 1, N - 2, 3], f32>) assuming (M >= 4, N >= 5) {
  %p = tiny.pad %x low [2, 0] high [1, 0] value 0.5
      : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M + 3, N], f32>
  %s = tiny.slice %p [1:M + 3:2, 0:N]
      : !tiny.tensor<[M + 3, N], f32> -> !tiny.tensor<[(M + 3) floordiv 2, N], f32>
  %y = tiny.reduce max %s axes [0]
      : !tiny.tensor<[(M + 3) floordiv 2, N], f32> -> !tiny.tensor<[N], f32>
  %m = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0, d1 - d0 + 2 >= 0)> fill 2.0
      : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  %g = tiny.reshape %m : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M * N], f32>
  %h = tiny.unary exp %g : !tiny.tensor<[M * N], f32>
  %z = tiny.reshape %h : !tiny.tensor<[M * N], f32> -> !tiny.tensor<[M, N], f32>
  %c = tiny.slice %w [0:4, 0:3] : !tiny.tensor<[4, N], f32> -> !tiny.tensor<[4, 3], f32>
  %e = tiny.expand %c dims [1, 2] : !tiny.tensor<[4, 3], f32> -> !tiny.tensor<[2, 4, 3], f32>
  %t = tiny.permute %e perm [1, 0, 2] : !tiny.tensor<[2, 4, 3], f32> -> !tiny.tensor<[4, 2, 3], f32>
  %r = tiny.reshape %t : !tiny.tensor<[4, 2, 3], f32> -> !tiny.tensor<[24], f32>
  %u = tiny.reshape %r : !tiny.tensor<[24], f32> -> !tiny.tensor<[4, 2, 3], f32>
  %k = tiny.window %p axes [1] size [3] stride [1] dilation [1]
      : !tiny.tensor<[M + 3, N], f32> -> !tiny.tensor<[M + 3, N - 2, 3], f32>
  %v = tiny.slice %k [1:M + 2, 0:N - 2, 0:3]
      : !tiny.tensor<[M + 3, N - 2, 3], f32> -> !tiny.tensor<[M + 1, N - 2, 3], f32>
  tiny.output %y, %z, %u, %v : !tiny.tensor<[N], f32>, !tiny.tensor<[M, N], f32>,
      !tiny.tensor<[4, 2, 3], f32>, !tiny.tensor<[M + 1, N - 2, 3], f32>
}
"""
"""Every movement, and a maximum over a fill that is not its neutral value."""


@dataclass(frozen=True)
class Verdict:
    """Whether the verifier and whether the playback sees a mutant, each alone."""

    mutant: BookMutant
    by_verifier: bool
    by_playback: bool
    harmless: bool

    @property
    def caught(self) -> bool:
        return self.by_verifier or self.by_playback


def booked(module: ModuleOp) -> tiny.GraphOp:
    ctx = make_context()
    FrontendToTiny().apply(ctx, module)
    TinyToIndex().apply(ctx, module)
    graph = module.body.block.first_op
    assert isinstance(graph, tiny.GraphOp)
    return graph


def judged(graph: tiny.GraphOp, sizes: Mapping[str, int]) -> list[Verdict]:
    """A verdict for every mutant of the graph's book."""
    inputs = make_inputs(graph, sizes, 2)
    wanted = estimated(graph, inputs, sizes)
    assert wanted is not None
    kinds = [spec.type.element_type for spec in graph.outputs]

    def plays_wrong(copy: tiny.GraphOp) -> bool:
        try:
            found = index_playback.run(copy, inputs, sizes)
        except PolycError:
            return True
        rows = zip(found, wanted, kinds, strict=True)
        return any(tolerance_check(a, b, kind) is not None for a, b, kind in rows)

    def is_refused(copy: tiny.GraphOp) -> bool:
        try:
            verify(copy)
        except PolycError:
            return True
        return False

    found: list[Verdict] = []
    for mutant in mutants(graph):
        copy = mutated(graph, mutant)
        verifier, playback = is_refused(copy), plays_wrong(copy)
        harmless = not (verifier or playback) and is_harmless(graph, mutant)
        found.append(Verdict(mutant, verifier, playback, harmless))
    return found


def cases(count: int) -> list[tuple[str, tiny.GraphOp, Mapping[str, int]]]:
    """The graphs, booked, with sizes that no two axes share where that can be."""
    ctx = make_context()
    found: list[tuple[str, tiny.GraphOp, Mapping[str, int]]] = []
    for path in sorted((ROOT / "examples").glob("*.mlir")):
        graph = booked(parse_text(ctx, path.read_text(), str(path)))
        found.append((path.stem, graph, small_sizes(graph)))
    found.append(("movements", booked(parse_text(ctx, MOVEMENTS, "x")), {"M": 5, "N": 7}))
    for number in range(count):
        program = drawn(random.Random(f"mutation {number}"))
        sizes = {s: 5 + i for i, s in enumerate(program.sizes)}
        found.append((f"random {number}", booked(program.module), sizes))
    return found


COLUMNS = ("mutants", "verifier", "playback", "either", "harmless", "survived")

Counts = dict[str, list[int]]
"""For each kind of mistake how many there are in each of ``COLUMNS``."""


def counts_of(verdicts: Sequence[Verdict]) -> Counts:
    found: Counts = {}
    for v in verdicts:
        row = found.setdefault(v.mutant.kind, [0] * len(COLUMNS))
        survived = not v.caught and not v.harmless
        flags = (True, v.by_verifier, v.by_playback, v.caught, v.harmless, survived)
        for i, flag in enumerate(flags):
            row[i] += flag
    return dict(sorted(found.items()))


def table(graphs: Mapping[str, Counts]) -> list[str]:
    """A row of Markdown a kind of mistake, summed over the graphs, then the sum of all."""
    total: Counts = {}
    for counts in graphs.values():
        for kind, row in counts.items():
            have = total.get(kind, [0] * len(COLUMNS))
            total[kind] = [a + b for a, b in zip(have, row, strict=True)]
    rows = sorted(total.items())
    rows.append(("all", [sum(column) for column in zip(*total.values(), strict=True)]))
    lines = [f"| mistake | {' | '.join(COLUMNS)} |", "|---" * (1 + len(COLUMNS)) + "|"]
    return lines + [f"| {kind} | {' | '.join(map(str, row))} |" for kind, row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--random", type=int, default=0, help="random programs beside the others")
    parser.add_argument("--output", help="a JSON file for the counts")
    args = parser.parse_args()
    start = time.perf_counter()
    graphs: dict[str, Counts] = {}
    for name, graph, sizes in cases(args.random):
        found = judged(graph, sizes)
        graphs[name] = counts_of(found)
        for v in found:
            if not v.caught and not v.harmless:
                print(f"    {name}, {v.mutant}", flush=True)
    lines = table(graphs)
    print("\n".join(lines))
    _, *last = (cell.strip() for cell in lines[-1].strip("|").split("|"))
    every, _, _, caught, harmless, _ = map(int, last)
    print(
        f"{100 * caught / (every - harmless):.1f} % of those that are not harmless, "
        f"{time.perf_counter() - start:.0f} s"
    )
    if args.output is not None:
        Path(args.output).write_text(json.dumps(graphs, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
