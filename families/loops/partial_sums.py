"""Reductions of few results and many points: any number of blocks has a tile (S8, S9).

Where results are few, as of columns, of a channel of all images or of a whole tensor, their tiles
leave a chip idle.  Blocks then share the points of a tile's reductions and store what they have of
it in memory, and a second kernel combines that.  That costs a launch; so the model of time says
where it is worth it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from polyc.affine.expressions import linear_of
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import is_integer
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES
from polyc.dialects.region import ReadOp, ReduceOp
from polyc.dialects.region.moments import moments_of
from polyc.dialects.region.orders import innermost_first, neighbour_of
from polyc.dialects.region.types import MemRefType
from polyc.families.facts import left_open, power_of_two, power_within
from polyc.families.loops.recognise import (
    FAR,
    Loops,
    Space,
    loads_of,
    made_by,
    reductions_in,
    size_of,
    summed,
    type_of,
)
from polyc.families.structure import MOST_PARTS

THREADS = 256
"""Of a block."""

WARP = 32
"""Threads of a warp."""

LINE_BYTES = 128
"""Of a cache line: what a tile has of a row of memory at least, where columns are kept."""

WIDE_BYTES = 256
"""What it has of long rows, where there are enough tiles."""

ROWS = 8
"""Results of a tile at most, where the reduced points lie side by side in memory."""

SHORT = 128
"""Points of such an axis that a tile has at least, however its end falls."""

VECTOR = 8
"""Elements of the widest access."""

BLOCKS = 4
"""Blocks that each multiprocessor has where sizes are known, and ``SCALAR_BLOCKS`` of threads that
read element by element: as many as find room, since little of each is on its way."""

SCALAR_BLOCKS = 8

OPEN = ((512, 1, 2, 1), (64, 1, 2, 1), (128, 3, 8, 1), (8, 34, 132, 8))
NARROW = ((512, 1, 2, 1),)
WIDE = ((256, 1, 4, 1), (16, 17, 66, 4))
"""Parts of a tile where sizes are open, the fewest and the most tiles that have so many, and the
steps of each part at least: about as many blocks as find room at once.  Of more a block has but a
step, and what it does around that is as long.  Kept columns are in narrow or in wide tiles."""

SCALAR = ((512, 1, 2, 8), (64, 1, 66, 1))
"""The same of elements that are read one by one."""


@dataclass(frozen=True)
class Shared:
    """A region of one space of outputs, whose reductions are all over the same points.

    Each has a result for every point of the space, and none needs another one's, but for squares
    about the mean of a sum.  ``inner`` is the
    reduced axis that threads part: along a tile's rows where its columns are kept, else along
    its columns.
    """

    loops: Loops
    space: Space
    inner: str

    @property
    def reductions(self) -> list[ReduceOp]:
        return summed(self.loops.values)

    @property
    def is_of_moments(self) -> bool:
        """Whether the squares of one are about another one's mean."""
        return moments_of(self.loops.values) is not None

    @property
    def along(self) -> int:
        """The axis of a tile along which threads part the points: 0 its rows, 1 its columns."""
        return 1 if self.space.column is None else 0

    def tiles(self, rows: int, columns: int) -> Dim:
        """How many tiles of so many rows and columns the results have."""
        *outer, high, wide = self.space.sizes
        kept = wide.ceildiv(columns) if self.along == 0 else high.ceildiv(rows)
        return prod(outer, start=kept)

    @property
    def sizes(self) -> list[Dim]:
        """The sizes of the reduced axes."""
        reduce = self.reductions[0]
        return [size_of(reduce, label) for label in reduce.labels]

    @property
    def reads(self) -> list[ReadOp]:
        """What the reductions are made of, over reduced axes."""
        reduced = set(self.reductions[0].labels)
        made = made_by([reduce.operand for reduce in self.reductions])
        return [
            op for op in made if isinstance(op, ReadOp) and reduced & set(op.result.type.labels)
        ]

    @property
    def walked(self) -> str | None:
        """The axis of a tile whose neighbours are neighbours in memory, if there is one."""
        wanted = self.inner if self.along == 1 else self.space.column
        return wanted if wanted in {neighbour_of(op) for op in self.reads} else None


