"""C = A · B on SM90 with K cut into parts, added in their order: the twin of gemm_split_k.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")

SLOTS = 128
LEAST = 576
WIDE = 2048


def product(A, B, m0, n0, first, length, BM, BN, stages):
    """``length`` of K from ``first`` on, of one tile."""
    zero = T.const(0.0, T.f32)
    acc = T.alloc_fragment((BM, BN), T.f32)
    T.fill(acc, zero)
    a = T.alloc_shared((BM, 64), T.f16)
    b = T.alloc_shared((64, BN), T.f16)
    with T.pipelined(length, step=64, stages=stages) as (k0, i):
        k = first + k0
        T.copy(A[m0, k], a, loader="tma")
        T.copy(B[k, n0], b, loader="tma")
        T.gemm(a, b, acc)
    return acc


def parts_of(tiles):
    """How many parts a tile has: as many as the slots take, of at least 576."""
    slots = T.const(SLOTS)
    room = T.divide(slots, tiles)
    useful = T.ceildiv(K, LEAST)
    parts = T.min(room, useful)
    return slots, parts


def part_of_sum():
    """Four rows, a warp each; a lane has a column."""
    zero = T.const(0.0, T.f32)
    one_each = T.fragment_layout(128, 1, lambda t, r: (t // 32, t % 32))
    sum = T.alloc_fragment((4, 32), T.f32, layout=one_each)
    T.fill(sum, zero)
    first = T.const(0)
    step = T.const(1)
    many = T.const(32)
    return sum, first, step, many


def write(sum, C, m0, n0):
    with T.parallel(sum, origin=(m0, n0)) as (i, j):
        x = sum[i, j]
        y = T.cast(x, T.f16)
        C[i + m0, j + n0] = y


EACH = "K mod 8 == 0, N mod 8 == 0, K >= 1"
TILES = "(M + 63) floordiv 64 * ((N + 63) floordiv 64)"


@T.program(arch="sm_90a")
def gemm_split_k(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]) -> None:
    short = f"{EACH}, {TILES} * ((K + 575) floordiv 576) <= 127"
    with T.sequence("gemm_split_k_short", when=short):
        W = T.workspace("parts", (SLOTS, 64, 64), T.f32)

        deep = T.kernel(
            "gemm_split_k_deep",
            threads=256,
            grid=[T.ceildiv(K, LEAST), T.ceildiv(M, 64), T.ceildiv(N, 64)],
        )
        with deep:
            block = T.block_id()
            rows = T.ceildiv(M, 64)
            columns = T.ceildiv(N, 64)
            tiles = rows * columns
            part = T.divide(block, tiles)
            tile = T.remainder(block, tiles)
            column = T.divide(tile, rows)
            row = T.remainder(tile, rows)
            m0 = row * 64
            n0 = column * 64
            slots, parts = parts_of(tiles)
            all = T.apply(lambda p, k: T.ceildiv(k, 64) + p - 1, parts, symbols=[K])
            steps = T.divide(all, parts)
            length = steps * 64
            first = part * length
            acc = product(A, B, m0, n0, first, length, 64, 64, stages=8)
            with T.parallel(acc, origin=(block,)) as (i, j):
                x = acc[i, j]
                W[block, i, j] = x

        deep_sum = T.kernel(
            "gemm_split_k_deep_sum",
            threads=128,
            grid=[T.ceildiv(M, 4), T.ceildiv(N, 32)],
            binds=[W, C, M, K, N],
        )
        with deep_sum:
            m0, n0 = T.tile_coordinates(M, N, tile=(4, 32), raster="row", group=1)
            rows = T.ceildiv(M, 64)
            columns = T.ceildiv(N, 64)
            tiles = rows * columns
            slots, parts = parts_of(tiles)
            row = m0 // 64
            column = n0 // 64
            above = column * rows
            tile = T.add(above, row)
            i0 = m0 % 64
            j0 = n0 % 64
            sum, first, step, many = part_of_sum()
            with T.serial(first, parts, many) as p0:
                with T.serial(first, many, step, unroll=True) as p1:
                    p = p0 + p1
                    before = p * tiles
                    slot = T.add(before, tile)
                    there = p < parts
                    place = T.select(there, slot, slots)
                    with T.parallel(sum, origin=(place, i0, j0)) as (i, j):
                        s = sum[i, j]
                        w = W[place, i + i0, j + j0]
                        more = s + w
                        sum[i, j] = more
            write(sum, C, m0, n0)

    with T.sequence("gemm_split_k_few", when=f"{EACH}, {TILES} <= 32"):
        W = T.workspace("parts", (SLOTS, 64, 64), T.f32)
        T.launch(deep, grid=[SLOTS])
        T.launch(deep_sum, grid=[T.ceildiv(M, 4), T.ceildiv(N, 32)])

    with T.sequence("gemm_split_k_many", when=EACH):
        W = T.workspace("parts", (T.ceildiv(K, WIDE), M, N), T.f32)

        with T.kernel(
            "gemm_split_k_wide",
            threads=256,
            blocks_per_sm=2,
            grid=[T.ceildiv(K, WIDE), T.ceildiv(M, 64), T.ceildiv(N, 128)],
        ):
            block = T.block_id()
            rows = T.ceildiv(M, 64)
            columns = T.ceildiv(N, 128)
            tiles = rows * columns
            part = T.divide(block, tiles)
            tile = T.remainder(block, tiles)
            column = T.divide(tile, rows)
            row = T.remainder(tile, rows)
            m0 = row * 64
            n0 = column * 128
            first = part * WIDE
            length = T.const(WIDE)
            acc = product(A, B, m0, n0, first, length, 64, 128, stages=4)
            with T.parallel(acc, origin=(part, m0, n0)) as (i, j):
                x = acc[i, j]
                W[part, i + m0, j + n0] = x

        with T.kernel(
            "gemm_split_k_wide_sum",
            threads=128,
            grid=[T.ceildiv(M, 4), T.ceildiv(N, 32)],
            binds=[W, C, M, K, N],
        ):
            m0, n0 = T.tile_coordinates(M, N, tile=(4, 32), raster="row", group=1)
            parts = T.ceildiv(K, WIDE)
            sum, first, step, many = part_of_sum()
            with T.serial(first, parts, many) as p0:
                with T.serial(first, many, step, unroll=True) as p1:
                    p = p0 + p1
                    with T.parallel(sum, origin=(p, m0, n0)) as (i, j):
                        s = sum[i, j]
                        w = W[p, i + m0, j + n0]
                        more = s + w
                        sum[i, j] = more
            write(sum, C, m0, n0)
