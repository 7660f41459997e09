"""Scatters through all layers, down to threads: each way, with indices that are hostile to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import FLOATS, INTEGERS, ui8, ui32, ui64
from polyc.dialects.common.gathers import SCATTERS
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp, ScatterOp
from polyc.families.scatters import schedules
from polyc.families.scatters.recognise import find_scatters
from polyc.families.scatters.schedules import MANY, POOLED
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu import scatter_lists
from polyc.lowering.region_to_gpu.scatter_lists import FIRST, GROUP
from polyc.lowering.region_to_gpu.scatter_parts import below_each_other
from polyc.passes.finish import finish
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback.functions import Array, dtype_of
from polyc.playback.gpu.simulate import simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch, dim
from polyc.test.unit.lowering.region_to_gpu.test_scans import BEFORE, numbers, through
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

FEW, ENOUGH = 24, MANY + 40
"""Updates for blocks that take one by one, and for those that pool them."""


def hostile(rows: int, count: int, kind: Attribute = i64, seed: int = 0) -> Array:
    """Indices inside and below 0, many of one row, and ones outside to the ends of the type."""
    dice, ends = random.Random(seed), np.iinfo(dtype_of(kind))
    least, most = int(ends.min), int(ends.max)
    odd = (most, least, rows, -rows - 1, -rows, -1, rows - 1, 2**32 + 1, -(2**32) - 1, 0)
    found = [n for n in odd if least <= n <= most][:count]
    found += [min(1, rows - 1)] * min(count // 5, count - len(found))
    while len(found) < count:
        found.append(dice.randint(max(-rows - 2, least), min(rows + 2, most)))
    dice.shuffle(found)
    return np.asarray(found, dtype_of(kind))


@pytest.mark.parametrize(
    ("rows", "columns", "vector", "threads"),
    [(8, 64, 8, 32), (32, 8, 8, 32), (4, 512, 4, 64), (16, 5, 1, 20), (64, 32, 2, 128)],
)
def test_threads_have_rows_below_each_other(
    rows: int, columns: int, vector: int, threads: int
) -> None:
    layout = below_each_other(rows, columns, vector, threads)
    each = layout.registers.data
    held = [
        [layout.map.data.eval((thread, register), ()) for register in range(each)]
        for thread in range(threads)
    ]
    found = {(int(row), int(column)) for own in held for row, column in own}
    assert found == {(row, column) for row in range(rows) for column in range(columns)}
    assert threads * each == rows * columns, "each element once"
    across = min(threads, columns // vector)
    for own in held:
        assert len({row for row, _ in own}) == rows // (threads // across)


def rows(
    fn: str, kind: Attribute, *shape: Size, count: Size = "N", index: Attribute = i64
) -> ModuleOp:
    """Rows of a table, or elements of a line, at indices from either end."""
    s = Sketch("f", kind)
    x, i = s.input("x", *shape), s.input("i", count, element=index)
    u = s.input("u", count, *shape[1:])
    return s.done(y=s.add(frontend.ScatterOp(fn, x, i, u, 0, from_end=True)))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few updates be listed, by small blocks."""
    monkeypatch.setattr(schedules, "SEVERAL", FEW)
    monkeypatch.setattr(scatter_lists, "THREADS", 64)
    monkeypatch.setattr(scatter_lists, "LONG", SHORT)
    monkeypatch.setattr(scatter_lists, "LINKING", 64)
    monkeypatch.setattr(scatter_lists, "SLOTS", 8)
    monkeypatch.setattr(scatter_lists, "PART", 36)
    monkeypatch.setattr(scatter_lists, "GROWS", 100)
    monkeypatch.setattr(scatter_lists, "CHUNK", 128)
    monkeypatch.setattr(scatter_lists, "RUN_CHAINS", 4)


SMALL = 64
"""Updates of such a block."""

SHORT = 18
"""Updates of the longest list that is walked along."""

WAYS = {"pooled_vector": 8, "vector": 8, "pooled": 5, "scalar": 5}
"""Of each way a number of columns that it takes."""

LISTS = {"listed_vector": 8, "listed": 5}
"""Of those whose kernels ahead find the updates of each row."""


