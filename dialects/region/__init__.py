"""``region``: one kernel as pure values whose types name their axes (S6).

A ``region.kernel`` reads tensors, computes values and yields what it writes.  There are
no buffers, no loops and no stages.  A value is a function of its axes; its type lists
them, so ``!region.val<[m: M, k: K], f32>`` depends on ``m`` and ``k`` and on nothing
else.  The body of a reduction is the graph of values that leads to its operand.

Two values with the same axis name speak of the same index, everywhere in one kernel.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from polyc.dialects.region.axes import BroadcastInDimOp, ReduceOp, TransposeOp
from polyc.dialects.region.elementwise import (
    BinaryOp,
    BitcastOp,
    CastOp,
    CompareOp,
    SelectOp,
    UnaryOp,
)
from polyc.dialects.region.gathers import GatherOp
from polyc.dialects.region.graph import GraphOp
from polyc.dialects.region.kernel import KernelOp, KernelTensor, YieldOp, kernel_of
from polyc.dialects.region.leaves import ConstantOp, DimOp, IndexOp, InsideOp, ReadOp
from polyc.dialects.region.scans import ScanOp
from polyc.dialects.region.scatters import ScatterOp
from polyc.dialects.region.scope import (
    BINARY_FNS,
    COMPARE_FNS,
    MATERIALIZE,
    NEUTRAL,
    REDUCE_FNS,
    UNARY_FNS,
)
from polyc.dialects.region.signature import derived_symbols
from polyc.dialects.region.sorting import SortOp
from polyc.dialects.region.together import ReduceTogetherOp, StateOp
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, axes_text

__all__ = [
    "BINARY_FNS",
    "COMPARE_FNS",
    "MATERIALIZE",
    "NEUTRAL",
    "REDUCE_FNS",
    "UNARY_FNS",
    "AxisAttr",
    "BinaryOp",
    "BitcastOp",
    "BroadcastInDimOp",
    "CastOp",
    "CompareOp",
    "ConstantOp",
    "DimOp",
    "GatherOp",
    "GraphOp",
    "IndexOp",
    "InsideOp",
    "KernelOp",
    "KernelTensor",
    "MemRefType",
    "ReadOp",
    "ReduceOp",
    "ReduceTogetherOp",
    "RegionDialect",
    "ScanOp",
    "ScatterOp",
    "SelectOp",
    "SortOp",
    "StateOp",
    "TransposeOp",
    "UnaryOp",
    "ValType",
    "YieldOp",
    "axes_text",
    "derived_symbols",
    "kernel_of",
]

RegionDialect = Dialect(
    "region",
    [
        GraphOp,
        KernelOp,
        ReadOp,
        ConstantOp,
        DimOp,
        IndexOp,
        InsideOp,
        UnaryOp,
        BinaryOp,
        CompareOp,
        SelectOp,
        CastOp,
        BitcastOp,
        BroadcastInDimOp,
        TransposeOp,
        GatherOp,
        ScatterOp,
        ReduceOp,
        SortOp,
        ReduceTogetherOp,
        ScanOp,
        StateOp,
        YieldOp,
    ],
    [AxisAttr, ValType, MemRefType],
)
