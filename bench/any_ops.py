"""Race random pools, resizes, scans, gathers, scatters and orders beside PyTorch.

    python bench/any_ops.py [--count 60] [--seed 1] [--part 1/2] [--seconds 100] [--out FILE]
    python bench/any_ops.py --problems 'cumsum:7x4096x33:f16:{"axis": 1, "reverse": true}'
    python bench/any_ops.py --dry       # plans and modelled times beside a copy's, no GPU

Tensors have one to five axes, of odd sizes too, 4 to 128 MB, in f16, bf16, f32, i32 or i64; windows
are odd, with steps, dilation and ``ceil_mode``, along one to three axes, of channels first or last;
scans, gathers, scatters and orders go along any axis.  ``random_problems.py`` says what takes
turns.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from math import exp, log, prod
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import ModuleOp

import polyc
from polyc.bench.random_problems import TYPES, Race, bytes_of, some_shape
from polyc.dialects.common.diagnostic import PolycError
from polyc.trace.tracing import traced
from polyc.trace.values import Value

BYTES = 1 << 22, 1 << 27
"""Of the first tensor."""

TOLERANCES = {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 2.0**-16, "i32": 0.0, "i64": 0.0}
"""What a result is off by at most, of the largest, by type."""

How = Mapping[str, Any]


class Input(NamedTuple):
    """A tensor, and below what its numbers are where they are indices."""

    shape: tuple[int, ...]
    kind: str
    below: int = 0


class Problem(NamedTuple):
    """An op on a tensor, and how."""

    op: str
    shape: tuple[int, ...]
    kind: str
    how: str

    @property
    def said(self) -> str:
        """As ``--problems`` takes it."""
        return f"{self.op}:{'x'.join(map(str, self.shape))}:{self.kind}:{self.how}"

    @property
    def options(self) -> How:
        """How, by name."""
        return json.loads(self.how)

    @property
    def inputs(self) -> list[Input]:
        """The tensors that it takes."""
        x, how = Input(self.shape, self.kind), self.options
        if "of" not in how:
            return [x]
        axis = int(how["axis"])
        below = self.shape[axis]
        given = [*self.shape]
        given[axis] = how["of"]
        alone = self.op in ("take", "scatter")
        index = Input((how["of"],) if alone else tuple(given), how["index"], below)
        updates = Input(tuple(given), self.kind)
        return [x, index, updates] if self.op.startswith("scatter") else [x, index]


def parse_problem(text: str) -> Problem:
    """``cumsum:7x4096x33:f16:{"axis": 1}``."""
    op, shape, kind, how = text.split(":", 3)
    if op not in OURS or kind not in TOLERANCES:
        types = ", ".join(TOLERANCES)
        raise ValueError(f"{op} of {kind} is none of {', '.join(OURS)} of {types}")
    return Problem(op, tuple(map(int, shape.split("x"))), kind, how)


# What is computed --------------------------------------------------------------------------


def _windows(how: How) -> tuple[Any, Any, Any]:
    return how["size"], how["stride"], how["padding"]


def _last(rank: int, how: How) -> tuple[list[int], list[int]]:
    """How an image of channels last is seen with them first, and back."""
    if not how["last"]:
        return list(range(rank)), list(range(rank))
    return [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]


def _layout(rank: int, how: How) -> str:
    sides = "dhw"[5 - rank :]
    return f"n{sides}c" if how["last"] else f"nc{sides}"


def _max_pool(x: Value, how: How) -> Value:
    more: dict[str, Any] = {"ceil_mode": how["ceil"], "layout": _layout(x.ndim, how)}
    return polyc.max_pool(x, *_windows(how), how["dilation"], **more)


def _avg_pool(x: Value, how: How) -> Value:
    more: dict[str, Any] = {"count_include_pad": how["count"], "ceil_mode": how["ceil"]}
    return polyc.avg_pool(x, *_windows(how), layout=_layout(x.ndim, how), **more)


def _adaptive(x: Value, how: How) -> Value:
    return polyc.adaptive_avg_pool(x, how["to"], layout=_layout(x.ndim, how))


def _resize(mode: str) -> Callable[[Value, How], Value]:
    def resize(x: Value, how: How) -> Value:
        more: dict[str, Any] = {"rounding": "round_prefer_ceil"} if mode == "nearest" else {}
        if how["corners"]:
            more["coordinates"] = "align_corners"
        return polyc.resize(x, how["to"], mode=mode, layout=_layout(x.ndim, how), **more)

    return resize


def _scan(fn: str) -> Callable[[Value, How], Value]:
    def scan(x: Value, how: How) -> Value:
        more = {"reverse": how["reverse"], "exclusive": how["exclusive"]}
        return getattr(polyc, fn)(x, how["axis"], **more)

    return scan


Ours = Callable[[Sequence[Value], How], "Value | tuple[Value, ...]"]


def _of_one(function: Callable[[Value, How], Value | tuple[Value, ...]]) -> Ours:
    return lambda x, how: function(x[0], how)


OURS: dict[str, Ours] = {
    "max_pool": _of_one(_max_pool),
    "avg_pool": _of_one(_avg_pool),
    "adaptive": _of_one(_adaptive),
    "nearest": _of_one(_resize("nearest")),
    "linear": _of_one(_resize("linear")),
    "cubic": _of_one(_resize("cubic")),
    "cumsum": _of_one(_scan("cumsum")),
    "cumprod": _of_one(_scan("cumprod")),
    "cummax": _of_one(_scan("cummax")),
    "take": lambda x, how: polyc.take(x[0], x[1], how["axis"]),
    "take_along": lambda x, how: polyc.take_along_axis(x[0], x[1], how["axis"]),
    "scatter": lambda x, how: polyc.scatter(x[0], x[1], x[2], how["axis"], reduce=how["fn"]),
    "scatter_along": lambda x, how: polyc.scatter_along_axis(
        x[0], x[1], x[2], how["axis"], reduce=how["fn"]
    ),
    "argmax": lambda x, how: polyc.argmax(x[0], how["axis"]),
    "topk": lambda x, how: polyc.topk(x[0], how["k"], how["axis"]),
    "sort": lambda x, how: polyc.sort(x[0], how["axis"]),
}
"""What a graph has, by op."""


def module_of(problem: Problem) -> ModuleOp:
    """The graph of a problem."""
    tensors = {
        name: cast("Any", polyc.Tensor)[(*one.shape, one.kind)]
        for name, one in zip("xiu", problem.inputs, strict=False)
    }
    how = problem.options

    def arguments(values: Mapping[str, Value]) -> tuple[list[Any], dict[str, Any]]:
        return [list(values.values()), how], {}

    return traced(OURS[problem.op], tensors, arguments, name="problem").module


Peer = Callable[[Any, Sequence[Any], How], Any]
"""A function of torch, the tensors and how."""


def _seen(function: Callable[[Any, Any, How], Any]) -> Peer:
    """PyTorch's function of an image, whose channels may lie last."""

    def peer(torch: Any, given: Sequence[Any], how: How) -> Any:
        (x,) = given
        there, back = _last(x.dim(), how)
        return function(torch, x.permute(there), how).permute(back)

    return peer


