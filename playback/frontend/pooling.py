"""NumPy semantics of ``frontend.pool`` and ``arg_pool``: each window, tap by tap (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.common.elements import Number, neutral
from polyc.dialects.frontend.pooling import WindowsOp
from polyc.playback import functions
from polyc.playback.estimate import Estimate, unsure_where
from polyc.playback.frontend.selection import extreme_at
from polyc.playback.functions import Array, as_array, posing, widen
from polyc.playback.signature import sizes, value_sizes


def pool(op: frontend.PoolOp, x: Array, symbols: Mapping[str, int], exact: bool) -> Array:
    """The result of ``op`` on f32 or integers; sums of f32 are in f64 where ``exact``."""
    fn, axes, size = op.function, op.axes, sizes(op.size, symbols)
    places = _places(op, symbols)
    if fn == "l1":
        x = np.abs(x)
    elif fn == "l2":
        x = x * x
    kind = "sum" if fn in ("l1", "l2", "mean") else fn
    whole = x.dtype.kind in "iu"
    outside = neutral(kind, functions.element_of(x.dtype)) if whole else functions.IDENTITY[kind]
    taps = [
        elements_at(x, axes, [p[:, r] for p, r in zip(places, tap, strict=True)], outside)[None]
        for tap in product(*(range(n) for n in size))
    ]
    every = np.concatenate(taps)
    if kind != "sum" or whole:
        return functions.reduce(kind, every, (0,))
    made = widen(as_array(np.sum(every, axis=0, dtype=np.float64 if exact else np.float32)))
    if fn == "l2":
        return np.sqrt(made)
    return made / _counts(op, x.shape, places, size) if fn == "mean" else made


def adaptive_pool(op: frontend.AdaptivePoolOp, x: Array, exact: bool) -> Array:
    """The result of ``op`` on f32 or integers; sums of f32 are in f64 where ``exact``.

    All windows of an axis are as long as the longest, and what is not of a window is outside.
    """
    kind = "sum" if op.function == "mean" else op.function
    whole = x.dtype.kind in "iu"
    outside = neutral(kind, functions.element_of(x.dtype)) if whole else functions.IDENTITY[kind]
    places: list[Array] = []
    count: Array = np.ones([1] * x.ndim, np.float32)
    for axis, (size, windows) in zip(op.axes, op.windows, strict=True):
        number = np.arange(windows)
        first, end = number * size // max(1, windows), -(-(number + 1) * size // max(1, windows))
        taps = np.arange(int((end - first).max(initial=1)))
        place = first[:, None] + taps[None, :]
        places.append(np.where(place < end[:, None], place, -1))
        each = (end - first).reshape(-1, *[1] * (x.ndim - axis - 1))
        count = count * each.astype(np.float32)
    cut = [
        elements_at(x, op.axes, [p[:, r] for p, r in zip(places, tap, strict=True)], outside)[None]
        for tap in product(*(range(place.shape[1]) for place in places))
    ]
    every = np.concatenate(cut)
    if kind != "sum" or whole:
        return functions.reduce(kind, every, (0,))
    made = widen(as_array(np.sum(every, axis=0, dtype=np.float64 if exact else np.float32)))
    return made / count if op.function == "mean" else made


def _places(op: WindowsOp, symbols: Mapping[str, int]) -> list[Array]:
    """Of each axis, the operand's element that each tap of each window is, inside or not."""
    shape = value_sizes(frontend.tensor_of(op.result), symbols)
    windows = [shape[axis] for axis in op.axes]
    return [
        step * np.arange(count)[:, None] + spread * np.arange(taps)[None, :] - low
        for count, taps, step, spread, low in zip(
            windows,
            sizes(op.size, symbols),
            op.stride,
            op.dilation,
            op.padding[::2],
            strict=True,
        )
    ]


def arg_pool(op: frontend.ArgPoolOp, x: Array, symbols: Mapping[str, int]) -> Array:
    """Where the extreme of each window is, in the plane or the whole; -1 where it has no element.

    The taps of a window are an axis in front, those inside of the operand first, in their order.
    """
    plain = x.value if isinstance(x, Estimate) else x
    least = op.function == "min"
    outside = functions.IDENTITY[op.function]
    if plain.dtype.kind in "iu":
        outside = neutral(op.function, functions.element_of(plain.dtype))
    counted = op.axes if op.whole is None else range(plain.ndim)
    where: Array = np.zeros(plain.shape, np.int64)
    for axis in counted:
        behind = int(np.prod([plain.shape[a] for a in counted if a > axis], dtype=np.int64))
        own: Sequence[Array] = np.indices(plain.shape, sparse=True)
        where = where + own[axis] * behind
    places = _places(op, symbols)
    taps = [
        [p[:, r] for p, r in zip(places, tap, strict=True)]
        for tap in product(*(range(place.shape[1]) for place in places))
    ]

    def cut(array: Array, other: Number) -> Array:
        return np.concatenate([elements_at(array, op.axes, at, other)[None] for at in taps])

    order = np.argsort(~cut(np.ones(plain.shape, np.bool_), 0), axis=0, kind="stable")
    values = cut(x, outside)
    if isinstance(values, Estimate):
        values = posing(values.moved(lambda a: np.take_along_axis(a, order, 0)))
    else:
        values = np.take_along_axis(values, order, 0)
    found, doubtful = extreme_at(values, 0, least=least)
    kind = functions.dtype_of(frontend.tensor_of(op.result).element_type)
    result = np.take_along_axis(np.take_along_axis(cut(where, -1), order, 0), found, 0).astype(kind)
    if doubtful is not None:
        result = posing(unsure_where(Estimate(result), doubtful))
    return result[0]


def elements_at(x: Array, axes: Sequence[int], places: Sequence[Array], outside: Number) -> Array:
    """The elements at ``places`` of each axis, increasing; ``outside`` where one of them is none.

    Places of more than one axis have these in the place of the axis.
    """
    for axis, place in reversed(list(zip(axes, places, strict=True))):
        # An element of its own at either end stands for all that is outside.
        room = [(1, 1) if i == axis else (0, 0) for i in range(x.ndim)]
        x = np.pad(x, room, constant_values=x.dtype.type(outside))
        at = np.clip(place, -1, x.shape[axis] - 2) + 1
        x = x[(*(slice(None) for _ in range(axis)), at)]
    return x


def _counts(
    op: frontend.PoolOp, shape: Sequence[int], places: Sequence[Array], size: Sequence[int]
) -> Array:
    """What a mean divides by: how many elements are inside, or in the padding where that counts."""
    result = np.ones([1] * len(shape), np.float32)
    ends = zip(op.padding[::2], op.padding[1::2], strict=True)
    for axis, place, (low, high) in zip(op.axes, places, ends, strict=True):
        counted = op.count_include_pad is not None
        first, last = (-low, shape[axis] + high) if counted else (0, shape[axis])
        inside = ((place >= first) & (place < last)).sum(axis=1)
        result = result * inside.reshape(-1, *[1] * (len(shape) - axis - 1)).astype(np.float32)
    return result
