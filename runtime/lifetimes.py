"""Memory of which a part is used at a time: what is over gives its place to what begins later."""

from __future__ import annotations

from collections.abc import Sequence


def places_in_turn(
    sizes: Sequence[int], lives: Sequence[tuple[int, int] | None]
) -> tuple[list[int], int]:
    """Where each of some blocks of memory begins, and what they take together.

    A block is used from a step to another one, both with it, or never.  Those that are used at one
    step lie apart.  The largest choose first, each the lowest place where it fits (Pisarchyk and
    Lee, 2020: greedy by size).
    """
    starts, end = [0] * len(sizes), 0
    placed: list[int] = []
    for block in sorted(range(len(sizes)), key=lambda n: (-sizes[n], n)):
        if (life := lives[block]) is None or not sizes[block]:
            continue
        beside = sorted((starts[n], sizes[n]) for n in placed if _meet(lives[n], life))
        start = 0
        for other, size in beside:
            if start + sizes[block] <= other:
                break
            start = max(start, other + size)
        starts[block] = start
        placed.append(block)
        end = max(end, start + sizes[block])
    return starts, end


def _meet(one: tuple[int, int] | None, other: tuple[int, int]) -> bool:
    """Whether two blocks are used at one step."""
    return one is not None and one[0] <= other[1] and other[0] <= one[1]