def find_shared(loops: Loops) -> Shared | None:
    """The reductions of a region that any number of blocks may share, or None.

    They accumulate in f32, or need no rounding, as integers do: what is combined is what one block
    would have but for the order of a sum.
    """
    needed = summed(loops.values)
    moments = moments_of(loops.values)
    if len(loops.spaces) != 1 or not needed:
        return None
    (space,) = loops.spaces
    if space.walked or (space.row is not None and space.column is not None):
        return None
    kept = {label for label in space.labels if label is not None}
    for reduce in needed:
        if set(type_of(reduce.result).labels) != kept:
            return None
        if moments is None and reductions_in([reduce.operand]):
            return None
        if set(reduce.labels) != set(needed[0].labels):
            return None
        if not reduce.is_shared:
            return None
    inner = [innermost_first(reduce)[0] for reduce in needed]
    return Shared(loops, space, inner[0]) if len(set(inner)) == 1 else None


@dataclass(frozen=True)
class Way:
    """Tiles of ``rows`` by ``columns``, read by vectors of ``vector``, whose points ``parts``
    blocks have, under ``facts``."""

    rows: int
    columns: int
    vector: int
    parts: int
    facts: Sequence[Assumption]

    @property
    def name(self) -> str:
        """The name of its variant."""
        return f"{'scalar' if self.vector == 1 else 'vector'}_parts{self.parts}"


def ways(shared: Shared, arch: str) -> list[Way]:
    """The ways to share a region's reductions that may be worth it, in order of dispatch."""
    kernel = shared.loops.kernel
    found: list[Way] = []
    for vector, facts in vectors(shared):
        for line, open_ways in _lines(shared, vector):
            rows, columns = _tile(shared, vector, line)
            for way in _parted(shared, arch, Way(rows, columns, vector, 1, facts), open_ways):
                if left_open(kernel, way.facts) is not None:
                    found.append(way)
    return found


