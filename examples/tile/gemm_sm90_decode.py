"""C = A · B on SM90 for few rows of A: the twin of gemm_sm90_decode.mlir.

Operands are swapped for 16 tokens; one body serves tiles of 64 and 128.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")


@T.program(arch="sm_90a", assume="K mod 8 == 0, N mod 8 == 0")
def gemm_sm90_decode(
    A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]
) -> None:
    with T.kernel(
        "gemm_sm90_decode_16",
        threads=384,
        grid=[T.ceildiv(N, 128), T.ceildiv(M, 16)],
        when="M <= 16",
        align=[16, 16, 16],
        binds=[A, B, C, M, N, K],
    ):
        zero = T.const(0.0, T.f32)
        w = T.alloc_shared((64, 128), T.f16)
        x = T.alloc_shared((16, 64), T.f16)
        n0, m0 = T.tile_coordinates(N, M, tile=(128, 16), raster="row", group=1)
        acc = T.alloc_fragment((128, 16), T.f32)
        T.fill(acc, zero)
        with T.pipelined(K, step=64, stages=8) as (k, i):
            T.copy(B[k, n0], w, loader="tma")
            T.copy(A[m0, k], x, loader="tma")
            T.gemm(w, x, acc, transpose_a=True, transpose_b=True)
        with T.parallel(acc, origin=(n0, m0)) as (n, m):
            e = acc[n, m]
            r = T.cast(e, T.f16)
            C[m + m0, n + n0] = r
    for tokens, stages, threads, when in ((64, 8, 256, "M <= 64"), (128, 6, 384, "")):
        with T.kernel(
            f"gemm_sm90_decode_{tokens}",
            threads=threads,
            grid=[T.ceildiv(N, 128), T.ceildiv(M, tokens)],
            when=when,
            align=[16, 16, 16],
            binds=[A, B, C, M, N, K],
        ):
            zero = T.const(0.0, T.f32)
            w = T.alloc_shared((64, 128), T.f16)
            x = T.alloc_shared((tokens, 64), T.f16)
            c = T.alloc_shared((tokens, 128), T.f16)
            n0, m0 = T.tile_coordinates(N, M, tile=(128, tokens), raster="row", group=1)
            acc = T.alloc_fragment((tokens, 128), T.f32)
            out = T.alloc_fragment((tokens, 128), T.f16)
            T.fill(acc, zero)
            with T.pipelined(K, step=64, stages=stages) as (k, i):
                T.copy(B[k, n0], w, loader="tma")
                T.copy(A[m0, k], x, loader="tma")
                T.gemm(x, w, acc)
            with T.parallel(acc) as (p, q):
                e = acc[p, q]
                r = T.cast(e, T.f16)
                out[p, q] = r
            T.copy(out, c)
            T.copy(c, C[m0, n0], loader="tma")
