"""``region-to-gpu``: the kernels of a product of matrices with an epilogue, as tiles (S9, T3).

The axes of a batch are picked: a tile has one point of them, and lies in the two others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import BindAttr, FragmentType, GlobalType, SharedType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.families.facts import holds_always
from polyc.families.matmul.recognise import (
    Contraction,
    MatrixOperand,
    staged_tile,
)
from polyc.lowering.region_to_gpu.frame import alignments, check_whole
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Wanted, element_of
from polyc.lowering.region_to_gpu.product import (
    FIRST_ROW,
    Coordinates,
    ProductBuilder,
    Target,
    along,
    check_reduction,
)
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Span, Tile
from polyc.lowering.region_to_gpu.split import Split
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim


@dataclass(frozen=True)
class GemmLowering:
    """A region that multiplies matrices, with an elementwise epilogue."""

    gemm: Contraction

    @property
    def kernel(self) -> KernelOp:
        return self.gemm.kernel

    def check(self, plan: ScheduleOp) -> None:
        check_reduction(self.gemm.names, plan)
        Split.check(plan)
        check_whole(self.kernel, plan)

    def launch(self, plan: ScheduleOp) -> LaunchOp:
        gemm = self.gemm
        rows, columns, _ = plan.tile_sizes
        high, wide = plan.integers("cluster")
        grid = [
            *map(gemm.size, gemm.batch),
            gemm.size(gemm.m).ceildiv(rows * high) * high,
            gemm.size(gemm.n).ceildiv(columns * wide) * wide,
        ]
        if (split := Split.of(plan)) is not None:
            grid = split.grid(grid)
        align = alignments(self.kernel, plan)
        return LaunchOp(plan.kernel_name, plan.when, align, grid, plan.flag("persistent"))

    def build(self, plan: ScheduleOp, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        return GemmBuilder(self.gemm, plan).build(bindings)


LOWERING = GemmLowering


class GemmBuilder(ProductBuilder):
    """Builds the kernel of one schedule."""

    def __init__(self, gemm: Contraction, plan: ScheduleOp) -> None:
        axes = (*gemm.batch, gemm.m, gemm.n)
        reduces = [part.reduce for part in gemm.parts]
        follow = [op for op in gemm.follow if isinstance(op, ReduceOp)]
        whole = plan.tile_sizes[1] * plan.integers("cluster")[1]
        tail = gemm.size(gemm.n) != Dim.const(whole)
        staged = staged_tile(gemm, plan)
        super().__init__(gemm.kernel, reduces, plan, axes, staged, follow, tail)
        self.gemm = gemm

    def sizes(self) -> list[SSAValue]:
        found = [self.frame.size(self.gemm.size(axis)) for axis in self.axes]
        self.depth = self.frame.size(self.gemm.size(self.gemm.k))
        return found

    def targets(self) -> list[Target]:
        outputs = self.frame.outputs
        return [Target(o, labels) for o, labels in zip(outputs, self.gemm.outputs, strict=True)]

    def contract(self, at: Coordinates, accs: Sequence[SSAValue]) -> None:
        """The pipeline over k: copy the operands' tiles, and contract them."""
        gemm, plan, emit = self.gemm, self.plan, self.emit
        rows, columns, depth = plan.tile_sizes
        ks = {part.k for part in gemm.parts}
        sizes = {gemm.m: rows, gemm.n: columns, **dict.fromkeys(ks, depth)}
        shared: list[SSAValue] = []
        for side in gemm.sides:
            source = cast(GlobalType, self.frame.argument(side.read.tensor).type)
            kind = SharedType.of([sizes[a] for a in side.tile_axes], source.element_type)
            op = located(SharedTileOp(kind), side.read)
            shared.append(emit.value(op, f"{side.name}_tile"))
        body = Block(arg_types=[INDEX, INDEX])
        position, iteration = body.args
        position.name_hint, iteration.name_hint = f"{gemm.k}0", "i"
        bound = self.depth
        if self.split is not None:
            part = self.split.steps(emit, bound, depth)
            bound, along_k = part.bound, affine_dim(0) + affine_dim(1)
            shifted = Emit()
            position = shifted.apply(along_k, [part.first, position], hint=f"{gemm.k}0")
            body.add_ops(shifted.ops)
        start = {**at, **dict.fromkeys(ks, position)}
        for side, target in zip(gemm.sides, shared, strict=True):
            # The CTAs of a cluster lie along the rows, and share what has none.
            place = [
                self.coordinate(body, start, *one)
                for one in zip(side.axes, side.first, strict=True)
            ]
            multicast = plan.flag("multicast") and gemm.m not in side.axes
            copy = tile.CopyOp(
                tile.CopyEnd(self.frame.argument(side.read.tensor), place),
                tile.CopyEnd(target),
                tile.CopyView(axes=along(side.along, len(side.axes))),
                tile.CopyTravel(plan.loader.data, multicast),
            )
            body.add_op(located(copy, side.read))
        rows_tile = shared[0]
        if gemm.lhs.factor.is_computed:
            rows_tile = self.computed(body, start, rows_tile)
        contracts = [
            tile.ContractOp(
                tile.ContractSide(rows_tile, self.operand_map(gemm.lhs, gemm.k)),
                tile.ContractSide(columns_tile, self.operand_map(part.rhs, part.k)),
                acc,
                plan.mma.data,
                plan.warp_tile_sizes,
            )
            for part, columns_tile, acc in zip(gemm.parts, shared[1:], accs, strict=True)
        ]
        self.pipeline(bound, depth, body, *contracts)

    def coordinate(self, body: Block, start: Coordinates, axis: str | None, first: Dim) -> SSAValue:
        """Where a tile begins on a dimension that ``axis`` walks from ``first`` on, in ``body``."""
        if axis is None:
            return self.frame.size(first)
        if first == Dim.const(0):
            return start[axis]
        inner = Emit()
        if (number := first.constant()) is not None:
            found = inner.apply(affine_dim(0) + number, [start[axis]])
        else:
            found = inner.apply(
                affine_dim(0) + affine_dim(1), [start[axis], self.frame.size(first)]
            )
        body.add_ops(inner.ops)
        return found

    def computed(self, body: Block, start: Coordinates, shared: SSAValue) -> SSAValue:
        """The operand of the rows, computed in ``body`` of what its shared tile has.

        What is beyond the end of k becomes 0, as it would be if it were read: elementwise ops make
        other numbers of the zeros there.  What each row has one of is computed before the loop.
        """
        gemm, factor = self.gemm, self.gemm.lhs.factor
        rows, _, depth = self.plan.tile_sizes
        emit, name = self.emit, gemm.lhs.name
        raw, left = (
            emit.value(tile.FragmentOp(FragmentType.of([rows, depth], element_of(value))), hint)
            for value, hint in ((factor.read.result, name), (factor.value, f"{name}_computed"))
        )
        places = {gemm.m: ROW + FIRST_ROW}
        places |= {axis: AffineExpr.symbol(i) for i, axis in enumerate(gemm.batch, 1)}
        origin = [start[axis] for axis in (gemm.m, *gemm.batch)]
        length = None if self.has_whole_steps() else self.depth
        span = Span((rows, depth), gemm.k, COLUMN, places, origin, length, 1)
        maps = RowMaps(self.frame, emit, span)
        maps.emit = inner = Emit()
        take = tile.CopyOp(tile.CopyEnd(shared), tile.CopyEnd(raw))
        inner.op(located(take, factor.read))
        over = Tile(start[gemm.k], {factor.read.result: raw})
        inside = maps.inside(over, maps.number(0.0))
        maps.over_tile(over, raw, [Wanted(factor.value, left, (ROW, COLUMN), inside)])
        body.add_ops(inner.ops)
        return left

    def has_whole_steps(self) -> bool:
        """Whether no step over k goes beyond its end."""
        fact = Assumption(self.gemm.size(self.gemm.k).mod(self.plan.tile_sizes[2]), "==")
        known = AssumptionsAttr((*self.kernel.assumptions.data, *self.plan.when.data))
        return holds_always(fact, known, self.kernel.symbol_names)

    def operand_map(self, side: MatrixOperand, k: str) -> AffineMap:
        order = (self.gemm.m, self.gemm.n, k)
        axes = tuple(AffineExpr.dimension(order.index(a)) for a in side.tile_axes)
        return AffineMap(3, 0, axes)
