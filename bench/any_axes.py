"""Race reductions, norms and softmaxes over random axes of random shapes beside torch.compile.

    python bench/any_axes.py [--count 60] [--seed 1] [--part 1/2] [--seconds 100] [--out FILE]
    python bench/any_axes.py --problems softmax:4096x393216:1:f32 sum:16x512x4096:0,2:f16
    python bench/any_axes.py --dry       # plans and modelled times beside a copy's, no GPU

Tensors have two to five axes, of odd sizes too, 16 to 256 MB, in f16, bf16, f32 or ui8.
``random_problems.py`` says what takes turns.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from math import exp, log, prod
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from polyc.bench.random_problems import TYPES, Race, bytes_of, some_shape
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

BYTES = 1 << 24, 1 << 28
"""Of a tensor."""

TOLERANCES = {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 2.0**-15, "ui8": 0.0}
"""What a result is off by at most, of the largest, by type."""

MOST_DOUBLE = 1 << 28
"""Elements of f32 that are held against a result of f64, for which the memory has room."""

EPSILON = 1e-5
ABOVE = 100
"""What a number of ui8 is held against."""


class Problem(NamedTuple):
    """An op over ``axes`` of a tensor."""

    op: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    kind: str

    @property
    def said(self) -> str:
        """As ``--problems`` takes it."""
        shape, axes = "x".join(map(str, self.shape)), ",".join(map(str, self.axes))
        return f"{self.op}:{shape}:{axes}:{self.kind}"

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the result."""
        if self.op in SAME:
            return self.shape
        return tuple(n for at, n in enumerate(self.shape) if at not in self.axes)

    @property
    def out(self) -> str:
        """The type of the result."""
        return {"any": "i1", "all": "i1", "argmax": "i64"}.get(self.op, self.kind)


def parse_problem(text: str) -> Problem:
    """``softmax:4096x393216:1:f32``."""
    op, shape, axes, kind = text.split(":")
    numbers = tuple(map(int, shape.split("x"))), tuple(map(int, axes.split(",")))
    if op not in PEERS or kind not in TOLERANCES:
        types = ", ".join(TOLERANCES)
        raise ValueError(f"{op} of {kind} is none of {', '.join(PEERS)} of {types}")
    return Problem(op, *numbers, kind)


# The graphs --------------------------------------------------------------------------------


def _tensor(shape: Sequence[int], kind: str) -> str:
    return f"!frontend.tensor<[{', '.join(map(str, shape))}], {kind}>"


def text_of(problem: Problem) -> str:
    """The graph of a problem."""
    op, shape, axes, kind = problem
    x, y = _tensor(shape, kind), _tensor(problem.result, problem.out)
    kept = [1 if at in axes else n for at, n in enumerate(shape)]
    k, at = _tensor(kept, kind), f"axes [{', '.join(map(str, axes))}]"
    match op:
        case "sum" | "mean" | "max" | "prod":
            body = f"  %y = frontend.reduce {op} %x {at} : {x} -> {y}"
        case "any" | "all":
            c, one = _tensor(shape, "i1"), f"!frontend.tensor<[], {kind}>"
            body = (
                f"  %z = frontend.constant {ABOVE} : {one}\n"
                f"  %c = frontend.compare gt %x, %z : ({x}, {one}) -> {c}\n"
                f"  %y = frontend.reduce {op} %c {at} : {c} -> {y}"
            )
        case "argmax":
            body = f"  %y = frontend.arg_reduce max %x axis {axes[0]} : {x} -> {y}"
        case "softmax" | "log_softmax":
            body = f"  %y = frontend.{op} %x {at} : {x}"
        case "layer_norm" | "rms_norm":
            body = f"  %y = frontend.{op} %x {at} eps {EPSILON:e} : ({x}) -> {x}"
        case "variance":
            body = (
                f"  %m = frontend.reduce mean %x {at} keepdims : {x} -> {k}\n"
                f"  %d = frontend.elementwise sub %x, %m : ({x}, {k}) -> {x}\n"
                f"  %s = frontend.elementwise mul %d, %d : ({x}, {x}) -> {x}\n"
                f"  %y = frontend.reduce mean %s {at} : {x} -> {y}"
            )
        case "logsumexp":
            body = (
                f"  %m = frontend.reduce max %x {at} keepdims : {x} -> {k}\n"
                f"  %d = frontend.elementwise sub %x, %m : ({x}, {k}) -> {x}\n"
                f"  %e = frontend.elementwise exp %d : {x}\n"
                f"  %s = frontend.reduce sum %e {at} : {x} -> {y}\n"
                f"  %l = frontend.elementwise log %s : {y}\n"
                f"  %n = frontend.reshape %m : {k} -> {y}\n"
                f"  %y = frontend.elementwise add %l, %n : ({y}, {y}) -> {y}"
            )
        case "frobenius":
            body = (
                f"  %q = frontend.elementwise mul %x, %x : ({x}, {x}) -> {x}\n"
                f"  %s = frontend.reduce sum %q {at} keepdims : {x} -> {k}\n"
                f"  %r = frontend.elementwise sqrt %s : {k}\n"
                f"  %y = frontend.elementwise div %x, %r : ({x}, {k}) -> {x}"
            )
        case "l1_norm":
            body = (
                f"  %q = frontend.elementwise abs %x : {x}\n"
                f"  %s = frontend.reduce mean %q {at} keepdims : {x} -> {k}\n"
                f"  %y = frontend.elementwise div %x, %s : ({x}, {k}) -> {x}"
            )
        case _:
            raise ValueError(op)
    return (
        f"frontend.graph @problem(%x: {x}) -> (Y: {y}) {{\n{body}\n  frontend.output %y : {y}\n}}\n"
    )


