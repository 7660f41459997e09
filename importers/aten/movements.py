"""Converters of ATen's movements: views, parts, tensors side by side, borders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from polyc.dialects.common.sizes import divided
from polyc.dialects.frontend import ScanOp
from polyc.importers.aten.support import (
    BEYOND,
    as_value,
    axis_of,
    numbers,
    promoted,
    refuse,
    to,
)
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import gathers
from polyc.trace.sizes import SizeLike, dim_of, size_of
from polyc.trace.values import Value


@converter("torch", "aten.view.default", "aten.reshape", "aten._unsafe_view", "aten.view_copy")
def view(x: Value, shape: Sequence[SizeLike]) -> Value:
    return x.reshape(*shape)


@converter("torch", "aten.permute", "aten.permute_copy")
def permute(x: Value, dims: Sequence[int]) -> Value:
    return x.permute(*dims) if dims else x


@converter("torch", "aten.transpose", "aten.swapaxes", "aten.transpose_copy")
def transpose(x: Value, a: int, b: int) -> Value:
    return x.transpose(a, b) if x.ndim else x


@converter("torch", "aten.t", "aten.numpy_T")
def t(x: Value) -> Value:
    return x.transpose() if x.ndim == 2 else x


@converter("torch", "aten.expand", "aten.expand_copy")
def expand(x: Value, sizes: Sequence[SizeLike], *, implicit: bool = False) -> Value:
    return x.expand(*sizes) if sizes else x


@converter("torch", "aten.unsqueeze", "aten.unsqueeze_copy")
def unsqueeze(x: Value, dim: int) -> Value:
    return x.unsqueeze(dim)


@converter("torch", "aten.squeeze", "aten.squeeze_copy")
def squeeze(x: Value, dim: Any = None) -> Value:
    """Axes that are named and have another size stay, as PyTorch has it."""
    ones = [i for i, one in enumerate(x.shape) if isinstance(one, int) and one == 1]
    if dim is not None:
        named = [axis_of(x, a) for a in ([dim] if isinstance(dim, int) else dim)]
        ones = [i for i in ones if i in named]
    return x.squeeze(ones) if ones else x


# Parts ---------------------------------------------------------------------------------------


def _ends(
    x: Value, at: int, start: SizeLike | None, end: SizeLike | None
) -> tuple[SizeLike, SizeLike]:
    """Where a slice of an axis begins and ends, within the axis where that is known."""
    whole = x.shape[at]

    def placed(given: SizeLike | None, otherwise: SizeLike) -> SizeLike:
        if given is None or (isinstance(given, int) and given >= BEYOND):
            return otherwise
        if isinstance(given, int) and given < 0:
            given = whole + given
        if isinstance(given, int) and isinstance(whole, int):
            return min(max(given, 0), whole)
        return given

    low, high = placed(start, 0), placed(end, whole)
    if isinstance(low, int) and isinstance(high, int):
        high = max(low, high)
    return low, high


@converter("torch", "aten.slice", "aten.slice_copy")
def slice_tensor(
    x: Value,
    dim: int = 0,
    start: SizeLike | None = None,
    end: SizeLike | None = None,
    step: int = 1,
) -> Value:
    at = axis_of(x, dim)
    low, high = _ends(x, at, start, end)
    return x[(*[slice(None)] * at, slice(low, high, step))]


@converter("torch", "aten.select", "aten.select_copy")
def select(x: Value, dim: int, index: SizeLike) -> Value:
    return x[(*[slice(None)] * axis_of(x, dim), index)]


@converter("torch", "aten.slice_scatter")
def slice_scatter(
    x: Value,
    source: Value,
    dim: int = 0,
    start: SizeLike | None = None,
    end: SizeLike | None = None,
    step: int = 1,
) -> Value:
    at = axis_of(x, dim)
    low, high = _ends(x, at, start, end)
    source = to(source, x.dtype)
    if step != 1:
        places = f.arange(source.shape[at]) * step + low
        return gathers.scatter(x, places, source, at)
    before = [slice(None)] * at
    parts = [x[(*before, slice(0, low))], source, x[(*before, slice(high, None))]]
    kept = [one for one in parts if not (isinstance(one.shape[at], int) and one.shape[at] == 0)]
    return f.concat(kept, at) if kept else x


@converter("torch", "aten.select_scatter")
def select_scatter(x: Value, source: Value, dim: int, index: int) -> Value:
    at = axis_of(x, dim)
    end = index + 1 if index != -1 else None
    return slice_scatter(x, source.unsqueeze(at), at, index, end)


@converter("torch", "aten.split", "aten.split_copy", "aten.unsafe_split")
def split(x: Value, size: Any, dim: int = 0) -> list[Value]:
    at = axis_of(x, dim)
    if isinstance(size, list):
        return split_with_sizes(x, cast("list[SizeLike]", size), dim)
    whole = x.shape[at]
    if not isinstance(whole, int) or not isinstance(size, int):
        parts = divided(dim_of(whole), dim_of(size), x.builder.inside)
        known = None if parts is None else parts.constant()
        if known is None:
            raise refuse(f"a split of {whole} into parts of {size} has no known number of parts")
        return split_with_sizes(x, [size] * known, dim)
    if not whole:
        return [x]
    return split_with_sizes(x, [min(size, whole - i) for i in range(0, whole, size)], dim)


@converter("torch", "aten.split_with_sizes", "aten.split_with_sizes_copy")
def split_with_sizes(x: Value, sizes: Sequence[SizeLike], dim: int = 0) -> list[Value]:
    at = axis_of(x, dim)
    found: list[Value] = []
    start: SizeLike = 0
    for one in sizes:
        found.append(x[(*[slice(None)] * at, slice(start, start + one))])
        start = start + one
    return found


@converter("torch", "aten.unbind", "aten.unbind_copy")
def unbind(x: Value, dim: int = 0) -> list[Value]:
    at = axis_of(x, dim)
    whole = x.shape[at]
    if not isinstance(whole, int):
        raise refuse(f"unbind along an axis of {whole} has no known number of parts")
    return [select(x, at, i) for i in range(whole)]


@converter("torch", "aten.diagonal", "aten.diagonal_copy")
def diagonal(x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    a, b = axis_of(x, dim1), axis_of(x, dim2)
    rest = [axis for axis in range(x.ndim) if axis not in (a, b)]
    moved = x.permute(*rest, a, b)
    rows, columns = moved.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise refuse(f"the diagonal of {rows} by {columns} has no known length")
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    flat = moved.reshape(*moved.shape[:-2], rows * columns)
    first = max(offset, 0) - min(offset, 0) * columns
    return flat[(..., slice(first, first + length * (columns + 1) - columns, columns + 1))]


@converter("torch", "aten.diagonal_scatter")
def diagonal_scatter(
    x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """Along a diagonal, whose places count from its first one, what ``source`` has there."""
    a, b = axis_of(x, dim1), axis_of(x, dim2)
    rest = [axis for axis in range(x.ndim) if axis not in (a, b)]
    order = [*rest, a, b]
    moved = x.permute(*order)
    shape = moved.shape[-2:]
    row, column = f.iota(shape, 0), f.iota(shape, 1)
    place = f.minimum(row if offset >= 0 else column, as_last(source, source.ndim - 1))
    there = gathers.take(to(source, x.dtype), f.maximum(place, 0), source.ndim - 1)
    found = f.where(column - row == offset, there, moved)
    return found.permute(*[order.index(axis) for axis in range(x.ndim)])


@converter("torch", "aten.as_strided_scatter")
def as_strided_scatter(
    x: Value,
    source: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Value:
    """Elements by their places in memory, which is that of a tensor whose axes lie in order.

    Where each stride steps over all that smaller ones reach, a place says by divisions which
    element of ``source`` it takes, if any; else elements are scattered.
    """
    source, count = to(source, x.dtype), math.prod(size)
    first, whole = storage_offset or 0, [cast("int", one) for one in x.shape]
    axes = sorted((i for i in range(len(size)) if size[i] > 1), key=lambda i: -stride[i])
    reach, nested = 1, True
    for i in reversed(axes):
        nested, reach = nested and stride[i] >= reach, (size[i] - 1) * stride[i] + reach
    flat = x.reshape(-1)
    if not nested or not count:
        places = _strided_places(size, stride, first).reshape(-1)
        return gathers.scatter(flat, places, source.reshape(-1), 0).reshape(*whole)
    left = f.arange(math.prod(whole)) - first
    there, place = left >= 0, as_value(0, "i64")
    for i in axes:
        at = left // stride[i]
        there, left = there & (at < size[i]), left - at * stride[i]
        place = place + at * math.prod(size[i + 1 :])
    there = there & (left == 0)
    taken = gathers.take(source.reshape(-1), f.where(there, place, 0), 0)
    return f.where(there, taken, flat).reshape(*whole)


@converter("torch", "aten.flip")
def flip(x: Value, dims: Sequence[int]) -> Value:
    """A scan of what is turned around, turned around, is one from the end."""
    build = x.builder
    for axis in {axis_of(x, dim) for dim in dims}:
        scan = x.ssa.owner
        if isinstance(scan, ScanOp) and build.turned.get(scan.operand, (None, -1))[1] == axis:
            source, _ = build.turned[scan.operand]
            if scan.axis == axis:
                way = {"reverse": not scan.is_reverse, "exclusive": scan.is_exclusive}
                x = Value(build, build.scan(scan.function, source, axis, **way))
                continue
        places = f.iota((x.shape[axis],), 0)
        turned = gathers.take(x, as_last(x, axis) - places, axis)
        build.turned[turned.ssa] = x.ssa, axis
        x = turned
    return x


def as_last(x: Value, axis: int) -> Value:
    """The last place of an axis, as a scalar."""
    return as_value(x.shape[axis] - 1, "i64")


@converter("torch", "aten.roll")
def roll(x: Value, shifts: Any, dims: Any = None) -> Value:
    if dims is None or dims == []:
        flat = x.reshape(-1)
        return roll(flat, shifts, [0]).reshape(*x.shape)
    axes = [dims] if isinstance(dims, int) else dims
    for shift, dim in zip(numbers(shifts, len(axes)), axes, strict=True):
        at = axis_of(x, dim)
        whole = x.shape[at]
        if isinstance(whole, int):
            shift = shift % whole if whole else 0
        if shift == 0:
            continue
        cut = whole - shift if shift > 0 else -shift
        before = [slice(None)] * at
        if isinstance(whole, int):
            # Read twice over, from the cut on: each element is one of x's, at a place modulo the
            # size, so that what is moved before and after is one movement with it.
            times = [2 if axis == at else 1 for axis in range(x.ndim)]
            x = repeat(x, times)[(*before, slice(cut, cut + whole))]
        else:
            x = f.concat([x[(*before, slice(cut, None))], x[(*before, slice(0, cut))]], at)
    return x


@converter("torch", "aten.unfold", "aten.unfold_copy")
def unfold(x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along an axis, whose elements become the last axis."""
    at = axis_of(x, dim)
    whole = x.shape[at]
    if not isinstance(whole, int):
        raise refuse(f"windows of an axis of {whole} have no known number")
    count = (whole - size) // step + 1
    before = [slice(None)] * at
    if size <= step:
        kept = x[(*before, slice(0, (count - 1) * step + size))]
        if step > size:
            widths = [(0, 0)] * x.ndim
            widths[at] = (0, count * step - ((count - 1) * step + size))
            kept = kept if widths[at] == (0, 0) else _lengthened(kept, at, widths[at][1])
        shape = [*x.shape[:at], count, step, *x.shape[at + 1 :]]
        apart = kept.reshape(*shape)[(*before, slice(None), slice(0, size))]
        order = [*range(at + 1), *range(at + 2, x.ndim + 1), at + 1]
        return apart.permute(*order)
    places = (f.arange(count) * step).unsqueeze(1) + f.arange(size)
    taken = gathers.take(x, places, at)
    return taken.permute(*[i for i in range(x.ndim + 1) if i != at + 1], at + 1)


