"""``region-to-gpu``: how the blocks of a kernel part the space of its outputs (S8, S9).

The outermost scope of every kernel: which tile a block has, how many blocks there are, and which of
them work together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import BlockIdOp, ClusterRankOp
from polyc.dialects.plan import ScheduleOp
from polyc.rewriting.emit import Emit, affine_dim

Coordinates = Mapping[str, SSAValue]
"""Where a tile of the output begins: the first coordinate on each axis of its grid."""


@dataclass(frozen=True)
class Axis:
    """An axis of a grid: a block has ``tile`` of its ``size`` points."""

    label: str
    size: Dim
    tile: int = 1
    beside: int = 1
    """Blocks of a cluster that have neighbouring tiles along it."""

    @property
    def tiles(self) -> Dim:
        """How many tiles it is cut into, whole clusters of them."""
        if self.tile == self.beside == 1:
            return self.size
        return self.size.ceildiv(self.tile * self.beside) * self.beside


@dataclass(frozen=True)
class Grid:
    """A space of outputs that blocks part, a tile each.

    ``axes``   those that are parted, the fastest one last
    ``share``  blocks of a cluster that have one tile together, and share what is reduced for it
    ``order``  the raster of the tiles and its group, where it is not the plan's
    """

    axes: tuple[Axis, ...]
    share: int = 1
    order: tuple[str, int] | None = None

    @staticmethod
    def of(plan: ScheduleOp, outer: Sequence[tuple[str, Dim]], *ends: tuple[str, Dim]) -> Grid:
        """Blocks with a point of each outer axis, and the tile of the plan along the others."""
        cut = zip(ends, plan.tile_sizes, plan.integers("cluster"), strict=False)
        axes = [Axis(*end, size, beside) for end, size, beside in cut]
        share = 1 if plan.stores_sums else plan.integer("split_k")
        return Grid((*(Axis(*one) for one in outer), *axes), share)

    def blocks(self) -> list[Dim]:
        """CTAs along each axis; those that have a tile together are neighbours."""
        one = Dim.const(1)
        counts = [axis.tiles for axis in self.axes if axis.tiles != one] or [one]
        return [*counts[:-1], counts[-1] * self.share]

    @property
    def tile(self) -> list[int]:
        """What a block has of each axis."""
        return [axis.tile for axis in self.axes]

    def coordinates(self, emit: Emit, sizes: Sequence[SSAValue], plan: ScheduleOp) -> Coordinates:
        """Where the only tile of a block begins; ``sizes`` are those of the axes."""
        if len(self.axes) < 2:
            return self._along_one(emit)
        # The CTAs of a cluster along the rows or the columns have a place together, and cut it.
        place = tile.TileCoordinatesOp(
            sizes,
            [axis.tile * axis.beside for axis in self.axes],
            *(self.order or (plan.raster.data, plan.integer("group"))),
            cluster=self.share > 1 or any(axis.beside > 1 for axis in self.axes),
        )
        emit.op(place)
        labels = (axis.label for axis in self.axes)
        found: dict[str, SSAValue] = dict(zip(labels, place.coordinates, strict=True))
        for axis in self.axes:
            if axis.beside > 1:
                rank = emit.value(ClusterRankOp(), "rank")
                own = affine_dim(0) + affine_dim(1) * axis.tile
                found[axis.label] = emit.apply(own, [found[axis.label], rank])
        return found

    def _along_one(self, emit: Emit) -> Coordinates:
        """The same of at most one axis: tiles are in the order of the blocks."""
        if not self.axes:
            return {}
        (axis,) = self.axes
        place = emit.value(BlockIdOp(), "block")
        if self.share > 1:
            place = emit.apply(affine_dim(0) // self.share, [place], hint="cluster")
        if axis.tile > 1:
            place = emit.apply(affine_dim(0) * axis.tile, [place])
        return {axis.label: place}


def blocks_of(grids: Sequence[Grid]) -> list[Dim]:
    """The CTAs of a kernel whose blocks part several spaces one after another."""
    if len(grids) == 1:
        return grids[0].blocks()
    return [sum((prod(grid.blocks(), start=Dim.const(1)) for grid in grids), Dim.const(0))]
