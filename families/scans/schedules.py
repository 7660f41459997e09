"""The schedules of regions with a scan (S8, S9).

``serial``  a thread walks the axis of its elements, one after another: right for everything, and
            fast where the other axes give enough threads
``rows``    a scan along the innermost axis: threads share a line, tile by tile, and a tile goes on
            with what the one before it ended with
``chains``  of long lines and few, blocks that run at once take the tiles of all in turn, and each
            looks back at what those before it come to
``teams``   the same, a team of blocks a line: all of it wait for each other
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32, i32, i64

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import accumulation, is_integer
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import CP_ASYNC_BYTES, MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.checks import shape_text
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.dialects.plan.resources import RESERVED, SUM_BYTES
from polyc.dialects.region.orders import neighbour_of
from polyc.dialects.region.types import MemRefType, ValType
from polyc.families.facts import holds_always, left_open, pointers_promised, power_of_two
from polyc.families.family import Family, Fields, bad_plan, check_schedule, refuse_choice
from polyc.families.scans.recognise import (
    Scans,
    find_scans,
    ringed_reads,
    scanned_reads,
)
from polyc.families.structure import check_raster

THREADS = 128
"""Of a block whose threads walk alone."""

VECTOR = 8
"""Elements of the widest access."""

WARP = 32

SIDE_BY_SIDE = 1024
"""Lines a multiprocessor that lie side by side, from which on a thread each is enough."""

ROW_THREADS = 256
"""Of a block whose threads share lines."""

SHORT = 8
"""Elements of a line that a thread walks by itself, at most."""

STEPS = 4
"""Vectors of a thread of a line's tile, on their way at once."""

CHAIN_THREADS = {1: 128, 0: 128}
"""Of a block of a chain whose tiles lie in a ring, by the axis of a tile that is scanned."""

CHAIN_STEPS = 8
"""Vectors of a thread of such a tile of a line that lies in memory."""

PARTS = 32
"""What the warps of a line leave of a tile for each other at most, one a vector of each: a warp
scans these."""


MOST_PARTS = 1024
"""Tiles of a line whose blocks are a team, at most."""

LEAST_PARTS = 8
"""The least: where lines are shorter, a block goes on from tile to tile."""

ELEMENTS = 16
"""Elements of a thread of a team at most: as many of the next line are on their way."""

CHAINED = 2
"""Lines a multiprocessor that lie in memory, beyond which a block each is enough."""

GROUP = 32
"""Tiles of a line of a chain whose posts a block takes one by one, where lines lie in memory: as
many blocks ask for one word."""

ASKING = 32
"""Threads of a block that take these posts: the others wait for them, and leave L2 alone."""

STAGES = {1: 3, 0: 2}
"""Tiles that a block of a chain has begun, by the axis of a tile that is scanned."""

CHAIN_ROOM = {1: 3, 0: 2}
"""Blocks of chains that a multiprocessor has room for, likewise."""

RING = 3
"""Tiles of a ring in shared memory: one that goes on from those before it, one that is summed up,
and one on its way."""

KEPT = 64
"""Elements of a thread in such a tile at most."""

LEAST_KEPT = 4
"""Rows of a thread in a tile of lines side by side at least, for a ring of these."""

MEETINGS = 6
"""Times that a kernel with a ring lets warps meet: each in shared memory of its own."""

RING_ROOM = {1: 4, 0: 4}
"""Blocks of such chains at most, by the axis."""

MEETING = ("chains", "teams")
"""Ways in which blocks wait for others."""

SIDES = 4
"""Lines that lie side by side of a thread of a chain at most."""

WORDS = 1024
"""Posts that a block takes of the tiles of its group, at most, where lines lie side by side."""

RUN = 32
"""Elements of a thread of a chain of such lines."""

ROOM = 4
"""Blocks of teams that a multiprocessor has room for, with 64 registers a thread; half as many
where more than a few ops stand around the scan."""

FEW_OPS = 8
"""Of these."""


def schedules(scans: Scans, arch: str) -> list[ScheduleOp]:
    """The schedules of a region, in order of dispatch; the last takes every size."""
    found: list[ScheduleOp] = []
    shared = is_shared(scans) and not is_short(scans)
    ways = _rows(scans, arch) if shared else _alone(scans, arch)
    for way in ways:
        when = left_open(scans.kernel, way.facts)
        if when is None:
            continue
        found.append(_schedule(scans, arch, way, when))
        if not when and pointers_promised(scans.kernel, found[-1].widest):
            break
    return found


