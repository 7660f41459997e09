"""Few rows of a table of choices in which every two choices meet (all pairs)."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import TypeVar

RowT = TypeVar("RowT", bound=tuple[Hashable, ...])

Pair = tuple[int, Hashable, int, Hashable]
"""Two columns, each with what a row has there."""

DRAWN = 60
"""How many rows a step looks at."""


def pairs_of(row: Sequence[Hashable]) -> set[Pair]:
    """The pairs of choices that a row has."""
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


def covering(rows: Sequence[RowT], seed: int) -> list[RowT]:
    """Some of ``rows`` that together have every pair of choices that any of them has.

    Greedy: of rows with a pair that is missing, drawn at random, the one that has the most.
    """
    dice = random.Random(seed)
    left: dict[Pair, list[int]] = {}
    own = [pairs_of(row) for row in rows]
    for number, found in enumerate(own):
        for pair in found:
            left.setdefault(pair, []).append(number)
    order = sorted(left, key=lambda pair: (len(left[pair]), repr(pair)))
    missing = dict.fromkeys(order)
    taken: list[RowT] = []
    while missing:
        there = left[next(iter(missing))]
        drawn = dice.sample(there, min(DRAWN, len(there)))
        best = max(drawn, key=lambda number: len(own[number] & missing.keys()))
        taken.append(rows[best])
        for pair in own[best]:
            missing.pop(pair, None)
    return taken
