"""Memory that is used in turn lies in one place, and no two blocks that are used at once meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polyc.runtime.lifetimes import places_in_turn

LIVES = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda two: (min(two), max(two)))
BLOCKS = st.lists(st.tuples(st.integers(0, 9), st.none() | LIVES), max_size=8)


@given(BLOCKS)
def test_blocks_that_are_used_at_once_lie_apart(
    blocks: list[tuple[int, tuple[int, int] | None]],
) -> None:
    sizes, lives = [size for size, _ in blocks], [life for _, life in blocks]
    starts, end = places_in_turn(sizes, lives)
    used = [(s, n, life) for s, n, life in zip(starts, sizes, lives, strict=True) if life and n]
    assert end == max((s + n for s, n, _ in used), default=0)
    assert min(starts, default=0) >= 0
    for i, (start, size, (first, last)) in enumerate(used):
        for other, more, (begin, over) in used[:i]:
            at_once = first <= over and begin <= last
            assert not at_once or start + size <= other or other + more <= start
    at_step = [sum(n for _, n, (a, b) in used if a <= step <= b) for step in range(7)]
    assert max(at_step) <= end <= sum(n for _, n, _ in used)


def test_what_is_over_gives_its_place() -> None:
    # Each is written by a step and read by the next one: two are there at a time.
    starts, end = places_in_turn([8, 8, 8, 8], [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert starts == [0, 8, 0, 8] and end == 16
    # A small one that stays goes above, and below where there is room.
    assert places_in_turn([2, 8, 8], [(0, 9), (0, 1), (2, 3)]) == ([8, 0, 0], 10)
    assert places_in_turn([4, 8, 4], [(0, 1), (1, 2), (2, 3)]) == ([8, 0, 8], 12)


def test_what_no_step_uses_takes_nothing() -> None:
    assert places_in_turn([4, 5], [None, (0, 0)]) == ([0, 0], 5)
    assert places_in_turn([], []) == ([], 0)
