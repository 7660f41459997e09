"""C = A · B on SM90 with K cut into parts, added in their order: the twin of gemm_split_k.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")

PART, BM, BN = 512, 64, 128


@T.program(arch="sm_90a")
def gemm_split_k(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]) -> None:
    with T.sequence("gemm_split_k_512", when="K mod 8 == 0, N mod 8 == 0, K >= 1"):
        W = T.workspace("parts", (T.ceildiv(K, PART), M, N), T.f32)

        with T.kernel(
            "gemm_split_k_parts",
            threads=256,
            blocks_per_sm=2,
            grid=[T.ceildiv(K, PART), T.ceildiv(M, BM), T.ceildiv(N, BN)],
        ):
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
            with T.pipelined(length, step=64, stages=4) as (k0, i):
                k = part * PART + k0
                T.copy(A[m0, k], a, loader="tma")
                T.copy(B[k, n0], b, loader="tma")
                T.gemm(a, b, acc)
            with T.parallel(acc) as (i, j):
                x = acc[i, j]
                W[part, i + m0, j + n0] = x

        with T.kernel(
            "gemm_split_k_sum",
            threads=128,
            grid=[T.ceildiv(M, 4), T.ceildiv(N, 32)],
            binds=[W, C, M, K, N],
        ):
            m0, n0 = T.tile_coordinates(M, N, tile=(4, 32), raster="row", group=1)
            zero = T.const(0.0, T.f32)
            one_each = T.fragment_layout(128, 1, lambda t, r: (t // 32, t % 32))
            sum = T.alloc_fragment((4, 32), T.f32, layout=one_each)
            T.fill(sum, zero)
            first = T.const(0)
            one = T.const(1)
            many = T.const(16)
            parts = T.ceildiv(K, PART)
            with T.serial(first, parts, many) as p0:
                with T.serial(first, many, one, unroll=True) as p1:
                    p = p0 + p1
                    with T.parallel(sum, origin=(p, m0, n0)) as (i, j):
                        s = sum[i, j]
                        w = W[p, i + m0, j + n0]
                        more = s + w
                        sum[i, j] = more
            with T.parallel(sum) as (i, j):
                x = sum[i, j]
                y = T.cast(x, T.f16)
                C[i + m0, j + n0] = y
