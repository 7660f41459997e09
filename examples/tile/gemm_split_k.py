"""C = A · B on SM90 with K cut into parts, added in their order: the twin of gemm_split_k.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")

PART = 2048


def parts_of_tiles(A, B, W, BM, BN, stages):
    """One tile of one part."""
    block = T.block_id()
    rows = T.ceildiv(M, BM)
    columns = T.ceildiv(N, BN)
    tiles = rows * columns
    part = T.divide(block, tiles)
    tile = T.remainder(block, tiles)
    column = T.divide(tile, rows)
    row = T.remainder(tile, rows)
    m0 = row * BM
    n0 = column * BN
    zero = T.const(0.0, T.f32)
    acc = T.alloc_fragment((BM, BN), T.f32)
    T.fill(acc, zero)
    a = T.alloc_shared((BM, 64), T.f16)
    b = T.alloc_shared((64, BN), T.f16)
    length = T.const(PART)
    with T.pipelined(length, step=64, stages=stages) as (k0, i):
        k = part * PART + k0
        T.copy(A[m0, k], a, loader="tma")
        T.copy(B[k, n0], b, loader="tma")
        T.gemm(a, b, acc)
    with T.parallel(acc) as (i, j):
        x = acc[i, j]
        W[part, i + m0, j + n0] = x


@T.program(arch="sm_90a")
def gemm_split_k(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]) -> None:
    with T.sequence("gemm_split_k_few", when="K mod 8 == 0, N mod 8 == 0, K >= 1, M * N <= 540672"):
        W = T.workspace("parts", (T.ceildiv(K, PART), M, N), T.f32)

        with T.kernel(
            "gemm_split_k_deep",
            threads=256,
            grid=[T.ceildiv(K, PART), T.ceildiv(M, 64), T.ceildiv(N, 64)],
        ):
            parts_of_tiles(A, B, W, 64, 64, stages=6)

        adding = T.kernel(
            "gemm_split_k_sum",
            threads=128,
            grid=[M, T.ceildiv(N, 32)],
            binds=[W, C, M, K, N],
        )
        with adding:
            m0, n0 = T.tile_coordinates(M, N, tile=(1, 32), raster="row", group=1)
            zero = T.const(0.0, T.f32)
            one_each = T.fragment_layout(128, 1, lambda t, r: (t // 32, t % 32))
            four = T.alloc_fragment((4, 32), T.f32, layout=one_each)
            T.fill(four, zero)
            first = T.const(0)
            step = T.const(4)
            many = T.const(32)
            parts = T.ceildiv(K, PART)
            with T.serial(first, parts, many) as p0:
                with T.serial(first, many, step, unroll=True) as p1:
                    p = p0 + p1
                    with T.parallel(four, origin=(p, m0, n0)) as (i, j):
                        s = four[i, j]
                        w = W[i + p, m0, j + n0]
                        more = s + w
                        four[i, j] = more
            sum = T.alloc_fragment((32,), T.f32)
            T.reduce("sum", four, sum, axis=0)
            with T.parallel(sum, origin=(m0, n0)) as (j,):
                x = sum[j]
                y = T.cast(x, T.f16)
                C[m0, j + n0] = y

    with T.sequence("gemm_split_k_many", when="K mod 8 == 0, N mod 8 == 0, K >= 1"):
        W = T.workspace("parts", (T.ceildiv(K, PART), M, N), T.f32)

        with T.kernel(
            "gemm_split_k_wide",
            threads=256,
            blocks_per_sm=2,
            grid=[T.ceildiv(K, PART), T.ceildiv(M, 64), T.ceildiv(N, 128)],
        ):
            parts_of_tiles(A, B, W, 64, 128, stages=4)

        T.launch(adding, grid=[M, T.ceildiv(N, 32)])
