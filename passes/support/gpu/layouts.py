"""Where tensor-core instructions keep their accumulators (PTX ISA, matrix fragments).

A layout maps ``(thread, register)`` to ``(row, column)`` of the CTA's tile.
"""

from __future__ import annotations

from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentLayoutAttr

T = AffineExpr.dimension(0)
R = AffineExpr.dimension(1)


def accumulator(op: tile.ContractOp) -> FragmentLayoutAttr:
    """Where a contract's instruction keeps its accumulator; ValueError for a tile that it cannot
    part among its warps."""
    m, n, _ = op.sizes
    rule = wgmma_accumulator if op.mma.data == "wgmma" else mma_sync_accumulator
    return rule(m, n, op.warp_sizes)


def wgmma_accumulator(m: int, n: int, warp_tile: tuple[int, int]) -> FragmentLayoutAttr:
    """Warpgroups stacked along the rows, each with 64 rows of m64nNk16.

    A warp has 16 rows; a thread holds pairs of neighbouring columns, eight rows apart.
    """
    if warp_tile != (64, n) or m % 64:
        raise ValueError(
            f"a wgmma warpgroup computes 64 rows and the whole width {n} of the tile, "
            f"not {warp_tile[0]}x{warp_tile[1]}"
        )
    row = T // 32 * 16 + (T % 32) // 4 + (R // 2 % 2) * 8
    column = R // 4 * 8 + (T % 4) * 2 + R % 2
    return FragmentLayoutAttr.of(2 * m, n // 2, AffineMap(2, 0, (row, column)))


def mma_sync_accumulator(m: int, n: int, warp_tile: tuple[int, int]) -> FragmentLayoutAttr:
    """Warps in row-major order over the tile, each with a grid of m16n8k16 accumulators."""
    wm, wn = warp_tile
    across, blocks = n // wn, wn // 8
    warp, lane = T // 32, T % 32
    row = warp // across * wm + R // (4 * blocks) * 16 + lane // 4 + (R // 2 % 2) * 8
    column = (warp % across) * wn + (R // 4 % blocks) * 8 + (T % 4) * 2 + R % 2
    threads = 32 * (m // wm) * across
    return FragmentLayoutAttr.of(threads, wm * wn // 32, AffineMap(2, 0, (row, column)))
