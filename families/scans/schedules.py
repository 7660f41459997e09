"""The schedules of regions with a scan (S8, S9).

``serial``  a thread walks the axis of its elements, one after another: right for everything, and
            fast where the other axes give enough threads
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import is_integer
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.checks import shape_text
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.dialects.region.types import ValType
from polyc.families.facts import holds_always, left_open, pointers_promised, power_of_two
from polyc.families.family import Family, Fields, bad_plan, check_schedule, refuse_choice
from polyc.families.scans.recognise import Scans, find_scans, neighbour_of
from polyc.families.structure import check_raster

THREADS = 128
"""Of a block whose threads walk alone."""

WIDE = 32
"""Columns of its tile at least, where there are so many: a warp's."""

VECTOR = 8
"""Elements of the widest access."""


def schedules(scans: Scans, arch: str) -> list[ScheduleOp]:
    """The schedules of a region, in order of dispatch; the last takes every size."""
    found: list[ScheduleOp] = []
    vector = vector_of(scans)
    while vector > 1:
        facts = _whole_vectors(scans, vector)
        # A thread has more to do with a vector: there are to be enough of them.
        threads = ARCHS[arch].multiprocessors * THREADS
        points = prod((scans.size(a) for a in scans.labels), start=Dim.const(1))
        facts.append(Assumption(points - threads * vector, ">="))
        when = left_open(scans.kernel, facts)
        if when is not None:
            found.append(_serial(scans, arch, f"vector{vector}", vector, when))
            if not when and pointers_promised(scans.kernel, found[-1].widest):
                return found
        vector //= 2
    found.append(_serial(scans, arch, "scalar", 1, ()))
    return found


def vector_of(scans: Scans) -> int:
    """Elements of neighbouring columns that one access can take at most: 1 where none lie so."""
    column = scans.column
    kinds = [cast("ValType", value.type) for value in scans.values]
    if column is None or any(kind.labels[-1] != column for kind in kinds):
        return 1
    if scans.size(column).constant() == 0 or scans.size(scans.along).constant() == 0:
        return 1
    if scans.reads and column not in {neighbour_of(op) for op in scans.reads}:
        return 1
    widest = max(element_bytes(t.element_type) for t in scans.kernel.seen)
    if is_integer(scans.scan.accumulator):
        widest = max(widest, 4)
    return min(VECTOR, MAX_VECTOR_BYTES // widest)


def _whole_vectors(scans: Scans, vector: int) -> list[Assumption]:
    """That the lines of all tensors that have columns are whole vectors."""
    lines = [out.shape[-1] for out in scans.kernel.outs if out.shape]
    return [Assumption(line.mod(vector), "==") for line in dict.fromkeys(lines)]


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
    least = 32 * vector
    return (rows, columns) if rows * columns >= least else (rows, max(1, least // rows))


def _serial(
    scans: Scans, arch: str, variant: str, vector: int, when: Sequence[Assumption]
) -> ScheduleOp:
    rows, columns = tile_of(scans, vector)
    return _schedule(scans, arch, variant, "serial", (rows, columns), vector, when)


def _schedule(
    scans: Scans,
    arch: str,
    variant: str,
    algorithm: str,
    tile: tuple[int, int],
    vector: int,
    when: Sequence[Assumption],
) -> ScheduleOp:
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [*tile, 1],
        "stages": 1,
        "warp_tile": warp_tile_of(tile, prod(tile) // vector // ARCHS[arch].warp),
        "vectorize": vector,
        "algo_choice": {"scans": algorithm},
    }
    name = scans.kernel.sym_name.data
    op = ScheduleOp(name, variant, {**chosen, **restated(scans, chosen)}, when)
    check_schedule(op)
    return op


def warp_tile_of(tile: tuple[int, int], warps: int) -> list[int]:
    """What each of so many warps has of a tile: whole rows, or the same part of them."""
    rows, columns = tile
    down = min(rows, warps)
    return [rows // down, columns * down // warps]


def restated(scans: Scans, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the region and a schedule's other ``fields``."""
    kernel = scans.kernel
    rows, columns, _ = cast("list[int]", fields["tile"])
    bind: Record = {}
    tails: dict[str, None] = {}
    steps = (*(1 for _ in scans.outer), rows, columns)
    for label, step in zip(scans.labels, steps, strict=True):
        if label is None:
            continue
        bind[label if label in scans.outer else f"{label}.o"] = "block.x"
        whole = Assumption(scans.size(label).mod(step), "==")
        if not holds_always(whole, kernel.assumptions, kernel.symbol_names):
            tails[label] = None
    return {
        "vectorize_axis": "" if scans.column is None else f"{scans.column}.i.i",
        "bind": bind,
        "predicate_tail": list(tails),
    }


def check(scans: Scans, plan: ScheduleOp) -> None:
    """Refuse a user's schedule whose tile does not suit the region, or that asks for more."""
    rows, columns, depth = plan.tile_sizes
    vector = plan.integer("vectorize")
    if columns % vector:
        raise bad_plan(
            plan, f"has tiles of {columns} columns, no multiple of its vectors of {vector}"
        )
    if depth != 1:
        raise bad_plan(
            plan, f"has a tile of depth {depth}, and a scan goes step by step; make it 1"
        )
    if max(plan.integers("cluster")) > 1:
        refuse_choice(plan, "cluster", "a scan does not have", "[1, 1]")
    if plan.flag("persistent"):
        refuse_choice(plan, "persistent", "a scan does not have", "false")
    if plan.cached:
        refuse_choice(plan, "cache", "a scan does not have", "[]")
    check_raster(plan)
    warps = plan.threads() // plan.target.warp
    if (wanted := warp_tile_of((rows, columns), warps)) != list(plan.warp_tile_sizes):
        raise bad_plan(
            plan,
            f"gives each of {warps} warps {shape_text(plan.warp_tile_sizes)} elements of a tile of "
            f"{rows}x{columns}, where they have {shape_text(wanted)}: whole rows, or like parts",
        )
    way = record_of(plan.algo_choice)["scans"]
    assert way == "serial"


SCANS = Family("scans", find_scans, schedules, check, restated, contracts=False)
"""Regions with a scan, which walk its axis in order."""
