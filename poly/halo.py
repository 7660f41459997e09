"""Halos: how far the tiles of a consumer read into their neighbours' share (S4.10, S7.1).

Along a coordinate of the producer that steps by ``s`` with a tiled axis, tile ``t`` of size
``T`` owns the stretch ``[s*T*t, s*T*(t+1))``.  The halo is what it reads outside of that,

    low  = max over points (s*T*t - coordinate),   high = max (coordinate - s*T*(t+1) + 1)

with a shift common to both taken out.  ``low + high`` is what neighbouring footprints share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSet

from polyc.affine import isl
from polyc.affine.expressions import linear_of
from polyc.dialects.common import sizes
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import Reach
from polyc.poly.footprint import Footprint, footprint
from polyc.poly.readings import with_facts
from polyc.poly.ways import Blocked, facts_of, ways


@dataclass(frozen=True, slots=True)
class Side:
    """The halo along one coordinate: elements before and after a tile's own ``own``.

    ``axis`` is the tiled axis that walks the coordinate, None where no one does: every tile
    then reads all of it, and there is no halo.
    """

    axis: int | None
    low: int
    high: int
    own: Dim


@dataclass(frozen=True, slots=True)
class Halo:
    """The halo of a producer: a side for each of its dimensions, and the bytes of a tile's."""

    sides: tuple[Side, ...]
    bytes: Dim

    def along(self, axis: int) -> tuple[int, int]:
        """The widest ``(low, high)`` along an axis of the consumer."""
        found = [s for s in self.sides if s.axis == axis]
        return max((s.low for s in found), default=0), max((s.high for s in found), default=0)


def halo(
    producer: SSAValue,
    consumer: SSAValue,
    tiles: Mapping[int, int],
    reads: Sequence[Reach] | None = None,
) -> Halo | Blocked:
    """The halo that a tile of ``consumer`` has in ``producer``.

    ``tiles`` and ``reads`` as for ``compute_at``.  Blocked where ways walk a dimension along
    different axes or by different steps, and where the halo has no bound.  Raises
    ``IslLimitExceeded``.
    """
    found = ways(consumer, producer) if reads is None else reads
    if isinstance(found, Blocked):
        return found
    whole = footprint(producer, consumer, tiles, reads)
    assert isinstance(whole, Footprint)
    facts = facts_of(consumer)
    sides: list[Side] = []
    for i, extent in enumerate(whole.extents):
        walks = {_walk(way, i, tiles) for way in found}
        if len(walks) > 1:
            return Blocked(f"dimension {i} of the producer is read along different axes")
        walk = walks.pop()
        if walk is None:
            sides.append(Side(None, 0, 0, extent))
            continue
        axis, step = walk
        own = abs(step) * tiles[axis]
        first = AffineDimExpr(axis) // tiles[axis] * (step * tiles[axis])
        low = _greatest(found, i, first, -1, facts)
        high = _greatest(found, i, first, 1, facts)
        if step < 0:
            low, high = high, low
        if low is None or high is None:
            return Blocked(f"dimension {i} of the producer is read without a bound on the halo")
        high -= own - 1
        shared = max(0, low + high)
        low = min(max(0, low), shared)
        sides.append(Side(axis, low, shared - low, Dim.const(own)))
    alone = sizes.product(s.own for s in sides)
    wide = sizes.product(s.own + (s.low + s.high) for s in sides)
    return Halo(tuple(sides), (wide - alone) * whole.element_bytes)


def _walk(way: Reach, coordinate: int, tiles: Mapping[int, int]) -> tuple[int, int] | None:
    """The tiled axis that a coordinate steps with, and its step; the largest step counts."""
    terms = linear_of(way.map.results[coordinate]).terms
    found = [
        (step, atom[1])
        for atom, step in terms
        if isinstance(atom, tuple) and atom[0] == "d" and atom[1] in tiles
    ]
    if not found:
        return None
    step, axis = max(found, key=lambda t: (abs(t[0]), -t[1]))
    return axis, step


def _greatest(
    found: Sequence[Reach], coordinate: int, first: AffineExpr, sign: int, facts: AffineSet
) -> int | None:
    """The largest ``sign * (coordinate - first)``; None where it has no bound.

    0 where no way has a point.
    """
    values: list[int] = []
    for way in found:
        points = with_facts(way.domain, facts)
        if not isl.is_empty(points):
            value = isl.greatest(points, (way.map.results[coordinate] - first) * sign)
            if value is None:
                return None
            values.append(value)
    return max(values, default=0)
