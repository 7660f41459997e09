"""Lines that are resampled: neighbours of a line read the same elements, or some apart (S8, S9.3).

What enlarges an image reads an element for several neighbours of its result, what shrinks one reads
some elements apart, and what lies between elements is made of those around it.  Where a read goes
along the lines of its tensor by ``floor`` of a multiple of the innermost axis, or the like, it
repeats itself: some points further it is whole elements further.  A thread that has so many
neighbours of a line of the outputs brings what all of them read in vectors, once, into registers,
and stores its points in vectors; in which register a point finds what it reads is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd, lcm
from typing import cast

from xdsl.ir.affine import AffineExpr

from polyc.affine.expressions import Floor, Linear, linear_of
from polyc.affine.repeating import End, alone, at, floor_line, inner_and_ends, period_of
from polyc.cost.resampled import resampled_operations
from polyc.cost.time import TYPICAL
from polyc.cost.values import Values, operations
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.types import FragmentLayoutAttr, element_bytes
from polyc.dialects.region import GatherOp, ReadOp
from polyc.dialects.region.types import MemRefType
from polyc.families.facts import power_of_two
from polyc.families.loops.lines import (
    AROUND,
    AT_ONCE,
    BESIDE,
    GUARD,
    ISSUED,
    LANES,
    LINE_BYTES,
    LOAD,
    SECTOR,
    STEP,
    THREADS,
    WRITTEN,
    LineTile,
    lines_of,
    stored_vector,
    touched,
    widest,
)
from polyc.families.loops.recognise import Loops, Space, made_by, type_of
from polyc.families.loops.windows import WARP

MOST_OUTPUTS = 32
"""Neighbours of a thread at most."""

MOST_ELEMENTS = 96
"""Elements at most that a thread brings of the lines of one tensor."""

END = 2.0
"""Instructions of what a line's end changes: a thread has one such point of a line at most."""

READ = 12.0
"""Instructions of an element's own access, with where it is and whether that is inside."""

MOST_WASTE = 4
"""Elements that a thread brings for each that it uses at most, beyond a vector."""

COLUMN = AffineExpr.dimension(0)


@dataclass(frozen=True)
class Place:
    """Where along the lines of its tensor a read is, as a function of the outputs' innermost axis:
    ``inner`` but at its ``ends``, which are some elements further."""

    inner: AffineExpr
    ends: tuple[End, ...] = ()

    @property
    def every(self) -> list[AffineExpr]:
        """What it may be."""
        return [self.inner, *(self.inner + end.more for end in self.ends)]

    @cached_property
    def inside(self) -> list[int]:
        """What it is inside at as many points as a thread may have, and one more."""
        return [at(self.inner, i) for i in range(MOST_OUTPUTS + 1)]


@dataclass(frozen=True)
class Resample:
    """Reads of one tensor that differ in nothing but where along its lines they are."""

    reads: tuple[ReadOp, ...]
    places: tuple[Place, ...]

    @property
    def tensor(self) -> MemRefType:
        """What is read, in memory."""
        return cast("MemRefType", self.reads[0].tensor.type)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return element_bytes(self.tensor.element_type)

    @cached_property
    def period(self) -> int:
        """Neighbours after which what is read is whole elements further."""
        return lcm(*(period_of(place.inner) for place in self.places))

    def moves(self, outputs: int) -> int:
        """How many elements further a read is after so many neighbours, a multiple of the period's.

        Any of them: reads that go by unlike steps are no ``Resample``.
        """
        inside = self.places[0].inside
        return inside[outputs] - inside[0]

    def reach(self, outputs: int) -> tuple[int, int]:
        """The first and the last element that the first so many neighbours of a line read."""
        read = [
            value + more
            for place in self.places
            for more in (0, *(end.more for end in place.ends))
            for value in (min(place.inside[:outputs]), max(place.inside[:outputs]))
        ]
        return min(read), max(read)


@dataclass(frozen=True)
class Resampled:
    """What a region without reductions resamples along the lines of its outputs.

    ``outer`` are the axes that are one axis of lines, as ``Lines`` has them.
    """

    resamples: tuple[Resample, ...]
    others: tuple[ReadOp, ...]
    """What is read in another way."""
    space: Space
    outer: tuple[tuple[str, int, int | None], ...]
    values: Values
    """What the region computes, with open sizes taken as typical ones."""
    known: dict[int, float] = field(default_factory=dict[int, float], compare=False)

    def operations(self, outputs: int) -> float:
        """The instructions of a thread that has so many points of a line, other than loads."""
        if outputs not in self.known:
            self.known[outputs] = resampled_operations(self.values, outputs, str(self.space.column))
        return self.known[outputs]

    @property
    def line(self) -> Dim:
        """Points of a line of the outputs."""
        return self.space.sizes[-1]

    @property
    def period(self) -> int:
        """Neighbours after which all that is resampled is whole elements further."""
        return lcm(*(one.period for one in self.resamples))


