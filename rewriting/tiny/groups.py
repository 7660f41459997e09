"""Where the groups of a norm are merged again (S9)."""

from __future__ import annotations

from xdsl.ir import SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.sizes import factor_groups
from polyc.rewriting.tiny.elementwise import waits


def merged_groups(value: SSAValue) -> SSAValue | None:
    """What a value is with its groups apart, where it is a reshape that merges a norm's groups.

    It merges axes, the last one among them, and splits none; what it merges is computed, element by
    element, of a reduction that is repeated along the last axis.
    """
    view = value.owner
    if not isinstance(view, tiny.ReshapeOp):
        return None
    operand, result = (tiny.tensor_of(v).dims for v in (view.operand, view.result))
    if len(operand) <= len(result) or not result:
        return None
    groups = factor_groups(operand, result, view)
    if not groups or any(len(kept) > 1 for _, kept in groups) or len(groups[-1][0]) < 2:
        return None
    return view.operand if waits(view.operand, frozenset((len(operand) - 1,))) else None