@pytest.mark.turns(4)
@pytest.mark.parametrize("fn", SCATTERS)
@pytest.mark.parametrize("way", [*WAYS, *LISTS])
@pytest.mark.usefixtures("small")
def test_rows_by_every_way(way: str, fn: str) -> None:
    number = [*WAYS, *LISTS].index(way) + SCATTERS.index(fn)
    if way in LISTS and fn == "set":
        way = way.replace("listed", "last")
    kind, arch = (f32, i32, f16)[number % 3], ("sm_80", "sm_90a")[number % 2]
    high, wide = 19, 8 if way.endswith("vector") else 5
    count = FEW if way in ("vector", "scalar") else ENOUGH
    arrays = [numbers(kind, (high, wide)), hostile(high, count), numbers(kind, (count, wide))]
    sizes = {"V": high, "D": wide, "N": count}
    through(rows(fn, kind, "V", "D"), arrays, sizes, way, arch)


@pytest.mark.turns(2)
@pytest.mark.parametrize("way", ["pooled_vector", *LISTS])
@pytest.mark.usefixtures("small")
def test_updates_that_are_gathered_are_read_where_they_go(way: str) -> None:
    """As messages along the edges of a graph are: no update is stored."""
    s = Sketch("f", f32)
    high, wide, count, arch = 19, 8 if way.endswith("vector") else 5, ENOUGH, "sm_90a"
    x, i, j = s.input("x", "V", "D"), *(s.input(name, "N", element=i64) for name in "ij")
    table, weight = s.input("t", "R", "D"), s.input("w", "N", 1)
    u = s.fn("mul", s.add(frontend.GatherOp(table, j, 0)), weight)
    module = s.done(y=s.add(frontend.ScatterOp("add", x, i, u, 0, from_end=True)))
    arrays = [numbers(f32, (high, wide)), hostile(high, count), hostile(7, count, seed=1) % 7]
    arrays += [numbers(f32, (7, wide)), numbers(f32, (count, 1))]
    through(module, arrays, {"V": high, "D": wide, "N": count, "R": 7}, way, arch)


@pytest.mark.turns(4)
@pytest.mark.parametrize("number", range(len(FLOATS + INTEGERS)))
@pytest.mark.usefixtures("small")
def test_lines_of_every_type(number: int) -> None:
    """A block has one column, or none; indices are of each integer type in turn."""
    kind = (*FLOATS, *INTEGERS)[number]
    index, fn = INTEGERS[number % len(INTEGERS)], SCATTERS[number % len(SCATTERS)]
    ahead = "last" if fn == "set" else "listed"
    if fn in ("max", "min") or (fn == "add" and kind in INTEGERS):
        ahead = "atomic"
    way, count = (("pooled", ENOUGH), ("scalar", FEW), (ahead, ENOUGH))[number % 3]
    arrays = [numbers(kind, (40,)), hostile(40, count, index), numbers(kind, (count,))]
    module = rows(fn, kind, "V", index=index)
    through(module, arrays, {"V": 40, "N": count}, way, ("sm_90a", "sm_80")[number % 2])