def whole_rows(shared: Shared) -> Way | None:
    """Rows of which a warp has each, by vectors, or None where their points lie elsewhere.

    A region of rows of real numbers is another family's: these are of integers.
    """
    if shared.along == 0 or shared.space.row is None:
        return None
    if not any(is_integer(reduce.accumulator) for reduce in shared.reductions):
        return None
    vector, facts = next(vectors(shared))
    if vector == 1 or left_open(shared.loops.kernel, facts) is None:
        return None
    wide = WARP * vector * loads_of(shared.reductions)
    inner = size_of(shared.reductions[0], shared.inner).constant()
    if inner is not None:
        wide = min(wide, max(SHORT, power_of_two(inner)))
    return Way(THREADS // WARP, wide, vector, 1, facts)


def vectors(shared: Shared) -> Iterator[tuple[int, list[Assumption]]]:
    """The elements of an access, the widest that may be first, and what they ask of sizes.

    One where a tensor is read by a few elements along the columns, as a coordinate of points is:
    lanes that had neighbouring vectors would touch as many more lines of the cache with each.
    """
    kernel = shared.loops.kernel
    near = shared.along == 1 and any(1 < _step(op, shared.inner) <= FAR for op in shared.reads)
    if shared.walked is not None and shared.reads and not near:
        kinds = [element_bytes(op.result.type.element_type) for op in shared.reads]
        vector = min(VECTOR, MAX_VECTOR_BYTES // max(kinds))
        ours = [op for op in shared.reads if neighbour_of(op) == shared.walked]
        lengths = [cast("MemRefType", op.tensor.type).shape[-1] for op in ours]
        if shared.along == 1:
            lengths.append(size_of(shared.reductions[0], shared.inner))
        else:
            lengths.append(shared.space.sizes[-1])
        while vector > 1:
            facts = [Assumption(n.mod(vector), "==") for n in dict.fromkeys(lengths)]
            left = left_open(kernel, facts)
            if left is not None and all(n.constant() != 0 for n in lengths):
                yield vector, facts
                if not left:
                    return
                break
            vector //= 2
    yield 1, []


def _step(read: ReadOp, label: str) -> int:
    """How many elements of memory a point of an axis is from the next; 0 where sizes are open or
    nothing depends on it."""
    labels, found, each = read.result.type.labels, 0, 1
    shape = cast("MemRefType", read.tensor.type).shape
    for size, expr in zip(reversed(shape), reversed(read.map.data.results), strict=True):
        terms = linear_of(expr).terms if label in labels else ()
        found += sum(f * each for term, f in terms if term == ("d", labels.index(label)))
        if (known := size.constant()) is None:
            break
        each *= known
    return found


OpenWays = Sequence[tuple[int, int, int, int]]


def _lines(shared: Shared, vector: int) -> Iterator[tuple[int, OpenWays]]:
    """The bytes that a tile may have of a row of memory, and how tiles are parted if it is open."""
    if vector == 1:
        yield LINE_BYTES, SCALAR
    elif shared.along == 1:
        yield LINE_BYTES, OPEN
    else:
        if shared.space.sizes[-1].constant() is None:
            yield LINE_BYTES, NARROW
        yield WIDE_BYTES, WIDE


def _tile(shared: Shared, vector: int, line_bytes: int) -> tuple[int, int]:
    """Rows and columns of a tile: known sizes bound it."""
    elements = THREADS * loads_of(shared.reductions) * vector
    inner = size_of(shared.reductions[0], shared.inner).constant()
    deep = elements if inner is None else min(elements, power_of_two(inner))
    *_, rows, columns = shared.space.sizes
    if shared.along == 0:
        kinds = [element_bytes(op.result.type.element_type) for op in shared.reads]
        line = line_bytes // min(kinds, default=4)
        wide = max(power_within(columns, line), vector)
        return max(1, min(elements // wide, max(deep, THREADS * vector // wide))), wide
    high = 1 if shared.space.row is None else power_within(rows, ROWS)
    wide = max(min(deep, elements // high), SHORT)
    while (
        inner is not None and wide > SHORT and _whole(inner, wide // 2) < 0.9 * _whole(inner, wide)
    ):
        wide //= 2
    if shared.space.row is not None:
        high = power_within(rows, elements // wide)
    return high, wide


def _whole(size: int, step: int) -> int:
    """``size`` in whole steps."""
    return -(-size // step) * step


def _parted(shared: Shared, arch: str, way: Way, open_ways: OpenWays) -> Iterator[Way]:
    """A way with numbers of parts."""
    tiles = shared.tiles(way.rows, way.columns)
    step = way.columns if shared.along == 1 else way.rows
    points = prod(shared.sizes, start=Dim.const(1))
    size = {label: size_of(shared.reductions[0], label) for label in shared.reductions[0].labels}
    others = prod((n for a, n in size.items() if a != shared.inner), start=Dim.const(1))
    count, steps = tiles.constant(), (others * size[shared.inner].ceildiv(step)).constant()
    if count is not None and steps is not None:
        blocks = BLOCKS if way.vector > 1 else SCALAR_BLOCKS
        wanted = -(-ARCHS[arch].multiprocessors * blocks // max(1, count))
        parts = min(wanted, steps, MOST_PARTS)
        if parts > 1:
            # The fewest parts of which none has more steps.
            parts = -(-steps // -(-steps // parts))
            yield Way(way.rows, way.columns, way.vector, parts, way.facts)
        return
    for parts, least, most, long in open_ways:
        few = Assumption(Dim.const(most) - tiles, ">=")
        many = [Assumption(tiles - least, ">=")] if least > 1 else []
        deep = Assumption(points - parts * step * long, ">=")
        yield Way(way.rows, way.columns, way.vector, parts, [*way.facts, *many, few, deep])
