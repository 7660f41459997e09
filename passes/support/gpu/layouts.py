"""Where contracts keep their accumulators: tensor cores (PTX ISA, matrix fragments), and threads.

A layout maps ``(thread, register)`` to ``(row, column)`` of the CTA's tile.
"""

from __future__ import annotations

from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.compute import FMA_VECTOR, fma_lanes
from polyc.dialects.gpu.types import FragmentLayoutAttr

T = AffineExpr.dimension(0)
R = AffineExpr.dimension(1)


def accumulator(op: tile.ContractOp) -> FragmentLayoutAttr:
    """Where a contract's instruction keeps its accumulator; ValueError for a tile that it cannot
    part among its warps."""
    m, n, _ = op.sizes
    if op.mma.data == "fma":
        return fma_accumulator(m, n, op.warp_sizes, op.lhs_k_major, op.rhs_k_major)
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


def wgmma_operand(m: int, k: int, turned: bool) -> FragmentLayoutAttr:
    """The left operand of wgmma of 16 bits in registers, ``[m, k]`` or, ``turned``, ``[k, m]``: it
    lies as an accumulator of its sizes would."""
    layout = wgmma_accumulator(m, k, (64, k))
    row, column = layout.map.data.results
    if not turned:
        return layout
    return FragmentLayoutAttr.of(2 * m, k // 2, AffineMap(2, 0, (column, row)))


def tf32_operand(m: int, k: int, turned: bool) -> FragmentLayoutAttr:
    """The left operand of wgmma of TF32 in registers, ``[m, k]`` or, ``turned``, ``[k, m]``.

    A warp has 16 rows; a thread holds one of them and the one 8 below at each fourth k.
    """
    row = T // 32 * 16 + (T % 32) // 4 + (R % 2) * 8
    along = R // 4 * 8 + T % 4 + (R // 2 % 2) * 4
    place = (along, row) if turned else (row, along)
    return FragmentLayoutAttr.of(2 * m, k // 2, AffineMap(2, 0, place))


def mma_sync_accumulator(m: int, n: int, warp_tile: tuple[int, int]) -> FragmentLayoutAttr:
    """Warps in row-major order over the tile, each with a grid of m16n8k16 accumulators."""
    wm, wn = warp_tile
    across, blocks = n // wn, wn // 8
    warp, lane = T // 32, T % 32
    row = warp // across * wm + R // (4 * blocks) * 16 + lane // 4 + (R // 2 % 2) * 8
    column = (warp % across) * wn + (R // 4 % blocks) * 8 + (T % 4) * 2 + R % 2
    threads = 32 * (m // wm) * across
    return FragmentLayoutAttr.of(threads, wm * wn // 32, AffineMap(2, 0, (row, column)))


def fma_place(lane: AffineExpr, lanes: tuple[int, int]) -> tuple[AffineExpr, AffineExpr]:
    """The row and the column of a lane of a warp that multiplies by itself, among so many of both.

    Neighbours are two of the shorter side, and then all of the longer one: half a warp, whose
    16-byte loads shared memory answers together, has few different ones of both operands.
    """
    high, wide = lanes
    pair = 2 if min(lanes) > 1 else 1
    if high >= wide:
        return lane // pair % high, lane % pair + lane // (pair * high) * pair
    return lane % pair + lane // (pair * wide) * pair, lane // pair % wide


def fma_lane(row: AffineExpr, column: AffineExpr, lanes: tuple[int, int]) -> AffineExpr:
    """The lane that has a row and a column, among so many of both (``fma_place``)."""
    high, wide = lanes
    pair = 2 if min(lanes) > 1 else 1
    if high >= wide:
        return column % pair + row * pair + column // pair * (pair * high)
    return row % pair + column * pair + row // pair * (pair * wide)


def fma_accumulator(
    m: int, n: int, warp_tile: tuple[int, int], lhs_k_major: bool, rhs_k_major: bool
) -> FragmentLayoutAttr:
    """Warps in row-major order over the tile, whose lanes have rows and columns each.

    Lines of an operand that is stored along k go to the lanes one by one, so that neighbours read
    neighbouring lines, which a swizzle puts in different banks; lines that lie in memory behind
    each other go by four, which a lane reads at once.
    """
    wm, wn = warp_tile
    high, wide = lanes = fma_lanes(wm, wn)
    across, columns = n // wn, wn // wide

    def line(lane: AffineExpr, lanes: int, number: AffineExpr, k_major: bool) -> AffineExpr:
        if k_major:
            return number * lanes + lane
        by = FMA_VECTOR
        return number // by * (by * lanes) + lane * by + number % by

    warp, lane = T // 32, T % 32
    lane_row, lane_column = fma_place(lane, lanes)
    row = warp // across * wm + line(lane_row, high, R // columns, lhs_k_major)
    column = warp % across * wn + line(lane_column, wide, R % columns, rhs_k_major)
    threads = 32 * (m // wm) * across
    return FragmentLayoutAttr.of(threads, wm * wn // 32, AffineMap(2, 0, (row, column)))
