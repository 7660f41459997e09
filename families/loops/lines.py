"""Windows that slide along lines of memory: a thread has neighbours of a line (S8, S9.3).

Where pixels lie inside of channels the windows of a convolution of each channel by itself, as those
of pooling, slide along the innermost axis of the outputs.  A thread has several neighbours of a
line, a vector that it stores at once, and brings what their windows have in common in vectors too:
from the vector on in which the first one begins, so that each of these is in the tensor or outside.
What is the same all along a line, as weights, it reads once for all of them.

The axes outside of the lines are one axis of lines, so that a tile has lines of as many rows,
channels and images as it takes, however small an image is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import cast

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from polyc.affine.expressions import NotAffine, linear_of
from polyc.cost.device import device_of
from polyc.cost.loops import tap_operations
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.types import FragmentLayoutAttr, element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES
from polyc.dialects.region import ReadOp, ReduceOp
from polyc.dialects.region.types import MemRefType
from polyc.families.facts import power_of_two
from polyc.families.loops.recognise import (
    Loops,
    Space,
    made_by,
    reductions_in,
    size_of,
    type_of,
)
from polyc.families.loops.windows import WARP, Sliding, sliding

LINES = "lines"
"""The name of the axis that all axes outside of the lines are together."""

MOST_TAPS = 64
"""Points of a window at most along a line: a thread has what its windows read in registers."""

THREADS = 256
"""Of a block."""

IDLE = 1.05
"""How many more threads a block of one line may take."""

AT_ONCE = 1024
"""Threads of a multiprocessor that keep it busy."""

OUTPUTS = 8
"""Elements of an access at most."""

MOST_OUTPUTS = 28
"""Neighbours of a thread at most: a line of 28 pixels, or a half of one of 56."""

LINE_BYTES, LANES = 128, 32
"""Of memory that a load of a warp reaches at once; where its threads begin far apart it is several,
one after another, while other warps issue four instructions each."""

LOAD, CONVERT, STEP, GUARD, AROUND = 4.0, 1.0, 1.0, 4.0, 24.0
"""A load in instructions of a thread, what each of its elements takes beside, a step of a sum, the
bounds of a vector, and what is around a step of the other axes of a window."""

SECTOR, WRITTEN = 32, 5.0
"""Bytes that memory is written by, and instructions that warps issue while one is.  Where several
stores have parts of a sector, each takes as much, and twice as much where L2 has no room to wait
for the others: 67 million halves that each store puts into a sector of its own take an H100 724 us,
537 million numbers of 32 bits in lines of 65,537, eight a thread, 4.6 ms.  Lines of 14 halves in
L2, a thread each, take a third of that."""

ISSUED, BESIDE = 3.0, 4
"""Instructions that other warps issue meanwhile, and how well the two go beside each other: as the
model of time has it."""


@dataclass(frozen=True)
class Lines:
    """How the windows of a region's reduction slide along the lines of its outputs.

    ``label`` is the reduced axis of ``taps`` points that slides.  ``outer`` are the axes that are
    one axis of lines, each with the number of lines of a point of it and its size, which is open
    for the first one alone.
    """

    reduce: ReduceOp
    label: str
    taps: int
    sliding: tuple[Sliding, ...]
    still: tuple[ReadOp, ...]
    """What is the same all along a line, as weights."""
    space: Space
    outer: tuple[tuple[str, int, int | None], ...]
    others: tuple[Lines, ...] = ()
    """The same of the region's further reductions."""

    @property
    def every(self) -> tuple[Lines, ...]:
        """Those of all reductions."""
        return (self, *self.others)

    def of(self, reduce: ReduceOp) -> Lines:
        """Those of one of them."""
        return next(one for one in self.every if one.reduce is reduce)

    @property
    def line(self) -> Dim:
        """Points of a line of the outputs."""
        return self.space.sizes[-1]

    @property
    def steps(self) -> int:
        """Points of the window along its other axes; those that are open count as one."""
        others = (a for a in self.reduce.labels if a != self.label)
        return prod(size_of(self.reduce, a).constant() or 1 for a in others)


def find_lines(loops: Loops) -> Lines | None:
    """The windows of a region that slide along lines; None where they do not.

    The outputs need reductions that have a result for each of them and need no other one, each over
    a window of known size that slides along the innermost axis of the outputs and of what is read.
    Outside of a tensor it reads what that is filled with, and nothing else that it reads goes along
    a line.  Of several reductions, as of a maximum and its place, one is after the other.
    """
    found = lines_of(loops.values)
    if found is None or not loops.reductions:
        return None
    parts = [_slid(loops, reduce, *found) for reduce in loops.reductions]
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts):
        return None
    return replace(whole[0], others=tuple(whole[1:]))


