"""Functions of a graph's nodes: each node once, after what it needs, as deep as one likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.rewriting.postorder import computed, reached

DIAMOND: Mapping[str, Sequence[str]] = {"top": "lr", "l": ["end"], "r": ["end", "l"], "end": []}


def test_results_come_in_the_order_of_what_is_needed() -> None:
    text = computed("top", DIAMOND.__getitem__, lambda n, of: f"{n}({','.join(of)})")
    assert text == "top(l(end()),r(end(),l(end())))"


def test_a_node_is_computed_once_and_known_ones_never() -> None:
    seen: list[str] = []

    def result(node: str, of: Sequence[int]) -> int:
        seen.append(node)
        return 1 + sum(of)

    known = {"end": 10}
    assert computed("top", DIAMOND.__getitem__, result, known) == 1 + 11 + 22
    assert seen == ["l", "r", "top"]
    assert known == {"end": 10, "l": 11, "r": 22, "top": 34}


def test_deeper_than_python_calls() -> None:
    assert computed(10**5, lambda n: [n - 1] if n else [], lambda n, of: sum(of) + 1) == 10**5 + 1


def test_a_cycle_is_an_error() -> None:
    with pytest.raises(AssertionError, match="a cycle"):
        computed(0, lambda n: [1 - n], lambda n, of: None)


def test_what_a_node_needs_may_raise() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        computed("nowhere", DIAMOND.__getitem__, lambda n, of: None)


@given(st.lists(st.lists(st.integers(0, 30), max_size=4), max_size=30), st.data())
def test_reached_is_the_closure_in_an_order_that_works(rows: list[list[int]], data: st.DataObject):
    needs = [[n for n in row if n < i] for i, row in enumerate(rows)]
    roots = data.draw(st.lists(st.integers(0, len(needs) - 1), max_size=3)) if needs else []
    found = reached(roots, needs.__getitem__)
    closure, todo = set(roots), list(roots)
    while todo:
        new = set(needs[todo.pop()]) - closure
        closure |= new
        todo += new
    assert len(found) == len(closure) and set(found) == closure
    assert all(found.index(n) < i for i, node in enumerate(found) for n in needs[node])
