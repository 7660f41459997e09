"""Who waits for whom while the warpgroups of a CTA play roles: rings, turns, and deadlock.

Each warpgroup, or group of them that works together, is a thread, and one plays at a time: it
keeps the floor until it has to wait.  So what a program computes does not depend on the threads,
and a program that stops is seen to.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError


class Stopped(Exception):
    """Another role has an error to tell."""


class Floor:
    """Only one of the roles plays at a time; the others wait until something has changed."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._live = 0
        self._waiting: dict[int, Operation] = {}
        self._error: BaseException | None = None
        self.posted: dict[int, Any] = {}
        """The numbers of words that are posted, by their addresses."""

    def run(self, roles: Sequence[Callable[[], None]]) -> None:
        """Play all roles to their end; raises what the first raised.

        One of the roles may itself divide into more, and goes on when they have ended.
        Raises PolycError ``Deadlock`` when every role that is left waits.
        """
        inside = self.busy
        self._live += len(roles) - inside
        left = len(roles)

        def one(role: Callable[[], None]) -> None:
            with self._condition:
                try:
                    if self._error is None:
                        role()
                except Stopped:
                    pass
                except BaseException as error:
                    self._error = self._error or error
                finally:
                    nonlocal left
                    left -= 1
                    if left or not inside:
                        self._live -= 1
                    last = inside and not left
                    self.changed() if last or self._error is not None else self._check()

        threads = [threading.Thread(target=one, args=(role,), daemon=True) for role in roles]
        for thread in threads:
            thread.start()
        if inside:
            # The last of them leaves its place among the living to who asked for them.
            self._condition.wait_for(lambda: not left)
        for thread in threads:
            thread.join()
        if self._error is not None:
            raise self._error

    @property
    def busy(self) -> bool:
        """Whether roles play on it now."""
        return self._live > 0

    def changed(self) -> None:
        """Something happened that another role may wait for, where there is one."""
        self._waiting.clear()
        if self.busy or self._error is not None:
            self._condition.notify_all()

    def wait(self, ready: Callable[[], bool], op: Operation) -> None:
        """Let others play until ``ready``; ``op`` is what waits."""
        while not ready():
            self._waiting[threading.get_ident()] = op
            self._check()
            if self._error is not None:
                raise Stopped
            self._condition.wait()
            if self._error is not None:
                raise Stopped

    def _check(self) -> None:
        if self._error is None and self._live and len(self._waiting) == self._live:
            ops = list(self._waiting.values())
            waits = ", ".join(dict.fromkeys(op.name for op in ops))
            self._error = PolycError(
                "Deadlock", f"every role that has not ended waits: {waits}", ops[0]
            )
            self._condition.notify_all()


class Ring:
    """A ring's slots by iteration: who took one, how much of it has come, who has let go.

    ``copies`` is how many copies fill an iteration, ``consumers`` how many releases free it.  An
    iteration of which some copies were skipped is full when the producer goes on to another one, or
    ends.
    """

    def __init__(self, floor: Floor, depth: int, copies: int, consumers: int) -> None:
        self.floor, self.depth, self.copies, self.consumers = floor, depth, copies, consumers
        self._filled: Counter[int] = Counter()
        self._released: Counter[int] = Counter()
        self._open: int | None = None
        self._closed: set[int] = set()

    def close(self) -> None:
        """The producer copies no more into the iteration that it acquired last."""
        if self._open is not None:
            self._closed.add(self._open)
            self._open = None
            self.floor.changed()

    def acquire(self, iteration: int, op: Operation) -> None:
        """Wait until the slot's earlier iteration has been let go."""
        self.close()
        self._open = iteration
        before = iteration - self.depth
        self.floor.wait(lambda: before < 0 or self._released[before] >= self.consumers, op)

    def fill(self, iteration: int) -> None:
        """A copy of the iteration has come."""
        self._filled[iteration] += 1
        self.floor.changed()

    def await_full(self, iteration: int, op: Operation) -> None:
        """Wait until all copies of the iteration have come."""
        self.floor.wait(
            lambda: self._filled[iteration] >= self.copies or iteration in self._closed, op
        )

    def release(self, iteration: int, warpgroups: int) -> None:
        """So many warpgroups have read the iteration's slot."""
        self._released[iteration] += warpgroups
        self.floor.changed()


class Turns:
    """Whose turn it is; number 0 begins."""

    def __init__(self, floor: Floor, participants: int) -> None:
        self.floor, self.participants, self.turn = floor, participants, 0

    def enter(self, number: int, op: Operation) -> None:
        self.floor.wait(lambda: self.turn == number, op)

    def leave(self, number: int) -> None:
        self.turn = (number + 1) % self.participants
        self.floor.changed()
