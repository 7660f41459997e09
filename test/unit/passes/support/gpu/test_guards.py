"""Whether copies under conditions fill a tile wherever it is read."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import i1
from xdsl.ir import Block

from polyc.passes.support.gpu.guards import MOST_CASES, Literal, covers

VALUES = Block(arg_types=[i1] * 40).args
NUMBERED = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=4)


def literals(numbers: list[tuple[int, bool]]) -> list[Literal]:
    return [(VALUES[number], holds) for number, holds in numbers]


@given(st.lists(NUMBERED, max_size=6), NUMBERED)
def test_it_is_what_all_cases_say(
    fills: list[list[tuple[int, bool]]], reader: list[tuple[int, bool]]
) -> None:
    def runs(op: list[tuple[int, bool]], world: tuple[bool, ...]) -> bool:
        return all(world[number] is holds for number, holds in op)

    worlds = [w for w in product((False, True), repeat=5) if runs(reader, w)]
    wanted = all(any(runs(fill, world) for fill in fills) for world in worlds)
    assert covers(list(map(literals, fills)), literals(reader)) == wanted


def chain(parts: int) -> list[list[Literal]]:
    """Each part where those before it are not, the last one in all cases that are left."""
    conditions = [VALUES[number] for number in range(parts - 1)]
    before = [[(value, False) for value in conditions[:number]] for number in range(parts)]
    own: list[list[Literal]] = [[(value, True)] for value in conditions]
    return [[*others, *one] for others, one in zip(before, [*own, []], strict=True)]


@pytest.mark.parametrize("parts", [2, 9, 24, 40])
def test_parts_of_a_concat_are_told_apart_however_many(parts: int) -> None:
    fills = chain(parts)
    assert covers(fills, [])
    assert not covers(fills[:-1], [])
    assert not covers([*fills[:1], *fills[2:]], [])
    assert covers(fills[1:], fills[-1]) and not covers(fills[1:], fills[0])


def test_more_cases_than_are_told_apart_are_refused() -> None:
    """A fill for each case of ten conditions: all are filled, and nobody looks at so many."""
    cases = [list(zip(VALUES, world, strict=False)) for world in product((False, True), repeat=10)]
    assert len(cases) > MOST_CASES
    assert not covers(cases, [])
    assert covers(cases[:4], cases[0][:8])
