"""C = A · B on SM90 for any K and N, through padded workspaces: the twin of gemm_unaligned.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, K, N = T.sizes("M", "K", "N")


def pad(name: str, source: T.Tensor, target: T.Tensor, as_name: str) -> None:
    """A kernel that copies ``source`` to rows of whole 16 bytes, 16 rows of 256 elements a CTA."""
    rows, columns = source.shape
    with T.kernel(
        name,
        threads=256,
        grid=[T.ceildiv(rows, 16), T.ceildiv(columns, 256)],
        binds={as_name: source, "P": target, str(rows): rows, str(columns): columns},
    ):
        i, j = T.tile_coordinates(rows, columns, tile=(16, 256), raster="row", group=1)
        x = T.alloc_fragment((16, 256), T.f16)
        T.copy(source[i, j], x)
        T.copy(x, target[i, j])


@T.program(arch="sm_90a")
def gemm_unaligned(
    A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]
) -> None:
    with T.sequence("gemm_unaligned_padded", when="K >= 1", align=[2, 2, 2]):
        PA = T.workspace("A", (M, T.ceildiv(K, 8) * 8), T.f16)
        PB = T.workspace("B", (K, T.ceildiv(N, 8) * 8), T.f16)
        pad("gemm_unaligned_pad_a", A, PA, "A")
        pad("gemm_unaligned_pad_b", B, PB, "B")

        with T.kernel(
            "gemm_unaligned_tma",
            threads=384,
            registers=(40, 232),
            grid=[T.ceildiv(M, 128), T.ceildiv(N, 256)],
            binds={"A": PA, "B": PB, "C": C, "M": M, "K": K, "N": N},
        ):
            m0, n0 = T.tile_coordinates(M, N, tile=(128, 256), raster="grouped", group=16)
            zero = T.const(0.0, T.f32)
            acc = T.alloc_fragment((128, 256), T.f32)
            T.fill(acc, zero)
            a = T.alloc_shared((128, 64), T.f16)
            b = T.alloc_shared((64, 256), T.f16)
            with T.pipelined(K, step=64, stages=4) as (k0, i):
                T.copy(PA[m0, k0], a, loader="tma")
                T.copy(PB[k0, n0], b, loader="tma")
                T.gemm(a, b, acc)
            with T.parallel(acc) as (i, j):
                x = acc[i, j]
                y = T.cast(x, T.f16)
                C[i + m0, j + n0] = y
