"""Converters of ATen's gathers and scatters: elements at indices that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyc.importers.aten.support import as_value, axis_of, rank_of, refuse, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import gathers
from polyc.trace.values import Value


@converter("torch", "aten.embedding")
def embedding(
    weight: Value,
    indices: Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    return gathers.embedding(weight, indices)


@converter("torch", "aten.index_select")
def index_select(x: Value, dim: int, index: Value) -> Value:
    places = index if index.ndim else index.reshape(1)
    return gathers.take(x, places, axis_of(x, dim)) if x.ndim else x


@converter("torch", "aten.gather")
def gather(x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    return gathers.take_along_axis(_within(x, index, dim), index, axis_of(x, dim))


def _within(x: Value, index: Value, dim: int) -> Value:
    """The part of ``x`` that indices of a smaller shape stand beside."""
    at = axis_of(x, dim)
    cuts = [slice(None) if i == at else slice(0, index.shape[i]) for i in range(x.ndim)]
    return x[tuple(cuts)]


@converter("torch", "aten.take_along_dim")
def take_along_dim(x: Value, index: Value, dim: int | None = None) -> Value:
    if dim is None:
        return gathers.take_along_axis(x.reshape(-1), index.reshape(-1), 0)
    return gathers.take_along_axis(x, index, axis_of(x, dim))


@converter("torch", "aten.take")
def take(x: Value, index: Value) -> Value:
    return gathers.take(x.reshape(-1), index, 0)


@converter("torch", "aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(x: Value, indices: Sequence[Value | None]) -> Value:
    """Elements at indices of some axes, which broadcast; the result has their axes at the first of
    these, or in front where other axes stand between them."""
    places = [i for i, one in enumerate(indices) if one is not None]
    if not places:
        return x
    given = [_index(one) for one in indices if one is not None]
    together = places == list(range(places[0], places[-1] + 1))
    if len(given) == 1:
        return gathers.take(x, given[0], places[0])
    rest = [axis for axis in range(x.ndim) if axis not in places]
    moved = x.permute(*places, *rest)
    shape = _broadcast(given)
    tuples = f.stack([one.expand(*shape) for one in given], len(shape))
    found = gathers.gather_nd(moved, tuples)
    if not together or places[0] == 0:
        return found
    front, rank = places[0], len(shape)
    order = [*range(rank, rank + front), *range(rank), *range(rank + front, found.ndim)]
    return found.permute(*order)


def _index(given: Value) -> Value:
    if given.dtype in ("i1", "ui8"):
        raise refuse(
            "an index of conditions gives as many elements as hold, and a graph's sizes are those "
            "of its inputs; use torch.where"
        )
    return given


def _broadcast(given: Sequence[Value]) -> tuple[Any, ...]:
    """The shape that indices have in common, which the builder finds."""
    found = to(given[0], "i64")
    for one in given[1:]:
        found = found + to(one, "i64")
    return found.shape


@converter("torch", "aten.index_put", "aten._unsafe_index_put")
def index_put(
    x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    places = [i for i, one in enumerate(indices) if one is not None]
    if len(places) == 1 and (given := indices[places[0]]) is not None and given.dtype == "i1":
        if accumulate or values.ndim:
            raise refuse("index_put at conditions takes a number and does not accumulate")
        at, rest = places[0], x.ndim - places[0] - given.ndim
        mask = given.reshape(*[1] * at, *given.shape, *[1] * rest)
        return f.where(mask, to(values, x.dtype), x)
    if places != list(range(len(places))):
        # The axes that are indexed come first; values have the others behind those of the indices,
        # or in front of them where these stand in front of the first one, all side by side.
        rest = [axis for axis in range(x.ndim) if axis not in places]
        given = [one for one in indices if one is not None]
        rank = len(_broadcast([_index(one) for one in given]))
        front = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
        whole = rank + len(rest)
        new = values.reshape(*[1] * (whole - values.ndim), *values.shape)
        turned = [*range(front, front + rank), *range(front), *range(front + rank, whole)]
        moved = [*places, *rest]
        made = index_put(x.permute(*moved), given, new.permute(*turned), accumulate)
        return made.permute(*[moved.index(axis) for axis in range(x.ndim)])
    given_all = [_index(one) for one in indices if one is not None]
    shape = _broadcast(given_all)
    tuples = f.stack([one.expand(*shape) for one in given_all], len(shape))
    wide = to(values, x.dtype).expand(*shape, *x.shape[len(places) :])
    return gathers.scatter_nd(x, tuples, wide, reduce="add" if accumulate else "set")


@converter("torch", "aten.index_add")
def index_add(x: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1) -> Value:
    new = source if alpha == 1 else source * as_value(alpha, source.dtype)
    return gathers.scatter(x, index, to(new, x.dtype), axis_of(x, dim), reduce="add")


@converter("torch", "aten.index_copy")
def index_copy(x: Value, dim: int, index: Value, source: Value) -> Value:
    return gathers.scatter(x, index, to(source, x.dtype), axis_of(x, dim))


@converter("torch", "aten.index_fill")
def index_fill(x: Value, dim: int, index: Value, value: Any) -> Value:
    at = axis_of(x, dim)
    shape = [*x.shape[:at], *index.shape, *x.shape[at + 1 :]]
    return gathers.scatter(x, index, as_value(value, x.dtype).expand(*shape), at)


@converter("torch", "aten.scatter.src", "aten.scatter.value")
def scatter(x: Value, dim: int, index: Value, source: Any) -> Value:
    return _scattered(x, dim, index, source, "set")


@converter("torch", "aten.scatter_add")
def scatter_add(x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scattered(x, dim, index, source, "add")


@converter("torch", "aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_with(x: Value, dim: int, index: Value, source: Any, *, reduce: str) -> Value:
    return _scattered(x, dim, index, source, {"add": "add", "multiply": "mul"}[reduce])


_REDUCES = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@converter("torch", "aten.scatter_reduce.two")
def scatter_reduce(
    x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    if reduce not in (*_REDUCES, "mean"):
        raise refuse(
            f"scatter_reduce {reduce!r} is not known; there are mean, {', '.join(_REDUCES)}"
        )
    if include_self and reduce != "mean":
        return _scattered(x, dim, index, source, _REDUCES[reduce])
    # Elements that nothing is scattered to stay; of others what was there may not count.
    ones = _scattered(f.full(x.shape, 0, "i32"), dim, index, 1, "add")
    there = ones > 0
    how = _REDUCES.get(reduce, "add")
    base = x if include_self else f.where(there, _neutral(x.dtype, how), x)
    found = _scattered(base, dim, index, source, how)
    if reduce == "mean":
        counts = f.maximum(ones + 1 if include_self else ones, 1)
        if rank_of(x.dtype) != 2:
            raise refuse("scatter_reduce 'mean' is of real numbers here")
        found = found / to(counts, x.dtype)
    return found


@converter("torch", "aten.index_reduce")
def index_reduce(
    x: Value, dim: int, index: Value, source: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """A scatter of whole rows of an axis."""
    at = axis_of(x, dim)
    along = [-1 if axis == at else 1 for axis in range(source.ndim)]
    wide = index.reshape(*along).expand(*source.shape)
    return scatter_reduce(x, dim, wide, source, reduce, include_self=include_self)


def _neutral(dtype: str, how: str) -> Value:
    """What changes nothing in a reduction."""
    if how in ("add", "mul"):
        return as_value(0 if how == "add" else 1, dtype)
    if rank_of(dtype) == 2:
        return as_value(float("-inf" if how == "max" else "inf"), dtype)
    bits = int(dtype.strip("ui"))
    low, high = (
        (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    return as_value(low if how == "max" else high, dtype)


def _scattered(x: Value, dim: int, index: Value, source: Any, reduce: str) -> Value:
    at = axis_of(x, dim)
    if isinstance(source, Value) and source.ndim:
        cuts = tuple(slice(0, one) for one in index.shape)
        new = to(source[cuts], x.dtype)
    else:
        new = as_value(source, x.dtype).expand(*index.shape)
    return gathers.scatter_along_axis(x, index, new, at, reduce=reduce)
