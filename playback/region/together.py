"""Playback of ``region.reduce_together``: a chunk at a time, the states combined in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from xdsl.ir import Block

from polyc.dialects import region
from polyc.dialects.region.types import ValType
from polyc.playback.functions import Array, as_array

CHUNK = 64
"""Points of an axis that are reduced at a time where nothing else is said."""

Play = Callable[[Block, Sequence[Array], Mapping[str, int]], list[Array]]
"""Plays a block: its arguments, and the axes that have another extent in it."""


def reduce_together(
    op: region.ReduceTogetherOp, operands: Sequence[Array], play: Play, chunk: int = CHUNK
) -> list[Array]:
    """The states of all points, ``chunk`` points of the first reduced axis at a time.

    Two chunks that stand together are combined first, then those pairs, so that a state meets
    others of as many points; over nothing it is the state of one chunk of no points.
    """
    axis = op.labels[0]
    places = [_place(cast(ValType, v.type), axis) for v in op.values]
    extent = next(a.shape[p] for a, p in zip(operands, places, strict=True) if p is not None)
    states: list[list[Array]] = []
    for low in range(0, max(extent, 1), chunk):
        part = slice(low, min(low + chunk, extent))
        taken = [
            a if p is None else a[(slice(None),) * p + (part,)]
            for a, p in zip(operands, places, strict=True)
        ]
        states.append(play(op.chunk.block, taken, {axis: part.stop - part.start}))
    while len(states) > 1:
        pairs = zip(states[::2], states[1::2], strict=False)
        joined = [play(op.combine.block, [*a, *b], {}) for a, b in pairs]
        states = joined + states[len(joined) * 2 :]
    return [as_array(state) for state in states[0]]


def _place(kind: ValType, axis: str) -> int | None:
    return kind.labels.index(axis) if axis in kind.labels else None
