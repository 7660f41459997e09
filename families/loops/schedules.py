"""The schedules of any region, as loops of threads that compute alone (S8, S9.3).

The last family: it takes what no other one does.  ``remarks`` says why no tensor core computes a
contraction that lands here, and what is computed again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import gcd, prod
from typing import cast

from xdsl.ir import SSAValue

from polyc.cost.reductions import SharedTile
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import is_integer
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.checks import shape_text
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    TransposeOp,
)
from polyc.dialects.region.types import MemRefType
from polyc.families.facts import holds_always, left_open, pointers_promised, power_of_two
from polyc.families.family import Family, Fields, bad_plan, check_schedule, refuse_choice
from polyc.families.loops.boxes import Box, find_box
from polyc.families.loops.lines import LineTile, best, find_lines, stored_vector
from polyc.families.loops.lines import tile_from as line_tile_from
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
    TURNED,
    Loops,
    find_loops,
    innermost_first,
    line_of,
    loads_of,
    made_by,
    neighbours_of,
    size_of,
    split_size,
    steps_of,
    type_of,
)
from polyc.families.loops.resampled import Brought, find_resampled, is_possible
from polyc.families.loops.resampled import best as best_resampled
from polyc.families.loops.shared_space import ranked as ranked_tiles
from polyc.families.loops.windows import WindowTile, find_window, ranked, tile_from
from polyc.families.loops.windows import facts as window_facts
from polyc.families.structure import MOST_PARTS, check_raster
from polyc.rewriting.notes import Note

WARPS = 8
"""Of a block."""
REGISTERS = 4
"""Elements of a thread, where vectors are not longer."""
COLUMNS = 128
"""Of a tile with rows.  A warp then has whole rows, and a row's reduction stays in it."""
PARTED = 32
"""Of one whose rows are parts of a reduction, so that there are more blocks: a warp's."""
VECTOR = 8
"""Elements of the widest access."""
ACCUMULATOR_BYTES = 4
"""What integers are accumulated in at least."""


LINE_BYTES = 128
"""Of a cache line: what a turned tile has of one at least, in memory and turned."""
TURNED_SIDE = 64
"""Rows and columns of a turned tile at most."""
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
OF_LINES = ("lines", "resampled")
"""The ways of loops whose tiles are of lines: the axes outside of these are one axis."""


def deepest(loops: Loops) -> Dim:
    """The size of the innermost reduced axis: the largest, or one that is not known."""
    sizes = [size_of(reduce, innermost_first(reduce)[0]) for reduce in loops.reductions]
    return max(sizes, key=lambda size: size.constant() or float("inf"), default=Dim.const(1))


