"""Who touches which element of a shared tile: tables, against what they are defined by."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.dialects.gpu.types import FragmentLayoutAttr
from polyc.passes.support.gpu.layouts import mma_sync_accumulator, wgmma_accumulator
from polyc.passes.support.gpu.shared_accesses import (
    NOBODY,
    Holders,
    _placed,  # pyright: ignore[reportPrivateUsage]
    chunks,
    leaders,
)

TOUCHED = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12)


def threads_of(touched: Sequence[Sequence[int]], element: int) -> list[int]:
    return [t for t, elements in enumerate(touched) if element in elements]


@given(TOUCHED, st.booleans())
def test_the_first_and_the_last_thread(touched: list[list[int]], first: bool) -> None:
    found = Holders.of(touched, 10, first)
    for element in range(10):
        threads = threads_of(touched, element) or [NOBODY]
        last = threads[0] if first else threads[-1]
        assert (found.first[element], found.last[element]) == (threads[0], last)


@given(TOUCHED, TOUCHED, st.sampled_from([1, 2, 4]))
def test_apart_where_threads_of_two_groups_touch_an_element(
    one: list[list[int]], other: list[list[int]], group: int
) -> None:
    # Of an element that only one of the two touches, nothing is asked.
    meets = [
        {t // group for t in (*threads_of(one, e), *threads_of(other, e))}
        for e in range(10)
        if threads_of(one, e) and threads_of(other, e)
    ]
    found = Holders.of(one, 10).apart(Holders.of(other, 10), group)
    assert found == any(len(groups) > 1 for groups in meets)


def test_chunks_go_round_the_threads() -> None:
    held = chunks((4, 16), 8, 4)
    assert list(held.first) == list(held.last) == [e // 8 % 4 for e in range(64)]


def test_leaders_have_the_rows_of_their_warpgroups() -> None:
    held = leaders((4, 8), 2)
    assert list(held.first) == [0] * 16 + [128] * 16


@pytest.mark.parametrize("shift", [(0, 0), (16, 0), (-16, 8), (-8, -120)])
@pytest.mark.parametrize(
    "layout", [wgmma_accumulator(64, 16, (64, 16)), mma_sync_accumulator(64, 16, (16, 16))]
)
def test_a_window_of_a_tile_has_the_threads_of_the_fragment(
    layout: FragmentLayoutAttr, shift: tuple[int, int]
) -> None:
    rows, columns = sizes = 80, 16
    held = _placed(layout, shift, sizes, False)
    assert held is not None
    wanted: dict[int, list[int]] = {}
    m = layout.map.data
    for thread in range(layout.threads.data):
        for register in range(layout.registers.data):
            row, column = (
                a + b for a, b in zip(m.eval([thread, register], []), shift, strict=True)
            )
            if 0 <= row < rows and 0 <= column < columns:
                wanted.setdefault(row * columns + column, []).append(thread)
    for element in range(rows * columns):
        threads = wanted.get(element, [NOBODY])
        assert (held.first[element], held.last[element]) == (min(threads), max(threads))
