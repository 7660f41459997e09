"""Where the elements of a tile are: what it takes to find them, and how a warp reads them.

A kernel that moves or resizes spends most of its instructions on places.  What depends on the
columns of a tile alone, a thread finds once for the points of a column that it has, and so of rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.affine.expressions import Floor, Linear, linear_of
from polyc.cost.values import Values, operations, read_labels, size_in_bytes
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    DimOp,
    GatherOp,
    IndexOp,
    InsideOp,
    ReadOp,
    ReduceOp,
    SelectOp,
    UnaryOp,
)
from polyc.dialects.region.types import MemRefType

WARP, SECTOR, LINE = 32, 32, 128
"""Threads of a warp, and bytes that memory gives and that the first level of cache has at once."""

FLOOR, SHIFT, TERM = 6.0, 2.0, 1.0
"""Instructions of a quotient by a number, by a power of two, and of each term of a sum."""

ADDRESS = 3.0
"""Instructions by which the place of an element becomes an address."""


@dataclass(frozen=True)
class Beside:
    """What the threads of a warp that have neighbouring columns reach at once: cache lines, and
    bytes of whole sectors for each that they ask for."""

    lines: float
    over: float


def beside(values: Values, op: ReadOp, columns: Sequence[str]) -> Beside | None:
    """How a warp's neighbours along ``columns``, which are one axis, lie in what is read; None
    where data say that.

    The mean of a warp at the beginning, in the middle and at the end of the axis, in the middle of
    others.
    """
    labels = op.result.type.labels
    if values.walked(labels).isdisjoint(columns):
        return None
    kind = cast(MemRefType, op.tensor.type)
    shape = [size.evaluate(values.sizes) for size in kind.shape]
    symbols = [values.sizes[name] for name in values.kernel.symbol_names]
    size = size_in_bytes(kind.element_type)
    whole = prod(values.extents[label] for label in columns)
    count = min(WARP, whole)
    if not count:
        return Beside(1.0, 1.0)
    firsts = sorted({0, (whole - count) // 2, whole - count})
    point = {label: extent // 2 for label, extent in values.extents.items()}
    lines, sectors = 0, 0
    for first in firsts:
        found: set[int] = set()
        for at in range(first, first + count):
            left = at
            for label in reversed(columns):
                left, point[label] = divmod(left, values.extents[label])
            dims = [_place(values, label, point) for label in labels]
            if None in dims:
                return None
            place = 0
            for expr, extent in zip(op.map.data.results, shape, strict=True):
                place = place * extent + expr.eval(cast("list[int]", dims), symbols)
            found.add(place * size)
        lines += len({place // LINE for place in found})
        sectors += len({place // SECTOR for place in found})
    over = sectors * SECTOR / (len(firsts) * count * size)
    return Beside(lines / len(firsts), over)


def _place(values: Values, label: str, point: Mapping[str, int]) -> int | None:
    """Where a point is along an axis: of one that indices are along, what the index is there."""
    index = values.index_along(label)
    if index is None:
        return point.get(label, 0)
    found = number_at(values, index, point)
    last = values.extents.get(label, 1) - 1
    return None if found is None else max(0, min(int(found), last))


def number_at(values: Values, value: SSAValue, point: Mapping[str, int]) -> int | None:
    """What an integer is at a point of a kernel's axes; None where it is made of what is read, or
    by a function that places seldom are made by."""
    op = values.real(value).owner
    if not isinstance(op, Operation):
        return None
    match op:
        case ConstantOp():
            return int(op.number) if isfinite(op.number) else None
        case DimOp():
            return op.size.evaluate(values.sizes)
        case IndexOp():
            symbols = [values.sizes[name] for name in values.kernel.symbol_names]
            return op.expr.eval([point.get(a, 0) for a in op.result.type.labels], symbols)
        case BinaryOp() | UnaryOp() | CompareOp() | SelectOp() | CastOp() | BroadcastInDimOp():
            taken = [number_at(values, v, point) for v in values.operands(op)]
        case _:
            return None
    numbers = [n for n in taken if n is not None]
    if len(numbers) < len(taken):
        return None
    match op:
        case SelectOp():
            return numbers[1] if numbers[0] else numbers[2]
        case CompareOp():
            return int(COMPARED[op.fn.data](*numbers))
        case BinaryOp() | UnaryOp():
            function = COMPUTED.get(op.fn.data)
            return None if function is None else int(function(*numbers))
        case _:
            return numbers[0]


def _rest(a: int, b: int) -> int:
    """Of a division that rounds down; 0 of one by 0."""
    return a % b if b else 0


COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
COMPUTED: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "max": max,
    "min": min,
    "abs": abs,
    "neg": operator.neg,
    "mod": _rest,
}
"""Functions of integers that places are made by."""


def has_places(values: Values, roots: Sequence[SSAValue]) -> bool:
    """Whether any read is at a place that is computed: a quotient, or by an index that is one's
    own point."""
    for op in values.behind(roots):
        if isinstance(op, IndexOp):
            return True
        exprs = op.map.data.results if isinstance(op, ReadOp) else ()
        if any(isinstance(a, Floor) for expr in exprs for a, _ in linear_of(expr).terms):
            return True
    return False


@dataclass
class Finding:
    """Instructions of one point of a tile: those that depend on its row alone, on its column alone,
    and on both."""

    of_row: float = 0.0
    of_column: float = 0.0
    of_both: float = 0.0

    def each(self, rows: float, columns: float) -> float:
        """Of a point where a thread has so many rows of so many columns."""
        return self.of_row / columns + self.of_column / rows + self.of_both

    def add(self, along: tuple[bool, bool], cost: float) -> None:
        match along:
            case (True, True):
                self.of_both += cost
            case (True, False):
                self.of_row += cost
            case (False, True):
                self.of_column += cost
            case _:
                pass  # Once for all points of a tile.


def finding(
    values: Values,
    roots: Sequence[SSAValue],
    rows: Collection[str],
    columns: Collection[str],
    vector: int = 1,
) -> Finding:
    """What ``roots`` take at a point of a tile, but for loads; ``rows`` and ``columns`` are the
    axes that it runs along with these.  Of ``vector`` neighbours one place is found."""
    found = Finding()
    seen: set[tuple[object, ...]] = set()

    def add(labels: set[str] | frozenset[str], cost: float, share: int = vector) -> None:
        along = not labels.isdisjoint(rows), not labels.isdisjoint(columns)
        found.add(along, cost / share if along[1] else cost)

    for op in values.behind(roots):
        if isinstance(op, ReduceOp):
            continue
        if isinstance(op, ReadOp | IndexOp):
            labels = op.result.type.labels
            for expr in op.map.data.results:
                for key, own, cost in _parts(expr, labels):
                    if key not in seen:
                        seen.add(key)
                        add(own, cost)
        if isinstance(op, ReadOp):
            add(values.walked(read_labels(op)), ADDRESS)
            if op.guard is not None:
                for row_ in op.guard.data.constraints:
                    used = (row_.lhs - row_.rhs).used_dims()
                    add({op.result.type.labels[i] for i in used}, TERM)
        elif isinstance(op, InsideOp):
            for row_ in op.set.data.constraints:
                used = (row_.lhs - row_.rhs).used_dims()
                add({op.result.type.labels[i] for i in used}, TERM)
        elif isinstance(op, GatherOp):
            for index in op.indices:
                add(values.own(index), operations(op) / len(op.labels))
        elif not isinstance(op, IndexOp):
            add(values.own(op.results[0]), operations(op), 1)
    return found


def _parts(
    expr: AffineExpr, labels: Sequence[str]
) -> Iterator[tuple[tuple[object, ...], frozenset[str], float]]:
    """The quotients of an expression and its sum, each as what it is, the axes that it is of, and
    its instructions."""
    yield from _of_linear(linear_of(expr), labels)


def _of_linear(
    whole: Linear, labels: Sequence[str]
) -> Iterator[tuple[tuple[object, ...], frozenset[str], float]]:
    used = frozenset[str]()
    for atom, _ in whole.terms:
        if isinstance(atom, Floor):
            inside = frozenset[str]()
            for part in _of_linear(atom.num, labels):
                inside |= part[1]
                yield part
            cost = SHIFT if atom.den & (atom.den - 1) == 0 else FLOOR
            yield (_named(atom.num, labels), atom.den), inside, cost
            used |= inside
        elif atom[0] == "d":
            used |= {labels[atom[1]]}
    plain = len(whole.terms) == 1 and not whole.constant and whole.terms[0][1] == 1
    cost = 0.0 if plain or not used else TERM * (len(whole.terms) + bool(whole.constant))
    yield (_named(whole, labels),), used, cost


def _named(whole: Linear, labels: Sequence[str]) -> tuple[object, ...]:
    """A sum by the labels of its axes."""

    def name(atom: object) -> object:
        if isinstance(atom, Floor):
            return (_named(atom.num, labels), atom.den)
        kind, number = cast("tuple[str, int]", atom)
        return labels[number] if kind == "d" else (kind, number)

    return frozenset((name(atom), times) for atom, times in whole.terms), whole.constant


def shared_by(tile: Sequence[int], threads: int, vector: int = 1) -> tuple[float, float]:
    """Rows and columns of a tile's points that a thread has, one element after another, or vectors:
    threads of a warp have neighbouring columns."""
    rows, columns = tile[0], tile[1]
    own = float(vector) if vector > 1 else columns / min(columns, WARP)
    return max(1.0, prod((rows, columns)) / threads / own), own
