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
    weigh = {"linear": _linear, "cubic": _cubic}[op.mode]
    weights = weigh(np.asarray([float(rest) for rest in rests], np.float32))
    wide = (...,) + (None,) * (x.ndim - 1 - axis)
    terms = [
        _at(x, axis, [at + tap for at in before]) * weight[wide]
        for tap, weight in zip(op.taps, weights, strict=True)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _linear(rest: Array) -> list[Array]:
    return [np.float32(1) - rest, rest]


def _cubic(rest: Array) -> list[Array]:
    a, one = np.float32(CUBIC), np.float32(1)

    def near(x: Array) -> Array:
        return (((a + np.float32(2)) * x - (a + np.float32(3))) * x) * x + one

    def far(x: Array) -> Array:
        return ((a * x - np.float32(5) * a) * x + np.float32(8) * a) * x - np.float32(4) * a

    return [far(rest + one), near(rest), near(one - rest), far(one - rest + one)]


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