def _logsumexp(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    return torch.logsumexp(x, axes)


def _softmax(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if len(axes) == 1:
        return torch.softmax(x, axes[0])
    grown = (x - x.amax(axes, keepdim=True)).exp()
    return grown / grown.sum(axes, keepdim=True)


def _log_softmax(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if len(axes) == 1:
        return torch.log_softmax(x, axes[0])
    return x - torch.logsumexp(x, axes, keepdim=True)


def _layer_norm(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if axes == tuple(range(x.dim() - len(axes), x.dim())):
        return torch.nn.functional.layer_norm(x, x.shape[-len(axes) :], None, None, EPSILON)
    v, m = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - m) * (v + EPSILON).rsqrt()


def _rms_norm(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if axes == tuple(range(x.dim() - len(axes), x.dim())):
        return torch.nn.functional.rms_norm(x, x.shape[-len(axes) :], None, EPSILON)
    return x * (x.square().mean(axes, keepdim=True) + EPSILON).rsqrt()


def _prod(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    for axis in reversed(axes):
        x = x.prod(axis)
    return x


PEERS: dict[str, Callable[[Any, Any, tuple[int, ...]], Any]] = {
    "sum": lambda torch, x, axes: x.sum(axes),
    "mean": lambda torch, x, axes: x.mean(axes),
    "max": lambda torch, x, axes: x.amax(axes),
    "variance": lambda torch, x, axes: x.var(axes, correction=0),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "argmax": lambda torch, x, axes: x.argmax(axes[0]),
    "prod": _prod,
    "any": lambda torch, x, axes: (x > ABOVE).any(axes),
    "all": lambda torch, x, axes: (x > ABOVE).all(axes),
    "frobenius": lambda torch, x, axes: x / x.square().sum(axes, keepdim=True).sqrt(),
    "l1_norm": lambda torch, x, axes: x / x.abs().mean(axes, keepdim=True),
}
"""What PyTorch computes, by op."""

SAME = ("layer_norm", "rms_norm", "softmax", "log_softmax", "frobenius", "l1_norm")
"""Ops whose result has the tensor's shape."""

DRAWN = tuple(op for op in PEERS if op not in ("frobenius", "l1_norm"))


def problems(seed: int, count: int) -> list[Problem]:
    """Random problems, the ops in turn."""
    draw = random.Random(seed)
    found: list[Problem] = []
    while len(found) < count:
        op = DRAWN[len(found) % len(DRAWN)]
        kind = "ui8" if op in ("any", "all") else draw.choice(("f16", "f16", "bf16", "f32"))
        rank = draw.choice((2, 2, 3, 3, 4, 5))
        elements = exp(draw.uniform(*map(log, BYTES))) / bytes_of((), kind)
        shape = some_shape(draw, rank, elements)
        whole = bytes_of(shape, kind)
        if not BYTES[0] / 2 <= whole <= 2 * BYTES[1]:
            continue
        many = 1 if op == "argmax" else draw.randint(1, rank)
        axes = tuple(sorted(draw.sample(range(rank), many)))
        if prod(shape[at] for at in axes) >= 8:
            found.append(Problem(op, tuple(shape), axes, kind))
    return found


def off_by(torch: Any, problem: Problem, x: Any, found: Any) -> float:
    """How far a result is from what more bits say, of what it may be."""
    op, _, axes, kind = problem
    if op == "argmax":
        taken = x.gather(axes[0], found.unsqueeze(axes[0])).squeeze(axes[0])
        return 2.0 * (taken != x.amax(axes[0])).sum().item()
    if kind == "ui8":
        return 2.0 * (found != PEERS[op](torch, x, axes)).sum().item()
    wide = x.double() if kind == "f32" and x.numel() <= MOST_DOUBLE else x.float()
    right = PEERS[op](torch, wide, axes)
    del wide
    most = max((right.abs().max().item() or 1.0) * TOLERANCES[kind], 2.0**-24)
    if op in ("sum", "mean") and kind == "f32":
        most = max(most, right.abs().mean().item() * TOLERANCES[kind])
    off = (found.to(right.dtype) - right).abs().max().item() / most
    return off if off == off else float("inf")


class Axes(Race[Problem]):
    """The races of this file."""

    script = "bench/any_axes.py"

    def parse(self, text: str) -> Problem:
        return parse_problem(text)

    def drawn(self, seed: int, count: int) -> list[Problem]:
        return problems(seed, count)

    def module(self, problem: Problem) -> ModuleOp:
        return parse_text(make_context(), text_of(problem), "any_axes.mlir")

    def moved(self, problem: Problem, results: Sequence[tuple[Sequence[int], str]]) -> int:
        out = sum(bytes_of(shape, kind) for shape, kind in results)
        return bytes_of(problem.shape, problem.kind) + out

    def inputs(self, torch: Any, problem: Problem) -> list[Any]:
        op, shape, _, kind = problem
        if kind == "ui8":
            low, high = (ABOVE + 1, 256) if op == "all" else (0, ABOVE + 1)
            return [torch.randint(low, high, shape, device="cuda", dtype=torch.uint8)]
        x = torch.randn(shape, device="cuda")
        dtype = getattr(torch, TYPES[kind][0])
        return [(x * 2e-4 + 1 if op == "prod" else x).to(dtype)]

    def peer(self, torch: Any, problem: Problem, given: Sequence[Any]) -> Any:
        return PEERS[problem.op](torch, given[0], problem.axes)

    def off_by(
        self, torch: Any, problem: Problem, given: Sequence[Any], found: Sequence[Any]
    ) -> float:
        return off_by(torch, problem, given[0], found[0])


if __name__ == "__main__":
    sys.exit(Axes().main(__doc__ or ""))
