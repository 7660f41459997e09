"""How many CTAs a launch has: the host's arithmetic, for whoever launches or models one.

Plain data, which a program that was kept on disk has too; ``gpu.launch`` makes one of itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from polyc.dialects.common.size_expr import Shape

WORKSPACE_ALIGN = 256
"""Bytes that the address of every workspace is a multiple of."""

COPY_ALIGN = 16
"""Bytes that the address of a tensor is a multiple of where it stands for its own copy."""


def product(extents: Shape, symbols: Mapping[str, int]) -> int:
    """The product of sizes; 1 of none."""
    return prod(size.evaluate(symbols) for size in extents)


class Grid(NamedTuple):
    """The grid of a launch of ``kernel``, as ``gpu.launch`` describes its words.

    ``cooperative`` is the size of a group, None where CTAs do not wait for each other.  ``cluster``
    are the CTAs of one, ``room`` those that the kernel promises to leave room for on one
    multiprocessor.
    """

    kernel: str
    extents: Shape
    persistent: bool
    cooperative: Shape | None
    cluster: int
    room: int

    def blocks(
        self, symbols: Mapping[str, int], multiprocessors: int, at_once: int | None = None
    ) -> int:
        """How many CTAs run at these sizes on a chip with so many multiprocessors.

        Each of them runs ``at_once`` CTAs, or as many as the kernel promises to leave room for.
        """
        count = product(self.extents, symbols)
        if not self.persistent or count <= 0:
            return count
        count = min(count, multiprocessors * self._room(at_once))
        unit = self.cluster * self.group(symbols)
        return max(unit, count // unit * unit)

    def group(self, symbols: Mapping[str, int]) -> int:
        """CTAs of a persistent cooperative grid that belong together; 1 for every other one."""
        if self.cooperative is None or not self.persistent:
            return 1
        return max(1, product(self.cooperative, symbols))

    def _room(self, at_once: int | None) -> int:
        return self.room if at_once is None else min(self.room, at_once)

    def crowded(
        self, symbols: Mapping[str, int], multiprocessors: int, at_once: int | None = None
    ) -> str | None:
        """Why a cooperative grid cannot run at once on such a chip, or None where it can."""
        if self.cooperative is None:
            return None
        wanted = self.blocks(symbols, multiprocessors, at_once)
        most = multiprocessors * self._room(at_once)
        if wanted <= most:
            return None
        return (
            f"{wanted} CTAs of @{self.kernel} wait for each other, and the chip runs {most} at once"
        )


def stands_for_copy(whole: Shape, elements: int, address: int, symbols: Mapping[str, int]) -> bool:
    """Whether a tensor of so many elements at ``address`` is its own copy of sizes ``whole``."""
    return product(whole, symbols) == elements and address % COPY_ALIGN == 0
