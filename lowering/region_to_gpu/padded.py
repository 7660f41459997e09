"""``region-to-gpu``: operands whose rows are copied to whole panels before a kernel reads them.

The copy engine takes rows that begin at multiples of 16 bytes, and brings them at full speed where
they begin at whole lines of the L2 cache.  A launch ahead of the kernel copies rows of any other
length to a workspace, zeros behind each, and the kernel reads that.  Where rows are whole panels
already, the host leaves the launch out (``gpu.workspace … copies``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import FragmentType, GlobalType
from polyc.dialects.plan.padded import COPY_COLUMNS, COPY_ROWS, COPY_THREADS, panels
from polyc.dialects.region import KernelOp
from polyc.lowering.region_to_gpu.frame import CopyFrame, Space, global_type


@dataclass(frozen=True)
class Padded:
    """A tensor of a region, of which schedules' kernels read a copy.

    ``number``  its place in the signature
    ``name``    of the copy, and of the kernel that makes it
    ``tensor``  what the region calls it
    ``rows``    the sizes of the tensor as the region sees it
    ``kind``    the copy as the kernel sees it
    """

    number: int
    name: str
    tensor: str
    rows: tuple[Dim, ...]
    kind: GlobalType

    @staticmethod
    def of(region: KernelOp, number: int) -> Padded:
        """The copy of tensor ``number`` of the signature, which is one for all schedules."""
        names = [n.data for n in (*region.arg_names, *region.res_names)]
        seen = global_type(region.seen[number])
        dims = (*seen.dims[:-1], panels(seen.dims[-1]))
        name = re.sub(r"\W", "_", f"{region.sym_name.data}_padded_{names[number]}")
        return Padded(
            number, name, names[number], seen.dims, GlobalType.of(dims, seen.element_type)
        )

    @property
    def matrix(self) -> tuple[Dim, Dim]:
        """The rows of all axes but the last, and their length."""
        return prod(self.rows[:-1], start=Dim.const(1)), self.rows[-1]

    def kernel(self, region: KernelOp, source: BindAttr, copy: BindAttr) -> gpu.KernelOp:
        """The kernel that copies ``source`` to ``copy``: a CTA has a tile of the rows.

        What lies beside the tensor arrives as zeros, which are then the ends of the copy's rows.
        """
        rows, columns = self.matrix
        element = self.kind.element_type
        kinds = [
            GlobalType.of((rows, columns), element),
            GlobalType.of((rows, self.kind.dims[-1]), element),
        ]
        frame = CopyFrame(region, self.tensor, kinds, self.matrix)
        emit = frame.emit
        sizes = [frame.size(size) for size in self.matrix]
        place = tile.TileCoordinatesOp(sizes, [COPY_ROWS, COPY_COLUMNS], "row", 1)
        emit.op(place)
        at: Sequence[SSAValue] = place.coordinates
        held = emit.value(tile.FragmentOp(FragmentType.of([COPY_ROWS, COPY_COLUMNS], element)), "x")
        emit.op(tile.CopyOp(tile.CopyEnd(frame.tensor, at), tile.CopyEnd(held)))
        emit.op(tile.CopyOp(tile.CopyEnd(held), tile.CopyEnd(frame.filled, at)))
        return frame.finish(self.name, [source, copy], COPY_THREADS)

    def launch(self, when: AssumptionsAttr, align: Sequence[int]) -> LaunchOp:
        """The launch of that kernel, under a schedule's conditions."""
        rows, columns = self.matrix
        grid = [rows.ceildiv(COPY_ROWS), columns.ceildiv(COPY_COLUMNS)]
        return LaunchOp(self.name, when, align, grid, fills=self.space.name)

    @property
    def space(self) -> Space:
        """The memory of the copy."""
        return Space(self.name, self.kind, self.number)
