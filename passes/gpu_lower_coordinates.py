"""``gpu-lower-coordinates``: the tile scheduler as arithmetic on the block index (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.driver import rewrite
from polyc.passes.emit import Emit, affine_dim, ceil_div


class LowerTileCoordinates(RewritePattern):
    """Block ``b`` of a grid of ``R x C`` tiles, by the raster.

    ``row``: tile (b / C, b mod C).  ``grouped`` by G: bands of G tile rows; within a band of
    height h (G, or what is left), tile (band·G + b' mod h, b' / h) for the band's b'-th block.
    Legality: the grid has exactly R·C blocks, which the launch says.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.TileCoordinatesOp, rewriter: PatternRewriter) -> None:
        tile_rows, tile_columns = op.tile_sizes
        emit = Emit()
        block = emit.value(hw.BlockIdOp(), "block")
        columns = emit.apply(ceil_div(affine_dim(0), tile_columns), [op.columns], hint="columns")

        def binary(
            kind: type[arith.DivUIOp | arith.RemUIOp | arith.MinUIOp | arith.SubiOp],
            lhs: SSAValue,
            rhs: SSAValue,
        ) -> SSAValue:
            return emit.value(kind(lhs, rhs))

        if op.raster.data == "row":
            row = binary(arith.DivUIOp, block, columns)
            column = binary(arith.RemUIOp, block, columns)
        else:
            group = op.group.value.data
            rows = emit.apply(ceil_div(affine_dim(0), tile_rows), [op.rows], hint="rows")
            band_blocks = emit.apply(affine_dim(0) * group, [columns])
            band = binary(arith.DivUIOp, block, band_blocks)
            first = emit.apply(affine_dim(0) * group, [band])
            height = binary(arith.MinUIOp, binary(arith.SubiOp, rows, first), emit.index(group))
            inside = binary(arith.RemUIOp, block, band_blocks)
            row = emit.apply(
                affine_dim(0) + affine_dim(1), [first, binary(arith.RemUIOp, inside, height)]
            )
            column = binary(arith.DivUIOp, inside, height)
        results = [
            emit.apply(affine_dim(0) * tile_rows, [row], hint=op.row.name_hint),
            emit.apply(affine_dim(0) * tile_columns, [column], hint=op.column.name_hint),
        ]
        rewriter.replace(op, emit.ops, results)


@dataclass(frozen=True)
class GpuLowerCoordinates(ModulePass):
    """Compute each block's tile."""

    name = "gpu-lower-coordinates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerTileCoordinates()])