def _lengthened(x: Value, axis: int, by: int) -> Value:
    widths = [(0, by if i == axis else 0) for i in range(x.ndim)]
    return constant_pad_nd(x, [n for pair in reversed(widths) for n in pair])


def _strided_places(size: Sequence[int], stride: Sequence[int], offset: int) -> Value:
    """The places in memory of the elements of a view."""
    places: Value = as_value(offset, "i64").expand(*[1] * len(size))
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        along = [count if i == axis else 1 for i in range(len(size))]
        places = places + f.iota(along, axis) * step
    return places.expand(*size)


@converter("torch", "aten.as_strided", "aten.as_strided_copy")
def as_strided(
    x: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    """Elements by their places in memory, which is that of a tensor whose axes lie in order."""
    places = _strided_places(size, stride, storage_offset or 0)
    return gathers.take(x.reshape(-1), places, 0)


# Side by side --------------------------------------------------------------------------------


@converter("torch", "aten.cat", "aten.concat", "aten.concatenate")
def cat(tensors: Sequence[Value], dim: int = 0) -> Value:
    element = promoted(*tensors)
    # PyTorch leaves out tensors of shape [0], whatever the others' rank.
    rank = max(one.ndim for one in tensors)
    kept = [to(one, element) for one in tensors if one.ndim == rank]
    return f.concat(kept, dim)


@converter("torch", "aten.stack")
def stack(tensors: Sequence[Value], dim: int = 0) -> Value:
    element = promoted(*tensors)
    return f.stack([to(one, element) for one in tensors], dim)


@converter("torch", "aten.repeat")
def repeat(x: Value, repeats: Sequence[SizeLike]) -> Value:
    """Each axis is expanded beside an axis of its own, and the two are merged."""
    first = len(repeats) - x.ndim
    shape: list[SizeLike] = [1] * first + list(x.shape)
    apart: list[SizeLike] = []
    wide: list[SizeLike] = []
    for times, one in zip(repeats, shape, strict=True):
        apart += [1, one]
        wide += [times, one]
    ends = [times * one for times, one in zip(repeats, shape, strict=True)]
    return x.reshape(*apart).expand(*wide).reshape(*ends)


@converter("torch", "aten.tile")
def tile(x: Value, dims: Sequence[SizeLike]) -> Value:
    return repeat(x, [1] * (x.ndim - len(dims)) + list(dims))


@converter("torch", "aten.repeat_interleave.self_int")
def repeat_interleave(
    x: Value, repeats: SizeLike, dim: int | None = None, *, output_size: Any = None
) -> Value:
    if dim is None:
        x, dim = x.reshape(-1), 0
    at = axis_of(x, dim)
    wide = x.unsqueeze(at + 1).expand(*x.shape[: at + 1], repeats, *x.shape[at + 1 :])
    return wide.reshape(*x.shape[:at], x.shape[at] * repeats, *x.shape[at + 1 :])


@converter("torch", "aten.meshgrid")
def meshgrid(tensors: Sequence[Value], *, indexing: str = "ij") -> list[Value]:
    sizes = [one.shape[0] if one.ndim else 1 for one in tensors]
    found: list[Value] = []
    for i, one in enumerate(tensors):
        shape = [sizes[i] if j == i else 1 for j in range(len(sizes))]
        wide = one.reshape(*shape).expand(*sizes)
        found.append(wide.transpose(0, 1) if indexing == "xy" and len(sizes) > 1 else wide)
    return found


# Borders -------------------------------------------------------------------------------------


@converter("torch", "aten.constant_pad_nd")
def constant_pad_nd(x: Value, pad: Sequence[SizeLike], value: float = 0) -> Value:
    """Places before and after each axis, the last axis first; where below 0 these are cut off."""
    count_ = len(pad) // 2
    widths: list[tuple[SizeLike, SizeLike]] = [(0, 0)] * (x.ndim - count_)
    widths += [(pad[2 * i], pad[2 * i + 1]) for i in reversed(range(count_))]
    cuts: list[slice] = []
    for axis, (low, high) in enumerate(widths):
        below = [-w if isinstance(w, int) and w < 0 else 0 for w in (low, high)]
        cuts.append(slice(below[0], x.shape[axis] - below[1]))
    kept = x[tuple(cuts)] if cuts else x
    rooms = [tuple(0 if isinstance(w, int) and w < 0 else w for w in pair) for pair in widths]
    if all(pair == (0, 0) for pair in rooms):
        return kept
    if x.dtype == "i1" or x.dtype.strip("ui").isdigit():
        return _padded_integers(kept, rooms, value)
    return f.pad(kept, rooms, float(value))


def _padded_integers(x: Value, rooms: Sequence[Any], value: float) -> Value:
    from polyc.importers.aten.creation import full

    for axis, pair in enumerate(rooms):
        parts = [x]
        for end, width in enumerate(pair):
            if not (isinstance(width, int) and width == 0):
                shape = [*x.shape[:axis], width, *x.shape[axis + 1 :]]
                parts.insert(len(parts) if end else 0, full(shape, value, dtype=x.dtype))
        x = f.concat(parts, axis)
    return x


@converter("torch", "aten.pad")
def pad(
    x: Value, pad: Sequence[SizeLike], mode: str = "constant", value: float | None = None
) -> Value:
    if mode == "constant":
        return constant_pad_nd(x, pad, 0.0 if value is None else value)
    return _mirrored(x, pad, mode)


@converter("torch", "aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
def reflection_pad(x: Value, pad: Sequence[int]) -> Value:
    return _mirrored(x, pad, "reflect")


@converter("torch", "aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d")
def replication_pad(x: Value, pad: Sequence[int]) -> Value:
    return _mirrored(x, pad, "replicate")


def _mirrored(x: Value, pad: Sequence[Any], mode: str) -> Value:
    """The elements of each axis at places that go on beyond its ends."""
    if mode not in ("reflect", "replicate", "circular"):
        raise refuse(f"mode of pad is constant, reflect, replicate or circular, not {mode!r}")
    for i in range(len(pad) // 2):
        at, (low, high) = x.ndim - 1 - i, (pad[2 * i], pad[2 * i + 1])
        whole = x.shape[at]
        places = f.iota((whole + low + high,), 0) - low
        last = as_last(x, at)
        if mode == "replicate":
            places = f.minimum(f.maximum(places, 0), last)
        elif mode == "reflect":
            places = last - f.abs(last - f.abs(places))
        else:
            places = f.mod(places, last + 1)
        x = gathers.take(x, places, at)
    return x


@converter("torch", "aten.pixel_shuffle")
def pixel_shuffle(x: Value, factor: int) -> Value:
    *front, channels, h, w = x.shape
    each = parts_of(x, channels, factor * factor)
    apart = x.reshape(*front, each, factor, factor, h, w)
    k = len(front)
    moved = apart.permute(*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return moved.reshape(*front, each, h * factor, w * factor)


@converter("torch", "aten.pixel_unshuffle")
def pixel_unshuffle(x: Value, factor: int) -> Value:
    *front, channels, h, w = x.shape
    rows, columns = parts_of(x, h, factor), parts_of(x, w, factor)
    apart = x.reshape(*front, channels, rows, factor, columns, factor)
    k = len(front)
    moved = apart.permute(*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return moved.reshape(*front, channels * (factor * factor), rows, columns)


@converter("torch", "aten.channel_shuffle")
def channel_shuffle(x: Value, groups: int) -> Value:
    n, channels, *rest = x.shape
    each = parts_of(x, channels, groups)
    return x.reshape(n, groups, each, *rest).transpose(1, 2).reshape(n, channels, *rest)


def parts_of(x: Value, whole: SizeLike, parts: int) -> SizeLike:
    """What each of equal parts has.  Refuses a size that they do not divide."""
    found = divided(dim_of(whole), dim_of(parts), x.builder.inside)
    if found is None:
        raise refuse(f"{whole} does not come in {parts} equal parts for all sizes")
    return size_of(found)
