"""What holds a row of a region of rows while it is reduced: what schedules are made of.

A variant says of a tile what no region changes; ``fields`` fits it to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan.fields import Value
from polyc.families.facts import holds_always, power_of_two
from polyc.families.rows.recognise import Rows


@dataclass(frozen=True)
class RowsVariant:
    """A way to hold a row.

    ``vector`` elements of it are read at once, so that all rows in memory are multiples of these.
    ``rows`` are those of a tile, where a warp does not take several.  A cluster of ``parts`` blocks
    takes the chunks of a row in turn.  A way that keeps rows has ``kept`` bytes for them in a
    block's shared memory.  With ``turns`` a block keeps one row after another, of which
    ``stages`` are there or on their way, and the parts of a row are blocks anywhere on the chip.  A
    tile that has rows ``whole`` has no other rows: none of its elements is beyond a row's end.  One
    that is ``exact`` has the tile and the warps that it says, for rows of a known length.
    """

    name: str
    way: str
    rows: int
    columns: int
    warps_a_row: int
    vector: int
    parts: int = 1
    kept: int = 0
    turns: bool = False
    stages: int = 1
    whole: bool = False
    exact: bool = False

    def chunks(self, rows: Rows) -> int:
        """How many chunks of its row a block keeps: as many as there is room for, or are needed."""
        if self.way != "kept":
            return 1
        bytes_of = sum(element_bytes(op.result.type.element_type) for op in rows.kept)
        high, wide = self.panel(rows) if rows.turned else (1, self.columns)
        room = self.kept // max(1, self.stages * bytes_of * high * wide)
        if (known := rows.length.constant()) is not None:
            room = min(room, -(-known // (self.parts * wide)))
        return room

    def panel(self, rows: Rows) -> tuple[int, int]:
        """Of rows that lie side by side, how many a tile has, and points of them."""
        high = self.rows
        if (beside := rows.column.size.constant()) is not None:
            high = max(min(high, power_of_two(beside)), self.vector)
        return high, self.warps_a_row * WARP * self.vector * PANEL_VECTORS // high

    def fields(self, rows: Rows) -> Mapping[str, Value]:
        """What a schedule says of the tile.

        A tile that has a row whole is no wider than the region's rows can be, as long as every
        thread has a vector; a warp takes several rows that are shorter.  A region without outer
        axes has one row.
        """
        if rows.turned:
            return self._turned(rows) if self.way == "resident" else self._upright(rows)
        if self.exact:
            return self._exact()
        columns, warps = self.columns, self.warps_a_row
        height = taken = 1
        known = rows.length.constant() if self.way == "resident" else None
        busy = 2 * BUSY if rows.chained else BUSY * _bytes_more(rows)
        narrow = self.whole or self.name in {v.name for v in NARROWER}
        fits = known or (columns if narrow else None)
        while fits is not None and warps > 1 and 2 * fits <= busy * WARP * warps:
            warps //= 2
        least = warps * WARP * self.vector
        if known is not None:
            columns = min(columns, max(1, -(-known // least)) * least)
            if warps == 1:
                whole = self.vector * power_of_two(-(-known // self.vector))
                columns = min(columns, whole if rows.outer else max(whole, WARP))
        while self.way == "resident" and columns > least and at_most(rows, columns // 2):
            columns //= 2
        if rows.outer:
            # Loads of single bytes have a register each on their way.
            more = _bytes_more(rows) if self.vector > 1 else 1
            held = HELD if rows.walks_again else 2 * HELD * more
            taken = max(1, WARP * held // columns) if warps == 1 else 1
            if (count := rows.outer[-1].size.constant()) is not None:
                taken = min(taken, power_of_two(-(-count // self.rows)))
            taken = max(taken, WARP // columns)
            height = self.rows * taken
            if warps == 1 and self.way == "resident" and rows.across:
                # What is stored across the rows fills lines of memory, two of them: a softmax of
                # 128 channels in lines of 129 pixels takes 856 us so, and 1160 by one.
                while height * rows.across < 2 * LINE and height < MOST_WARPS * taken:
                    height *= 2
        return {
            "tile": [height, columns, self.chunks(rows)],
            "warp_tile": [taken, columns // warps],
            "vectorize": self.vector,
            "split_k": self.parts,
            "persistent": self.turns,
        }

    def _exact(self) -> Mapping[str, Value]:
        """The same of a tile of one row, as it is said."""
        return {
            "tile": [self.rows, self.columns, 1],
            "warp_tile": [1, self.columns // self.warps_a_row],
            "vectorize": self.vector,
            "split_k": 1,
            "persistent": False,
        }

    def _upright(self, rows: Rows) -> Mapping[str, Value]:
        """The same of rows that lie side by side, a chunk of points after another."""
        high, wide = self.panel(rows)
        warps = self.warps_a_row
        return {
            "tile": [high, wide, self.chunks(rows)],
            "warp_tile": upright_part(high, wide, warps),
            "vectorize": self.vector,
            "split_k": self.parts,
            "persistent": self.turns,
        }

    def of_few(self, rows: Rows, count: int) -> int | None:
        """Neighbours that a thread has where it has all ``count`` points of rows that lie side by
        side, so that none are brought together; None where that is too much."""
        each = count * sum(element_bytes(op.result.type.element_type) for op in rows.whole)
        vector = min(self.vector, power_of_two(FEW_BYTES // max(1, each) + 1) // 2)
        return vector if vector >= FEW_VECTOR else None

    def _turned(self, rows: Rows) -> Mapping[str, Value]:
        """The same of rows that lie side by side: a thread has vectors of neighbours in memory, and
        its block all points of as many rows as its registers hold."""
        count, beside = cast("int", rows.length.constant()), rows.column.size.constant()
        if (vector := self.of_few(rows, count)) is not None:
            threads = FEW_WARPS * WARP
            if beside is not None:
                threads = max(min(threads, power_of_two(-(-beside // vector))), WARP)
            return {
                "tile": [threads * vector, count, 1],
                "warp_tile": [WARP * vector, count],
                "vectorize": vector,
                "split_k": 1,
            }
        # Elements that are read one by one have an address each.
        more = max(1, power_of_two(count) // TURNED_POINTS)
        fewer = 1 if self.vector > 1 else 2
        warps = fewer * TURNED_WARPS * more
        held = warps * WARP * TURNED_HELD // (1 if fewer == 1 else fewer * more)
        height = min(held // power_of_two(count), warps * WARP * self.vector, TURNED_ROWS)
        if beside is not None:
            height = max(min(height, power_of_two(beside)), self.vector)
        down = warps * WARP * self.vector // height
        width = -(-count // down) * down
        taken = (
            [height, width // warps] if down >= warps else [height * down // warps, width // down]
        )
        return {
            "tile": [height, width, 1],
            "warp_tile": taken,
            "vectorize": self.vector,
            "split_k": 1,
        }


WARP = 32
"""Threads of a warp."""

LINE, MOST_WARPS = 128, 16
"""Bytes of a cache line; and warps of a block at most, to have as many rows side by side."""

FEW_WARPS, FEW_VECTOR, FEW_BYTES = 4, 2, 128
"""Warps of a block, elements of a vector at least, and bytes of a thread at most, where threads
have all points of their rows."""

PANEL_VECTORS = 2
"""Vectors that a thread has of a chunk of rows that lie side by side."""

TURNED_WARPS = 8
"""Of a block with rows that lie side by side, of as many points at most:"""
TURNED_POINTS = 512
TURNED_ROWS = 128
TURNED_HELD = 32
"""Rows of a tile at most, and elements that a thread has of such rows: a sector of memory of each
point, of 512."""

HELD = 16
"""Elements that a thread has at least, of several rows where these are short, and twice as many
where they are only reduced: blocks come and go faster than memory answers where each of their
threads asks once."""

BUSY = 16
"""Elements of a row that a thread of several warps has: fewer threads then meet for a row of 2048,
which takes 35 us instead of 38 in a LayerNorm of 128 MB, and 91 instead of 105 in three norms.
Where one reduction needs another one's result they have twice as many: 16384 rows of 4096 take
70 us in a LayerNorm, and 73 with 16, but 66 and 65 in an RMSNorm."""

COPIED = 4
"""Bytes that cp.async copies at least."""

NARROW = 4
"""How many times as many elements are bytes."""

NARROWER = (
    RowsVariant("block_2048", "resident", 1, 2048, 4, 8),
    RowsVariant("block_4096", "resident", 1, 4096, 8, 8),
    RowsVariant("block_6144", "resident", 1, 6144, 8, 8),
)
"""Between ``warp`` and ``block``, for rows of open lengths: they then fill half of a tile at least.

