"""The schedules of a region that sorts rows: a block has a row (S8, S9.3).

A row that fits is sorted in shared memory: a short one by a network of comparisons, a longer one
digit by digit, of those bits that decide.  A longer one is sorted by several blocks, in passes over
memory: one for each digit, and one more for what is made of what is sorted.  Of a row of any length
the least are kept in shared memory while it goes by (``pool``).  As a user asks, a whole row of any
length is written to memory and sorted where it lies by one block, step by step of the network:
right, and slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.dialects.plan.resources import MAPPED, RESERVED
from polyc.families.facts import left_open, power_of_two
from polyc.families.family import Family, Fields, bad_plan, check_schedule, refuse_choice
from polyc.families.sorts.recognise import Sorts, find_sorts
from polyc.families.structure import check_group

WARP = 32
"""Threads of a warp."""

TILES = (256, 1024, 4096, 16384)
"""Lengths of rows that are sorted in shared memory, each by a kernel of its own."""

DIGIT_THREADS = 256, 512
"""Threads that sort a row digit by digit, and those that do so of more than ``FEW`` elements."""

LEAST_DIGITS = 512
"""Elements of a row that is sorted digit by digit, at least: for fewer there are no threads."""

FEW = 8192
"""Elements of a row that as many threads as a digit has values sort, with 32 each."""

DIGIT = 8
"""Bits of a digit at most."""

COUNTED = 4
"""Bytes in which a warp counts a value of a digit."""

PASS_THREADS, PASS_EACH = 320, 16
"""Threads of a block that has a tile of a longer row, and elements of each."""

PASS_BLOCKS, FEWER_EACH = 2, 8
"""Blocks of a multiprocessor that have such tiles at once, and elements of a thread where there are
no more tiles than these: twice as many find room then (16 rows of 65536 of f32 take an H100 88 us
for 99)."""

PASSES = ("passes", MAPPED)
"""The ways in which blocks sort a row together."""

SUM_THREADS = 512
"""Threads that sum up the counts of tiles."""

MOST_PASSES = 8
"""Passes over memory at most."""

OWN_REGISTERS = 44
"""Registers of a thread that sorts digit by digit, beside its elements and their places."""

OF_THREAD = 8
"""Elements of a tile that a thread has, where there are threads enough."""

THREADS = 1024
"""Threads of a block at most."""

POOL_THREADS = 256
"""Threads of one that keeps the least of a row."""

SLACK = 128
"""Elements that a pool takes beside those that it keeps and those that come at once, before it is
sorted again; or as many as it keeps."""

SPARE = 1024
"""Bytes of shared memory that are left for counts and bounds, and to align tiles."""

NETWORK_STEP = 15
"""Instructions of an element in a step of a network."""

DIGIT_STEP, DIGIT_BLOCK = 150, 100
"""The same of a digit, and those of a thread of its block for each digit."""

VECTOR = 8
"""Elements of the widest access."""


def vector_of(sorts: Sorts) -> tuple[int, list[Assumption]]:
    """The elements of an access along a row, and what that asks of sizes."""
    if not sorts.reads or not sorts.is_beside or sorts.row.size.constant() == 0:
        return 1, []
    lengths = dict.fromkeys([sorts.row.size, *(t.shape[-1] for t in sorts.tensors if t.shape)])
    widest = max(element_bytes(t.element_type) for t in sorts.tensors)
    vector = min(VECTOR, MAX_VECTOR_BYTES // widest)
    while vector > 1:
        facts = [Assumption(n.mod(vector), "==") for n in lengths]
        if left_open(sorts.kernel, facts) is not None:
            return vector, facts
        vector //= 2
    return 1, []


def schedules(sorts: Sorts, arch: str) -> list[ScheduleOp]:
    """The schedules for an architecture, in order of dispatch; the last takes every size."""
    found: list[ScheduleOp] = []
    vector, facts = vector_of(sorts)
    ways: list[tuple[int, list[Assumption]]] = [(vector, facts)] if vector > 1 else []
    if not (ways and left_open(sorts.kernel, facts) == ()):
        ways.append((1, []))
    for wide, needed in ways:
        for plan in _proposed(sorts, arch, wide, needed):
            found.append(plan)
            if not plan.when.data:
                break
    return found


def _proposed(
    sorts: Sorts, arch: str, vector: int, facts: Sequence[Assumption]
) -> Iterator[ScheduleOp]:
    """Schedules whose accesses are so wide."""
    suffix = "_vector" if vector > 1 else ""
    if sorts.least is not None:
        tile = min(
            POOL_THREADS * OF_THREAD,
            max(_power(sorts.row.size, POOL_THREADS * OF_THREAD), WARP * vector),
        )
        yield _schedule(sorts, arch, f"pool{suffix}", "pool", tile, vector, facts)
        return
    known = sorts.row.size.constant()
    for tile in TILES:
        fits = Assumption(Dim.const(tile) - sorts.row.size, ">=")
        if left_open(sorts.kernel, [fits]) is None:
            continue
        way, wide = "shared", vector
        if known is not None:
            tile = max(power_of_two(max(1, known)), WARP * vector)
        if tile >= LEAST_DIGITS and by_digits(sorts, tile) < by_network(tile):
            way = "digits"
            tile, wide = digit_tile(tile if known is None else known, vector)
        if shared_bytes(sorts, way, tile) > ARCHS[arch].shared_bytes:
            continue
        name = f"{way}_{tile}{suffix}"
        yield _schedule(sorts, arch, name, way, tile, wide, [*facts, fits])
    if digits_of(sorts) <= MOST_PASSES:
        if vector > 1 and left_open(sorts.kernel, facts) != ():
            return  # Those of single elements take these too: one pass alone reads what it sorts.
        tile = PASS_THREADS * PASS_EACH
        rows = [axis.size.constant() for axis in sorts.outer]
        if known is not None and None not in rows:
            tiles = prod(size or 0 for size in rows) * -(-known // tile)
            if tiles <= ARCHS[arch].multiprocessors * PASS_BLOCKS:
                tile = PASS_THREADS * FEWER_EACH
        way = "passes" if sorts.is_plain else MAPPED
        yield _schedule(sorts, arch, f"passes{suffix}", way, tile, vector, facts)
        return
    yield _schedule(sorts, arch, f"memory{suffix}", "memory", THREADS * OF_THREAD, vector, facts)


def _power(size: Dim, limit: int) -> int:
    """The least power of two that a known size does not exceed, or ``limit``, a power of two."""
    known = size.constant()
    return limit if known is None else min(limit, power_of_two(max(1, known)))


def digits_of(sorts: Sorts) -> int:
    """How many digits decide."""
    first, end = sorts.bits
    return -(-(end - first) // DIGIT)


def by_network(tile: int) -> float:
    """About how many instructions an element takes that a network of comparisons sorts."""
    levels = tile.bit_length() - 1
    return NETWORK_STEP * levels * (levels + 1) / 2


def by_digits(sorts: Sorts, tile: int) -> float:
    """The same of one that is sorted digit by digit."""
    threads = DIGIT_THREADS[tile > FEW]
    return digits_of(sorts) * (DIGIT_STEP + DIGIT_BLOCK * threads / tile)


def digit_tile(row: int, vector: int) -> tuple[int, int]:
    """The least tile that holds a row, as threads share it that read vectors of so many elements
    at most, and how wide these are then."""
    threads, wide = DIGIT_THREADS[row > FEW], vector
    while wide > 1 and -(-row // (threads * wide)) * wide > -(-row // threads):
        wide //= 2
    each = threads * wide
    return -(-row // each) * each, wide


def shared_bytes(sorts: Sorts, way: str, elements: int) -> int:
    """Bytes of shared memory that a block takes which sorts so many elements there."""
    counts = 0
    if way in ("digits", *PASSES):
        threads = PASS_THREADS if way in PASSES else DIGIT_THREADS[elements > FEW]
        counts = (threads // WARP + 2) * (COUNTED << DIGIT)
    return elements * sorts.size + counts + SPARE


def digit_blocks(sorts: Sorts, plan: ScheduleOp) -> int:
    """Blocks of a multiprocessor that sort digit by digit: for as many there are shared memory and
    registers."""
    arch, elements, threads = plan.target, plan.tile_sizes[1], plan.threads()
    taken = shared_bytes(sorts, way_of(plan), elements) + RESERVED
    each = OWN_REGISTERS + elements // threads * (sorts.size / 4 + 0.5)
    room = arch.threads * 2 // threads, arch.registers // int(threads * each)
    return max(1, min((arch.shared_bytes + RESERVED) // taken, *room))


def threads_of(way: str, tile: int, vector: int) -> int:
    """Threads that have a tile of a row together: each a vector at least."""
    if way == "digits":
        return DIGIT_THREADS[tile > FEW]
    if way in PASSES:
        return PASS_THREADS
    return max(WARP, min(THREADS, tile // max(OF_THREAD, vector)))


def _schedule(
    sorts: Sorts,
    arch: str,
    variant: str,
    way: str,
    tile: int,
    vector: int,
    facts: Sequence[Assumption],
) -> ScheduleOp:
    kernel = sorts.kernel
    when = left_open(kernel, facts)
    assert when is not None
    warps = threads_of(way, tile, vector) // WARP
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [1, tile, 1],
        "stages": digits_of(sorts) if way in PASSES else 1,
        "warp_tile": [1, tile // warps],
        "vectorize": vector,
        "algo_choice": {"sorts": way},
    }
    op = ScheduleOp(kernel.sym_name.data, variant, {**chosen, **restated(sorts, chosen)}, when)
    check_schedule(op)
    return op


def restated(sorts: Sorts, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the region."""
    bind: Record = {axis.label: "block.x" for axis in sorts.outer}
    return {
        "vectorize_axis": f"{sorts.row.label}.i",
        "bind": bind,
        "predicate_tail": [sorts.row.label],
    }


