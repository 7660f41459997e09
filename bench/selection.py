"""Time argmax, topk and sorts of rows beside a copy and torch.compile.

``bench/race.py`` says how it is timed.  Each graph is compiled for its sizes, and with ``--open``
for open rows too.  Before it is timed, each result is held against PyTorch's values, which have no
rounding, and each place against the element that stands there.

    python bench/selection.py [--ops argmax topk8 topk64 sort] [--budget 220]
    python bench/selection.py --cases topk64:4096x32768 sort:4096x4096 --types f32
    python bench/selection.py --dry          # variants and modelled times, no GPU

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from polyc.bench import race
from polyc.bench.norms import Shape, parse_shape
from polyc.bench.race import Contestant
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"
TYPES = {"f16": (2, "float16"), "bf16": (2, "bfloat16"), "f32": (4, "float32")}
"""Bytes of an element, and PyTorch's name of the type."""


@dataclass(frozen=True)
class Case:
    """A graph over rows of X, its peer in PyTorch, and the shapes that it is timed at.

    ``text`` makes the graph of the sizes and the type.  ``peer`` gives places, or values and
    places.
    """

    text: Callable[[str, str, str], str]
    peer: Callable[[Any, Any], Any]
    shapes: tuple[Shape, ...]


def _argmax(rows: str, columns: str, kind: str) -> str:
    x, y = f"!frontend.tensor<[{rows}, {columns}], {kind}>", f"!frontend.tensor<[{rows}], i64>"
    return (
        f"frontend.graph @argmax(%x: {x}) -> {y} {{\n"
        f"  %p = frontend.arg_reduce max %x axis 1 : {x} -> {y}\n"
        f"  frontend.output %p : {y}\n}}\n"
    )


def _ordered(first: int | None, descending: bool) -> Callable[[str, str, str], str]:
    def text(rows: str, columns: str, kind: str) -> str:
        x = f"!frontend.tensor<[{rows}, {columns}], {kind}>"
        count = columns if first is None else first
        v, p = (f"!frontend.tensor<[{rows}, {count}], {t}>" for t in (kind, "i64"))
        facts = "" if first is None or columns.isdigit() else f" assuming ({columns} >= {first})"
        turned = "descending " if descending else ""
        return (
            f"frontend.graph @ordered(%x: {x}) -> ({v}, {p}){facts} {{\n"
            f"  %v, %p = frontend.sort %x axis 1 {turned}: ({x}) -> ({v}, {p})\n"
            f"  frontend.output %v, %p : {v}, {p}\n}}\n"
        )

    return text


def _topk(count: int) -> Case:
    def peer(torch: Any, x: Any) -> Any:
        return torch.topk(x, count, 1)

    return Case(_ordered(count, True), peer, ((4096, 32768), (65536, 512), (64, 1 << 20)))


CASES = {
    "argmax": Case(
        _argmax,
        lambda torch, x: torch.argmax(x, 1),
        ((4096, 32768), (65536, 512), (64, 1 << 20), (1 << 20, 64)),
    ),
    "topk8": _topk(8),
    "topk64": _topk(64),
    "sort": Case(
        _ordered(None, False),
        lambda torch, x: torch.sort(x, dim=1, stable=True),
        ((65536, 256), (8192, 4096), (1024, 16384), (16, 65536)),
    ),
}
"""What is timed, by name."""


def parse_case(text: str) -> tuple[str, Shape]:
    """``topk8:4096x32768`` are the 8 largest of each of 4096 rows of 32768."""
    op, _, shape = text.partition(":")
    if op not in CASES:
        raise argparse.ArgumentTypeError(f"{op} is none of {', '.join(CASES)}")
    return op, parse_shape(shape)


def shapes_of(op: str, args: argparse.Namespace) -> Iterator[Shape]:
    """The shapes at which a graph is to be timed."""
    if args.cases:
        yield from (shape for name, shape in args.cases if name == op)
    else:
        yield from CASES[op].shapes


def programs(
    op: str, shape: Shape, kind: str, args: argparse.Namespace
) -> Iterator[tuple[str, Program, dict[str, int]]]:
    """The graph of known sizes, and the one of open ones."""
    rows, columns = map(str, shape)
    yield "polyc", load(CASES[op].text(rows, columns, kind), ARCH), {}
    if args.open:
        sizes = {"M": shape[0], "N": shape[1]}
        yield "polyc open", load(CASES[op].text("M", "N", kind), ARCH), sizes


