"""In which order the axes of what is read, and of what is reduced, lie in memory."""

from __future__ import annotations

from polyc.affine.expressions import linear_of
from polyc.dialects.region.axes import ReduceOp
from polyc.dialects.region.leaves import ReadOp
from polyc.dialects.region.scope import behind
from polyc.dialects.region.types import val_type


def neighbour_of(op: ReadOp) -> str | None:
    """The axis whose neighbours are the neighbours in memory of what is read, where it is one."""
    if not op.map.data.results:
        return None
    match [a for a, times in linear_of(op.map.data.results[-1]).terms if times == 1]:
        case [("d", int(position))]:
            return op.result.type.labels[position]
        case _:
            return None


def innermost_first(reduce: ReduceOp) -> list[str]:
    """The axes of a reduction, from the one on along which what is read lies in memory, and else
    from its operand's innermost one."""
    found = [a for a in reversed(val_type(reduce.operand).labels) if a in reduce.labels]
    reads = (op for op in behind([reduce.operand]) if isinstance(op, ReadOp))
    along = {neighbour_of(read) for read in reads}
    first = next((a for a in found if a in along), None)
    return found if first is None else [first, *(a for a in found if a != first)]
