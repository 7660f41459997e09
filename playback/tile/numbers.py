"""Sizes, coordinates and conditions of a tile program: numbers that all threads agree on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.functions import dtype_of
from polyc.playback.gpu import arithmetic
from polyc.playback.tile import integers
from polyc.playback.tile.cta import Array, Cta, Plays

BINARY: dict[AffineBinaryOpKind, Callable[[Any, Any], Any]] = {
    AffineBinaryOpKind.Add: lambda a, b: a + b,
    AffineBinaryOpKind.Mul: lambda a, b: a * b,
    AffineBinaryOpKind.FloorDiv: lambda a, b: a // b,
    AffineBinaryOpKind.CeilDiv: lambda a, b: -(-a // b),
    AffineBinaryOpKind.Mod: lambda a, b: a % b,
}
"""Affine operators; Python's division rounds to minus infinity, as theirs does."""


def evaluated(expr: AffineExpr, dims: Sequence[Array], symbols: Sequence[int]) -> Any:
    """An affine expression on arrays of its dimensions."""
    # By type and not by ``match``, which asks abstract classes for most nodes.
    if type(expr) is AffineDimExpr:
        return dims[expr.position]
    if type(expr) is AffineConstantExpr:
        return expr.value
    if type(expr) is AffineSymExpr:
        return symbols[expr.position]
    assert isinstance(expr, AffineBinaryOpExpr)
    a, b = evaluated(expr.lhs, dims, symbols), evaluated(expr.rhs, dims, symbols)
    return BINARY[expr.kind](a, b)


INTEGER: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.DivUIOp: lambda a, b: a // b,
    arith.DivSIOp: lambda a, b: int(a / b),
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.RemUIOp: lambda a, b: a % b,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.MinUIOp: min,
    arith.MaxUIOp: max,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
    arith.ShRUIOp: lambda a, b: a >> b,
}
"""Arithmetic of sizes, coordinates and conditions."""


def play_constant(cta: Cta, op: arith.ConstantOp) -> None:
    value = cast(Attribute, op.value)
    if isinstance(value, IntegerAttr):
        cta.values[op.result] = int(value.value.data)
    elif isinstance(value, FloatAttr):
        cta.values[op.result] = dtype_of(op.result.type).type(value.value.data)
    else:
        raise PolycError("NotPlayed", f"a tile program has no constant like {value}", op)


def _integer(cta: Cta, op: Operation) -> None:
    left, right = cta.numbers(op.operands)
    cta.values[op.results[0]] = INTEGER[type(op)](left, right)


def _index_cast(cta: Cta, op: arith.IndexCastOp) -> None:
    cta.values[op.result] = cta.values[op.input]


def _to_float(cta: Cta, op: arith.SIToFPOp) -> None:
    cta.values[op.result] = dtype_of(op.result.type).type(cta.values[op.input])


def _converted(cta: Cta, op: Operation) -> None:
    """A size in another type, outside of maps."""
    found = integers.evaluated(op, [cta.values[v] for v in op.operands])
    cta.values[op.results[0]] = int(found) if found.dtype.kind == "i" else found[()]


def _apply(cta: Cta, op: affine.ApplyOp) -> None:
    m, operands = op.map.data, cta.numbers(op.mapOperands)
    cta.values[op.result] = m.eval(operands[: m.num_dims], operands[m.num_dims :])[0]


def _compare(cta: Cta, op: arith.CmpiOp) -> None:
    compare = arithmetic.compare_integers(op.predicate.value.data, np.dtype(np.int64))
    cta.values[op.result] = bool(compare(*(np.int64(n) for n in cta.numbers(op.operands))))


def _choose(cta: Cta, op: arith.SelectOp) -> None:
    cta.values[op.result] = cta.values[op.lhs if cta.values[op.cond] else op.rhs]


NUMBERS: Plays = {
    arith.ConstantOp: play_constant,
    arith.IndexCastOp: _index_cast,
    arith.SIToFPOp: _to_float,
    **dict.fromkeys((arith.TruncIOp, arith.ExtSIOp, arith.ExtUIOp, arith.UIToFPOp), _converted),
    affine.ApplyOp: _apply,
    arith.CmpiOp: _compare,
    arith.SelectOp: _choose,
    **dict.fromkeys(INTEGER, _integer),
}
