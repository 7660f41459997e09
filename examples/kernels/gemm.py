"""C = relu(A · B + bias) by hand, for `polyc compile --kernels`: one tile program a tile's size.

polyc compile examples/gemm_bias_relu.mlir --arch sm_90a --kernels examples/kernels/gemm.py
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")

TILES = ((128, 160), (128, 176))


def gemm(rows: int, columns: int):
    @T.program(arch="sm_90a", name=f"by_hand_{rows}x{columns}", replaces="../gemm_bias_relu.mlir")
    def made(
        A: T.Tensor[M, K, T.f16],
        B: T.Tensor[K, N, T.f16],
        bias: T.Tensor[N, T.f16],
        C: T.Out[M, N, T.f16],
    ) -> None:
        with T.kernel(
            threads=384,
            registers=(40, 232),
            grid=[T.ceildiv(M, rows), T.ceildiv(N, columns)],
            when="K mod 8 == 0, N mod 8 == 0, K >= 1",
        ):
            m0, n0 = T.tile_coordinates(M, N, tile=(rows, columns), raster="grouped", group=8)
            zero = T.const(0.0, T.f32)
            acc = T.alloc_fragment((rows, columns), T.f32)
            T.fill(acc, zero)
            a = T.alloc_shared((rows, 64), T.f16)
            b = T.alloc_shared((64, columns), T.f16)
            with T.pipelined(K, step=64, stages=4) as (k0, i):
                T.copy(A[m0, k0], a, loader="tma")
                T.copy(B[k0, n0], b, loader="tma")
                T.gemm(a, b, acc)
            with T.parallel(acc, origin=(m0, n0)) as (i, j):
                x = acc[i, j] + T.cast(bias[j + n0], T.f32)
                y = T.cast(T.max(x, 0.0), T.f16)
                C[i + m0, j + n0] = y

    return made


PROGRAMS = [gemm(*tile) for tile in TILES]
