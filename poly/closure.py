"""Affine closure: do the accesses of a value stay affine down to the leaves? (S7.1)

Quasi-affine maps are closed under composition, so the relation ``element of the value → element
of an input`` is piecewise quasi-affine exactly when every value on the way is; a value whose
own access is not affine breaks it.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from polyc.dialects.index import value_op
from polyc.poly.ways import upstream


def all_open(values: Iterable[SSAValue]) -> dict[SSAValue, dict[SSAValue, str]]:
    """``open_at`` of each value of a graph; ``values`` are all of them, operands first."""
    found: dict[SSAValue, dict[SSAValue, str]] = {}
    for value in values:
        here: dict[SSAValue, str] = {}
        if isinstance(owner := value.owner, Operation):
            for operand in owner.operands:
                above = found.get(operand, {})
                here = {**here, **above} if here and above else here or above
        entry = value_op(value)
        if entry is not None and (reason := entry.why_not_affine) is not None:
            here = {**here, value: reason}
        found[value] = here
    return found


def open_at(value: SSAValue) -> dict[SSAValue, str]:
    """The values that break the closure of ``value``, each with its reason; empty if closed."""
    found: dict[SSAValue, str] = {}
    for v in upstream(value):
        entry = value_op(v)
        if entry is not None and (reason := entry.why_not_affine) is not None:
            found[v] = reason
    return found
