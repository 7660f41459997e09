"""Where along an axis of its results a reduction is of something, as each part of a concat is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstraintKind, AffineSet

from polyc.affine.expressions import NotAffine, linear_of
from polyc.dialects.common.elements import number_of
from polyc.dialects.region.axes import BroadcastInDimOp, ReduceOp, TransposeOp
from polyc.dialects.region.elementwise import BinaryOp, CastOp, CompareOp, SelectOp, UnaryOp
from polyc.dialects.region.leaves import ConstantOp, InsideOp, ReadOp
from polyc.dialects.region.types import ValType, val_type

ELEMENTWISE = (BinaryOp, UnaryOp, CastOp, CompareOp, SelectOp, BroadcastInDimOp, TransposeOp)
"""Ops that make of each point of a value one of their own, or repeat it."""


@dataclass(frozen=True)
class Present:
    """Points ``first`` to ``last`` of an axis, of ``size`` points, outside of which every read of a
    reduction is filled, and it is what a reduction of nothing gives, or nothing asks for it."""

    label: str
    first: int
    last: int
    size: int

    @property
    def share(self) -> float:
        """How much of the axis they are."""
        return (self.last - self.first + 1) / self.size


def present(reduce: ReduceOp, made: Sequence[Operation]) -> Present | None:
    """Where a reduction is of something, of the ops that what it reduces is ``made`` by; None where
    that is everywhere, or not known."""
    reads = [op for op in made if isinstance(op, ReadOp)]
    if not reads or any(isinstance(op, ReduceOp) for op in made):
        return None
    guards = [op.guard for op in reads if op.fill is not None and op.guard is not None]
    if len(guards) < len(reads):
        return None
    kinds = (val_type(op.result) for op in reads)
    found = {_bounds(g.data, k, reduce.labels) for g, k in zip(guards, kinds, strict=True)}
    if len(found) != 1 or (one := found.pop()) is None:
        return None
    nothing = _filled(reduce.operand, {}) == float(number_of(reduce.init))
    return one if nothing or _is_hidden(reduce.result, one) else None


def _bounds(points: AffineSet, kind: ValType, reduced: Sequence[str]) -> Present | None:
    """The points of an axis that is not reduced, in which a set lies."""
    found: dict[str, Present] = {}
    for row in points.constraints:
        try:
            line = linear_of(row.lhs - row.rhs)
        except NotAffine:
            return None
        if len(line.terms) != 1 or row.kind is AffineConstraintKind.eq:
            continue
        ((atom, factor),) = line.terms
        if not isinstance(atom, tuple) or atom[0] != "d" or abs(factor) != 1:
            continue
        label, size = kind.labels[atom[1]], kind.shape[atom[1]].constant()
        if label in reduced or size is None:
            continue
        own = found.get(label, Present(label, 0, size - 1, size))
        sign = factor if row.kind is AffineConstraintKind.ge else -factor
        first, last = own.first, own.last
        if sign > 0:
            first = max(first, -line.constant * factor)
        else:
            last = min(last, -line.constant * factor)
        found[label] = Present(label, first, last, size)
    parts = [one for one in found.values() if 0 < one.share < 1]
    return parts[0] if len(parts) == 1 else None


def _is_hidden(value: SSAValue, one: Present) -> bool:
    """Whether all that is made of a value is chosen at some points of an axis alone."""
    work, seen = [value], {value}
    while work:
        here = work.pop()
        for op in {use.operation for use in here.uses}:
            if isinstance(op, SelectOp) and op.if_false is not here and _is_in(op.condition, one):
                continue
            if not isinstance(op, ELEMENTWISE):
                return False
            if op.result not in seen:
                seen.add(op.result)
                work.append(op.result)
    return True


def _is_in(condition: SSAValue, one: Present) -> bool:
    """Whether a condition holds at no point of an axis but some."""
    while isinstance(op := condition.owner, BroadcastInDimOp | TransposeOp):
        condition = op.operand
    if not isinstance(op, InsideOp):
        return False
    found = _bounds(op.set.data, op.result.type, ())
    return found == one


def _filled(value: SSAValue, known: dict[SSAValue, float | None]) -> float | None:
    """What a value is where all that is read is filled; None where that is not known."""
    if value not in known:
        known[value] = None
        known[value] = _number(value, known)
    return known[value]


def _number(value: SSAValue, known: dict[SSAValue, float | None]) -> float | None:
    match value.owner:
        case ReadOp() as op:
            return None if op.fill is None else float(number_of(op.fill))
        case ConstantOp() as op:
            return float(number_of(op.value))
        case BroadcastInDimOp() | TransposeOp() as op:
            return _filled(op.operand, known)
        case CastOp() as op:
            found = _filled(op.operand, known)
            return found if found in (0.0, math.inf, -math.inf) else None
        case UnaryOp() as op if op.fn.data in ("abs", "neg"):
            found = _filled(op.operand, known)
            return None if found is None else abs(found) if op.fn.data == "abs" else -found
        case BinaryOp() as op if op.fn.data in ("mul", "add", "max", "min"):
            sides = [_filled(side, known) for side in (op.lhs, op.rhs)]
            if sides[0] is None or sides[1] is None:
                return None
            return _joined(op.fn.data, sides[0], sides[1])
        case _:
            return None


def _joined(fn: str, one: float, other: float) -> float:
    match fn:
        case "mul":
            return one * other
        case "add":
            return one + other
        case "max":
            return max(one, other)
        case _:
            return min(one, other)
