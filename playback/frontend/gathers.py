"""NumPy semantics of the gathers of ``frontend``: a place for each element (S0.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.common.elements import computed
from polyc.dialects.frontend.gathers import GatherBase
from polyc.dialects.frontend.scatters import ScatterBase
from polyc.playback.estimate import as_estimate
from polyc.playback.functions import Array
from polyc.playback.gathers import gather
from polyc.rewriting.frontend.traps import traps_of


def gathered(op: GatherBase, x: Array, indices: Array) -> Array:
    """The result of ``op``."""
    refuse_outside(op, x.shape, indices)
    element = computed(frontend.tensor_of(op.result).element_type)
    places, axes = places_of(type(op), op.number, op.counts_from_end, x.shape, indices)
    shape = np.broadcast_shapes(*(p.shape for p in places))
    return np.broadcast_to(gather(x, places, axes, op.outside, element), shape)


def refuse_outside(op: GatherBase | ScatterBase, sizes: Sequence[int], indices: Array) -> None:
    """Raise PolycError where an op traps an index that is outside, of those that are known."""
    for trap in traps_of(op):
        at: Any = () if trap.component is None else (..., trap.component)
        part = as_estimate(indices[at])
        index, size = part.value.reshape(-1), sizes[trap.axis]
        inside = index < size
        if index.dtype.kind == "i":
            inside &= index >= (-size if trap.from_end else 0)
        wrong = np.flatnonzero(~inside & (part.error.reshape(-1) == 0))
        if wrong.size and (error := trap.error(int(wrong[0]), int(index[wrong[0]]), size)):
            raise error


def places_of(
    kind: type[GatherBase], number: int, from_end: bool, sizes: Sequence[int], indices: Array
) -> tuple[list[Array], list[int]]:
    """Where a gather of a kind reads a tensor of ``sizes``: a coordinate an axis, which broadcast
    to its result, and the axes along which they are ``indices``."""
    rank = len(sizes)

    def grid(axis: int, place: int, count: int) -> Array:
        """The positions along an axis of the operand, which is ``place`` of the result's."""
        shape = [sizes[axis] if i == place else 1 for i in range(count)]
        return np.reshape(np.arange(sizes[axis], dtype=np.int64), shape)

    if kind is frontend.GatherElementsOp:
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[number], axes = indices, [number]
    elif kind is frontend.GatherOp:
        after = rank - number - 1
        count = number + indices.ndim + after
        places = [grid(i, i, count) for i in range(number)]
        places.append(np.reshape(indices, indices.shape + (1,) * after))
        places += [grid(i, i + indices.ndim - 1, count) for i in range(number + 1, rank)]
        axes = [number]
    else:
        tuples, size = indices.ndim - 1, indices.shape[-1]
        after = rank - number - size
        count = tuples + after
        places = [grid(i, i, count) for i in range(number)]
        for i in range(size):
            where: Any = (..., i)
            part: Array = indices[where]
            column: Array = np.reshape(part, (*indices.shape[:-1], *(1,) * after))
            places.append(column)
        places += [grid(i, count - rank + i, count) for i in range(number + size, rank)]
        axes = list(range(number, number + size))
    if from_end and indices.dtype.kind == "i":
        for axis in axes:
            index = places[axis].astype(np.int64)
            places[axis] = np.where(index < 0, index + sizes[axis], index)
    return places, axes
