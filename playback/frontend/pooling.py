"""NumPy semantics of ``frontend.pool``: the elements of each window, tap by tap (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.common.elements import Number, neutral
from polyc.playback import functions
from polyc.playback.functions import Array, as_array, widen
from polyc.playback.signature import sizes, value_sizes


def pool(op: frontend.PoolOp, x: Array, symbols: Mapping[str, int], exact: bool) -> Array:
    """The result of ``op`` on f32 or integers; sums of f32 are in f64 where ``exact``."""
    fn, axes, size = op.function, op.axes, sizes(op.size, symbols)
    shape = value_sizes(frontend.tensor_of(op.result), symbols)
    windows = [shape[axis] for axis in axes]
    # Of each axis, the operand's element that each tap of each window is, inside or not.
    places = [
        step * np.arange(count)[:, None] + spread * np.arange(taps)[None, :] - low
        for count, taps, step, spread, low in zip(
            windows, size, op.stride, op.dilation, op.padding[::2], strict=True
        )
    ]
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