def _their_pool(fn: str) -> Peer:
    def peer(torch: Any, x: Any, how: How) -> Any:
        function = getattr(torch.nn.functional, f"{fn}_pool{x.dim() - 2}d")
        if fn == "max":
            return function(x, *_windows(how), how["dilation"], ceil_mode=how["ceil"])
        return function(x, *_windows(how), how["ceil"], how["count"])

    return _seen(peer)


def _their_resize(mode: str) -> Peer:
    names = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}

    def peer(torch: Any, x: Any, how: How) -> Any:
        name = names[mode][int(x.dim()) - 3] if mode in names else "nearest-exact"
        more = {"align_corners": how["corners"]} if mode in names else {}
        return torch.nn.functional.interpolate(x, how["to"], mode=name, **more)

    return _seen(peer)


def _their_scan(fn: str) -> Peer:
    def peer(torch: Any, given: Sequence[Any], how: How) -> Any:
        (x,), axis = given, how["axis"]
        y = x.flip(axis) if how["reverse"] else x
        if how["exclusive"]:
            start = y.narrow(axis, 0, 1)
            start = torch.ones_like(start) if fn == "cumprod" else torch.zeros_like(start)
            y = torch.cat((start, y.narrow(axis, 0, y.shape[axis] - 1)), axis)
        y = (
            torch.cummax(y, axis)[0]
            if fn == "cummax"
            else getattr(torch, fn)(y, axis, dtype=y.dtype)
        )
        return y.flip(axis) if how["reverse"] else y

    return peer


