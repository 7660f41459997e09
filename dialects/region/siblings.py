"""Reductions that go along the same points and read the same there, as a sum and a maximum do.

One loop has all of them: what they read is read once, and what they need in a step, as the weights
of a sum and those of what is divided by it, is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from polyc.dialects.region.axes import ReduceOp
from polyc.dialects.region.leaves import ReadOp
from polyc.dialects.region.types import val_type

Along = Callable[[ReduceOp], object]
"""Along which axes of a tile the results of a reduction differ."""

Behind = Callable[[Sequence[SSAValue]], Iterable[Operation]]
"""The ops that values are made by, those behind reductions too."""


def siblings(reductions: Sequence[ReduceOp], behind: Behind, along: Along) -> list[list[ReduceOp]]:
    """Reductions in groups of those that one loop may have, each in the order given.

    They are over the same axes with results along the same ones of a tile, threads may part all of
    them or none, none needs another one, and each reads or reduces something that the first does.
    """
    made = {one: frozenset(behind([one.operand])) for one in reductions}
    groups: list[list[ReduceOp]] = []
    for one in reductions:
        for group in groups:
            if all(_apart(one, other, made) for other in group) and _alike(
                one, group[0], made, along
            ):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


Made = dict[ReduceOp, frozenset[Operation]]


def _apart(one: ReduceOp, other: ReduceOp, made: Made) -> bool:
    """Whether neither of two reductions needs the other one."""
    return one not in made[other] and other not in made[one]


def _alike(one: ReduceOp, other: ReduceOp, made: Made, along: Along) -> bool:
    """Whether two go along the same points, and have something in common there."""
    if set(one.labels) != set(other.labels) or one.is_shared != other.is_shared:
        return False
    kinds = [val_type(value) for value in (one.operand, other.operand)]
    sizes = [[kind.axis(label) for label in sorted(one.labels)] for kind in kinds]
    if sizes[0] != sizes[1] or along(one) != along(other):
        return False
    over = set(one.labels)
    return any(
        isinstance(op, ReadOp | ReduceOp) and over & set(val_type(op.results[0]).labels)
        for op in made[one] & made[other]
    )
