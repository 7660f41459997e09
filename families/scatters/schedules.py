"""The schedules of a region that scatters: a block has a tile of the result (S8, S9.3).

A block combines the updates that fall into its tile, in their order, so that no two blocks write
one element, and runs repeat to the bit.  It looks for them among all, or kernels ahead of it have
found those of each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import cast

from polyc.cost.time import modelled
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.families.facts import holds_always, left_open, power_of_two
from polyc.families.family import Family, Fields, bad_plan, check_schedule, refuse_choice
from polyc.families.scatters.recognise import Scatters, find_scatters
from polyc.families.structure import check_raster

THREADS = 256
"""Threads of a block."""

WIDE = 256
"""Columns of a tile at most."""

OF_THREAD = 8
"""Elements of a tile that a thread has, at most."""

AT_LEAST = 4
"""And at least, where kernels ahead find updates."""

HIGH = 16
"""Rows of a tile whose updates are pooled, at least."""

ELEMENTS = 8192
"""Its elements, where rows have several."""

ALONE = 2048
"""And where they have one."""

BROAD = 512
"""Columns of one, at most."""

POOLED = 2048
"""Updates whose indices a block looks at before it takes those that fall into its tile."""

MANY = 256
"""Updates from which on this pays."""

SEVERAL = 1024
"""And from which on kernels ahead that find the updates of each row do."""

SOME = 16
"""And one that finds the last of each."""

MOST = 1 << 29
"""Updates of which kernels ahead can make lists at most, and places that have one."""


def schedules(scatters: Scatters, arch: str) -> list[ScheduleOp]:
    """The schedules for an architecture, in order of dispatch; the last takes every size.

    Of known sizes it is the fastest by the model of time.
    """
    found: list[ScheduleOp] = []
    for vector, facts in _widths(scatters):
        for way, more in _ways(scatters):
            when = left_open(scatters.kernel, [*facts, *more])
            if when is None:
                continue
            found.append(_schedule(scatters, arch, _variant(way, vector), vector, when, way))
            if not when and scatters.kernel.symbol_names:
                return found
        if found and not found[-1].when.data:
            break
    if scatters.kernel.symbol_names:
        return found
    return [min(found, key=lambda plan: modelled(scatters.kernel, plan, {}).seconds)]


def _widths(scatters: Scatters) -> Iterator[tuple[int, list[Assumption]]]:
    """The widest vectors that lines along the columns may be multiples of, and none."""
    sizes = [element_bytes(without_sign(kind)) for kind in scatters.beside]
    vector = min(OF_THREAD, MAX_VECTOR_BYTES // max(sizes, default=4))
    while vector > 1:
        facts = [Assumption(n.mod(vector), "==") for n in scatters.lengths]
        if facts and left_open(scatters.kernel, facts) is not None:
            yield vector, facts
            break
        vector //= 2
    yield 1, []


def _variant(way: str, vector: int) -> str:
    """What a schedule of a way is called."""
    if way == "serial":
        return "vector" if vector > 1 else "scalar"
    return f"{way}_vector" if vector > 1 else way


def _ways(scatters: Scatters) -> Iterator[tuple[str, list[Assumption]]]:
    """The ways that there are, each with what it asks of sizes; the last asks nothing."""
    count = prod((size for _, size in scatters.over), start=Dim.const(1))
    for way, least in (("last", SOME), ("atomic", SOME), ("listed", SEVERAL)):
        lists = scatters.each if way == "atomic" else scatters.lists
        if lists is None or _unlike(scatters, way) is not None:
            continue
        rows = prod((one.axis.size for one in lists.placed), start=Dim.const(1))
        batch = prod((axis.size for axis in lists.batch), start=Dim.const(1))
        whole = (rows * batch, count * batch)
        countable = [Assumption(Dim.const(MOST) - size, ">=") for size in whole]
        if not scatters.kernel.symbol_names:
            least = SOME  # The model of time says where they pay.
        yield way, [Assumption(count - least, ">="), *countable]
        break
    if _unlike(scatters, "pooled") is None:
        yield "pooled", [Assumption(count - MANY, ">=")]
    yield "serial", []


def tile_of(scatters: Scatters, vector: int) -> tuple[int, int]:
    """The rows and columns of a tile."""
    column, row = scatters.column, scatters.row
    if column is None:
        return (1, ARCHS["sm_90a"].warp) if row is None else (THREADS * 2, 1)
    columns = min(WIDE, 32 * vector) if row is not None else THREADS * max(vector, 2)
    known = column.size.constant()
    if known is not None:
        columns = min(columns, max(vector, power_of_two(max(1, known))))
    if row is None:
        return 1, max(columns, ARCHS["sm_90a"].warp)
    rows = max(1, THREADS * max(vector, 2) // columns)
    known = row.size.constant()
    if known is not None:
        rows = min(rows, power_of_two(max(1, known)))
    while rows * columns < ARCHS["sm_90a"].warp:
        columns *= 2
    return rows, columns


def pool_tile_of(scatters: Scatters, vector: int) -> tuple[int, int]:
    """The same of a schedule that pools updates."""
    if scatters.column is None:
        return ALONE, 1
    columns, known = BROAD, scatters.column.size.constant()
    if known is not None:
        columns = max(vector, min(BROAD, power_of_two(max(1, known))))
    return max(HIGH, min(ELEMENTS, ALONE * columns) // columns), columns


def list_tile_of(scatters: Scatters, vector: int) -> tuple[int, int]:
    """The same of one whose kernels ahead find the updates of each row."""
    if scatters.column is None:
        return THREADS, 1
    elements = THREADS * max(vector, AT_LEAST)
    columns, known = WIDE, scatters.column.size.constant()
    if known is not None:
        columns = max(vector, min(THREADS * vector, power_of_two(max(1, known))))
    rows = max(1, elements // columns)
    assert scatters.row is not None
    known = scatters.row.size.constant()
    if known is not None:
        rows = min(rows, power_of_two(max(1, known)))
    while rows * columns < ARCHS["sm_90a"].warp * vector:
        rows *= 2
    return rows, columns


def _schedule(
    scatters: Scatters,
    arch: str,
    variant: str,
    vector: int,
    when: Sequence[Assumption],
    way: str = "serial",
) -> ScheduleOp:
    tiles = {"serial": tile_of, "pooled": pool_tile_of}
    rows, columns = tiles.get(way, list_tile_of)(scatters, vector)
    warp = ARCHS[arch].warp
    warps = max(1, min(THREADS, rows * columns // vector) // warp)
    chosen: Fields = {
        "arch": arch,
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [rows, columns, 1],
        "stages": 1,
        "warp_tile": warp_tile_of((rows, columns), warps),
        "vectorize": vector,
        "algo_choice": {"scatters": way},
    }
    name = scatters.kernel.sym_name.data
    op = ScheduleOp(name, variant, {**chosen, **restated(scatters, chosen)}, when)
    check_schedule(op)
    return op


def warp_tile_of(tile: tuple[int, int], warps: int) -> list[int]:
    """What each warp has of a tile: whole rows, or part of one."""
    rows, columns = tile
    by_rows = min(rows, warps)
    return [rows // by_rows, columns // (warps // by_rows)]


def restated(scatters: Scatters, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the region and a schedule's other ones."""
    kernel = scatters.kernel
    rows, columns, _ = cast("list[int]", fields["tile"])
    bind: Record = {axis.label: "block.x" for axis in scatters.outer}
    tails: list[str] = []
    for axis, step in ((scatters.row, rows), (scatters.column, columns)):
        if axis is None:
            continue
        bind[f"{axis.label}.o"] = "block.x"
        whole = Assumption(axis.size.mod(step), "==")
        if not holds_always(whole, kernel.assumptions, kernel.symbol_names):
            tails.append(axis.label)
    column = scatters.column
    return {
        "vectorize_axis": "" if column is None else f"{column.label}.i.i",
        "bind": bind,
        "predicate_tail": tails,
    }


