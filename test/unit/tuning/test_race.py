"""Rounds in turns, and the rules that end them, by a clock and times of the test's own."""

from __future__ import annotations

from collections.abc import Sequence

from polyc.dialects.common.diagnostic import PolycError
from polyc.tuning.race import PATIENCE, ROUNDS, Race, Runner


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Fake:
    """A candidate whose times are given; the last one again and again.  Each costs a second."""

    def __init__(self, clock: Clock, times: Sequence[float], fails_at: int | None = None) -> None:
        self.clock, self.times, self.fails_at, self.count = clock, times, fails_at, 0

    def seconds(self) -> float:
        self.clock.now += 1
        if self.count == self.fails_at:
            raise PolycError("DriverFailed", "an illegal address")
        self.count += 1
        return self.times[min(self.count, len(self.times)) - 1]


def race(*given: Sequence[float], budget: float = 1e9, **more: object) -> Race[Fake]:
    clock = Clock()
    runners = [Runner(str(i), Fake(clock, times)) for i, times in enumerate(given)]
    made = Race(runners, clock, budget)
    for name, value in more.items():
        setattr(made, name, value)
    made.run()
    return made


def test_it_ends_where_nothing_changes_and_the_median_counts() -> None:
    found = race([9.0, 5.0, 5.0], [6.0, 6.0, 6.0])
    best = found.best()
    assert best is not None and best.name == "0" and best.median == 5.0
    assert found.ended == f"no change in {PATIENCE} rounds" and found.rounds < ROUNDS


def test_what_is_twice_as_slow_runs_once() -> None:
    found = race([1.0], [2.01], [1.99])
    assert [len(r.times) > 1 for r in found.runners] == [True, False, True]
    assert found.runners[1].out == "slower than 2 times the best"


def test_the_budget_ends_it_and_what_was_timed_stays() -> None:
    found = race([1.0], [1.5], budget=2.5)
    assert found.ended == "the budget is used up"
    assert [len(r.times) for r in found.runners] == [1, 2]  # the second one begins round two
    assert found.best() is found.runners[0]


def test_no_budget_times_nothing() -> None:
    found = race([1.0], budget=-1.0)
    assert found.best() is None and found.runners[0].median == float("inf")


def test_a_change_goes_on_to_the_last_round() -> None:
    found = race([1 / (i + 1) for i in range(200)])
    assert found.ended == f"{ROUNDS} rounds are enough"


def test_the_user_stops_it() -> None:
    answers = iter([False, False, False, True])
    found = race([1.0], [1.1], stop=lambda: next(answers))
    assert found.ended == "it was stopped" and sum(len(r.times) for r in found.runners) == 3


def test_a_failure_ends_it_and_is_no_best() -> None:
    clock = Clock()
    runners = [Runner("a", Fake(clock, [1.0], 1)), Runner("b", Fake(clock, [1.5]))]
    found = Race(runners, clock, 1e9)
    found.run()
    assert runners[0].out == "failed: an illegal address" and found.best() is runners[1]
    assert found.ended == "a failed, an illegal address"


def test_the_order_rotates() -> None:
    seen: list[str] = []

    class Told:
        def __init__(self, name: str) -> None:
            self.name = name

        def seconds(self) -> float:
            seen.append(self.name)
            return 1.0

    found = Race([Runner(n, Told(n)) for n in "abc"], Clock(), 1e9)
    found.run()
    assert "".join(seen[:9]) == "abcbcacab"
