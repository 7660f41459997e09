"""Outputs that are turned on their way to memory: what is made of tensors whose lines lie along an
axis that is not the outputs' innermost one, as of channels last in NCHW (S8, S9.3).

Threads compute in vectors along that axis, whatever is computed: windows, guards, several tensors
side by side.  A tile of results goes through shared memory and is written along the lines of the
outputs.  Where the tensors themselves are turned (``Loops.turned``), each needs a tile of its own,
and nothing is reduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES
from polyc.dialects.region import GatherOp, ReadOp
from polyc.dialects.region.orders import neighbour_of
from polyc.families.facts import power_within
from polyc.families.loops.recognise import (
    Loops,
    Space,
    made_by,
    reductions_in,
    type_of,
)

ROWS = "points"
"""The name of the axis that the axes behind the columns' are together."""

LINE = 128
"""Bytes of a tile's rows and columns: a cache line on both sides."""

SECTOR = 32
"""Bytes of neighbours in memory from which on they are worth a tile."""

MOST_OUTPUTS = 2
"""Outputs of a kernel, each with a tile in shared memory."""

WARPS = 8
"""Of a block."""

WORD = 4
"""Bytes of the elements of which several vectors a thread were timed."""

LONG, WIDE = 4, 2
"""Cache lines that a tile has of its rows, where lines of the outputs are no whole sectors or there
are few columns, and else of these, of what is plain: what a thread finds of its points is then for
several vectors of columns.  Of 268 million elements, joined of eight parts in NCHW, 1033 us by a
line of each, 765 by two of columns; of 273 million in lines of 129 elements 1082 and 789 by four of
rows."""

LEAST = 64
"""Bytes of its columns at least, where there are as many."""


