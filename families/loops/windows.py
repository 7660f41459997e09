"""Windows that slide: a thread has neighbouring outputs, which share what they read (S8, S9.3).

The windows of a convolution in many groups, of pooling or of a blur overlap along an axis of the
outputs.  A thread that has several neighbours along it, each with a vector of the innermost axis,
reads what their windows have in common once into registers, and what does not slide, as weights,
once for all of them: ``outputs + taps - 1`` reads in place of ``outputs * taps``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from polyc.affine.expressions import NotAffine, linear_of
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.types import FragmentLayoutAttr
from polyc.dialects.region import CastOp, KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.orders import neighbour_of
from polyc.families.loops.recognise import (
    Loops,
    Space,
    made_by,
    reductions_in,
    size_of,
    type_of,
)
from polyc.rewriting.region.compose import guards_bounds

WARP = 32

MOST_TAPS = 32
"""Points of a window at most along the axis that it slides along."""

OUTPUTS = (8, 7, 4, 2)
"""Neighbours of a thread; images of 7, 14, 28 and 56 pixels a row are parted in sevens."""

THREADS = (256, 128, 64)
"""Of a block."""

OF_POOLS = (256, 224, 192, 160, 128, 96, 64)
"""Of one whose windows nothing is multiplied with, so that rows of 28, 24 and 20 outputs a thread
row leave nobody idle: the maximum of 3x3 windows with a step of 2 of 56 outputs a row, channels
last, takes an H100 43.1 us of f16 with 224 threads and 44.3 with 256."""

SAVED = 0.2
"""The part of the reads of their windows that neighbours save at least where these are summed: the
mean of the same windows takes 43.0 us with one output a thread and 44.5 with two, which save a
sixth; a step of a maximum takes twice as long, and it 44.9 with one."""

MOST_REGISTERS = 160
"""Of a thread, for what it reads, its sums and a vector of what does not slide."""

MOST_COLUMNS = 256
"""Of a tile."""

LEAST_BYTES = 64
"""Of a row of a tile that lie side by side in memory: two sectors, where the row is as long."""

ELEMENT_BYTES = 2
"""Of the elements that vectors of eight have."""

LOAD, CONVERT, STEP = 4.0, 1.0, 1.0
"""A vector's load in cycles of a warp, and for each of its elements a conversion, and a step."""


@dataclass(frozen=True)
class Sliding:
    """A read whose window slides: coordinate ``result`` of it goes by ``step`` from an output to
    the next one along the tile's rows, and by ``dilation`` from a point of the window to the next.
    """

    read: ReadOp
    result: int
    step: int
    dilation: int

    def span(self, outputs: int, taps: int) -> int:
        """What so many neighbouring outputs read together."""
        return (outputs - 1) * self.step + (taps - 1) * self.dilation + 1


@dataclass(frozen=True)
class Window:
    """How the windows of a region's one reduction slide along the rows of a tile.

    ``label`` is the reduced axis of ``taps`` points that slides.
    """

    reduce: ReduceOp
    label: str
    taps: int
    sliding: tuple[Sliding, ...]
    still: tuple[ReadOp, ...]
    """What is the same for all rows of a tile, as weights."""
    space: Space


def find_window(loops: Loops) -> Window | None:
    """The windows of a region of which a thread may have several side by side; None for none.

    The outputs need one reduction, which has a result for each of them and needs no other one, over
    a window of known size that slides along the tile's rows.  Outside of a tensor it reads what the
    read is filled with.
    """
    if len(loops.spaces) != 1 or len(loops.reductions) != 1:
        return None
    (space,), (reduce,) = loops.spaces, loops.reductions
    if space.row is None or space.column is None or space.walked:
        return None
    if not {space.row, space.column} <= set(type_of(reduce.result).labels):
        return None
    if reductions_in([reduce.operand]):
        return None
    reads = [op for op in made_by([reduce.operand]) if isinstance(op, ReadOp)]
    rows = [read for read in reads if space.row in read.result.type.labels]
    if not all(_lies_along(read, space.column) for read in rows):
        return None
    for label in reduce.labels:
        taps = size_of(reduce, label).constant()
        if taps is None or not 1 < taps <= MOST_TAPS:
            continue
        found = [sliding(loops.expanded, read, str(space.row), label, taps) for read in reads]
        slid = tuple(one for one in found if one is not None)
        if slid:
            still = tuple(r for r in reads if space.row not in r.result.type.labels)
            return Window(reduce, label, taps, slid, still, space)
    return None


