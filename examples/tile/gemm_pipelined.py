"""C = A · B on SM90, what an author of a first kernel writes: the twin of gemm_pipelined.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")


@T.program(arch="sm_90a")
def gemm_pipelined(
    A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]
) -> None:
    with T.kernel(
        "gemm_pipelined_tma",
        threads=384,
        registers=(40, 232),
        grid=[T.ceildiv(M, 128), T.ceildiv(N, 256)],
        when="K mod 8 == 0, N mod 8 == 0, K >= 1",
    ):
        m0, n0 = T.tile_coordinates(M, N, tile=(128, 256), raster="grouped", group=8)
        zero = T.const(0.0, T.f32)
        acc = T.alloc_fragment((128, 256), T.f32)
        T.fill(acc, zero)
        a = T.alloc_shared((128, 64), T.f16)
        b = T.alloc_shared((64, 256), T.f16)
        with T.pipelined(K, step=64, stages=4) as (k0, i):
            T.copy(A[m0, k0], a, loader="tma")
            T.copy(B[k0, n0], b, loader="tma")
            T.gemm(a, b, acc)
        with T.parallel(acc, origin=(m0, n0)) as (i, j):
            x = acc[i, j]
            y = T.cast(x, T.f16)
            C[i + m0, j + n0] = y
