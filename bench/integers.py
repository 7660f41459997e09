"""Time reductions of rows of integers beside a copy of the same bytes and torch.compile.

``bench/race.py`` says how it is timed.  Each graph is compiled for its sizes, and with ``--open``
for open ones too.  Before it is timed, each result is held against PyTorch's, to the bit.

    python bench/integers.py [--ops sum max] [--types i32] [--shapes 16384x4096] [--budget 220]
    python bench/integers.py --dry          # variants, no GPU

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from polyc.bench import race
from polyc.bench.norms import Shape, parse_shape
from polyc.bench.race import Contestant
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"
TYPES = {"i8": (1, "int8"), "ui8": (1, "uint8"), "i32": (4, "int32"), "i64": (8, "int64")}
"""Bytes of an element, and PyTorch's name of the type."""

SHAPES: tuple[Shape, ...] = ((16384, 4096), (131072, 512), (512, 131072))
"""Rows, and elements of one."""


@dataclass(frozen=True)
class Case:
    """A graph over rows of X of type T, its peer in PyTorch, and what it gives: a number a row of
    its own type, a condition a row, or rows."""

    body: str
    peer: Callable[[Any, Any], Any]
    result: str
    output: str


CASES = {
    "sum": Case(
        "  %y = frontend.reduce sum %X axes [1] : {x} -> {y}",
        lambda torch, x: x.sum(1, dtype=x.dtype),
        "[{rows}]",
        "{kind}",
    ),
    "max": Case(
        "  %y = frontend.reduce max %X axes [1] : {x} -> {y}",
        lambda torch, x: x.amax(1),
        "[{rows}]",
        "{kind}",
    ),
    "any": Case(
        "  %z = frontend.constant 100 : !frontend.tensor<[], {kind}>\n"
        "  %c = frontend.compare gt %X, %z : ({x}, !frontend.tensor<[], {kind}>) -> {c}\n"
        "  %y = frontend.reduce any %c axes [1] : {c} -> {y}",
        lambda torch, x: (x > 100).any(1),
        "[{rows}]",
        "i1",
    ),
    "centred": Case(
        "  %m = frontend.reduce max %X axes [1] keepdims : {x} -> {k}\n"
        "  %y = frontend.elementwise sub %X, %m : ({x}, {k}) -> {x}",
        lambda torch, x: x - x.amax(1, keepdim=True),
        "[{rows}, {columns}]",
        "{kind}",
    ),
}
"""What is timed, by name."""


def text_of(op: str, rows: str, columns: str, kind: str) -> str:
    """The graph of these sizes and this type."""
    case, names = CASES[op], {"rows": rows, "columns": columns, "kind": kind}
    tensor = "!frontend.tensor<{}, {}>"
    x = tensor.format(f"[{rows}, {columns}]", kind)
    y = tensor.format(case.result.format(**names), case.output.format(**names))
    c = tensor.format(f"[{rows}, {columns}]", "i1")
    k = tensor.format(f"[{rows}, 1]", kind)
    body = case.body.format(x=x, y=y, c=c, k=k, **names)
    return (
        f"frontend.graph @integers(%X: {x}) -> (Y: {y}) {{\n{body}\n"
        f"  frontend.output %y : {y}\n}}\n"
    )


def programs(op: str, shape: Shape, kind: str, args: argparse.Namespace) -> list[Any]:
    """The graph of known sizes, and the one of open ones."""
    rows, columns = map(str, shape)
    found: list[tuple[str, Program, dict[str, int]]] = [
        ("polyc", load(text_of(op, rows, columns, kind), ARCH), {})
    ]
    if args.open:
        sizes = dict(zip("MN", shape, strict=True))
        found.append(("polyc open", load(text_of(op, "M", "N", kind), ARCH), sizes))
    return found


def raced(torch: Any, op: str, shape: Shape, kind: str, args: argparse.Namespace) -> list[Any]:
    """The rows of the report for one graph, shape and type."""
    case, (size, name) = CASES[op], TYPES[kind]
    dtype, whole = getattr(torch, name), shape[0] * shape[1] * size
    moved = whole * (2 if op == "centred" else 1)
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    copies = max(2, race.copies_for(moved, cache))
    # Few elements are above 100, so that some rows have one and others none.
    given = [
        torch.randint(0, 101 if op == "any" else 127, shape, device="cuda").to(dtype)
        for _ in range(copies)
    ]
    for x in given:
        x[:: max(1, shape[0] // 8), shape[1] - 1] = 101
    half = torch.empty(moved // 2, device="cuda", dtype=torch.uint8)
    spare = torch.empty_like(half)

    def peer(x: Any) -> Any:
        return case.peer(torch, x)

    wanted = peer(given[0])
    racers = [Contestant("copy", lambda i: spare.copy_(half))]
    errors: dict[str, float] = {}
    for label, program, sizes in programs(op, shape, kind, args):
        outs = [torch.empty_like(wanted) for _ in range(copies)]
        chosen = program.chosen(sizes) or "several kernels"
        pairs = zip(given, outs, strict=True)
        run = race.in_turns(torch, [program.launch([x], [out], sizes) for x, out in pairs])
        run(0)
        torch.cuda.synchronize()
        errors[f"{label} {chosen}"] = 2.0 * (outs[0] != wanted).sum().item()
        racers.append(Contestant(f"{label} {chosen}", run, False, {"chosen": label == "polyc"}))
    racers.append(Contestant("eager", lambda n: peer(given[n % copies])))
    if not args.no_compile:
        torch.compiler.reset()
        theirs = torch.compile(peer, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(given[0])
        racers.append(Contestant("torch.compile", lambda n: theirs(given[n % copies])))
    race.measure(torch, racers, args.rounds, copies)
    what = f"{op} {kind} {shape[0]}x{shape[1]}"
    found = race.result_rows(what, racers, moved, "TB/s", errors)
    race.print_rows(found)
    return found


def dry(args: argparse.Namespace) -> int:
    """Which variants."""
    for op in args.ops:
        for shape in args.shapes:
            for kind in args.types:
                program = load(text_of(op, str(shape[0]), str(shape[1]), kind), ARCH)
                print(f"{op} {kind} {shape[0]}x{shape[1]}: {', '.join(program.variants)}")
    return 0


def timed(
    args: argparse.Namespace, torch: Any
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """The name of each case, and what times it."""
    for op in args.ops:
        for shape in args.shapes:
            for kind in args.types:
                name = f"{op} {kind} {shape[0]}x{shape[1]}"
                yield name, partial(raced, torch, op, shape, kind, args)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time reductions of rows of integers.")
    parser.add_argument("--ops", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--shapes", nargs="+", type=parse_shape, default=list(SHAPES))
    parser.add_argument("--open", action="store_true", help="time graphs of open sizes too")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=220, help="seconds to begin cases in")
    parser.add_argument("--dry", action="store_true", help="variants alone, no GPU")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results", help="folder, or - for none")
    args = parser.parse_args(argv)
    if args.dry:
        return dry(args)
    return race.over_cases("integers", "integers", partial(timed, args), args)


if __name__ == "__main__":
    sys.exit(main())
