"""``index-to-region``: where a value is wanted, in terms of a kernel's axes (S4.6, S6.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)

from polyc.affine import isl
from polyc.affine.expressions import nodes
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import Number
from polyc.dialects.index import moved_row
from polyc.dialects.region.types import AxisAttr


@dataclass(frozen=True, slots=True)
class Point:
    """Where a tiny value is wanted: ``map`` takes the kernel's axes to the value's own.

    The map or the guard uses every axis, and the axes stand in the order in which they first
    do.  Outside ``guard`` (None is everywhere) nothing counts, unless ``fill`` says what is there.
    """

    axes: tuple[AxisAttr, ...]
    map: AffineMap
    guard: AffineSet | None = None
    fill: Number | None = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Points are keys of all that a kernel holds, and maps and sets hash as trees.
        object.__setattr__(self, "_hash", hash((self.axes, self.map, self.guard, self.fill)))

    def __hash__(self) -> int:
        return self._hash

    @staticmethod
    def of(
        axes: Sequence[AxisAttr],
        results: Sequence[AffineExpr],
        symbols: int,
        guard: AffineSet | None = None,
        fill: Number | None = None,
    ) -> Point:
        """The point with the unused axes left out and the rest in order of use."""
        rows = () if guard is None else guard.constraints
        order: list[int] = []
        for expr in (*results, *(side for row in rows for side in (row.lhs, row.rhs))):
            for found in expr.dfs():
                if isinstance(found, AffineDimExpr) and found.position not in order:
                    order.append(found.position)
        place = {old: new for new, old in enumerate(order)}
        renamed: list[AffineExpr] = [
            AffineDimExpr(place[i]) if i in place else AffineConstantExpr(0)
            for i in range(len(axes))
        ]
        moved = tuple(e.replace_dims_and_symbols(renamed, ()) for e in results)
        return Point(
            tuple(axes[i] for i in order),
            AffineMap(len(order), symbols, moved),
            None if guard is None else moved_set(guard, renamed, len(order)),
            fill,
        )

    @property
    def unfilled(self) -> Point:
        """The same point with nothing said of what is outside the guard."""
        return self if self.fill is None else replace(self, fill=None)

    @property
    def nodes(self) -> int:
        """What the map and the guard are written with, counted in operations and their operands."""
        rows = () if self.guard is None else self.guard.constraints
        return nodes((*self.map.results, *(side for row in rows for side in (row.lhs, row.rhs))))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(a.label for a in self.axes)


def moved_set(points: AffineSet, into: Sequence[AffineExpr], dims: int) -> AffineSet:
    """The set of points over ``dims`` dimensions whose image under ``into`` is in ``points``."""
    rows = tuple(moved_row(row, into) for row in points.constraints)
    return AffineSet(dims, points.num_symbols, rows)


def both(a: AffineSet | None, b: AffineSet) -> AffineSet:
    """The points of ``b`` that are in ``a`` too; None is everywhere.

    Of rows that bound one sum the tightest is kept, or a chain of pads would have all of theirs.
    """
    if a is None:
        return b
    rows = isl.tightest((*a.constraints, *b.constraints))
    return AffineSet(b.num_dims, b.num_symbols, rows)


def composed(access: AffineMap, into: Sequence[AffineExpr]) -> tuple[AffineExpr, ...]:
    """The results of ``access`` with ``into`` in place of its dimensions."""
    return tuple(isl.canonical_expr(e.replace_dims_and_symbols(into, ())) for e in access.results)


class AxisNames:
    """The names of one kernel's axes: a symbol in lower case where it is free, else a number."""

    def __init__(self) -> None:
        self._numbered: dict[str, Dim] = {}
        self._iters: tuple[AxisAttr, ...] = ()
        self.gathered: set[str] = set()
        """The axes of which gathers read one place."""

    def iters(self, sizes: Sequence[Dim]) -> tuple[AxisAttr, ...]:
        """The axes of the output space; the number of one without a name is its position."""
        axes: list[AxisAttr] = []
        for i, size in enumerate(sizes):
            label = _plain_label(size)
            if label is None or any(a.label == label for a in axes):
                label = f"i{i}"
                self._numbered[label] = size
            axes.append(AxisAttr.of(label, size))
        self._iters = tuple(axes)
        return self._iters

    def reduced(
        self,
        size: Dim,
        taken: Iterable[str],
        row: bool = False,
        used: Sequence[str] = (),
        inside: int = 0,
    ) -> AxisAttr:
        """An axis to reduce over; reductions side by side over one size share its name.

        A ``row`` is one with an axis of the output space that has its size: it is reduced where
        its elements are used.  ``used`` are the axes along which they are, as far as that is known:
        of several that have its size, as keys and features do where there are as many, the first.
        Else it is the last one that leaves ``inside`` others behind it, for as many axes of its
        size that are reduced with it: pixels of square images are summed in their order.
        """
        taken = set(taken)
        label = _plain_label(size)
        if label is None or label in taken:
            for name in used if row else ():
                if name not in taken and self._numbered.get(name) == size:
                    return AxisAttr.of(name, size)
            free = [a for a in self._iters if a.size == size and a.label not in taken]
            if row and free:
                return free[max(0, len(free) - 1 - inside)]
            number = 0
            while (label := f"r{number}") in taken or self._numbered.get(label, size) != size:
                number += 1
            self._numbered[label] = size
        return AxisAttr.of(label, size)

    def of_gather(self, size: Dim) -> AxisAttr:
        """An axis of which a gather reads the place that its data says: no other op's."""
        label = f"g{len(self.gathered)}"
        self.gathered.add(label)
        return AxisAttr.of(label, size)


def _plain_label(size: Dim) -> str | None:
    """The lower-case name of a size that is one symbol; None for any other."""
    text = str(size)
    if size.constant() is not None or (text,) != size.symbols():
        return None
    label = text.lower()
    return None if label[:1] in ("i", "r", "g") and label[1:].isdigit() else label
