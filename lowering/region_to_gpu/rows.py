"""``region-to-gpu``: the kernels of rows that are reduced along one axis (S9, T3).

A resident kernel has whole rows in registers: it reads a tile once, and reduces and maps that
until the output is written.  A kernel that keeps rows brings them to shared memory, once, and walks
them there.  A streaming kernel walks a row in chunks, once for the reductions
that need no other one, once more for those that need these, and once for the output.  Where a
cluster of blocks has a row, they take its chunks in turn, and their results are brought together
after each walk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from polyc.dialects.common.dim import ShapeAttr
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import (
    KernelOp,
)
from polyc.families.rows.recognise import Rows
from polyc.families.rows.schedules import is_kept, is_resident
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.grid import Grid
from polyc.lowering.region_to_gpu.kernel import Walked
from polyc.lowering.region_to_gpu.row_builders import Resident, RowBuilder, Streaming
from polyc.lowering.region_to_gpu.rows_in_turns import (
    Turns,
    WalkedTurns,
    blocks_together,
    has_open_teams,
    meeting_spaces,
)
from polyc.lowering.region_to_gpu.rows_kept import Kept
from polyc.passes.region.expand_together import takes_whole


@dataclass(frozen=True)
class RowsLowering(Walked):
    """A region whose reductions all run along one axis."""

    rows: Rows

    @property
    def kernel(self) -> KernelOp:
        return self.rows.kernel

    def check_form(self, plan: ScheduleOp) -> None:
        if takes_whole(plan, self.kernel):
            super().check_form(plan)

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """A block takes several rows of the innermost axis, and one point of the others."""
        axes = [(axis.label, axis.size) for axis in self.rows.outer]
        return [Grid.of(plan, axes[:-1], *axes[-1:])]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid]) -> RowBuilder:
        if is_kept(plan):
            return (Turns if plan.takes_turns else Kept)(self.rows, plan, grids)
        if plan.takes_turns:
            return WalkedTurns(self.rows, plan, grids)
        return (Resident if is_resident(plan) else Streaming)(self.rows, plan, grids)

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        """The kernel; the blocks that share rows by way of memory run at once, whole teams."""
        (own,) = super().launches(plan)
        if plan.meets_in_memory:
            own.cooperative = ShapeAttr.of([blocks_together(self.rows, plan)])
        if has_open_teams(self.rows, plan):
            # A team has no more blocks than its row has chunks.
            sizes = [axis.size for axis in self.rows.outer]
            chunks = self.rows.length.ceildiv(plan.tile_sizes[1])
            own.grid = ShapeAttr.of([prod(sizes, start=chunks)])
        return [own]

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        return meeting_spaces(self.rows, plan)

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        builder = self.builder(plan, self.grids(plan))
        if isinstance(builder, Turns):
            builder = builder.taking(spaces)
        return [builder.build(bindings)]


LOWERING = RowsLowering
