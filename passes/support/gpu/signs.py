"""Which index values of a kernel are never negative."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import affine, arith, scf
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
)

from polyc.affine import isl
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.symbols import constant_of
from polyc.rewriting.postorder import computed

COUNTS = (hw.ThreadIdOp, hw.BlockIdOp, hw.GridSizeOp, hw.ClusterRankOp, tile.TileCoordinatesOp)
"""Ops that count from 0."""

KEEP = (
    arith.AddiOp,
    arith.MuliOp,
    arith.DivUIOp,
    arith.RemUIOp,
    arith.MinUIOp,
    arith.MaxUIOp,
    arith.MinSIOp,
)
"""Ops that make no negative number of numbers that are none (indices do not overflow)."""


def never_negative(value: SSAValue) -> bool:
    """Whether ``value`` is 0 or more, whoever asks; False where nothing shows it.

    Affine expressions are decided by isl, over all values of what they are made of.
    """
    return computed(value, _made_of, _natural)


def _made_of(value: SSAValue) -> Sequence[SSAValue]:
    """What the sign of ``value`` depends on."""
    owner = value.owner
    match owner:
        case Block():
            # Loops run upwards.
            around = owner.parent_op()
            return [around.lb] if isinstance(around, scf.ForOp) and value is owner.args[0] else []
        case arith.SelectOp():
            return [owner.lhs, owner.rhs]
        case affine.ApplyOp() | arith.MaxSIOp() | hw.WarpUniformOp() | hw.OpaqueOp():
            return owner.operands
        case _:
            return owner.operands if isinstance(owner, KEEP) else []


def _natural(value: SSAValue, known: Sequence[bool]) -> bool:
    """Whether ``value`` is 0 or more, by what is ``known`` of what it is made of."""
    if (constant := constant_of(value)) is not None:
        return constant >= 0
    owner = value.owner
    match owner:
        case Block():
            # A size of a kernel, a tile's place, a loop's variable.
            around = owner.parent_op()
            if isinstance(around, tile.TileLoopOp):
                return value not in around.carried
            if isinstance(around, gpu.KernelOp | tile.RolesOp):
                return True
            return bool(known) and known[0]
        case affine.ApplyOp():
            return _expression(owner, known)
        case arith.MaxSIOp():
            return any(known)
        case _ if isinstance(owner, (*KEEP, arith.SelectOp, hw.WarpUniformOp, hw.OpaqueOp)):
            return all(known)
        case _:
            return isinstance(owner, COUNTS)


def _expression(op: affine.ApplyOp, known: Sequence[bool]) -> bool:
    m, operands = op.map.data, list(op.mapOperands)
    places = [AffineExpr.dimension(i) for i in range(len(operands))]
    # As dimensions all: a symbol of isl's is never negative, one of the map may be.
    expr = m.results[0].replace_dims_and_symbols(places[: m.num_dims], places[m.num_dims :])
    if sum_of_counts(expr, known):
        return True
    ge, zero = AffineConstraintKind.ge, AffineExpr.constant(0)
    rows = [AffineConstraintExpr(ge, e, zero) for e, k in zip(places, known, strict=True) if k]
    below = AffineConstraintExpr(ge, -expr + -1, zero)
    try:
        return isl.is_empty(AffineSet(len(places), 0, (*rows, below)))
    except isl.IslLimitExceeded:
        return False


def sum_of_counts(expr: AffineExpr, known: Sequence[bool]) -> bool:
    """Whether the spelling shows that an expression is 0 or more where the dimensions that are
    ``known`` are: sums, products and quotients of what is not negative.
    """
    match expr:
        case AffineConstantExpr(value):
            return value >= 0
        case AffineDimExpr(position):
            return known[position]
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mod, _, AffineConstantExpr(value)) if value > 0:
            return True
        case AffineBinaryOpExpr(_, lhs, rhs):
            return sum_of_counts(lhs, known) and sum_of_counts(rhs, known)
        case _:
            return False
