"""Counters in global memory that threads signal and wait for: who waited for whose signals.

A wait knows a number and not whose signals make it up, as on hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from polyc.playback.gpu.clocks import Clocks

Array = NDArray[Any]


@dataclass(frozen=True)
class Signal:
    """``thread`` signalled at ``clock``, and released what it knew."""

    thread: int
    clock: int
    op: Operation
    now: Array
    proxied: Array


@dataclass(frozen=True)
class Mistaken:
    """A wait at ``op`` for ``count`` may take the signal ``late`` for the signal ``early``."""

    op: Operation
    count: int
    early: Signal
    late: Signal


@dataclass(frozen=True)
class Cut:
    """A wait at ``op`` for a number of signals, and what these released."""

    op: Operation
    count: int
    now: Array
    proxied: Array


class Signals:
    """The signals of one counter, in the order in which they came, from the value ``base`` on.

    A wait for the first ``n`` learns what these released, and nothing of later ones, though they
    may have come as well by then.  Which are the first is the same in every interleaving where
    each later signal happens after all of them.
    """

    def __init__(self, clocks: Clocks, base: int, op: Operation) -> None:
        self.clocks = clocks
        self.base = base
        self.op = op
        """The first op that signals the counter or waits for it."""
        self.signals: list[Signal] = []
        self.cuts: dict[int, Cut] = {}
        """What waits have learnt so far, by the number of signals."""

    def add(self, thread: int, op: Operation) -> Mistaken | None:
        """``thread`` signals: what it knows is released; the wait that may mistake it, if any."""
        clocks = self.clocks
        now, proxied = clocks.now[thread].copy(), clocks.proxied[thread].copy()
        signal = Signal(thread, int(now[thread]), op, now, proxied)
        self.signals.append(signal)
        clocks.tick(np.array([thread]))
        return self._mistaken(self.cuts[max(self.cuts)], signal) if self.cuts else None

    def _mistaken(self, cut: Cut, late: Signal) -> Mistaken | None:
        for early in self.signals[: cut.count]:
            if late.now[early.thread] < early.clock:
                return Mistaken(cut.op, cut.count + self.base, early, late)
        return None

    def observe(self, thread: int, value: int, op: Operation) -> Mistaken | None:
        """``thread`` has waited until the counter was ``value``; a signal that it may mistake."""
        count = min(value - self.base, len(self.signals))
        if count <= 0:
            return None
        found: Mistaken | None = None
        cut = self.cuts.get(count)
        if cut is None:
            first = self.signals[:count]
            now = np.max([s.now for s in first], axis=0)
            proxied = np.max([s.proxied for s in first], axis=0)
            cut = self.cuts[count] = Cut(op, count, now, proxied)
            later = (self._mistaken(cut, s) for s in self.signals[count:])
            found = next((m for m in later if m is not None), None)
        self.clocks.learn(np.array([thread]), cut.now, cut.proxied)
        return found
