"""Time pools, resizes and grid samples beside a copy, PyTorch and torch.compile.

``bench/race.py`` says how it is timed.  Each graph is compiled for its sizes.  Before it is timed,
each result is held against PyTorch's in f32: elements that differ by more than their type's
rounding are counted, of which a nearest element on the border of two may be one.

    python bench/windows.py [--ops max_pool places linear_grid] [--types f16] [--budget 200]
    python bench/windows.py --dry            # that all compile, no GPU

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
from polyc.bench.race import Contestant
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"
TYPES = {"f16": (2, "float16", 2e-3), "f32": (4, "float32", 1e-4)}
"""Bytes of an element, PyTorch's name of the type, and how far elements near 1 may be off."""

OFF = 1e-3
"""The part of all elements that may be another one, on the border of two."""

Dims = tuple[int, ...]
Peer = Callable[[Any, list[Any]], Any]
"""A function of PyTorch and its tensors."""


def tensor(dims: Dims, kind: str) -> str:
    """A type's text."""
    return f"!frontend.tensor<[{', '.join(map(str, dims))}], {kind}>"


@dataclass(frozen=True)
class Case:
    """Ops over inputs of some shapes, whose results are ``outputs``, and PyTorch's function.

    In an op's text X, G and the outputs' names stand for types.
    """

    inputs: tuple[Dims, ...]
    ops: tuple[str, ...]
    outputs: tuple[tuple[Dims, str], ...]
    peer: Peer

    def text(self, kind: str) -> str:
        """The graph of a type of elements."""
        names = "xg"
        given = [tensor(dims, kind) for dims in self.inputs]
        made = [tensor(dims, other or kind) for dims, other in self.outputs]
        what = ", ".join(given) if len(given) == 1 else f"({', '.join(given)})"
        lines = [
            f"  %{i} = frontend.{op} : {what if ' %g' in op else given[0]} -> {result}"
            for i, (op, result) in enumerate(zip(self.ops, made, strict=True))
        ]
        arguments = ", ".join(f"%{n}: {t}" for n, t in zip(names, given, strict=False))
        found = ", ".join(f"%{i}" for i in range(len(made)))
        outputs = made[0] if len(made) == 1 else f"({', '.join(made)})"
        end = f"  frontend.output {found} : {', '.join(made)}"
        return f"frontend.graph @f({arguments}) -> {outputs} {{\n{chr(10).join(lines)}\n{end}\n}}\n"


POOL = "axes [2, 3] size [3, 3] stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1]"
IMAGE, POOLED = (64, 64, 112, 112), (64, 64, 56, 56)
SMALL, LARGE = (2, 320, 64, 64), (2, 320, 128, 128)
FIELD, PLACES = (16, 64, 128, 128), (16, 128, 128, 2)


def _f(torch: Any) -> Any:
    return torch.nn.functional


def _resize(mode: str, text: str, theirs: str) -> Case:
    how = {} if theirs.startswith("nearest") else {"align_corners": False}

    def peer(torch: Any, x: list[Any]) -> Any:
        return _f(torch).interpolate(x[0], size=LARGE[2:], mode=theirs, **how)

    op = f"resize {mode} %x axes [2, 3] half_pixel{text}"
    return Case((SMALL,), (op,), ((LARGE, ""),), peer)


def _grid(mode: str, theirs: str, padding: str = "zeros") -> Case:
    def peer(torch: Any, x: list[Any]) -> Any:
        how = {"mode": theirs, "padding_mode": padding, "align_corners": False}
        return _f(torch).grid_sample(*x, **how)

    return Case((FIELD, PLACES), (f"grid_sample {mode} %x, %g {padding}",), ((FIELD, ""),), peer)


CASES = {
    "max_pool": Case(
        (IMAGE,),
        (f"pool max %x {POOL}",),
        ((POOLED, ""),),
        lambda torch, x: _f(torch).max_pool2d(*x, 3, 2, 1),
    ),
    "places": Case(
        (IMAGE,),
        (f"pool max %x {POOL}", f"arg_pool max %x {POOL}"),
        ((POOLED, ""), (POOLED, "i64")),
        lambda torch, x: _f(torch).max_pool2d(*x, 3, 2, 1, return_indices=True),
    ),
    "avg_pool": Case(
        (IMAGE,),
        (f"pool mean %x {POOL} count_include_pad",),
        ((POOLED, ""),),
        lambda torch, x: _f(torch).avg_pool2d(*x, 3, 2, 1),
    ),
    "nearest": _resize("nearest", " round_prefer_ceil", "nearest-exact"),
    "linear": _resize("linear", "", "bilinear"),
    "cubic": _resize("cubic", "", "bicubic"),
    "nearest_grid": _grid("nearest", "nearest"),
    "linear_grid": _grid("linear", "bilinear"),
    "reflected_grid": _grid("linear", "bilinear", "reflection"),
    "cubic_grid": _grid("cubic", "bicubic"),
}
"""What is timed, by name."""


