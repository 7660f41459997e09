"""What a plan of loops may not be: what a user's own is refused for (S8.2)."""

from __future__ import annotations

from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.checks import shape_text
from polyc.dialects.plan.fields import record_of
from polyc.families.facts import fixed_by, holds_always
from polyc.families.family import bad_plan, refuse_choice
from polyc.families.loops.boxes import find_box
from polyc.families.loops.flat import find_flat
from polyc.families.loops.lines import find_lines
from polyc.families.loops.lines import tile_from as line_tile_from
from polyc.families.loops.partial_sums import Shared, find_shared
from polyc.families.loops.recognise import Loops, split_size
from polyc.families.loops.resampled import find_resampled, is_possible
from polyc.families.loops.resampled_rows import find_resampled_rows
from polyc.families.loops.resampled_rows import is_possible as is_possible_rows
from polyc.families.loops.tiles import turned_names, warp_tile_of
from polyc.families.loops.turned_stores import find_turned_store
from polyc.families.loops.windows import find_window, tile_from
from polyc.families.structure import MOST_PARTS, check_raster


def check_cached(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse a schedule that keeps a tensor in shared memory that is not turned, or whose tile's
    rows, along which that is read, do not split into its vectors."""
    names, rows = turned_names(loops), plan.tile_sizes[0]
    if plan.cached and rows % plan.integer("vectorize"):
        raise bad_plan(
            plan,
            f"turns tiles of {rows} rows, no multiple of its vectors of "
            f"{plan.integer('vectorize')}",
        )
    for name in plan.cached:
        if name not in names:
            turned = f"only {', '.join(names)}" if names else "nothing"
            raise bad_plan(plan, f"keeps {name} in shared memory, where loops turn {turned}")


def check(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse a user's schedule whose tile does not split into its vectors, or has a depth."""
    _, columns, depth = plan.tile_sizes
    if plan.moves_boxes:
        _check_box(loops, plan)
        return
    # What slides along lines is read in vectors, and a thread may store whole lines of any length.
    of_lines = plan.slides_lines or plan.resamples_lines
    if columns % plan.integer("vectorize") and not of_lines:
        raise bad_plan(
            plan,
            f"has tiles of {columns} columns, no multiple of its vectors of "
            f"{plan.integer('vectorize')}",
        )
    check_cached(loops, plan)
    if depth != 1:
        raise bad_plan(plan, f"has a tile of depth {depth}, and loops go step by step; make it 1")
    _check_structure(loops, plan)


def _check_parts(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse parts that go through memory where there are none, or too many."""
    parts, shared = plan.integer("split_k"), find_shared(loops)
    if shared is None:
        why = "stores parts of reductions that each result of the region does not have alike"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    if parts == 1:
        refuse_choice(plan, "algo_choice", "stores parts of sums that are whole", "split_k above 1")
    if parts > MOST_PARTS:
        why = f"cuts the points of a tile into {parts} parts"
        refuse_choice(plan, "split_k", why, f"{MOST_PARTS} or less")
    if plan.tile_sizes[shared.along] < 2:
        what = "columns" if shared.along else "rows"
        raise bad_plan(plan, f"has one of the {what} that part a reduction's points; make it more")
    if plan.flag("persistent"):
        refuse_choice(plan, "split_k", "a persistent kernel does not have", "1")
    if plan.spreads_sums:
        _check_blocks(shared, plan)


def _check_blocks(shared: Shared, plan: ScheduleOp) -> None:
    """Refuse a number of blocks that share all tiles where these may be more."""
    kernel, tiles = shared.loops.kernel, shared.tiles(*plan.tile_sizes[:2])
    known = AssumptionsAttr((*kernel.assumptions.data, *plan.when.data))
    sizes = {name: Dim.const(size) for name, size in fixed_by(known.data).items()}
    enough, there = (
        Assumption(Dim.const(plan.integer("split_k")) - count, ">=")
        for count in (tiles, tiles.substitute(sizes))
    )
    if not any(holds_always(fact, known, kernel.symbol_names) for fact in (enough, there)):
        raise bad_plan(
            plan,
            f"has {plan.integer('split_k')} blocks in all share {tiles} tiles, which may be more; "
            f"say so in when, as in [{enough}]",
        )


def _check_windows(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse windows where none slide along a tile's rows, rows that nothing resamples, or a tile
    that threads do not part."""
    resampled = find_resampled_rows(loops) if plan.resamples_rows else None
    what = "rows are resampled" if plan.resamples_rows else "windows slide"
    if plan.slides_windows and find_window(loops) is None:
        why = "slides windows where no reduction of known size slides along the rows of a tile"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    if plan.resamples_rows and resampled is None:
        why = "resamples rows, where neighbours of a column share nothing that they read"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    if plan.integer("split_k") > 1:
        refuse_choice(plan, "split_k", "tiles of several rows a thread do not have", "1")
    rows, columns, _ = plan.tile_sizes
    tile = tile_from((rows, columns), plan.threads(), plan.integer("vectorize"))
    if tile is None or tile.warp_tile != list(plan.warp_tile_sizes):
        wanted = "vectors of neighbouring rows" if tile is None else shape_text(tile.warp_tile)
        raise bad_plan(
            plan,
            f"gives each of {plan.threads() // plan.target.warp} warps "
            f"{shape_text(plan.warp_tile_sizes)} elements of a tile of {rows}x{columns}, where "
            f"{what} by {wanted} a warp",
        )
    if resampled is not None and not is_possible_rows(resampled, tile):
        raise bad_plan(
            plan,
            f"gives each thread {tile.outputs} rows of a vector of {tile.vector}, where so many "
            "share nothing that they read, or have no registers for it",
        )


def _check_box(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse boxes where nothing is moved in them, and what is not as a box has it."""
    box = find_box(loops, plan.arch.data)
    if box is None:
        why = "moves boxes where axes of the region are not turned, or its lines are long"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    rows, columns, _ = plan.tile_sizes
    vector = plan.integer("vectorize")
    wanted = shape_text([*box.result.tile, 1])
    if [*plan.tile_sizes] != [*box.result.tile, 1]:
        found = shape_text(plan.tile_sizes)
        raise bad_plan(plan, f"has a tile of {found}, where a box of this region is {wanted}")
    if box.vector % vector or rows * columns % (plan.threads() * vector):
        raise bad_plan(
            plan,
            f"has {plan.threads()} threads share a box of {wanted} in vectors of {vector}, which "
            f"lie together in {box.vector} elements at most",
        )
    check_raster(plan)
    for field, taken, there in (
        ("cluster", max(plan.integers("cluster")) > 1, "[1, 1]"),
        ("split_k", plan.integer("split_k") > 1, "1"),
        ("persistent", plan.flag("persistent"), "false"),
    ):
        if taken:
            refuse_choice(plan, field, "movements of boxes do not have", there)


def _check_flat(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse one axis of all points where outputs are not over the same axes of known sizes."""
    if find_flat(loops) is None:
        why = "has all points as one axis, where outputs have unlike axes or open sizes, or share"
        refuse_choice(plan, "algo_choice", f"{why} reductions", '{"loops": "serial"}')
    if plan.tile_sizes[0] > 1 or plan.integer("vectorize") > 1:
        raise bad_plan(
            plan,
            f"has a tile of {plan.tile_sizes[0]} rows in vectors of {plan.integer('vectorize')}, "
            "where all points are one row, each by itself; make both 1",
        )
    if plan.integer("split_k") > 1:
        refuse_choice(plan, "split_k", "tiles of all points do not have", "1")


def _check_turned(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse what is stored turned where it lies as what is read does, or threads part it."""
    if find_turned_store(loops) is None:
        why = "turns what it stores, where that lies as what is read does, or is no one axis of it"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    if plan.integer("split_k") > 1:
        refuse_choice(plan, "split_k", "tiles that are turned do not have", "1")


def _check_lines(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse lines along which no windows slide, or that nothing resamples, or a tile that threads
    do not part."""
    resampled = find_resampled(loops) if plan.resamples_lines else None
    what = "threads resample" if plan.resamples_lines else "windows slide along"
    if plan.slides_lines and find_lines(loops) is None:
        why = "slides windows along lines, where no reduction of known size slides along those"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    if plan.resamples_lines and resampled is None:
        why = "resamples lines, where nothing is read along those but element by element"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    if plan.integer("split_k") > 1:
        refuse_choice(plan, "split_k", "tiles of lines do not have", "1")
    rows, columns, _ = plan.tile_sizes
    tile = line_tile_from((rows, columns), plan.threads())
    if tile is None or tile.warp_tile != list(plan.warp_tile_sizes):
        wanted = "points of one line a thread" if tile is None else shape_text(tile.warp_tile)
        raise bad_plan(
            plan,
            f"gives each of {plan.threads() // plan.target.warp} warps "
            f"{shape_text(plan.warp_tile_sizes)} elements of a tile of {rows}x{columns}, where "
            f"{what} lines by {wanted} a warp",
        )
    if resampled is not None and not is_possible(resampled, tile):
        raise bad_plan(
            plan,
            f"gives each thread {tile.outputs} points of a line, where what they read repeats "
            f"after {resampled.period}, and a thread has few enough of it in registers",
        )


def _check_structure(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse what loops do not have; PolycError ``UnsupportedPlan``."""
    rows, columns, _ = plan.tile_sizes
    if plan.is_flat:
        _check_flat(loops, plan)
    if plan.turns_outputs:
        _check_turned(loops, plan)
    if plan.spreads_sums or "partial_sums" in record_of(plan.algo_choice).values():
        _check_parts(loops, plan)
    elif plan.integer("split_k") > 1:
        if split_size(loops.expanded, (rows, columns)) is None:
            why = "shares reductions that the rows of a tile do not part alike"
            refuse_choice(plan, "split_k", why, "1")
        if plan.flag("persistent"):
            refuse_choice(plan, "split_k", "a persistent kernel does not have", "1")
    if max(plan.integers("cluster")) > 1:
        refuse_choice(plan, "cluster", "loops do not have", "[1, 1]")
    check_raster(plan)
    if plan.slides_windows or plan.resamples_rows:
        _check_windows(loops, plan)
        return
    if plan.slides_lines or plan.resamples_lines:
        _check_lines(loops, plan)
        return
    threads = plan.threads() // plan.target.warp
    if (wanted := warp_tile_of((rows, columns), threads)) != list(plan.warp_tile_sizes):
        raise bad_plan(
            plan,
            f"gives each of {threads} warps {shape_text(plan.warp_tile_sizes)} elements of a tile "
            f"of {rows}x{columns}, where they have {shape_text(wanted)}: whole rows, or like parts",
        )
