"""NumPy semantics of gathers: reads at places that are data, at every layer (S0.6, S6.9)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from xdsl.ir import Attribute

from polyc.dialects.common.elements import Number
from polyc.playback import functions
from polyc.playback.estimate import Estimate, as_estimate, unsure_where
from polyc.playback.functions import Array


def gather(
    array: Array,
    places: Sequence[Array],
    axes: Collection[int],
    fill: Number | None,
    element: Attribute,
) -> Array:
    """``array`` at coordinates that broadcast, one array an axis.

    Those along ``axes`` are data: one outside of the axis reads ``fill``, or the nearest element
    with None.  An array without elements is read as ``fill``, or 0.
    """
    shape = np.broadcast_shapes(*(p.shape for p in places))
    if not array.size:
        other = functions.number(0 if fill is None else fill, element).astype(array.dtype)
        return np.broadcast_to(other, shape)
    inside: Array = np.ones((), np.bool_)
    at: list[Array] = []
    for axis, (place, extent) in enumerate(zip(places, array.shape, strict=True)):
        if axis in axes:
            inside = inside & are_inside(place, extent)
            place = nearest(place, extent)
        at.append(place)
    found = functions.as_array(array[tuple(at)])
    return settled(found, [places[axis] for axis in axes], inside, fill, element)


def whole(
    array: Array,
    indices: Sequence[Array],
    axes: Sequence[int],
    fill: Number | None,
    element: Attribute,
) -> Array:
    """A gather by indices of the result's shape, whose other axes are read at the point itself."""
    return gather(array, placed(indices[0].shape, indices, axes), axes, fill, element)


def placed(shape: Sequence[int], indices: Sequence[Array], axes: Sequence[int]) -> list[Array]:
    """A coordinate an axis for each point of a shape: along ``axes`` its index, else its own."""
    places: list[Array] = list(np.indices(shape, sparse=True))
    for axis, index in zip(axes, indices, strict=True):
        places[axis] = index
    return places


def are_inside(index: Array, extent: int) -> Array:
    """Which indices are places of an axis, for what is known of them."""
    known = _known(index)
    return (known >= 0) & (known < extent)


def nearest(index: Array, extent: int) -> Array:
    """The places of an axis of one element or more that are nearest to indices."""
    return np.clip(_known(index), 0, extent - 1).astype(np.int64)


def settled(
    found: Array, indices: Sequence[Array], inside: Array, fill: Number | None, element: Attribute
) -> Array:
    """What a gather gives that ``found`` elements at the nearest places.

    An index of which nothing is known leaves nothing known of what it reads.
    """
    if fill is not None:
        found = np.where(inside, found, functions.number(fill, element).astype(found.dtype))
    for index in indices:
        if isinstance(index, Estimate) and not index.exact:
            shape = np.broadcast_shapes(found.shape, index.shape)
            doubtful = np.broadcast_to(index.error > 0, shape)
            spread = as_estimate(np.broadcast_to(found, shape))
            found = functions.posing(unsure_where(spread, doubtful))
    return found


def _known(index: Array) -> Array:
    return as_estimate(index).value
