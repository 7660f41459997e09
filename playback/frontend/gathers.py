"""NumPy semantics of the gathers of ``frontend``: a place for each element (S0.6)."""

from __future__ import annotations

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.common.elements import computed
from polyc.dialects.frontend.gathers import GatherBase
from polyc.playback.functions import Array
from polyc.playback.gathers import gather


def gathered(op: GatherBase, x: Array, indices: Array) -> Array:
    """The result of ``op``."""
    element = computed(frontend.tensor_of(op.result).element_type)
    number, rank = op.number, x.ndim

    def at(places: list[Array], axes: list[int]) -> Array:
        if op.counts_from_end and indices.dtype.kind == "i":
            for axis in axes:
                index = places[axis].astype(np.int64)
                places[axis] = np.where(index < 0, index + x.shape[axis], index)
        shape = np.broadcast_shapes(*(p.shape for p in places))
        return np.broadcast_to(gather(x, places, axes, op.outside, element), shape)

    def grid(axis: int, place: int, count: int) -> Array:
        """The positions along an axis of the operand, which is ``place`` of the result's."""
        shape = [x.shape[axis] if i == place else 1 for i in range(count)]
        return np.reshape(np.arange(x.shape[axis]), shape)

    match op:
        case frontend.GatherOp():
            after = rank - number - 1
            count = number + indices.ndim + after
            places = [grid(i, i, count) for i in range(number)]
            places.append(indices.reshape(indices.shape + (1,) * after))
            places += [grid(i, i + indices.ndim - 1, count) for i in range(number + 1, rank)]
            return at(places, [number])
        case frontend.GatherElementsOp():
            places: list[Array] = list(np.indices(indices.shape, sparse=True))
            places[number] = indices
            return at(places, [number])
        case _:
            tuples, size = indices.ndim - 1, indices.shape[-1]
            after = rank - number - size
            count = tuples + after
            places = [grid(i, i, count) for i in range(number)]
            for i in range(size):
                part = indices[..., i]
                places.append(part.reshape(part.shape + (1,) * after))
            places += [grid(i, count - rank + i, count) for i in range(number + size, rank)]
            return at(places, list(range(number, number + size)))
