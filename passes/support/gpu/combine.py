"""What the steps of a reduction have in common, within threads and between them (T2).

A reduction is computed in f32, i32 or i64.  A fragment of a narrower type is mapped to f32 first,
where its author sees it: sums of f16 or bf16 would be rounded at every step, and in another place
for every layout (S0.6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, f32, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import neutral as nothing
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.scalars import wrapping
from polyc.dialects.gpu.types import FragmentType
from polyc.rewriting.emit import Emit

COMBINE: Mapping[Attribute, Mapping[str, Callable[[SSAValue, SSAValue], Operation]]] = {
    f32: {
        "sum": arith.AddfOp,
        "prod": arith.MulfOp,
        "max": arith.MaximumfOp,
        "min": arith.MinimumfOp,
    },
    i32: {"sum": arith.AddiOp, "prod": arith.MuliOp, "max": arith.MaxSIOp, "min": arith.MinSIOp},
    i64: {
        "sum": lambda a, b: wrapping(arith.AddiOp(a, b)),
        "prod": lambda a, b: wrapping(arith.MuliOp(a, b)),
        "max": arith.MaxSIOp,
        "min": arith.MinSIOp,
    },
}
"""Two values as one: max and min of f32 propagate NaN (S0.6); sums of integers wrap."""

CHAINS = 2
"""Partial results a thread keeps for each of its own, so that one need not wait for another."""


def combine(emit: Emit, kind: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
    return emit.value(COMBINE[lhs.type][kind](lhs, rhs))


def neutral(emit: Emit, kind: str, element: Attribute) -> SSAValue:
    """What a reduction over nothing is (S0.6)."""
    value = nothing(kind, element)
    if element != f32:
        return emit.value(arith.ConstantOp(IntegerAttr(int(value), cast("IntegerType", element))))
    return emit.value(arith.ConstantOp(FloatAttr(value, f32)))


def element_of(op: tile.ReduceOp | tile.ReduceScatterOp | tile.ScanOp) -> Attribute:
    """The type that a reduction is computed in; raises PolycError ``UnsupportedReduce``."""
    kind = (op.fragment if isinstance(op, tile.ScanOp) else op.source).type
    assert isinstance(kind, FragmentType)
    element = kind.element_type
    if element not in COMBINE:
        raise PolycError(
            "UnsupportedReduce",
            f"a reduction is computed in f32, i32 or i64, not in {element}; map the fragment to "
            "f32 first",
            op,
        )
    return element
