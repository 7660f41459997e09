"""``region-to-gpu``: the kernels of a product of matrices with an epilogue, as tiles (S9, T3).

The axes of a batch are picked: a tile has one point of them, and lies in the two others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentType,
    GlobalType,
    IntsAttr,
    SharedType,
    index_attr,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.region_to_gpu_frame import Frame, alignments
from polyc.lowering.region_to_gpu_point import Point
from polyc.passes.driver import located
from polyc.passes.emit import INDEX, Emit, affine_dim
from polyc.passes.gpu_double_buffer_fragments import BUFFERS
from polyc.passes.gpu_warp_specialize import REGISTERS
from polyc.passes.region_contraction import Contraction, Operand, find_contraction, staged_tile

ROW, COLUMN = AffineExpr.dimension(0), AffineExpr.dimension(1)
FIRST_ROW, FIRST_COLUMN = AffineExpr.symbol(0), AffineExpr.symbol(1)


@dataclass(frozen=True)
class GemmLowering:
    """A region that multiplies matrices, with an elementwise epilogue."""

    gemm: Contraction

    @staticmethod
    def of(kernel: KernelOp) -> GemmLowering:
        """Raises PolycError ``UnsupportedProgram`` for other regions."""
        return GemmLowering(find_contraction(kernel))

    @property
    def kernel(self) -> KernelOp:
        return self.gemm.kernel

    def check(self, plan: ScheduleOp) -> None:
        if plan.tensorize.data != self.gemm.reduce.label:
            raise PolycError(
                "UnsupportedPlan",
                f"the plan tensorizes {plan.tensorize.data!r} and the region reduces "
                f"{self.gemm.reduce.label!r}",
                plan,
            )

    def launch(self, plan: ScheduleOp) -> LaunchOp:
        gemm = self.gemm
        rows, columns, _ = plan.tile_sizes
        together = plan.integers("cluster")[0]
        grid = [
            *map(gemm.size, gemm.batch),
            gemm.size(gemm.m).ceildiv(rows * together) * together,
            gemm.size(gemm.n).ceildiv(columns),
        ]
        align = alignments(self.kernel, plan)
        return LaunchOp(plan.kernel_name, plan.when, align, grid, plan.flag("persistent"))

    def build(self, plan: ScheduleOp, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        return KernelBuilder(self.gemm, plan).build(bindings)


Place = Mapping[str, SSAValue]
"""Where a tile of the output begins: the first coordinate on each axis of the output."""


@dataclass
class KernelBuilder:
    """Builds the kernel of one schedule."""

    gemm: Contraction
    plan: ScheduleOp

    def __post_init__(self) -> None:
        self.frame = Frame(self.gemm.kernel)
        self.emit = self.frame.emit
        self.axes = (*self.gemm.batch, self.gemm.m, self.gemm.n)
        self.tile = [*(1 for _ in self.gemm.batch), *self.plan.tile_sizes[:2]]

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        gemm, plan, emit, frame = self.gemm, self.plan, self.emit, self.frame
        self.check_supported()
        sizes = [frame.size(gemm.size(axis)) for axis in self.axes]
        self.depth = frame.size(gemm.size(gemm.k))
        if plan.flag("persistent"):
            self.tile_loop(sizes)
        else:
            coordinates = tile.TileCoordinatesOp(
                sizes, self.tile, plan.raster.data, plan.integer("group")
            )
            emit.op(coordinates)
            self.compute(dict(zip(self.axes, coordinates.coordinates, strict=True)))
        kernel = frame.finish(plan, bindings, plan.integers("cluster")[0])
        if split := plan.integers("registers"):
            kernel.attributes[REGISTERS] = IntsAttr(tuple(split))
        return kernel

    def tile_loop(self, sizes: Sequence[SSAValue]) -> None:
        """A loop over the block's tiles; its body is what another kernel does once.

        Shared tiles and what is computed from sizes alone stand before it.
        """
        plan = self.plan
        body = Block(arg_types=[INDEX] * (len(sizes) + 1))
        *coordinates, ordinal = body.args
        ordinal.name_hint = "tile"
        outer, self.emit = self.emit, Emit()
        self.compute(dict(zip(self.axes, coordinates, strict=True)))
        inner, self.emit = self.emit, outer
        for op in inner.ops:
            if isinstance(op, SharedTileOp):
                outer.op(op)
        body.add_ops([o for o in inner.ops if not isinstance(o, SharedTileOp)])
        outer.op(
            tile.TileLoopOp(sizes, self.tile, Region(body), plan.raster.data, plan.integer("group"))
        )

    def compute(self, at: Place) -> None:
        """One tile of the output: contract, and hand on what comes out."""
        emit = self.emit
        for axis, value in at.items():
            value.name_hint = axis if axis in self.gemm.batch else f"{axis}0"
        rows, columns, _ = self.plan.tile_sizes
        zero = emit.zero_f32()
        acc = emit.value(tile.FragmentOp(FragmentType.of([rows, columns], f32)), "acc")
        emit.op(tile.FillOp(zero, acc))
        self.contract(at, acc)
        self.epilogue(at, acc)

    def check_supported(self) -> None:
        """Refuse, with its name, a choice of the plan that no lowering obeys yet."""
        plan = self.plan
        rows, columns = plan.integers("cluster")
        roles = plan.flag("persistent") and plan.loader.data == "tma"
        alone = "[1, 1], or a persistent kernel that loads by tma"
        for field, taken, there in (
            ("split_k", plan.integer("split_k") != 1, "1"),
            ("cluster", columns != 1, f"[{rows}, 1], neighbours along the rows"),
            ("cluster", rows != 1 and not roles, alone),
            ("pingpong", plan.flag("pingpong"), "false"),
            ("persistent", plan.flag("persistent") and plan.mma.data != "wgmma", "false"),
            ("raster", plan.raster.data == "column", '"row" or "grouped"'),
        ):
            if taken:
                raise PolycError(
                    "UnsupportedPlan",
                    f"plan {plan.variant.data!r} asks for a {field} that region-to-gpu does not "
                    f"build yet; use {there}",
                    plan,
                )

    def contract(self, at: Place, acc: SSAValue) -> None:
        """The pipeline over k: copy both operands' tiles, and contract them."""
        gemm, plan, emit = self.gemm, self.plan, self.emit
        rows, columns, depth = plan.tile_sizes
        sizes = {gemm.m: rows, gemm.n: columns, gemm.k: depth}
        shared: list[SSAValue] = []
        for side in (gemm.lhs, gemm.rhs):
            source = cast(GlobalType, self.frame.argument(side.read.tensor).type)
            kind = SharedType.of([sizes[a] for a in side.tile_axes], source.element_type)
            op = located(SharedTileOp(kind), side.read)
            shared.append(emit.value(op, f"{side.name}_tile"))
        body = Block(arg_types=[INDEX, INDEX])
        position, iteration = body.args
        position.name_hint, iteration.name_hint = f"{gemm.k}0", "i"
        start = {**at, gemm.k: position}
        for side, target in zip((gemm.lhs, gemm.rhs), shared, strict=True):
            # The CTAs of a cluster lie along the rows, and share what has none.
            copy = tile.CopyOp(
                self.frame.argument(side.read.tensor),
                [start[a] if isinstance(a, str) else emit.index(a) for a in side.axes],
                target,
                loader=plan.loader.data,
                multicast=plan.flag("multicast") and gemm.m not in side.axes,
                axes=along(side.along, len(side.axes)),
            )
            body.add_op(located(copy, side.read))
        contract = tile.ContractOp(
            shared[0],
            self.operand_map(gemm.lhs),
            shared[1],
            self.operand_map(gemm.rhs),
            acc,
            plan.mma.data,
            plan.warp_tile_sizes,
        )
        if (buffers := plan.integer(BUFFERS)) > 1:
            contract.attributes[BUFFERS] = index_attr(buffers)
        body.add_op(located(contract, gemm.reduce))
        pipeline = tile.PipelineOp(self.depth, depth, plan.integer("stages"), Region(body))
        emit.op(located(pipeline, gemm.reduce))

    def operand_map(self, side: Operand) -> AffineMap:
        order = (self.gemm.m, self.gemm.n, self.gemm.k)
        axes = tuple(AffineExpr.dimension(order.index(a)) for a in side.tile_axes)
        return AffineMap(3, 0, axes)

    def epilogue(self, at: Place, acc: SSAValue) -> None:
        """What follows the contraction, mapped over its accumulator into the outputs.

        A persistent kernel maps into a fragment, and stores that by TMA, so that the stores go
        on while the next tile is computed.
        """
        gemm = self.gemm
        block = Block(arg_types=[f32])
        block.args[0].name_hint = gemm.reduce.label
        by_label = {gemm.m: ROW + FIRST_ROW, gemm.n: COLUMN + FIRST_COLUMN}
        by_label |= {axis: AffineExpr.symbol(i) for i, axis in enumerate(gemm.batch, 2)}
        origin = [at[axis] for axis in (gemm.m, gemm.n, *gemm.batch)]
        known: dict[SSAValue, SSAValue] = {gemm.reduce.result: block.args[0]}
        body = Point(self.frame, block, known, by_label, 2, origin)
        results: list[SSAValue] = []
        places: list[tuple[AffineExpr, ...]] = []
        values = gemm.kernel.yield_op.values
        for value, out, labels in zip(values, gemm.kernel.outs, gemm.outputs, strict=True):
            scalar = body.scalar(value)
            results.append(body.cast(scalar, out.element_type))
            places.append(tuple(by_label[label] for label in labels))
        block.add_ops([*body.emit.ops, tile.YieldOp(results)])
        outputs = self.frame.outputs
        staged = staged_tile(gemm, self.plan)
        tensor = outputs[0]
        if staged is not None:
            kind = FragmentType.of(self.plan.tile_sizes[:2], results[0].type)
            outputs = [self.emit.value(tile.FragmentOp(kind), "out")]
            places = [(ROW, COLUMN)]
        new = tile.MapOp(
            acc,
            body.origin,
            body.inputs,
            outputs,
            [*body.input_maps, *map(body.map, places)],
            Region(block),
        )
        self.emit.op(located(new, gemm.kernel.yield_op))
        if staged is not None:
            for op in self.stores(at, outputs[0], tensor, staged):
                located(op, gemm.kernel.yield_op)

    def stores(
        self, at: Place, fragment: SSAValue, tensor: SSAValue, staged: tuple[int, int]
    ) -> list[Operation]:
        """The fragment by parts into a shared tile, and from there to the tensor."""
        emit, made = self.emit, len(self.emit.ops)
        assert isinstance(fragment.type, FragmentType)
        labels, n = self.gemm.outputs[0], self.gemm.n
        axes = along((labels.index(self.gemm.m), labels.index(n)), len(labels))
        kind = SharedType.of(staged, fragment.type.element_type)
        shared = emit.value(SharedTileOp(kind), "out_tile")
        for start in range(0, self.plan.tile_sizes[1], staged[1]):
            window = None if fragment.type.sizes == staged else (0, start)
            emit.op(tile.CopyOp(fragment, [], shared, window=window))
            column = emit.apply(affine_dim(0) + start, [at[n]]) if start else at[n]
            place = [column if label == n else at[label] for label in labels]
            emit.op(tile.CopyOp(shared, place, tensor, loader="tma", axes=axes))
        return emit.ops[made:]


def along(axes: tuple[int, int], rank: int) -> tuple[int, int] | None:
    """The dimensions of a tensor that a tile lies in, as a copy says them: its last two are not."""
    return None if axes == (rank - 2, rank - 1) else axes
