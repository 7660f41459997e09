"""How a value's operands are read: maps and fills behind movements and widening casts (S5.1).

A pad or a mask reads its operand in a part of its domain and holds its own fill in the rest
(S6.4), so what an operand is, seen from a block, is a piecewise quasi-affine access: disjoint
parts that cover the block's points, each with a map to a value or with a number.  Parts that
hold no point are left out; a guard that isl proves to hold everywhere is gone with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineSetAttr
from xdsl.ir.affine import AffineConstraintExpr, AffineMap, AffineSet

from polyc.affine import isl
from polyc.dialects import tiny
from polyc.dialects.index import (
    MAX_PIECES,
    Reach,
    fills,
    is_movement,
    is_widening,
    moved_row,
    steps,
    value_op,
)


@dataclass(frozen=True, slots=True)
class Filled:
    """A part of the points where a number stands for the operand."""

    domain: AffineSet
    number: float


@dataclass(frozen=True, slots=True)
class Guard:
    """The condition under which a pad or a mask on the way reads its operand.

    ``rows`` are over the dimensions of ``reach``, which ends at the pad's or mask's value;
    all of them hold where the operand is read.  ``number`` is the fill elsewhere.
    """

    reach: Reach
    rows: tuple[AffineConstraintExpr, ...]
    number: float


@dataclass(frozen=True, slots=True)
class Reading:
    """The parts of an operand's access: where a value is read, and where a number stands.

    ``guards`` are the conditions that were passed, as they are written, redundant or not.
    """

    reads: tuple[Reach, ...]
    fills: tuple[Filled, ...]
    guards: tuple[Guard, ...] = ()

    @property
    def single(self) -> Reach | None:
        """The one read, whatever is filled around it; None where there are several or none."""
        return self.reads[0] if len(self.reads) == 1 else None


def reading(reach: Reach, facts: AffineSet, casts: bool = True) -> Reading:
    """``reach`` continued through movements and (with ``casts``) widening casts.

    ``facts`` are the assumptions on the symbols.  A movement in more pieces than a domain may
    have is not passed.  Raises ``IslLimitExceeded``.
    """
    reads: list[Reach] = []
    filled: list[Filled] = []
    guards: list[Guard] = []
    pending = [reach]
    while pending:
        here = pending.pop(0)
        entry = value_op(here.source)
        passes = is_movement(here.source) or (casts and is_widening(here.source))
        if entry is None or not entry.is_scop or not passes or here.is_far:
            reads.append(here)
            continue
        if (guard := _guard(here)) is not None:
            guards.append(guard)
        further = [r for r in steps(here, 0) if _holds_points(r.domain, facts)]
        pending = further + pending
        filled += [Filled(d, n) for d, n in fills(here, 0) if _holds_points(d, facts)]
        if len(pending) + len(reads) + len(filled) > MAX_PIECES:
            return Reading((reach,), ())
    return Reading(tuple(reads), tuple(filled), tuple(guards))


def _guard(here: Reach) -> Guard | None:
    """The condition of the pad or mask that makes the value where ``here`` ends."""
    op = here.source.owner
    if not isinstance(op, tiny.PadOp | tiny.MaskOp):
        return None
    entry = value_op(here.source)
    assert entry is not None
    rows: Sequence[AffineConstraintExpr] = ()
    if isinstance(op, tiny.MaskOp) and len(entry.axes) == op.condition.num_dims:
        rows = op.condition.constraints
    else:
        inside = [p for p in entry.pieces if isinstance(p.entries[0], AffineMap)]
        if inside and isinstance(inside[0].domain, AffineSetAttr):
            rows = inside[0].domain.data.constraints
    if not rows:
        return None
    return Guard(here, tuple(moved_row(r, here.map.results) for r in rows), op.number)


def _holds_points(domain: AffineSet, facts: AffineSet) -> bool:
    return not isl.is_empty(with_facts(domain, facts))


def with_facts(domain: AffineSet, facts: AffineSet) -> AffineSet:
    """The points of a set for which the assumptions on the symbols hold."""
    rows = (*domain.constraints, *facts.constraints)
    return AffineSet(domain.num_dims, domain.num_symbols, rows)
