"""Mutants of a right index book, to measure what its verifier and its playback catch.

A mutant differs from the book in one entry, by one of the mistakes that index rules make: a map
shifted by one, with another stride, with results exchanged or an axis forgotten; a piece or a
guard deleted, a domain wider by one; a fill that is the neutral value of a reduction; a reduced
axis in the place of another.  ``mutants`` lists them in a fixed order; ``mutated`` makes one in a
copy of the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineSetAttr, ArrayAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)

from polyc.affine import isl
from polyc.dialects import index, tiny
from polyc.dialects.index import PieceAttr, ValueOp

Pieces = tuple[PieceAttr, ...]


@dataclass(frozen=True)
class BookMutant:
    """One mistake in one entry.

    ``entry`` counts the entries of the graph, ``pieces`` are what the entry has instead, and
    ``kind`` is the mistake without its numbers.
    """

    entry: int
    value: str
    kind: str
    change: str
    pieces: Pieces

    def __str__(self) -> str:
        return f"%{self.value}: {self.change}"


def mutants(graph: tiny.GraphOp) -> list[BookMutant]:
    """Every mutant of a graph's book, in the order of the text."""
    found: list[BookMutant] = []
    for number, (value, entry) in enumerate(index.book(graph).items()):
        name = value.name_hint or f"value {number}"
        for kind, change, pieces in _changes(entry):
            found.append(BookMutant(number, name, kind, change, pieces))
    return found


def mutated(graph: tiny.GraphOp, mutant: BookMutant) -> tiny.GraphOp:
    """A copy of ``graph`` with the mistake in it; it may not verify."""
    copy = graph.clone()
    entry = list(index.book(copy).values())[mutant.entry]
    entry.pieces = ArrayAttr(mutant.pieces)
    return copy


def is_harmless(graph: tiny.GraphOp, mutant: BookMutant) -> bool:
    """Whether isl proves that the entry reads what it read before, at every point.

    Where an operand repeats along an axis, any coordinate reads the same.
    """
    entry = list(index.book(graph).values())[mutant.entry]
    old = entry.pieces.data
    if len(old) != len(mutant.pieces):
        return False
    for before, after in zip(old, mutant.pieces, strict=True):
        domain = entry.iteration_domain(before)
        if not isl.set_equal(domain, entry.iteration_domain(after)):
            return False
        rows = zip(entry.operands_read, before.entries, after.entries, strict=True)
        for operand, a, b in rows:
            if isinstance(a, AffineMap) and isinstance(b, AffineMap):
                a, b = (_where_it_varies(operand, m) for m in (a, b))
                if a != b and not isl.maps_equal(a, b, domain):
                    return False
            elif a != b:
                return False
    return True


def _where_it_varies(operand: SSAValue, map: AffineMap) -> AffineMap:
    """``map`` without the coordinates along which the operand repeats."""
    entry = index.value_op(operand)
    axes = () if entry is None else entry.axes.data
    kept = tuple(e for e, a in zip(map.results, axes, strict=True) if not a.repeats)
    return AffineMap(map.num_dims, map.num_symbols, kept)


# The mistakes -----------------------------------------------------------------------------

Change = tuple[str, str, Pieces]


def _changes(entry: ValueOp) -> Iterator[Change]:
    pieces = entry.pieces.data
    for p, piece in enumerate(pieces):
        for kind, change, other in _of_piece(entry, piece):
            where = f" in piece {p}" if len(pieces) > 1 else ""
            yield kind, change + where, (*pieces[:p], other, *pieces[p + 1 :])
    if len(pieces) > 1:
        for p in range(len(pieces)):
            yield "a piece deleted", f"piece {p} deleted", (*pieces[:p], *pieces[p + 1 :])
        order = [q.domain for q in pieces[1:]] + [pieces[0].domain]
        turned = tuple(PieceAttr(d, q.inputs) for d, q in zip(order, pieces, strict=True))
        yield "domains exchanged", "each piece has the domain of the next", turned


def _of_piece(entry: ValueOp, piece: PieceAttr) -> Iterator[tuple[str, str, PieceAttr]]:
    entries = piece.entries
    for i, how in enumerate(entries):

        def instead(new: AffineMap | float, i: int = i) -> PieceAttr:
            changed = PieceAttr.of([*entries[:i], new, *entries[i + 1 :]])
            return PieceAttr(piece.domain, changed.inputs)

        if not isinstance(how, AffineMap):
            for number in (0.0, -math.inf, math.inf):
                if number != how:
                    yield "a neutral fill", f"fill {how} -> {number}", instead(number)
            continue
        for kind, change, map in _of_map(entry, how):
            yield kind, f"operand {i}, {change}", instead(map)
    if isinstance(piece.domain, AffineSetAttr):
        yield from _of_domain(piece, piece.domain.data)


def _of_map(entry: ValueOp, map: AffineMap) -> Iterator[tuple[str, str, AffineMap]]:
    results = map.results

    def with_result(i: int, expr: AffineExpr) -> AffineMap:
        changed = (*results[:i], isl.canonical_expr(expr), *results[i + 1 :])
        return AffineMap(map.num_dims, map.num_symbols, changed)

    for i, expr in enumerate(results):
        for step in (1, -1):
            yield "a map shifted", f"result {i} {step:+}", with_result(i, expr + step)
        for d in range(map.num_dims):
            if not isl.uses_dim(expr, d):
                continue
            dim = AffineDimExpr(d)
            yield "another stride", f"result {i} and d{d} more", with_result(i, expr + dim)
            none = [AffineConstantExpr(0) if e == d else AffineDimExpr(e) for e in _dims(map)]
            forgotten = expr.replace_dims_and_symbols(none, ())
            yield "an axis forgotten", f"result {i} without d{d}", with_result(i, forgotten)
    for i in range(len(results) - 1):
        turned = (*results[:i], results[i + 1], results[i], *results[i + 2 :])
        other = AffineMap(map.num_dims, map.num_symbols, turned)
        yield "results exchanged", f"results {i} and {i + 1} exchanged", other
    kept = len(entry.axes)
    if len(entry.reduced) > 1:
        order = [*range(kept), *reversed(range(kept, map.num_dims))]
        moved = tuple(
            e.replace_dims_and_symbols([AffineDimExpr(d) for d in order], ()) for e in results
        )
        other = AffineMap(map.num_dims, map.num_symbols, moved)
        yield "reduced axes exchanged", "reduced axes in reverse", other


def _dims(map: AffineMap) -> Sequence[int]:
    return range(map.num_dims)


def _of_domain(piece: PieceAttr, domain: AffineSet) -> Iterator[tuple[str, str, PieceAttr]]:
    rows = domain.constraints

    def with_rows(changed: Sequence[AffineConstraintExpr]) -> PieceAttr:
        points = AffineSet(domain.num_dims, domain.num_symbols, tuple(changed))
        return PieceAttr(AffineSetAttr(points), piece.inputs)

    for i, row in enumerate(rows):
        rest = (*rows[:i], *rows[i + 1 :])
        dropped = with_rows(rest) if rest else PieceAttr.of(piece.entries)
        yield "a guard deleted", f"condition {i} deleted", dropped
        for step, kind in ((1, "a domain widened"), (-1, "a domain narrowed")):
            moved = AffineConstraintExpr(
                row.kind, isl.canonical_expr(row.lhs + step), row.rhs, canonicalize=False
            )
            yield kind, f"condition {i} {step:+}", with_rows((*rows[:i], moved, *rows[i + 1 :]))
