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
from typing import Any, cast

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


Dims2 = tuple[int, int]


def _f(torch: Any) -> Any:
    return torch.nn.functional


def _planes(dims: Dims, last: bool) -> Dims:
    """An image of [N, C, H, W] as it lies: with channels ``last`` [N, H, W, C]."""
    n, c, h, w = dims
    return (n, h, w, c) if last else dims


def _seen(function: Peer, last: bool) -> Peer:
    """PyTorch's function of images, whose channels may lie ``last`` in memory.  It is given the
    same bytes, and what it gives is seen in our order."""

    def peer(torch: Any, x: list[Any]) -> Any:
        found = function(torch, [x[0].permute(0, 3, 1, 2), *x[1:]])
        # Their results lie as their input does.
        if not isinstance(found, tuple):
            return found.permute(0, 2, 3, 1)
        return tuple(one.permute(0, 2, 3, 1) for one in cast("tuple[Any, ...]", found))

    return peer if last else function


def _pool(fn: str, dims: Dims, size: int, stride: int, padding: int, last: bool = False) -> Case:
    """A pool of square windows."""
    n, c, *sides = dims
    high, wide = ((side + 2 * padding - size) // stride + 1 for side in sides)
    axes = "[1, 2]" if last else "[2, 3]"
    ends = ", ".join([str(padding)] * 4)
    where = f"axes {axes} size [{size}, {size}] stride [{stride}, {stride}]"
    where += f" padding [{ends}] dilation [1, 1]"
    kind, rest = ("mean", " count_include_pad") if fn == "mean" else (fn, "")

    def peer(torch: Any, x: list[Any]) -> Any:
        if fn == "mean":
            return _f(torch).avg_pool2d(x[0], size, stride, padding)
        return _f(torch).max_pool2d(x[0], size, stride, padding)

    result = _planes((n, c, high, wide), last)
    op = f"pool {kind} %x {where}{rest}"
    return Case((_planes(dims, last),), (op,), ((result, ""),), _seen(peer, last))


def _places(dims: Dims, size: int, stride: int, padding: int) -> Case:
    """A maximum with its places."""
    plain = _pool("max", dims, size, stride, padding)
    (op,), ((result, _),) = plain.ops, plain.outputs

    def peer(torch: Any, x: list[Any]) -> Any:
        return _f(torch).max_pool2d(x[0], size, stride, padding, return_indices=True)

    ops = (op, op.replace("pool max", "arg_pool max", 1))
    return Case((dims,), ops, ((result, ""), (result, "i64")), peer)


def _resize(mode: str, dims: Dims, to: Dims2, last: bool = False, text: str = "half_pixel") -> Case:
    """A resize to so many pixels; ``text`` is how places are found, with a rounding."""
    theirs = {"nearest": "nearest-exact", "linear": "bilinear", "cubic": "bicubic"}[mode]
    how: dict[str, Any] = {} if mode == "nearest" else {"align_corners": False}
    if "align_corners" in text:
        how = {"align_corners": True}

    def peer(torch: Any, x: list[Any]) -> Any:
        return _f(torch).interpolate(x[0], size=to, mode=theirs, **how)

    n, c, *_ = dims
    result = _planes((n, c, *to), last)
    rounding = " round_prefer_ceil" if mode == "nearest" else ""
    op = f"resize {mode} %x axes {'[1, 2]' if last else '[2, 3]'} {text}{rounding}"
    return Case((_planes(dims, last),), (op,), ((result, ""),), _seen(peer, last))


FIELD, PLACES = (16, 64, 128, 128), (16, 128, 128, 2)


def _grid(mode: str, theirs: str, padding: str = "zeros") -> Case:
    def peer(torch: Any, x: list[Any]) -> Any:
        how = {"mode": theirs, "padding_mode": padding, "align_corners": False}
        return _f(torch).grid_sample(*x, **how)

    return Case((FIELD, PLACES), (f"grid_sample {mode} %x, %g {padding}",), ((FIELD, ""),), peer)


STEM, BLOCK, HEAD = (64, 64, 112, 112), (32, 256, 28, 28), (256, 2048, 7, 7)
"""What a ResNet pools first, an Inception pools in place, and a head takes the mean of."""

DOWN, VGG = (8, 128, 128, 128), (16, 64, 224, 224)
"""What a UNet and a VGG halve."""

SMALL, MIDDLE, INNER = (2, 320, 64, 64), (2, 640, 32, 32), (2, 1280, 16, 16)
"""What a diffusion model's UNet doubles."""

DECODED, FEATURES = (8, 128, 128, 128), (8, 64, 90, 160)
"""What a decoder doubles, and a segmentation's features."""

CASES = {
    "max_pool": _pool("max", STEM, 3, 2, 1),
    "places": _places(STEM, 3, 2, 1),
    "avg_pool": _pool("mean", STEM, 3, 2, 1),
    "nearest": _resize("nearest", SMALL, (128, 128)),
    "linear": _resize("linear", SMALL, (128, 128)),
    "cubic": _resize("cubic", SMALL, (128, 128)),
    "max_last": _pool("max", STEM, 3, 2, 1, True),
    "avg_last": _pool("mean", STEM, 3, 2, 1, True),
    "max_halves": _pool("max", DOWN, 2, 2, 0),
    "max_halves_large": _pool("max", VGG, 2, 2, 0),
    "max_halves_last": _pool("max", DOWN, 2, 2, 0, True),
    "avg_halves": _pool("mean", DOWN, 2, 2, 0),
    "max_same": _pool("max", BLOCK, 3, 1, 1),
    "avg_same": _pool("mean", BLOCK, 3, 1, 1),
    "places_halves": _places(DOWN, 2, 2, 0),
    "global": _pool("mean", HEAD, 7, 1, 0),
    "global_last": _pool("mean", HEAD, 7, 1, 0, True),
    "nearest_middle": _resize("nearest", MIDDLE, (64, 64)),
    "nearest_inner": _resize("nearest", INNER, (32, 32)),
    "nearest_large": _resize("nearest", DECODED, (256, 256)),
    "nearest_last": _resize("nearest", DECODED, (256, 256), True),
    "nearest_odd": _resize("nearest", FEATURES, (135, 240)),
    "linear_middle": _resize("linear", MIDDLE, (64, 64)),
    "linear_large": _resize("linear", DECODED, (256, 256)),
    "linear_last": _resize("linear", DECODED, (256, 256), True),
    "linear_fourfold": _resize("linear", FEATURES, (360, 640)),
    "linear_odd": _resize("linear", FEATURES, (135, 240)),
    "linear_down": _resize("linear", DECODED, (64, 64)),
    "nearest_grid": _grid("nearest", "nearest"),
    "linear_grid": _grid("linear", "bilinear"),
    "reflected_grid": _grid("linear", "bilinear", "reflection"),
    "cubic_grid": _grid("cubic", "bicubic"),
}
"""What is timed, by name: networks' sizes, odd ones, and channels that lie last."""


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
