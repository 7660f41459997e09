"""``region-to-gpu``: one walk builds every kernel, scope by scope (S9, T3).

The grid's scope says which tiles of its outputs' space a block has.  In the scope of a tile each
reduction is made by its way: contracted by tensor cores (``contracted``), resident in registers or
streamed in chunks (``rows``), step by step by threads (``loops``); a way has steps in a scope of
their own.  Then the tile's outputs are computed of what the reductions left, and stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xdsl.ir import Block, Operation, Region, SSAValue

from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import GlobalType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.region_to_gpu.frame import Frame, Space, alignments, check_whole
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid, blocks_of
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit


class Walked(ABC):
    """A region of one family, on its way to kernels that the walk builds."""

    @property
    @abstractmethod
    def kernel(self) -> KernelOp:
        """The region."""

    def check_form(self, plan: ScheduleOp) -> None:
        """Refuse a region whose reductions go in parts that the schedule takes whole."""
        check_whole(self.kernel, plan)

    @abstractmethod
    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """The spaces of outputs that blocks part, one after another."""

    @abstractmethod
    def builder(self, plan: ScheduleOp, grids: Sequence[Grid]) -> Builder:
        """What builds the kernel of a schedule."""

    def aligned(self, plan: ScheduleOp) -> list[int]:
        """How aligned every tensor's base address must be, in bytes."""
        return alignments(self.kernel, plan)

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        """When and how wide to run the kernel of a schedule."""
        align, persistent = self.aligned(plan), plan.flag("persistent")
        grid = blocks_of(self.grids(plan))
        return [LaunchOp(plan.kernel_name, plan.when, align, grid, persistent)]

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        """One kernel needs none."""
        return []

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        """The kernel of a schedule that was checked."""
        return [self.builder(plan, self.grids(plan)).build(bindings)]


class Builder(ABC):
    """Builds the kernel of one schedule.

    ``emit`` collects the ops of the scope in hand: the kernel's, or that of a tile in a loop.
    """

    def __init__(
        self,
        kernel: KernelOp,
        plan: ScheduleOp,
        grids: Sequence[Grid],
        copies: Mapping[int, GlobalType] = MappingProxyType({}),
    ) -> None:
        """``copies`` are the types of tensors of which it reads a copy, by number."""
        self.kernel, self.plan, self.grids = kernel, plan, tuple(grids)
        self.frame = Frame(kernel, copies)
        self.emit = self.frame.emit

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel: its tiles, one scope of the grid after another."""
        plan = self.plan
        for grid in self.grids:
            sizes = self.sizes(grid)
            if self.has_turns:
                self.turns(grid, sizes)
            else:
                self.compute(grid, grid.coordinates(self.emit, sizes, plan))
        return self.finish(bindings)

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel of what was emitted."""
        return self.frame.finish(self.plan, bindings, self.plan.cluster_blocks)

    @property
    def has_turns(self) -> bool:
        """Whether a block has several tiles, one after another."""
        return self.plan.flag("persistent")

    def sizes(self, grid: Grid) -> list[SSAValue]:
        """The sizes of a grid's axes; what no tile changes may be emitted here."""
        return [self.frame.size(axis.size) for axis in grid.axes]

    @abstractmethod
    def compute(self, grid: Grid, at: Coordinates) -> None:
        """The scope of a tile: reduce, each reduction by its way, and store the outputs."""

    def turns(self, grid: Grid, sizes: Sequence[SSAValue]) -> None:
        """A loop over the block's tiles; its body is what another kernel does once.

        Shared tiles and what is computed from sizes alone stand before it.
        """
        plan = self.plan
        body = Block(arg_types=[INDEX] * (len(sizes) + 1))
        *coordinates, ordinal = body.args
        ordinal.name_hint = "tile"
        labels = (axis.label for axis in grid.axes)
        inner = self.within(lambda: self.compute(grid, dict(zip(labels, coordinates, strict=True))))
        for op in inner:
            if isinstance(op, SharedTileOp):
                self.emit.op(op)
        body.add_ops([op for op in inner if not isinstance(op, SharedTileOp)])
        order = plan.raster.data, plan.integer("group")
        pingpong = plan.flag("pingpong")
        loop = tile.TileLoopOp(sizes, grid.tile, Region(body), *order, pingpong=pingpong)
        self.emit.op(located(loop, self.kernel.yield_op))

    def within(self, scope: Callable[[], None]) -> list[Operation]:
        """The ops of a scope inside the one in hand, which ``scope`` emits."""
        outer, self.emit = self.emit, Emit()
        scope()
        inner, self.emit = self.emit, outer
        return inner.ops
