"""Answers about regions, which are kept.

A graph's kernels are asked for plans, and for their times, while it is cut, and again when plans
are chosen; the layers of a network differ in names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from threading import Lock
from typing import Generic, TypeVar

from polyc.cost.device import device_of
from polyc.dialects.region import KernelOp
from polyc.dialects.region.graph import kernels_beside, source
from polyc.rewriting.structure import structure

MOST = 256
"""Of so many regions an answer is kept, those that were asked about last."""

Answer = TypeVar("Answer")


class Remembered(Generic[Answer]):
    """The answers to one question, by what is asked about."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Answer] = {}
        self._lock = Lock()

    def of(self, key: Hashable, make: Callable[[], Answer]) -> Answer:
        """The answer that is kept, or what ``make`` gives; what it raises is not kept."""
        with self._lock:
            if key in self._kept:
                found = self._kept[key] = self._kept.pop(key)
                return found
        found = make()
        with self._lock:
            self._kept[key] = found
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
        return found


def alike(kernel: KernelOp, arch: str, left_out: Collection[str] = ()) -> Hashable:
    """A key of regions of which plans for an architecture and the model of time say the same.

    Locations do not count, nor properties that ``left_out`` names.  Of what is around a region it
    counts the chip that is modelled, and which of its inputs kernels beside it make: these may be
    found in L2.
    """
    sources = [source(kernel, number) for number in range(len(kernel.ins))]
    beside = {one.sym_name.data for one in kernels_beside(kernel)}
    made = tuple(found is not None and found[0] in beside for found in sources)
    return structure(kernel, left_out), made, arch, device_of(arch)