def check(scatters: Scatters, plan: ScheduleOp) -> None:
    """Refuse a user's schedule that threads do not part, or that has what scatters do not."""
    rows, columns, depth = plan.tile_sizes
    if columns % plan.integer("vectorize"):
        raise bad_plan(
            plan,
            f"has tiles of {columns} columns, no multiple of its vectors of "
            f"{plan.integer('vectorize')}",
        )
    if depth != 1:
        raise bad_plan(plan, f"has a tile of depth {depth}, and updates go one by one; make it 1")
    if rows > 1 and scatters.row is None:
        raise bad_plan(plan, f"has {rows} rows in a tile, and the result has one axis at most")
    if rows * columns % plan.threads():
        raise bad_plan(
            plan,
            f"has {plan.threads()} threads that do not share a tile of {rows}x{columns} evenly",
        )
    way = str(record_of(plan.algo_choice)["scatters"])
    if (why := _unlike(scatters, way)) is not None:
        refuse_choice(plan, "algo_choice", why, '{"scatters": "serial"}')
    if way == "pooled" and POOLED % plan.threads():
        raise bad_plan(plan, f"has {plan.threads()} threads that do not share {POOLED} updates")
    if way != "serial" and not _below_each_other(plan):
        raise bad_plan(
            plan,
            f"has {plan.threads()} threads that do not lie in rows below each other, by vectors of "
            f"{plan.integer('vectorize')}, in a tile of {rows}x{columns}",
        )
    check_raster(plan)
    if max(plan.integers("cluster")) > 1:
        refuse_choice(plan, "cluster", "scatters do not have", "[1, 1]")
    if plan.integer("split_k") > 1:
        refuse_choice(plan, "split_k", "scatters do not have", "1")


def _unlike(scatters: Scatters, way: str) -> str | None:
    """Why a region's updates are not found in a way, or None where they are."""
    lists = scatters.lists
    if way == "pooled" and scatters.single is None:
        return "pools updates that fall to a row each, and these do not"
    if way == "atomic" and (scatters.each is None or scatters.key is None):
        return "combines updates in any order, as each element's own extreme or sum of 32 bits"
    if way in ("listed", "last") and (lists is None or scatters.row is None):
        return "lists the updates of each place, which indices of these do not say"
    if way in ("listed", "last"):
        assert lists is not None and scatters.row is not None
        if scatters.row.label not in {one.axis.label for one in lists.placed}:
            return "lists the updates of each row, which indices of these do not say"
    if way == "listed":
        if scatters.scatter.fn.data == "set":
            return "combines the updates of each place, of which the last one stays"
        if lists is not None and not lists.labels.isdisjoint(scatters.lone):
            return "lists updates that are the same at each place, and these differ"
    if way == "last" and scatters.scatter.fn.data != "set":
        return f"takes the last update of each place, and these {scatters.scatter.fn.data} all"
    return None


def _below_each_other(plan: ScheduleOp) -> bool:
    """Whether threads that lie along the columns first have as many elements each."""
    rows, columns, _ = plan.tile_sizes
    vector, threads = plan.integer("vectorize"), plan.threads()
    across = min(threads, columns // vector)
    return not (threads % across or columns % (across * vector) or rows % (threads // across))


SCATTERS = Family("scatters", find_scatters, schedules, check, restated, contracts=False)
"""Regions that combine updates into values where indices say so."""
