"""What the ops of the tile level read and write of fragments and shared tiles (T2)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType


def writes(op: Operation) -> Sequence[SSAValue]:
    """The fragments and tiles that an op sets."""
    match op:
        case tile.FillOp():
            return [op.fragment]
        case tile.MapOp():
            return op.outputs
        case tile.ReduceOp() | tile.ReduceScatterOp() | tile.CopyOp():
            return [op.target]
        case tile.AwaitPostsOp():
            return [op.fragment]
        case tile.ScanOp():
            return list(op.operands)
        case tile.ContractOp():
            return [op.acc]
        case _:
            return []


def fragments_of(op: Operation) -> list[SSAValue]:
    """The fragments that an op, not those in its regions, reads or writes."""
    return [value for value in op.operands if isinstance(value.type, FragmentType)]
