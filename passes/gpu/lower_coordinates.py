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
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.tile_loops import LowerTileLoop, Raster, outermost
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit, affine_dim, ceil_div


class LowerTileCoordinates(RewritePattern):
    """Block ``b`` of a grid of ``R x C`` tiles, by the raster.

    ``row``: tile (b / C, b mod C).  ``column``: (b mod R, b / R).  ``grouped`` by G: bands of G
    tile rows; within a band of height h (G, or what is left), tile (band·G + b' mod h, b' / h) for
    the band's b'-th block.
    With axes before these two, the matrices of R·C tiles follow one another.
    With ``cluster`` neighbouring blocks share a tile, as many as a cluster has.
    Legality: the grid has exactly as many blocks (or clusters) as there are tiles, which the
    launch says.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.TileCoordinatesOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        block = emit.value(hw.BlockIdOp(), "block")
        if op.cluster is not None:
            together = enclosing_kernel(op).cluster_size
            block = emit.apply(affine_dim(0) // together, [block], hint="cluster")

        def tiles(axis: int, hint: str) -> SSAValue:
            return emit.apply(
                ceil_div(affine_dim(0), op.tile_sizes[axis]), [op.sizes[axis]], hint=hint
            )

        columns = tiles(-1, "columns")
        rows = tiles(-2, "rows") if op.raster.data != "row" or len(op.sizes) > 2 else columns
        leading: list[SSAValue] = []
        number = block
        if len(op.sizes) > 2:
            of_matrix = emit.value(arith.MuliOp(rows, columns))
            counts = [tiles(axis, "tiles") for axis in range(1, len(op.sizes) - 2)]
            leading, number = outermost(emit, block, counts, of_matrix)
        raster = Raster(op.raster.data, op.group.value.data)
        places = [*leading, *raster.place(emit, number, rows, columns)]
        results = [
            emit.apply(affine_dim(0) * size, [place], hint=result.name_hint)
            for place, size, result in zip(places, op.tile_sizes, op.coordinates, strict=True)
        ]
        rewriter.replace(op, emit.ops, results)


@dataclass(frozen=True)
class GpuLowerCoordinates(ModulePass):
    """Compute each block's tile, or its tiles one after another."""

    name = "gpu-lower-coordinates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerTileCoordinates(), LowerTileLoop()])
