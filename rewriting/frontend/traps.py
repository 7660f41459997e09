"""Indices that a ``trap`` forbids to be outside of their axis: which there are, and what is said.

Playback says it at once.  A debug build computes three numbers for each: the place of the first
index that is outside, or -1, that index, and the axis's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from polyc.dialects.common.diagnostic import Place, PolycError, place_of
from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.elements import MAX_BITS, is_unsigned
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.dialects.frontend.gathers import GatherBase, GatherNdOp
from polyc.dialects.frontend.scatters import ScatterBase, ScatterNdOp


@dataclass(frozen=True)
class Trap:
    """Indices of an op along one of its operand's axes.

    ``component`` is their place in a tuple, where there are tuples.
    """

    what: str
    axis: int
    component: int | None
    from_end: bool
    unsigned: bool
    shape: str
    place: Place | None

    def error(self, place: int, index: int, size: int) -> PolycError | None:
        """What is said of an ``index`` at a ``place`` of the indices, outside of an axis of
        ``size``; None where the place is -1, and all are inside."""
        if place < 0:
            return None
        if self.unsigned:
            index %= 1 << MAX_BITS
        if not size:
            known = "which has no elements"
        elif self.from_end:
            known = f"which has {-size} to {size - 1}"
        else:
            known = f"which has 0 to {size - 1}"
        part = "" if self.component is None else f", number {self.component} of its tuple"
        return PolycError(
            "IndexOutside",
            f"index {index} at place {place} of {self.shape}{part} is outside of axis {self.axis} "
            f"of the operand of {self.what}, {known}; mend the indices, or leave out trap",
            self.place,
        )


def traps_of(op: GatherBase | ScatterBase) -> list[Trap]:
    """What an op traps: one for each axis that indices are of."""
    if op.trap is None:
        return []
    kind = tensor_of(op.indices)
    tuples = isinstance(op, GatherNdOp | ScatterNdOp)
    count = (kind.dims[-1].constant() or 0) if tuples else 1
    unsigned = is_unsigned(kind.element_type)
    dims = kind.dims[:-1] if tuples else kind.dims
    return [
        Trap(
            op.name,
            op.number + i,
            i if tuples else None,
            op.counts_from_end and not unsigned,
            unsigned,
            shape_text(dims),
            place_of(op),
        )
        for i in range(count)
    ]


def trapping(graph: GraphOp) -> Iterator[tuple[GatherBase | ScatterBase, list[Trap]]]:
    """The ops of a graph that trap, with what they do."""
    for op in graph.body.block.ops:
        if isinstance(op, GatherBase | ScatterBase) and op.trap is not None:
            yield op, traps_of(op)


def traps(graph: GraphOp) -> list[Trap]:
    """What a graph traps, in the order of its ops."""
    return [trap for _, found in trapping(graph) for trap in found]


def first_error(found: Sequence[Trap], records: Sequence[Sequence[int]]) -> PolycError | None:
    """What the first record says that has a place; there is one for each trap."""
    for trap, (place, index, size) in zip(found, records, strict=True):
        if (error := trap.error(place, index, size)) is not None:
            return error
    return None
