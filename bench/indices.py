"""Time gathers and scatters of rows beside a copy of the same bytes and torch.compile.

``bench/race.py`` says how it is timed.  Each graph is compiled for its sizes, and with ``--open``
for open ones too.  Indices are random, so that several are alike; with ``--spread power`` row n as
often as 1/n, with ``one`` all of one row.  Before it is timed, each result
is held against PyTorch's, computed in f64.

    python bench/indices.py [--ops embedding scatter_add] [--budget 220]
    python bench/indices.py --cases scatter_add:16384x16384x4096 --types f32
    python bench/indices.py --dry          # modelled times, no GPU

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
from polyc.bench.graphs import kernel_times
from polyc.bench.race import Contestant
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"
TYPES = {"f16": (2, "float16"), "bf16": (2, "bfloat16"), "f32": (4, "float32")}
"""Bytes of an element, and PyTorch's name of the type."""

Shape = tuple[int, int, int]
"""Rows of the table, rows that are read or written, and columns."""


@dataclass(frozen=True)
class Case:
    """A graph over a table X, indices I and rows U, and its peer in PyTorch, which gives a new
    tensor.  ``rows`` are the rows of X, and of U, that are moved, each counted as often."""

    body: str
    peer: Callable[[Any, Any, Any, Any], Any]
    takes: bool
    rows: Callable[[Shape], int]
    shapes: tuple[Shape, ...]


def _text(case: Case, shape: Sequence[str], kind: str) -> str:
    table, count, columns = shape
    t = "!frontend.tensor<[{}], {}>"
    x, i = t.format(f"{table}, {columns}", kind), t.format(count, "i64")
    u = t.format(f"{count}, {columns}", kind)
    result = x if case.takes else u
    inputs = f"%x: {x}, %i: {i}" + (f", %u: {u}" if case.takes else "")
    body = case.body.format(x=x, i=i, u=u, y=result, w=t.format(columns, kind))
    return (
        f"frontend.graph @indices({inputs}) -> (Y: {result}) {{\n{body}\n"
        f"  frontend.output %y : {result}\n}}\n"
    )


def _scatter(fn: str, peer: Callable[[Any, Any, Any, Any], Any]) -> Case:
    return Case(
        f"  %y = frontend.scatter {fn} %x, %i, %u axis 0 : ({{x}}, {{i}}, {{u}}) -> {{y}}",
        peer,
        True,
        lambda s: 2 * s[0] + s[1],
        ((16384, 16384, 4096), (50000, 8192, 2048), (4096, 65536, 1024), (262144, 65536, 128)),
    )


CASES = {
    "embedding": Case(
        "  %y = frontend.gather %x, %i axis 0 clamp : ({x}, {i}) -> {y}",
        lambda torch, x, i, u: torch.nn.functional.embedding(i, x),
        False,
        lambda s: 2 * s[1],
        (
            (50000, 16384, 4096),
            (50000, 65536, 1024),
            (1 << 20, 262144, 128),
            (1 << 20, 1 << 20, 32),
        ),
    ),
    "embedding_norm": Case(
        "  %e = frontend.gather %x, %i axis 0 clamp : ({x}, {i}) -> {y}\n"
        "  %y = frontend.rms_norm %e axes [1] eps 1.0e-05 : {y}",
        lambda torch, x, i, u: torch.nn.functional.rms_norm(
            torch.nn.functional.embedding(i, x), x.shape[1:], None, 1e-5
        ),
        False,
        lambda s: 2 * s[1],
        ((50000, 16384, 4096), (50000, 65536, 1024)),
    ),
    "scatter_add": _scatter("add", lambda torch, x, i, u: x.index_add(0, i, u)),
    "scatter_set": _scatter("set", lambda torch, x, i, u: x.index_copy(0, i, u)),
}
"""What is timed, by name."""


def _power(torch: Any, table: int, count: int) -> Any:
    """Row n as often as 1/n, in no order."""
    weights = torch.arange(1, table + 1, device="cuda", dtype=torch.float64).reciprocal()
    ends = weights.cumsum(0)
    drawn = torch.rand(count, device="cuda", dtype=torch.float64) * ends[-1]
    return torch.searchsorted(ends, drawn).clamp(max=table - 1)


