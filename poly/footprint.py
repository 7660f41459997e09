"""Footprints: what a tile of a consumer needs of a producer, and the least buffer (S4.10, S7.1).

The consumer's points are cut into tiles, as for compute-at legality.  The relation is

    live = { tile → e : some point of the tile needs element e of the producer }

over every way from the consumer to the producer.  A footprint is the box around the elements of
one tile, the largest that any tile has for any values of the symbols.  An extent that grows
with the symbols is the size of the producer's axis, less what no tile ever reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSet

from polyc.affine import isl
from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects.common.arch import Arch
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import product as product_of
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.index import Reach, moved_row
from polyc.dialects.tiny import tensor_of
from polyc.poly.compute_at import legal_axes
from polyc.poly.ways import Blocked, entry_of, facts_of, ways

BufferKind = Literal["reg", "smem_ring", "gmem"]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The box of a producer's elements that one tile needs: an extent a dimension."""

    extents: tuple[Dim, ...]
    element_bytes: int

    @property
    def bytes(self) -> Dim:
        """The bytes of the box."""
        return product_of(self.extents) * self.element_bytes


@dataclass(frozen=True, slots=True)
class Buffer:
    """The least buffer between a producer and a tile of its consumer.

    ``reg``: each element stays with the one consumer point that needs it, or is a scalar.
    ``smem_ring``: the tile's elements fit shared memory ``depth`` times.  ``gmem``: they do
    not, or have no bound.
    """

    kind: BufferKind
    depth: int
    bytes: Dim


def footprint(
    producer: SSAValue,
    consumer: SSAValue,
    tiles: Mapping[int, int],
    reads: Sequence[Reach] | None = None,
) -> Footprint | Blocked:
    """What a tile of ``consumer`` needs of ``producer``.

    ``tiles`` and ``reads`` as for ``compute_at``.  Raises ``IslLimitExceeded``.
    """
    found = ways(consumer, producer) if reads is None else reads
    if isinstance(found, Blocked):
        return found
    facts = facts_of(consumer)
    sizes = [a.dim for a in entry_of(producer).axes]
    symbols = entry_of(consumer).symbol_names
    extents = [_extent(found, i, d, tiles, facts, symbols) for i, d in enumerate(sizes)]
    return Footprint(tuple(extents), element_bytes(tensor_of(producer).element_type))


def least_buffer(
    producer: SSAValue,
    consumer: SSAValue,
    tiles: Mapping[int, int],
    arch: Arch,
    reads: Sequence[Reach] | None = None,
) -> Buffer | Blocked:
    """The least buffer that holds the producer's elements for a tile of the consumer.

    A ring has three tiles where three fit, else two (S7.1).  Raises ``IslLimitExceeded``.
    """
    found = footprint(producer, consumer, tiles, reads)
    if isinstance(found, Blocked):
        return found
    own = range(len(entry_of(consumer).axes))
    return smallest(found, set(own) <= set(legal_axes(producer, consumer, reads)), arch)


def smallest(found: Footprint, stays: bool, arch: Arch) -> Buffer:
    """The least buffer for a footprint; ``stays`` where each element has one consumer point."""
    if stays or not found.extents:
        return Buffer("reg", 1, found.bytes)
    bound = found.bytes.constant()
    for depth in (3, 2):
        if bound is not None and depth * bound <= arch.shared_bytes:
            return Buffer("smem_ring", depth, found.bytes)
    return Buffer("gmem", 1, found.bytes)


def _extent(
    found: Sequence[Reach],
    coordinate: int,
    size: Dim,
    tiles: Mapping[int, int],
    facts: AffineSet,
    symbols: Sequence[str],
) -> Dim:
    """The longest stretch of a coordinate that one tile needs."""
    longest: Dim | None = None
    bound = size.as_affine(symbols)
    for a, b in product(found, repeat=2):
        points, apart = _in_one_tile(a, b, coordinate, tiles, facts)
        if isl.is_empty(points):
            continue
        most = isl.greatest(points, apart)
        if most is not None:
            here = Dim.const(most + 1)
        else:
            less = None if bound is None else isl.greatest(points, apart + 1 - bound)
            here = size + min(0, less or 0)
        longest = here if longest is None else _longer(longest, here)
    return Dim.const(0) if longest is None else longest


def _longer(a: Dim, b: Dim) -> Dim:
    """The longer of two extents; one that grows with the symbols before one that does not."""
    difference = (a - b).constant()
    if difference is not None:
        return a if difference >= 0 else b
    return b if b.constant() is None else a


def _in_one_tile(
    a: Reach, b: Reach, coordinate: int, tiles: Mapping[int, int], facts: AffineSet
) -> tuple[AffineSet, AffineExpr]:
    """Pairs of points of one tile, and how far apart they read along a coordinate."""
    split = len(a.axes)
    shifted = [AffineDimExpr(split + i) for i in range(len(b.axes))]
    rows = [*facts.constraints, *a.domain.constraints]
    rows += [moved_row(r, shifted) for r in b.domain.constraints]
    for axis, tile in tiles.items():
        same = AffineDimExpr(axis) // tile - AffineDimExpr(split + axis) // tile
        rows.append(constraint_of(linear_of(same), True))
    other = b.map.results[coordinate].replace_dims_and_symbols(shifted, ())
    points = AffineSet(split + len(b.axes), a.map.num_symbols, tuple(rows))
    return points, isl.canonical_expr(a.map.results[coordinate] - other)
