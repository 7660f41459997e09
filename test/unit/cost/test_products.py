"""The formula of a product's time: open sizes and known ones agree, and what it grows with."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.cost.products import (
    AS_USUAL,
    CONV_RATES,
    H200_RATES,
    SHARED_RATES,
    Image,
    Rates,
    Stored,
    Tiles,
    brought,
    busy,
    clusters,
    missed,
    nanoseconds,
    of_all,
    over_grid,
    step_cycles,
    step_of,
    terms,
)
from polyc.dialects.common.dim import Dim

PLANS = (
    Tiles(128, 256, 4, persistent=True),
    Tiles(64, 64, 4, at_once=3),
    Tiles(128, 128, 5, parts=4),
    Tiles(64, 128, 4, at_once=2, parts=16, summed=True),
    Tiles(64, 128, 8, below=2),
    Tiles(128, 64, 8, beside=2),
    Tiles(64, 64, 8, products=2),
)
SIZES = st.integers(1, 20000) | st.integers(1, 1 << 40)


@given(
    st.sampled_from(PLANS),
    st.tuples(st.integers(1, 40), SIZES, SIZES, SIZES),
    st.sampled_from([Stored(), Stored(1, 1), Stored(2, 1), Stored(along=False)]),
)
def test_the_formula_of_open_sizes_is_the_figure_of_known_ones(
    plan: Tiles, sizes: tuple[int, int, int, int], stored: Stored
) -> None:
    names: list[str] = ["B", "M", "N", "K"]
    batch, m, n, k = map(Dim.sym, names)
    formula = nanoseconds((batch, m, n, k), plan, 132, stored=stored)
    values = dict(zip(names, sizes, strict=True))
    assert formula.evaluate(values) == nanoseconds(sizes, plan, 132, stored=stored) > 0


@given(st.sampled_from(PLANS), st.lists(st.tuples(*[SIZES] * 4), min_size=1, max_size=3))
def test_a_grid_has_the_figures_of_its_points(
    plan: Tiles, points: list[tuple[int, int, int, int]]
) -> None:
    batch, m, n, k = zip(*points, strict=True)
    found = over_grid((batch, m, n, k), plan, terms(plan, 132, H200_RATES), 132)
    assert found == [nanoseconds(sizes, plan, 132) for sizes in product(batch, m, n, k)]


def test_where_operands_lie_costs_what_it_draws() -> None:
    """Rows in two lines each, and little of each row; not what a cluster shares of them."""
    sizes, wide, narrow = (1, 64, 14336, 4096), Tiles(64, 256, 5), Tiles(64, 128, 8)
    for plan in (wide, narrow):
        even = nanoseconds(sizes, plan, 132)
        assert nanoseconds(sizes, plan, 132, stored=Stored(rows=1)) > even
        assert nanoseconds(sizes, plan, 132, stored=Stored(columns=1)) > even
    across = Stored(along=False)
    assert nanoseconds(sizes, narrow, 132, stored=across) < nanoseconds(sizes, narrow, 132)
    assert nanoseconds(sizes, wide, 132, stored=across) == nanoseconds(sizes, wide, 132)
    both = Stored(rows=1, columns=1)
    alone, shared = (step_of(p, H200_RATES, both)[0] for p in (narrow, replace(narrow, below=2)))
    assert shared < alone


@pytest.mark.parametrize("plan", PLANS)
def test_a_tile_more_than_the_chip_takes_at_once_is_a_turn_more(plan: Tiles) -> None:
    # Blocks of one tile each along m.
    split = plan.parts > 1 and not plan.summed
    blocks = clusters(132, plan.parts) if split else 132 * plan.at_once // plan.parts
    if plan.together > 1 and not split:
        # Of tiles beside each other, of which there is one, the other is outside.
        blocks = clusters(132, plan.together) * plan.below
    one, two = (
        nanoseconds((1, plan.rows * count, plan.columns, 4096), plan, 132)
        for count in (blocks, blocks + 1)
    )
    assert two > one
    fewer = nanoseconds((1, plan.rows * blocks - 1, plan.columns, 4096), replace(plan), 132)
    assert fewer <= one


def test_clusters_lie_in_groups_of_multiprocessors() -> None:
    """132 of them are eight groups, of which not all have 16: 31 clusters of 4 are two waves."""
    assert [clusters(132, parts) for parts in (1, 2, 4, 8)] == [132, 64, 30, 14]


@pytest.mark.parametrize("plan", [Tiles(64, 64, 4, at_once=3), Tiles(64, 128, 2, at_once=2)])
def test_blocks_beside_each_other_hide_what_each_waits_for(plan: Tiles) -> None:
    """One alone waits for its copies; as many as there is room for take less than that many."""
    more, alone = step_of(plan, H200_RATES)
    one, all_of_them = more + alone, plan.at_once * more + alone
    assert one == pytest.approx(step_of(replace(plan, at_once=1), H200_RATES)[0])
    assert one < all_of_them < plan.at_once * one


FAST, SLOW = 4000.0, 3000.0
"""Bytes a ns of memory."""


def shared_time(
    sizes: tuple[int, int, int, int],
    plan: Tiles,
    rates: Rates = SHARED_RATES,
    stored: Stored = AS_USUAL,
    memory: float = FAST,
) -> int:
    of = terms(plan, 132, rates, stored)
    return of_all(sizes, plan, of, 132, rates, stored, memory)


@given(
    st.sampled_from(PLANS),
    st.tuples(st.integers(1, 40), *[st.integers(1, 20000)] * 3),
    st.sampled_from([Stored(), Stored(1, 1), Stored(along=False)]),
)
def test_what_multiprocessors_share_takes_no_less_than_what_each_does(
    plan: Tiles, sizes: tuple[int, int, int, int], stored: Stored
) -> None:
    """Nor than memory gives; more of k, or slower memory, is not faster."""
    batch, m, n, k = sizes
    alone = nanoseconds(sizes, plan, 132, SHARED_RATES, stored)
    found = shared_time(sizes, plan, stored=stored)
    assert found >= alone - 1
    moved = 2 * batch * (m * k + plan.products * n * (m + k))
    assert found >= moved / FAST
    assert shared_time((batch, m, n, k + 64), plan, stored=stored) >= found
    assert shared_time(sizes, plan, stored=stored, memory=SLOW) >= found


def test_what_l2_gives_all_of_them_is_shared_by_blocks() -> None:
    """A full chip of small tiles asks it for more than large ones do, a cluster for less, rows in
    two lines for more, and the columns that blocks beside each other draw count in part."""
    sizes, slow = (1, 4096, 4096, 4096), replace(SHARED_RATES, together=1000)
    small, large = Tiles(64, 64, 8), Tiles(128, 256, 4)
    times = {p: shared_time(sizes, p, slow) for p in (small, large)}
    # Each block draws 1/64 and 1/64 of the operands, or 1/128 and 1/256.
    assert 2.2 < times[small] / times[large] < 3
    assert shared_time(sizes, replace(small, beside=2), slow) < times[small]
    assert shared_time(sizes, small, slow, Stored(1, 1)) > 1.5 * times[small]
    tall, wide = (shared_time(sizes, p, slow) for p in (Tiles(256, 64, 4), Tiles(64, 256, 4)))
    assert wide < tall


def test_columns_of_half_a_swizzle_take_more_where_boxes_have_them() -> None:
    sizes, plan = (1, 4096, 4096, 4096), Tiles(128, 160, 5)
    along, across = (shared_time(sizes, plan, stored=Stored(along=a)) for a in (True, False))
    even = [shared_time(sizes, Tiles(128, 192, 5), stored=Stored(along=a)) for a in (True, False)]
    assert along / even[0] > 1.05 * across / even[1]


def test_narrow_tiles_wait_for_shared_memory() -> None:
    """64 columns take both their operands in as many cycles as tensor cores work; 32 take more."""
    assert step_cycles(64, 256) == 2 * step_cycles(64, 128) == 4 * step_cycles(64, 64)
    assert step_cycles(64, 32) > step_cycles(64, 64) / 2


def test_what_taps_read_again_is_in_the_cache_or_it_is_not() -> None:
    """Of an image of 61 MB, at one tile of filters, four taps read four times as much from memory,
    and parts of which each has two of them twice as much; of a small one all read it once."""
    plan = Tiles(192, 64, 6)
    of = terms(plan, 132, CONV_RATES)
    sizes, image = (1, 17328, 48, 1712), Image(60_902_688)
    once = brought(sizes, plan, of, 1, image, 16e6)
    again = brought(sizes, plan, of, 4, image, 16e6)
    assert once < 63e6 and 3.5 * once < again < 4.1 * once
    parted = replace(plan, parts=2)
    assert brought(sizes, parted, terms(parted, 132, CONV_RATES), 4, image, 16e6) < 0.6 * again
    small = (1, 1024, 64, 256)
    assert brought(small, plan, of, 9, Image(524_288), 16e6) < 1e6


def test_what_is_larger_than_a_cache_is_missed_the_more() -> None:
    assert missed(1e6, 2e6) == 0.0
    misses = [missed(size, 1e6) for size in (1.1e6, 1.5e6, 2e6, 4e6)]
    assert misses == sorted(misses) and 0 < misses[0] < 0.5 and misses[-1] > 0.95


def test_where_most_are_idle_the_others_are_faster() -> None:
    plan = Tiles(64, 64, 6)
    assert busy((1, 64 * 33, 64, 512), plan, 132) == 0.25
    assert busy((1, 64 * 1000, 64, 512), plan, 132) == 1.0
    sizes, few = (1, 64 * 33, 64, 512), CONV_RATES.idle(0.75)
    assert nanoseconds(sizes, plan, 132, few) < nanoseconds(sizes, plan, 132, CONV_RATES)
    assert Rates().idle(0.75) == Rates()


def test_rows_that_begin_inside_of_a_sector_take_longer() -> None:
    plan, sizes = Tiles(128, 128, 6), (1, 16384, 128, 1024)
    times = [nanoseconds(sizes, plan, 132, CONV_RATES, Stored(i, i, False)) for i in (0, 1, 2)]
    assert times == sorted(times) and times[2] > 1.2 * times[0]