def find_resampled(loops: Loops) -> Resampled | None:
    """What a region resamples along the lines of its outputs; None where it does not.

    Its outputs have all axes alike, and are made of no reduction.  Some read goes along the lines
    of its tensor by the innermost axis alone, not element by element; or several do so of one
    tensor that are a few elements apart.
    """
    values = loops.values
    found = lines_of(values)
    if found is None or loops.reductions or loops.turned:
        return None
    space, outer = found
    made = list(made_by(values))
    if any(isinstance(op, GatherOp) for op in made):
        return None
    reads = [op for op in made if isinstance(op, ReadOp)]
    groups: dict[tuple[object, ...], list[tuple[ReadOp, Place]]] = {}
    others: list[ReadOp] = []
    for read in reads:
        place = _along(read, str(space.column), space.sizes[-1].constant())
        if place is None:
            others.append(read)
            continue
        rest = _lines_read(read)
        period = period_of(place.inner)
        slope = (at(place.inner, period) - at(place.inner, 0)) / period
        groups.setdefault((read.tensor, rest, slope), []).append((read, place))
    resamples = tuple(
        Resample(tuple(r for r, _ in group), tuple(p for _, p in group))
        for group in groups.values()
    )
    if not any(len(set(one.places)) > 1 or one.places[0] != Place(COLUMN) for one in resamples):
        return None
    kernel = loops.expanded
    typical = Values(kernel, dict.fromkeys(kernel.symbol_names, TYPICAL))
    return Resampled(resamples, tuple(others), space, outer, typical)


def _lines_read(read: ReadOp) -> tuple[object, ...]:
    """Which lines a read reads, by the labels of its axes."""
    labels = read.result.type.labels
    return tuple(named(linear_of(e), labels) for e in read.map.data.results[:-1])


def named(place: Linear, labels: Sequence[str]) -> tuple[object, ...]:
    """A coordinate by the labels of its axes, so that reads of unlike axes compare."""

    def name(atom: object) -> object:
        if isinstance(atom, Floor):
            return (named(atom.num, labels), atom.den)
        kind, number = cast("tuple[str, int]", atom)
        return labels[number] if kind == "d" else (kind, number)

    terms = frozenset((name(atom), times) for atom, times in place.terms)
    return terms, place.constant


def _along(read: ReadOp, column: str, line: int | None) -> Place | None:
    """Where along the lines of its tensor a read is, as a function of the outputs' innermost axis
    alone, which goes on with it; None where it is no such function."""
    labels, results = read.result.type.labels, read.map.data.results
    if column not in labels or not results:
        return None
    number = labels.index(column)
    if any(number in expr.used_dims() for expr in results[:-1]):
        return None
    whole = alone(results[-1], number)
    if whole is None:
        return None
    inner, ends = (whole, ()) if not line else inner_and_ends(whole, line)
    period = period_of(inner)
    if period > MOST_OUTPUTS or at(inner, period) <= at(inner, 0):
        return None
    return Place(inner, ends)


