"""Converters of ATen's ops of counts, borders and bags: where elements belong by their values."""

from __future__ import annotations

import math
from typing import Any

from polyc.dialects import frontend
from polyc.importers.aten.support import as_value, promoted, refuse, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import gathers, scans
from polyc.trace.values import Value

COUNTED, COMPARED = 64, 1 << 24
"""Borders that are counted one by one for each number, at most, and comparisons of these: each of
4 million numbers is found among 33 by halves in 26 us where counting takes an H100 93 us, and each
of 200 thousand among 64 in 6 where counting takes 4."""

WIDE = 1 << 30
"""Borders from which on a place has 64 bits."""

_BAGS = ("sum", "mean", "max")


@converter("torch", "aten.embedding_bag.padding_idx", "aten.embedding_bag.default")
@converter("torch", "aten._embedding_bag", "aten._embedding_bag_forward_only")
def embedding_bag(
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Value, None, None, None]:
    """Sums, means or maxima of the rows of bags, which begin at ``offsets``.

    Rows go to the bag that so many offsets are not beyond.  PyTorch's other results are for
    gradients.
    """
    if padding_idx is not None and padding_idx >= 0:
        raise refuse("embedding_bag with a padding_idx is not known")
    kind = _BAGS[mode]
    if (each := _spaced(offsets, indices, include_last_offset)) is not None:
        rows = gathers.embedding(weight, indices.reshape(-1, each))
        if per_sample_weights is not None:
            rows = rows * to(per_sample_weights, rows.dtype).reshape(-1, each, 1)
        made = {"sum": f.sum, "mean": f.mean, "max": f.max}[kind](rows, 1)
        return made, None, None, None
    rows = gathers.embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * to(per_sample_weights, rows.dtype).unsqueeze(1)
    starts = offsets[:-1] if include_last_offset else offsets
    # Bags that begin up to a row, and one less; one that begins behind all rows is empty.
    ones = f.full((starts.shape[0],), 1, "i64")
    begun = gathers.scatter(f.full((indices.shape[0],), 0, "i64"), starts, ones, 0, reduce="add")
    bag = scans.cumsum(begun, 0) - 1
    shape = (starts.shape[0], weight.shape[1])
    counted = as_value(0.0, rows.dtype).expand(*shape[:1])
    counts = gathers.scatter(
        counted, bag, f.full((indices.shape[0],), 1.0, rows.dtype), 0, reduce="add"
    )
    if kind == "max":
        least = as_value(float("-inf"), rows.dtype).expand(*shape)
        most = gathers.scatter(least, bag, rows, 0, reduce="max")
        return f.where((counts > 0).unsqueeze(1), most, 0.0), None, None, None
    empty = as_value(0.0, rows.dtype).expand(*shape)
    found = gathers.scatter(empty, bag, rows, 0, reduce="add")
    if kind == "mean":
        found = found / f.maximum(counts, 1.0).unsqueeze(1)
    return found, None, None, None


def _spaced(offsets: Value, indices: Value, last: bool) -> int | None:
    """The rows of each bag where all have as many, as those of indices of two axes; else None.

    Their offsets are then numbers in order, times so many.
    """
    op, each = offsets.ssa.owner, 1
    if isinstance(op, frontend.ElementwiseOp) and op.fn.data == "mul":
        numbers = [one.owner for one in op.operands if isinstance(one.owner, frontend.ConstantOp)]
        orders = [one.owner for one in op.operands if isinstance(one.owner, frontend.IotaOp)]
        if len(numbers) != 1 or len(orders) != 1:
            return None
        op, each = orders[0], int(numbers[0].number)
    sizes = offsets.shape[0], indices.shape[0]
    if not isinstance(op, frontend.IotaOp) or not all(isinstance(one, int) for one in sizes):
        return None
    bags = int(sizes[0]) - last
    return each if each > 0 and bags * each == int(sizes[1]) else None


@converter("torch", "aten.masked_scatter")
def masked_scatter(x: Value, mask: Value, source: Value) -> Value:
    """The elements of ``source``, one after another, where the mask holds."""
    marked = mask.expand(*x.shape).reshape(-1)
    place = scans.cumsum(marked.cast("i64"), 0) - 1
    taken = gathers.take(source.reshape(-1), f.maximum(place, 0), 0)
    return f.where(marked, to(taken, x.dtype), x.reshape(-1)).reshape(*x.shape)