@dataclass(frozen=True)
class Way:
    """A way to walk: a tile of so many rows and columns, by vectors, under facts."""

    name: str
    algorithm: str
    tile: tuple[int, int]
    vector: int
    threads: int
    facts: Sequence[Assumption] = ()
    stages: int = 1
    loader: str = "register"


# Threads alone ------------------------------------------------------------------------------


def _alone(scans: Scans, arch: str) -> Iterator[Way]:
    """A thread has elements, or a vector of them, and walks the axis for each."""
    yield from _stacked(scans, arch)
    vector = vector_of(scans)
    while vector > 1:
        lines = dict.fromkeys(out.shape[-1] for out in scans.kernel.outs)
        facts = [Assumption(line.mod(vector), "==") for line in lines]
        # A thread has more to do with a vector: there are to be enough of them.
        threads = ARCHS[arch].multiprocessors * THREADS
        points = prod((scans.size(a) for a in scans.labels), start=Dim.const(1))
        facts.append(Assumption(points - threads * vector, ">="))
        tile = tile_of(scans, vector)
        yield Way(f"vector{vector}", "serial", tile, vector, prod(tile) // vector, facts)
        vector //= 2
    tile = tile_of(scans, 1)
    yield Way("scalar", "serial", tile, 1, prod(tile))


def _stacked(scans: Scans, arch: str) -> Iterator[Way]:
    """A chain of tiles of lines that lie side by side, where they are too few for a thread each."""
    column = scans.column
    kinds = [cast("ValType", value.type) for value in scans.values]
    if column is None or any(kind.labels[-1] != column for kind in kinds) or not in_32(scans):
        return
    lines = prod((scans.size(a) for a in scans.labels), start=Dim.const(1))
    length = scans.size(scans.along)
    most = ARCHS[arch].multiprocessors * SIDE_BY_SIDE
    for vector in dict.fromkeys((min(SIDES, vector_of(scans)), 1)):
        facts = [Assumption(Dim.const(most) - lines, ">=")]
        if vector > 1:
            sizes = dict.fromkeys(out.shape[-1] for out in scans.kernel.outs)
            facts += [Assumption(size.mod(vector), "==") for size in sizes]
        head = "" if vector == 1 else f"vector{vector}_"
        for across in (WARP // 4, WARP):
            columns = across * vector
            # Alone, where many have a line together, or where what is scanned is computed of
            # several tensors, a thread has registers for half as many.
            lone = len(scanned_reads(scans)) == 1
            run = RUN if vector > 1 and across == WARP and lone else RUN // 2
            # A ring holds rows as far as it has room, of few columns half, as lines are shorter.
            threads, stages, loader = ROW_THREADS, STAGES[0], "register"
            deep = CHAIN_THREADS[0] // across * (1 if across == WARP else 2)
            kept = min(room_in_rings(scans, arch, vector, 0) // columns // deep, KEPT // vector)
            if kept >= LEAST_KEPT:
                run, stages, loader = vector * kept, RING, "cp_async"
                threads = CHAIN_THREADS[0]
            rows = threads // across * (run // vector)
            own = [*facts, Assumption(length - LEAST_PARTS * rows, ">=")]
            if across < WARP:
                own.append(Assumption(Dim.const(columns) - scans.size(column), ">="))
            name = f"{head}chain" if across == WARP else f"{head}chain_{columns}"
            yield Way(name, "chains", (rows, columns), vector, threads, own, stages, loader)


def vector_of(scans: Scans) -> int:
    """Elements of neighbouring columns that one access can take at most: 1 where none lie so."""
    column = scans.column
    kinds = [cast("ValType", value.type) for value in scans.values]
    if column is None or any(kind.labels[-1] != column for kind in kinds):
        return 1
    return _widest(scans, column)


def _widest(scans: Scans, column: str) -> int:
    """Elements of an access along an axis at most."""
    if any(scans.size(a).constant() == 0 for a in (column, scans.along)):
        return 1
    if scans.reads and column not in {neighbour_of(op) for op in scans.reads}:
        return 1
    # What has fewer axes, as a number of each column, is read in several accesses.
    most = max(len(t.shape) for t in scans.kernel.seen)
    widest = max(element_bytes(t.element_type) for t in scans.kernel.seen if len(t.shape) == most)
    if is_integer(scans.scan.accumulator):
        widest = max(widest, 4)
    return min(VECTOR, MAX_VECTOR_BYTES // widest)


def _power(size: Dim, limit: int) -> int:
    """The least power of two that a known size does not exceed, or ``limit``, a power of two."""
    known = size.constant()
    return limit if known is None else min(limit, power_of_two(known))


def tile_of(scans: Scans, vector: int) -> tuple[int, int]:
    """Rows and columns of a tile whose threads walk alone, an element or a vector each."""
    columns = 1 if scans.column is None else _power(scans.size(scans.column), THREADS * vector)
    columns = max(columns, vector)
    rows = 1 if scans.row is None else _power(scans.size(scans.row), THREADS * vector // columns)
    # A warp has an element each at least.
    least = WARP * vector
    return (rows, columns) if rows * columns >= least else (rows, max(1, least // rows))


# Threads that share lines -------------------------------------------------------------------


def is_shared(scans: Scans) -> bool:
    """Whether threads may share a line: lines lie in memory, and are scanned in f32, i32 or i64."""
    kind = accumulation(scans.scan.fn.data, scans.scan.accumulator)
    return scans.is_of_rows and kind in (f32, i32, i64)


def is_short(scans: Scans) -> bool:
    """Whether lines are so short that a thread walks one: what it reads of memory at once is the
    next steps' too."""
    known = scans.size(scans.along).constant()
    return known is not None and known <= SHORT and scans.column is not None


def in_32(scans: Scans) -> bool:
    """Whether a scan accumulates in 32 bits."""
    return accumulation(scans.scan.fn.data, scans.scan.accumulator) in (f32, i32)


def _rows(scans: Scans, arch: str) -> Iterator[Way]:
    """A warp, or a block, has a line, a tile of it after another; or a team of blocks."""
    length = scans.size(scans.along)
    for vector in dict.fromkeys((_widest(scans, scans.along), 1)):
        lines = [out.shape[-1] for out in scans.kernel.outs]
        lines += [
            cast("MemRefType", op.tensor.type).shape[-1]
            for op in scans.reads
            if neighbour_of(op) == scans.along
        ]
        facts = [Assumption(n.mod(vector), "==") for n in dict.fromkeys(lines) if vector > 1]
        head = "scalar" if vector == 1 else f"vector{vector}"
        for across in (WARP // 4, WARP):
            # The only line is a warp's.
            threads = WARP if scans.column is None else ROW_THREADS
            tile = threads // across, across * vector * STEPS
            short = Assumption(Dim.const(tile[1]) - length, ">=")
            if scans.column is not None or across == WARP:
                yield Way(f"{head}_{tile[1]}", "rows", tile, vector, threads, [*facts, short])
        for steps in (1, STEPS):
            columns = ROW_THREADS * vector * steps
            short = [Assumption(Dim.const(columns) - length, ">=")] if steps < STEPS else []
            name = f"{head}_{columns}" if short else head
            # Blocks tell each other numbers of 32 bits.
            if not short and in_32(scans):
                if vector > 1:
                    wide = ROW_THREADS * min(columns // ROW_THREADS, ELEMENTS)
                    own = [*facts, *_few(scans, arch, wide), _apart(scans, arch, wide)]
                    yield Way(f"{head}_team", "teams", (1, wide), vector, ROW_THREADS, own)
                threads, wide = ROW_THREADS, ROW_THREADS * vector * STEPS
                # Of several tensors the elements of one more tile take too many registers.
                stages = STAGES[1] - (len(scanned_reads(scans)) > 1)
                loader = "register"
                ringed = CHAIN_THREADS[1] * vector * CHAIN_STEPS
                if room_in_rings(scans, arch, vector, 1) >= ringed:
                    threads, wide, stages, loader = CHAIN_THREADS[1], ringed, RING, "cp_async"
                few = [*facts, *_few(scans, arch, wide, CHAINED)[:2]]
                chain = (1, wide), vector, threads, few, stages, loader
                yield Way(f"{head}_chain", "chains", *chain)
            yield Way(name, "rows", (1, columns), vector, ROW_THREADS, [*facts, *short])


def axis_of(scans: Scans) -> int:
    """The axis of a tile along which blocks that meet scan it: 1 where lines lie in memory."""
    return int(scans.is_of_rows)


def asking(plan: ScheduleOp) -> int:
    """Threads of a block that take posts of a line that lies in memory."""
    return min(ASKING, plan.threads())


def group_of(plan: ScheduleOp, axis: int) -> int:
    """Posts of a chain that a block takes one by one, for each line of its tile."""
    if axis == 1:
        return max(GROUP, asking(plan))
    columns, vector = plan.tile_sizes[1], plan.integer("vectorize")
    return max(WORDS // columns, plan.threads() * vector // columns)


def room_of(scans: Scans, plan: ScheduleOp) -> int:
    """Blocks that meet that a multiprocessor is to have room for."""
    few = len(scans.kernel.body.block.ops) <= FEW_OPS
    if str(record_of(plan.algo_choice)["scans"]) == "teams":
        return ROOM if few else ROOM // 2
    axis = axis_of(scans)
    if plan.loader.data == "cp_async":
        vector, shared = plan.integer("vectorize"), plan.target.shared_bytes + RESERVED
        parts = meeting_bytes(plan.threads(), vector) if axis == 0 else RESERVED
        found = shared // (plan.shared_bytes() + parts + RESERVED)
        return max(1, min(RING_ROOM[axis] if few else RING_ROOM[axis] // 2, found))
    room = CHAIN_ROOM[axis]
    if axis == 1:
        # Elements in the order of a line from its end, and comparisons, take registers more.
        more = scans.scan.is_reverse or scans.scan.fn.data in ("max", "min")
        room -= (plan.integer("vectorize") == VECTOR) + more
    return room if few else max(1, room // 2)


def _few(scans: Scans, arch: str, columns: int, most: int = 1) -> list[Assumption]:
    """Where lines are few and long, ``most`` a multiprocessor: a block each would leave most of the
    chip idle."""
    lines = prod((scans.size(a) for a in scans.labels), start=Dim.const(1))
    length = scans.size(scans.along)
    return [
        Assumption(Dim.const(most * ARCHS[arch].multiprocessors) - lines, ">="),
        Assumption(length - LEAST_PARTS * columns, ">="),
        Assumption(Dim.const(MOST_PARTS * columns) - length, ">="),
    ]


def _apart(scans: Scans, arch: str, columns: int) -> Assumption:
    """Where each tile has a multiprocessor of its own: a team meets once, and is there before the
    blocks of a chain have looked back twice.  Where a block has several tiles these overlap."""
    lines = prod((scans.size(a) for a in scans.labels), start=Dim.const(1))
    tiles = lines * scans.size(scans.along).ceildiv(columns)
    return Assumption(Dim.const(ARCHS[arch].multiprocessors) - tiles, ">=")


# A schedule ---------------------------------------------------------------------------------


def _schedule(scans: Scans, arch: str, way: Way, when: Sequence[Assumption]) -> ScheduleOp:
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": way.loader,
        "tile": [*way.tile, 1],
        "stages": way.stages,
        "warp_tile": warp_tile_of(way.tile, way.threads // WARP),
        "vectorize": way.vector,
        "persistent": way.algorithm in MEETING,
        "algo_choice": {"scans": way.algorithm},
    }
    name = scans.kernel.sym_name.data
    op = ScheduleOp(name, way.name, {**chosen, **restated(scans, chosen)}, when)
    check_schedule(op)
    return op


def warp_tile_of(tile: tuple[int, int], warps: int) -> list[int]:
    """What each of so many warps has of a tile: whole rows, or the same part of them."""
    rows, columns = tile
    down = min(rows, warps)
    return [rows // down, columns * down // warps]


def axes_of(scans: Scans, algorithm: str, tile: tuple[int, int]) -> list[tuple[str | None, int]]:
    """The axes of a block's grid, outermost first, and what it has of each: None of no axis.

    The last two are those that a tile runs along, where its threads walk alone; where they share
    lines its rows are lines, and each block walks along all of its own.
    """
    rows, columns = tile
    if algorithm == "serial":
        return [(a, 1) for a in scans.outer] + [(scans.row, rows), (scans.column, columns)]
    if not scans.is_of_rows:
        return [(a, 1) for a in (*scans.outer, scans.row)] + [(scans.column, columns)]
    return [(a, 1) for a in (*scans.outer, scans.row)] + [(scans.column, rows)]


def restated(scans: Scans, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the region and a schedule's other ``fields``."""
    kernel = scans.kernel
    rows, columns, _ = cast("list[int]", fields["tile"])
    algorithm = str(cast("Record", fields["algo_choice"])["scans"])
    bind: Record = {}
    tails: dict[str, None] = {}
    axes = axes_of(scans, algorithm, (rows, columns))
    ends = axes[-2:] if algorithm == "serial" else axes[-1:]
    for label, step in axes:
        if label is not None:
            bind[f"{label}.o" if (label, step) in ends else label] = "block.x"
    walked = [] if algorithm == "serial" else [(scans.along, (rows, columns)[axis_of(scans)])]
    for label, step in (*axes, *walked):
        whole = None if label is None else Assumption(scans.size(label).mod(step), "==")
        if whole and not holds_always(whole, kernel.assumptions, kernel.symbol_names):
            tails[str(label)] = None
    column = scans.along if algorithm != "serial" and scans.is_of_rows else scans.column
    return {
        "vectorize_axis": "" if column is None else f"{column}.i.i",
        "bind": bind,
        "cache": _kept(scans) if fields["loader"] == "cp_async" else [],
        "predicate_tail": list(tails),
    }


def _kept(scans: Scans) -> list[Record]:
    """What ``cache`` says of the tensors of whose tiles a block has a ring in shared memory."""
    return [
        {
            "tensor": scans.kernel.name_of(op.tensor),
            "where": "smem",
            "at": f"{scans.along}.o",
            "bytes": element_bytes(op.result.type.element_type),
        }
        for op in ringed_reads(scans)
    ]


def meeting_bytes(threads: int, vector: int) -> int:
    """Shared memory in which the warps of a block that has lines side by side meet."""
    return MEETINGS * threads * vector * SUM_BYTES


def room_in_rings(scans: Scans, arch: str, vector: int, axis: int) -> int:
    """Elements of a tile of which a multiprocessor holds two rings; 0 where cp.async does not bring
    them."""
    if vector == 1 or not may_ring(scans, vector):
        return 0
    shared = (ARCHS[arch].shared_bytes + RESERVED) // 2 - RESERVED
    meeting = RESERVED if axis else meeting_bytes(CHAIN_THREADS[0], vector)
    return (shared - meeting) // (RING * kept_bytes(scans))


def kept_bytes(scans: Scans) -> int:
    """Bytes of a tile's element in a ring."""
    return sum(element_bytes(op.result.type.element_type) for op in ringed_reads(scans))


def may_ring(scans: Scans, vector: int) -> bool:
    """Whether cp.async brings what is scanned, by vectors of so many elements."""
    sizes = [vector * element_bytes(op.result.type.element_type) for op in ringed_reads(scans)]
    return bool(sizes) and all(size in CP_ASYNC_BYTES for size in sizes)


def check(scans: Scans, plan: ScheduleOp) -> None:
    """Refuse a user's schedule whose tile does not suit the region, or that asks for more."""
    rows, columns, depth = plan.tile_sizes
    vector, threads = plan.integer("vectorize"), plan.threads()
    if columns % vector:
        raise bad_plan(
            plan, f"has tiles of {columns} columns, no multiple of its vectors of {vector}"
        )
    if depth != 1:
        raise bad_plan(plan, f"has a tile of depth {depth}, and a scan has none; make it 1")
    if max(plan.integers("cluster")) > 1:
        refuse_choice(plan, "cluster", "a scan does not have", "[1, 1]")
    way = str(record_of(plan.algo_choice)["scans"])
    if plan.flag("persistent") != (way in MEETING):
        why = f"a scan by {' or '.join(MEETING)} has, and no other"
        refuse_choice(plan, "persistent", why, str(way in MEETING).lower())
    ring = plan.loader.data == "cp_async"
    if plan.loader.data not in ("register", "cp_async"):
        refuse_choice(plan, "loader", "a scan does not have", "register or cp_async")
    if ring and not (way == "chains" and may_ring(scans, vector)):
        why = "chains of tiles that lie in a tensor as they are have, in vectors of 4 bytes or more"
        refuse_choice(plan, "loader", why, "register")
    stages, least, most = plan.integer("stages"), 1, 1
    if way == "chains":
        least, most = (RING, RING + 1) if ring else (1, STAGES[1])
    if not least <= stages <= most:
        why = f"a scan by {way} does not have with the loader {plan.loader.data}"
        refuse_choice(plan, "stages", why, f"{least} to {most}" if most > least else f"{most}")
    check_raster(plan)
    warps = threads // WARP
    if (wanted := warp_tile_of((rows, columns), warps)) != list(plan.warp_tile_sizes):
        raise bad_plan(
            plan,
            f"gives each of {warps} warps {shape_text(plan.warp_tile_sizes)} elements of a tile of "
            f"{rows}x{columns}, where they have {shape_text(wanted)}: whole rows, or like parts",
        )
    if way == "chains" and not scans.is_of_rows:
        _check_stacked(scans, plan)
    elif way != "serial":
        _check_rows(scans, plan)
    if way in MEETING and scans.is_of_rows and rows > 1:
        raise bad_plan(plan, f"has tiles of {rows} lines, and blocks that meet have one; make it 1")


def _check_stacked(scans: Scans, plan: ScheduleOp) -> None:
    """Refuse lines that cannot lie side by side in threads, or a tile that threads do not part."""
    kinds = [cast("ValType", value.type) for value in scans.values]
    inner = all(kind.labels[-1] == scans.column for kind in kinds)
    if scans.column is None or not inner or not in_32(scans):
        why = "chains lines side by side, which lie along the innermost axis, in f32 or 32 bits"
        refuse_choice(plan, "algo_choice", why, '{"scans": "serial"}')
    rows, columns, _ = plan.tile_sizes
    vector, threads = plan.integer("vectorize"), plan.threads()
    across = columns // vector
    deep, left = divmod(threads, across)
    whole = across & (across - 1) == 0 and not left and rows % max(1, deep) == 0
    if not whole or across > threads or group_of(plan, 0) % deep or deep > PARTS:
        raise bad_plan(
            plan,
            f"has {threads} threads for a tile of {rows}x{columns} in vectors of {vector}: a power "
            f"of two of them is side by side, and {PARTS} at most have as many rows each",
        )


def _check_rows(scans: Scans, plan: ScheduleOp) -> None:
    """Refuse lines that threads cannot share, or a tile that they do not part alike."""
    if not is_shared(scans):
        why = "lets threads share lines, which are along the innermost axis, in f32, i32 or i64"
        refuse_choice(plan, "algo_choice", why, '{"scans": "serial"}')
    if str(record_of(plan.algo_choice)["scans"]) in MEETING and not in_32(scans):
        why = "lets blocks meet, which tell each other numbers of 32 bits"
        refuse_choice(plan, "algo_choice", why, '{"scans": "rows"}')
    rows, columns, _ = plan.tile_sizes
    vector, threads = plan.integer("vectorize"), plan.threads()
    if rows > 1 and scans.column is None:
        raise bad_plan(plan, f"has {rows} lines, and the region has one; make it 1")
    across, left = divmod(threads, rows)
    steps, more = divmod(columns, across * vector) if across else (0, 1)
    lanes = across > 0 and (WARP % across == 0 or across % WARP == 0)
    if left or more or not steps or not lanes:
        raise bad_plan(
            plan,
            f"has {threads} threads for a tile of {rows}x{columns} in vectors of {vector}: a row "
            "is for lanes of a warp, or whole warps, with as many vectors each",
        )
    if across > WARP and across // WARP * steps > PARTS:
        raise bad_plan(
            plan,
            f"has {across // WARP} warps with {steps} vectors a thread for a row, which leave "
            f"{across // WARP * steps} parts for each other; {PARTS} are the most",
        )


SCANS = Family("scans", find_scans, schedules, check, restated, contracts=False)
"""Regions with a scan, which walk its axis in order."""