The last one is for what would fill but half of the tile of ``block``.  To rows of a known length
``warp`` and ``block`` narrow their own tiles.
"""

SHORTER = (
    RowsVariant("lanes", "resident", 4, 64, 1, 8),
    RowsVariant("warp_128", "resident", 4, 128, 1, 8),
    RowsVariant("warp_256", "resident", 4, 256, 1, 8),
    RowsVariant("warp_512", "resident", 4, 512, 1, 8),
)
"""Before ``warp``, for short rows of open lengths: eight lanes have a row of at most 64 elements,
a warp four of 128 at once, and one of 256 in a vector a lane, or of 512 in two, where ``warp``
would compute 1024.  A LayerNorm of 836476 rows of 80 takes 151 us by rows of 256, and 91 of 128."""

SINGLE = (
    RowsVariant("lanes_any", "resident", 4, 64, 1, 1),
    RowsVariant("warp_any_128", "resident", 4, 128, 1, 1),
    RowsVariant("warp_any_256", "resident", 4, 256, 1, 1),
    RowsVariant("warp_any_512", "resident", 4, 512, 1, 1),
    RowsVariant("warp_any", "resident", 4, 1024, 1, 1),
    RowsVariant("block_any_2048", "resident", 1, 2048, 4, 1),
    RowsVariant("block_any_4096", "resident", 1, 4096, 8, 1),
    RowsVariant("block_any", "resident", 1, 8192, 16, 1),
)
"""Before ``any``, for rows of open lengths that no vector divides: a row is read once, and by as
many threads as it keeps busy.  A block of ``any`` for each of a million rows of 71 takes 1253 us,
a warp that has 256 columns of it 122, and 66 where it has no more than there are (sums, H100).
Half as many threads for 8192 would have 32 elements each, and 130 registers, so that one block of
them would find room."""

MOST = 220 * 1024
"""Bytes of shared memory that a block keeps rows in where it has a multiprocessor for itself, or
what an architecture leaves of it: some are for what warps exchange."""

KEPT = 40 * 1024
"""Bytes of a block that keeps one row after another: five of them find room."""

PANEL = 64 * 1024
"""The same of rows that lie side by side: three, which meet for fewer panels.  Columns of 8192 by
4096 take 74 us in a softmax, and 84 with half as much in each block."""

ONCE = RowsVariant("panel_once", "kept", 32, 0, 8, 8, kept=72 * 1024)
"""For rows that lie side by side, of more than ``LANES`` known points: of 512 of 64 MB a LayerNorm
takes 50 us so and 57 in registers, of 1024 52 and 75, where a tile of these has but a sector of
memory of each point."""

LANES = 256

BESIDE = (
    RowsVariant("beside", "resident", 1, 0, 1, 8),
    RowsVariant("beside_any", "resident", 1, 0, 1, 1),
)
"""For rows that lie side by side, of few known points."""

PANELS = (
    RowsVariant("panel_low", "kept", 256, 0, 8, 8, kept=PANEL, turns=True),
    RowsVariant("panel", "kept", 64, 0, 8, 8, kept=PANEL, turns=True),
    RowsVariant("panel_team2", "kept", 64, 0, 8, 8, 2, PANEL, True),
    RowsVariant("panel_team4", "kept", 64, 0, 8, 8, 4, PANEL, True),
    RowsVariant("panel_team8", "kept", 64, 0, 8, 8, 8, PANEL, True),
    RowsVariant("panel_team16", "kept", 64, 0, 8, 8, 16, PANEL, True),
    RowsVariant("panel_team32", "kept", 64, 0, 8, 8, 32, PANEL, True),
    RowsVariant("panel_team64", "kept", 64, 0, 8, 8, 64, PANEL, True),
    RowsVariant("panel_team128", "kept", 64, 0, 8, 8, 128, PANEL, True),
    RowsVariant("panel_most_team128", "kept", 64, 0, 8, 8, 128, MOST // 2, True),
    RowsVariant("panel_walk_team128", "streaming", 64, 0, 8, 8, 128, turns=True),
    RowsVariant("panel_chunks", "streaming", 64, 0, 8, 8),
    RowsVariant("panel_any_split8", "streaming", 32, 0, 8, 1, 8),
    RowsVariant("panel_any", "streaming", 32, 0, 8, 1),
)
"""The same of more points, or of any number."""

VARIANTS = (
    *SHORTER,
    RowsVariant("warp", "resident", 4, 1024, 1, 8),
    *NARROWER,
    RowsVariant("block", "resident", 1, 8192, 8, 8),
    RowsVariant("kept", "kept", 1, 4096, 8, 8, kept=64 * 1024),
    RowsVariant("kept_split2", "kept", 1, 4096, 8, 8, parts=2, kept=64 * 1024),
    RowsVariant("kept_split4", "kept", 1, 4096, 8, 8, parts=4, kept=64 * 1024),
    RowsVariant("kept_split8", "kept", 1, 4096, 8, 8, parts=8, kept=64 * 1024),
    RowsVariant("team", "kept", 1, 4096, 8, 8, 256, KEPT, True),
    RowsVariant("chunks_split8", "streaming", 1, 8192, 16, 8, parts=8),
    RowsVariant("chunks", "streaming", 1, 8192, 16, 8),
    *SINGLE,
    RowsVariant("any", "streaming", 1, 1024, 8, 1),
)
"""The variants in the order of dispatch; the last one takes every shape.