def _lies_along(read: ReadOp, column: str) -> bool:
    """Whether neighbours of a column are neighbours in memory, or the same, as a group's image for
    several filters is: a thread's vector would go from line to line, or slide, else."""
    labels = read.result.type.labels
    if column not in labels or neighbour_of(read) == column:
        return True
    used = {
        labels[e.position] for e in read.map.data.results[-1].dfs() if isinstance(e, AffineDimExpr)
    }
    return used == {column}


def sliding(kernel: KernelOp, read: ReadOp, row: str, label: str, taps: int) -> Sliding | None:
    """How a read slides by a row of the tile and a point of a window; None where it does not."""
    labels = read.result.type.labels
    if not {row, label} <= set(labels) or not guards_bounds(kernel, read):
        return None
    ours = {labels.index(row), labels.index(label)}
    using = [
        i
        for i, expr in enumerate(read.map.data.results)
        if ours & {e.position for e in expr.dfs() if isinstance(e, AffineDimExpr)}
    ]
    if len(using) != 1:
        return None
    try:
        terms = dict(linear_of(read.map.data.results[using[0]]).terms)
    except NotAffine:
        return None
    step, dilation = (terms.get(("d", labels.index(a)), 0) for a in (row, label))
    # Neighbours that have nothing in common leave gaps between what they read.
    if step < 1 or dilation < 1 or (taps - 1) * dilation + 1 < step:
        return None
    whole = all(isinstance(a, tuple) for a in terms)
    return Sliding(read, using[0], step, dilation) if whole else None


def held_value(read: ReadOp) -> SSAValue:
    """What a thread holds of a read: it in f32, where that alone is used, so that it is once."""
    uses = [use.operation for use in read.result.uses]
    if len(uses) == 1 and isinstance(uses[0], CastOp) and uses[0].result.type.element_type == f32:
        return uses[0].result
    return read.result


