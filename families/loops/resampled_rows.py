"""Rows that are resampled: a thread has neighbours along the axis beside its vectors (S8, S9.3).

Where channels lie last an image is made larger or smaller along axes that a thread's vectors do not
run along.  Neighbouring outputs read the same vectors then, or some apart, as points of a line do
where lines are resampled.  A thread that has several of them brings each vector once, and what is
computed of the same elements, as what lies between two rows of an image, it computes once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir.affine import AffineDimExpr

from polyc.affine.expressions import linear_of
from polyc.affine.repeating import alone, at, floor_line, inner_and_ends, period_of
from polyc.dialects.gpu.types import FragmentLayoutAttr
from polyc.dialects.region import GatherOp, ReadOp
from polyc.dialects.region.types import MemRefType
from polyc.families.loops.recognise import Loops, Space, made_by, type_of
from polyc.families.loops.resampled import MOST_OUTPUTS, Place, Resample, named
from polyc.families.loops.windows import MOST_REGISTERS, THREADS, WindowTile

COUNTS = (2, 3, 4, 6, 8)
"""Neighbours of a thread."""

MOST_COLUMNS = 256
"""Of a tile."""


@dataclass(frozen=True)
class RowsRead:
    """Reads of one tensor that differ in nothing but their coordinate ``number``, which goes along
    the rows of a tile, between 0 and ``last``: what is outside of these is what is at the end."""

    resample: Resample
    number: int
    last: int

    @property
    def reads(self) -> tuple[ReadOp, ...]:
        return self.resample.reads

    def span(self, outputs: int) -> int:
        """The vectors that a thread of so many outputs brings."""
        low, high = self.resample.reach(outputs)
        return high + 1 - low

    def is_shared(self, outputs: int) -> bool:
        """Whether so many outputs have a vector in common, and there is none that none of them
        reads; and whether they find what they read in registers that are known."""
        one = self.resample
        if outputs % one.period:
            return False
        span, asked = self.span(outputs), [p.inside[:outputs] for p in one.places]
        used = {place for places in asked for place in places}
        lines = all(floor_line(places) is not None for places in asked)
        return lines and len(used) == span < outputs * len(asked) and span >= one.moves(outputs)

    def window(self, tile: WindowTile) -> tuple[list[int], FragmentLayoutAttr]:
        """The sizes of what a tile reads, and how it lies: what neighbours share, each has."""
        span, beside = self.span(tile.outputs), self.resample.moves(tile.outputs)
        return tile.rows_read(span, beside)


@dataclass(frozen=True)
class ResampledRows:
    """What a region without reductions resamples along the rows of its tiles."""

    reads: tuple[RowsRead, ...]
    space: Space

    @property
    def row(self) -> str:
        """The axis that is resampled."""
        return str(self.space.row)


def find_resampled_rows(loops: Loops) -> ResampledRows | None:
    """What a region resamples along an axis that is then the rows of its tiles; None where there is
    no such axis.

    It has one space of outputs and no reduction.  Some reads go along the lines of their tensor by
    the columns, element by element, and by the rows alone along one other axis of it, of known size
    as the rows are, so that neighbours share what they read.  Where a place would be outside of it,
    it is that of the tensor's end.  Of several such axes it is the innermost one.
    """
    if len(loops.spaces) != 1 or loops.reductions or loops.turned:
        return None
    (space,) = loops.spaces
    labels, sizes = type_of(loops.values[0]).labels, type_of(loops.values[0]).shape
    if space.column is None or space.walked or labels[-1] != space.column:
        return None
    made = list(made_by(loops.values))
    reads = [op for op in made if isinstance(op, ReadOp)]
    if any(isinstance(op, GatherOp) for op in made):
        return None
    of = dict(zip(labels, sizes, strict=True))
    for row in reversed(labels[:-1]):
        outer = tuple(label for label in labels[:-1] if label != row)
        whole = tuple(of[label] for label in (*outer, row, space.column))
        own = Space(space.outputs, outer, row, space.column, whole, frozenset())
        rows = of[row].constant()
        if rows and (found := _read_along(reads, own, rows)):
            return ResampledRows(found, own)
    return None


def _read_along(reads: Sequence[ReadOp], space: Space, rows: int) -> tuple[RowsRead, ...]:
    """What neighbours along the rows of a space share."""
    groups: dict[tuple[object, ...], list[tuple[ReadOp, Place]]] = {}
    numbers: dict[tuple[object, ...], int] = {}
    for read in reads:
        along = _along(read, space, rows)
        if along is None:
            continue
        number, place = along
        labels = read.result.type.labels
        others = (e for i, e in enumerate(read.map.data.results) if i != number)
        rest = tuple(named(linear_of(e), labels) for e in others)
        period = period_of(place.inner)
        slope = (at(place.inner, period) - at(place.inner, 0)) / period
        key = read.tensor, number, rest, slope
        groups.setdefault(key, []).append((read, place))
        numbers[key] = number
    found: list[RowsRead] = []
    for key, group in groups.items():
        several, places = (tuple(part) for part in zip(*group, strict=True))
        size = cast("MemRefType", several[0].tensor.type).shape[numbers[key]].constant()
        assert size is not None  # It was found so.
        one = RowsRead(Resample(several, places), numbers[key], size - 1)
        found += [one] if any(map(one.is_shared, COUNTS)) else []
    return tuple(found)


def _along(read: ReadOp, space: Space, rows: int) -> tuple[int, Place] | None:
    """The coordinate of a read that goes along the rows, and how inside of its tensor; None of one
    that goes by other axes too, or that ends otherwise than at the tensor's ends."""
    labels, results = read.result.type.labels, read.map.data.results
    if read.guard is not None or not {space.row, space.column} <= set(labels) or len(results) < 2:
        return None
    row, column = labels.index(str(space.row)), labels.index(str(space.column))
    if results[-1] != AffineDimExpr(column):
        return None
    using = [i for i, e in enumerate(results) if row in e.used_dims()]
    if len(using) != 1 or any(column in e.used_dims() for e in results[:-1]):
        return None
    number = using[0]
    expr = alone(results[number], row)
    size = cast("MemRefType", read.tensor.type).shape[number].constant()
    if expr is None or not size:
        return None
    inner, ends = inner_and_ends(expr, rows)
    period = period_of(inner)
    if period > MOST_OUTPUTS or at(inner, period) <= at(inner, 0):
        return None
    # Between its ends it is what it is inside, which never falls.
    first = max((end.last + 1 for end in ends if end.in_front), default=0)
    last = min((end.first - 1 for end in ends if not end.in_front), default=rows - 1)
    asked = {*range(first + 1), *range(last, rows)}
    whole = all(at(expr, i) == min(max(at(inner, i), 0), size - 1) for i in asked)
    return (number, Place(inner)) if whole else None


# Tiles --------------------------------------------------------------------------------------


def is_possible(found: ResampledRows, tile: WindowTile) -> bool:
    """Whether threads that have so many rows each share what these read, and have room for it."""
    held = sum(one.span(tile.outputs) for one in found.reads) * tile.vector
    return held <= MOST_REGISTERS and all(one.is_shared(tile.outputs) for one in found.reads)


def tiles(found: ResampledRows, vector: int) -> Iterator[WindowTile]:
    """All tiles of a small space, whose columns leave the fewest threads without any, and whose
    rows are no more than there are if fewer threads may have these."""
    rows, columns = (size.constant() or MOST_COLUMNS for size in found.space.sizes[-2:])
    widths = [vector << i for i in range(9) if vector << i <= MOST_COLUMNS]
    wide = min(widths, key=lambda w: (-(-columns // w) * w, -w))
    for outputs in COUNTS:
        for threads in THREADS:
            across = wide // vector
            tile = WindowTile(threads // across * outputs, wide, outputs, threads, vector)
            if tile.rows > rows and threads > THREADS[-1]:
                continue
            if is_possible(found, tile):
                yield tile
            break
