"""``region-to-gpu``: the kernels of a convolution as an implicit GEMM, at the tile level (S9, T3).

Rows of the product are the pixels of all images of the output: the output is seen as the matrix
[pixels, filters].  Step by step the pipeline goes through the taps of the filter, and in each
through the channels: the left tile is what the tap reads for the tile's pixels (im2col), the right
one the tap of the filter, which is seen as [filters, taps, channels].  Where the output lies as
[images, filters, rows, columns], it is a matrix [filters, pixels] for each image: what multiplies
is the same, with its sides exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from xdsl.dialects import arith
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.types import MemRefType
from polyc.families.conv.convolution import PIXELS, Convolution, merged_pixels, reads_pixels
from polyc.families.conv.schedules import as_planned
from polyc.lowering.region_to_gpu.contracted import (
    Contracted,
    ContractedLowering,
    K,
    M,
    N,
    Operand,
    Target,
)
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.partial_sums import PART
from polyc.lowering.region_to_gpu.point import Held, MakePoint, Point
from polyc.lowering.region_to_gpu.row_maps import Span
from polyc.passes.support.gpu.free_layouts import WARP
from polyc.rewriting.driver import located
from polyc.rewriting.emit import affine_dim, ceil_div


@dataclass(frozen=True)
class ConvLowering(ContractedLowering):
    """A region that is one convolution with an elementwise epilogue."""

    conv: Convolution

    @property
    def kernel(self) -> KernelOp:
        return self.conv.kernel

    def aligned(self, plan: ScheduleOp) -> list[int]:
        """What TMA brings begins at multiples of 16 bytes, whatever threads store at once, and so
        do filters beside planes that threads load."""
        found = super().aligned(plan)
        if plan.loader.data in ("tma", "gather"):
            images = [] if self.conv.planes else self.conv.image.reads()
            for read in (*images, self.conv.filter.read):
                assert isinstance(read.tensor, BlockArgument)
                found[read.tensor.index] = MAX_VECTOR_BYTES
        return found

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        conv = as_planned(self.conv, plan)
        ends = [(a, conv.pixels if a == PIXELS else conv.size(a)) for a in conv.tile_axes]
        return [Grid.of(plan, list(zip(conv.batch, outer_sizes(conv), strict=True)), *ends)]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid], adds: bool = False) -> Windows:
        return Windows(as_planned(self.conv, plan), plan, grids, adds)

    @property
    def reduces_rows(self) -> bool:
        return bool(self.conv.follow)

    def width(self, plan: ScheduleOp) -> int:
        return WARP


LOWERING = ConvLowering


def outer_sizes(conv: Convolution) -> list[Dim]:
    """The points of each axis of which a tile has one."""
    shape = conv.kernel.outs.data[0].shape
    return [shape[0], *shape[2:]][: len(conv.batch)]


class PixelPoint(Point):
    """A point of the output: its pixel is one axis, and what is read pixel by pixel a matrix."""

    def __init__(
        self,
        conv: Convolution,
        frame: Frame,
        block: Block,
        known: Mapping[SSAValue, SSAValue],
        axes: Mapping[str, AffineExpr],
        rank: int,
        origin: Sequence[SSAValue],
        held: Callable[[SSAValue], Held | None],
    ) -> None:
        super().__init__(frame, block, known, axes, rank, origin, held)
        self.conv = conv

    def source(self, op: ReadOp) -> tuple[SSAValue, tuple[AffineExpr, ...]]:
        if not reads_pixels(self.conv, op):
            return super().source(op)
        assert isinstance(op.tensor, BlockArgument)
        first, many = merged_pixels(self.conv, op), len(self.conv.inside)
        shape, results = cast("MemRefType", op.tensor.type).shape, op.map.data.results
        dims = (*shape[:first], self.conv.pixels, *shape[first + many :])

        def places(ends: Sequence[AffineExpr]) -> list[AffineExpr]:
            return [self.place(e, op.result.type.labels, op) for e in ends]

        before, after = places(results[:first]), places(results[first + many :])
        return self.frame.view(op.tensor.index, dims), (*before, self.axes[PIXELS], *after)


class Windows(Contracted):
    """Builds the kernel of one schedule: a step has some channels of one tap."""

    def __init__(
        self, conv: Convolution, plan: ScheduleOp, grids: Sequence[Grid], adds: bool = False
    ) -> None:
        outs = conv.kernel.outs.data
        whole = element_bytes(outs[0].element_type) == plan.operand_bytes
        image, filter = conv.image, conv.filter
        super().__init__(
            conv.kernel,
            plan,
            grids,
            reduces=[conv.reduce],
            operands=[
                Operand(filter.name, filter.read, (M, K)),
                Operand(image.name, image.read, (K, N) if conv.planes else (N, K)),
            ]
            if conv.turned
            else [
                Operand(image.name, image.read, (M, K)),
                Operand(filter.name, filter.read, (N, K)),
            ],
            staged=plan.staged_tile if whole and not conv.reduces_filters else None,
            follow=[op for op in conv.follow if isinstance(op, ReduceOp)],
            has_tail=conv.size(conv.filters) != Dim.const(plan.tile_sizes[N]),
            adds=adds,
        )
        self.conv = conv

    def sizes(self, grid: Grid) -> list[SSAValue]:
        """The pixels and the filters; and how many steps there are."""
        frame, emit, conv = self.frame, self.emit, self.conv
        images, *self.output = (frame.size(size) for size in conv.output_dims[:3])
        lines = self.output[0]
        if not conv.turned:
            lines = emit.value(arith.MuliOp(images, lines))
        pixels = emit.value(arith.MuliOp(lines, self.output[1]), PIXELS)
        depth = self.plan.tile_sizes[K]
        channels = frame.size(conv.size(conv.channels))
        self.blocks = emit.apply(ceil_div(affine_dim(0), depth), [channels], hint="blocks")
        self.count = emit.apply(affine_dim(0) * conv.taps, [self.blocks], hint="steps")
        filters = frame.size(conv.size(conv.filters))
        self.height, self.width = (filters, pixels) if conv.turned else (pixels, filters)
        outer = [frame.size(size) for size in outer_sizes(conv)]
        parts = [axis for axis in grid.axes if axis.label == PART]
        return [*(frame.size(axis.size) for axis in parts), *outer, self.height, self.width]

    def span(self, at: Coordinates, accs: Sequence[SSAValue]) -> Span:
        found = super().span(at, accs)
        return replace(found, merged=self.conv.pixel_axes[1:]) if self.conv.turned else found

    def targets(self) -> list[Target]:
        view = self.frame.view(len(self.kernel.arg_names), self.conv.matrix_dims)
        return [Target(view, self.conv.matrix_axes)]

    @property
    def wraps(self) -> Dim | None:
        pixels = self.conv.matrix_dims[-1]
        return pixels if self.plan.merges_rows else None

    @property
    def point(self) -> MakePoint:
        return partial(PixelPoint, self.conv)

    def steps(self, at: Coordinates) -> tuple[SSAValue, int]:
        self.pixel = self.first_pixel(at)
        self.group = self.first_channel(at[self.conv.filters])
        if self.split is None:
            return self.count, 1
        self.own = self.split.steps(self.emit, self.count, 1, self.part)
        return self.own.bound, 1

    def step(self, at: Coordinates, body: Block, shared: Sequence[SSAValue]) -> SSAValue:
        conv, travel = self.conv, tile.CopyTravel(self.plan.brings)
        position, number = body.args
        position.name_hint, number.name_hint = "step", "i"
        among_all: SSAValue = number
        if self.split is not None:
            shifted = affine_dim(0) + affine_dim(1)
            among_all = self.emit.apply(shifted, [self.own.first, number], hint="number")
        tap, row, column, channel = self.tap(among_all)
        first = channel
        if self.group is not None:
            whole = affine_dim(0) + affine_dim(1)
            first = self.emit.apply(whole, [self.group, channel], hint=f"{conv.channels}0")
        filter = conv.filter.read
        assert isinstance(filter.tensor, BlockArgument)
        # Both operands lie along the channels.
        turned = self.plan.loads_lines
        tap_at, planes = [] if conv.whole else [row, column], conv.planes
        windows = tile.CopyView(im2col=conv.geometry, tap=tap_at, turned=turned, planes=planes)
        rows, columns = shared
        pixels, taken = (columns, rows) if conv.turned else (rows, columns)
        if planes:
            image, *inside = self.pixel
            threads = tile.CopyTravel("register")
            self.take(conv.image, [image, first, *inside], pixels, windows, threads)
        else:
            self.take(conv.image, [*self.pixel, first], pixels, windows, travel)
        filters = self.frame.view(filter.tensor.index, conv.filter_dims)
        weights = tile.CopyOp(
            tile.CopyEnd(filters, [at[conv.filters], tap, channel]),
            tile.CopyEnd(taken),
            tile.CopyView(axes=(0, 2), turned=turned),
            travel,
        )
        self.emit.op(located(weights, filter))
        return rows

    def first_pixel(self, at: Coordinates) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Image, row and column of a tile's first pixel by its number among all, or in an image."""
        height, width = self.output
        line, column = self.divided(at[PIXELS], width)
        if self.conv.turned:
            image, row = self.image(at), line
        else:
            image, row = self.divided(line, height)
        for value, axis in zip((image, row, column), self.conv.pixel_axes, strict=True):
            value.name_hint = f"{axis}0"
        return image, row, column

    def image(self, at: Coordinates) -> SSAValue:
        """The image that a tile of one is of: among those with planes a plane of one."""
        first, *planes = (at[axis] for axis in self.conv.batch)
        for plane in planes:
            many = self.frame.size(outer_sizes(self.conv)[1])
            first = self.emit.value(arith.AddiOp(self.emit.value(arith.MuliOp(first, many)), plane))
        return first

    def first_channel(self, filter: SSAValue) -> SSAValue | None:
        """The first channel of the group that a tile of filters is in; None for one group."""
        groups = self.conv.groups
        if not groups.filters:
            return None
        first = affine_dim(0) // groups.filters * groups.channels
        return self.emit.apply(first, [filter], hint="group0")

    def tap(self, step: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """The tap of a step, its row and column in the filter, and its first channel."""
        width = 1 if self.conv.whole else self.conv.geometry.taps[1]
        tap, block = self.divided(step, self.blocks)
        tap.name_hint = "tap"
        row = self.emit.apply(affine_dim(0) // width, [tap], hint="r")
        column = self.emit.apply(affine_dim(0) % width, [tap], hint="s")
        first = affine_dim(0) * self.plan.tile_sizes[2]
        return tap, row, column, self.emit.apply(first, [block], hint=f"{self.conv.channels}0")

    def divided(self, value: SSAValue, by: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Quotient and remainder of numbers that are not negative."""
        quotient = self.emit.value(arith.DivUIOp(value, by))
        whole = self.emit.value(arith.MuliOp(quotient, by))
        return quotient, self.emit.value(arith.SubiOp(value, whole))
