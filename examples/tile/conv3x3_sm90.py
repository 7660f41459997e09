"""3x3 convolutions on SM90, NHWC, as implicit GEMMs through TMA's im2col, with stride 1 and 2.

The twins of conv3x3_sm90.mlir and conv3x3_stride2_sm90.mlir: one body, whose tile, ring and roles
are Python's numbers.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

from dataclasses import dataclass

import polyc.tile as T

N, H, W, C, K = T.sizes("N", "H", "W", "C", "K")

CHANNELS = "C mod 8 == 0, C >= 1, K mod 8 == 0"


@dataclass(frozen=True)
class Tiling:
    """A tile of pixels by filters, the ring's depth, the part of it that leaves at once."""

    pixels: int
    filters: int
    depth: int
    part: int
    when: str = CHANNELS

    @property
    def consumers(self) -> int:
        return self.pixels // 64


def convolution(X: T.Tensor, F: T.Tensor, Y: T.Tensor, stride: int, tiling: Tiling) -> None:
    """One kernel of Y = im2col(X) · F."""
    filter = T.im2col(kernel=(3, 3), strides=(stride, stride), padding=(1, 1))
    bm, bk, depth, consumers = tiling.pixels, tiling.filters, tiling.depth, tiling.consumers
    with T.kernel(
        f"conv3x3_{bm}x{bk}",
        threads=128 * (consumers + 1),
        grid=[T.ceildiv(Y.shape[0], bm), T.ceildiv(K, bk)],
        when=tiling.when,
        persistent=True,
    ):
        P, Q = H, W
        if stride == 2:
            P = T.apply(lambda h: (h + 1) // 2, H)
            Q = T.apply(lambda w: (w + 1) // 2, W)
        lines = N * P
        pixels = lines * Q
        blocks = T.apply(lambda c: (c + 63) // 64, C)
        steps = blocks * 9
        zero = T.const(0)
        one = T.const(1)
        x = T.alloc_shared((bm, 64), T.f16, ring=depth)
        f = T.alloc_shared((bk, 64), T.f16, ring=depth)
        y = T.alloc_shared((bm, tiling.part), T.f16)
        ring = T.ring(depth, consumers=consumers)
        registers = (40, 232) if consumers == 2 else (32, 160)
        with T.roles(consumers=consumers, registers=registers) as roles:
            with roles.producer():
                with T.tile_loop((pixels, K), tile=(bm, bk), group=16) as (m0, k0, t):
                    # The tile's first pixel: image n, row p, column q of the output.
                    line = T.divide(m0, Q)
                    before = line * Q
                    q = T.subtract(m0, before)
                    n = T.divide(line, P)
                    above = n * P
                    p = T.subtract(line, above)
                    first = t * steps
                    with T.serial(zero, steps, one) as i:
                        # Step i: tap (r, s) and the block of channels from c on.
                        it = T.add(first, i)
                        slot = it % depth
                        tap = T.divide(i, blocks)
                        done = tap * blocks
                        block = T.subtract(i, done)
                        c = block * 64
                        r = tap // 3
                        s = tap % 3
                        ring[it].acquire()
                        T.copy(
                            X[n, p, q, c],
                            x.slot(slot),
                            im2col=filter,
                            tap=(r, s),
                            loader="tma",
                            signal=ring[it],
                        )
                        T.copy(
                            F[k0, tap, c],
                            f.slot(slot),
                            axes=(0, 2),
                            loader="tma",
                            signal=ring[it],
                        )
            with roles.consumer():
                with T.tile_loop((pixels, K), tile=(bm, bk), group=16) as (m0, k0, t):
                    acc = T.alloc_fragment((bm, bk), T.f32)
                    T.clear(acc)
                    first = t * steps
                    with T.serial(zero, steps, one) as i:
                        it = T.add(first, i)
                        slot = it % depth
                        ring[it].wait()
                        T.gemm(x.slot(slot), f.slot(slot), acc, transpose_b=True)
                        T.await_(pending=1)
                        later = i > zero
                        with T.when(later):
                            previous = it - 1
                            ring[previous].release()
                    T.await_(pending=0)
                    last = T.apply(lambda f, s: f + s - 1, first, symbols=[steps])
                    ring[last].release()
                    half = T.alloc_fragment((bm, bk), T.f16)
                    with T.parallel(acc) as (i, j):
                        v = acc[i, j]
                        h = T.cast(v, T.f16)
                        half[i, j] = h
                    if tiling.part == bk:
                        T.copy(half, y)
                        T.copy(y, Y[m0, k0], loader="tma")
                    else:
                        T.copy(half[:, : tiling.part], y)
                        T.copy(y, Y[m0, k0], loader="tma")
                        k1 = k0 + tiling.part
                        T.copy(half[:, tiling.part :], y)
                        T.copy(y, Y[m0, k1], loader="tma")


@T.program(arch="sm_90a")
def conv3x3_sm90(
    X: T.Tensor[N, H, W, C, T.f16], F: T.Tensor[K, 9, C, T.f16], Y: T.Out[N * H * W, K, T.f16]
) -> None:
    for tiling in (
        Tiling(128, 160, 5, 160, f"{CHANNELS}, K mod 160 == 0"),
        Tiling(128, 256, 4, 128, f"{CHANNELS}, K mod 256 == 0, N * H * W >= 12800"),
        Tiling(192, 128, 5, 64, f"{CHANNELS}, N * H * W >= 16384"),
        Tiling(128, 128, 6, 128),
    ):
        convolution(X, F, Y, 1, tiling)


PIXELS = N * ((H + 1) // 2) * ((W + 1) // 2)


@T.program(arch="sm_90a")
def conv3x3_stride2_sm90(
    X: T.Tensor[N, H, W, C, T.f16], F: T.Tensor[K, 9, C, T.f16], Y: T.Out[PIXELS, K, T.f16]
) -> None:
    for tiling in (
        Tiling(192, 128, 5, 64, f"{CHANNELS}, {PIXELS} >= 16384"),
        Tiling(128, 128, 6, 128),
    ):
        convolution(X, F, Y, 2, tiling)
