"""The order in which contestants take turns."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from polyc.bench.race import captured, order


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


class Result:
    """A tensor of some bytes, which says when nobody holds it."""

    def __init__(self, nbytes: int, let_go: list[int], number: int) -> None:
        self.nbytes, self.let_go, self.number = nbytes, let_go, number

    def __del__(self) -> None:
        self.let_go.append(self.number)


def test_results_are_held_until_newer_ones_are_four_times_the_cache() -> None:
    """Else an allocator gives each launch the memory of the one before."""

    def nothing(_: Any = None) -> Any:
        return nullcontext()

    stream = SimpleNamespace(wait_stream=nothing)
    cuda = SimpleNamespace(
        Stream=lambda: stream,
        current_stream=lambda: stream,
        stream=nothing,
        CUDAGraph=object,
        graph=nothing,
        get_device_properties=dict(enumerate([SimpleNamespace(L2_cache_size=100)])).__getitem__,
    )
    let_go: list[int] = []
    seen: list[int] = []

    def run(i: int) -> Any:
        seen.append(len(let_go))
        return Result(150, let_go, i), (Result(50, let_go, i), None)

    captured(SimpleNamespace(cuda=cuda), run, 5)
    # Five launches ahead are let go at once; then two newer ones of 200 bytes stay beside each.
    assert seen == [0, 2, 4, 6, 8, 10, 10, 10, 10, 12]
