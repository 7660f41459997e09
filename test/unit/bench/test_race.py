"""The order in which contestants take turns."""

from __future__ import annotations

from itertools import pairwise

from polyc.bench.race import order


def test_each_round_has_everybody_in_another_order() -> None:
    rounds = [order(turn, range(4)) for turn in range(15)]
    assert all(sorted(one) == [0, 1, 2, 3] for one in rounds)
    assert rounds == [order(turn, range(4)) for turn in range(15)]
    assert len({tuple(one) for one in rounds}) > 6


def test_nobody_always_comes_behind_the_same_one() -> None:
    behind: dict[int, set[int]] = {}
    for turn in range(15):
        for before, after in pairwise(order(turn, range(4))):
            behind.setdefault(after, set()).add(before)
    assert all(len(found) == 3 for found in behind.values())
