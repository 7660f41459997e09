"""A limit to how long something takes, by one of the clocks of a process."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

SIGNALS = {
    signal.ITIMER_REAL: signal.SIGALRM,
    signal.ITIMER_VIRTUAL: signal.SIGVTALRM,
    signal.ITIMER_PROF: signal.SIGPROF,
}
"""What a clock sends: that of the wall, of the process's own code, and of that and the system's."""


class TooLong(BaseException):
    """Something took longer than it may; what catches errors of it does not catch this."""


@contextmanager
def limited(seconds: float, clock: int = signal.ITIMER_REAL) -> Generator[None]:
    """Raises ``TooLong`` in what takes longer, by ``clock``, one of ``SIGNALS``."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(SIGNALS[clock], stop)
    signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        signal.setitimer(clock, 0)
        signal.signal(SIGNALS[clock], before)
