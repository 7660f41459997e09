"""C = A · B on SM90 for few rows of A, operands swapped: the twin of gemm_sm90_decode.mlir.

One body for tiles of 16, 64 and 128 tokens.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")


@T.program(arch="sm_90a", assume="K mod 8 == 0, N mod 8 == 0")
def gemm_sm90_decode(
    A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]
) -> None:
    for tokens, stages, when in ((16, 8, "M <= 16"), (64, 8, "M <= 64"), (128, 7, "")):
        with T.kernel(
            f"gemm_sm90_decode_{tokens}",
            threads=384,
            registers=(56, 224),
            grid=[T.ceildiv(N, 128), T.ceildiv(M, tokens)],
            when=when,
            align=[16, 16, 2],
            binds=[A, B, C, M, N, K],
        ):
            zero = T.const(0.0, T.f32)
            w = T.alloc_shared((64, 128), T.f16)
            x = T.alloc_shared((tokens, 64), T.f16)
            n0, m0 = T.tile_coordinates(N, M, tile=(128, tokens), raster="row", group=1)
            acc = T.alloc_fragment((128, tokens), T.f32)
            T.fill(acc, zero)
            with T.pipelined(K, step=64, stages=stages) as (k, i):
                T.copy(B[k, n0], w, loader="tma")
                T.copy(A[m0, k], x, loader="tma")
                T.gemm(w, x, acc, transpose_a=True, transpose_b=True)
            with T.parallel(acc, origin=(n0, m0)) as (n, m):
                e = acc[n, m]
                r = T.cast(e, T.f16)
                C[m + m0, n + n0] = r
