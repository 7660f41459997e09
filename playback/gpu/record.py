"""What a run leaves behind on request: a fingerprint of its happens-before, and a timeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Trace:
    """A number that stands for all accesses of memory with what happened before each.

    It does not depend on the order in which warps ran.  Two kernels with the same number
    access the same bytes in the same relation.
    """

    def __init__(self) -> None:
        self.total = 0

    def add(self, what: str, *parts: Array | int) -> None:
        digest = blake2b(what.encode(), digest_size=8)
        for part in parts:
            digest.update(np.asarray(part, np.int64).tobytes())
            digest.update(b"|")
        self.total = (self.total + int.from_bytes(digest.digest())) % (1 << 64)


@dataclass(frozen=True)
class Event:
    """``agent`` does ``what`` from step ``start`` to step ``end``, on behalf of ``stage``."""

    agent: str
    start: int
    end: int
    what: str
    stage: int | None = None


@dataclass
class Timeline:
    """The events of one CTA; a step is one turn of the scheduler."""

    now: int = 0
    events: list[Event] = field(default_factory=list[Event])

    def add(self, agent: str, start: int, what: str, stage: int | None = None) -> None:
        """``agent`` has done ``what`` from ``start`` until now."""
        self.events.append(Event(agent, start, max(self.now, start + 1), what, stage))
