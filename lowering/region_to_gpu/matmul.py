"""``region-to-gpu``: the kernels of a product of matrices with an epilogue, as tiles (S9, T3).

The axes of a batch are picked: a tile has one point of them, and lies in the two others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.common.precision import F32X3
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.k_major import rows as rows_of
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.families.facts import holds_always
from polyc.families.follow import width_of
from polyc.families.matmul import flat, gathered, merged, tensor_float
from polyc.families.matmul.padded import alignments, copied
from polyc.families.matmul.recognise import Contraction, staged_tile
from polyc.families.matmul.schedules import as_planned
from polyc.lowering.region_to_gpu.contracted import (
    FIRST_ROW,
    Contracted,
    ContractedLowering,
    K,
    M,
    N,
    Operand,
    Target,
    along,
)
from polyc.lowering.region_to_gpu.frame import global_type
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.k_major import KMajor
from polyc.lowering.region_to_gpu.padded import Padded
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Wanted, element_of
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Span, Tile
from polyc.passes.support.gpu.free_layouts import WARP
from polyc.rewriting.driver import located
from polyc.rewriting.emit import affine_dim


@dataclass(frozen=True)
class GemmLowering(ContractedLowering):
    """A region that multiplies matrices, with an elementwise epilogue."""

    gemm: Contraction

    @property
    def kernel(self) -> KernelOp:
        return self.gemm.kernel

    def aligned(self, plan: ScheduleOp) -> list[int]:
        others = super().aligned(plan)
        if plan.turns_stores:
            return merged.alignments(self.gemm, others)
        if plan.tensor_float:
            return tensor_float.alignments(self.gemm, plan, others)
        loose = plan.loader.data == "padded" or plan.gathers
        return alignments(self.gemm, plan, others) if loose else others

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        gemm = as_planned(self.gemm, plan)
        *batch, m, n = ((a, gemm.size(a)) for a in (*gemm.batch, gemm.m, gemm.n))
        return [Grid.of(plan, batch, m, n)]

    def copies(self, plan: ScheduleOp) -> Sequence[Padded | KMajor]:
        if plan.tensor_float:
            sides = tensor_float.copies(self.gemm, plan)
            return [KMajor.of(self.gemm, side, plan) for side in sides]
        return [Padded.of(self.kernel, number) for number in copied(self.gemm, plan)]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid], adds: bool = False) -> Matrices:
        gemm = as_planned(self.gemm, plan)
        return Matrices(gemm, plan, grids, adds, self.copies(plan))

    @property
    def reduces_rows(self) -> bool:
        return bool(self.gemm.follow)

    def width(self, plan: ScheduleOp) -> int:
        """A warp's; of rows that are reduced all."""
        whole = width_of(self.kernel, self.gemm.size(self.gemm.n)) if self.gemm.follow else None
        return whole or WARP


LOWERING = GemmLowering


