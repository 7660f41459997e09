"""Where in an array of registers the turns of a loop read and write."""

from __future__ import annotations

from xdsl.dialects import affine
from xdsl.ir import SSAValue

from polyc.passes.support.gpu.symbols import constant_of


def places_of(index: SSAValue, variable: SSAValue, turns: range) -> list[int] | None:
    """An index in each turn of a loop; None where something else is part of it."""
    if index is variable:
        return list(turns)
    if (constant := constant_of(index)) is not None:
        return [constant] * len(turns)
    apply = index.owner
    if not isinstance(apply, affine.ApplyOp):
        return None
    rows = [places_of(value, variable, turns) for value in apply.mapOperands]
    known = [row for row in rows if row is not None]
    if len(known) < len(rows):
        return None
    map_, found = apply.map.data, list[int]()
    for turn in range(len(turns)):
        values = [row[turn] for row in known]
        found += map_.eval(values[: map_.num_dims], values[map_.num_dims :])
    return found
