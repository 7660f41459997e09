"""The formula of a product's time: open sizes and known ones agree, and what it grows with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.cost.products import H200_RATES, Tiles, clusters, nanoseconds, step_cycles, step_of
from polyc.dialects.common.dim import Dim

PLANS = (
    Tiles(128, 256, 4, persistent=True),
    Tiles(64, 64, 4, at_once=3),
    Tiles(128, 128, 5, parts=4),
    Tiles(64, 128, 4, at_once=2, parts=16, summed=True),
)
SIZES = st.integers(1, 20000)


@given(st.sampled_from(PLANS), st.tuples(st.integers(1, 40), SIZES, SIZES, SIZES))
def test_the_formula_of_open_sizes_is_the_figure_of_known_ones(
    plan: Tiles, sizes: tuple[int, int, int, int]
) -> None:
    names: list[str] = ["B", "M", "N", "K"]
    batch, m, n, k = map(Dim.sym, names)
    formula = nanoseconds((batch, m, n, k), plan, 132)
    values = dict(zip(names, sizes, strict=True))
    assert formula.evaluate(values) == nanoseconds(sizes, plan, 132) > 0


@pytest.mark.parametrize("plan", PLANS)
def test_a_tile_more_than_the_chip_takes_at_once_is_a_turn_more(plan: Tiles) -> None:
    # Blocks of one tile each along m.
    split = plan.parts > 1 and not plan.summed
    blocks = clusters(132, plan.parts) if split else 132 * plan.at_once // plan.parts
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
