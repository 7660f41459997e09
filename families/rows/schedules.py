"""The schedules of a region of rows: what holds a row while it is reduced (S8, S9.3).

A short row is held by some lanes of a warp, a longer one by a warp or a block, in registers, so
that each element is read once.  Rows of any length are walked in chunks, once for each reduction
that needs another one's result, and once for the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import StringAttr

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Record, Value
from polyc.families.facts import (
    holds_always,
    left_open,
    pointers_promised,
    power_of_two,
)
from polyc.families.family import Family, Fields, bad_plan, fitted, refuse_choice
from polyc.families.rows.recognise import Rows, find_rows, row_lengths
from polyc.families.structure import check_group


@dataclass(frozen=True)
class RowsVariant:
    """A way to hold a row.

    ``vector`` elements of it are read at once, so that all rows in memory are multiples of these.
    ``rows`` are those of a tile, where a warp does not take several.  A cluster of ``parts`` blocks
    takes the chunks of a row in turn.  A way that keeps rows has ``kept`` bytes for them in a
    block's shared memory.  With ``turns`` a block keeps one row after another, of which
    ``stages`` are there or on their way, and the parts of a row are blocks anywhere on the chip.
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
        columns, warps = self.columns, self.warps_a_row
        height = taken = 1
        known = rows.length.constant() if self.way == "resident" else None
        busy = 2 * BUSY if rows.chained else BUSY
        fits = known or (columns if self.name in {v.name for v in NARROWER} else None)
        while fits is not None and warps > 1 and 2 * fits <= busy * WARP * warps:
            warps //= 2
        least = warps * WARP * self.vector
        if known is not None:
            columns = min(columns, max(1, -(-known // least)) * least)
            if warps == 1:
                whole = self.vector * power_of_two(-(-known // self.vector))
                columns = min(columns, whole if rows.outer else max(whole, WARP))
        while self.way == "resident" and columns > least and _at_most(rows, columns // 2):
            columns //= 2
        if rows.outer:
            held = HELD if rows.walks_again else 2 * HELD
            taken = max(1, WARP * held // columns) if warps == 1 else 1
            if (count := rows.outer[-1].size.constant()) is not None:
                taken = min(taken, power_of_two(-(-count // self.rows)))
            taken = max(taken, WARP // columns)
            height = self.rows * taken
        return {
            "tile": [height, columns, self.chunks(rows)],
            "warp_tile": [taken, columns // warps],
            "vectorize": self.vector,
            "split_k": self.parts,
            "persistent": self.turns,
        }

    def _upright(self, rows: Rows) -> Mapping[str, Value]:
        """The same of rows that lie side by side, a chunk of points after another."""
        high, wide = self.panel(rows)
        warps = self.warps_a_row
        return {
            "tile": [high, wide, self.chunks(rows)],
            "warp_tile": [high, wide // warps] if wide >= warps else [high * wide // warps, 1],
            "vectorize": self.vector,
            "split_k": self.parts,
            "persistent": self.turns,
        }

    def _turned(self, rows: Rows) -> Mapping[str, Value]:
        """The same of rows that lie side by side: a thread has vectors of neighbours in memory, and
        its block all points of as many rows as its registers hold."""
        count, beside = cast("int", rows.length.constant()), rows.column.size.constant()
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

PANEL_VECTORS = 2
"""Vectors that a thread has of a chunk of rows that lie side by side."""

TURNED_WARPS = 8
"""Of a block with rows that lie side by side, of as many points at most:"""
TURNED_POINTS = 512
TURNED_ROWS = 512
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

SHORTEST = 8
"""Elements of a row that is worth a kernel of rows; shorter ones are a thread's."""

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
    RowsVariant("warp_256", "resident", 4, 256, 1, 8),
    RowsVariant("warp_512", "resident", 4, 512, 1, 8),
)
"""Before ``warp``, for short rows of open lengths: eight lanes have a row of at most 64 elements,
and a warp one of 256 in a vector a lane, or of 512 in two, where ``warp`` would compute 1024."""

RESIDENT = 8192
"""Elements of a row that a block holds in registers at most."""

MOST = 220 * 1024
"""Bytes of shared memory that a block keeps rows in where it has a multiprocessor for itself, or
what an architecture leaves of it: some are for what warps exchange."""

EXCHANGED = 4 * 1024
"""Bytes of shared memory that are left to what warps exchange, and to align it."""

KEPT = 40 * 1024
"""Bytes of a block that keeps one row after another: five of them find room."""

BESIDE = (
    RowsVariant("beside", "resident", 1, 0, 1, 8),
    RowsVariant("beside_any", "resident", 1, 0, 1, 1),
)
"""For rows that lie side by side, of few known points."""

PANELS = (
    RowsVariant("panel", "kept", 64, 0, 8, 8, kept=KEPT, turns=True),
    RowsVariant("panel_team8", "kept", 64, 0, 8, 8, 8, KEPT, True),
    RowsVariant("panel_team32", "kept", 64, 0, 8, 8, 32, KEPT, True),
    RowsVariant("panel_team128", "kept", 64, 0, 8, 8, 128, KEPT, True),
    RowsVariant("panel_most_team128", "kept", 64, 0, 8, 8, 128, MOST // 2, True),
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
    RowsVariant("team64", "kept", 1, 4096, 8, 8, 64, KEPT, True),
    RowsVariant("team256", "kept", 1, 4096, 8, 8, 256, KEPT, True),
    RowsVariant("chunks_split8", "streaming", 1, 8192, 16, 8, parts=8),
    RowsVariant("chunks", "streaming", 1, 8192, 16, 8),
    RowsVariant("any", "streaming", 1, 1024, 8, 1),
)
"""The variants in the order of dispatch; the last one takes every shape.

An architecture without clusters has those of one part.
"""

IDLE = 2
"""Rows are few where blocks of their own leave this part of the chip idle, one half: 100 rows of
65536 take 25 us so and 29 in clusters, 32 of 2**20 take 366 and 116 (softmax, H200)."""


def variants(rows: Rows, arch: str) -> tuple[RowsVariant, ...]:
    """The variants for a region, with the widest vectors that divide rows of known lengths."""
    lengths = [length.constant() for length in row_lengths(rows)]
    width = next(w for w in (8, 4, 2, 1) if all(n is None or n % w == 0 for n in lengths))
    if rows.turned:
        first, last = BESIDE
        known = {rows.row.label, *(axis.label for axis in rows.outer)}
        kinds = [op.result.type for op in rows.reads if set(op.result.type.labels) == known]
        widest = 16 // max(element_bytes(t.element_type) for t in (*rows.kernel.seen, *kinds))
        if not rows.is_short:
            return _panels(arch, min(8, width, widest))
        first = replace(first, vector=min(first.vector, width, widest))
        return (first, last) if first.vector > 1 else (last,)
    if None in lengths and width < 8:
        return VARIANTS[-1:]
    left = [v for v in VARIANTS if v.turns or v.parts <= ARCHS[arch].large_cluster]
    room = ARCHS[arch].shared_bytes - EXCHANGED
    left = [replace(v, kept=min(v.kept, room)) if v.kept else v for v in left]
    if rows.length.constant() is not None:
        left = [v for v in left if v not in (*SHORTER, *NARROWER)]
    return tuple(replace(v, vector=min(v.vector, width)) for v in left)


def _panels(arch: str, vector: int) -> tuple[RowsVariant, ...]:
    """The same for rows that lie side by side, of many points or of any number."""
    room = ARCHS[arch].shared_bytes - EXCHANGED
    found = [
        replace(v, vector=min(v.vector, vector), kept=min(v.kept, room))
        for v in PANELS
        if vector > 1 or v.vector == 1
    ]
    return tuple(v for v in found if v.turns or v.parts <= ARCHS[arch].large_cluster)


def conditions(rows: Rows, arch: str, variant: RowsVariant) -> tuple[Assumption, ...] | None:
    """What a variant needs beyond the assumptions, or None when it can never run."""
    facts: list[Assumption] = []
    if variant.vector > 1:
        facts += [Assumption(n.mod(variant.vector), "==") for n in row_lengths(rows)]
    if variant.way == "resident" and not rows.turned:
        facts.append(fits(rows, variant.columns))
    if variant.way == "kept":
        # No vector is read past the end of a tensor: what cp.async copies is whole.
        columns = variant.panel(rows)[1] if rows.turned else variant.columns
        room = variant.parts * variant.chunks(rows) * columns
        if not rows.kept or not rows.walks_again or variant.vector < 2:
            return None
        if not rows.turned and room <= RESIDENT:
            return None
        facts.append(fits(rows, room))
    elif variant.parts > 1:
        # Rows that leave half of the chip idle, and a chunk for each block.
        sizes = [axis.size for axis in rows.outer]
        if rows.turned:
            sizes[-1] = sizes[-1].ceildiv(variant.panel(rows)[0])
        count = prod(sizes, start=Dim.const(1))
        columns = variant.panel(rows)[1] if rows.turned else variant.columns
        facts.append(Assumption(Dim.const(ARCHS[arch].multiprocessors // IDLE) - count, ">="))
        facts.append(Assumption(rows.length - variant.parts * columns, ">="))
    return left_open(rows.kernel, list(dict.fromkeys(facts)))


def fits(rows: Rows, columns: int) -> Assumption:
    """That a row has at most so many elements."""
    return Assumption(Dim.const(columns) - rows.length, ">=")


def _at_most(rows: Rows, columns: int) -> bool:
    """Whether no row of the region has more elements."""
    kernel = rows.kernel
    return holds_always(fits(rows, columns), kernel.assumptions, kernel.symbol_names)


def _tails(rows: Rows, tile: Sequence[int]) -> list[str]:
    """The axes whose size need not be a multiple of their tile."""
    kernel, found = rows.kernel, [(rows.row, tile[1])]
    if rows.outer:
        found.insert(0, (rows.outer[-1], tile[0]))
    return [
        axis.label
        for axis, step in found
        if not holds_always(
            Assumption(axis.size.mod(step), "=="), kernel.assumptions, kernel.symbol_names
        )
    ]


def schedule_fields(rows: Rows, arch: str, variant: RowsVariant) -> Fields:
    """Every field of a variant's schedule for these rows."""
    chosen: Fields = {
        **variant.fields(rows),
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "cp_async" if variant.way == "kept" else "register",
        "stages": variant.stages,
        "algo_choice": {"rows": variant.way},
    }
    return {**chosen, **restated(rows, chosen)}


def restated(rows: Rows, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the rows and a schedule's other ``fields``."""
    tile, taken = (cast("list[int]", fields[name]) for name in ("tile", "warp_tile"))
    record = cast("Record", fields["algo_choice"])
    bind: dict[str, bool | int | str] = {axis.label: "block.x" for axis in rows.outer[:-1]}
    if rows.outer:
        inner = rows.outer[-1].label
        shared = tile[0] > taken[0] or rows.turned
        bind[f"{inner}.o" if shared else inner] = "block.x"
        if shared and not rows.turned:
            bind[f"{inner}.i"] = "warp"
    return {
        "vectorize_axis": f"{rows.column.label}.i",
        "bind": bind,
        "cache": _kept(rows) if record.get("rows") == "kept" else [],
        "predicate_tail": _tails(rows, tile),
    }


def _kept(rows: Rows) -> list[Record]:
    """What ``cache`` says of the tensors whose rows a block keeps in shared memory."""
    return [
        {
            "tensor": rows.kernel.name_of(op.tensor),
            "where": "smem",
            "at": f"{rows.row.label}.o",
            "bytes": element_bytes(op.result.type.element_type),
        }
        for op in rows.kept
    ]


def schedules(rows: Rows, arch: str) -> list[ScheduleOp]:
    """The schedules of a region of rows, in order of dispatch.

    A condition that the assumptions imply is dropped; a variant that they exclude is not emitted,
    nor is one of as wide vectors after a variant without conditions on sizes, nor any after one
    that has none on addresses either.  Raises PolycError ``UnsupportedProgram`` where the region is
    not one of rows.
    """
    kernel = rows.kernel
    if _at_most(rows, SHORTEST - 1):
        why = f"its rows have {rows.length} elements, fewer than the {SHORTEST} that threads share"
        raise rows.refused(why, kernel)
    found: list[ScheduleOp] = []
    widest = VARIANTS[0].vector
    for variant in variants(rows, arch):
        when = conditions(rows, arch, variant)
        if when is None or variant.vector > widest:
            continue
        fields = schedule_fields(rows, arch, variant)
        found.append(fitted(kernel.sym_name.data, variant.name, fields, when))
        if not when:
            if pointers_promised(kernel, variant.vector):
                break
            widest = variant.vector - 1
    return found


def known_sizes(rows: Rows, plan: ScheduleOp) -> AssumptionsAttr:
    """What is known of the sizes where a schedule's kernel runs."""
    return AssumptionsAttr((*rows.kernel.assumptions.data, *plan.when.data))


def check(rows: Rows, plan: ScheduleOp) -> None:
    """Refuse a user's schedule whose tile does not hold the row that it says it holds."""
    kernel = rows.kernel
    if plan.mma.data != "none":
        raise bad_plan(plan, "is for tensor cores, and rows have mma none")
    if not rows.outer and plan.tile_sizes[0] > 1:
        raise bad_plan(plan, f"has a tile of {plan.tile_sizes[0]} rows, and the region has one")
    if (depth := plan.tile_sizes[2]) != 1 and not is_kept(plan):
        raise bad_plan(plan, f"has a tile of depth {depth}, and rows have none; make it 1")
    (height, width, _), (high, wide) = plan.tile_sizes, plan.warp_tile_sizes
    if rows.turned:
        _check_turned(plan)
    elif wide < width and height > 1:
        raise bad_plan(
            plan,
            f"gives a warp {high}x{wide} elements of a tile of {height}x{width}; a warp has whole "
            "rows, or a part of a tile of one row",
        )
    _check_structure(rows, plan)
    parts, whole = plan.integer("split_k"), plan.tile_sizes[1] * plan.tile_sizes[2]
    held = fits(rows, parts * whole)
    if is_kept(plan):
        _check_kept(rows, plan)
    keeps = is_resident(plan) or is_kept(plan)
    if keeps and not holds_always(held, known_sizes(rows, plan), kernel.symbol_names):
        raise bad_plan(
            plan,
            f"keeps a row of {rows.length} in a tile of {parts * whole} columns; add "
            f'"{held}" to its when, or choose streaming',
        )


def is_resident(plan: ScheduleOp) -> bool:
    """Whether a tile has rows whole."""
    return plan.algo_choice.data["rows"] == StringAttr("resident")


def is_upright(rows: Rows, plan: ScheduleOp) -> bool:
    """Whether a tile has a chunk of the points of rows that lie side by side: as in memory, its own
    rows are points."""
    return rows.turned and not is_resident(plan)


def is_kept(plan: ScheduleOp) -> bool:
    """Whether blocks keep rows in shared memory."""
    return plan.keeps_rows


def _check_kept(rows: Rows, plan: ScheduleOp) -> None:
    """Refuse to keep what there is not, or in chunks that threads do not share evenly."""
    if not rows.kept:
        raise bad_plan(plan, "keeps rows, and no tensor has a row of its own for each; stream them")
    if plan.tile_sizes[0] > 1 and not rows.turned:
        raise bad_plan(plan, f"keeps {plan.tile_sizes[0]} rows a tile; a block keeps one")
    if plan.loader.data != "cp_async":
        raise bad_plan(plan, f"keeps rows by loader {plan.loader.data}; it is cp_async")
    lanes = plan.threads() * plan.integer("vectorize")
    if plan.tile_sizes[1] % lanes and not rows.turned:
        raise bad_plan(
            plan,
            f"keeps chunks of {plan.tile_sizes[1]} elements, and {plan.threads()} threads take "
            f"{lanes} at once; make it a multiple",
        )


def down_of(plan: ScheduleOp) -> int:
    """How many points of rows that lie side by side the threads of a block have at once."""
    return plan.threads() * plan.integer("vectorize") // plan.tile_sizes[0]


def _check_turned(plan: ScheduleOp) -> None:
    """Refuse a tile of rows that lie side by side which threads do not share evenly."""
    (height, width, _), vector, threads = plan.tile_sizes, plan.integer("vectorize"), plan.threads()
    down = down_of(plan)
    if height % vector or down < 1 or down * height != threads * vector or width % down:
        raise bad_plan(
            plan,
            f"has {threads} threads with vectors of {vector} share a tile of {height} rows of "
            f"{width} points evenly, which they cannot",
        )


def _check_structure(rows: Rows, plan: ScheduleOp) -> None:
    """Refuse what kernels of rows do not have; PolycError ``UnsupportedPlan``."""
    for field, taken, there in (
        ("cluster", plan.integers("cluster") != (1, 1), "[1, 1]"),
        ("persistent", plan.flag("persistent") and not is_kept(plan), "false"),
        ("raster", plan.raster.data != "row", '"row"'),
    ):
        if taken:
            refuse_choice(plan, field, "region-to-gpu does not build for rows", there)
    if plan.loader.data != "register" and not is_kept(plan):
        refuse_choice(plan, "loader", "is for rows that are kept", '"register"')
    check_group(plan)
    if plan.takes_turns and (parts := plan.integer("split_k")) > plan.threads():
        refuse_choice(plan, "split_k", f"lets {parts} blocks tell what a thread each hears", "less")
    if plan.integer("split_k") > 1:
        if is_resident(plan):
            refuse_choice(plan, "split_k", "a kernel that keeps rows does not have", "1")
        if plan.tile_sizes[0] > 1 and not rows.turned:
            refuse_choice(plan, "split_k", "shares one row, and its tile has several", "1")


ROWS = Family("rows", find_rows, schedules, check, restated, contracts=False)
"""Reductions along one innermost axis, with what is computed before, between and after them."""