def way_of(plan: ScheduleOp) -> str:
    """How a schedule sorts: ``shared``, ``digits``, ``pool``, ``passes``, ``passes_mapped``
    or ``memory``."""
    return str(record_of(plan.algo_choice)["sorts"])


def pool_room(plan: ScheduleOp, least: int) -> int:
    """Elements that the pool of a schedule has room for."""
    return least + plan.tile_sizes[1] + max(SLACK, least)


def check(sorts: Sorts, plan: ScheduleOp) -> None:
    """Refuse a user's schedule that does not hold its rows, or has what kernels of sorts do not."""
    rows, columns, depth = plan.tile_sizes
    way, vector = way_of(plan), plan.integer("vectorize")
    if plan.mma.data != "none":
        raise bad_plan(plan, "is for tensor cores, and sorts have mma none")
    if rows != 1 or depth != 1:
        raise bad_plan(plan, f"has a tile of {rows}x{columns}x{depth}; a block sorts one row")
    if columns % (plan.threads() * vector):
        raise bad_plan(
            plan,
            f"has {plan.threads()} threads take vectors of {vector} of a tile of {columns}, which "
            "they do not share evenly",
        )
    if (way == "pool") != (sorts.least is not None):
        wanted = "pool" if sorts.least is not None else "passes" if sorts.is_plain else MAPPED
        refuse_choice(plan, "algo_choice", f"is {way} for this sort", f'{{"sorts": "{wanted}"}}')
    elements = columns if sorts.least is None else pool_room(plan, sorts.least)
    if way != "memory" and shared_bytes(sorts, way, elements) > plan.target.shared_bytes:
        raise bad_plan(
            plan,
            f"has {elements} elements of {sorts.size} bytes in shared memory, and there are "
            f"{plan.target.shared_bytes} bytes",
        )
    if way in ("shared", "digits"):
        fits = Assumption(Dim.const(columns) - sorts.row.size, ">=")
        known = [*sorts.kernel.assumptions.data, *plan.when.data]
        if left_open(sorts.kernel, [fits]) != () and fits not in known:
            raise bad_plan(
                plan,
                f'sorts a row of {sorts.row.size} in a tile of {columns}; add "{fits}" to its '
                "when, or choose memory",
            )
    if not sorts.is_plain and way in ("passes", "memory"):
        why = f"is {way} for a sort of which more is made"
        refuse_choice(plan, "algo_choice", why, f'{{"sorts": "{MAPPED}"}}')
    if sorts.is_plain and way == MAPPED:
        refuse_choice(plan, "algo_choice", f"is {MAPPED} for a sort alone", '{"sorts": "passes"}')
    passes = digits_of(sorts) if way in PASSES else 1
    if plan.integer("stages") != passes:
        refuse_choice(plan, "stages", "this sort does not have", str(passes))
    if way in PASSES and plan.threads() < 1 << DIGIT:
        raise bad_plan(
            plan,
            f"has {plan.threads()} threads count {1 << DIGIT} values of a digit; let a block have "
            "as many threads",
        )
    if plan.flag("persistent"):
        refuse_choice(plan, "persistent", "kernels that sort do not have", "false")
    if max(plan.integers("cluster")) > 1:
        refuse_choice(plan, "cluster", "kernels that sort do not have", "[1, 1]")
    if plan.raster.data != "row":
        refuse_choice(plan, "raster", "kernels that sort do not have", '"row"')
    check_group(plan)


SORTS = Family("sorts", find_sorts, schedules, check, restated, contracts=False)
"""Rows that are sorted, or of which the least are wanted."""
