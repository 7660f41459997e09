"""The formula of a product's time: open sizes and known ones agree, and what it grows with."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.cost.products import (
    H200_RATES,
    Stored,
    Tiles,
    clusters,
    nanoseconds,
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
    st.sampled_from([Stored(), Stored(True, True), Stored(along=False)]),
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
        assert nanoseconds(sizes, plan, 132, stored=Stored(rows=True)) > even
        assert nanoseconds(sizes, plan, 132, stored=Stored(columns=True)) > even
    across = Stored(along=False)
    assert nanoseconds(sizes, narrow, 132, stored=across) < nanoseconds(sizes, narrow, 132)
    assert nanoseconds(sizes, wide, 132, stored=across) == nanoseconds(sizes, wide, 132)
    both = Stored(rows=True, columns=True)
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


def test_narrow_tiles_wait_for_shared_memory() -> None:
    """64 columns take both their operands in as many cycles as tensor cores work; 32 take more."""
    assert step_cycles(64, 256) == 2 * step_cycles(64, 128) == 4 * step_cycles(64, 64)
    assert step_cycles(64, 32) > step_cycles(64, 64) / 2
