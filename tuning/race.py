"""Which of several candidates is the fastest: rounds in turns, and when to stop (S11.2).

In every round each candidate is timed once, and the order rotates from round to round, so that
clock and temperature are the same for all.  A figure is the median over the rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from polyc.dialects.common.diagnostic import PolycError

SLOW = 2.0
"""How many times the best time drops a candidate after its first round."""

PATIENCE = 4
"""Rounds in which nothing has changed, after which there are no more."""

GAIN = 0.005
"""The part of a time by which it has to fall to count as a change."""

ROUNDS = 25
"""The most rounds."""


class Timed(Protocol):
    """What a race asks of a candidate."""

    def seconds(self) -> float:
        """Time it once.  Raises PolycError where it fails."""
        ...


Own = TypeVar("Own", bound=Timed)


@dataclass
class Runner(Generic[Own]):
    """One candidate in a race; ``out`` says why it is no longer in it."""

    name: str
    candidate: Own
    times: list[float] = field(default_factory=list[float])
    out: str = ""

    @property
    def median(self) -> float:
        """Seconds; infinite before it was timed."""
        return statistics.median(self.times) if self.times else float("inf")


@dataclass
class Race(Generic[Own]):
    """Candidates that are timed in turns until a rule says that it is enough.

    ``clock`` gives seconds, ``budget`` are those that may pass, ``stop`` says that the user wants
    no more, ``tell`` is told a line at a time.  ``ended`` says which rule it was.
    """

    runners: Sequence[Runner[Own]]
    clock: Callable[[], float]
    budget: float
    stop: Callable[[], bool] = lambda: False
    tell: Callable[[str], None] = lambda text: None
    rounds: int = 0
    ended: str = ""

    def run(self) -> None:
        """Time until a rule ends it.  What was timed until then is in the runners."""
        start = self.clock()
        unchanged, leader, least = 0, "", float("inf")
        while not self.ended:
            left = [r for r in self.runners if not r.out]
            if not left:
                self.ended = "nothing is left"
                break
            turn = self.rounds % len(left)
            for runner in (*left[turn:], *left[:turn]):
                if self.stop():
                    self.ended = "it was stopped"
                    break
                if self.clock() - start > self.budget:
                    self.ended = "the budget is used up"
                    break
                try:
                    runner.times.append(runner.candidate.seconds())
                except PolycError as error:
                    runner.out = f"failed: {error.message}"
                    self.ended = f"{runner.name} failed, {error.message}"
                    break
            else:
                self.rounds += 1
                if self.rounds == 1:
                    self._drop()
                best = self.best()
                if best is None:
                    continue
                same = best.name == leader and best.median > least * (1 - GAIN)
                unchanged = unchanged + 1 if same else 0
                leader, least = best.name, min(least, best.median)
                self.tell(
                    f"round {self.rounds}: {sum(not r.out for r in self.runners)} candidates, "
                    f"best {best.name} {best.median * 1e6:.4g} us"
                )
                if unchanged >= PATIENCE:
                    self.ended = f"no change in {PATIENCE} rounds"
                elif self.rounds >= ROUNDS:
                    self.ended = f"{ROUNDS} rounds are enough"

    def _drop(self) -> None:
        best = self.best()
        for runner in self.runners:
            if best is not None and not runner.out and runner.median > SLOW * best.median:
                runner.out = f"slower than {SLOW:g} times the best"

    def best(self) -> Runner[Own] | None:
        """The fastest so far that did not fail; of equal ones the first."""
        timed = [r for r in self.runners if r.times and not r.out]
        return min(timed, key=lambda r: r.median, default=None)
