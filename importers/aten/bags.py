"""Converters of ATen's ops of counts, borders and bags: where elements belong by their values."""

from __future__ import annotations

from typing import Any

from polyc.importers.aten.support import as_value, promoted, refuse, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import gathers, scans
from polyc.trace.values import Value

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
    rows = gathers.embedding(weight, indices)
    if per_sample_weights is not None:
        rows = rows * to(per_sample_weights, rows.dtype).unsqueeze(1)
    starts = offsets[:-1] if include_last_offset else offsets
    places = f.arange(indices.shape[0], offsets.dtype).unsqueeze(1)
    bag = f.sum((starts <= places).cast("i64"), 1) - 1
    shape = (starts.shape[0], weight.shape[1])
    counted = as_value(0.0, rows.dtype).expand(*shape[:1])
    counts = gathers.scatter(
        counted, bag, f.full((indices.shape[0],), 1.0, rows.dtype), 0, reduce="add"
    )
    kind = _BAGS[mode]
    if kind == "max":
        least = as_value(float("-inf"), rows.dtype).expand(*shape)
        most = gathers.scatter(least, bag, rows, 0, reduce="max")
        return f.where((counts > 0).unsqueeze(1), most, 0.0), None, None, None
    empty = as_value(0.0, rows.dtype).expand(*shape)
    found = gathers.scatter(empty, bag, rows, 0, reduce="add")
    if kind == "mean":
        found = found / f.maximum(counts, 1.0).unsqueeze(1)
    return found, None, None, None


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
    one, many = as_value(given, element).unsqueeze(-1), as_value(borders, element)
    if borders.ndim > 1:
        many = many.unsqueeze(-2)
    below = many <= one if right or side == "right" else many < one
    found = f.sum(below.cast("i64"), -1)
    return found.cast("i32") if out_int32 else found


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