SPREADS: dict[str, Callable[[Any, int, int], Any]] = {
    "even": lambda torch, table, count: torch.randint(0, table, (count,), device="cuda"),
    "power": _power,
    "one": lambda torch, table, count: torch.full((count,), table // 2, device="cuda"),
}
"""How indices fall to the rows of a table, by name."""


def parse_case(text: str) -> tuple[str, Shape]:
    """``embedding:50000x16384x4096`` are 16384 rows of 4096 of a table of 50000."""
    op, _, shape = text.partition(":")
    sizes = tuple(int(n) for n in shape.split("x"))
    if op not in CASES or len(sizes) != 3:
        raise argparse.ArgumentTypeError(f"{text} is no case; as embedding:50000x16384x4096")
    return op, (sizes[0], sizes[1], sizes[2])


def programs(op: str, shape: Shape, kind: str, args: argparse.Namespace) -> list[Any]:
    """The graph of known sizes, and the one of open ones."""
    found: list[tuple[str, Program, dict[str, int]]] = [
        ("polyc", load(_text(CASES[op], list(map(str, shape)), kind), ARCH), {})
    ]
    if args.open:
        sizes = dict(zip("VND", shape, strict=True))
        found.append(("polyc open", load(_text(CASES[op], "VND", kind), ARCH), sizes))
    return found


def raced(torch: Any, op: str, shape: Shape, kind: str, args: argparse.Namespace) -> list[Any]:
    """The rows of the report for one graph, shape and type."""
    case, (size, name) = CASES[op], TYPES[kind]
    table, count, columns = shape
    dtype = getattr(torch, name)
    moved = case.rows(shape) * columns * size
    copies = max(
        2, min(race.copies_for(moved, torch.cuda.get_device_properties(0).L2_cache_size), 4)
    )
    tables = [torch.randn(table, columns, device="cuda", dtype=dtype) for _ in range(copies)]
    # Distinct where the last of several would be left to chance in PyTorch.
    distinct = op == "scatter_set" and count <= table and args.spread == "even"
    indices = [
        torch.randperm(table, device="cuda")[:count]
        if distinct
        else SPREADS[args.spread](torch, table, count)
        for _ in range(copies)
    ]
    rows = [torch.randn(count, columns, device="cuda", dtype=dtype) for _ in range(copies)]
    half = torch.empty(moved // 2, device="cuda", dtype=torch.uint8)
    spare = torch.empty_like(half)

    def peer(x: Any, i: Any, u: Any) -> Any:
        return case.peer(torch, x, i, u)

    wanted = peer(tables[0].double(), indices[0], rows[0].double())
    shape_out = wanted.shape
    racers = [Contestant("copy", lambda i: spare.copy_(half))]
    errors: dict[str, float] = {}
    for label, program, sizes in programs(op, shape, kind, args):
        outs = [torch.empty(shape_out, device="cuda", dtype=dtype) for _ in range(copies)]
        chosen = program.chosen(sizes) or "several kernels"
        launches: list[Any] = []
        for x, i, u, out in zip(tables, indices, rows, outs, strict=True):
            given = [x, i, u] if case.takes else [x, i]
            launches.append(program.launch(given, [out], sizes))
        run = race.in_turns(torch, launches)
        run(0)
        torch.cuda.synchronize()
        if not (op == "scatter_set" and not distinct):
            scale = wanted.abs().max()
            errors[f"{label} {chosen}"] = float(
                ((outs[0].double() - wanted).abs().max() / scale).item()
            )
        racers.append(Contestant(f"{label} {chosen}", run, False, {"chosen": label == "polyc"}))
    del wanted
    racers.append(
        Contestant(
            "eager", lambda n: peer(tables[n % copies], indices[n % copies], rows[n % copies])
        )
    )
    if not args.no_compile:
        torch.compiler.reset()
        theirs = torch.compile(peer, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(tables[0], indices[0], rows[0])
        racers.append(
            Contestant(
                "torch.compile",
                lambda n: theirs(tables[n % copies], indices[n % copies], rows[n % copies]),
            )
        )
    race.measure(torch, racers, args.rounds, copies)
    for racer in racers if args.kernels else ():
        if not racer.peer:
            with race.alone():
                print(f"  {racer.name}: {kernel_times(torch, racer.run, copies)}")
    what = f"{op} {kind} {table}x{count}x{columns}"
    if args.spread != "even":
        what += f" {args.spread}"
    found = race.result_rows(what, racers, moved, "TB/s", errors)
    race.print_rows(found)
    return found


def dry(args: argparse.Namespace) -> int:
    """How long by the model."""
    from polyc.cost.time import times_of
    from polyc.passes.pipeline import ORDER, build
    from polyc.tools.parsing import parse_text
    from polyc.tools.registry import make_context

    for op in args.ops:
        for shape in CASES[op].shapes:
            for kind in args.types:
                context = make_context()
                text = _text(CASES[op], list(map(str, shape)), kind)
                module = parse_text(context, text, f"{op}.mlir")
                for name in ORDER[: ORDER.index("plan-select") + 1]:
                    build(name, ARCH).apply(context, module)
                every = ", ".join(
                    f"{t.variant} {t.seconds * 1e6:.1f} us" for t in times_of(module, {})
                )
                print(f"{op} {kind} {'x'.join(map(str, shape))}: {every}")
    return 0


def timed(
    args: argparse.Namespace, torch: Any
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """The name of each case, and what times it."""
    for op in args.ops:
        for shape in [s for name, s in args.cases or () if name == op] or CASES[op].shapes:
            for kind in args.types:
                name = f"{op} {kind} {'x'.join(map(str, shape))}"
                yield name, partial(raced, torch, op, shape, kind, args)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time gathers and scatters of rows.")
    parser.add_argument("--ops", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--cases", nargs="+", type=parse_case, metavar="OP:TABLExROWSxCOLUMNS")
    parser.add_argument("--types", nargs="+", choices=TYPES, default=["f16", "f32"])
    parser.add_argument("--spread", choices=SPREADS, default="even", help="how indices fall")
    parser.add_argument("--open", action="store_true", help="time graphs of open sizes too")
    parser.add_argument("--kernels", action="store_true", help="tell the time of each kernel")
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
    return race.over_cases("indices", "indices", partial(timed, args), args)


if __name__ == "__main__":
    sys.exit(main())
