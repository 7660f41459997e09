"""NumPy semantics of ``frontend.resize``: where each element is, as a fraction (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor

import numpy as np

from polyc.dialects import frontend
from polyc.playback.functions import Array
from polyc.playback.signature import value_sizes


def resize(op: frontend.ResizeOp, x: Array, symbols: Mapping[str, int]) -> Array:
    """The result of ``op``."""
    shape = value_sizes(frontend.tensor_of(op.result), symbols)
    for axis in op.axes:
        size, count = x.shape[axis], shape[axis]
        found = [
            nearest(op.rounding, place_of(op.coordinates, i, size, count)) for i in range(count)
        ]
        at = np.clip(np.asarray(found, np.int64), 0, max(size - 1, 0))
        x = x[(*(slice(None) for _ in range(axis)), at)]
    return x


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