INDICES: dict[str, Callable[[int, int], Array]] = {
    "of one row": lambda rows, count: np.full(count, rows - 1),
    "from the end": lambda rows, count: -1 - np.arange(count) % rows,
    "none inside": lambda rows, count: np.where(np.arange(count) % 2, rows, -rows - 1),
    "falling": lambda rows, count: (rows - 1) * np.arange(count) % rows,
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("way", ["pooled", "scalar", "listed", "last"])
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.usefixtures("small")
def test_indices_of_one_kind(name: str, way: str) -> None:
    count = FEW if way == "scalar" else ENOUGH
    i = INDICES[name](7, count).astype(np.int64)
    arrays = [numbers(f32, (7, 3)), i, numbers(f32, (count, 3))]
    fn = "set" if way == "last" else "add"
    through(rows(fn, f32, "V", "D"), arrays, {"V": 7, "D": 3, "N": count}, way)


def several(rows: int, count: int) -> Array:
    """Indices that look at some rows all over, and at one row of each end again and again."""
    i = np.full(count, rows, np.int64)
    i[::31] = np.arange(len(i[::31])) * 37 % rows
    i[::90], i[7::90] = 3, -1
    i[POOLED - 1], i[POOLED] = rows - 1, 3
    return i


def test_updates_that_fill_several_pools_keep_their_order() -> None:
    """One element has updates of each pool; rows are of several blocks."""
    count, high = POOLED + 300, POOLED + 9
    i = several(high, count)
    arrays = [numbers(f32, (high,)), i, numbers(f32, (count,))]
    through(rows("add", f32, "V"), arrays, {"V": high, "N": count}, "pooled", "sm_80")


@pytest.mark.parametrize(("high", "wide", "count"), [(0, 4, 3), (3, 0, 3), (3, 4, 0), (1, 1, 1)])
def test_sizes_of_no_point_and_of_one(high: int, wide: int, count: int) -> None:
    arrays = [
        numbers(f32, (high, wide)),
        np.zeros(count, np.int64),
        numbers(f32, (count, wide)),
    ]
    sizes = {"V": high, "D": wide, "N": count}
    through(rows("add", f32, "V", "D"), arrays, sizes)
    through(rows("set", f32, high, wide, count=count), arrays, {})


@pytest.mark.parametrize("way", ["listed_vector", "listed"])
@pytest.mark.usefixtures("small")
def test_lists_of_all_lengths_keep_their_order(way: str) -> None:
    """None, the first few, and groups of further ones: a part of one, a whole one, and several."""
    further = (0, 1, GROUP - 1, GROUP, GROUP + 1, 3 * GROUP, 2 * GROUP + 2)
    lengths = [0, 1, FIRST - 1, 0, *(FIRST + n for n in further)]
    i = np.repeat(np.arange(len(lengths)), lengths).astype(np.int64)
    i = i[np.random.default_rng(1).permutation(len(i))]
    high, wide, count = len(lengths), 4 if way == "listed_vector" else 3, len(i)
    arrays = [numbers(f32, (high, wide)), i, numbers(f32, (count, wide))]
    through(rows("add", f32, "V", "D"), arrays, {"V": high, "D": wide, "N": count}, way, "sm_80")


LONG_LISTS = (SHORT - 1, SHORT, SHORT + 1, 35, 36, 37, 0, 72, 73, 100, 1, 200)
"""Lengths of lists about that of the longest one that is walked along, and about whole parts."""


@pytest.mark.turns(4)
@pytest.mark.parametrize("number", range(len(FLOATS + INTEGERS)))
@pytest.mark.usefixtures("small")
def test_long_lists_are_combined_in_parts(number: int) -> None:
    """Of each type and function, in runs of several chunks; one is of no update."""
    kind = (*FLOATS, *INTEGERS)[number]
    functions = ("add", "max", "min", "mul")
    i = np.repeat(np.arange(len(LONG_LISTS)), LONG_LISTS).astype(np.int64)
    i = i[np.random.default_rng(number).permutation(len(i))]
    count, high, wide = len(i), len(LONG_LISTS), 8 if number % 2 else 3
    for fn in (functions[number % 4], functions[(number + 1) % 4]):
        arrays = [numbers(kind, (high, wide)), i, numbers(kind, (count, wide))]
        sizes = {"V": high, "D": wide, "N": count}
        way = "listed_vector" if wide == 8 else "listed"
        through(rows(fn, kind, "V", "D"), arrays, sizes, way, ("sm_90a", "sm_80")[number % 2])


@pytest.mark.parametrize("fn", ["max", "min"])
@pytest.mark.usefixtures("small")
def test_the_ends_of_numbers_without_a_sign_are_in_their_order(fn: str) -> None:
    count = 5 * SHORT
    ends = np.asarray([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    given = ends[np.arange(count * 3).reshape(count, 3) % (4 if fn == "max" else 5)]
    x = np.asarray([[5, 2**63 + 1, 0], [0, 2**63, 1]], np.uint64)
    arrays = [x, np.zeros(count, np.int64), given]
    through(rows(fn, ui64, "V", "D"), arrays, {"V": 2, "D": 3, "N": count}, "listed")


def test_one_list_has_all_updates() -> None:
    """Of the sizes that parts and chunks have: what is sorted by three blocks."""
    count = 2 * scatter_lists.CHUNK + 300
    i = np.where(np.arange(count) % 9 == 8, 5, 2).astype(np.int64)
    arrays = [numbers(f32, (9,)), i, numbers(f32, (count,))]
    through(rows("add", f32, "V"), arrays, {"V": 9, "N": count}, "listed")


@pytest.mark.parametrize("chunks", [4, 9])
@pytest.mark.usefixtures("small")
def test_chunks_take_chains_of_runs_in_turn(chunks: int) -> None:
    """Of two lists: one has a run in each chunk, one in the last ones alone; the parts of a tile's
    longest list are no multiple of those that come at once."""
    count = (chunks - 1) * scatter_lists.CHUNK + 50
    late = np.arange(count) % 2 + np.arange(count) // (count - scatter_lists.CHUNK) == 2
    i = np.where(late, 5, 2).astype(np.int64)
    arrays = [numbers(f32, (9,)), i, numbers(f32, (count,))]
    through(rows("add", f32, "V"), arrays, {"V": 9, "N": count}, "listed")


def test_blocks_of_the_size_that_they_have_make_lists() -> None:
    count = 2 * scatter_lists.THREADS + 600
    arrays = [numbers(f32, (9,)), hostile(9, count), numbers(f32, (count,))]
    through(rows("add", f32, "V"), arrays, {"V": 9, "N": count}, "listed")


@pytest.mark.parametrize(
    ("fn", "way"), [("add", "vector"), ("set", "vector"), ("add", "listed"), ("set", "last_vector")]
)
@pytest.mark.usefixtures("small")
def test_updates_that_fall_to_a_place_of_several_axes(fn: str, way: str) -> None:
    """One by one, or each element has a list of its own."""
    s, count = Sketch("f", f32), FEW if way == "vector" else ENOUGH
    x, i, u = s.input("x", "V", "D"), s.input("i", "N", 2, element=i64), s.input("u", "N")
    module = s.done(y=s.add(frontend.ScatterNdOp(fn, x, i, u, 0, from_end=True)))
    wide = 5 if way == "listed" else 8
    at = np.stack([hostile(5, count, seed=1), hostile(wide, count, seed=2)], 1)
    arrays = [numbers(f32, (5, wide)), at, numbers(f32, (count,))]
    through(module, arrays, {"V": 5, "D": wide, "N": count}, way)


@pytest.mark.parametrize(("fn", "way"), [("mul", "listed_vector"), ("set", "last_vector")])
@pytest.mark.usefixtures("small")
def test_blocks_of_rows_at_a_place_of_two_axes(fn: str, way: str) -> None:
    """Rows of the third axis, which have a list of two indices."""
    s = Sketch("f", f32)
    x, i, u = s.input("x", "A", "V", "D"), s.input("i", "N", 2, element=i32), s.input("u", "N", "D")
    module = s.done(y=s.add(frontend.ScatterNdOp(fn, x, i, u, 0, from_end=True)))
    at = np.stack([hostile(3, 70, i32, seed=1), hostile(4, 70, i32, seed=2)], 1)
    arrays = [numbers(f32, (3, 4, 4)), at, numbers(f32, (70, 4))]
    through(module, arrays, {"A": 3, "V": 4, "D": 4, "N": 70}, way, "sm_80")


@pytest.mark.parametrize(("fn", "way"), [("add", "listed"), ("set", "last")])
@pytest.mark.usefixtures("small")
def test_updates_that_are_along_two_axes(fn: str, way: str) -> None:
    """There are fewer columns of updates than of the table, and their places are indices too."""
    s = Sketch("f", f32)
    x, i, u = s.input("x", "V", 5), s.input("i", "N", 3, element=i64), s.input("u", "N", 3)
    module = s.done(y=s.add(frontend.ScatterElementsOp(fn, x, i, u, 0, from_end=True)))
    at = hostile(4, 60).reshape(20, 3)
    arrays = [numbers(f32, (4, 5)), at, numbers(f32, (20, 3))]
    through(module, arrays, {"V": 4, "N": 20}, way)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("way", ["listed", "last", "atomic"])
@pytest.mark.usefixtures("small")
def test_each_line_has_lists_of_its_own(way: str, axis: int) -> None:
    """An index for each update: of each column a list a row, or of each row one a column."""
    s = Sketch("f", f16)
    x = s.input("x", "V", "D")
    shape: Sequence[Size] = ("N", "D") if axis == 0 else ("V", "N")
    i, u = s.input("i", *shape, element=i32), s.input("u", *shape)
    fn = {"last": "set", "listed": "mul", "atomic": "max"}[way]
    module = s.done(y=s.add(frontend.ScatterElementsOp(fn, x, i, u, axis, from_end=True)))
    there = (4, 70) if axis else (70, 6)
    at = hostile((4, 6)[axis], 70 * there[1 - axis], i32).reshape(there)
    through(module, [numbers(f16, (4, 6)), at, numbers(f16, there)], {"V": 4, "D": 6, "N": 70}, way)


@pytest.mark.parametrize("axis", [0, 1])
def test_an_index_for_each_update(axis: int) -> None:
    """Along columns a line has updates of its own, which are pooled; along rows they are not."""
    s = Sketch("f", f16)
    x = s.input("x", "V", "D")
    shape: Sequence[Size] = ("N", "D") if axis == 0 else ("V", "N")
    i, u = s.input("i", *shape, element=i32), s.input("u", *shape)
    module = s.done(y=s.add(frontend.ScatterElementsOp("add", x, i, u, axis, from_end=True)))
    count = ENOUGH if axis else FEW
    there = (4, count) if axis else (count, 6)
    at = hostile((4, 6)[axis], count * there[1 - axis], i32).reshape(there)
    sizes = {"V": 4, "D": 6, "N": count}
    way = "pooled" if axis else "scalar"
    through(module, [numbers(f16, (4, 6)), at, numbers(f16, there)], sizes, way)


# Atomics --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fn", ["max", "min", "add"])
@pytest.mark.parametrize("kind", [f32, f16, bf16, i32, i8, ui8, ui32, i64, ui64], ids=str)
def test_atomics_find_extremes_and_sums_of_integers(fn: str, kind: Attribute) -> None:
    """Of NaN, infinities and zeros of either sign too, and of the ends of integers' types."""
    if fn == "add" and kind in FLOATS:
        return
    updates, x = numbers(kind, (40,)), numbers(kind, (9,))
    if kind in FLOATS:
        ends = (np.nan, np.inf, -np.inf, -0.0, 0.0, -np.nan)
        updates[:6], x[4:7] = ends, (np.nan, -np.inf, -0.0)
    else:
        updates[:4] = (np.iinfo(updates.dtype).min, np.iinfo(updates.dtype).max) * 2
        x[:2] = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    at = hostile(9, 40)
    at[:6] = (0, 1, 2, 3, 3, 5)
    sizes, way = {"V": 9, "N": 40}, "atomic"
    arch = "sm_80" if kind == f16 else "sm_90a"
    through(rows(fn, kind, "V"), [x, at, updates], sizes, way, arch)


COUNTED = {
    "each place has a slot": (9, 5000),
    "as many places as slots": (2048, 3000),
    "places share slots": (5000, 3000),
    "few updates": (9, 40),
    "two places": (2, 1100),
}


def counted(
    high: int, count: Size, kind: Attribute, added: float = 1.0, start: float = 0.0
) -> ModuleOp:
    """How many indices fall to a place, as sums of real numbers."""
    s = Sketch("f", kind)
    i = s.input("i", count, element=i64)
    x, u = (
        s.add(frontend.ExpandOp(s.number(one), [], frontend.tensor([dim(size)], kind)))
        for one, size in ((start, high), (added, count))
    )
    return s.done(y=s.add(frontend.ScatterOp("add", x, i, u, 0, from_end=True)))


@pytest.mark.parametrize("name", COUNTED)
def test_sums_of_whole_numbers_are_counted_in_tables_of_blocks(name: str) -> None:
    """Compiled without a spill too."""
    high, count = COUNTED[name]
    number = list(COUNTED).index(name)
    kind, arch = (f32, f16)[number % 2], ("sm_90a", "sm_80")[number % 2]
    module = counted(high, count, kind, (1.0, -3.0)[number % 2], 2.0)
    i = hostile(high, count, seed=number)
    through(module, [i], {}, "atomic", arch, compiles=True)


@pytest.mark.parametrize("kind", [i32, ui8, f32], ids=str)
def test_many_updates_of_few_places_are_combined_in_tables_of_blocks(kind: Attribute) -> None:
    """Sums of integers and extremes, of a place with most updates and of ones that share slots."""
    fn = "max" if kind == f32 else "add"
    for high in (7, 3000):
        arrays = [numbers(kind, (high,)), hostile(high, 2500), numbers(kind, (2500,))]
        through(rows(fn, kind, high, count=2500), arrays, {}, None)


@pytest.mark.parametrize(
    ("added", "start", "count"),
    [(0.5, 0.0, 2000), (1.0, -0.0, 2000), (1.0, 0.25, 2000), (2.0**14, 0.0, 2000), (1.0, 0.0, "N")],
)
def test_sums_that_may_be_rounded_are_not_counted(added: float, start: float, count: Size) -> None:
    """Of numbers that are no integers, of -0, of sums that f32 may not have, and of open sizes."""
    module = counted(9, count, f32, added, start)
    for name in BEFORE:
        run_pass(make_context(), build(name, "sm_90a"), module)
    assert not find_scatters(only(module, KernelOp)).counts


@pytest.mark.parametrize(("kind", "added"), [(i64, 1), (ui64, 3), (i64, -70000), (ui64, 1 << 30)])
def test_sums_of_64_bits_that_32_have_are_counted_in_tables_of_blocks(
    kind: Attribute, added: int
) -> None:
    """What updates make together is of 32 bits where that holds it, whatever it is added to."""
    module = counted(300, 1500, kind, added, 5)
    i = hostile(300, 1500, seed=added % 7)
    regions = through(module, [i], {}, "atomic", "sm_90a", compiles=True)
    assert find_scatters(only(regions, KernelOp)).is_narrow == (1500 * abs(added) < 1 << 31)


@pytest.mark.parametrize("element", [i1, i8, ui8, i32], ids=str)
def test_sums_of_casts_are_as_narrow_as_what_is_cast(element: Attribute) -> None:
    """As conditions or bytes that are counted in 64 bits; a number of 32 may come to more."""
    s = Sketch("f", i64)
    i, u = s.input("i", 400, element=i64), s.input("u", 400, element=element)
    x = s.add(frontend.ExpandOp(s.number(0), [], frontend.tensor([dim(9)], i64)))
    wide = s.add(frontend.CastOp(u, i64))
    module = s.done(y=s.add(frontend.ScatterOp("add", x, i, wide, 0, from_end=True)))
    given = numbers(element, (400,)) if element != i1 else np.arange(400) % 3 == 0
    regions = through(module, [hostile(9, 400), given], {}, "atomic")
    assert find_scatters(only(regions, KernelOp)).is_narrow == (element != i32)


@pytest.mark.parametrize(
    ("fn", "kind"),
    [("add", f32), ("add", f16), ("max", bf16), ("min", i8), ("mul", f32), ("add", ui64)],
    ids=str,
)
def test_many_updates_of_an_axis_of_one_point_are_reduced(fn: str, kind: Attribute) -> None:
    """Those that are not left out; as few as are rounded in their order are a scatter."""
    for count in (64, 150):
        arrays = [numbers(kind, (2, 1, 3)), hostile(1, count), numbers(kind, (2, count, 3))]
        s = Sketch("f", kind)
        x, i = s.input("x", 2, 1, 3), s.input("i", count, element=i64)
        u = s.input("u", 2, count, 3)
        module = s.done(y=s.add(frontend.ScatterOp(fn, x, i, u, 1, from_end=True)))
        regions = through(module, arrays, {})
        assert bool(find(regions, ScatterOp)) == (count == 64)


@pytest.mark.parametrize(
    ("fn", "kind", "count"),
    [("add", f32, 600), ("add", f16, 601), ("mul", bf16, 600)],
    ids=str,
)
def test_many_updates_of_few_places_are_in_groups(fn: str, kind: Attribute, count: int) -> None:
    """Groups of updates that follow each other, the last one filled up, along an axis between
    others and of a line."""
    for shape, axis in (((2, 3, 5), 1), ((3,), 0)):
        s = Sketch("f", kind)
        of_updates = (*shape[:axis], count, *shape[axis + 1 :])
        x, i = s.input("x", *shape), s.input("i", count, element=i64)
        u = s.input("u", *of_updates)
        module = s.done(y=s.add(frontend.ScatterOp(fn, x, i, u, axis, from_end=True)))
        arrays = [numbers(kind, shape), hostile(3, count), numbers(kind, of_updates)]
        if fn == "mul":
            arrays[2] = np.where(np.arange(count) % 50 == 0, 1.5, 1.0).reshape(
                [count if n == axis else 1 for n in range(len(shape))]
            ) * np.ones(of_updates)
            arrays[2] = arrays[2].astype(dtype_of(kind))
        regions = through(module, arrays, {})
        kernels = find(regions, KernelOp)
        (of_groups,) = (kernel for kernel in kernels if find(kernel, ScatterOp))
        (out,) = of_groups.outs
        assert len(out.shape) == len(shape) + 1, "each group has a result of its own"


@pytest.mark.parametrize(
    ("fn", "kind", "count"),
    [("add", i32, 600), ("max", f32, 600), ("add", f32, 192), ("set", f32, 600)],
    ids=str,
)
def test_others_are_in_no_groups(fn: str, kind: Attribute, count: int) -> None:
    """Integers and extremes have no order, and few updates of each place have lists."""
    module = rows(fn, kind, 3, 5, count=count)
    for name in BEFORE:
        run_pass(make_context(), build(name, "sm_90a"), module)
    assert all(len(out.shape) == 2 for kernel in find(module, KernelOp) for out in kernel.outs)


def test_rows_of_which_each_element_has_updates_are_atomics_and_others_not() -> None:
    """One index is for all rows of updates along a line, and not for the lines of a row."""
    s = Sketch("f", i32)
    x, i, u = s.input("x", 3, "V"), s.input("i", "N", element=i64), s.input("u", 3, "N")
    module = s.done(y=s.add(frontend.ScatterOp("add", x, i, u, 1, from_end=True)))
    arrays = [numbers(i32, (3, 11)), hostile(11, 50), numbers(i32, (3, 50))]
    through(module, arrays, {"V": 11, "N": 50}, "atomic")
    # Updates of a row are read together, and sums of real numbers have an order.
    for fn, kind, shape in (("max", f32, (9, 4)), ("add", f32, (9,))):
        module = rows(fn, kind, *shape, count=50)
        for name in BEFORE:
            run_pass(make_context(), build(name, "sm_90a"), module)
        kernel = only(module, KernelOp)
        names = [plan.variant.data for plan in schedules.schedules(find_scatters(kernel), "sm_90a")]
        assert not any("atomic" in name for name in names)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_atomics_compile_without_a_spill(arch: str) -> None:
    for fn, kind in (("max", f16), ("min", f32), ("add", i32), ("add", i64), ("min", ui64)):
        arrays = [numbers(kind, (9,)), hostile(9, 40), numbers(kind, (40,))]
        module = rows(fn, kind, "V")
        through(module, arrays, {"V": 9, "N": 40}, "atomic", arch, compiles=True)


# Around a scatter -----------------------------------------------------------------------------


def around(s: Sketch, kind: Attribute) -> ModuleOp:
    """Indices, updates and a table that are computed, and what is made of the result."""
    x, i, u = s.input("x", "V", "D"), s.input("i", "N", element=i32), s.input("u", "N", "D")
    at = s.fn("add", i, s.number(1, i32))
    new = s.fn("mul", s.fn("tanh", u), s.number(0.5, kind))
    found = s.add(frontend.ScatterOp("add", s.fn("neg", x), at, new, 0))
    return s.done(y=s.fn("add", s.fn("relu", found), x), z=s.cast(found, f16))


@pytest.mark.turns(2)
@pytest.mark.parametrize("way", [*WAYS, *LISTS])
@pytest.mark.usefixtures("small")
def test_what_is_elementwise_around_is_of_the_kernel(way: str) -> None:
    high, wide = 9, {**WAYS, **LISTS}[way]
    count = FEW if way in ("vector", "scalar") else ENOUGH
    arrays = [numbers(f32, (high, wide)), hostile(high, count, i32), numbers(f32, (count, wide))]
    arrays[1] = np.clip(arrays[1], -1000, 1000)
    sizes = {"V": high, "D": wide, "N": count}
    regions = through(around(Sketch("f", f32), f32), arrays, sizes, way)
    assert len(find(regions, KernelOp)) == 1


# Code -----------------------------------------------------------------------------------------


@pytest.mark.turns(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", [f16, f32, i64, ui8], ids=str)
def test_every_way_compiles_without_a_spill(kind: Attribute, arch: str) -> None:
    """Each variant of a kernel with what is around, and of a line."""
    arrays = [numbers(kind, (3, 5)), hostile(3, 4), numbers(kind, (4, 5))]
    module = rows("mul", kind, "V", "D")
    through(module, arrays, {"V": 3, "D": 5, "N": 4}, None, arch, compiles=True)
    arrays = [numbers(kind, (5,)), hostile(5, 4), numbers(kind, (4,))]
    module = rows("set", kind, "V")
    through(module, arrays, {"V": 5, "N": 4}, None, arch, compiles=True)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_rows_of_bytes_are_summed_without_a_spill(arch: str) -> None:
    """A thread has more of their elements than of wider ones."""
    arrays = [numbers(i8, (3, 16)), hostile(3, 4), numbers(i8, (4, 16))]
    module = rows("add", i8, "V", "D")
    through(module, arrays, {"V": 3, "D": 16, "N": 4}, None, arch, compiles=True)


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("kind", "sizes", "room"),
    [
        (f16, (1 << 18, 128, 1 << 16), 6),
        (f32, (16384, 4096, 16384), 6),
        (i32, (4096, 1024, 8192), 6),
        (f32, (4096, 1023, 8192), 1),
    ],
)
def test_blocks_leave_room_for_others_without_a_spill(
    kind: Attribute, sizes: tuple[int, int, int], room: int, arch: str
) -> None:
    """Of known sizes, where they do no more than read, combine and store."""
    high, wide, count = sizes
    module = rows("max", kind, high, wide, count=count)
    for name in ABOVE_GPU:
        run_pass(make_context(), build(name, arch), module)
    finish(module)
    kernels = only(module, gpu.ModuleOp)
    name = "listed_vector" if wide % 4 == 0 else "listed"
    own = next(k for k in kernels.kernels() if k.sym_name.data.endswith(f"_{name}"))
    assert own.blocks_per_sm.value.data == room
    built = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert all((one.spill_bytes, one.stack) == (0, 0) for one in built.kernels.values())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_what_is_around_compiles_without_a_spill(arch: str) -> None:
    arrays = [numbers(f32, (3, 5)), np.asarray([1, -9, 0, 2], np.int32), numbers(f32, (4, 5))]
    module = around(Sketch("f", f32), f32)
    through(module, arrays, {"V": 3, "D": 5, "N": 4}, None, arch, compiles=True)


@pytest.mark.parametrize(
    ("fn", "way"),
    [
        ("set", "pooled"),
        ("add", "listed"),
        ("set", "last"),
        ("max", "atomic"),
        ("max", "atomic tables"),
    ],
)
def test_threads_that_take_turns_at_random_agree(
    fn: str, way: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """No thread reads a pool or a list before it is whole, or fills it while another reads."""
    count, high = POOLED + 60, 9
    if way not in ("pooled", "atomic tables"):
        request.getfixturevalue("small")
        count = 2 * SMALL + 10
    way = way.split()[0]
    module = rows(fn, f32, "V")
    i = several(high, count) if way == "pooled" else hostile(high, count)
    arrays = [numbers(f32, (high,)), i, numbers(f32, (count,))]
    sizes = {"V": high, "N": count}
    right = meant(module, arrays, sizes)
    for name in ABOVE_GPU:
        run_pass(make_context(), build(name, "sm_90a"), module)
    finish(module)
    kernels = only(module, gpu.ModuleOp)
    result = simulate(kernels, arrays, sizes, f"f_{way}", schedule="random", seed=1)
    result.check()
    assert_agree(result.outputs, right)
