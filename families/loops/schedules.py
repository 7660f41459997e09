"""The schedules of any region, as loops of threads that compute alone (S8, S9.3).

The last family: it takes what no other one does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import gcd, prod
from typing import cast

from polyc.cost.reductions import SharedTile
from polyc.cost.time import TYPICAL, modelled, takes
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import SPREAD_SUMS, Record, Value
from polyc.dialects.region import KernelOp
from polyc.dialects.region.types import MemRefType
from polyc.families.facts import holds_always, left_open, pointers_promised
from polyc.families.family import Family, Fields, check_schedule
from polyc.families.loops.boxes import Box, find_box
from polyc.families.loops.checks import check
from polyc.families.loops.flat import SHORT, find_flat, points_of
from polyc.families.loops.lines import LineTile, best, find_lines, stored_vector
from polyc.families.loops.open_space import improved
from polyc.families.loops.partial_sums import (
    Shared,
    Way,
    find_shared,
    vectors,
    ways,
    whole_rows,
)
from polyc.families.loops.recognise import (
    Loops,
    find_loops,
    line_of,
    reductions_in,
    split_size,
    type_of,
)
from polyc.families.loops.resampled import Brought, find_resampled
from polyc.families.loops.resampled import best as best_resampled
from polyc.families.loops.resampled_rows import find_resampled_rows
from polyc.families.loops.resampled_rows import tiles as resampled_tiles
from polyc.families.loops.shared_space import ranked as ranked_tiles
from polyc.families.loops.tiles import (
    VECTOR,
    WARPS,
    deepest,
    flat_points,
    reduces_alone,
    tile_of,
    turned_names,
    vector_of,
    warp_tile_of,
)
from polyc.families.loops.turned_stores import TurnedStore, find_turned_store
from polyc.families.loops.turned_stores import tile_of as turned_tile
from polyc.families.loops.turned_stores import vector_of as turned_vector
from polyc.families.loops.turned_stores import warps_of as turned_warps
from polyc.families.loops.windows import WindowTile, find_window, ranked
from polyc.families.loops.windows import facts as window_facts

SPLIT = 8
"""Blocks of a cluster that share the reductions of a tile, where there are few tiles."""
WIDE = 128
"""Columns of one where there are many."""
FILLED = 3
"""Blocks of each multiprocessor that such tiles give it."""
FEW = 64
"""Points of a column at most that a thread reduces alone, where there are columns for all."""
LONG = 2
"""Steps that each of them has at least."""
NEAR = 1.1
"""How many times the least modelled time fewer rows of a thread may take: where memory is busy, as
behind a nearest resize, more of them save nothing (an H100 takes 114.9, 115.4 and 116.3 us of f32
for one, two and four rows), and for a linear one four are as fast as eight (115.0 and 115.9)."""
WORTH = 0.9
"""Of the time with vectors, what that with elements is at most to be taken."""
ALL_POINTS = ("flat", "turned")
"""The ways of loops whose tiles are of axes that are one."""
OF_LINES = ("lines", "resampled")
"""The ways of loops whose tiles are of lines: the axes outside of these are one axis."""


def schedules(loops: Loops, arch: str) -> list[ScheduleOp]:
    """One schedule whose accesses are vectors, where rows are whole ones, and one for all sizes.

    A thread that reduces alone has more to do with a vector: there are to be enough of them.
    """
    if ranked := fastest(loops, arch):
        return ranked
    found = _in_order(loops, arch)
    found = _turned(loops, arch, found) or found
    if (shared := opened(loops)) is None:
        return found
    return improved(shared, arch, found, partial(shared_schedule, loops, arch))


def opened(loops: Loops) -> Shared | None:
    """The reductions that blocks may share of a region of open sizes, or None."""
    return find_shared(loops) if loops.kernel.symbol_names else None


def _in_order(loops: Loops, arch: str) -> list[ScheduleOp]:
    """The schedules by the rules of the family."""
    kernel, alone = loops.kernel, reduces_alone(loops)
    parted = list(_in_parts(loops, arch))
    # Of known sizes one of a single block would take them all, and the model is to compare.
    first = [p for p in parted if not kernel.symbol_names or p.integer("vectorize") > 1]
    found = list(first)
    tensors = [out.shape for out in kernel.outs if out.shape]
    beside = [op for op in loops.turned if line_of(op)[1] == 1]
    tensors += [cast("MemRefType", op.tensor.type).shape for op in beside]
    rows = dict.fromkeys(shape[-1] for shape in tensors)
    for name, widest in (("boxes", VECTOR), ("boxes_any", 1)):
        box = find_box(loops, arch, widest)
        if box is not None and (when := left_open(kernel, box.facts)) is not None:
            found.append(_schedule(loops, arch, False, name, box.vector, when, box=box))
            if not when and pointers_promised(kernel, found[-1].widest):
                return found
    # Every vector divides a row of 0 elements, and a tile of that has no room for one.
    empty = any(row.constant() == 0 for row in rows)
    for plan in () if empty else (_lines(loops, arch), _resampled(loops, arch)):
        if plan is not None:
            found.append(plan)
            if not plan.when.data and pointers_promised(kernel, plan.widest):
                return found
    vector = 1 if empty else vector_of(loops)
    while vector > 1:
        facts = [Assumption(row.mod(vector), "==") for row in rows]
        slid = list(_windows(loops, arch, vector, facts))
        found += slid
        if slid and not slid[-1].when.data and pointers_promised(kernel, slid[-1].widest):
            return found
        if loops.reductions and alone:
            threads = ARCHS[arch].multiprocessors * WARPS * ARCHS[arch].warp
            points = prod(loops.spaces[0].sizes, start=Dim.const(1))
            facts.append(Assumption(points - threads * vector, ">="))
        if (few := _few(loops, arch, vector, facts)) is not None:
            found.append(few)
            if not few.when.data and pointers_promised(kernel, few.widest):
                return found
        if (wide := _wide(loops, arch, vector, facts)) is not None:
            found.append(wide)
            if not wide.when.data and pointers_promised(kernel, wide.widest):
                return found
        when = left_open(kernel, facts)
        if when is not None:
            whole = _schedule(loops, arch, not alone, "vector", vector, when)
            if alone and _is_torn(loops, arch, whole):
                break
            rows = _resampled_rows(loops, arch, whole, when)
            found += [*_split(loops, whole, facts), whole] if rows is None else [rows]
            break
        vector //= 2  # known rows may be multiples of fewer
    found += _rows(loops, arch)
    found += [plan for plan in parted if plan not in first]
    found.append(_schedule(loops, arch, not alone, "scalar", 1, ()))
    if len(found) > 1 and not _are_idle(loops, found):
        return found
    flat = _flat(loops, arch, found[0])
    return found if flat is None else [flat]


def _are_idle(loops: Loops, found: Sequence[ScheduleOp]) -> bool:
    """Whether of the first plan's threads most have nothing of a tile, and its reductions are
    short."""
    if any(points_of(reduce) > SHORT for reduce in reductions_in(loops.values)):
        return False
    first, *_ = found
    return prod(first.tile_sizes) // first.integer("vectorize") <= first.threads() // 2


def _flat(loops: Loops, arch: str, other: ScheduleOp) -> ScheduleOp | None:
    """A schedule whose blocks have points of all axes, where the model has it for faster than
    the ``other``, whose tile runs along two of them."""
    if loops.kernel.symbol_names or find_flat(loops) is None:
        return None
    points = prod(size.constant() or 1 for size in type_of(loops.values[0]).shape)
    tile = 1, flat_points(loops, arch, points)
    plan = _schedule(loops, arch, False, "flat", 1, (), tile=tile, algorithm="flat")
    sizes = dict[str, int]()
    times = [modelled(loops.kernel, one, sizes).seconds for one in (plan, other)]
    return plan if times[0] < times[1] else None


def _turned(loops: Loops, arch: str, others: Sequence[ScheduleOp]) -> list[ScheduleOp]:
    """Schedules whose outputs are turned on their way to memory, where the model has them for
    faster than the ``others``; none where it does not.

    The first reads whole vectors; the second, where addresses may not be multiples of these, does
    not.
    """
    found = find_turned_store(loops)
    if found is None:
        return []
    vectors = any(plan.widest > 1 for plan in others)
    if set(found.reads) <= set(loops.turned) and vectors and (found.is_whole or not found.is_plain):
        return []
    if any(plan.moves_boxes for plan in others):
        return []
    kernel, widest = loops.kernel, turned_vector(found)
    plans: list[ScheduleOp] = []
    for vector in dict.fromkeys((widest, 1)):
        name = "turned" if vector > 1 else "turned_any"
        plans.append(
            _schedule(
                loops, arch, False, name, vector, (), tile=turned_tile(found), algorithm="turned"
            )
        )
        if pointers_promised(kernel, plans[-1].widest):
            break
    sizes = dict.fromkeys(kernel.symbol_names, TYPICAL)
    mine = modelled(kernel, plans[0], sizes).seconds
    theirs = [modelled(kernel, one, sizes).seconds for one in others if takes(one, sizes)]
    return plans if mine < min(theirs, default=float("inf")) else []


def _rows(loops: Loops, arch: str) -> Iterator[ScheduleOp]:
    """A schedule whose warps have a row each, in vectors, where other families take none."""
    shared = find_shared(loops)
    way = None if shared is None else whole_rows(shared)
    if way is not None:
        when, tile = left_open(loops.kernel, way.facts), (way.rows, way.columns)
        assert when is not None
        yield _schedule(loops, arch, True, "vector_rows", way.vector, when, tile=tile)


def _windows(
    loops: Loops, arch: str, vector: int, facts: Sequence[Assumption]
) -> Iterator[ScheduleOp]:
    """Schedules whose threads have neighbouring outputs, the best by the model of time first; those
    of fewer outputs are for where there are fewer."""
    window = find_window(loops)
    if window is None or vector == 1:
        return
    before: int | None = None
    for tile in ranked(window, vector, arch):
        if before is not None and tile.outputs > before:
            continue
        before = tile.outputs
        when = left_open(loops.kernel, [*facts, *window_facts(window, tile, arch)])
        if when is None:
            continue
        name = f"window_{tile.outputs}"
        yield _schedule(loops, arch, False, name, vector, when, window=tile, algorithm="windows")
        if not when:
            return


def _lines(loops: Loops, arch: str) -> ScheduleOp | None:
    """A schedule whose windows slide along lines."""
    lines = find_lines(loops)
    tile = None if lines is None else best(lines, arch, loops.values)
    if lines is None or tile is None:
        return None
    slid = [tile.vector(one) for part in lines.every for one in part.sliding]
    widest = max(stored_vector(lines.line, loops.values), *slid)
    name = f"line_{tile.outputs}"
    return _schedule(loops, arch, False, name, widest, (), lines=tile)


def _resampled(loops: Loops, arch: str) -> ScheduleOp | None:
    """A schedule whose threads bring what neighbours of a line read, and know where each is."""
    found = find_resampled(loops)
    tile = None if found is None else best_resampled(loops, found, arch)
    if found is None or tile is None:
        return None
    vectors = [Brought.of(one, tile).vector for one in found.resamples]
    widest = max(gcd(stored_vector(found.line, loops.values), tile.outputs), *vectors)
    name = f"resampled_{tile.outputs}"
    return _schedule(loops, arch, False, name, widest, (), lines=tile, algorithm="resampled")


def _resampled_rows(
    loops: Loops, arch: str, other: ScheduleOp, when: Sequence[Assumption]
) -> ScheduleOp | None:
    """A schedule whose threads have neighbouring rows, which share what they read, the one of the
    fewest that the model of time finds ``NEAR`` the fastest; None where the ``other`` is that,
    which reads each by itself."""
    found, vector = find_resampled_rows(loops), other.integer("vectorize")
    if found is None:
        return None
    plans = [other]
    for tile in resampled_tiles(found, vector):
        name = f"rows_{tile.outputs}"
        plan = _schedule(
            loops, arch, False, name, vector, when, window=tile, algorithm="resampled_rows"
        )
        plans.append(plan)
    sizes = dict.fromkeys(loops.kernel.symbol_names, TYPICAL)
    times = [modelled(loops.kernel, plan, sizes).seconds for plan in plans]
    best = next(p for p, time in zip(plans, times, strict=True) if time <= NEAR * min(times))
    return None if best is other else best


def _is_torn(loops: Loops, arch: str, whole: ScheduleOp) -> bool:
    """Whether threads that reduce alone take less time with elements than with vectors, by the
    model of time: windows that slide along the columns begin at none of these."""
    if not loops.reductions or loops.kernel.symbol_names:
        return False
    alone = _schedule(loops, arch, False, "scalar", 1, ())
    vector, scalar = (modelled(loops.kernel, plan, {}).seconds for plan in (whole, alone))
    return scalar < WORTH * vector


def _few(loops: Loops, arch: str, vector: int, facts: Sequence[Assumption]) -> ScheduleOp | None:
    """A schedule for columns of few points, and many of them: a thread reduces its own alone.

    Parts of so short columns would leave threads without a point.
    """
    (space, *others) = loops.spaces
    deep = deepest(loops)
    if others or not loops.reductions or space.row is not None or space.column is None:
        return None
    if space.walked or any(len(reduce.labels) > 1 for reduce in loops.reductions):
        return None
    points = prod(space.sizes, start=Dim.const(1))
    threads = ARCHS[arch].multiprocessors * WARPS * ARCHS[arch].warp
    many = Assumption(points - threads * vector, ">=")
    short = Assumption(Dim.const(FEW) - deep, ">=")
    when = left_open(loops.kernel, [*facts, short, many])
    return None if when is None else _schedule(loops, arch, False, "vector_few", vector, when)


def _wide(loops: Loops, arch: str, vector: int, facts: Sequence[Assumption]) -> ScheduleOp | None:
    """A schedule for many columns of many points: tiles are wide, and there is one for each block
    that finds room, or nearly so."""
    (space, *others) = loops.spaces
    if others or not loops.reductions or space.row is not None or space.column is None:
        return None
    if space.walked or reduces_alone(loops):
        return None
    rows, columns = tile_of(loops, arch, True, vector, WIDE)
    *outer, last = space.sizes
    tiles = prod(outer, start=last.ceildiv(columns))
    many = Assumption(tiles - ARCHS[arch].multiprocessors * FILLED, ">=")
    when = left_open(loops.kernel, [*facts, many, Assumption(deepest(loops) - rows, ">=")])
    if when is None:
        return None
    return _schedule(loops, arch, True, "vector_wide", vector, when, tile=(rows, columns))


def _in_parts(loops: Loops, arch: str) -> Iterator[ScheduleOp]:
    """The schedules whose reductions any number of blocks share, by way of memory."""
    shared = find_shared(loops)
    for way in [] if shared is None else ways(shared, arch):
        when = left_open(loops.kernel, way.facts)
        assert when is not None
        yield _schedule(loops, arch, True, way.name, way.vector, when, way)


def _split(loops: Loops, whole: ScheduleOp, facts: Sequence[Assumption]) -> Iterator[ScheduleOp]:
    """A schedule's like whose clusters share each tile's reductions, for few tiles of long ones."""
    kernel, chip = loops.kernel, ARCHS[whole.arch.data]
    rows, columns, _ = whole.tile_sizes
    size = split_size(loops.expanded, (rows, columns))
    if chip.cluster < SPLIT or size is None:
        return
    (space,) = loops.spaces
    tiles = prod(space.sizes[:-1], start=space.sizes[-1].ceildiv(columns))
    few = Assumption(Dim.const(chip.multiprocessors // 2) - tiles, ">=")
    long = Assumption(size - SPLIT * LONG * rows, ">=")
    when = left_open(kernel, [*facts, few, long])
    if when is not None:
        fields = {**whole.fields(), "split_k": SPLIT}
        yield ScheduleOp(kernel.sym_name.data, f"{whole.variant.data}_split{SPLIT}", fields, when)


def _schedule(
    loops: Loops,
    arch: str,
    parts: bool,
    variant: str,
    vector: int,
    when: Sequence[Assumption],
    way: Way | None = None,
    tile: tuple[int, int] | None = None,
    window: WindowTile | None = None,
    lines: LineTile | None = None,
    box: Box | None = None,
    algorithm: str = "lines",
) -> ScheduleOp:
    """A schedule of the family; the tile and what a warp has of it follow where none is given.

    ``algorithm`` is that of ``lines``, of a ``window`` or of a tile of all points.
    """
    slid = window or lines
    if box is not None:
        tile, algorithm = box.result.tile, "boxes"
    elif slid is not None:
        tile = slid.rows, slid.columns
    elif algorithm not in ALL_POINTS:
        algorithm = "serial" if way is None else "partial_sums"
    if tile is None:
        tile = tile_of(loops, arch, parts, vector) if way is None else (way.rows, way.columns)
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [*tile, 1],
        "stages": 1,
        "warp_tile": _warp_tile(tile, arch, slid, box)
        if algorithm != "turned"
        else warp_tile_of(tile, turned_warps(tile, vector)),
        "vectorize": vector,
        "split_k": 1 if way is None else way.parts,
        "algo_choice": {"loops": algorithm},
        "cache": _cached(loops, turned_names(loops)) if box is None else [box.cached],
    }
    name = loops.kernel.sym_name.data
    op = ScheduleOp(name, variant, {**chosen, **restated(loops, chosen)}, when)
    check_schedule(op)
    return op


def shared_schedule(
    loops: Loops, arch: str, plan: SharedTile, when: Sequence[Assumption] = (), number: int = 1
) -> ScheduleOp:
    """The schedule of a tile whose threads part the points of a reduction, the first that a region
    has, or of that number."""
    tile, warps = (plan.rows, plan.columns), plan.threads // ARCHS[arch].warp
    stored = plan.parts > 1 and plan.stored
    name = f"{'vector' if plan.vector > 1 else 'scalar'}_{plan.rows}x{plan.columns}_by{warps}"
    if plan.blocks:
        name += f"_spread{plan.blocks}"
    elif plan.parts > 1:
        name += f"_{'parts' if stored else 'split'}{plan.parts}"
    if number > 1:
        name += f"_{number}"
    algorithm = SPREAD_SUMS if plan.blocks else "partial_sums" if stored else "serial"
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [*tile, 1],
        "stages": 1,
        "warp_tile": warp_tile_of(tile, warps),
        "vectorize": plan.vector,
        "split_k": plan.blocks or plan.parts,
        "algo_choice": {"loops": algorithm},
        "cache": [],
    }
    op = ScheduleOp(loops.kernel.sym_name.data, name, {**chosen, **restated(loops, chosen)}, when)
    check_schedule(op)
    return op


def fastest(loops: Loops, arch: str) -> list[ScheduleOp]:
    """The plan of the space that the model of time takes for the fastest, for reductions of known
    sizes that blocks may share, with one that reads element by element where addresses may not be
    multiples of vectors; none of other regions."""
    shared, found = find_shared(loops), list[ScheduleOp]()
    if shared is None or loops.kernel.symbol_names:
        return found
    widest = next(vector for vector, _ in vectors(shared))
    for vector in dict.fromkeys((widest, 1)):
        if ranked := ranked_tiles(shared, vector, arch):
            found.append(shared_schedule(loops, arch, ranked[0][1]))
            if pointers_promised(loops.kernel, found[-1].widest):
                break
    return found


def others(loops: Loops, arch: str) -> list[tuple[float, SharedTile]]:
    """The tiles of the space for such reductions, of which ``shared_schedule`` makes plans, with
    what the model expects of each in ns, the fastest first."""
    shared = find_shared(loops)
    if shared is None or loops.kernel.symbol_names:
        return []
    return ranked_tiles(shared, next(vector for vector, _ in vectors(shared)), arch)


def is_ranked(kernel: KernelOp, plan: ScheduleOp) -> bool:
    """Whether a schedule that the compiler proposed is one that the model of time ranked."""
    if plan.pattern != "loops":
        return False
    loops = find_loops(kernel)
    return opened(loops) is not None or bool(fastest(loops, plan.arch.data))


def _warp_tile(
    tile: tuple[int, int], arch: str, slid: WindowTile | LineTile | None, box: Box | None
) -> list[int]:
    """What each warp of a block has of its tile."""
    if slid is not None:
        return slid.warp_tile
    if box is not None:
        return box.warp_tile
    return warp_tile_of(tile, min(WARPS, prod(tile) // ARCHS[arch].warp))


def _cached(loops: Loops, names: Sequence[str]) -> list[Record]:
    """What ``cache`` says of tensors that are turned in shared memory."""
    row = loops.spaces[0].row
    return [
        {"tensor": name, "where": "smem", "at": f"{row}.i", "pingpong": False} for name in names
    ]


def restated(loops: Loops, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the region and a schedule's other ``fields``.

    Which tensors are turned in shared memory is chosen.
    """
    kernel, spaces = loops.kernel, loops.spaces
    way = cast("dict[str, str]", fields.get("algo_choice", {})).get("loops")
    if way in OF_LINES:
        return _restated_lines(loops, cast("list[int]", fields["tile"]))
    if way == "flat":
        return _restated_flat(loops, cast("list[int]", fields["tile"]))
    # A user's own may say so of a region that has nothing to turn, which is refused later.
    turned = find_turned_store(loops) if way == "turned" else None
    if turned is not None:
        return _restated_turned(loops, turned, cast("list[int]", fields["tile"]))
    rows, columns, _ = cast("list[int]", fields["tile"])
    along = find_resampled_rows(loops) if way == "resampled_rows" else None
    spaces = spaces if along is None else [along.space]
    bind: Record = {}
    tails: dict[str, None] = {}
    for space in spaces:
        for label, size, step in zip(
            space.labels,
            space.sizes,
            (*(1 for _ in space.outer), rows, columns),
            strict=True,
        ):
            if label is not None:
                if label not in space.walked:
                    bind[label if label in space.outer else f"{label}.o"] = "block.x"
                whole = Assumption(size.mod(step), "==")
                if not holds_always(whole, kernel.assumptions, kernel.symbol_names):
                    tails[label] = None
    column = spaces[0].column
    kept = (str(e.get("tensor")) for e in cast("list[Record]", fields["cache"]))
    return {
        "vectorize_axis": "" if column is None else f"{column}.i.i",
        "bind": bind,
        "cache": _cached(loops, list(kept)),
        "predicate_tail": list(tails),
    }