# Tiles --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WindowTile:
    """``rows`` and ``columns`` of a tile, of which a thread has ``outputs`` rows of a vector."""

    rows: int
    columns: int
    outputs: int
    threads: int
    vector: int

    @property
    def across(self) -> int:
        """Threads that share a row."""
        return self.columns // self.vector

    @property
    def warp_tile(self) -> list[int]:
        """What a warp has."""
        across = min(self.across, WARP)
        return [self.outputs * (WARP // across), across * self.vector]

    @property
    def layout(self) -> FragmentLayoutAttr:
        """A thread's rows are neighbours, and so are threads that have neighbouring vectors."""
        return self._rows(self.outputs, self.outputs)

    def window(self, sliding: Sliding, taps: int) -> tuple[list[int], FragmentLayoutAttr]:
        """The sizes of what a tile reads, and how it lies: what neighbours share, each has."""
        return self.rows_read(sliding.span(self.outputs, taps), self.outputs * sliding.step)

    def rows_read(self, span: int, beside: int) -> tuple[list[int], FragmentLayoutAttr]:
        """The same of ``span`` rows a thread, which begin ``beside`` after the thread's above."""
        down = self.rows // self.outputs
        return [(down - 1) * beside + span, self.columns], self._rows(span, beside)

    def _rows(self, count: int, beside: int) -> FragmentLayoutAttr:
        """``count`` rows a thread, which begin ``beside`` after the thread's above."""
        thread, register = AffineExpr.dimension(0), AffineExpr.dimension(1)
        vector, across = self.vector, self.across
        column = thread % across * vector + register % vector
        row = thread // across * beside + register // vector
        where = AffineMap(2, 0, (row, column))
        return FragmentLayoutAttr.of(self.threads, count * vector, where)


def tile_from(tile: tuple[int, int], threads: int, vector: int) -> WindowTile | None:
    """The tile of a plan, where each of so many threads has rows of one vector."""
    rows, columns = tile
    outputs, rest = divmod(rows * columns, threads * vector)
    across = columns // vector
    if rest or not outputs or columns % vector or threads % across or across & (across - 1):
        return None
    return WindowTile(rows, columns, outputs, threads, vector) if rows % outputs == 0 else None


def tiles(window: Window, vector: int) -> Iterator[WindowTile]:
    """All tiles of a small space."""
    for threads in THREADS if window.still else OF_POOLS:
        for outputs in OUTPUTS:
            columns = 2 * vector
            while columns <= MOST_COLUMNS:
                rows, rest = divmod(threads * outputs * vector, columns)
                held = max(one.span(outputs, window.taps) for one in window.sliding) + outputs + 2
                whole = not rest and rows % outputs == 0
                if whole and held * vector <= MOST_REGISTERS:
                    yield WindowTile(rows, columns, outputs, threads, vector)
                columns *= 2


def ranked(window: Window, vector: int, arch: str) -> list[WindowTile]:
    """The tiles that the model of time finds best, the best of each number of outputs.

    Where sizes are not known, a row of columns that fills a warp's lanes half stands for all.  None
    of sums whose neighbours would share little.
    """
    best: dict[int, tuple[float, WindowTile]] = {}
    for tile in tiles(window, vector):
        cost = time_of(window, tile, arch)
        if tile.outputs not in best or cost < best[tile.outputs][0]:
            best[tile.outputs] = cost, tile
    found = [tile for _, tile in sorted(best.values(), key=lambda one: one[0])]
    if found and not window.still and window.reduce.fn.data == "sum":
        slid, _ = shared_reads(window, found[0].outputs)
        if slid > (1 - SAVED) * len(window.sliding):
            return []
    return found


def shared_reads(window: Window, outputs: int) -> tuple[float, float]:
    """The reads of an output at one point of its window: what slides, and what does not."""
    each = outputs * window.taps
    slid = sum(one.span(outputs, window.taps) / each for one in window.sliding)
    return slid, len(window.still) / outputs


def time_of(window: Window, tile: WindowTile, arch: str) -> float:
    """What a tile costs an SM's threads, times the rounds of blocks that a chip takes (cycles)."""
    slid, still = shared_reads(window, tile.outputs)
    vector = tile.vector
    point = (slid + still) * (LOAD + CONVERT * vector) + STEP * vector
    each = tile.outputs * (window.taps * point + LOAD + vector) + 4 * LOAD
    sizes = [size.constant() for size in window.space.sizes]
    rows, columns = sizes[-2] or 8 * tile.rows, sizes[-1] or MOST_COLUMNS
    outer = prod(size or ARCHS[arch].multiprocessors for size in sizes[:-2])
    line = min(columns * ELEMENT_BYTES, LEAST_BYTES)
    waste = max(1.0, line / (tile.columns * ELEMENT_BYTES))
    blocks = outer * -(-rows // tile.rows) * -(-columns // tile.columns)
    warps = tile.threads // WARP
    at_once = ARCHS[arch].multiprocessors * (HELD // warps)
    # A chip that is not full takes as long as one warp does, whose loads wait.
    whole = max(blocks / at_once, 1.0) * (HELD // warps) * warps * each * waste
    if window.still:
        return whole
    # What nothing is multiplied with waits for its loads: fewer warps have fewer on their way.
    held = max(one.span(tile.outputs, window.taps) for one in window.sliding) + tile.outputs + 2
    room = ARCHS[arch].registers // (WARP * (held * vector + AROUND))
    return whole * max(1.0, ENOUGH / max(1, room))


HELD = 16
"""Warps of an SM that find room with the registers of their windows."""

AROUND, ENOUGH = 40, 24
"""Registers of a thread beside those of its windows, and warps whose loads keep memory busy: the
mean of 3x3 windows with a step of 2, channels last, takes an H100 93 us with 7 outputs a thread in
f32 and 85 with 2 (16 warps and 24), in f16 62 with 4 and 47 with 2."""


def facts(window: Window, tile: WindowTile, arch: str) -> list[Assumption]:
    """That there are outputs for the threads of a chip."""
    points = prod(window.space.sizes, start=Dim.const(1))
    least = ARCHS[arch].multiprocessors * WARP * 4 * tile.vector * tile.outputs
    return [Assumption(points - least, ">=")]
