"""NumPy semantics of ``frontend.grid_sample``: weighted sums of the elements at places (S0.6).

On arrays with errors too: a place that another computation may round into another element leaves
nothing known of what is taken there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32, i32

from polyc.dialects import frontend
from polyc.dialects.frontend.sampling import AROUND
from polyc.playback.frontend.resizing import cubic_weights, linear_weights
from polyc.playback.functions import Array, round_to
from polyc.playback.gathers import gather


def grid_sample(op: frontend.GridSampleOp, x: Array, grid: Array) -> Array:
    """The result of ``op``."""
    sizes = x.shape[2:]
    indices: list[list[Array]] = []
    weights: list[list[Array]] = []
    unknown: list[Array] = []
    for axis, size in enumerate(sizes):
        place = _place(op, grid[..., len(sizes) - 1 - axis], size)
        if op.mode == "nearest":
            indices.append([round_to(np.rint(place), i32)[:, None]])
            weights.append([np.ones((), np.float32)])
            unknown.append((place != place)[:, None])
            continue
        before = np.floor(place)
        weigh = linear_weights if op.mode == "linear" else cubic_weights
        weights.append([weight[:, None] for weight in weigh(place - before)])
        first = round_to(before, i32)
        found = [first + np.int32(tap) if tap else first for tap in op.taps]
        indices.append([_element(op, index, size)[:, None] for index in found])
    places: Sequence[Array] = np.indices(x.shape, sparse=True)
    axes = range(2, x.ndim)
    fill = 0.0 if op.padding == "zeros" or op.mode == "linear" else None

    def summed(chosen: list[int]) -> Array:
        axis = len(chosen)
        if axis == len(sizes):
            at = [row[tap] for row, tap in zip(indices, chosen, strict=True)]
            return gather(x, [*places[:2], *at], axes, fill, f32)
        terms = [summed([*chosen, tap]) for tap in range(len(indices[axis]))]
        if op.mode != "nearest":
            terms = [term * weight for term, weight in zip(terms, weights[axis], strict=True)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    result = summed([])
    for lost in unknown:
        result = np.where(lost, np.float32(np.nan), result)
    return result


def _place(op: frontend.GridSampleOp, coordinate: Array, size: int) -> Array:
    """Where coordinates are along an axis, as the padding has it."""
    one, half, count = (np.float32(n) for n in (1, 0.5, size))
    if op.aligned:
        place = (coordinate + one) * half * (count - one)
    else:
        place = ((coordinate + one) * count - one) * half
    if op.padding == "reflection":
        place = _reflected(op, place, size)
        if op.mode == "cubic":
            return place
    if op.padding == "zeros" or op.mode == "cubic":
        around = AROUND[op.mode]
        return _clipped(place, -around, size + around - 1)
    return _clipped(place, 0, size - 1)


def _clipped(place: Array, low: int, high: int) -> Array:
    return np.minimum(np.maximum(place, np.float32(low)), np.float32(high))


def _reflected(op: frontend.GridSampleOp, place: Array, size: int) -> Array:
    """A place after as many reflections as it needs, or for cubic within one period of them."""
    low = np.float32(0.0 if op.aligned else -0.5)
    period = np.float32(max(2 * size - 2 if op.aligned else 2 * size, 1))
    far = place - low
    far = far - np.floor(far * (np.float32(1) / period)) * period
    if op.mode != "cubic":
        far = np.minimum(far, period - far)
    return far + low


def _element(op: frontend.GridSampleOp, index: Array, size: int) -> Array:
    """The element at a place, mirrored where the four of a cubic one reach beyond the axis."""
    if op.mode != "cubic" or op.padding != "reflection":
        return index
    last = 2 * size - 2 if op.aligned else 2 * size - 1
    period = last if op.aligned else last + 1
    index = index % np.int32(period) if period > 0 else index * np.int32(0)
    return np.minimum(index, np.int32(last) - index)