def wrong(torch: Any, found: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> float:
    """The part of the elements that are off, over the part that may be."""
    worst = 0.0
    for one, other in zip(found, wanted, strict=True):
        off = torch.abs(one.double() - other.double()) > tolerance * (1 + other.double().abs())
        worst = max(worst, off.double().mean().item() / OFF)
    return worst


def raced(torch: Any, op: str, kind: str, args: argparse.Namespace) -> list[Any]:
    """The rows of the report for one graph and type."""
    case, (size, name, tolerance) = CASES[op], TYPES[kind]
    dtype = getattr(torch, name)
    bytes_of = {"": size, "i64": 8}
    moved = sum(size * _count(dims) for dims in case.inputs)
    moved += sum(bytes_of[other] * _count(dims) for dims, other in case.outputs)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    copies = max(2, min(race.copies_for(moved, l2), 6))

    def made(number: int, dims: Dims) -> Any:
        if number == 0:
            return torch.randn(*dims, device="cuda", dtype=dtype)
        # Of the places of an image in their order, each a little off, some outside.
        rows, columns = (torch.linspace(-1.05, 1.05, n, device="cuda") for n in dims[1:3])
        own = torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], -1)
        return (own + 0.02 * torch.randn(*dims, device="cuda")).to(dtype)

    sets = [[made(i, dims) for i, dims in enumerate(case.inputs)] for _ in range(copies)]

    def peer(*arrays: Any) -> Any:
        return case.peer(torch, list(arrays))

    found: Any = peer(*(x.float() for x in sets[0]))
    wanted: list[Any] = [*found] if len(case.outputs) > 1 else [found]
    spare = torch.empty_like(sets[0][0])
    program: Program = load(case.text(kind), ARCH)
    kinds = {"": dtype, "i64": torch.int64}
    outs = [
        [torch.empty(dims, device="cuda", dtype=kinds[other]) for dims, other in case.outputs]
        for _ in range(copies)
    ]
    chosen = program.chosen({})
    assert chosen is not None, "the last variant takes every size"
    pairs = zip(sets, outs, strict=True)
    run = race.in_turns(torch, [program.launch(x, o, {}, chosen) for x, o in pairs])
    run(0)
    torch.cuda.synchronize()
    label = f"polyc {chosen}"
    racers = [
        Contestant("copy", lambda i: spare.copy_(sets[i % copies][0])),
        Contestant(label, run, False, {"chosen": True}),
        Contestant("eager", lambda i: peer(*sets[i % copies])),
    ]
    if not args.no_compile:
        torch.compiler.reset()
        theirs = torch.compile(peer, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(*sets[0])
        racers.append(Contestant("torch.compile", lambda i: theirs(*sets[i % copies])))
    race.measure(torch, racers, args.rounds, copies)
    errors = {label: wrong(torch, outs[0], wanted, tolerance)}
    found = race.result_rows(f"{op} {kind}", racers, moved, "TB/s", errors)
    race.print_rows(found)
    return found


def _count(dims: Dims) -> int:
    total = 1
    for dim in dims:
        total *= dim
    return total


def dry(args: argparse.Namespace) -> int:
    """That each graph compiles, and what of."""
    for op in args.ops:
        for kind in args.types:
            program = load(CASES[op].text(kind), ARCH)
            kernels = [f"{name} {info.registers}" for name, info in program.kernels.items()]
            print(f"{op} {kind}: {', '.join(kernels)} registers")
    return 0


def timed(
    args: argparse.Namespace, torch: Any
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """The name of each case, and what times it."""
    for op in args.ops:
        for kind in args.types:
            yield f"{op} {kind}", partial(raced, torch, op, kind, args)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time pools, resizes and grid samples.")
    parser.add_argument("--ops", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--types", nargs="+", choices=TYPES, default=["f16", "f32"])
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=200, help="seconds to begin cases in")
    parser.add_argument("--dry", action="store_true", help="compile alone, no GPU")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results", help="folder, or - for none")
    args = parser.parse_args(argv)
    if args.dry:
        return dry(args)
    return race.over_cases("windows", "windows", partial(timed, args), args)


if __name__ == "__main__":
    sys.exit(main())