@converter("torch", "aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    borders: Value,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """How many borders are below each number, or not above it."""
    if sorter is not None:
        borders = gathers.take_along_axis(borders, sorter, -1)
    given = x if isinstance(x, Value) else as_value(x, borders.dtype)
    element = promoted(borders, given)
    found = _sought(as_value(borders, element), as_value(given, element), right or side == "right")
    return found.cast("i32") if out_int32 else found


def _sought(borders: Value, x: Value, right: bool) -> Value:
    """How many borders, in order along the last axis, are below each number, or with ``right`` not
    above it: counted where they are few, else found by halves."""
    count = borders.shape[-1]
    if not isinstance(count, int) or (count <= COUNTED and _are_few(x, count)):
        one, many = x.unsqueeze(-1), borders if borders.ndim == 1 else borders.unsqueeze(-2)
        return f.sum(_below(many, one, right).cast("i64"), -1)
    kind = frontend.GatherOp if borders.ndim == 1 else frontend.GatherElementsOp
    found = f.full(x.shape, 0, "i64" if count > WIDE else "i32")
    for step in (1 << bit for bit in reversed(range(count.bit_length()))):
        # No place is negative, and one behind the last border is clamped.
        place = (found + (step - 1)).ssa
        seen = x.builder.gather(kind, borders.ssa, place, borders.ndim - 1, None, from_end=False)
        below = _below(Value(x.builder, seen), x, right)
        found = f.where(below & (found + step <= count), found + step, found)
    return found.cast("i64")


def _are_few(x: Value, count: int) -> bool:
    """Whether numbers of known sizes are compared with so many borders sooner than halved."""
    known = [size for size in x.shape if isinstance(size, int)]
    return len(known) == len(x.shape) and math.prod(known) * count <= COMPARED


def _below(border: Value, x: Value, right: bool) -> Value:
    """Whether a border is below a number, or not above it; a NaN stands behind all."""
    return ~(border > x) if right else ~(border >= x)


@converter("torch", "aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(x: Any, borders: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    return searchsorted(borders, x, out_int32=out_int32, right=right)


@converter("torch", "aten.histc")
def histc(x: Value, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    """How many elements lie in each of equal parts; the last one has its end too."""
    if min == max:
        raise refuse("histc finds its bounds in its input; name min and max")
    one = to(x.reshape(-1), "f32")
    low, width = float(min), (float(max) - float(min)) / bins
    place = f.minimum(f.floor((one - low) / width), float(bins - 1))
    inside = (one >= low) & (one <= float(max))
    held = f.where(inside, place, -1.0).cast("i32").unsqueeze(1)
    same = held == f.arange(bins, "i32")
    return to(f.sum(same.cast("i32"), 0), x.dtype)


# Products of rows with the matrix of their group ------------------------------------------------


@converter("torch", "aten._grouped_mm", "transformers.grouped_mm_fallback.default")
def grouped_mm(
    x: Value,
    weights: Value,
    offs: Value | None = None,
    bias: Value | None = None,
    out_dtype: str | None = None,
) -> Value:
    """Rows up to ``offs[g]``, from where group g - 1 ends, by the matrix of group g.

    It is one product over groups and depth, of rows that are zeros in other groups.
    """
    if offs is None or x.ndim != 2 or weights.ndim != 3 or bias is not None:
        raise refuse("a grouped product is of rows, [S, K], by matrices, [G, K, N], with offsets")
    groups, depth, columns = weights.shape
    rows = x.shape[0]
    place = f.arange(rows, offs.dtype).unsqueeze(1)
    group = f.sum((offs <= place).cast("i32"), 1)
    own = group.unsqueeze(1) == f.arange(groups, "i32")
    wide = f.where(own.unsqueeze(2), x.unsqueeze(1), 0.0).reshape(rows, groups * depth)
    made = f.matmul(wide, weights.reshape(groups * depth, columns))
    return to(made, out_dtype)
