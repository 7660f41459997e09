"""Convolutions in groups: which channels of the image a filter reads (S4.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

from xdsl.ir.affine import AffineDimExpr, AffineMap

from polyc.affine.expressions import Floor, Linear, NotAffine, linear_of
from polyc.dialects.region import KernelOp, ReadOp


@dataclass(frozen=True)
class Groups:
    """``filters`` of a group read ``channels`` of the image; 0 of each where there is one group.

    ``accesses`` are the maps of the image's read inside of a group.
    """

    filters: int = 0
    channels: int = 0
    accesses: Mapping[ReadOp, AffineMap] = field(default_factory=dict[ReadOp, AffineMap])

    def fits(self, filters: int, channels: int) -> bool:
        """Whether tiles of so many filters and channels lie inside of groups."""
        return not self.filters or (self.filters % filters == 0 and self.channels % channels == 0)

    def tile(self, filters: int, channels: int) -> tuple[int, int]:
        """The largest tile inside of groups that so many filters and channels are multiples of."""
        return gcd(self.filters, filters), gcd(self.channels, channels)


def groups_of(kernel: KernelOp) -> Groups:
    """The groups of a region: filter f reads channels from ``f floordiv filters * channels`` on."""
    found: list[Groups] = []
    axes = kernel.iters.data
    for op in kernel.body.block.ops if axes else ():
        if isinstance(op, ReadOp) and len(op.map.data.results) == 4:
            groups = _groups(op, axes[-1].label)
            found += [] if groups is None else [groups]
    return found[0] if len(found) == 1 else Groups()


def _groups(read: ReadOp, filters: str) -> Groups | None:
    """The groups that an image is read in; None where it is read in none."""
    access, labels = read.map.data, read.result.type.labels
    try:
        channel = linear_of(access.results[-1])
    except NotAffine:
        return None
    match sorted(channel.terms, key=lambda term: isinstance(term[0], Floor)):
        case [
            (("d", int(axis)), 1),
            (Floor(num=Linear(((("d", int(of)), 1),), 0), den=each), step),
        ]:
            size = read.result.type.axes.data[axis].size.constant()
            if channel.constant or labels[of] != filters or size != step:
                return None
            inside = (*access.results[:-1], AffineDimExpr(axis))
            return Groups(
                each, step, {read: AffineMap(access.num_dims, access.num_symbols, inside)}
            )
        case _:
            return None
