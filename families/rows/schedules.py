"""The schedules of a region of rows: what holds a row while it is reduced (S8, S9.3).

A short row is held by some lanes of a warp, a longer one by a warp or a block, in registers, so
that each element is read once.  Rows of any length are walked in chunks, once for each reduction
that needs another one's result, and once for the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import StringAttr

from polyc.cost.device import device_of
from polyc.cost.reductions import H100_ROWS, SharedTile, nanoseconds, reduction_of
from polyc.cost.time import modelled
from polyc.cost.values import Values
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Record, Value
from polyc.dialects.region.types import axes_text
from polyc.families.facts import (
    holds_always,
    left_open,
    pointers_promised,
)
from polyc.families.family import Family, Fields, bad_plan, fitted, refuse_choice
from polyc.families.rows.recognise import Rows, find_rows, row_lengths
from polyc.families.rows.space import space
from polyc.families.rows.variants import (
    BESIDE,
    LANES,
    NARROWER,
    ONCE,
    PANELS,
    SHORTER,
    SINGLE,
    VARIANTS,
    RowsVariant,
    are_copied,
    at_most,
    fits,
    fits_not,
    upright_part,
)
from polyc.families.structure import check_group

SHORTEST = 8
"""Elements of a row that is worth a kernel of rows; shorter ones are a thread's."""

RESIDENT = 8192
"""Elements of a row that a block holds in registers at most."""

EXCHANGED = 4 * 1024
"""Bytes of shared memory that are left to what warps exchange, and to align it."""

WHOLE = (1024, 2048, 4096, 8192)
"""Lengths of rows that are worth kernels of their own, where a reduction needs another's result."""

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
        found = (first, last) if first.vector > 1 else (last,)
        if first.vector == 1 or at_most(rows, LANES):
            return found
        once = replace(ONCE, vector=first.vector)
        count, (_, wide) = cast("int", rows.length.constant()), once.panel(rows)
        return (once, *found) if once.chunks(rows) * wide >= count else found
    if None in lengths and width < 8:
        return tuple(v for v in VARIANTS if v.vector == 1)
    left = [v for v in VARIANTS if v.turns or v.parts <= ARCHS[arch].large_cluster]
    room = ARCHS[arch].shared_bytes - EXCHANGED
    left = [replace(v, kept=min(v.kept, room)) if v.kept else v for v in left]
    if rows.length.constant() is not None:
        left = [v for v in left if v not in (*SHORTER, *NARROWER, *SINGLE)]
    elif rows.chained:
        left = list(_with_whole(left))
    return tuple(replace(v, vector=min(v.vector, width)) for v in left)


