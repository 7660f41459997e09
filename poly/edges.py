"""Edges of a report: a value and a block that reads it, with each question asked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import SSAValue

from polyc.dialects.common.arch import Arch
from polyc.dialects.index import Reach
from polyc.poly.blocks import Block, Blocks
from polyc.poly.compute_at import ComputeAt, compute_at, legal_axes
from polyc.poly.footprint import Buffer, Footprint, footprint, smallest
from polyc.poly.halo import Halo, halo
from polyc.poly.tiles import around_taps, tiles_of
from polyc.poly.ways import Blocked, ways


@dataclass(frozen=True)
class Edge:
    """A value that ``block`` reads, and what a tile of the block needs of it.

    ``reads`` are the ways that count: every way to a value that the graph computes, which a
    tile may need for several ends; the block's own reads of one that lies in memory.
    """

    value: SSAValue
    block: Block
    computed: bool
    tiles: Mapping[int, int]
    reads: tuple[Reach, ...] | Blocked
    names: Mapping[SSAValue, str]

    @cached_property
    def box(self) -> Footprint | Blocked:
        if isinstance(self.reads, Blocked):
            return self.reads
        return footprint(self.value, self.block.value, self.tiles, self.reads)

    @cached_property
    def halo(self) -> Halo | Blocked:
        """The halo with all taps of a window together."""
        if isinstance(self.reads, Blocked):
            return self.reads
        around = around_taps(self.block, self.tiles)
        return halo(self.value, self.block.value, around, self.reads)

    @cached_property
    def legal(self) -> tuple[int, ...]:
        """The axes at each point of which the value may be computed once."""
        if isinstance(self.reads, Blocked):
            return ()
        return legal_axes(self.value, self.block.value, self.reads, self.names)

    @cached_property
    def at_tiles(self) -> ComputeAt:
        """Whether the value may be computed at the block's tiles."""
        if isinstance(self.reads, Blocked):
            return ComputeAt(False, False, self.reads.reason)
        own = {a: t for a, t in self.tiles.items() if a < self.block.rank}
        return compute_at(self.value, self.block.value, own, self.reads, self.names)

    def buffer(self, arch: Arch) -> Buffer | Blocked:
        """The least buffer of the value for a tile."""
        if isinstance(self.box, Blocked):
            return self.box
        return smallest(self.box, set(range(self.block.rank)) <= set(self.legal), arch)


def edges_of(blocks: Blocks, given: Mapping[str, int]) -> dict[str, list[Edge]]:
    """The edges into each block, by its name; ``given`` are tile sizes by axis name."""
    made = {b.value for b in blocks.blocks}
    order = {value: place for place, value in enumerate(blocks.names)}
    found: dict[str, list[Edge]] = {}
    for block in blocks.blocks:
        tiles = tiles_of(block, given)
        found[block.name] = [
            Edge(
                value,
                block,
                value in made,
                tiles,
                ways(block.value, value, order) if value in made else _own(block, value),
                blocks.names,
            )
            for value in block.sources
        ]
    return found


def _own(block: Block, value: SSAValue) -> tuple[Reach, ...]:
    return tuple(r for one in block.readings for r in one.reads if r.source is value)
