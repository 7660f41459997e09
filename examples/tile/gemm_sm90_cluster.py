"""C = A · B on clusters of two CTAs that share B: the twin of gemm_sm90_cluster.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, N, K = T.sizes("M", "N", "K")


@T.program(arch="sm_90a", assume="K mod 8 == 0, N mod 8 == 0")
def gemm_sm90_cluster(
    A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]
) -> None:
    with T.kernel(
        threads=384,
        cluster=2,
        registers=(56, 224),
        grid=[2 * T.ceildiv(M, 256), T.ceildiv(N, 256)],
        persistent=True,
        binds=[A, B, C, M, N, K],
    ):
        zero = T.const(0.0, T.f32)
        a = T.alloc_shared((128, 64), T.f16)
        b = T.alloc_shared((64, 256), T.f16)
        c = T.alloc_shared((128, 128), T.f16)
        with T.tile_loop((M, N), tile=(128, 256), group=8) as (row, column, n):
            acc = T.alloc_fragment((128, 256), T.f32)
            out = T.alloc_fragment((128, 256), T.f16)
            T.fill(acc, zero)
            with T.pipelined(K, step=64, stages=4) as (k, i):
                T.copy(A[row, k], a, loader="tma")
                T.copy(B[k, column], b, loader="tma", multicast=True)
                T.gemm(a, b, acc)
            with T.parallel(acc) as (i, j):
                x = acc[i, j]
                y = T.cast(x, T.f16)
                out[i, j] = y
            T.copy(out[:, :128], c)
            T.copy(c, C[row, column], loader="tma")
            right = column + 128
            T.copy(out[:, 128:], c)
            T.copy(c, C[row, right], loader="tma")
