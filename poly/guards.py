"""Guards: which rows of a condition are redundant, and the ledger that proves it (S5.1, S6.4).

A row of a guard is dropped when every point that can be reaches it,

    { points of the axes, under the assumptions and the other rows }  is within  { row }

and kept with a point of the left side that is not in the right.  The ledger of a graph lists
the guards of its pads and masks as each block sees them, and the predicates of its tails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineSet

from polyc.affine import isl
from polyc.dialects.index import bounds
from polyc.dialects.index.attrs import at_least_zero
from polyc.poly.blocks import Block, Blocks
from polyc.poly.readings import Guard
from polyc.poly.tails import Tail, tail
from polyc.poly.ways import facts_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """A row of a guard: dropped, or kept with a point where it is false.

    ``known`` is what proves a dropped row; ``failing`` is ``(axes, symbols)`` of a kept one.
    """

    row: AffineConstraintExpr
    known: AffineSet
    failing: tuple[tuple[int, ...], tuple[int, ...]] | None

    @property
    def dropped(self) -> bool:
        return self.failing is None


def judge(rows: Sequence[AffineConstraintExpr], known: AffineSet) -> tuple[Verdict, ...]:
    """A verdict for each row of a conjunction, on the points of ``known``.

    A row may be proved by those that are kept before it and those that come after it, so that
    the kept rows together say what all did.  Raises ``IslLimitExceeded``.
    """
    found: list[Verdict] = []
    kept: list[AffineConstraintExpr] = []
    for i, row in enumerate(rows):
        alone = _within(known, [])
        failing = _outside(alone, row)
        if failing is not None:
            others = _within(known, [*kept, *rows[i + 1 :]])
            if (narrow := _outside(others, row)) is None:
                alone, failing = others, None
            else:
                failing = narrow
        found.append(Verdict(row, alone, failing))
        if failing is not None:
            kept.append(row)
    return tuple(found)


def _within(known: AffineSet, rows: Sequence[AffineConstraintExpr]) -> AffineSet:
    return AffineSet(known.num_dims, known.num_symbols, (*known.constraints, *rows))


def _outside(
    known: AffineSet, row: AffineConstraintExpr
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """A point of ``known`` where the row is false."""
    value = row.lhs - row.rhs
    signs = {
        AffineConstraintKind.ge: (-1,),
        AffineConstraintKind.le: (1,),
        AffineConstraintKind.eq: (-1, 1),
    }
    for sign in signs[row.kind]:
        no = at_least_zero(isl.canonical_expr(value * sign - 1))
        if (point := isl.sample_point(_within(known, [no]))) is not None:
            return point
    return None


# The ledger ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GuardEntry:
    """One row of the guard of a pad or mask, where a block reads through it.

    ``names`` are those of the axes of the verdict.
    """

    block: Block
    movement: SSAValue
    names: tuple[str, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TailEntry:
    """The predicate of an axis cut into tiles; dropped where ``tail`` is None."""

    block: Block
    axis: int
    tile: int
    facts: AffineSet
    tail: Tail | None


def guard_entries(blocks: Blocks) -> Iterator[GuardEntry]:
    """Every row of every guard that a block reads through.  Raises ``IslLimitExceeded``."""
    for block in blocks.blocks:
        seen: list[tuple[SSAValue, tuple[AffineConstraintExpr, ...]]] = []
        for guard in (g for one in block.readings for g in one.guards):
            if (guard.reach.source, guard.rows) in seen:
                continue
            seen.append((guard.reach.source, guard.rows))
            for verdict in judge(guard.rows, _known(block, guard)):
                yield GuardEntry(block, guard.reach.source, block.dims, verdict)


def _known(block: Block, guard: Guard) -> AffineSet:
    """The points at which a block comes to a guard, inside the guards passed before."""
    symbols = block.symbols
    rows = bounds([a.dim for a in block.entry.all_axes], symbols)
    rows = (*rows, *guard.reach.domain.constraints, *facts_of(block.value).constraints)
    return AffineSet(len(block.dims), len(symbols), tuple(dict.fromkeys(rows)))


def tail_entries(block: Block, tiles: Mapping[int, int]) -> Iterator[TailEntry]:
    """The predicates of a block's tiled axes; tiles of one point, and whole tiles of
    an axis of known size, need none.

    Raises ``IslLimitExceeded``.
    """
    facts = facts_of(block.value)
    for axis, tile in tiles.items():
        if tile == 1:
            continue
        size = block.entry.all_axes[axis].dim
        found = tail(size, tile, block.symbols, facts)
        if found is not None or size.constant() is None:
            yield TailEntry(block, axis, tile, facts, found)