def tile_of(
    loops: Loops, arch: str, parts: bool, vector: int, beside: int = PARTED
) -> tuple[int, int]:
    """Rows and columns of a tile; known sizes bound it.

    Where its threads part reductions (``parts``), a tile has all of its rows and columns: those
    that no output runs along part the points, and ``beside`` is what it has of the others at most.
    """
    warp = ARCHS[arch].warp
    elements = WARPS * warp * max(REGISTERS, vector * (loads_of(loops.reductions) if parts else 1))
    if loops.turned:
        narrowest = min(element_bytes(op.result.type.element_type) for op in loops.turned)
        side = min(LINE_BYTES // narrowest, TURNED_SIDE)
        (space,) = loops.spaces
        short = (space.sizes[-2].constant() or TURNED) < TURNED
        # Of short lines there are more.
        return _power(space.sizes[-2], side), _power(space.sizes[-1], side * (1 + short))
    space = max(
        loops.spaces, key=lambda s: len(s.sizes) * (s.column is not None) + (s.row is not None)
    )
    *_, rows, columns = space.sizes
    if space.row is None:
        wide = elements if parts else 1
        if space.column is not None:
            wide = _power(columns, beside if parts else elements)
    else:
        wide = COLUMNS if space.column is None else _power(columns, COLUMNS)
    high = elements // wide
    if not parts:
        high = _power(rows, high)
    elif vector > 1:
        # All threads have a vector, and rows beyond the longest reduction are nobody's.
        high = max(_power(deepest(loops), high), WARPS * warp * vector // wide)
    # A warp has an element each at least.
    return (high, wide) if high * wide >= warp else (high, warp // high)


def _power(size: Dim, limit: int) -> int:
    """The least power of two that a known size does not exceed, or ``limit``, a power of two."""
    known = size.constant()
    return limit if known is None else min(limit, power_of_two(known))


def warp_tile_of(tile: tuple[int, int], warps: int) -> list[int]:
    """What each of so many warps has of a tile: whole rows, or the same part of them."""
    rows, columns = tile
    down = min(rows, warps)
    return [rows // down, columns * down // warps]


def vector_of(loops: Loops) -> int:
    """Elements that one access can take at most: 1 where none lie side by side for a thread."""
    columns = {s.column for s in loops.spaces}
    if len(columns) > 1 or None in columns:
        return 1
    # A thread has vectors where it reduces alone, and where rows of threads part a reduction, each
    # with columns of its own; not where a row's threads share one.
    parted = all(s.row is None and not s.walked for s in loops.spaces)
    if not parted and not reduces_alone(loops):
        return 1
    # A number that is the same everywhere, as a seed is, has no neighbours.
    reads = any(isinstance(op, ReadOp) and op.result.type.labels for op in made_by(loops.values))
    if reads and not columns & neighbours_of(loops.values) and not loops.turned:
        return 1
    # What has fewer axes, as a number of each column, is read in several accesses.
    most = max(len(t.shape) for t in loops.kernel.seen)
    large = [t for t in loops.kernel.seen if len(t.shape) == most]
    widest = max(element_bytes(t.element_type) for t in large)
    if any(is_integer(reduce.accumulator) for reduce in loops.reductions):
        # Integers are accumulated in 32 bits, and a thread has no registers for more of them.
        widest = max(widest, ACCUMULATOR_BYTES)
    return min(VECTOR, MAX_VECTOR_BYTES // widest)


def reduces_alone(loops: Loops) -> bool:
    """Whether each point of a tile has reductions of its own, so that no threads part them."""
    own = [set(type_of(reduce.result).labels) for reduce in loops.reductions]
    return all({s.row, s.column} <= labels and not s.walked for labels in own for s in loops.spaces)


def schedules(loops: Loops, arch: str) -> list[ScheduleOp]:
    """One schedule whose accesses are vectors, where rows are whole ones, and one for all sizes.

    A thread that reduces alone has more to do with a vector: there are to be enough of them.
    """
    if ranked := fastest(loops, arch):
        return ranked
    found = _in_order(loops, arch)
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
            found += [*_split(loops, whole, facts), whole]
            break
        vector //= 2  # known rows may be multiples of fewer
    found += _rows(loops, arch)
    found += [plan for plan in parted if plan not in first]
    found.append(_schedule(loops, arch, not alone, "scalar", 1, ()))
    return found


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
        yield _schedule(loops, arch, False, name, vector, when, window=tile)
        if not when:
            return


def _lines(loops: Loops, arch: str) -> ScheduleOp | None:
    """A schedule whose windows slide along lines."""
    lines = find_lines(loops)
    tile = None if lines is None else best(lines, arch)
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

    ``algorithm`` is that of ``lines``.
    """
    slid = window or lines
    if box is not None:
        tile, algorithm = box.result.tile, "boxes"
    elif slid is not None:
        tile = slid.rows, slid.columns
        algorithm = algorithm if window is None else "windows"
    else:
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
        "warp_tile": _warp_tile(tile, arch, slid, box),
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
    if plan.parts > 1:
        name += f"_{'parts' if stored else 'split'}{plan.parts}"
    if number > 1:
        name += f"_{number}"
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [*tile, 1],
        "stages": 1,
        "warp_tile": warp_tile_of(tile, warps),
        "vectorize": plan.vector,
        "split_k": plan.parts,
        "algo_choice": {"loops": "partial_sums" if stored else "serial"},
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
    if cast("dict[str, str]", fields.get("algo_choice", {})).get("loops") in OF_LINES:
        return _restated_lines(loops, cast("list[int]", fields["tile"]))
    rows, columns, _ = cast("list[int]", fields["tile"])
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


def turned_names(loops: Loops) -> list[str]:
    """The tensors that a kernel turns in shared memory."""
    return list(dict.fromkeys(loops.expanded.name_of(op.tensor) for op in loops.turned))


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


def _check_windows(loops: Loops, plan: ScheduleOp) -> None:
    """Refuse windows where none slide along a tile's rows, or a tile that threads do not part."""
    if find_window(loops) is None:
        why = "slides windows where no reduction of known size slides along the rows of a tile"
        refuse_choice(plan, "algo_choice", why, '{"loops": "serial"}')
    if plan.integer("split_k") > 1:
        refuse_choice(plan, "split_k", "sliding windows do not have", "1")
    rows, columns, _ = plan.tile_sizes
    tile = tile_from((rows, columns), plan.threads(), plan.integer("vectorize"))
    if tile is None or tile.warp_tile != list(plan.warp_tile_sizes):
        wanted = "vectors of neighbouring rows" if tile is None else shape_text(tile.warp_tile)
        raise bad_plan(
            plan,
            f"gives each of {plan.threads() // plan.target.warp} warps "
            f"{shape_text(plan.warp_tile_sizes)} elements of a tile of {rows}x{columns}, where "
            f"windows slide by {wanted} a warp",
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
    if "partial_sums" in record_of(plan.algo_choice).values():
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
    if plan.slides_windows:
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


LOOPS = Family("loops", find_loops, schedules, check, restated, contracts=False)
"""Any region: a thread computes its elements one by one, and loops over what they are sums of."""


# Remarks ------------------------------------------------------------------------------------


def remarks(kernel: KernelOp, refusal: PolycError | None) -> Iterator[Note]:
    """What is slow about a region as loops, and why; ``refusal`` is the first other family's."""
    loops = find_loops(kernel).expanded
    steps = steps_of(loops)
    name = kernel.sym_name.data
    contraction = next(_contractions(loops), None)
    if contraction is not None and refusal is not None:
        _, _, why = refusal.message.partition(": ")
        yield Note(
            "NoTensorCores",
            f"region @{name} holds a contraction and runs as loops without tensor cores, "
            f"{steps.total} steps an element of its output: {why or refusal.message}",
            kernel,
        )
    if steps.nested is not None:
        axes = ", ".join(steps.nested.labels)
        yield Note(
            "Recomputed",
            f"region @{name} reduces over [{axes}] again in each step of another reduction, which "
            f"is {steps.total} steps an element of its output; make what it reduces first an "
            "output of a graph of its own",
            kernel,
        )


def _contractions(kernel: KernelOp) -> Iterator[ReduceOp]:
    """Sums of products of two values that both have the sum's axes, and each one of its own."""
    for op in kernel.walk():
        if not isinstance(op, ReduceOp) or op.fn.data != "sum":
            continue
        product = op.operand.owner
        if isinstance(product, BinaryOp) and product.fn.data == "mul":
            left, right = (_own_axes(v) for v in product.operands)
            if left - right and right - left and set(op.labels) <= left & right:
                yield op


def _own_axes(value: SSAValue) -> set[str]:
    """The axes that a value depends on, whatever it was broadcast to."""
    owner = value.owner
    while isinstance(owner, BroadcastInDimOp | CastOp | TransposeOp):
        value = owner.operand
        owner = value.owner
    return set(type_of(value).labels)