def _with_whole(found: Sequence[RowsVariant]) -> Iterator[RowsVariant]:
    """Variants, each that has rows of registers behind one for rows that are as long as its tile.

    Where a reduction needs another one's result, what is beyond a row's end is chosen away in each:
    16384 rows of 4096 take 66 us in a LayerNorm where nothing is, and 70 where it is asked.
    """
    for variant in found:
        if variant.vector > 1 and variant.way == "resident" and variant.columns in WHOLE:
            yield replace(variant, name=f"{variant.name}_whole", whole=True)
        yield variant


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
    if variant.turns and any(element_bytes(op.result.type.element_type) > 4 for op in rows.reads):
        return None  # Of 64 bits threads have no registers for a row that follows another.
    if variant.vector > 1:
        facts += [Assumption(n.mod(variant.vector), "==") for n in row_lengths(rows)]
    if variant.whole:
        facts.append(Assumption(rows.length - variant.columns, "=="))
    elif variant.way == "resident" and not rows.turned:
        facts.append(fits(rows, variant.columns))
    if variant.way == "kept":
        # No vector is read past the end of a tensor: what cp.async copies is whole.
        columns = variant.panel(rows)[1] if rows.turned else variant.columns
        room = variant.parts * variant.chunks(rows) * columns
        if not rows.walks_again or not are_copied(rows, variant.vector):
            return None
        if not rows.turned and room <= RESIDENT:
            return None
        facts.append(fits(rows, room))
    elif variant.turns:
        facts.append(fits_not(rows, variant.parts * variant.panel(rows)[1]))
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
    not one of rows: they are few, or made of what others are made of, as those of a product are,
    whose own family asks for ``made``.
    """
    if not rows.covered:
        axes = axes_text([*rows.outer, rows.row])
        raise rows.refused(f"it reads no tensor over all of {axes}", rows.kernel)
    return made(rows, arch)


def made(rows: Rows, arch: str) -> list[ScheduleOp]:
    """The same of rows that are ``covered`` or not."""
    kernel = rows.kernel
    if not rows.turned and at_most(rows, SHORTEST - 1):
        why = f"its rows have {rows.length} elements, fewer than the {SHORTEST} that threads share"
        raise rows.refused(why, kernel)
    found: list[ScheduleOp] = []
    widest = VARIANTS[0].vector
    every = variants(rows, arch)
    if is_known(rows) and not any(_keeps(rows, arch, v) for v in every):
        # Longer than any of the table: teams of the space may have room for them.
        every = (*_roomiest(rows, arch, every[0].vector), *every)
    for variant in every:
        when = conditions(rows, arch, variant)
        if when is None or variant.vector > widest:
            continue
        found.append(_made(rows, arch, variant, when))
        if variant.way == "kept" and is_known(rows):
            found[-1] = fastest(rows, arch, found[-1])
        if variant.way == "streaming" and is_known(rows):
            found[-1] = fastest_walk(rows, arch, found[-1])
        if not when:
            if pointers_promised(kernel, variant.vector):
                break
            widest = variant.vector - 1
    return found


def _keeps(rows: Rows, arch: str, variant: RowsVariant) -> bool:
    """Whether a variant has rows in registers or in shared memory, and can run."""
    return variant.way != "streaming" and conditions(rows, arch, variant) is not None


def _roomiest(rows: Rows, arch: str, vector: int) -> Iterator[RowsVariant]:
    """One of the space that keeps rows of a known length, if there is one."""
    for variant in space(rows, arch, vector):
        if _keeps(rows, arch, variant):
            yield variant
            return


def held_whole(rows: Rows, arch: str, vector: int) -> list[ScheduleOp]:
    """The schedule that has rows of a known length in the registers of a block, where they are
    longer than those of ``block``; none for others."""
    length = rows.length.constant()
    if length is None or length <= RESIDENT or rows.turned:
        return []
    found = [one for one in space(rows, arch, vector) if one.way == "resident"]
    widest = max(found, key=lambda one: one.warps_a_row, default=None)
    when = None if widest is None else conditions(rows, arch, widest)
    return [] if widest is None or when is None else [_made(rows, arch, widest, when)]


def _made(rows: Rows, arch: str, variant: RowsVariant, when: Sequence[Assumption]) -> ScheduleOp:
    """The schedule of a variant."""
    fields = schedule_fields(rows, arch, variant)
    return fitted(rows.kernel.sym_name.data, variant.name, fields, when)


def is_known(rows: Rows) -> bool:
    """Whether nothing is open that the time of rows depends on."""
    return not rows.kernel.symbol_names


def fastest(rows: Rows, arch: str, plan: ScheduleOp) -> ScheduleOp:
    """Of a schedule that keeps rows of known sizes and its like of the space, the one that takes
    the least time by the model."""
    best, least = plan, modelled(rows.kernel, plan, {}).seconds
    for variant in space(rows, arch, plan.integer("vectorize")):
        if variant.way != "kept" or (when := conditions(rows, arch, variant)) is None:
            continue
        other = _made(rows, arch, variant, when)
        seconds = modelled(rows.kernel, other, {}).seconds
        if seconds < least:
            best, least = other, seconds
    return best


def fastest_walk(rows: Rows, arch: str, plan: ScheduleOp) -> ScheduleOp:
    """Of a schedule that walks once over rows of known sizes, in chunks, and its like of the space,
    the one that takes the least time by the model."""
    if rows.turned or rows.walks_again:
        return plan
    problem = reduction_of(Values(rows.kernel, {}), None)
    if problem is None:
        return plan

    def seconds(variant: RowsVariant) -> float:
        threads = variant.warps_a_row * ARCHS[arch].warp
        tile = SharedTile(1, variant.columns, threads, variant.vector, variant.parts, stored=False)
        return nanoseconds(problem, tile, device_of(arch), H100_ROWS)

    ways = [v for v in space(rows, arch, plan.integer("vectorize")) if v.way == "streaming"]
    return _made(rows, arch, min(ways, key=seconds), plan.when.data) if ways else plan


def others(rows: Rows, arch: str) -> list[tuple[float, ScheduleOp]]:
    """The plans of the space for rows of known sizes, with what the model expects of each in us."""
    kernel, found = rows.kernel, list[tuple[float, ScheduleOp]]()
    if not is_known(rows) or rows.length.constant() is None:
        return found
    widest = variants(rows, arch)[0].vector
    for variant in space(rows, arch, widest):
        parted = variant.way == "streaming" and variant.parts > 1
        when = () if parted else conditions(rows, arch, variant)
        if when is None:
            continue
        try:
            plan = _made(rows, arch, variant, when)
            check(rows, plan)
        except PolycError:
            continue
        found.append((modelled(kernel, plan, {}).seconds * 1e6, plan))
    return sorted(found, key=lambda one: one[0])


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
    if is_upright(rows, plan):
        part = upright_part(height, width, plan.threads() // plan.target.warp)
        if [high, wide] != part:
            raise bad_plan(
                plan,
                f"gives a warp {high}x{wide} elements of a tile of {height}x{width} of rows that "
                f"lie side by side, where it has {part[0]}x{part[1]}",
            )
    elif wide < width and height > 1 and not rows.turned:
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
    parts = plan.integer("split_k")
    walked = rows.turned and plan.takes_turns
    clusters = [(1, 1), (1, parts)] if plan.takes_turns else [(1, 1)]
    there_are = " or ".join(str(list(one)) for one in dict.fromkeys(clusters))
    for field, taken, there in (
        ("cluster", plan.integers("cluster") not in clusters, there_are),
        ("persistent", plan.flag("persistent") and not is_kept(plan) and not walked, "false"),
        ("raster", plan.raster.data != "row", '"row"'),
    ):
        if taken:
            refuse_choice(plan, field, "region-to-gpu does not build for rows", there)
    if plan.loader.data != "register" and not is_kept(plan):
        refuse_choice(plan, "loader", "is for rows that are kept", '"register"')
    check_group(plan)
    if plan.meets_in_memory and parts > plan.threads():
        refuse_choice(plan, "split_k", f"lets {parts} blocks tell what a thread each hears", "less")
    if plan.integer("split_k") > 1:
        if is_resident(plan):
            refuse_choice(plan, "split_k", "a kernel that keeps rows does not have", "1")
        if plan.tile_sizes[0] > 1 and not rows.turned:
            refuse_choice(plan, "split_k", "shares one row, and its tile has several", "1")


ROWS = Family("rows", find_rows, schedules, check, restated, contracts=False)
"""Reductions along one innermost axis, with what is computed before, between and after them."""