# Tiles --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Brought:
    """What the threads of a tile bring of a tensor's lines: each ``span`` elements from element
    ``first`` on, seen from where the thread before begins ``beside`` elements less, in vectors."""

    first: int
    span: int
    beside: int
    vector: int

    @staticmethod
    def of(one: Resample, tile: LineTile) -> Brought:
        """What threads that have so many points each bring for a resample."""
        beside, (low, high) = one.moves(tile.outputs), one.reach(tile.outputs)
        length = one.tensor.shape[-1].constant() or 1
        vector = gcd(widest(one.size), beside, length)
        first = low // vector * vector
        # What lies between the elements of two threads, the first one brings too.
        span = max(-(-(high + 1 - first) // vector) * vector, beside)
        return Brought(first, span, beside, vector)

    def sizes(self, tile: LineTile) -> list[int]:
        """The sizes of what a tile brings: what neighbours share, each has."""
        return [tile.rows, (tile.across - 1) * self.beside + self.span]

    def layout(self, tile: LineTile) -> FragmentLayoutAttr:
        """How it lies."""
        return tile.along(self.span, self.beside)

    def find(self, place: AffineExpr, column: AffineExpr) -> AffineExpr:
        """Where in it a point of the tile finds what it reads at ``place``."""
        return place.replace_dims_and_symbols([column], []) - self.first


def is_possible(found: Resampled, tile: LineTile) -> bool:
    """Whether threads that have so many points each know in which register each reads."""
    if tile.outputs % found.period:
        return False
    for one in found.resamples:
        brought = Brought.of(one, tile)
        used = {i for place in one.places for i in place.inside[: tile.outputs]}
        if brought.span > min(MOST_ELEMENTS, MOST_WASTE * max(len(used), brought.vector)):
            return False
        for place in one.places:
            if floor_line(place.inside[: tile.outputs]) is None:
                return False
    return True


def tiles(found: Resampled) -> Iterator[LineTile]:
    """The tiles that lines of known length may have."""
    line = found.line.constant()
    if not line:
        return
    for outputs in range(found.period, MOST_OUTPUTS + 1, found.period):
        if outputs > max(line, found.period):
            return
        across = min(power_of_two(-(-line // outputs)), WARP)
        if not is_possible(found, LineTile(THREADS // across, across * outputs, outputs)):
            continue
        # Fewer threads of a line may share it without a rest.
        while across:
            yield LineTile(THREADS // across, across * outputs, outputs)
            across //= 2


def time_of(
    found: Resampled, tile: LineTile, stored: int, sizes: Sequence[int], arch: str
) -> float:
    """What a tile takes of a multiprocessor's threads, in instructions of one, times how often a
    chip takes as many threads; lines whose number is open are many.

    Threads store ``stored`` elements at once, of so many bytes in each output.
    """
    count = tile.outputs
    number, line = (size.constant() for size in found.space.sizes)
    ends = sum(len(place.ends) for one in found.resamples for place in one.places) * END
    each = AROUND + ends + found.operations(count)
    each += count * (len(found.others) * LOAD + STEP)
    asked = len(found.others) * count * ISSUED
    for one in found.resamples:
        brought = Brought.of(one, tile)
        loads = brought.span / brought.vector
        each += loads * (LOAD + GUARD) + brought.span
        apart = brought.beside * one.size
        asked += loads * touched(apart, LINE_BYTES, tile, line) * ISSUED
    vector = gcd(stored, count)
    for size in sizes:
        each += count / vector * LOAD
        # A sector that two stores of a thread have a part of each is written twice.
        twice = 2 if vector * size < SECTOR < count * size else 1
        asked += count / vector * touched(count * size, SECTOR, tile, line) * WRITTEN * twice
    each = (each**BESIDE + asked**BESIDE) ** (1 / BESIDE)
    along = -(-(line or tile.columns) // tile.columns)
    return each * _rounds(number, along * tile.across, arch)


def alone_time(found: Resampled, sizes: Sequence[int], arch: str) -> float:
    """The same where threads have an element each, and read what it takes one by one: neighbours
    of a warp are neighbours in memory."""
    reads = len(found.others) + sum(len(one.reads) for one in found.resamples)
    made = sum(operations(o) for o in found.values.reached if not isinstance(o, ReadOp))
    each = reads * READ + made + STEP
    asked = reads * ISSUED
    for size in sizes:
        each += READ
        asked += LANES * size / SECTOR * WRITTEN
    each = (each**BESIDE + asked**BESIDE) ** (1 / BESIDE)
    number, line = (size.constant() for size in found.space.sizes)
    return each * _rounds(number, line or 1, arch)


def _rounds(lines: int | None, threads: int, arch: str) -> float:
    """How often a chip takes the threads of so many lines; of an open number it is many."""
    at_once = ARCHS[arch].multiprocessors * AT_ONCE
    return max(threads * (at_once if lines is None else lines) / at_once, 1.0)


def best(loops: Loops, found: Resampled, arch: str) -> LineTile | None:
    """The tile that takes the least; None where lines are of open length, or threads that have an
    element each take less."""
    stored = stored_vector(found.line, loops.values)
    sizes = [element_bytes(type_of(value).element_type) for value in loops.values]
    times = [(time_of(found, tile, stored, sizes, arch), tile) for tile in tiles(found)]
    least, tile = min(times, key=lambda one: one[0], default=(0.0, None))
    return tile if least < alone_time(found, sizes, arch) else None
