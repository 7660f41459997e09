"""What can be proved of a kernel's values: no reduction over nothing, no negative number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineSet,
)

from polyc.dialects import region
from polyc.dialects.common.signature import symbol_space
from polyc.dialects.region.types import ValType


def never_empty(reduce: region.ReduceOp, kernel: region.KernelOp | None) -> bool:
    """Whether isl proves that the reduction always has a point, at the sizes of ``kernel``."""
    operand = cast(ValType, reduce.operand.type)
    rows: list[AffineConstraintExpr] = []
    symbols = () if kernel is None else kernel.symbol_names
    for axis in operand.axes:
        if axis.label not in reduce.labels:
            continue
        if (number := axis.size.constant()) is not None:
            if number < 1:
                return False
            continue
        size = axis.size.as_affine(symbols) if kernel is not None else None
        if size is None:
            return False
        rows.append(AffineConstraintExpr(AffineConstraintKind.ge, size, AffineConstantExpr(1)))
    if not rows:
        return True
    assert kernel is not None
    from polyc.affine.isl import IslLimitExceeded, implies

    try:
        return implies(
            symbol_space(symbols, kernel.facts),
            AffineSet(0, len(symbols), tuple(rows)),
        )
    except IslLimitExceeded:
        return False


_NONNEGATIVE_OF_ANY = ("abs", "acos", "acosh", "cosh", "erfc", "exp", "exp2", "sigmoid", "sqrt")
_NONNEGATIVE_OF_NONNEGATIVE = (
    *("erf", "tanh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "expm1", "floor"),
    *("log1p", "round", "sign", "sinh", "trunc"),
)


def nonnegative(value: SSAValue, depth: int = 32) -> bool:
    """Whether each element of ``value`` is provably ``>= 0`` or NaN."""
    if depth == 0:
        return False

    def all_of(values: Sequence[SSAValue]) -> bool:
        return all(nonnegative(v, depth - 1) for v in values)

    match owner := value.owner:
        case region.ConstantOp():
            return not owner.number < 0
        case region.UnaryOp():
            fn = owner.fn.data
            if fn in _NONNEGATIVE_OF_ANY:
                return True
            return fn in _NONNEGATIVE_OF_NONNEGATIVE and all_of(owner.operands)
        case region.BinaryOp():
            match owner.fn.data:
                case "max":
                    return any(nonnegative(o, depth - 1) for o in owner.operands)
                case "mul":
                    return owner.lhs is owner.rhs or all_of(owner.operands)
                case "add" | "min":
                    return all_of(owner.operands)
                case _:
                    return False
        case region.SelectOp():
            return all_of((owner.if_true, owner.if_false))
        case region.ReduceOp():
            # A max over nothing is -inf.
            return owner.fn.data != "max" and all_of((owner.operand,))
        case region.CastOp() | region.BroadcastInDimOp() | region.TransposeOp():
            return all_of((owner.operand,))
        case _:
            return False
