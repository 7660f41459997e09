"""C = A · B on SM80 at any sizes: the twin of gemm_sm80.mlir.

One body for four kernels, from large outputs of aligned rows to rows of any length.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")

EIGHT, TWO = "K mod 8 == 0, N mod 8 == 0", "K mod 2 == 0, N mod 2 == 0"

KERNELS = (
    # name, rows, step, stages, loader, fragment buffers, conditions and alignment
    ("256x128", 256, 64, 3, "cp_async", 2, f"{EIGHT}, M * N >= 3538944", 16),
    ("128x128", 128, 64, 3, "cp_async", 2, EIGHT, 16),
    ("even", 128, 32, 3, "cp_async", 1, TWO, 4),
    ("any", 128, 32, 2, "register", 1, "", 2),
)


@T.program(arch="sm_80")
def gemm_sm80(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]) -> None:
    for name, rows, step, stages, loader, buffers, when, align in KERNELS:
        with T.kernel(
            f"gemm_sm80_{name}",
            threads=rows,
            grid=[T.ceildiv(M, rows), T.ceildiv(N, 128)],
            when=when,
            align=[align] * 3,
        ):
            group = 4 if rows == 256 else 8
            m0, n0 = T.tile_coordinates(M, N, tile=(rows, 128), raster="grouped", group=group)
            zero = T.const(0.0, T.f32)
            acc = T.alloc_fragment((rows, 128), T.f32)
            T.fill(acc, zero)
            a = T.alloc_shared((rows, step), T.f16)
            b = T.alloc_shared((step, 128), T.f16)
            with T.pipelined(K, step=step, stages=stages) as (k0, i):
                T.copy(A[m0, k0], a, loader=loader)
                T.copy(B[k0, n0], b, loader=loader)
                T.gemm(a, b, acc, fragment_buffers=buffers)
            with T.parallel(acc) as (i, j):
                x = acc[i, j]
                y = T.cast(x, T.f16)
                C[i + m0, j + n0] = y
