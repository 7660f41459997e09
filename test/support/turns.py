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
    """Whether each case is its test's turn: of a test that is marked ``turns(n)`` the first case
    is, and every n-th after it; of others each is.

    A case is the name of its test and that n, in the order in which cases are collected.
    """
    number = Counter[str]()
    found: list[bool] = []
    for name, share in cases:
        found.append(share is None or number[name] % share == 0)
        number[name] += 1
    return found


def examples(most: int) -> int:
    """Of how many inputs a property is asked: of ``most``, and in turn of two fifths as many."""
    if IN_TURN not in os.environ:
        return most
    return min(most, max(FEWEST, most * 2 // 5))
