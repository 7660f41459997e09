"""NumPy semantics of ``frontend.resize``: where each element is, as a fraction (S0.6).

On arrays with errors too, which stay with the elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.frontend.resizing import CUBIC
from polyc.playback.functions import Array
from polyc.playback.signature import value_sizes


def resize(op: frontend.ResizeOp, x: Array, symbols: Mapping[str, int]) -> Array:
    """The result of ``op``."""
    shape = value_sizes(frontend.tensor_of(op.result), symbols)
    for axis in op.axes:
        size, count = x.shape[axis], shape[axis]
        places = [place_of(op.coordinates, i, size, count) for i in range(count)]
        if op.rounding is not None:
            x = _at(x, axis, [nearest(op.rounding, place) for place in places])
        else:
            x = _between(op, x, axis, places)
    return x


def _at(x: Array, axis: int, found: Sequence[int]) -> Array:
    """Elements along an axis; one that is outside is the nearest end."""
    at = np.clip(np.asarray(found, np.int64), 0, max(x.shape[axis] - 1, 0))
    return x[(*(slice(None) for _ in range(axis)), at)]


def _between(op: frontend.ResizeOp, x: Array, axis: int, places: Sequence[Fraction]) -> Array:
    """What lies at places between elements; where none does, the elements."""
    before = [floor(place) for place in places]
    rests = [place - at for place, at in zip(places, before, strict=True)]
    if not any(rests):
        return _at(x, axis, before)
    behind = np.asarray([float(rest) for rest in rests], np.float32)
    if op.mode == "linear":
        weights = linear_weights(behind)
    else:
        weights = cubic_weights(behind, op.coefficient)
    if op.exclude_outside is not None:
        size = x.shape[axis]
        held = [[float(0 <= at + tap < size) for at in before] for tap in op.taps]
        weights = [w * np.asarray(h, np.float32) for w, h in zip(weights, held, strict=True)]
        total = ((weights[0] + weights[1]) + weights[2]) + weights[3]
        weights = [weight / total for weight in weights]
    wide = (...,) + (None,) * (x.ndim - 1 - axis)
    terms = [
        _at(x, axis, [at + tap for at in before]) * weight[wide]
        for tap, weight in zip(op.taps, weights, strict=True)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def linear_weights(rest: Array) -> list[Array]:
    """The weights of the elements before and behind a place, which is ``rest`` behind the first."""
    return [np.float32(1) - rest, rest]


def cubic_weights(rest: Array, coefficient: float = CUBIC) -> list[Array]:
    """Keys's weights of the two elements at each side of a place."""
    a, one = np.float32(coefficient), np.float32(1)
    behind = one - rest

    def near(x: Array) -> Array:
        return ((a + np.float32(2)) * x - (a + np.float32(3))) * (x * x) + one

    far = (rest * behind) * a
    return [far * behind, near(rest), near(behind), far * rest]


def place_of(coordinates: str, i: int, size: int, count: int) -> Fraction:
    """Where place ``i`` of ``count`` is among ``size``."""
    if count == 1 and coordinates in ("align_corners", "pytorch_half_pixel"):
        return Fraction(0)
    match coordinates:
        case "align_corners":
            return Fraction(i * (size - 1), count - 1)
        case "asymmetric":
            return Fraction(i * size, count)
        case _:
            return (Fraction(i) + Fraction(1, 2)) * size / count - Fraction(1, 2)


def nearest(rounding: str, place: Fraction) -> int:
    """The element that is taken for a place."""
    half = Fraction(1, 2)
    match rounding:
        case "ceil":
            return ceil(place)
        case "floor":
            return floor(place)
        case "round_prefer_ceil":
            return floor(place + half)
        case _:
            return ceil(place - half)
