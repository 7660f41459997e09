"""Converters of ATen's ops of order: running extremes, quantiles, modes, and medians."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

from polyc.importers.aten.movements import as_last
from polyc.importers.aten.support import as_value, axis_of, rank_of, refuse, size, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import gathers, scans
from polyc.trace.values import Value

FEW, WAYS = 16, 4
"""Elements up to which each has a sum of its own, and else how many times as many a pass adds."""

FEW_OF = 8
"""Of so many times as many elements those up to one in the order are kept, and not all sorted."""


def _running(x: Value, dim: int, largest: bool) -> tuple[Value, Value]:
    """Running extremes, and the last place so far that has one; a NaN stays."""
    if not x.ndim:
        return x, as_value(0, "i64")
    at = axis_of(x, dim)
    found = (scans.cummax if largest else scans.cummin)(x, at)
    here = x == found
    if rank_of(x.dtype) == 2:
        here = here | f.isnan(x)
    places = f.where(here, f.iota(x.shape, at), as_value(-1, "i64"))
    return found, scans.cummax(places, at)


@converter("torch", "aten.cummax")
def cummax(x: Value, dim: int) -> tuple[Value, Value]:
    return _running(x, dim, True)


@converter("torch", "aten.cummin")
def cummin(x: Value, dim: int) -> tuple[Value, Value]:
    return _running(x, dim, False)


@converter("torch", "aten.logcumsumexp")
def logcumsumexp(x: Value, dim: int) -> Value:
    """Of each place the logarithm of the sum over those up to it, by its own largest one."""
    if not x.ndim:
        return x
    at = axis_of(x, dim)
    known = x.shape[at]
    if isinstance(known, int) and known > FEW:
        found, step = to(x, "f32") if rank_of(x.dtype) == 2 else x, 1
        while step < known:
            found, step = _added_behind(found, at, step), step * WAYS
        return to(found, x.dtype)
    moved = x.permute(*[i for i in range(x.ndim) if i != at], at)
    long = size(x, at)
    wide = moved.unsqueeze(-2).expand(*moved.shape[:-1], long, long)
    upto = f.iota((long, long), 1) <= f.iota((long, long), 0)
    found = f.logsumexp(f.where(upto, wide, float("-inf")), -1)
    return found.permute(*range(at), x.ndim - 1, *range(at, x.ndim - 1))


def _added_behind(x: Value, axis: int, step: int) -> Value:
    """Logarithms of the sums of so many elements, with those of as many times ``WAYS``: of those
    before them by one step, two and so on."""
    parts, long = [x], int(x.shape[axis])
    for place in range(step, min(WAYS * step, long), step):
        cut = (slice(None),) * axis + (slice(0, long - place),)
        room = [(place, 0) if i == axis else (0, 0) for i in range(x.ndim)]
        parts.append(f.pad(x[cut], room, float("-inf")))
    top = reduce(f.maximum, parts)
    top = f.where(f.isinf(top), 0.0, top)
    return f.log(reduce(add, [f.exp(part - top) for part in parts])) + top


@converter("torch", "aten.mode")
def mode(x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    """The smallest of the most frequent elements, and the last place that has it; a NaN where there
    is nothing else."""
    if not x.ndim:
        return x, as_value(0, "i64")
    at, real = axis_of(x, dim), rank_of(x.dtype) == 2
    alike = x.unsqueeze(at) == x.unsqueeze(at + 1)
    counts = f.sum(alike.cast("i64"), at)
    often = counts == f.max(counts, at, True)
    beyond = float("inf") if real else f.max(x, at, True)
    found = f.min(f.where(often, x, beyond), at, True)
    here = x == found
    if real:
        here = here | f.isnan(found)
    places = f.where(here, f.iota(x.shape, at), as_value(-1, "i64"))
    last = f.max(places, at, True)
    return (found, last) if keepdim else (found.squeeze(at), last.squeeze(at))


# Quantiles -----------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "nearest", "midpoint")


def _quantiles(x: Value, q: Any, dim: Any, keepdim: bool, how: str, skipping: bool) -> Value:
    """Elements between places of the sorted ones; ``skipping`` leaves NaN out, which else stay."""
    if how not in INTERPOLATIONS:
        raise refuse(f"interpolation is one of {', '.join(INTERPOLATIONS)}, not {how!r}")
    axes = x.ndim
    at = 0 if dim is None else axis_of(x, dim)
    one = x.reshape(-1) if dim is None else x
    moved = one.permute(*[i for i in range(one.ndim) if i != at], at)
    ordered, _ = f.sort(moved, moved.ndim - 1)
    odd = f.isnan(moved)
    parts = to(q, x.dtype) if isinstance(q, Value) else as_value(float(q), x.dtype)
    several = parts.ndim
    parts = parts.reshape(-1)
    many = as_last(moved, moved.ndim - 1)  # the place of the last one
    last: Value = as_value(many, x.dtype).expand(*moved.shape[:-1], 1)
    if skipping:
        last = f.maximum(f.sum((~odd).cast(x.dtype), -1, True) - 1.0, 0.0)
    place = last * parts
    if how == "lower":
        place = f.floor(place)
    elif how == "higher":
        place = f.ceil(place)
    elif how == "nearest":
        place = f.round(place)
    below, above = f.floor(place), f.ceil(place)
    found, high = (
        gathers.take_along_axis(ordered, p.cast("i64"), ordered.ndim - 1) for p in (below, above)
    )
    if how in ("linear", "midpoint"):
        # From the nearer one; between infinities nothing is known, not even at an end.
        share = as_value(0.5, x.dtype) if how == "midpoint" else place - below
        away = high - found
        found = f.where(share < 0.5, found + share * away, high - away * (1.0 - share))
    spoiled = f.all(odd, -1, True) if skipping else f.any(odd, -1, True)
    found = f.where(spoiled, float("nan"), found)
    # The quantiles come first.
    found = found.permute(found.ndim - 1, *range(found.ndim - 1))
    if keepdim:
        found = (
            found.reshape(found.shape[0], *[1] * axes) if dim is None else found.unsqueeze(at + 1)
        )
    return found if several else found.squeeze(0)


@converter("torch", "aten.quantile")
def quantile(
    x: Value,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Value:
    return _quantiles(x, q, dim, keepdim, interpolation, False)


@converter("torch", "aten.nanquantile")
def nanquantile(
    x: Value,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Value:
    return _quantiles(x, q, dim, keepdim, interpolation, True)


# Medians -------------------------------------------------------------------------------------


@converter("torch", "aten.kthvalue")
def kthvalue(x: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, Value]:
    if not x.ndim:
        return x, as_value(0, "i64")
    at = axis_of(x, dim)
    long = size(x, at)
    few = isinstance(long, int) and 0 < k * FEW_OF <= long
    values, places = f.topk(x, k, at, False) if few else f.sort(x, at)
    cut = (*[slice(None)] * at, slice(k - 1, k))
    found = values[cut], places[cut]
    return found if keepdim else (found[0].squeeze(at), found[1].squeeze(at))


@converter("torch", "aten.median.dim")
def median(x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The lower one of the two in the middle; the first NaN where there is one."""
    if not x.ndim:
        return x, as_value(0, "i64")
    long = size(x, axis_of(x, dim))
    if not isinstance(long, int):
        raise refuse(f"the median of {long} elements has no known place")
    values, places = kthvalue(x, (long + 1) // 2, dim, keepdim)
    if rank_of(x.dtype) < 2:
        return values, places
    odd = f.isnan(x)
    spoiled = f.any(odd, axis_of(x, dim), keepdim)
    first = f.argmax(odd.cast("i32"), axis_of(x, dim), keepdim)
    return f.where(spoiled, float("nan"), values), f.where(spoiled, first, places)


@converter("torch", "aten.nanmedian.dim")
def nanmedian(x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    """The median of what is no NaN; NaN where nothing else is."""
    if rank_of(x.dtype) < 2 or not x.ndim:
        return median(x, dim, keepdim)
    at = axis_of(x, dim)
    values, places = f.sort(x, at)
    there = f.sum((~f.isnan(x)).cast("i64"), at, True)
    place = f.maximum((there - 1) // 2, as_value(0, "i64"))
    found = tuple(gathers.take_along_axis(one, place, at) for one in (values, places))
    return (found[0], found[1]) if keepdim else (found[0].squeeze(at), found[1].squeeze(at))


@converter("torch", "aten.median.default")
def median_of_all(x: Value) -> Value:
    return median(x.reshape(-1), 0)[0]


@converter("torch", "aten.nanmedian.default")
def nanmedian_of_all(x: Value) -> Value:
    return nanmedian(x.reshape(-1), 0)[0]