def wrong(torch: Any, x: Any, found: Sequence[Any], wanted: Any) -> float:
    """0 where places and values are right, infinity elsewhere; ties may be PyTorch's either way."""
    places = found[-1].reshape(x.shape[0], -1)
    values = torch.gather(x, 1, wanted.reshape(-1, 1)) if len(found) == 1 else wanted[0]
    right = [bool(torch.equal(torch.gather(x, 1, places), values))]
    if len(found) > 1:
        again = torch.sort(places, 1)[0]
        twice = torch.count_nonzero(again[:, 1:] == again[:, :-1]).item()
        right += [bool(torch.equal(found[0], values)), twice == 0]
    return 0.0 if all(right) else float("inf")


def raced(torch: Any, op: str, shape: Shape, kind: str, args: argparse.Namespace) -> list[Any]:
    """The rows of the report for one graph, shape and type."""
    case, (size, name) = CASES[op], TYPES[kind]
    rows, columns = shape
    count = rows * columns
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    copies = max(2, min(race.copies_for(size * count, l2), 4))
    dtype = getattr(torch, name)
    sets = [torch.randn(rows, columns, device="cuda", dtype=dtype) for _ in range(copies)]
    spare = torch.empty_like(sets[0])
    wanted = case.peer(torch, sets[0])

    def peer(x: Any) -> Any:
        return case.peer(torch, x)

    racers = [Contestant("copy", lambda i: spare.copy_(sets[i % copies]))]
    errors: dict[str, float] = {}
    for label, program, sizes in programs(op, shape, kind, args):
        outs: list[list[Any]] = []
        for _ in range(copies):
            places = torch.empty_like(wanted if op == "argmax" else wanted[1])
            outs.append([places] if op == "argmax" else [torch.empty_like(wanted[0]), places])
        chosen = program.chosen(sizes)
        assert chosen is not None, "the last variant takes every size"
        pairs = zip(sets, outs, strict=True)
        run = race.in_turns(torch, [program.launch([x], o, sizes, chosen) for x, o in pairs])
        run(0)
        torch.cuda.synchronize()
        errors[f"{label} {chosen}"] = wrong(torch, sets[0], outs[0], wanted)
        racers.append(Contestant(f"{label} {chosen}", run, False, {"chosen": label == "polyc"}))
    racers.append(Contestant("eager", lambda i: peer(sets[i % copies])))
    if not args.no_compile:
        torch.compiler.reset()
        theirs = torch.compile(peer, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(sets[0])
        racers.append(Contestant("torch.compile", lambda i: theirs(sets[i % copies])))
    race.measure(torch, racers, args.rounds, copies)
    found = race.result_rows(f"{op} {kind} {rows}x{columns}", racers, size * count, "TB/s", errors)
    race.print_rows(found)
    return found


def dry(args: argparse.Namespace) -> int:
    """What would run, and how long by the model."""
    from polyc.cost.time import times_of
    from polyc.passes.pipeline import ORDER, build
    from polyc.tools.parsing import parse_text
    from polyc.tools.registry import make_context

    for op in args.ops:
        for shape in shapes_of(op, args):
            for kind in args.types:
                context = make_context()
                text = CASES[op].text(str(shape[0]), str(shape[1]), kind)
                module = parse_text(context, text, f"{op}.mlir")
                for name in ORDER[: ORDER.index("plan-select") + 1]:
                    build(name, ARCH).apply(context, module)
                sizes: Mapping[str, int] = {}
                found = times_of(module, sizes)
                every = ", ".join(f"{t.variant} {t.seconds * 1e6:.1f} us" for t in found)
                print(f"{op} {kind} {shape[0]}x{shape[1]}: {every}")
    return 0


def timed(
    args: argparse.Namespace, torch: Any
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """The name of each case, and what times it."""
    for op in args.ops:
        for shape in shapes_of(op, args):
            for kind in args.types:
                name = f"{op} {kind} {shape[0]}x{shape[1]}"
                yield name, partial(raced, torch, op, shape, kind, args)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time argmax, topk and sorts of rows.")
    parser.add_argument("--ops", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--cases", nargs="+", type=parse_case, metavar="OP:ROWSxCOLUMNS")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=["f16", "f32"])
    parser.add_argument("--open", action="store_true", help="time graphs of open sizes too")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=220, help="seconds to begin cases in")
    parser.add_argument("--dry", action="store_true", help="the model's times alone, no GPU")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results", help="folder, or - for none")
    args = parser.parse_args(argv)
    if args.cases:
        args.ops = list(dict.fromkeys(op for op, _ in args.cases))
    if args.dry:
        return dry(args)
    return race.over_cases("selection", "selection", partial(timed, args), args)


if __name__ == "__main__":
    sys.exit(main())