def _restated_flat(loops: Loops, tile: Sequence[int]) -> Fields:
    """The same where all axes are one."""
    labels, sizes = type_of(loops.values[0]).labels, type_of(loops.values[0]).shape
    whole = Assumption(prod(sizes, start=Dim.const(1)).mod(tile[1]), "==")
    known, symbols = loops.kernel.assumptions, loops.kernel.symbol_names
    return {
        "vectorize_axis": f"{labels[-1]}.i.i",
        "bind": {f"{label}.o": "block.x" for label in labels},
        "cache": [],
        "predicate_tail": [] if holds_always(whole, known, symbols) else [labels[0]],
    }


def _restated_turned(loops: Loops, found: TurnedStore, tile: Sequence[int]) -> Fields:
    """The same where what is stored is turned."""
    *_, points, columns = found.space.sizes
    cut = (([label for label, *_ in found.rows], points), ([found.column], columns))
    known, symbols = loops.kernel.assumptions, loops.kernel.symbol_names
    bound: Record = dict.fromkeys(found.space.outer, "block.x")
    bound |= {f"{label}.o": "block.x" for labels, _ in cut for label in labels}
    return {
        "vectorize_axis": f"{found.column}.i.i",
        "bind": bound,
        "cache": [],
        "predicate_tail": [
            labels[0]
            for (labels, size), step in zip(cut, tile, strict=False)
            if not holds_always(Assumption(size.mod(step), "=="), known, symbols)
        ],
    }


def _restated_lines(loops: Loops, tile: Sequence[int]) -> Fields:
    """The same where windows slide along lines: the axes outside of them are one axis."""
    *outer, column = type_of(loops.values[0]).labels
    sizes = type_of(loops.values[0]).shape
    rows, columns, _ = tile
    cut = ((outer, prod(sizes[:-1], start=Dim.const(1)), rows), ([column], sizes[-1], columns))
    known, symbols = loops.kernel.assumptions, loops.kernel.symbol_names
    return {
        "vectorize_axis": f"{column}.i.i",
        "bind": {f"{label}.o": "block.x" for label in (*outer, column)},
        "cache": [],
        "predicate_tail": [
            label
            for labels, size, step in cut
            for label in labels[:1]
            if not holds_always(Assumption(size.mod(step), "=="), known, symbols)
        ],
    }


LOOPS = Family("loops", find_loops, schedules, check, restated, contracts=False)
"""Any region: a thread computes its elements one by one, and loops over what they are sums of."""


# Remarks ------------------------------------------------------------------------------------