def _slid(
    loops: Loops, reduce: ReduceOp, space: Space, outer: tuple[tuple[str, int, int | None], ...]
) -> Lines | None:
    """How the windows of one reduction slide; None where they do not."""
    column = str(space.column)
    own = type_of(reduce.result).labels
    if sorted(own) != sorted(type_of(loops.values[0]).labels) or reductions_in([reduce.operand]):
        return None
    reads = [op for op in made_by([reduce.operand]) if isinstance(op, ReadOp)]
    along = [read for read in reads if column in read.result.type.labels]
    for label in reduce.labels:
        taps = size_of(reduce, label).constant()
        if taps is None or not 1 < taps <= MOST_TAPS:
            continue
        found = [sliding(loops.expanded, read, column, label, taps) for read in along]
        slid = [one for one in found if one is not None and _is_innermost(one, column, label)]
        if not slid or len(slid) < len(along):
            continue
        still = tuple(read for read in reads if read not in along)
        return Lines(reduce, label, taps, tuple(slid), still, space, outer)
    return None


def lines_of(
    values: Sequence[SSAValue],
) -> tuple[Space, tuple[tuple[str, int, int | None], ...]] | None:
    """Outputs as lines: the space of these, and the axes outside of them, as ``Lines`` has both.

    None where outputs have unlike axes, or another size than the outermost one's is open or 0.
    """
    labels = type_of(values[0]).labels if values else ()
    if len(labels) < 2 or any(type_of(value).labels != labels for value in values):
        return None
    *leading, column = labels
    sizes = dict(zip(labels, type_of(values[0]).shape, strict=True))
    outer: list[tuple[str, int, int | None]] = []
    inside = 1
    for label in reversed(leading):
        size = sizes[label].constant()
        if size == 0 or (size is None and label != leading[0]):
            return None
        outer.append((label, inside, size))
        inside *= size or 1
    whole = (prod((sizes[a] for a in leading), start=Dim.const(1)), sizes[column])
    outputs = tuple(range(len(values)))
    return Space(outputs, (), LINES, column, whole, frozenset()), tuple(reversed(outer))


def _is_innermost(one: Sliding, column: str, label: str) -> bool:
    """Whether a read slides along the lines of its tensor, by nothing else than the two axes."""
    results, labels = one.read.map.data.results, one.read.result.type.labels
    if one.result != len(results) - 1:
        return False
    used = {e.position for e in results[-1].dfs() if isinstance(e, AffineDimExpr)}
    return {labels[position] for position in used} == {column, label}


def begins(one: Sliding) -> int:
    """Where the first window of a line begins, in elements from the beginning of its line."""
    try:
        return linear_of(one.read.map.data.results[-1]).constant
    except NotAffine:  # It was affine where it was found.
        return 0


def tensor_type(one: Sliding) -> MemRefType:
    """What slides, in memory."""
    return cast("MemRefType", one.read.tensor.type)


def element_of(one: Sliding) -> Attribute:
    """The type of its elements."""
    return tensor_type(one).element_type


