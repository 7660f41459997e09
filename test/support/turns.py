"""Which cases of a test run where many of them are alike, as ``make test`` has it.

``IN_TURN`` is set in the environment where it is so.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

IN_TURN = "POLYC_IN_TURN"

FEWEST = 4


def chosen(cases: Iterable[tuple[str, int | None]]) -> list[bool]:
    """Whether each case is its test's turn: of a test that is marked ``turns(n)`` the first case of
    the first n is, the second of the next n, and so on, so that each kind of neighbors has its
    turns, as one architecture and the other; of others each is.

    A case is the name of its test and that n, in the order in which cases are collected.
    """
    number = Counter[str]()
    found: list[bool] = []
    for name, share in cases:
        turn, place = divmod(number[name], share or 1)
        found.append(share is None or turn % share == place)
        number[name] += 1
    return found


def examples(most: int) -> int:
    """Of how many inputs a property is asked: of ``most``, and in turn of two fifths as many."""
    if IN_TURN not in os.environ:
        return most
    return min(most, max(FEWEST, most * 2 // 5))
