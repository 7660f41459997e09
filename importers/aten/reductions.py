"""Converters of ATen's reductions, softmax, scans, and sorts along axes."""

from __future__ import annotations

import math
from typing import Any

from polyc.importers.aten.movements import slice_tensor
from polyc.importers.aten.support import (
    as_value,
    axes_of,
    axis_of,
    count,
    number,
    rank_of,
    real,
    refuse,
    to,
)
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import scans
from polyc.trace.sizes import SizeLike
from polyc.trace.values import Value


def _summed(x: Value, dtype: str | None) -> Value:
    """What a sum adds: integers and conditions in i64, unless a type is named."""
    return to(x, dtype) if dtype is not None else to(x, "i64") if rank_of(x.dtype) < 2 else x


@converter("torch", "aten.sum")
def sum(x: Value, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Value:
    one = _summed(x, dtype)
    return f.sum(one, axes_of(one, dim), keepdim) if one.ndim else one


@converter("torch", "aten.mean")
def mean(x: Value, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Value:
    one = to(x, dtype)
    return f.mean(one, axes_of(one, dim), keepdim) if one.ndim else one


@converter("torch", "aten.prod")
def prod(x: Value, dim: Any = None, keepdim: bool = False, *, dtype: str | None = None) -> Value:
    one = _summed(x, dtype)
    return f.prod(one, axes_of(one, dim), keepdim) if one.ndim else one


def _extreme(x: Value, dim: Any, keepdim: bool, largest: bool) -> Value:
    if not x.ndim:
        return x
    if x.dtype == "i1":
        return (f.any if largest else f.all)(x, axes_of(x, dim), keepdim)
    return (f.max if largest else f.min)(x, axes_of(x, dim), keepdim)


@converter("torch", "aten.amax", "aten.max.default")
def amax(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(x, dim, keepdim, True)


@converter("torch", "aten.amin", "aten.min.default")
def amin(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _extreme(x, dim, keepdim, False)


@converter("torch", "aten.max.dim")
def max_dim(x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return amax(x, dim, keepdim), argmax(x, dim, keepdim)


@converter("torch", "aten.min.dim")
def min_dim(x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return amin(x, dim, keepdim), argmin(x, dim, keepdim)


@converter("torch", "aten.aminmax")
def aminmax(x: Value, *, dim: int | None = None, keepdim: bool = False) -> tuple[Value, Value]:
    return amin(x, dim, keepdim), amax(x, dim, keepdim)


def _places(x: Value, dim: int | None, keepdim: bool, largest: bool) -> Value:
    x = x.cast("i32") if x.dtype == "i1" else x
    if not x.ndim:
        return as_value(0, "i64")
    return (f.argmax if largest else f.argmin)(x, dim, keepdim)


@converter("torch", "aten.argmax")
def argmax(x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _places(x, dim, keepdim, True)


@converter("torch", "aten.argmin")
def argmin(x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _places(x, dim, keepdim, False)


@converter("torch", "aten.any")
def any(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    one = to(x, "i1")
    return f.any(one, axes_of(one, dim), keepdim) if one.ndim else one


@converter("torch", "aten.all")
def all(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    one = to(x, "i1")
    return f.all(one, axes_of(one, dim), keepdim) if one.ndim else one


# Moments ---------------------------------------------------------------------------------------


def variance(x: Value, dim: Any, keepdim: bool, correction: float) -> Value:
    """The mean of squared differences, with ``correction`` fewer of them counted."""
    axes = axes_of(x, dim)
    away = x - f.mean(x, axes, True)
    squares = f.sum(away * away, axes, keepdim)
    sizes = count([x.shape[axis] for axis in axes])
    if isinstance(sizes, int):
        left = sizes - correction
        return squares / float(left) if left > 0 else squares / as_value(0.0, x.dtype)
    return squares / f.maximum(as_value(sizes, x.dtype) - float(correction), 0.0)


def _correction(given: Any) -> float:
    return 1.0 if given is None else float(given)


@converter("torch", "aten.var.correction")
def var(
    x: Value, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> Value:
    return variance(x, dim, keepdim, _correction(correction))


@converter("torch", "aten.std.correction")
def std(
    x: Value, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> Value:
    return f.sqrt(variance(x, dim, keepdim, _correction(correction)))


@converter("torch", "aten.var.dim")
def var_dim(x: Value, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Value:
    return variance(x, dim, keepdim, float(unbiased))


@converter("torch", "aten.std.dim")
def std_dim(x: Value, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Value:
    return f.sqrt(var_dim(x, dim, unbiased, keepdim))


@converter("torch", "aten.var.default")
def var_all(x: Value, unbiased: bool = True) -> Value:
    return var_dim(x, None, unbiased)


@converter("torch", "aten.std.default")
def std_all(x: Value, unbiased: bool = True) -> Value:
    return f.sqrt(var_all(x, unbiased))


@converter("torch", "aten.var_mean.correction")
def var_mean(
    x: Value, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    return variance(x, dim, keepdim, _correction(correction)), mean(x, dim, keepdim)


@converter("torch", "aten.var_mean.dim")
def var_mean_dim(
    x: Value, dim: Any, unbiased: bool = True, keepdim: bool = False
) -> tuple[Value, Value]:
    return variance(x, dim, keepdim, float(unbiased)), mean(x, dim, keepdim)


@converter("torch", "aten.std_mean.dim")
def std_mean_dim(
    x: Value, dim: Any, unbiased: bool = True, keepdim: bool = False
) -> tuple[Value, Value]:
    return std_dim(x, dim, unbiased, keepdim), mean(x, dim, keepdim)


@converter("torch", "aten.var_mean.default")
def var_mean_all(x: Value, unbiased: bool = True) -> tuple[Value, Value]:
    return var_mean_dim(x, None, unbiased)


@converter("torch", "aten.std_mean.default")
def std_mean_all(x: Value, unbiased: bool = True) -> tuple[Value, Value]:
    return std_mean_dim(x, None, unbiased)


@converter("torch", "aten.std_mean.correction")
def std_mean(
    x: Value, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Value, Value]:
    return std(x, dim, correction=correction, keepdim=keepdim), mean(x, dim, keepdim)


@converter("torch", "aten.linalg_vector_norm", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def vector_norm(
    x: Value, ord: float | None = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    one, axes = to(x, dtype), axes_of(x, dim)
    ord = 2 if ord is None else ord
    if ord in (1, 2):
        return f.norm(one, axes, keepdim, ord=int(ord))
    if math.isinf(ord):
        return (f.max if ord > 0 else f.min)(f.abs(one), axes, keepdim)
    if ord == 0:
        return f.sum((one != 0).cast(one.dtype), axes, keepdim)
    return f.pow(f.sum(f.pow(f.abs(one), float(ord)), axes, keepdim), 1 / float(ord))


@converter("torch", "aten._weight_norm")
def weight_norm(v: Value, g: Value, dim: int = 0) -> Value:
    return weight_norm_interface(v, g, dim)[0]


@converter("torch", "aten._weight_norm_interface")
def weight_norm_interface(v: Value, g: Value, dim: int = 0) -> list[Value]:
    """A weight of the direction of ``v`` with lengths ``g`` along an axis, and the lengths of
    ``v``."""
    others = [axis for axis in range(v.ndim) if axis != axis_of(v, dim)]
    one = to(v, "f32")
    length = f.sqrt(f.sum(one * one, others, True))
    return [to(one * (to(g, "f32") / length), v.dtype), to(length, g.dtype)]


@converter("torch", "aten.linalg_norm", "aten.frobenius_norm")
def linalg_norm(
    x: Value, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    if ord is not None and not (isinstance(dim, int) or len(dim or []) == 1):
        raise refuse(f"the norm {ord!r} of a matrix is not known, the norm of vectors is")
    return vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


# Along an axis ---------------------------------------------------------------------------------


@converter("torch", "aten.softmax.int")
def softmax(x: Value, dim: int, dtype: str | None = None) -> Value:
    one = to(x, dtype)
    return f.softmax(one, dim) if one.ndim else as_value(1.0, one.dtype)


@converter("torch", "aten._softmax", "aten._safe_softmax")
def softmax_half(x: Value, dim: int, half_to_float: Any = False, *, dtype: Any = None) -> Value:
    return softmax(x, dim, "f32" if half_to_float is True else dtype)


@converter("torch", "aten.log_softmax.int")
def log_softmax(x: Value, dim: int, dtype: str | None = None) -> Value:
    one = to(x, dtype)
    return f.log_softmax(one, dim) if one.ndim else as_value(0.0, one.dtype)


@converter("torch", "aten._log_softmax")
def log_softmax_half(x: Value, dim: int, half_to_float: bool = False) -> Value:
    return log_softmax(x, dim, "f32" if half_to_float else None)


@converter("torch", "aten.logsumexp")
def logsumexp(x: Value, dim: Any, keepdim: bool = False) -> Value:
    return f.logsumexp(real(x), axes_of(x, dim), keepdim)


@converter("torch", "aten.cumsum")
def cumsum(x: Value, dim: int, *, dtype: str | None = None) -> Value:
    one = _summed(x, dtype)
    return scans.cumsum(one, dim) if one.ndim else one


@converter("torch", "aten.cumprod")
def cumprod(x: Value, dim: int, *, dtype: str | None = None) -> Value:
    one = _summed(x, dtype)
    return scans.cumprod(one, dim) if one.ndim else one


@converter("torch", "aten.diff")
def diff(
    x: Value,
    n: int = 1,
    dim: int = -1,
    prepend: Value | None = None,
    append: Value | None = None,
) -> Value:
    parts = [one for one in (prepend, x, append) if one is not None]
    found = f.concat(parts, dim)
    for _ in range(n):
        later, earlier = slice_tensor(found, dim, 1), slice_tensor(found, dim, 0, -1)
        found = later ^ earlier if found.dtype == "i1" else later - earlier
    return found


@converter("torch", "aten.topk")
def topk(
    x: Value, k: SizeLike, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    if not x.ndim:
        return x, as_value(0, "i64")
    if not isinstance(k, int):
        raise refuse(f"topk gives a known number of elements, not {k}")
    return f.topk(number(x), k, axis_of(x, dim), largest)


@converter("torch", "aten.sort.default")
def sort(x: Value, dim: int = -1, descending: bool = False) -> tuple[Value, Value]:
    if not x.ndim:
        return x, as_value(0, "i64")
    return f.sort(x, axis_of(x, dim), descending)


@converter("torch", "aten.sort.stable")
def sort_stable(
    x: Value, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    return sort(x, dim, descending)


@converter("torch", "aten.argsort.default")
def argsort(x: Value, dim: int = -1, descending: bool = False) -> Value:
    return sort(x, dim, descending)[1]


@converter("torch", "aten.argsort.stable")
def argsort_stable(x: Value, *, stable: bool, dim: int = -1, descending: bool = False) -> Value:
    return sort(x, dim, descending)[1]
