"""``region-to-gpu``: the kernels of a convolution as an implicit GEMM, at the tile level (S9, T3).

Rows of the product are the pixels of all images of the output: the output is seen as the matrix
[pixels, filters].  Step by step the pipeline goes through the taps of the filter, and in each
through the channels: the left tile is what the tap reads for the tile's pixels (im2col), the right
one the tap of the filter, which is seen as [filters, taps, channels].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from xdsl.dialects import arith
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import BindAttr, SharedType, element_bytes
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.region import KernelOp, ReadOp
from polyc.dialects.region.types import MemRefType
from polyc.families.conv.recognise import Convolution, reads_pixels
from polyc.families.conv.schedules import PIXELS, fault
from polyc.lowering.region_to_gpu.frame import Frame, alignments, refuse_choice
from polyc.lowering.region_to_gpu.point import Held, MakePoint, Point
from polyc.lowering.region_to_gpu.product import (
    Coordinates,
    ProductBuilder,
    Target,
    check_reduction,
)
from polyc.lowering.region_to_gpu.split import Split
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim, ceil_div


@dataclass(frozen=True)
class ConvLowering:
    """A region that is one convolution with an elementwise epilogue."""

    conv: Convolution

    @property
    def kernel(self) -> KernelOp:
        return self.conv.kernel

    def check(self, plan: ScheduleOp) -> None:
        check_reduction(self.conv.reduce.label, plan)
        why = fault(self.conv, plan)
        if record_of(plan.algo_choice)["conv"] != "implicit_gemm":
            why = "stores the columns of the image; run region-im2col, and plan-select again"
        if why is not None:
            raise PolycError("UnsupportedPlan", f"plan {plan.variant.data!r} {why}", plan)

    def launch(self, plan: ScheduleOp) -> LaunchOp:
        rows, columns, _ = plan.tile_sizes
        conv = self.conv
        grid = [conv.pixels.ceildiv(rows), conv.size(conv.filters).ceildiv(columns)]
        align = alignments(self.kernel, plan)
        return LaunchOp(plan.kernel_name, plan.when, align, grid, plan.flag("persistent"))

    def build(self, plan: ScheduleOp, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        return ConvBuilder(self.conv, plan).build(bindings)


LOWERING = ConvLowering


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
        rest = cast("MemRefType", op.tensor.type).shape[3:]
        places = (self.place(e, op.result.type.labels, op) for e in op.map.data.results[3:])
        view = self.frame.view(op.tensor.index, (self.conv.pixels, *rest))
        return view, (self.axes[PIXELS], *places)


class ConvBuilder(ProductBuilder):
    """Builds the kernel of one schedule."""

    def __init__(self, conv: Convolution, plan: ScheduleOp) -> None:
        outs = conv.kernel.outs.data
        whole = element_bytes(outs[0].element_type) == OPERAND_BYTES
        staged = plan.staged_tile if whole else None
        super().__init__(conv.kernel, [conv.reduce], plan, (PIXELS, conv.filters), staged)
        self.conv = conv

    def check_supported(self) -> None:
        super().check_supported()
        Split.refuse(self.plan, "no convolution has, whose steps go over filters' taps too")
        if self.plan.integers("cluster") != (1, 1):
            why = "region-to-gpu does not build yet for a convolution"
            refuse_choice(self.plan, "cluster", why, "[1, 1]")

    def sizes(self) -> list[SSAValue]:
        """The pixels and the filters; and how many steps there are."""
        frame, emit, conv = self.frame, self.emit, self.conv
        images, *self.output = (frame.size(size) for size in conv.output_dims[:3])
        lines = emit.value(arith.MuliOp(images, self.output[0]))
        pixels = emit.value(arith.MuliOp(lines, self.output[1]), PIXELS)
        depth = self.plan.tile_sizes[2]
        channels = frame.size(conv.size(conv.channels))
        self.blocks = emit.apply(ceil_div(affine_dim(0), depth), [channels], hint="blocks")
        self.steps = emit.apply(affine_dim(0) * conv.taps, [self.blocks], hint="steps")
        return [pixels, frame.size(conv.size(conv.filters))]

    def targets(self) -> list[Target]:
        view = self.frame.view(len(self.kernel.arg_names), self.conv.matrix_dims)
        return [Target(view, self.axes)]

    @property
    def point(self) -> MakePoint:
        return partial(PixelPoint, self.conv)

    def contract(self, at: Coordinates, accs: Sequence[SSAValue]) -> None:
        conv, plan = self.conv, self.plan
        rows, columns, depth = plan.tile_sizes
        pixel = self.first_pixel(at[PIXELS])
        group = self.first_channel(at[conv.filters])
        image, filter = conv.image.read, conv.filter.read
        tiles: list[SSAValue] = []
        for side, size in ((conv.image, rows), (conv.filter, columns)):
            made = located(SharedTileOp(SharedType.of([size, depth], side.element)), side.read)
            tiles.append(self.emit.value(made, f"{side.name}_tile"))
        body = Block(arg_types=[INDEX, INDEX])
        position, step = body.args
        position.name_hint, step.name_hint = "step", "i"
        outer, self.emit = self.emit, Emit()
        tap, row, column, channel = self.tap(step)
        if group is not None:
            whole = affine_dim(0) + affine_dim(1)
            first = self.emit.apply(whole, [group, channel], hint=f"{conv.channels}0")
        else:
            first = channel
        assert isinstance(filter.tensor, BlockArgument)
        travel = tile.CopyTravel(plan.loader.data)
        taken = tile.CopyOp(
            tile.CopyEnd(self.frame.argument(image.tensor), [*pixel, first]),
            tile.CopyEnd(tiles[0]),
            tile.CopyView(im2col=conv.geometry, tap=[row, column]),
            travel,
        )
        filters = self.frame.view(filter.tensor.index, conv.filter_dims)
        weights = tile.CopyOp(
            tile.CopyEnd(filters, [at[conv.filters], tap, channel]),
            tile.CopyEnd(tiles[1]),
            tile.CopyView(axes=(0, 2)),
            travel,
        )
        inner, self.emit = self.emit, outer
        body.add_ops([*inner.ops, located(taken, image), located(weights, filter)])
        m, n, k = (AffineExpr.dimension(i) for i in range(3))
        contract = tile.ContractOp(
            tile.ContractSide(tiles[0], AffineMap(3, 0, (m, k))),
            tile.ContractSide(tiles[1], AffineMap(3, 0, (n, k))),
            accs[0],
            plan.mma.data,
            plan.warp_tile_sizes,
        )
        self.pipeline(self.steps, 1, body, contract)

    def first_pixel(self, number: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Image, row and column of a pixel of the output by its number among all."""
        height, width = self.output
        line, column = self.divided(number, width)
        image, row = self.divided(line, height)
        for value, axis in zip((image, row, column), self.conv.pixel_axes, strict=True):
            value.name_hint = f"{axis}0"
        return image, row, column

    def first_channel(self, filter: SSAValue) -> SSAValue | None:
        """The first channel of the group that a tile of filters is in; None for one group."""
        groups = self.conv.groups
        if not groups.filters:
            return None
        first = affine_dim(0) // groups.filters * groups.channels
        return self.emit.apply(first, [filter], hint="group0")

    def tap(self, step: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """The tap of a step, its row and column in the filter, and its first channel."""
        width = self.conv.geometry.taps[1]
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
