"""Which index values of a kernel are never negative."""

from __future__ import annotations

from xdsl.dialects import affine, arith, scf
from xdsl.ir import Block, Operation, SSAValue
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

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.passes.gpu_symbols import constant_of
from polyc.poly import isl

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
    if (constant := constant_of(value)) is not None:
        return constant >= 0
    owner = value.owner
    if isinstance(owner, Block):
        return _argument(owner, value)
    match owner:
        case affine.ApplyOp():
            return _expression(owner)
        case arith.SelectOp():
            return never_negative(owner.lhs) and never_negative(owner.rhs)
        case arith.MaxSIOp():
            return any(map(never_negative, owner.operands))
        case hw.WarpUniformOp():
            return never_negative(owner.operands[0])
        case _ if isinstance(owner, KEEP):
            return all(map(never_negative, owner.operands))
        case _:
            return isinstance(owner, COUNTS)


def _argument(block: Block, value: SSAValue) -> bool:
    """A size of a kernel; a loop's variable that starts at no negative number; a tile's place."""
    around: Operation | None = block.parent_op()
    match around:
        case gpu.KernelOp() | tile.TileLoopOp() | tile.RolesOp():
            return True
        case scf.ForOp() if value is block.args[0]:
            # Loops run upwards.
            return never_negative(around.lb)
        case _:
            return False


def _expression(op: affine.ApplyOp) -> bool:
    m, operands = op.map.data, list(op.mapOperands)
    places = [AffineExpr.dimension(i) for i in range(len(operands))]
    # As dimensions all: a symbol of isl's is never negative, one of the map may be.
    expr = m.results[0].replace_dims_and_symbols(places[: m.num_dims], places[m.num_dims :])
    known = [never_negative(v) for v in operands]
    if _sum_of_counts(expr, known):
        return True
    ge, zero = AffineConstraintKind.ge, AffineExpr.constant(0)
    rows = [AffineConstraintExpr(ge, e, zero) for e, k in zip(places, known, strict=True) if k]
    below = AffineConstraintExpr(ge, -expr + -1, zero)
    try:
        return isl.is_empty(AffineSet(len(places), 0, (*rows, below)))
    except isl.IslLimitExceeded:
        return False


def _sum_of_counts(expr: AffineExpr, known: list[bool]) -> bool:
    """Whether the spelling shows it: sums, products and quotients of what is not negative."""
    match expr:
        case AffineConstantExpr(value):
            return value >= 0
        case AffineDimExpr(position):
            return known[position]
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mod, _, AffineConstantExpr(value)) if value > 0:
            return True
        case AffineBinaryOpExpr(_, lhs, rhs):
            return _sum_of_counts(lhs, known) and _sum_of_counts(rhs, known)
        case _:
            return False