def _their_scatter(torch: Any, given: Sequence[Any], how: How) -> Any:
    x, i, u = given
    if how["fn"] == "add":
        return x.index_add(how["axis"], i, u)
    if how["fn"] == "set":
        return x.index_copy(how["axis"], i, u)
    return x.index_reduce(how["axis"], i, u, "amax")


def _their_scatter_along(torch: Any, given: Sequence[Any], how: How) -> Any:
    x, i, u = given
    if how["fn"] == "set":
        return x.scatter(how["axis"], i, u)
    named = {"add": "sum", "max": "amax"}[how["fn"]]
    return x.scatter_reduce(how["axis"], i, u, named)


PEERS: dict[str, Peer] = {
    "max_pool": _their_pool("max"),
    "avg_pool": _their_pool("avg"),
    "adaptive": _seen(
        lambda torch, x, how: getattr(torch.nn.functional, f"adaptive_avg_pool{x.dim() - 2}d")(
            x, how["to"]
        )
    ),
    "nearest": _their_resize("nearest"),
    "linear": _their_resize("linear"),
    "cubic": _their_resize("cubic"),
    "cumsum": _their_scan("cumsum"),
    "cumprod": _their_scan("cumprod"),
    "cummax": _their_scan("cummax"),
    "take": lambda torch, x, how: x[0].index_select(how["axis"], x[1]),
    "take_along": lambda torch, x, how: x[0].gather(how["axis"], x[1]),
    "scatter": _their_scatter,
    "scatter_along": _their_scatter_along,
    "argmax": lambda torch, x, how: x[0].argmax(how["axis"]),
    "topk": lambda torch, x, how: torch.topk(x[0], how["k"], how["axis"]),
    "sort": lambda torch, x, how: torch.sort(x[0], dim=how["axis"], stable=True),
}
"""What PyTorch computes, by op."""

FLOATS = ("f16", "f16", "bf16", "f32")
WINDOWED = ("max_pool", "avg_pool", "adaptive", "nearest", "linear", "cubic")


# Random problems ---------------------------------------------------------------------------


