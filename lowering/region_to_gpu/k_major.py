"""``region-to-gpu``: operands of f32 that are copied so that they lie along k, as wgmma takes them.

A launch ahead of the product copies such an operand to a workspace whose rows lie along k and are
whole panels, zeros behind each.  One that lies along another axis is turned in shared memory on
the way.  For ``f32x3`` a row is two parts, as long as each other: of each number the nearest one
of TF32, ties away from 0, and that of what it leaves.  The operand of the product's rows has the
low part first and that of its columns the high one, so that the steps over k go along both in
order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import FloatAttr, f32, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.k_major import (
    COPY_THREADS,
    COPY_TILE,
    ELEMENT_BYTES,
    PARTS,
    TURN_TILE,
    VECTOR,
)
from polyc.dialects.plan.k_major import rows as rows_of
from polyc.dialects.region import KernelOp
from polyc.families.matmul import tensor_float
from polyc.families.matmul.recognise import Contraction, MatrixOperand
from polyc.lowering.region_to_gpu.frame import CopyFrame, Space
from polyc.lowering.region_to_gpu.point import COLUMN, ROW
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.emit import Emit

HALF, ABOVE = 1 << 12, -(1 << 13)
"""Half a last place of TF32, and the bits of f32 that TF32 has."""


@dataclass(frozen=True)
class KMajor:
    """An operand of a product of f32, of which schedules' kernels read a copy.

    ``number``    its place in the signature
    ``name``      of the copy, and of the kernel that makes it
    ``tensor``    what the region calls it
    ``shape``     the sizes of the tensor
    ``turned``    whether k is its last dimension but one
    ``parts``     1, or 2 where it is copied to a high and a low part
    ``low_first`` which of these comes first
    """

    number: int
    name: str
    tensor: str
    shape: tuple[Dim, ...]
    turned: bool
    parts: int
    low_first: bool

    @staticmethod
    def of(gemm: Contraction, side: MatrixOperand, plan: ScheduleOp) -> KMajor:
        """The copy of an operand, which is one for all schedules of a way."""
        region, number = gemm.kernel, tensor_float.number_of(side)
        way = plan.tensor_float
        assert way is not None
        tensor = [n.data for n in (*region.arg_names, *region.res_names)][number]
        name = re.sub(r"\W", "_", f"{region.sym_name.data}_{way}_{tensor}")
        turned = not tensor_float.lies_along_k(side, gemm.k)
        shape = region.seen[number].shape
        return KMajor(number, name, tensor, shape, turned, PARTS[way], side is gemm.lhs)

    @property
    def outer(self) -> Dim:
        """Points of the dimensions before the last two, of which each has a matrix."""
        return prod(self.shape[:-2], start=Dim.const(1))

    @property
    def matrix(self) -> tuple[Dim, Dim]:
        """Rows of one matrix of the copy, and how long they were."""
        high, wide = self.shape[-2:]
        return (wide, high) if self.turned else (high, wide)

    @property
    def kind(self) -> GlobalType:
        """The copy as the product's kernel sees it."""
        rows, depth = self.matrix
        return GlobalType.of((*self.shape[:-2], rows, rows_of(depth) * self.parts), f32)

    @property
    def space(self) -> Space:
        """The memory of the copy."""
        return Space(self.name, self.kind, shared=True)

    def grid(self) -> tuple[list[Dim], tuple[int, int]]:
        """The sizes whose tiles CTAs have, and the tile: of a matrix's rows and k."""
        rows, depth = self.matrix
        if self.turned:
            return [self.outer, rows, rows_of(depth)], TURN_TILE
        return [self.outer * rows, rows_of(depth)], COPY_TILE

    def launch(self, when: AssumptionsAttr, align: Sequence[int]) -> LaunchOp:
        """The launch of that kernel, under a schedule's conditions."""
        (*outer, rows, depth), (high, wide) = self.grid()
        grid = [*outer, rows.ceildiv(high), depth.ceildiv(wide)]
        return LaunchOp(self.name, when, align, grid)

    def kernel(self, region: KernelOp, source: BindAttr, copy: BindAttr) -> gpu.KernelOp:
        """The kernel that copies ``source`` to ``copy``."""
        rows, depth = self.matrix
        wide = rows_of(depth)
        outer = [self.outer] if self.turned else []
        high = rows if self.turned else self.outer * rows
        kinds = [
            GlobalType.of((*outer, depth, rows) if self.turned else (high, depth), f32),
            GlobalType.of((*outer, high, self.parts, wide), f32),
        ]
        frame = CopyFrame(region, self.tensor, kinds, self.shape)
        emit, tensor, filled = frame.emit, frame.tensor, frame.filled
        sizes, tile_sizes = self.grid()
        points = [frame.size(size) for size in sizes]
        place = tile.TileCoordinatesOp(points, [*(1 for _ in outer), *tile_sizes], "row", 1)
        emit.op(place)
        *matrix, row, along = place.coordinates
        if self.turned:
            space, inputs = self.turn(emit, tensor, matrix, row, along), 1
        else:
            space, inputs = self.read(emit, tensor, row, along), 0
        self.write(emit, space, filled, [*matrix, row, along], inputs)
        return frame.finish(self.name, [source, copy], COPY_THREADS)

    def read(self, emit: Emit, tensor: SSAValue, row: SSAValue, along: SSAValue) -> list[SSAValue]:
        """A tile of an operand that lies along k, in registers."""
        held = emit.value(tile.FragmentOp(FragmentType.of(COPY_TILE, f32)), "x")
        emit.op(tile.CopyOp(tile.CopyEnd(tensor, [row, along]), tile.CopyEnd(held)))
        return [held]

    def turn(
        self,
        emit: Emit,
        tensor: SSAValue,
        matrix: Sequence[SSAValue],
        row: SSAValue,
        along: SSAValue,
    ) -> list[SSAValue]:
        """Registers spread over a tile of the copy, and what they are to hold, in shared memory as
        it lies in the operand.

        Its lines end in a word more than they need, so that threads that have neighbours along k
        read words of unlike banks.
        """
        high, wide = TURN_TILE
        layout, _ = row_layout(wide, high, VECTOR, ELEMENT_BYTES, COPY_THREADS)
        held = emit.value(tile.FragmentOp(FragmentType.of((wide, high), f32, layout)), "x")
        view = tile.CopyView(axes=(1, 2))
        source = tile.CopyEnd(tensor, [*matrix, along, row])
        emit.op(tile.CopyOp(source, tile.CopyEnd(held), view))
        kind = SharedType.of([wide, high + 1], f32, 0)
        shared = emit.value(SharedTileOp(kind), f"{self.tensor}_turned")
        emit.op(tile.CopyOp(tile.CopyEnd(held), tile.CopyEnd(shared), tile.CopyView((0, 0))))
        layout, _ = row_layout(high, wide, 1, ELEMENT_BYTES, COPY_THREADS)
        space = emit.value(tile.FragmentOp(FragmentType.of(TURN_TILE, f32, layout)), "copied")
        return [space, shared]

    def write(
        self,
        emit: Emit,
        tiles: Sequence[SSAValue],
        filled: SSAValue,
        origin: Sequence[SSAValue],
        inputs: int,
    ) -> None:
        """What is copied, from registers or from shared memory, to its place in each part."""
        space, *read = tiles
        assert len(read) == inputs
        block = Block(arg_types=[f32] * (1 + inputs))
        body = Emit()
        value = block.args[-1]
        parts = [value]
        if self.parts > 1:
            high, low = split(body, value)
            parts = [low, high] if self.low_first else [high, low]
        block.add_ops([*body.ops, tile.YieldOp(parts)])
        outer = len(origin) - 2
        starts = [AffineExpr.symbol(i) for i in range(len(origin))]
        maps = [AffineMap(2, len(origin), (COLUMN, ROW)) for _ in read]
        for part in range(self.parts):
            point = (starts[-2] + ROW, AffineExpr.constant(part), starts[-1] + COLUMN)
            maps.append(AffineMap(2, len(origin), (*starts[:outer], *point)))
        emit.op(tile.MapOp(space, origin, read, [filled] * self.parts, maps, Region(block)))


def split(emit: Emit, value: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The nearest number of TF32 to one of f32, ties away from 0, and that of what it leaves.

    What leaves nothing finite, an infinity, NaN, and a number that would be rounded to infinity, is
    its own high part, with nothing below it.
    """
    high = nearest(emit, value)
    rest = emit.value(arith.SubfOp(value, high))
    size = emit.value(math_ops.AbsFOp(rest))
    infinite = emit.value(arith.ConstantOp(FloatAttr(inf, f32)))
    finite = emit.value(arith.CmpfOp(size, infinite, "olt"))
    low = nearest(emit, rest)
    return (
        emit.value(arith.SelectOp(finite, high, value)),
        emit.value(arith.SelectOp(finite, low, emit.zero_f32())),
    )


def nearest(emit: Emit, value: SSAValue) -> SSAValue:
    """The nearest number of TF32 to a finite one of f32, ties away from 0."""
    bits = emit.value(arith.BitcastOp(value, i32))
    above = emit.value(arith.AddiOp(bits, emit.int32(HALF)))
    kept = emit.value(arith.AndIOp(above, emit.int32(ABOVE)))
    return emit.value(arith.BitcastOp(kept, f32))
