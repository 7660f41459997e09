"""Time graphs that reduce rows, columns and whole tensors beside a copy and torch.compile.

``bench/race.py`` says how it is timed.  Each graph has open sizes and is compiled once; the tensor
has the same bytes at each length, 64 MB at least.  Of each case the variant that runs is timed,
with the next ones of the dispatch that take the shape, so that what a condition chooses is seen.

    python bench/reductions.py [--ops softmax] [--lengths 64 4096] [--variants 3] [--budget 220]
    python bench/reductions.py --cases softmax:65536x512 column_max:32x1048576 --compile --known
    python bench/reductions.py --dry          # variants and modelled times, no GPU

``--known`` times the graph with its sizes written in it beside the one of open sizes.

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from polyc.bench import race
from polyc.bench.norms import Shape, parse_shape
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"
LENGTHS = (64, 200, 1024, 2056, 4096, 5000, 8192, 16384, 32768, 65536, 131072, 524288, 1 << 20)
COMPILED = (4096, 32768)
"""Lengths at which torch.compile is timed too: it takes seconds for each."""
MIDDLE = 512
"""Points of the axis that a middle reduction runs along."""


@dataclass(frozen=True)
class Case:
    """A graph over ``X``, its other inputs, its peer in PyTorch, and what it moves.

    ``text`` has T for a tensor's type; ``others`` are the shapes of the other inputs, ``out`` that
    of the output, in M and N.  ``passes`` counts how often the bytes of X are moved at least.
    ``peer`` takes ``torch.nn.functional`` and the inputs.
    """

    text: str
    peer: Callable[[Any, Sequence[Any]], Any]
    out: Callable[[Mapping[str, int]], tuple[int, ...]]
    passes: float
    others: tuple[str, ...] = ()
    whole: Callable[[Mapping[str, int]], tuple[int, ...]] = lambda s: (s["M"], s["N"])


def _graph(name: str, inputs: str, body: str, output: str, result: str = "[M, N]") -> str:
    text = f"frontend.graph @{name}({inputs}) -> (Y: T<{result}, f16>) {{\n{body}\n"
    text += f"  frontend.output {output} : T<{result}, f16>\n}}\n"
    return text.replace("T<", "!frontend.tensor<")


_MN, _N = "T<[M, N], f16>", "T<[N], f16>"
_X = f"%X: {_MN}"


def _reduced(name: str, shape: str, axes: str, result: str) -> str:
    body = f"  %y = frontend.reduce sum %X axes {axes} : T<{shape}, f16> -> T<{result}, f16>"
    return _graph(name, f"%X: T<{shape}, f16>", body, "%y", result)


def _variance(shape: str, axes: str, kept: str, result: str) -> str:
    """``%y``, the mean of the squared distances of ``%X`` from its mean over ``axes``.  ``kept`` is
    the shape of the mean with these axes of size 1, ``result`` without them."""
    whole, mean = f"T<{shape}, f16>", f"T<{kept}, f16>"
    return (
        f"  %m = frontend.reduce mean %X axes {axes} keepdims : {whole} -> {mean}\n"
        f"  %d = frontend.elementwise sub %X, %m : ({whole}, {mean}) -> {whole}\n"
        f"  %s = frontend.elementwise mul %d, %d : ({whole}, {whole}) -> {whole}\n"
        f"  %y = frontend.reduce mean %s axes {axes} : {whole} -> T<{result}, f16>"
    )


def _same(sizes: Mapping[str, int]) -> tuple[int, ...]:
    return sizes["M"], sizes["N"]


CASES = {
    "softmax": Case(
        _graph("softmax", _X, f"  %y = frontend.softmax %X axes [1] : {_MN}", "%y"),
        lambda f, t: f.softmax(t[0], 1),
        _same,
        2,
    ),
    "layer_norm": Case(
        _graph(
            "layer_norm",
            f"{_X}, %g: {_N}, %b: {_N}",
            "  %y = frontend.layer_norm %X weight %g bias %b axes [1] eps 1.0e-05 : "
            f"({_MN}, {_N}, {_N}) -> {_MN}",
            "%y",
        ),
        lambda f, t: f.layer_norm(t[0], t[0].shape[1:], t[1], t[2], 1e-5),
        _same,
        2,
        ("N", "N"),
    ),
    "rms_norm": Case(
        _graph(
            "rms_norm",
            f"{_X}, %g: {_N}",
            f"  %y = frontend.rms_norm %X weight %g axes [1] eps 1.0e-05 : ({_MN}, {_N}) -> {_MN}",
            "%y",
        ),
        lambda f, t: f.rms_norm(t[0], t[0].shape[1:], t[1], 1e-5),
        _same,
        2,
        ("N",),
    ),
    "residual_rms_norm": Case(
        _graph(
            "residual_rms_norm",
            f"{_X}, %R: {_MN}, %g: {_N}",
            f"  %s = frontend.elementwise add %X, %R : ({_MN}, {_MN}) -> {_MN}\n"
            f"  %y = frontend.rms_norm %s weight %g axes [1] eps 1.0e-05 : ({_MN}, {_N}) -> {_MN}",
            "%y",
        ),
        lambda f, t: f.rms_norm(t[0] + t[1], t[0].shape[1:], t[2], 1e-5),
        _same,
        3,
        ("MN", "N"),
    ),
    "gelu_times": Case(
        _graph(
            "gelu_times",
            f"{_X}, %R: {_MN}",
            f"  %s = frontend.elementwise gelu %X : {_MN}\n"
            f"  %y = frontend.elementwise mul %s, %R : ({_MN}, {_MN}) -> {_MN}",
            "%y",
        ),
        lambda f, t: f.gelu(t[0]) * t[1],
        _same,
        3,
        ("MN",),
    ),
    "row_sum": Case(
        _reduced("row_sum", "[M, N]", "[1]", "[M]"),
        lambda f, t: t[0].sum(1),
        lambda s: (s["M"],),
        1,
    ),
    "column_sum": Case(
        _reduced("column_sum", "[M, N]", "[0]", "[N]"),
        lambda f, t: t[0].sum(0),
        lambda s: (s["N"],),
        1,
    ),
    "middle_sum": Case(
        _reduced("middle_sum", f"[M, {MIDDLE}, N]", "[1]", "[M, N]"),
        lambda f, t: t[0].sum(1),
        _same,
        1,
        whole=lambda s: (s["M"], MIDDLE, s["N"]),
    ),
    "column_max": Case(
        _reduced("column_max", "[M, N]", "[0]", "[N]").replace("reduce sum", "reduce max"),
        lambda f, t: t[0].amax(0),
        lambda s: (s["N"],),
        1,
    ),
    "channel_mean": Case(
        _reduced("channel_mean", "[M, 64, N]", "[0, 2]", "[64]").replace(
            "reduce sum", "reduce mean"
        ),
        lambda f, t: t[0].mean((0, 2)),
        lambda s: (64,),
        1,
        whole=lambda s: (s["M"], 64, s["N"]),
    ),
    "column_softmax": Case(
        _graph("column_softmax", _X, f"  %y = frontend.softmax %X axes [0] : {_MN}", "%y"),
        lambda f, t: f.softmax(t[0], 0),
        _same,
        2,
    ),
    "middle_softmax": Case(
        _graph(
            "middle_softmax",
            f"%X: T<[M, {MIDDLE}, N], f16>",
            f"  %y = frontend.softmax %X axes [1] : T<[M, {MIDDLE}, N], f16>",
            "%y",
            f"[M, {MIDDLE}, N]",
        ),
        lambda f, t: f.softmax(t[0], 1),
        lambda s: (s["M"], MIDDLE, s["N"]),
        2,
        whole=lambda s: (s["M"], MIDDLE, s["N"]),
    ),
    "column_layer_norm": Case(
        _graph(
            "column_layer_norm",
            _X,
            f"  %y = frontend.layer_norm %X axes [0] eps 1.0e-05 : ({_MN}) -> {_MN}",
            "%y",
        ),
        lambda f, t: (t[0] - t[0].mean(0)) * (t[0].var(0, unbiased=False) + 1e-5).rsqrt(),
        _same,
        2,
    ),
    "group_norm": Case(
        _graph(
            "group_norm",
            "%X: T<[M, 8, 16, N], f16>",
            "  %y = frontend.layer_norm %X axes [2, 3] eps 1.0e-05 : "
            "(T<[M, 8, 16, N], f16>) -> T<[M, 8, 16, N], f16>",
            "%y",
            "[M, 8, 16, N]",
        ),
        lambda f, t: f.group_norm(t[0].flatten(1, 2), 8).view(t[0].shape),
        lambda s: (s["M"], 8, 16, s["N"]),
        2,
        whole=lambda s: (s["M"], 8, 16, s["N"]),
    ),
    "column_log_softmax": Case(
        _graph("column_log_softmax", _X, f"  %y = frontend.log_softmax %X axes [0] : {_MN}", "%y"),
        lambda f, t: f.log_softmax(t[0], 0),
        _same,
        2,
    ),
    "column_rms_norm": Case(
        _graph(
            "column_rms_norm",
            f"{_X}, %g: T<[M], f16>",
            "  %y = frontend.rms_norm %X weight %g axes [0] eps 1.0e-05 : "
            f"({_MN}, T<[M], f16>) -> {_MN}",
            "%y",
        ),
        lambda f, t: t[0] * (t[0].square().mean(0) + 1e-5).rsqrt() * t[1][:, None],
        _same,
        2,
        ("M",),
    ),
    "middle_layer_norm": Case(
        _graph(
            "middle_layer_norm",
            f"%X: T<[M, {MIDDLE}, N], f16>, %g: T<[{MIDDLE}], f16>, %b: T<[{MIDDLE}], f16>",
            "  %y = frontend.layer_norm %X weight %g bias %b axes [1] eps 1.0e-05 : "
            f"(T<[M, {MIDDLE}, N], f16>, T<[{MIDDLE}], f16>, T<[{MIDDLE}], f16>) -> "
            f"T<[M, {MIDDLE}, N], f16>",
            "%y",
            f"[M, {MIDDLE}, N]",
        ),
        lambda f, t: (
            (t[0] - t[0].mean(1, keepdim=True))
            * (t[0].var(1, keepdim=True, unbiased=False) + 1e-5).rsqrt()
            * t[1][:, None]
            + t[2][:, None]
        ),
        lambda s: (s["M"], MIDDLE, s["N"]),
        2,
        ("middle", "middle"),
        whole=lambda s: (s["M"], MIDDLE, s["N"]),
    ),
    "channel_norm": Case(
        _graph(
            "channel_norm",
            "%X: T<[M, 64, N], f16>",
            "  %y = frontend.layer_norm %X axes [0, 2] eps 1.0e-05 : "
            "(T<[M, 64, N], f16>) -> T<[M, 64, N], f16>",
            "%y",
            "[M, 64, N]",
        ),
        lambda f, t: f.batch_norm(t[0], None, None, None, None, True, 0.0, 1e-5),
        lambda s: (s["M"], 64, s["N"]),
        2,
        whole=lambda s: (s["M"], 64, s["N"]),
    ),
    "channel_variance": Case(
        _graph(
            "channel_variance",
            "%X: T<[M, 64, N], f16>",
            _variance("[M, 64, N]", "[0, 2]", "[1, 64, 1]", "[64]"),
            "%y",
            "[64]",
        ),
        lambda f, t: t[0].var((0, 2), unbiased=False),
        lambda s: (64,),
        1,
        whole=lambda s: (s["M"], 64, s["N"]),
    ),
    "column_variance": Case(
        _graph("column_variance", _X, _variance("[M, N]", "[0]", "[1, N]", "[N]"), "%y", "[N]"),
        lambda f, t: t[0].var(0, unbiased=False),
        lambda s: (s["N"],),
        1,
    ),
    "instance_norm": Case(
        _graph(
            "instance_norm",
            "%X: T<[M, 64, N], f16>",
            "  %y = frontend.layer_norm %X axes [2] eps 1.0e-05 : "
            "(T<[M, 64, N], f16>) -> T<[M, 64, N], f16>",
            "%y",
            "[M, 64, N]",
        ),
        lambda f, t: f.instance_norm(t[0]),
        lambda s: (s["M"], 64, s["N"]),
        2,
        whole=lambda s: (s["M"], 64, s["N"]),
    ),
    "several_softmax": Case(
        _graph(
            "several_softmax",
            "%X: T<[M, 16, 32, N], f16>",
            "  %y = frontend.softmax %X axes [1, 2] : T<[M, 16, 32, N], f16>",
            "%y",
            "[M, 16, 32, N]",
        ),
        lambda f, t: f.softmax(t[0].flatten(1, 2), 1).view(t[0].shape),
        lambda s: (s["M"], 16, 32, s["N"]),
        2,
        whole=lambda s: (s["M"], 16, 32, s["N"]),
    ),
    "outer_softmax": Case(
        _graph(
            "outer_softmax",
            "%X: T<[M, 64, N], f16>",
            "  %y = frontend.softmax %X axes [0, 2] : T<[M, 64, N], f16>",
            "%y",
            "[M, 64, N]",
        ),
        lambda f, t: (
            f.softmax(t[0].transpose(0, 1).flatten(1), 1)
            .view(64, t[0].shape[0], -1)
            .transpose(0, 1)
        ),
        lambda s: (s["M"], 64, s["N"]),
        2,
        whole=lambda s: (s["M"], 64, s["N"]),
    ),
    "whole_softmax": Case(
        _graph("whole_softmax", _X, f"  %y = frontend.softmax %X axes [0, 1] : {_MN}", "%y"),
        lambda f, t: f.softmax(t[0].flatten(), 0).view(t[0].shape),
        _same,
        2,
    ),
    "full_sum": Case(
        _reduced("full_sum", "[M, N]", "[0, 1]", "[1]").replace("[1], f16", "[], f16"),
        lambda f, t: t[0].sum(),
        lambda s: (),
        1,
    ),
}
"""What is timed, by name."""


BETWEEN = {
    "middle_sum": MIDDLE,
    "middle_softmax": MIDDLE,
    "middle_layer_norm": MIDDLE,
    "several_softmax": MIDDLE,
    "channel_mean": 64,
    "channel_variance": 64,
    "channel_norm": 64,
    "instance_norm": 64,
    "outer_softmax": 64,
    "group_norm": 128,
}
"""Points of the axes between M and N."""


WHOLE = ("full_sum", "whole_softmax")
"""Reductions of all elements, whatever the length of a row."""


def known(text: str, sizes: Mapping[str, int]) -> str:
    """A graph with these sizes written in the place of its symbols."""
    for name, size in sizes.items():
        text = re.sub(rf"\b{name}\b", str(size), text)
    return text


def sizes_of(op: str, length: int, elements: int) -> dict[str, int] | None:
    """M and N of a case with so many elements; None where there is less than a row."""
    rows = elements // (length * BETWEEN.get(op, 1))
    return {"M": rows, "N": length} if rows else None


def parse_case(text: str) -> tuple[str, Shape]:
    """``softmax:16384x4096`` is the softmax of 16384 rows of 4096."""
    op, _, shape = text.partition(":")
    if op not in CASES:
        raise argparse.ArgumentTypeError(f"{op} is none of {', '.join(CASES)}")
    return op, parse_shape(shape)


def cases_of(op: str, args: argparse.Namespace) -> Iterator[dict[str, int]]:
    """M and N of each case of a graph that is to be timed."""
    if args.cases:
        yield from ({"M": s[0], "N": s[1]} for name, s in args.cases if name == op)
        return
    for length in args.lengths:
        sizes = sizes_of(op, length, args.elements)
        if sizes is not None and (op not in WHOLE or length in args.compiled):
            yield sizes


def taken(program: Program, sizes: Mapping[str, int], count: int) -> list[str]:
    """The variant that runs, and the next ones of the dispatch."""
    chosen = program.chosen(sizes)
    names = list(program.variants)
    return [] if chosen is None else names[names.index(chosen) :][:count]


def raced(
    torch: Any, op: str, program: Program, sizes: Mapping[str, int], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """The rows of the report for one graph and shape."""
    case = CASES[op]
    shape = case.whole(sizes)
    count = prod(shape)
    copies = max(2, race.copies_for(4 * count, torch.cuda.get_device_properties(0).L2_cache_size))

    def made(*dims: int) -> Any:
        return torch.randn(*dims, device="cuda", dtype=torch.float16)

    shapes = {"N": (sizes["N"],), "M": (sizes["M"],), "middle": (MIDDLE,), "MN": shape}
    sets = [[made(*shape), *(made(*shapes[o]) for o in case.others)] for _ in range(copies)]
    outs = [torch.empty(case.out(sizes), device="cuda", dtype=torch.float16) for _ in sets]
    spare = torch.empty_like(sets[0][0])
    functional = torch.nn.functional

    def peer(*tensors: Any) -> Any:
        return case.peer(functional, tensors)

    wanted = peer(*(t.float() for t in sets[0]))
    racers = [Contestant("copy", lambda i: spare.copy_(sets[i % copies][0]))]
    errors: dict[str, float] = {}
    names = taken(program, sizes, args.variants)
    ours = [(f"polyc {name}", program, sizes, name) for name in names]
    if args.known:
        fixed = load(known(CASES[op].text, sizes), ARCH)
        chosen = fixed.chosen({})
        assert chosen is not None, "the last variant takes every size"
        ours.append((f"polyc known {chosen}", fixed, {}, chosen))
    for label, compiled, given, name in ours:
        try:
            pairs = zip(sets, outs, strict=True)
            launches = [compiled.launch(i, [o], given, name) for i, o in pairs]
        except PolycError:
            continue  # The variant does not take this shape.
        run = race.in_turns(torch, launches)
        outs[0].fill_(float("nan"))
        run(0)
        torch.cuda.synchronize()
        off = (outs[0].float() - wanted).abs().max().item()
        # Below its smallest normal number f16 has steps of 2**-24.
        most = max((wanted.abs().max().item() or 1.0) * 2.0**-9, 2.0**-24)
        errors[label] = off / most if off == off else float("inf")
        racers.append(Contestant(label, run, False, {"chosen": label == ours[0][0]}))
    if not args.no_eager:
        racers.append(Contestant("eager", lambda i: peer(*sets[i % copies])))
    if args.compile or sizes["N"] in args.compiled:
        torch.compiler.reset()
        theirs = torch.compile(peer, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(*sets[0])
        racers.append(Contestant("torch.compile", lambda i: theirs(*sets[i % copies])))
    race.measure(torch, racers, args.rounds, copies)
    moved = int(2 * count * case.passes)
    case_name = f"{op} {'x'.join(map(str, shape))}"
    rows = race.result_rows(case_name, racers, moved, "TB/s", errors)
    race.print_rows(rows)
    return rows


def dry(args: argparse.Namespace) -> int:
    """What would run, and how long by the model."""
    from polyc.cost.time import times_of
    from polyc.passes.pipeline import ORDER, build
    from polyc.tools.parsing import parse_text
    from polyc.tools.registry import make_context

    for op in args.ops:
        context = make_context()
        module = parse_text(context, CASES[op].text, f"{op}.mlir")
        for name in ORDER[: ORDER.index("plan-select") + 1]:
            build(name, ARCH).apply(context, module)
        for sizes in cases_of(op, args):
            count = prod(CASES[op].whole(sizes))
            for found in times_of(module, sizes):
                speed = 2 * count * CASES[op].passes / found.seconds / 1e12
                name = f"{op} {sizes['M']}x{sizes['N']}"
                print(
                    f"{name:34} {found.variant:18} {found.seconds * 1e6:8.1f} us {speed:5.2f} TB/s"
                )
    return 0


def timed(
    args: argparse.Namespace, torch: Any
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """The name of each case, and what times it."""
    for op in args.ops:
        begun = time.perf_counter()
        program = load(CASES[op].text, ARCH)
        print(f"compiled {op} in {time.perf_counter() - begun:.1f} s", flush=True)
        for sizes in cases_of(op, args):
            name = f"{op} {sizes['M']}x{sizes['N']}"
            yield name, partial(raced, torch, op, program, sizes, args)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time reductions of rows, columns and tensors.")
    parser.add_argument("--ops", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--cases", nargs="+", type=parse_case, metavar="OP:ROWSxCOLUMNS")
    parser.add_argument("--lengths", nargs="+", type=int, default=list(LENGTHS))
    parser.add_argument("--compiled", nargs="*", type=int, default=list(COMPILED))
    parser.add_argument("--compile", action="store_true", help="time torch.compile at each size")
    parser.add_argument("--no-eager", action="store_true", help="leave eager PyTorch out")
    parser.add_argument("--known", action="store_true", help="time graphs of known sizes too")
    parser.add_argument("--elements", type=int, default=1 << 25, help="of f16 in a tensor")
    parser.add_argument("--variants", type=int, default=2, help="of each graph, at most")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=220, help="seconds to begin cases in")
    parser.add_argument("--dry", action="store_true", help="the model's times alone, no GPU")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results", help="folder, or - for none")
    args = parser.parse_args(argv)
    if args.cases:
        args.ops = list(dict.fromkeys(op for op, _ in args.cases))
    if args.dry:
        return dry(args)
    return race.over_cases("reductions", "reductions-f16", partial(timed, args), args)


if __name__ == "__main__":
    sys.exit(main())
