"""Which cases of a test run where many of them are alike, as ``make test`` has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


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