def _image(draw: random.Random, op: str, elements: float) -> tuple[list[int], dict[str, Any]]:
    """The shape of an image, and the windows or the size that it gets."""
    many = 2 if op == "cubic" else draw.choice((1, 2, 2, 3))
    sides = [draw.randint(*{1: (50, 3000), 2: (12, 300), 3: (8, 60)}[many]) for _ in range(many)]
    channels = draw.choice((1, 3, 16, 30, 64, 64, 128, 256))
    images = max(1, round(elements / channels / prod(sides)))
    last = draw.random() < 0.4
    shape = [images, *sides, channels] if last else [images, channels, *sides]
    how: dict[str, Any] = {"last": last}
    if op in ("max_pool", "avg_pool"):
        size = [draw.choice((1, 2, 3, 3, 4, 5, 7)) for _ in sides]
        how |= {"size": size, "stride": [draw.choice((1, 1, 2, 2, 3)) for _ in sides]}
        how |= {"padding": [draw.randint(0, one // 2) for one in size]}
        how |= {"ceil": draw.random() < 0.3}
        if op == "max_pool":
            how |= {"dilation": [draw.choice((1, 1, 1, 2)) for _ in sides]}
        else:
            how |= {"count": draw.random() < 0.5}
    elif op == "adaptive":
        how |= {"to": [draw.choice((1, 2, 3, 5, 7)) for _ in sides]}
    else:
        factor = draw.choice((0.5, 0.37, 1.5, 2, 2, 3.1, 4))
        how |= {"to": [max(1, round(side * factor)) for side in sides]}
        how |= {"corners": op != "nearest" and draw.random() < 0.3}
    return shape, how


def _indexed(draw: random.Random, op: str, shape: list[int]) -> dict[str, Any]:
    """Along which axis indices go, of what type, and how many."""
    axis = draw.randrange(len(shape))
    how: dict[str, Any] = {"axis": axis, "index": draw.choice(("i32", "i64"))}
    how |= {"of": max(1, round(shape[axis] * draw.choice((0.25, 0.5, 1, 2))))}
    if op.startswith("scatter"):
        how |= {"fn": draw.choice(("add", "add", "set", "max"))}
        if how["fn"] == "set":
            how["of"] = min(int(how["of"]), shape[axis])
    if op.endswith("along"):
        how["of"] = min(int(how["of"]), shape[axis])
    return how


def problems(seed: int, count: int) -> list[Problem]:
    """Random problems, the ops in turn."""
    draw = random.Random(seed)
    found: list[Problem] = []
    names = list(OURS)
    while len(found) < count:
        op = names[len(found) % len(names)]
        kind = draw.choice(FLOATS if op in WINDOWED else (*FLOATS, "f32", "i32", "i64"))
        elements = exp(draw.uniform(*map(log, BYTES))) / bytes_of((), kind)
        if op in WINDOWED:
            shape, how = _image(draw, op, elements)
        else:
            shape = some_shape(draw, draw.choice((1, 2, 2, 3, 3, 4)), elements)
            if op.startswith("cum"):
                how: dict[str, Any] = {"axis": draw.randrange(len(shape))}
                how |= {name: draw.random() < 0.25 for name in ("reverse", "exclusive")}
                if op == "cummax":
                    how["exclusive"] = False
            elif op in ("argmax", "topk", "sort"):
                how = {"axis": draw.choice((len(shape) - 1, draw.randrange(len(shape))))}
                if op == "topk":
                    how["k"] = min(shape[int(how["axis"])], draw.choice((1, 2, 5, 8, 17, 64)))
            else:
                how = _indexed(draw, op, shape)
        problem = Problem(op, tuple(shape), kind, json.dumps(how))
        whole = sum(bytes_of(one.shape, one.kind) for one in problem.inputs)
        if whole > 4 * BYTES[1] or bytes_of(shape, kind) < BYTES[0] / 2:
            continue
        try:
            module_of(problem)
        except PolycError:  # An adaptive pool has so many unlike windows at most.
            if op == "adaptive":
                continue
            raise
        found.append(problem)
    return found


def moved(problem: Problem, results: Sequence[tuple[Sequence[int], str]]) -> int:
    """Bytes that a problem reads and writes at least."""
    out = sum(bytes_of(shape, kind) for shape, kind in results)
    x, *others = (bytes_of(one.shape, one.kind) for one in problem.inputs)
    if problem.op.startswith("take"):
        return 2 * out + others[0]
    return x + sum(others) + out


# On the GPU --------------------------------------------------------------------------------


def inputs(torch: Any, problem: Problem) -> list[Any]:
    """Random tensors."""
    found: list[Any] = []
    for shape, kind, below in problem.inputs:
        dtype = getattr(torch, TYPES[kind][0])
        if below:
            axis = problem.options["axis"]
            whole = problem.options.get("fn") == "set"
            if not whole:
                made = torch.randint(0, below, shape, device="cuda")
            elif len(shape) == 1:
                made = torch.randperm(below, device="cuda")[: shape[0]]
            else:  # Each element once, so that all orders give one result.
                many = torch.rand(
                    *(below if at == axis else n for at, n in enumerate(shape)), device="cuda"
                )
                made = many.argsort(axis).narrow(axis, 0, shape[axis]).contiguous()
            found.append(made.to(dtype))
        elif kind.startswith("i"):
            low, high = (1, 3) if problem.op == "cumprod" else (-1000, 1000)
            found.append(torch.randint(low, high, shape, device="cuda", dtype=dtype))
        elif problem.op == "cumprod":
            found.append((1 + 1e-3 * torch.randn(shape, device="cuda")).to(dtype))
        elif problem.op == "cumsum":
            long = shape[int(problem.options["axis"])]
            found.append((torch.rand(shape, device="cuda") / long).to(dtype))
        else:
            found.append(torch.randn(shape, device="cuda").to(dtype))
    return found


def off_by(torch: Any, problem: Problem, given: Sequence[Any], found: Sequence[Any]) -> float:
    """How far results are from what more bits say, of what they may be."""
    op, how, x = problem.op, problem.options, given[0]
    if op in ("argmax", "topk", "sort"):
        at = found[-1].unsqueeze(how["axis"]) if op == "argmax" else found[-1]
        taken = x.gather(how["axis"], at)
        if op == "argmax":
            wrong = taken != x.amax(how["axis"], keepdim=True)
        else:
            wrong = (taken != found[0]) | (found[0] != PEERS[op](torch, [x], how)[0])
        return 2.0 * torch.count_nonzero(wrong).item()
    whole = not problem.kind.startswith("f") and problem.kind != "bf16"
    wide = [one if whole or not one.is_floating_point() else one.double() for one in given]
    right = PEERS[op](torch, _for_peer(wide), how)
    if whole:
        return 2.0 * torch.count_nonzero(found[0] != right).item()
    tolerance = TOLERANCES[problem.kind]
    off = (found[0].double() - right).abs()
    if op in ("cumprod", "scatter", "scatter_along", "cumsum"):
        # Each factor of a product is rounded once: errors add up as a walk does.
        steps = problem.shape[int(how["axis"])] if op == "cumprod" else 1
        most = right.abs().max().item() * max(tolerance, 2.0**-24 * steps**0.5 * 4)
        worst = off.max().item() / max(most, 2.0**-24)
    else:
        worst = (off / (1 + right.abs()) / tolerance).max().item()
    return worst if worst == worst else float("inf")


def _for_peer(given: Sequence[Any]) -> list[Any]:
    """PyTorch's functions take indices of i64 alone."""
    if len(given) == 1:
        return list(given)
    return [given[0], given[1].long(), *given[2:]]


class Ops(Race[Problem]):
    """The races of this file."""

    script = "bench/any_ops.py"

    def parse(self, text: str) -> Problem:
        return parse_problem(text)

    def drawn(self, seed: int, count: int) -> list[Problem]:
        return problems(seed, count)

    def module(self, problem: Problem) -> ModuleOp:
        return module_of(problem)

    def moved(self, problem: Problem, results: Sequence[tuple[Sequence[int], str]]) -> int:
        return moved(problem, results)

    def inputs(self, torch: Any, problem: Problem) -> list[Any]:
        return inputs(torch, problem)

    def peer(self, torch: Any, problem: Problem, given: Sequence[Any]) -> Any:
        return PEERS[problem.op](torch, given, problem.options)

    def off_by(
        self, torch: Any, problem: Problem, given: Sequence[Any], found: Sequence[Any]
    ) -> float:
        return off_by(torch, problem, given, found)

    def for_peer(self, given: Sequence[Any]) -> list[Any]:
        return _for_peer(given)


if __name__ == "__main__":
    sys.exit(Ops().main(__doc__ or ""))
