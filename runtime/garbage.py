"""How often Python looks for garbage while the compiler works.

IR is full of cycles and most of it lives as long as the work, so that looking at all of it again
after every 700 new objects, as Python does, takes an eighth of the time of compiling a large graph.
"""

from __future__ import annotations

import gc
import threading
from contextlib import ContextDecorator
from typing import ClassVar

OBJECTS = 100_000
"""New objects after which garbage is looked for."""


def collect_rarely() -> None:
    """From now on this process looks for garbage after ``OBJECTS`` new objects."""
    gc.set_threshold(OBJECTS, 20, 50)


class rarely(ContextDecorator):
    """``with rarely()``, or a decorator: meanwhile garbage is looked for after ``OBJECTS`` objects.

    A process that does so more rarely still, or never, goes on as it is.  Its own thresholds are
    there again when the last thread is out.
    """

    _lock: ClassVar = threading.Lock()
    _inside: ClassVar[int] = 0
    _own: ClassVar[tuple[int, int, int]]

    def __enter__(self) -> None:
        with self._lock:
            if rarely._inside == 0:
                rarely._own = gc.get_threshold()
                if 0 < rarely._own[0] < OBJECTS:
                    collect_rarely()
            rarely._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            rarely._inside -= 1
            if rarely._inside == 0:
                gc.set_threshold(*rarely._own)
