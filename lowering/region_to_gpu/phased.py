"""``region-to-gpu``: the operand of the rows is copied with its points of k in phases.

The kernel sees the copy as a matrix of rows of all phases, one after another.  How the phases come
about is in ``dialects/plan/phased.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, Block, Region
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import BindAttr, FragmentType, GlobalType
from polyc.dialects.plan.phased import COPY_COLUMNS, COPY_ROWS, COPY_THREADS
from polyc.dialects.region import KernelOp
from polyc.families.matmul.phased import Phases
from polyc.families.matmul.recognise import Contraction
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.point import COLUMN, ROW
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit


@dataclass(frozen=True)
class Phased:
    """The copy of an operand [rows, k] as [rows, phases, points of one].

    ``number`` is its place in the signature, ``name`` that of the copy and of the kernel that makes
    it, ``tensor`` what the region calls it.
    """

    number: int
    name: str
    tensor: str
    rows: Dim
    k: Dim
    element: Attribute
    phases: Phases

    @staticmethod
    def of(gemm: Contraction, found: Phases) -> Phased:
        """The copy for a product, which is one for all its schedules."""
        region, number = gemm.kernel, found.rows
        tensor = region.arg_names.data[number].data
        name = re.sub(r"\W", "_", f"{region.sym_name.data}_phased_{tensor}")
        seen = region.seen[number]
        rows, k = seen.shape
        return Phased(number, name, tensor, rows, k, seen.element_type, found)

    @property
    def kind(self) -> GlobalType:
        """The copy as the product's kernel sees it."""
        return GlobalType.of((self.rows, self.phases.all), self.element)

    @property
    def space(self) -> Space:
        """The memory of the copy."""
        return Space(self.name, self.kind, shared=True)

    @property
    def sizes(self) -> tuple[Dim, Dim, Dim]:
        """Rows, phases, and points of one."""
        return self.rows, Dim.const(self.phases.count), Dim.const(self.phases.depth)

    def launch(self, when: AssumptionsAttr, align: Sequence[int]) -> LaunchOp:
        """The launch of that kernel, under a schedule's conditions."""
        rows, count, depth = self.sizes
        grid = [rows.ceildiv(COPY_ROWS), count, depth.ceildiv(COPY_COLUMNS)]
        return LaunchOp(self.name, when, align, grid)

    def kernel(self, region: KernelOp, source: BindAttr, copy: BindAttr) -> gpu.KernelOp:
        """The kernel that copies ``source`` to ``copy``: a CTA has a tile of one phase.

        What a phase lacks arrives as zeros.
        """
        rows, count, depth = self.sizes
        kinds = [
            GlobalType.of((rows, self.k), self.element),
            GlobalType.of((rows, count, depth), self.element),
        ]
        symbols = [name for name in region.symbol_names if name in rows.symbols()]
        block = Block(arg_types=[*kinds, *(INDEX for _ in symbols)])
        tensor, filled, *values = block.args
        for arg, name in zip(block.args, (self.tensor, "copy", *symbols), strict=True):
            arg.name_hint = name
        emit = Emit()
        sizes = [emit.dim(size, symbols, values) for size in self.sizes]
        place = tile.TileCoordinatesOp(sizes, [COPY_ROWS, 1, COPY_COLUMNS], "row", 1)
        emit.op(place)
        row, number, first = place.coordinates
        kind = FragmentType.of([COPY_ROWS, COPY_COLUMNS], self.element)
        held = emit.value(tile.FragmentOp(kind), "x")
        at_row, at_number, at_first = (AffineExpr.symbol(i) for i in range(3))
        point = (at_first + COLUMN) * self.phases.count + at_number
        where = AffineMap(2, 3, (at_row + ROW, point))
        body = Block(arg_types=[self.element] * 2)
        body.add_op(tile.YieldOp([body.args[1]]))
        maps, origin = [where, AffineMap(2, 3, (ROW, COLUMN))], [row, number, first]
        emit.op(tile.MapOp(held, origin, [tensor], [held], maps, Region(body)))
        end = tile.CopyEnd(filled, [row, number, first])
        emit.op(tile.CopyOp(tile.CopyEnd(held), end, tile.CopyView(axes=(0, 2))))
        emit.op(gpu.ReturnOp())
        block.add_ops(emit.ops)
        bindings = [source, copy, *map(BindAttr.symbol, symbols)]
        return located(gpu.KernelOp(self.name, bindings, COPY_THREADS, Region(block)), region)
