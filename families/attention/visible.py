"""Which keys a tile of queries sees: bounds of a mask that is a set of positions (S6.4).

A causal mask or a sliding window is a set of pairs (query, key).  Its constraints bound the keys
that any query of a tile sees, so that a kernel walks over these alone, and say of a tile of scores
whether the mask cuts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr, AffineSet

from polyc.affine.expressions import Floor, Linear, canonical_expr, expr_of, rows_of

QUERY, KEY = ("d", 0), ("d", 1)
FIRST_QUERY = AffineExpr.dimension(0)
FIRST_KEY = AffineExpr.dimension(1)


@dataclass(frozen=True)
class _Row:
    """``by_query * query + by_key * key + rest >= 0``, where ``rest`` is of symbols alone."""

    by_query: int
    by_key: int
    rest: AffineExpr

    def greatest(self, queries: int) -> AffineExpr:
        """The largest ``by_query * query + rest`` in a tile of so many queries."""
        return self.at(queries - 1 if self.by_query > 0 else 0)

    def least(self, queries: int, keys: int) -> AffineExpr:
        """The smallest value in a tile of scores."""
        last = keys - 1 if self.by_key < 0 else 0
        part = self.at(queries - 1 if self.by_query < 0 else 0)
        return part + (FIRST_KEY + last) * self.by_key

    def at(self, ahead: int) -> AffineExpr:
        return (FIRST_QUERY + ahead) * self.by_query + self.rest


@dataclass(frozen=True)
class Visible:
    """The pairs (query, key) that a mask allows; ``points`` has these two dimensions.

    Expressions that its methods give are of the kernel's symbols, the first query of a tile (d0)
    and the first key (d1).
    """

    points: AffineSet

    @property
    def everywhere(self) -> bool:
        """Whether nothing is masked."""
        return not self.points.constraints

    @property
    def grows(self) -> bool:
        """Whether later queries see later keys, and early ones do not: work grows with the row."""
        return any(row is not None and row.by_key < 0 < row.by_query for row in self._rows())

    def first_keys(self, queries: int) -> tuple[AffineExpr, ...]:
        """No query of a tile sees a key before any of these."""
        return tuple(
            canonical_expr((row.greatest(queries) // row.by_key) * -1)
            for row in self._rows()
            if row is not None and row.by_key > 0
        )

    def end_keys(self, queries: int) -> tuple[AffineExpr, ...]:
        """No query of a tile sees a key from any of these on."""
        return tuple(
            canonical_expr(row.greatest(queries) // -row.by_key + 1)
            for row in self._rows()
            if row is not None and row.by_key < 0
        )

    def slack(self, queries: int, keys: int) -> tuple[AffineExpr, ...] | None:
        """The mask cuts nothing of a tile of scores where all of these are 0 or more.

        None where that is not known, and the mask is to be applied to every tile.
        """
        rows = list(self._rows())
        if None in rows:
            return None
        return tuple(canonical_expr(row.least(queries, keys)) for row in rows if row is not None)

    def _rows(self) -> Iterator[_Row | None]:
        """The constraints; None for one that does not go by the positions' multiples alone."""
        for linear, equality in rows_of(self.points):
            yield _row(linear)
            if equality:
                yield _row(linear.times(-1))


def _row(linear: Linear) -> _Row | None:
    factors = {QUERY: 0, KEY: 0}
    rest = Linear((), linear.constant)
    for atom, factor in linear.terms:
        if isinstance(atom, Floor):
            if _has_position(atom):
                return None
        elif atom in factors:
            factors[atom] = factor
            continue
        rest = rest.plus(Linear(((atom, factor),), 0))
    return _Row(factors[QUERY], factors[KEY], expr_of(rest))


def _has_position(floor: Floor) -> bool:
    return any(
        _has_position(atom) if isinstance(atom, Floor) else atom[0] == "d"
        for atom, _ in floor.num.terms
    )