class Matrices(Contracted):
    """Builds the kernel of one schedule: a step has the next points of k."""

    def __init__(
        self,
        gemm: Contraction,
        plan: ScheduleOp,
        grids: Sequence[Grid],
        adds: bool = False,
        copies: Sequence[Padded | KMajor] = (),
    ) -> None:
        last = grids[0].axes[-1]
        turned = [id(side) for side in tensor_float.copied(gemm, plan)]
        self.sides = tuple(
            tensor_float.as_copied(gemm, side) if id(side) in turned else side
            for side in gemm.sides
        )
        """The operands as the kernel sees them."""
        order = {gemm.m: M, gemm.n: N, **{part.k: K for part in gemm.parts}}
        super().__init__(
            gemm.kernel,
            plan,
            grids,
            reduces=[part.reduce for part in gemm.parts],
            operands=[
                Operand(side.name, side.read, (order[first], order[second]))
                for side in self.sides
                for first, second in [side.tile_axes]
            ],
            staged=plan.staged_tile if plan.turns_stores else staged_tile(gemm, plan),
            follow=[op for op in gemm.follow if isinstance(op, ReduceOp)],
            has_tail=gemm.size(gemm.n) != Dim.const(last.tile * last.beside),
            adds=adds,
            copies=copies,
        )
        self.gemm = gemm
        self.flat = flat.planned(gemm, plan)
        """How rows of the operand of the rows are taken as one, where they are."""
        self.gathered = gathered.planned(gemm, plan)
        """The operand of the columns as planes, where threads load them."""

    def sizes(self, grid: Grid) -> list[SSAValue]:
        found = super().sizes(grid)
        self.depth = self.frame.size(tensor_float.depth_of(self.gemm, self.plan))
        if self.plan.tensor_float == F32X3:
            self.part_of_row = self.frame.size(rows_of(self.gemm.size(self.gemm.k)))
            self.parts_of_row = self.frame.size(rows_of(self.gemm.size(self.gemm.k)) * 2)
        return found

    def targets(self) -> list[Target]:
        outputs = self.frame.outputs
        return [Target(o, labels) for o, labels in zip(outputs, self.gemm.outputs, strict=True)]

    @property
    def wraps(self) -> Dim | None:
        return merged.line(self.gemm) if self.plan.merges_rows else None

    def steps(self, at: Coordinates) -> tuple[SSAValue, int]:
        depth = self.plan.tile_sizes[K]
        if self.split is None:
            return self.depth, depth
        self.own = self.split.steps(self.emit, self.depth, depth, self.part)
        return self.own.bound, depth

    def step(self, at: Coordinates, body: Block, shared: Sequence[SSAValue]) -> SSAValue:
        gemm, plan = self.gemm, self.plan
        position, iteration = body.args
        position.name_hint, iteration.name_hint = f"{gemm.k}0", "i"
        along_k: SSAValue = position
        if self.split is not None:
            shifted = affine_dim(0) + affine_dim(1)
            along_k = self.emit.apply(shifted, [self.own.first, position], hint=f"{gemm.k}0")
        start = {**at, **{part.k: along_k for part in gemm.parts}}
        for side, target, operand in zip(self.sides, shared, self.operands, strict=True):
            here = start
            if plan.tensor_float == F32X3:
                here = {**at, gemm.k: self.in_segment(along_k, side is self.sides[0])}
            place = [self.coordinate(here, *one) for one in zip(side.axes, side.first, strict=True)]
            # The CTAs of a cluster lie along the rows or the columns, and share what has none.
            along_axis = gemm.m if plan.integers("cluster")[0] > 1 else gemm.n
            multicast = plan.flag("multicast") and along_axis not in side.axes
            axes = along(side.along, len(side.axes))
            view = tile.CopyView(axes=axes, turned=self.turned(operand))
            travel = tile.CopyTravel(plan.brings, multicast)
            if plan.merges_rows and side is self.sides[0]:
                tensor = self.frame.view(merged.number(gemm), merged.dims(gemm))
                source = tile.CopyEnd(tensor, [here[gemm.m], here[gemm.k]])
                copy = tile.CopyOp(source, tile.CopyEnd(target), view, travel)
                self.emit.op(located(copy, side.read))
                continue
            if self.flat is not None and side is self.sides[0]:
                *outer, position, _ = place
                found = self.flat
                line = affine_dim(0) * found.length // found.chunk
                first = self.emit.apply(line, [position], hint="line0")
                tensor = self.frame.view(found.number, found.dims)
                source = tile.CopyEnd(tensor, [*outer, first, self.emit.index(0)])
                copy = tile.CopyOp(source, tile.CopyEnd(target), travel=travel)
                self.emit.op(located(copy, side.read))
                continue
            if self.gathered is not None and side is self.sides[1]:
                self.emit.op(located(self.gather(self.gathered, place, target), side.read))
                continue
            self.take(side.factor, place, target, view, travel)
        if tensor_float.is_held(gemm, plan):
            return self.held(shared[0])
        return self.computed(start, shared[0]) if gemm.lhs.factor.is_computed else shared[0]

    def gather(
        self, found: gathered.Gathered, place: Sequence[SSAValue], target: SSAValue
    ) -> tile.CopyOp:
        """What threads load of some rows."""
        zero = self.emit.index(0)
        *outer, row, column = place
        tensor = self.frame.view(found.number, found.dims)
        source = tile.CopyEnd(tensor, [outer[0] if outer else zero, row, zero, column])
        view = tile.CopyView(im2col=gathered.ONE_TAP, tap=[zero, zero], planes=True)
        travel = tile.CopyTravel("cp_async" if found.late else "register")
        return tile.CopyOp(source, tile.CopyEnd(target), view, travel)

    def held(self, shared: SSAValue) -> SSAValue:
        """The operand of the rows in registers, as its shared tile has it."""
        rows, _, depth = self.plan.tile_sizes
        kind = FragmentType.of([depth, rows], self.gemm.lhs.factor.element)
        left = self.scope.value(tile.FragmentOp(kind), self.gemm.lhs.name)
        view = tile.CopyView(line=None if self.flat is None else self.flat.length)
        take = tile.CopyOp(tile.CopyEnd(shared), tile.CopyEnd(left), view)
        self.emit.op(located(take, self.gemm.lhs.read))
        return left

    def shared(self, operand: Operand) -> SSAValue:
        if self.flat is None or operand is not self.operands[0]:
            return super().shared(operand)
        element = global_type(self.kernel.seen[self.flat.number]).element_type
        kind = SharedType.of(self.flat.tile(self.plan.tile_sizes[K]), element, 0)
        return self.emit.value(located(SharedTileOp(kind), operand.read), f"{operand.name}_tile")

    def in_segment(self, position: SSAValue, rows: bool) -> SSAValue:
        """Where a step of the three products of ``f32x3`` is in an operand's copy.

        They go along k one after another: the low parts of the operand of the ``rows`` by the high
        ones of the columns, high by low, and high by high.  So the copy of the rows, [low, high],
        is gone along whole and then the high parts again, and that of the columns, [high, low],
        whole and then the high ones again.
        """
        again = self.emit.compare("sge", position, self.parts_of_row)
        back = self.part_of_row if rows else self.parts_of_row
        none = self.emit.index(0)
        back = self.emit.value(arith.SelectOp(again, back, none))
        return self.emit.apply(affine_dim(0) - affine_dim(1), [position, back])

    def coordinate(self, start: Coordinates, axis: str | None, first: Dim) -> SSAValue:
        """Where a tile begins on a dimension that ``axis`` walks from ``first`` on."""
        if axis is None:
            return self.frame.size(first)
        if first == Dim.const(0):
            return start[axis]
        if (number := first.constant()) is not None:
            return self.emit.apply(affine_dim(0) + number, [start[axis]])
        moved = affine_dim(0) + affine_dim(1)
        return self.emit.apply(moved, [start[axis], self.frame.size(first)])

    def computed(self, start: Coordinates, shared: SSAValue) -> SSAValue:
        """The operand of the rows, computed of what its shared tile has.

        What is beyond the end of k becomes 0, as it would be if it were read: elementwise ops make
        other numbers of the zeros there.  What each row has one of is computed before the loop.
        """
        gemm, factor = self.gemm, self.gemm.lhs.factor
        rows, _, depth = self.plan.tile_sizes
        outer, name = self.scope, gemm.lhs.name
        raw, left = (
            outer.value(tile.FragmentOp(FragmentType.of([rows, depth], element_of(value))), hint)
            for value, hint in ((factor.read.result, name), (factor.value, f"{name}_computed"))
        )
        places = {gemm.m: ROW + FIRST_ROW}
        places |= {axis: AffineExpr.symbol(i) for i, axis in enumerate(gemm.batch, 1)}
        origin = [start[axis] for axis in (gemm.m, *gemm.batch)]
        length = None if self.has_whole_steps() else self.depth
        span = Span((rows, depth), gemm.k, COLUMN, places, origin, length, 1)
        maps = RowMaps(self.frame, outer, span)
        maps.emit = self.emit
        take = tile.CopyOp(tile.CopyEnd(shared), tile.CopyEnd(raw))
        self.emit.op(located(take, factor.read))
        over = Tile(start[gemm.k], {factor.read.result: raw})
        inside = maps.inside(over, maps.number(0.0))
        maps.over_tile(over, raw, [Wanted(factor.value, left, (ROW, COLUMN), inside)])
        return left

    def has_whole_steps(self) -> bool:
        """Whether no step over k goes beyond its end."""
        fact = Assumption(self.gemm.size(self.gemm.k).mod(self.plan.tile_sizes[2]), "==")
        known = AssumptionsAttr((*self.kernel.assumptions.data, *self.plan.when.data))
        return holds_always(fact, known, self.kernel.symbol_names)
