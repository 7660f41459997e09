"""What a run leaves behind on request: a fingerprint of its happens-before, and a timeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


LONG = 256
"""Bytes from which on an array is multiplied before it is digested."""


@cache
def _weights(count: int) -> Array:
    return np.random.default_rng(0).integers(0, 1 << 64, count, np.uint64) | np.uint64(1)


def _short(part: Array) -> bytes:
    """An array's bytes, or of a long one a product with random numbers, which is much faster."""
    if part.nbytes < LONG or part.nbytes % 8:
        return part.tobytes()
    words = part.reshape(-1).view(np.uint64)
    return np.dot(words, _weights(words.size)).tobytes() + str(part.shape).encode()


class Trace:
    """A number that stands for all accesses of memory with what happened before each.

    It does not depend on the order in which warps ran.  Writes of shared memory that nothing
    reads are left out.  Two kernels with the same number and the same outputs access the same
    bytes in the same relation.
    """

    def __init__(self) -> None:
        self.read = 0
        self.writes: list[int] = [0]
        self.used: set[int] = set()

    @staticmethod
    def _number(what: str, parts: tuple[Array | int, ...]) -> int:
        digest = blake2b(what.encode(), digest_size=8)
        for part in parts:
            digest.update(_short(np.ascontiguousarray(part)))
            digest.update(b"|")
        return int.from_bytes(digest.digest())

    def add(self, what: str, *parts: Array | int) -> None:
        """An access that matters."""
        self.read += self._number(what, parts)

    def hold(self, what: str, *parts: Array | int) -> int:
        """A write that matters if it is used; the number to use it by."""
        self.writes.append(self._number(what, parts))
        return len(self.writes) - 1

    def use(self, held: Array) -> None:
        """Something reads what these writes wrote."""
        self.used.update(np.unique(held).tolist())

    @property
    def total(self) -> int:
        return (self.read + sum(self.writes[i] for i in self.used)) % (1 << 64)


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
