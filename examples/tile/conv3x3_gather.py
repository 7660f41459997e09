"""A 3x3 convolution as an implicit GEMM that gathers its pixels: the twin of conv3x3_gather.mlir.

Three kernels of one body: how the channels are aligned decides between them.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

N, H, W, C, K = T.sizes("N", "H", "W", "C", "K")

FILTER = T.im2col(kernel=(3, 3), strides=(1, 1), padding=(1, 1))


@T.program(arch="sm_80")
def conv3x3_gather(
    X: T.Tensor[N, H, W, C, T.f16], F: T.Tensor[K, 9, C, T.f16], Y: T.Out[N * H * W, K, T.f16]
) -> None:
    for loader, stages, when, align in (
        ("cp_async16", 3, "C mod 8 == 0, K mod 8 == 0", [16, 16, 16]),
        ("cp_async4", 3, "C mod 2 == 0, K mod 8 == 0", [4, 4, 16]),
        ("scalar", 2, "", [2, 2, 2]),
    ):
        with T.kernel(
            f"conv3x3_{loader}",
            threads=256,
            grid=[T.ceildiv(N * H * W, 128), T.ceildiv(K, 128)],
            when=when,
            align=align,
        ):
            lines = N * H
            pixels = lines * W
            m0, k0 = T.tile_coordinates(pixels, K, tile=(128, 128), raster="grouped", group=8)
            # The tile's first pixel: image n, row p, column q of the output.
            line = T.divide(m0, W)
            before = line * W
            q = T.subtract(m0, before)
            n = T.divide(line, H)
            above = n * H
            p = T.subtract(line, above)
            zero = T.const(0.0, T.f32)
            acc = T.alloc_fragment((128, 128), T.f32)
            T.fill(acc, zero)
            x = T.alloc_shared((128, 32), T.f16)
            f = T.alloc_shared((128, 32), T.f16)
            blocks = T.apply(lambda c: (c + 31) // 32, C)
            steps = blocks * 9
            with T.pipelined(steps, step=1, stages=stages) as (step, i):
                # Step i: tap (r, s) and a block of 32 channels from c on.
                tap = T.divide(i, blocks)
                done = tap * blocks
                block = T.subtract(i, done)
                c = block * 32
                r = tap // 3
                s = tap % 3
                T.copy(X[n, p, q, c], x, im2col=FILTER, tap=(r, s))
                T.copy(F[k0, tap, c], f, axes=(0, 2))
                T.gemm(x, f, acc, transpose_b=True)
            with T.parallel(acc) as (i, j):
                v = acc[i, j]
                y = T.cast(v, T.f16)
                Y[i + m0, j + k0] = y
