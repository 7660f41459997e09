"""How long a reduction takes by its plan: what is counted, and how times behave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.cost.device import H100, H200
from polyc.cost.reductions import (
    H100_REDUCTIONS,
    H100_ROWS,
    Reduction,
    ReductionRates,
    SharedTile,
    at_once,
    nanoseconds,
    sectors_of,
    steps_of,
    tiles_of,
    times_of,
    together,
)

COLUMNS = Reduction(1, 4096, True, 65536, line=8192, apart=(2, 8192))
ROWS = Reduction(1, 4096, False, 65536, line=131072, apart=(131072, 2))


def tile_of(columns: int, loads: int, threads: int, vector: int, parts: int) -> SharedTile:
    """A tile whose threads have so many vectors each; parts meet in memory where they are many."""
    rows = max(1, threads * loads * vector // columns)
    return SharedTile(rows, columns, threads, vector, parts, stored=parts > 8)


TILES = st.builds(
    tile_of,
    st.sampled_from([8, 32, 128, 512]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([128, 256, 512, 1024]),
    st.sampled_from([1, 8]),
    st.sampled_from([1, 2, 8, 40, 512]),
)


def test_tiles_and_steps_are_those_of_the_axes() -> None:
    tile = SharedTile(64, 32, 256, 8, 3)
    assert tile.loads == 1
    assert tiles_of(COLUMNS, tile) == 128 and steps_of(COLUMNS, tile) == -(-1024 // 3)
    assert tiles_of(ROWS, tile) == 64 and steps_of(ROWS, tile) == -(-2048 // 3)
    nested = replace(ROWS, inner=100, others=7)
    assert steps_of(nested, tile._replace(parts=1)) == 4 * 7
    whole = Reduction(1, 1, False, 1000, second=60)
    assert steps_of(whole, SharedTile(4, 256, 256, 1, 1)) == 4 * 15


def test_a_row_of_a_tile_that_begins_anywhere_touches_a_sector_more() -> None:
    tile = together([SharedTile(8, 64, 64, 8)])
    assert sectors_of(COLUMNS, tile) == 8 * 128
    odd = replace(COLUMNS, kept=4097, line=8194, apart=(2, 8194))
    assert sectors_of(odd, tile) == 8 * (128 + 30)
    # Rows of memory that a tile has whole follow each other.
    assert sectors_of(replace(odd, kept=50, line=100, apart=(2, 100)), tile) == 8 * 50 * 2
    # Columns that lie apart are sectors of their own.
    apart = replace(COLUMNS, apart=(1408, 2), inner=16, line=1408)
    assert sectors_of(apart, together([SharedTile(16, 8, 128, 1)])) == 8 * (32 + 2)


def test_short_runs_of_long_rows_take_longer() -> None:
    """Of 32768 rows of 32768 f32, 2172 us by 8 columns, 1402 by 64 and 1458 by all of a row."""
    every = Reduction(1, 1, False, 32768, second=32768, sizes=(4,), line=131072, apart=(0, 4))
    tiles = [(4096, 8), (512, 64), (1, 32768)]
    plans = together([SharedTile(*tile, 1024, 4, 132) for tile in tiles])
    short, wide, whole = times_of(every, plans, H100)
    assert 1.4 < short / wide < 1.7 and abs(wide - whole) < 0.05 * wide
    # What is left of a row of few bytes follows at once.
    few = replace(every, inner=64, second=32768 * 512, line=256)
    short, wide, _ = times_of(few, plans, H100)
    assert short < 1.1 * wide


def test_registers_bound_what_finds_room() -> None:
    tiles = ((512, 32, 256, 8), (64, 32, 256, 8), (256, 32, 1024, 8), (8, 32, 128, 1))
    many, few, high, small = at_once(COLUMNS, together([SharedTile(*tile) for tile in tiles]))
    assert many < few == 4 and high == 1 and small > 8


@given(st.lists(TILES, min_size=1, max_size=5), st.sampled_from([COLUMNS, ROWS]))
def test_several_plans_take_what_each_takes(tiles: list[SharedTile], problem: Reduction) -> None:
    each = [nanoseconds(problem, tile, H100) for tile in tiles]
    assert times_of(problem, together(tiles), H100).tolist() == each


@given(TILES, st.sampled_from([COLUMNS, ROWS]), st.sampled_from([H100_REDUCTIONS, H100_ROWS]))
def test_more_points_and_a_slower_memory_are_not_faster(
    tile: SharedTile, problem: Reduction, rates: ReductionRates
) -> None:
    time = nanoseconds(problem, tile, H100, rates)
    assert time > 0
    assert nanoseconds(replace(problem, inner=problem.inner * 2), tile, H100, rates) >= time
    assert nanoseconds(replace(problem, work=problem.work + 8), tile, H100, rates) >= time
    assert nanoseconds(problem, tile, H200, rates) <= time


def test_threads_have_few_loads_on_their_way_where_points_are_much_work() -> None:
    """Of single elements, as those of places of extremes; of sums it makes no difference."""
    line = 4 * 4095
    places = Reduction(128, 4095, True, 4096, sizes=(4,), line=line, apart=(4, line), work=10.0)
    few, many = SharedTile(32, 32, 256, 1), SharedTile(64, 32, 256, 1)
    assert (few.loads, many.loads) == (4, 8)
    assert nanoseconds(places, few, H100) < nanoseconds(places, many, H100)
    never = replace(H100_REDUCTIONS, crowded=0.0)
    sums = replace(places, work=2.0)
    assert nanoseconds(sums, many, H100) == nanoseconds(sums, many, H100, never)
    assert nanoseconds(places, many, H100) > nanoseconds(places, many, H100, never)


def test_a_second_kernel_takes_time_and_so_does_a_cluster() -> None:
    """Of points that one block would have as well."""
    small = replace(COLUMNS, inner=128, kept=132 * 128)
    tile = SharedTile(64, 128, 256, 8)
    alone = nanoseconds(small, tile, H100)
    assert nanoseconds(small, tile._replace(parts=2), H100) > alone
    assert nanoseconds(small, tile._replace(parts=2, stored=False), H100) > alone


@pytest.mark.parametrize(
    ("problem", "tile", "measured"),
    [
        # Of bench/results/regret_columns-*.json, H100, in us.
        (Reduction(1, 241, True, 247754, line=482, apart=(2, 482)), (64, 64, 512, 1, 132), 48.0),
        (Reduction(1, 64, True, 581498, line=128, apart=(2, 128)), (128, 64, 256, 8, 505), 28.0),
        (Reduction(1, 1, False, 12016608, line=0, apart=(0, 2)), (1, 8192, 256, 8, 367), 10.2),
        (Reduction(1, 186416, True, 31, line=372832, apart=(2, 372832)), (16, 512, 128, 8, 1), 5.6),
    ],
)
def test_it_is_near_what_was_measured(
    problem: Reduction, tile: tuple[int, int, int, int, int], measured: float
) -> None:
    assert nanoseconds(problem, SharedTile(*tile), H100) / 1e3 == pytest.approx(measured, rel=0.25)