An architecture without clusters has those of one part.
"""


def _bytes_more(rows: Rows) -> int:
    """How many times as many elements a thread has of rows of bytes that are only reduced: as many
    bytes as of others, so that as much is on its way."""
    kinds = [element_bytes(op.result.type.element_type) for op in rows.whole]
    return NARROW if max(kinds, default=2) == 1 and not rows.walks_again else 1


def upright_part(high: int, wide: int, warps: int) -> list[int]:
    """What each of so many warps has of a tile of ``wide`` points of rows that lie side by side."""
    return [high, wide // warps] if wide >= warps else [high * wide // warps, 1]


def fits(rows: Rows, columns: int) -> Assumption:
    """That a row has at most so many elements."""
    return Assumption(Dim.const(columns) - rows.length, ">=")


def are_copied(rows: Rows, vector: int) -> bool:
    """Whether blocks can keep rows that are read in vectors of so many elements: cp.async copies 4
    bytes at least."""
    kinds = [element_bytes(op.result.type.element_type) for op in rows.kept]
    return bool(kinds) and vector * min(kinds) >= COPIED and (vector > 1 or not rows.turned)


def fits_not(rows: Rows, columns: int) -> Assumption:
    """That a row has at least so many elements."""
    return Assumption(rows.length - columns, ">=")


def at_most(rows: Rows, columns: int) -> bool:
    """Whether no row of the region has more elements."""
    kernel = rows.kernel
    return holds_always(fits(rows, columns), kernel.assumptions, kernel.symbol_names)
