"""The formulas of walks over keys: open sizes and known ones, and what parts are for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.cost.walks import Walk, nanoseconds, reading, waiting
from polyc.dialects.common.dim import Dim

WALK = Walk(keys=32, bytes=16384, parts=1, sums=8320, once=528)
PARTS = st.sampled_from([1, 2, 4, 16, 64])


@given(PARTS, st.integers(1, 9999), st.integers(1, 99999))
def test_the_formulas_of_open_sizes_are_the_figures_of_known_ones(
    parts: int, tiles: int, keys: int
) -> None:
    walk, names = replace(WALK, parts=parts), {"T": tiles, "N": keys}
    open_ones = [of(Dim.sym("T"), Dim.sym("N"), walk) for of in (waiting, reading)]
    known = [of(tiles, keys, walk) for of in (waiting, reading)]
    assert [one.evaluate(names) for one in open_ones] == known
    assert nanoseconds(tiles, keys, walk) == max(known) > 0


@given(PARTS, st.integers(1, 999), st.integers(1, 9999))
def test_more_tiles_and_more_keys_take_no_less(parts: int, tiles: int, keys: int) -> None:
    walk = replace(WALK, parts=parts)
    one = nanoseconds(tiles, keys, walk)
    assert nanoseconds(tiles + 1, keys, walk) >= one
    assert nanoseconds(tiles, keys + 1, walk) >= one


@pytest.mark.parametrize(
    ("tiles", "keys", "parts"), [(8, 8192, 64), (32, 8192, 16), (128, 4096, 4), (512, 1024, 1)]
)
def test_parts_are_as_many_as_keep_memory_busy(tiles: int, keys: int, parts: int) -> None:
    """As measured on an H200: more of them only leave more sums."""
    plans = [replace(WALK, parts=n) for n in (1, 4, 16, 64)]
    assert min(plans, key=lambda plan: nanoseconds(tiles, keys, plan)).parts == parts