def widest(size: int) -> int:
    """Elements of so many bytes that one access takes at most."""
    return min(OUTPUTS, MAX_VECTOR_BYTES // size)


# Tiles --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LineTile:
    """``rows`` lines of ``columns`` points, of which a thread has ``outputs`` of one line."""

    rows: int
    columns: int
    outputs: int

    @property
    def across(self) -> int:
        """Threads that share a line."""
        return self.columns // self.outputs

    @property
    def threads(self) -> int:
        return self.rows * self.across

    @property
    def warp_tile(self) -> list[int]:
        """What a warp has."""
        across = min(self.across, WARP)
        return [WARP // across, across * self.outputs]

    @property
    def layout(self) -> FragmentLayoutAttr:
        """A thread's points are neighbours, and so are threads that have neighbouring ones."""
        return self.along(self.outputs, self.outputs)

    def vector(self, one: Sliding) -> int:
        """Elements that one load of what slides brings."""
        length = tensor_type(one).shape[-1].constant() or 1
        most = widest(element_bytes(element_of(one)))
        return gcd(most, self.outputs * one.step, length)

    def before(self, one: Sliding) -> int:
        """Elements that a thread brings before its first window."""
        return begins(one) % self.vector(one)

    def span(self, one: Sliding, taps: int) -> int:
        """Elements that a thread brings for its windows, whole vectors."""
        needs = self.before(one) + one.span(self.outputs, taps)
        return -(-needs // self.vector(one)) * self.vector(one)

    def window(self, one: Sliding, taps: int) -> tuple[list[int], FragmentLayoutAttr]:
        """The sizes of what a tile brings, and how it lies: what neighbours share, each has."""
        span, beside = self.span(one, taps), self.outputs * one.step
        return [self.rows, (self.across - 1) * beside + span], self.along(span, beside)

    def along(self, count: int, beside: int) -> FragmentLayoutAttr:
        """``count`` points of a line, which begin ``beside`` after those of the thread before."""
        thread, register = AffineExpr.dimension(0), AffineExpr.dimension(1)
        column = register + thread % self.across * beside
        where = AffineMap(2, 0, (thread // self.across, column))
        return FragmentLayoutAttr.of(self.threads, count, where)


def tile_from(tile: tuple[int, int], threads: int) -> LineTile | None:
    """The tile of a plan, of whose lines so many threads have as many points each."""
    rows, columns = tile
    outputs, rest = divmod(rows * columns, threads)
    if rest or not outputs or columns % outputs:
        return None
    found = LineTile(rows, columns, outputs)
    across = found.across
    return found if across & (across - 1) == 0 and threads % WARP == 0 else None


def tiles(lines: Lines) -> Iterator[LineTile]:
    """The tiles that lines of known length may have: threads have a part of one, or it whole.

    Windows along lines alone share nothing with those of other lines: a block has one line, whose
    ends its warps share, where that leaves few threads without a point.
    """
    line = lines.line.constant()
    if not line:
        return
    counts = {n for n in range(1, MOST_OUTPUTS + 1) if line % n == 0}
    counts |= {n for n in (2, 4, 8, 16) if n <= line}
    alone = all(one.steps == 1 for one in lines.every)
    for outputs in sorted(counts, reverse=True):
        whole = power_of_two(-(-line // outputs))
        across, wide = min(whole, WARP), min(whole, THREADS)
        taken = [-(-line // (n * outputs)) * n for n in (across, wide)]
        if alone and taken[1] <= IDLE * taken[0]:
            across = wide
        yield LineTile(THREADS // across, across * outputs, outputs)


def time_of(lines: Lines, tile: LineTile, arch: str, sizes: Sequence[int] = ()) -> float:
    """What a tile takes of a multiprocessor's threads, in instructions of one, times how often a
    chip takes as many threads; lines whose number is open are many.

    ``sizes`` are bytes of an element of each output.  All are stored by vectors of the widest one,
    as far as lines are multiples of these, so that a thread's vectors lie apart from its
    neighbours'.
    """
    number, line = (size.constant() for size in lines.space.sizes)
    tiles_along = -(-(line or tile.columns) // tile.columns)
    at_once = ARCHS[arch].multiprocessors * AT_ONCE
    threads = tiles_along * tile.across * (at_once if number is None else number)
    each = sum(one.steps * _step_time(one, tile) for one in lines.every)
    vector = gcd(widest(max(sizes, default=1)), tile.outputs, line or 0)
    held = is_held(lines, sizes, arch)
    stored = sum(written(tile, vector, size, line, held) for size in sizes)
    each = (each**BESIDE + stored**BESIDE) ** (1 / BESIDE)
    return each * max(threads / at_once, 1.0)


def written(tile: LineTile, vector: int, size: int, line: int | None, held: bool) -> float:
    """What the stores of a thread take that has so many elements of ``size`` bytes in each: less
    where L2 has ``held`` a sector until all of it is there, more where it has not."""
    parted = vector < tile.outputs and vector * size < SECTOR
    each = WRITTEN * (0.5 if held else 2.0 if parted else 1.0)
    return tile.outputs / vector * touched(tile.outputs * size, SECTOR, tile, line) * each


def is_held(lines: Lines, sizes: Sequence[int], arch: str) -> bool:
    """Whether L2 has room for what slides and for outputs of so many bytes an element."""
    number, line = (size.constant() for size in lines.space.sizes)
    whole = float(sum(sizes) * (number or 0) * (line or 0))
    for kind in {one.read.tensor: tensor_type(one) for one in lines.sliding}.values():
        points = prod((size.constant() or 0 for size in kind.shape), start=1)
        whole += points * element_bytes(kind.element_type)
    return number is not None and whole <= device_of(arch).cache_bytes


def touched(apart: float, unit: int, tile: LineTile, line: int | None) -> float:
    """Pieces of ``unit`` bytes that a warp reaches at once, whose threads begin ``apart``; where a
    tile has a part of each line, these lie apart too."""
    part = min(apart / unit, 1.0)
    if line is not None and tile.columns < line:
        part = max(part, 1 / min(tile.across, LANES))
    return max(1.0, LANES * part)


def _step_time(lines: Lines, tile: LineTile) -> float:
    """The instructions of a thread at one point of the other axes of a reduction's window."""
    each, asked = AROUND, 0.0
    for one in lines.sliding:
        loads = tile.span(one, lines.taps) / tile.vector(one)
        each += loads * (LOAD + GUARD) + one.span(tile.outputs, lines.taps) * CONVERT
        apart = tile.outputs * one.step * element_bytes(element_of(one))
        asked += loads * touched(apart, LINE_BYTES, tile, lines.line.constant()) * ISSUED
    step = STEP + tap_operations(made_by([lines.reduce.operand]), lines.reduce)
    each += len(lines.still) * lines.taps * (LOAD + CONVERT) + lines.taps * tile.outputs * step
    return (each**BESIDE + asked**BESIDE) ** (1 / BESIDE)


def best(lines: Lines, arch: str, values: Sequence[SSAValue] = ()) -> LineTile | None:
    """The tile that takes the least where ``values`` are stored; None where lines are of open
    length."""
    sizes = [element_bytes(type_of(value).element_type) for value in values]
    return min(tiles(lines), key=lambda tile: time_of(lines, tile, arch, sizes), default=None)


def stored_vector(line: Dim, values: Sequence[SSAValue]) -> int:
    """Elements of so long a line that a thread stores at once."""
    size = max(element_bytes(type_of(value).element_type) for value in values)
    return gcd(widest(size), line.constant() or 1)
