"""Values behind the ops that only show them over other axes."""

from __future__ import annotations

from xdsl.ir import SSAValue

from polyc.dialects import region

VIEWS = (region.BroadcastInDimOp, region.TransposeOp)


def behind_views(value: SSAValue) -> SSAValue:
    """The value that ``value`` shows over other axes, or in another order of them."""
    while isinstance(owner := value.owner, VIEWS):
        value = owner.operand
    return value


def constant_of(value: SSAValue) -> float | None:
    """The number that every element of ``value`` is, if it is one."""
    owner = behind_views(value).owner
    return owner.number if isinstance(owner, region.ConstantOp) else None
