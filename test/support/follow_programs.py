"""Products whose rows are reduced after them: programs of few columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.builtin import ModuleOp, f32

from polyc.dialects import frontend
from polyc.test.support.sketch import Size, Sketch

ROWS, DEPTH = "M", "K"


def gate(n: Size) -> ModuleOp:
    """A softmax of a product."""
    s = Sketch("gate")
    return s.done(y=s.softmax(s.linear(s.input("x", ROWS, DEPTH), "w", n)))


def normed(n: Size) -> ModuleOp:
    """A norm of what a bias and a residual are added to, with its parameters."""
    s = Sketch("normed")
    x, skip = s.input("x", ROWS, DEPTH), s.input("skip", ROWS, n)
    return s.done(y=s.layer_norm(s.fn("add", s.linear(x, "w", n, bias=True), skip), "norm"))


def active(n: Size) -> ModuleOp:
    """A norm of what a function that is not cheap makes of a product, and that beside it."""
    s = Sketch("active")
    y = s.fn("gelu", s.linear(s.input("x", ROWS, DEPTH), "w", n))
    return s.done(y=s.rms_norm(y, "norm"), x2=y)


def highest(n: Size) -> ModuleOp:
    """Numbers of the rows alone: no output is as wide as the product."""
    s = Sketch("highest")
    y = s.cast(s.linear(s.input("x", ROWS, DEPTH), "w", n), f32)
    most = s.reduce("max", y, 1)
    power = s.fn("exp", s.fn("sub", y, s.reduce("max", y, 1, keep=True)))
    return s.done(top=most, log=s.fn("add", s.fn("log", s.reduce("sum", power, 1)), most))


def heads(n: Size) -> ModuleOp:
    """Queries whose heads have a norm each, as wide as ``n``."""
    s = Sketch("heads")
    wide = n * 3 if isinstance(n, int) else n
    y = s.linear(s.input("x", ROWS, DEPTH), "w", wide)
    apart = s.permute(s.reshape(y, ROWS, 3, n), 1, 0, 2)
    return s.done(y=s.rms_norm(apart, "norm"))


def turned(n: Size) -> ModuleOp:
    """A softmax along what is the rows of the product as it is written."""
    s = Sketch("turned")
    y = s.gemm(s.input("w", n, DEPTH), s.input("x", DEPTH, ROWS))
    return s.done(y=s.add(frontend.SoftmaxOp(y, [0])))


def batched(n: Size) -> ModuleOp:
    s = Sketch("batched")
    y = s.gemm(s.input("x", "B", ROWS, DEPTH), s.input("w", "B", DEPTH, n))
    return s.done(y=s.softmax(y))


PROGRAMS: Mapping[str, Callable[[Size], ModuleOp]] = {
    "gate": gate,
    "normed": normed,
    "active": active,
    "highest": highest,
    "heads": heads,
    "turned": turned,
    "batched": batched,
}
