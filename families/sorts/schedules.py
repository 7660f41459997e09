"""The schedules of a region that sorts rows: a block has a row (S8, S9.3).

A row that fits is sorted in shared memory.  Of a row of any length the least are kept there while
it goes by (``pool``).  A whole row of any length is written to memory and sorted where it lies,
step by step of the same network: right, and slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.families.facts import left_open, power_of_two
from polyc.families.family import Family, Fields, bad_plan, check_schedule, refuse_choice
from polyc.families.sorts.recognise import Sorts, find_sorts
from polyc.families.structure import check_group

WARP = 32
"""Threads of a warp."""

TILES = (256, 1024, 4096, 16384)
"""Lengths of rows that are sorted in shared memory, each by a kernel of its own."""

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
        if tile * sorts.size + SPARE > ARCHS[arch].shared_bytes:
            continue
        fits = Assumption(Dim.const(tile) - sorts.row.size, ">=")
        if left_open(sorts.kernel, [fits]) is None:
            continue
        if known is not None:
            tile = max(power_of_two(max(1, known)), WARP * vector)
        name = f"shared_{tile}{suffix}"
        yield _schedule(sorts, arch, name, "shared", tile, vector, [*facts, fits])
    yield _schedule(sorts, arch, f"memory{suffix}", "memory", THREADS * OF_THREAD, vector, facts)


def _power(size: Dim, limit: int) -> int:
    """The least power of two that a known size does not exceed, or ``limit``, a power of two."""
    known = size.constant()
    return limit if known is None else min(limit, power_of_two(max(1, known)))


def threads_of(tile: int, vector: int) -> int:
    """Threads that have a tile of a row together: each a vector at least."""
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
    warps = threads_of(tile, vector) // WARP
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [1, tile, 1],
        "stages": 1,
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
    """How a schedule sorts: ``shared``, ``pool`` or ``memory``."""
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
        wanted = "memory" if sorts.least is None else "pool"
        refuse_choice(plan, "algo_choice", f"is {way} for this sort", f'{{"sorts": "{wanted}"}}')
    elements = columns if sorts.least is None else pool_room(plan, sorts.least)
    if way != "memory" and elements * sorts.size + SPARE > plan.target.shared_bytes:
        raise bad_plan(
            plan,
            f"has {elements} elements of {sorts.size} bytes in shared memory, and there are "
            f"{plan.target.shared_bytes} bytes",
        )
    if way == "shared":
        fits = Assumption(Dim.const(columns) - sorts.row.size, ">=")
        known = [*sorts.kernel.assumptions.data, *plan.when.data]
        if left_open(sorts.kernel, [fits]) != () and fits not in known:
            raise bad_plan(
                plan,
                f'sorts a row of {sorts.row.size} in a tile of {columns}; add "{fits}" to its '
                "when, or choose memory",
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
