"""Reductions, places of extremes, scans and orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from polyc.dialects.common.dim import Dim
from polyc.importers.onnx_ops.movements import axes_of
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import scans as S
from polyc.trace.values import Value

Reduce = Callable[[Value, Sequence[int], bool], Value]


def _along(node: Node) -> tuple[Value, list[int], bool] | Value:
    """The value, its axes, and whether they stay; the value alone where there is nothing to do."""
    x = node.value()
    axes = _declared_axes(node, x) if not node.is_known(1) else axes_of(node, x.ndim)
    if not axes:
        if node.attr("noop_with_empty_axes", 0):
            return x
        axes = list(range(x.ndim))
    return x, axes, bool(node.attr("keepdims", 1))


def _declared_axes(node: Node, x: Value) -> list[int] | None:
    """Axes that are data, where the declared sizes leave one choice of them."""
    declared = node.declared()
    dims, one = x.kind.dims, Dim.const(1)
    if declared is None:
        return axes_of(node, x.ndim)
    if node.attr("keepdims", 1):
        # An axis of one point makes no difference.
        gone = [i for i, (a, b) in enumerate(zip(dims, declared, strict=True)) if a != b]
        return gone or [i for i, d in enumerate(dims) if d == one][:1] or axes_of(node, x.ndim)
    choices = list(combinations(range(x.ndim), x.ndim - len(declared)))
    found = [c for c in choices if tuple(d for i, d in enumerate(dims) if i not in c) == declared]
    return list(found[0]) if len(found) == 1 else axes_of(node, x.ndim)


def _reduction(op: str, reduce: Reduce, alone: Callable[[Value], Value] | None = None) -> None:
    @converter("onnx", op)
    def say(node: Node) -> Value:
        found = _along(node)
        if isinstance(found, Value):
            return found if alone is None else alone(found)
        x, axes, keep = found
        return reduce(x, axes, keep) if axes else (x if alone is None else alone(x))

    say.__name__ = op


def _by(fn: str) -> Reduce:
    def reduce(x: Value, axes: Sequence[int], keep: bool) -> Value:
        return Value(x.builder, x.builder.reduce(fn, x.ssa, list(axes), keepdims=keep))

    return reduce


def _extreme(fn: str, both: str) -> Reduce:
    def reduce(x: Value, axes: Sequence[int], keep: bool) -> Value:
        return _by(both if x.dtype == "i1" else fn)(x, axes, keep)

    return reduce


def _mean(x: Value, axes: Sequence[int], keep: bool) -> Value:
    return _by("mean")(x, axes, keep)


_reduction("ReduceSum", _by("sum"))
_reduction("ReduceProd", _by("prod"))
_reduction("ReduceMean", _mean)
_reduction("ReduceMax", _extreme("max", "any"))
_reduction("ReduceMin", _extreme("min", "all"))
_reduction("ReduceL1", lambda x, a, k: _by("sum")(abs(x), a, k), abs)
_reduction("ReduceSumSquare", lambda x, a, k: _by("sum")(x * x, a, k), lambda x: x * x)
_reduction("ReduceL2", lambda x, a, k: F.sqrt(_by("sum")(x * x, a, k)), abs)
_reduction("ReduceLogSum", lambda x, a, k: F.log(_by("sum")(x, a, k)), F.log)
_reduction("ReduceLogSumExp", lambda x, a, k: F.logsumexp(x, list(a), k))


def _place(op: str, find: Callable[..., Value]) -> None:
    @converter("onnx", op)
    def say(node: Node) -> Value:
        last = bool(node.attr("select_last_index", 0))
        keep = bool(node.attr("keepdims", 1))
        return find(node.value(), node.axis(), keep, select_last_index=last)

    say.__name__ = op


_place("ArgMax", F.argmax)
_place("ArgMin", F.argmin)


@converter("onnx", "CumSum")
def cumsum(node: Node) -> Value:
    """Sums up to each element."""
    return _scan(node, S.cumsum)


@converter("onnx", "CumProd")
def cumprod(node: Node) -> Value:
    """Products up to each element."""
    return _scan(node, S.cumprod)


def _scan(node: Node, scan: Callable[..., Value]) -> Value:
    axis = node.placed(int(node.number(1, "its axis")), node.rank())
    how = {name: bool(node.attr(name, 0)) for name in ("reverse", "exclusive")}
    return scan(node.value(), axis, **how)


@converter("onnx", "TopK")
def topk(node: Node) -> tuple[Value, Value]:
    """The first elements along an axis in their order, and where they stood."""
    axis = node.axis(default=-1)
    declared = None if node.is_known(1) else node.declared()
    size = None if declared is None else declared[axis].constant()
    k: Any = node.number(1, "how many") if node.has(1) and size is None else node.attr("k", size)
    largest = bool(node.attr("largest", 1))
    return F.topk(node.value(), int(k), axis, largest)


@converter("onnx", "LpNormalization")
def lp_normalization(node: Node) -> Value:
    """Over its norm along an axis, 0 where that is 0."""
    x, axis = node.value(), node.axis(default=-1)
    length = F.norm(x, axis, True, ord=int(node.attr("p", 2)))
    return F.where(_wide(length == 0.0, x), 0.0, x / length)


def _wide(condition: Value, like: Value) -> Value:
    build = condition.builder
    return Value(build, build.expand(condition.ssa, list(like.kind.dims)))


@converter("onnx", "MeanVarianceNormalization")
def mean_variance(node: Node) -> Value:
    """Away from the mean, over the deviation."""
    x = node.value()
    axes = list(node.attr("axes", (0, 2, 3)))
    away = x - F.mean(x, axes, True)
    return away / (F.sqrt(F.mean(away * away, axes, True)) + 1e-9)
