"""``region-to-gpu``: a region with a scan on its way to kernels (S9, T3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i32

from polyc.dialects.common.dim import Dim, ShapeAttr
from polyc.dialects.common.elements import accumulation
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import GlobalType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.region import KernelOp
from polyc.families.scans.recognise import Scans
from polyc.families.scans.schedules import MEETING, axes_of, axis_of
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.grid import Axis, Grid, blocks_of
from polyc.lowering.region_to_gpu.kernel import Builder, Walked
from polyc.lowering.region_to_gpu.scan_builders import RowsBuilder, ScanBuilder
from polyc.lowering.region_to_gpu.scan_chains import ChainBuilder, chain_words
from polyc.lowering.region_to_gpu.scan_column_chains import ColumnChainBuilder
from polyc.lowering.region_to_gpu.scan_teams import TeamBuilder


@dataclass(frozen=True)
class ScansLowering(Walked):
    """A region with a scan."""

    scans: Scans

    @property
    def kernel(self) -> KernelOp:
        return self.scans.kernel

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """A block has a tile of all axes but the one that is walked."""
        rows, columns, _ = plan.tile_sizes
        axes = axes_of(self.scans, way_of(plan), (rows, columns))
        one = Dim.const(1)
        return [
            Grid(
                tuple(
                    Axis("", one) if label is None else Axis(label, self.scans.size(label), step)
                    for label, step in axes
                )
            )
        ]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid]) -> Builder:
        ways = {
            "serial": ScanBuilder,
            "rows": RowsBuilder,
            "chains": ChainBuilder if axis_of(self.scans) else ColumnChainBuilder,
            "teams": TeamBuilder,
        }
        return ways[way_of(plan)](self.scans, plan, grids)

    def parts(self, plan: ScheduleOp) -> Dim:
        """The tiles of a line; a team has a block for each."""
        axis = axis_of(self.scans)
        return self.scans.size(self.scans.along).ceildiv(plan.tile_sizes[axis])

    @property
    def lines(self) -> Dim:
        """How many lines there are."""
        sizes = (self.scans.size(label) for label in self.scans.labels)
        return prod(sizes, start=Dim.const(1))

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        """The kernel; blocks that wait for others run at once, teams as many as find room whole."""
        if way_of(plan) not in MEETING:
            return super().launches(plan)
        parts = self.parts(plan)
        grid, together = [self.lines, parts], parts
        if way_of(plan) == "chains":
            grid, together = [*blocks_of(self.grids(plan)), parts], Dim.const(1)
        own = LaunchOp(plan.kernel_name, plan.when, self.aligned(plan), grid, True)
        own.cooperative = ShapeAttr.of([together])
        return [own]

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        """What each block has of a line, and how many have told it or what groups come to."""
        if way_of(plan) not in MEETING:
            return []
        scan, name = self.scans.scan, plan.kernel_name
        if way_of(plan) == "chains":
            words = zip(("told", "groups", "ends"), chain_words(self.scans, plan), strict=True)
            return [Space(f"{name}_{what}", kind, zeroed=True) for what, kind in words]
        kind = accumulation(scan.fn.data, scan.accumulator)
        told = GlobalType.of([self.lines, self.parts(plan)], kind)
        arrived = GlobalType.of([self.lines], i32)
        return [Space(f"{name}_told", told), Space(f"{name}_arrived", arrived, zeroed=True)]

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        builder = self.builder(plan, self.grids(plan))
        if isinstance(builder, TeamBuilder | ChainBuilder):
            kinds = [space.kind for space in self.spaces(plan)]
            builder.taking(kinds, spaces)
        return [builder.build(bindings)]


LOWERING = ScansLowering


def way_of(plan: ScheduleOp) -> str:
    """How a schedule walks."""
    return str(record_of(plan.algo_choice)["scans"])
