"""NumPy semantics of scatters: updates combined into a tensor at places that are data (S0.6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyc.dialects.common.elements import neutral
from polyc.dialects.common.gathers import REDUCTIONS
from polyc.playback import functions
from polyc.playback.estimate import Estimate, as_estimate, scattered, unsure_where
from polyc.playback.functions import Array
from polyc.playback.gathers import are_inside, placed

JOIN = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scatter(fn: str, base: Array, updates: Array, places: Sequence[Array]) -> Array:
    """``base`` with each of ``updates`` combined into the element at its place, in their order.

    ``places`` has a coordinate of ``base`` for each axis, which broadcast to ``updates``; an update
    whose place is outside is left out.  An index of which nothing is known leaves nothing known.
    """
    shape = updates.shape
    known = [np.broadcast_to(as_estimate(p).value, shape) for p in places]
    inside: Array = np.ones(shape, np.bool_)
    for place, extent in zip(known, base.shape, strict=True):
        inside = inside & are_inside(place, extent)
    at = tuple(place[inside].astype(np.int64) for place in known)
    found = _combined(fn, base, updates[inside], at)
    if any(isinstance(p, Estimate) and not p.exact for p in places):
        everywhere = np.ones(base.shape, np.bool_)
        found = functions.posing(unsure_where(as_estimate(found), everywhere))
    return found


def _combined(fn: str, base: Array, updates: Array, at: tuple[Array, ...]) -> Array:
    if not isinstance(base, Estimate) and not isinstance(updates, Estimate):
        found = np.array(base)
        with np.errstate(all="ignore"):
            if fn == "set":
                found[at] = updates
            else:
                JOIN[fn].at(found, at, updates)
        return found
    one, other = as_estimate(base), as_estimate(updates)
    touched = np.zeros(base.shape, np.bool_)
    touched[at] = True
    if fn == "set":
        found = Estimate.memory(np.array(one.value))
        found[...] = one
        found[at] = other
        return functions.posing(found)
    kind = REDUCTIONS[fn]
    start = np.full(base.shape, neutral(kind, functions.element_of(base.dtype)), base.dtype)
    total = scattered(kind, other, at, start)
    return np.where(touched, JOIN[fn](one, total), one)  # pyright: ignore


def whole(
    fn: str, base: Array, updates: Array, indices: Sequence[Array], axes: Sequence[int]
) -> Array:
    """A scatter by indices of the updates' shape, whose other axes are the point itself."""
    return scatter(fn, base, updates, placed(updates.shape, indices, axes))


def place_of(index: Array, places: Array) -> Array:
    """Where in ``places``, which rise, indices are; -1 of those that are not among them."""
    known, there = as_estimate(index), as_estimate(places).value
    if not there.size:
        return np.full(known.shape, -1)
    at = np.searchsorted(there, known.value)
    at = np.clip(at, 0, there.size - 1)
    found = np.where(there[at] == known.value, at, -1)
    return found if known.exact else functions.posing(Estimate(found, known.error, None))
