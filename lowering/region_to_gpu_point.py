"""``region-to-gpu``: region values at one point of a tile, as the scalar body of a ``gpu.map``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    ReadOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
)
from polyc.passes.driver import located
from polyc.passes.emit import Emit

BINARY: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
    "pow": math.PowFOp,
}
"""Scalar op of each binary function; max and min propagate NaN (S0.6)."""

UNARY: Mapping[str, Callable[[SSAValue], Operation]] = {
    "abs": math.AbsFOp,
    "erf": math.ErfOp,
    "exp": math.ExpOp,
    "log": math.LogOp,
    "rsqrt": math.RsqrtOp,
    "sqrt": math.SqrtOp,
    "tanh": math.TanhOp,
    "neg": arith.NegfOp,
}
"""Scalar op of each unary function that is one op."""

COMPARE: Mapping[str, str] = {
    "eq": "oeq",
    "ne": "une",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
}
"""Ordered comparisons: a NaN compares false, and ``ne`` true."""


class Point:
    """The scalars of region values at one point of a tile.

    ``block``    the body of the map; its first argument is the tile's own element
    ``known``    region values that have a scalar already
    ``axes``     where each axis of the region is, in the map's dimensions and origins
    ``rank``     how many dimensions the tile has
    ``origins``  how many origins the map has

    Values are made when they are asked for; ``tensors`` and ``maps`` are what they read, in the
    order of the block's further arguments.
    """

    def __init__(
        self,
        block: Block,
        known: Mapping[SSAValue, SSAValue],
        axes: Mapping[str, AffineExpr],
        rank: int,
        origins: int,
    ) -> None:
        self.block = block
        self.axes = axes
        self.rank = rank
        self.origins = origins
        self.emit = Emit()
        self.values: dict[SSAValue, SSAValue] = dict(known)
        self.tensors: list[SSAValue] = []
        self.maps: list[AffineMap] = []

    def scalar(self, value: SSAValue) -> SSAValue:
        """The scalar of a region value, made with what it needs when it is asked for first."""
        if value not in self.values:
            op = value.owner
            assert isinstance(op, Operation)
            before = len(self.emit.ops)
            made = self.make(op)
            for new in self.emit.ops[before:]:
                located(new, op)
            if value.name_hint is not None and made.name_hint is None:
                made.name_hint = value.name_hint
            self.values[value] = made
        return self.values[value]

    def make(self, op: Operation) -> SSAValue:
        match op:
            case ReadOp():
                return self.read(op)
            case ConstantOp():
                value = op.value.value.data
                kind = cast(AnyFloat, op.result.type.element_type)
                return self.emit.value(arith.ConstantOp(FloatAttr(value, kind)))
            case BroadcastInDimOp() | TransposeOp():
                return self.scalar(op.operand)
            case CastOp():
                return self.cast(self.scalar(op.operand), op.result.type.element_type)
            case UnaryOp():
                return self.unary(op.fn.data, self.scalar(op.operand))
            case BinaryOp():
                return self.emit.value(BINARY[op.fn.data](self.scalar(op.lhs), self.scalar(op.rhs)))
            case CompareOp():
                lhs, rhs = self.scalar(op.lhs), self.scalar(op.rhs)
                return self.emit.value(arith.CmpfOp(lhs, rhs, COMPARE[op.fn.data]))
            case SelectOp():
                condition, then, other = (self.scalar(v) for v in op.operands)
                return self.emit.value(arith.SelectOp(condition, then, other))
            case _:
                raise PolycError(
                    "UnsupportedProgram",
                    f"{op.name} does not run at one point of the output tile; "
                    "make its result an output of a graph of its own",
                    op,
                )

    def read(self, op: ReadOp) -> SSAValue:
        """A tensor read at the point, as an input of the map.

        Raises PolycError where an axis of the read has no place at the point.
        """
        if op.guard is not None:
            raise PolycError(
                "UnsupportedProgram", "a guarded read in an epilogue is not there yet", op
            )
        dims = [self.axes[label] for label in op.result.type.labels]
        access = op.map.data
        if access.num_symbols and any(
            isinstance(e, type(AffineExpr.symbol(0))) for r in access.results for e in r.dfs()
        ):
            raise PolycError(
                "UnsupportedProgram",
                f"an epilogue reads at {access}, which moves by a size; not there yet",
                op,
            )
        unused = [AffineExpr.constant(0)] * access.num_symbols
        results = tuple(e.replace_dims_and_symbols(dims, unused) for e in access.results)
        self.tensors.append(op.tensor)
        self.maps.append(AffineMap(self.rank, self.origins, results))
        arg = self.block.insert_arg(op.result.type.element_type, len(self.block.args))
        assert isinstance(op.tensor, BlockArgument)
        arg.name_hint = op.tensor.name_hint
        return arg

    def cast(self, value: SSAValue, target: Attribute) -> SSAValue:
        source = value.type
        if source == target:
            return value
        if target == f32:
            return self.emit.value(arith.ExtFOp(value, f32))
        if source == f32:
            return self.emit.value(arith.TruncFOp(value, cast(AnyFloat, target)))
        return self.cast(self.cast(value, f32), target)

    def unary(self, fn: str, value: SSAValue) -> SSAValue:
        if fn in UNARY:
            return self.emit.value(UNARY[fn](value))
        one = self.emit.value(arith.ConstantOp(FloatAttr(1.0, f32)))
        if fn == "reciprocal":
            return self.emit.value(arith.DivfOp(one, value))
        assert fn == "sigmoid", fn
        # 1 / (1 + exp(-x)): exp overflows to infinity where the result is 0.
        power = self.emit.value(math.ExpOp(self.emit.value(arith.NegfOp(value))))
        return self.emit.value(arith.DivfOp(one, self.emit.value(arith.AddfOp(one, power))))
