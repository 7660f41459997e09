"""Mutants of what a kernel computes, beside those of how it is synchronised (``mutation.py``).

A compiler that confuses two functions, two operands or a bound with its neighbour makes kernels
that run clean and compute something else; only the comparison of their numbers finds them.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Iterator
from typing import cast

from xdsl.dialects import affine, arith, math, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    VectorType,
)
from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.gpu import hardware as hw

Change = tuple[str, Callable[[], None]]
"""What a change says of itself, and the change."""

NEIGHBOURS = {3: 2, 4: 5, 5: 4, 6: 7, 7: 6, 8: 9, 9: 8}
"""Predicates of ``arith.cmpi`` that differ where both sides are equal; slt is in mutation.py."""

OTHER_FUNCTION: dict[type[Operation], type[Operation]] = {
    arith.MaximumfOp: arith.MinimumfOp,
    arith.MinimumfOp: arith.MaximumfOp,
    arith.MaxSIOp: arith.MinSIOp,
    arith.MinSIOp: arith.MaxSIOp,
    arith.AddfOp: arith.SubfOp,
    arith.SubfOp: arith.AddfOp,
    arith.MulfOp: arith.AddfOp,
    arith.DivfOp: arith.MulfOp,
    hw.FmodOp: arith.DivfOp,
    hw.PhiloxOp: arith.XOrIOp,
    hw.PowerOp: arith.MuliOp,
}
"""What a function of two operands is taken for."""

OTHER_UNARY: dict[type[Operation], type[Operation]] = {
    math.ExpOp: math.Exp2Op,
    math.Exp2Op: math.ExpOp,
    math.RsqrtOp: math.SqrtOp,
    math.SqrtOp: math.RsqrtOp,
    math.TanhOp: math.ErfOp,
    hw.ErfcOp: math.ErfOp,
    math.ErfOp: math.TanhOp,
    math.LogOp: math.Log2Op,
    math.Log1pOp: math.LogOp,
    math.ExpM1Op: math.ExpOp,
    math.SinOp: math.CosOp,
    math.CosOp: math.SinOp,
    math.SinhOp: math.AsinhOp,
    math.AtanOp: math.TanOp,
    math.FloorOp: math.CeilOp,
    math.CeilOp: math.FloorOp,
    math.RoundEvenOp: math.TruncOp,
    math.TruncOp: math.RoundEvenOp,
}
"""What a function of one operand is taken for."""


def _replaced(op: Operation, other: type[Operation]) -> Callable[[], None]:
    def change() -> None:
        new = other.create(operands=list(op.operands), result_types=[r.type for r in op.results])
        for name, value in op.properties.items():
            if name == "fastmath":
                new.properties[name] = value
        new.location = op.location
        Rewriter.replace_op(op, new)

    return change


def _functions(op: Operation) -> Iterator[Change]:
    other = OTHER_FUNCTION.get(type(op)) or OTHER_UNARY.get(type(op))
    if other is not None and not isinstance(op.results[0].type, VectorType):
        yield f"{op.name} -> {other.name}", _replaced(op, other)


def _exchanged(op: Operation, first: int, second: int) -> Callable[[], None]:
    def change() -> None:
        a, b = op.operands[first], op.operands[second]
        op.operands[first], op.operands[second] = b, a

    return change


def _operands(op: Operation) -> Iterator[Change]:
    match op:
        case arith.SelectOp() if op.lhs is not op.rhs:
            yield "branches exchanged", _exchanged(op, 1, 2)
        case arith.SubfOp() | arith.DivfOp() | arith.SubiOp() if op.lhs is not op.rhs:
            yield "operands exchanged", _exchanged(op, 0, 1)
        case math.FmaOp():
            yield "factor and addend exchanged", _exchanged(op, 1, 2)
        case _:
            return


def _bounds(op: Operation) -> Iterator[Change]:
    match op:
        case arith.CmpiOp() if (near := NEIGHBOURS.get(op.predicate.value.data)) is not None:

            def other() -> None:
                op.properties["predicate"] = IntegerAttr(near, op.predicate.type)

            yield "a bound's neighbour", other
        case scf.ForOp():

            def later() -> None:
                step = arith.AddiOp(op.lb, op.step)
                Rewriter.insert_op(step, InsertPoint.before(op))
                op.operands[0] = step.result

            def sooner() -> None:
                step = arith.SubiOp(op.ub, op.step)
                Rewriter.insert_op(step, InsertPoint.before(op))
                op.operands[1] = step.result

            if isinstance(op.lb.type, IndexType):
                yield "the first iteration left out", later
                yield "the last iteration left out", sooner
        case _:
            return


def _constants(op: Operation) -> Iterator[Change]:
    match op:
        case arith.ConstantOp() if isinstance(op.value, FloatAttr):
            value, kind = op.value.value.data, cast(AnyFloat, op.value.get_type())
            wrong = 1.0 if value == 0 else 0.0 if numbers.isinf(value) else value * 1.01

            def scaled() -> None:
                op.properties["value"] = FloatAttr(wrong, kind)

            yield f"{value:g} -> {wrong:g}", scaled
        case affine.ApplyOp():
            old = op.map.data

            def shifted() -> None:
                results = tuple(e + 1 for e in old.results)
                moved = AffineMap(old.num_dims, old.num_symbols, results)
                op.properties["map"] = type(op.map)(moved)

            yield "an index is one further", shifted
        case hw.ShuffleOp() if isinstance(op.lane.owner, arith.ConstantOp):

            def other_kind() -> None:
                op.properties["kind"] = StringAttr("down" if op.kind.data == "xor" else "xor")

            yield "a shuffle of another kind", other_kind
        case _:
            return


ARITHMETIC: tuple[Callable[[Operation], Iterator[Change]], ...] = (
    _functions,
    _operands,
    _bounds,
    _constants,
)
"""The mistakes of arithmetic."""
