"""Which cases ``make test`` runs."""

from __future__ import annotations

import pytest

from polyc.test.support.turns import IN_TURN, chosen, examples


def test_one_of_n_cases_of_a_test_that_is_marked() -> None:
    cases = [("a", 3)] * 7 + [("b", 2)] * 2 + [("c", None)] * 2 + [("d", 5)]
    first = [True, False, False, False, True, False, False]
    assert chosen(cases) == [*first, True, False, True, True, True]


def test_tests_do_not_take_turns_with_each_other() -> None:
    assert chosen([("a", 2), ("b", 2), ("a", 2), ("b", 2)]) == [True, True, False, False]


def test_in_turn_properties_are_asked_of_fewer_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(IN_TURN, raising=False)
    assert [examples(most) for most in (1, 6, 50)] == [1, 6, 50]
    monkeypatch.setenv(IN_TURN, "1")
    assert [examples(most) for most in (1, 6, 50)] == [1, 4, 20]