@dataclass(frozen=True)
class TurnedStore:
    """Outputs over the same axes, and how a tile of them lies.

    ``space``   rows of a tile are points of all axes behind the columns' as one axis, where their
                sizes are known, or of the last one
    ``rows``    these axes, of each the points of ``space.row`` that a point of it is, and its size,
                which is open for the outermost one
    ``column``  the axis of the columns, along which what is read lies in memory
    ``order``   all axes as the outputs lie in memory
    """

    space: Space
    rows: tuple[tuple[str, int, int | None], ...]
    column: str
    order: tuple[str, ...]
    reads: tuple[ReadOp, ...]
    """What is read along the columns, in vectors of them, and differs between rows."""
    bytes: int
    """Of the widest element of these, or of what is stored."""
    is_plain: bool
    """Whether there is one output, of words of four bytes, and nothing is reduced."""

    @cached_property
    def outside(self) -> tuple[str, ...]:
        """The axes that are no rows, as the outputs lie in memory."""
        return self.order[: len(self.order) - len(self.rows)]

    def dims(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The sizes of an output whose rows are one axis."""
        count = len(self.outside)
        return *sizes[:count], prod(sizes[count:], start=Dim.const(1))

    @property
    def is_whole(self) -> bool:
        """Whether lines of the outputs are whole sectors, as far as is known."""
        known = self.space.sizes[-2].constant()
        return known is None or known * self.bytes % SECTOR == 0

    def stored(self, vector: int) -> int:
        """Elements that lie together on the side of the outputs, of ``vector`` at most."""
        known = self.space.sizes[-2].constant()
        return 1 if known is None else gcd(vector, known)


def find_turned_store(loops: Loops) -> TurnedStore | None:
    """How a region's outputs may be turned on their way to memory; None where they lie as what is
    read does, blocks walk axes, or threads would part reductions."""
    values, kernel = loops.values, loops.expanded
    if not 1 <= len(values) <= MOST_OUTPUTS or len(loops.spaces) != 1 or loops.spaces[0].walked:
        return None
    order, shape = type_of(values[0]).labels, type_of(values[0]).shape
    if any(type_of(value).labels != order for value in values):
        return None
    sizes = dict(zip(order, shape, strict=True))
    if any(list(out.shape) != list(shape) for out in kernel.outs):
        return None
    made = list(made_by(values, into=True))
    if any(isinstance(op, GatherOp) for op in made):
        return None
    reads = [op for op in made if isinstance(op, ReadOp)]
    column = _column(reads, order)
    if column is None:
        return None
    ours = tuple(read for read in reads if neighbour_of(read) == column and _differs(read, order))
    kinds = [out.element_type for out in kernel.outs]
    kinds += [read.result.type.element_type for read in ours]
    wide = max(element_bytes(without_sign(kind)) for kind in kinds)
    if (sizes[column].constant() or 0) * wide < SECTOR:
        return None
    rows = _rows(order, sizes, column)
    behind = {label for label, *_ in rows}
    for reduce in loops.reductions:
        if not {*behind, column} <= set(type_of(reduce.result).labels):
            return None
        if reductions_in([reduce.operand]):
            return None
    outer = tuple(label for label in order if label != column and label not in behind)
    whole = prod((sizes[label] for label in behind), start=Dim.const(1))
    if (whole.constant() or SECTOR) * wide < SECTOR:
        return None
    lies = (*(sizes[label] for label in outer), whole, sizes[column])
    space = Space(tuple(range(len(values))), outer, ROWS, column, lies, frozenset())
    plain = len(values) == 1 and not loops.reductions and wide == WORD
    return TurnedStore(space, rows, column, tuple(order), ours, wide, plain)


def _column(reads: Sequence[ReadOp], order: Sequence[str]) -> str | None:
    """The axis along which what is read lies in memory, where that is one axis and not the last;
    tensors without any of the axes behind it, as a bias, do not count."""
    found: dict[str, None] = {}
    for read in reads:
        label = neighbour_of(read)
        if label is not None and label in order and _differs(read, order):
            found[label] = None
    (column, *others) = found or (None,)
    return None if others or column in order[-1:] else column


def _differs(read: ReadOp, order: Sequence[str]) -> bool:
    """Whether what is read differs along an axis behind that of its lines, or along the last."""
    label, labels = neighbour_of(read), set(read.result.type.labels)
    behind = order[order.index(label) + 1 :] if label in order else ()
    return label == order[-1] or not labels.isdisjoint(behind)


def _rows(
    order: Sequence[str], sizes: dict[str, Dim], column: str
) -> tuple[tuple[str, int, int | None], ...]:
    """The axes behind the columns' that are one, as ``TurnedStore.rows``."""
    rows: list[tuple[str, int, int | None]] = []
    inside = 1
    for label in reversed(order[order.index(column) + 1 :]):
        known = sizes[label].constant()
        rows.append((label, inside, known))
        if not known:
            break
        inside *= known
    # What is beyond the last point is outside of the first axis, whose size is not asked then.
    rows[-1] = (*rows[-1][:2], None)
    return tuple(reversed(rows))


def tile_of(found: TurnedStore) -> tuple[int, int]:
    """Rows and columns of a tile: a cache line of each, or fewer columns where that leaves fewer of
    them empty, or several lines of one."""
    side = LINE // found.bytes
    *_, points, columns = found.space.sizes
    if found.is_plain and (long := points.constant()) and (deep := columns.constant()):
        if found.is_whole and deep % (WIDE * side) == 0 and long >= side:
            return side, WIDE * side
        if deep % side == 0 and long >= LONG * side:
            return LONG * side, side
    wide = power_within(columns, side)
    known = columns.constant() or wide
    half = wide // 2
    if half * found.bytes >= LEAST and -(-known // half) % 2:
        wide = half  # The last tile would be half empty.
    return max(power_within(points, side), ARCHS["sm_80"].warp // wide), wide


def vector_of(found: TurnedStore) -> int:
    """Elements of an access along the columns, whose number is known."""
    known = found.space.sizes[-1].constant() or 1
    return gcd(known, MAX_VECTOR_BYTES // found.bytes, tile_of(found)[1])


def warps_of(tile: tuple[int, int], vector: int) -> int:
    """Warps of a block: a thread has a vector of the tile at least."""
    return max(1, min(WARPS, prod(tile) // (ARCHS["sm_80"].warp * vector)))
