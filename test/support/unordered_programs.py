"""Tile programs whose authors leave barriers out: each is right once they are there."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import f16

import polyc.tile as T
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile

Array = NDArray[Any]
M, N, K = T.sizes("M", "N", "K")

MN = "M", "N"
AB = ("M", "K"), ("K", "N")


@dataclass(frozen=True)
class Unordered:
    """A program, the shapes and the type of its inputs, what it computes, sizes with tails, and how
    many barriers its kernel has when it is lowered (those of mbarriers made ready among them).

    ``in_tiles``: it has no code on addresses, so that its tiles can be played."""

    program: Any
    shapes: Sequence[Sequence[str]]
    reference: Callable[..., Array]
    sizes: Sequence[Mapping[str, int]]
    barriers: int
    element: type = np.float16
    in_tiles: bool = True

    def inputs(self, sizes: Mapping[str, int]) -> list[Array]:
        rng = np.random.default_rng(1)
        return [
            rng.integers(-3, 4, [sizes[s] for s in shape]).astype(self.element)
            for shape in self.shapes
        ]


ANY = ({"M": 64, "N": 64}, {"M": 70, "N": 130}, {"M": 1, "N": 3})
EIGHTS = ({"M": 64, "N": 64}, {"M": 72, "N": 136}, {"M": 8, "N": 8})
PRODUCTS = ({"M": 64, "N": 64, "K": 32}, {"M": 70, "N": 66, "K": 70}, {"M": 3, "N": 5, "K": 0})
PRODUCTS_OF_EIGHTS = ({"M": 64, "N": 64, "K": 64}, {"M": 70, "N": 72, "K": 136})
EVEN = "M mod 8 == 0, N mod 8 == 0"
EVEN_ROWS = "K mod 8 == 0, N mod 8 == 0"


def turned(x: Array) -> Array:
    return x.T


def same(x: Array) -> Array:
    return x


def product(a: Array, b: Array) -> Array:
    return a @ b


def transposed(arch: str, loader: str, when: str = "") -> T.Program:
    """A tile is filled row by row, and read column by column."""

    @T.program(arch=arch)
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)], when=when):
            r, c = T.tile_coordinates(M, N, tile=(64, 64))
            s = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            T.copy(X[r, c], s, loader=loader)
            with T.parallel(f) as (i, j):
                Y[c + i, r + j] = s[j, i]

    return program


def in_a_loop(arch: str, loader: str, when: str = "") -> T.Program:
    """The same tile again and again: it is also overwritten while others may still read it."""

    @T.program(arch=arch)
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64)], when=when):
            r = T.block_id() * 64
            s = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            with T.serial(0, N, 64) as c:
                T.copy(X[r, c], s, loader=loader)
                with T.parallel(f) as (i, j):
                    Y[c + i, r + j] = s[j, i]

    return program


def persistent(arch: str, loader: str, when: str = "") -> T.Program:
    """From one tile of a persistent kernel to the next."""

    @T.program(arch=arch)
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
        with T.kernel(
            threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)], persistent=True, when=when
        ):
            s = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            with T.tile_loop((M, N), tile=(64, 64)) as (r, c, _n):
                T.copy(X[r, c], s, loader=loader)
                with T.parallel(f) as (i, j):
                    Y[c + i, r + j] = s[j, i]

    return program


@T.program(arch="sm_80")
def from_fragments(X: T.Tensor[M, N, T.f32], Y: T.Out[N, M, T.f32]):
    with T.kernel(threads=128, grid=[T.ceildiv(M, 32), T.ceildiv(N, 64)]):
        r, c = T.tile_coordinates(M, N, tile=(32, 64))
        s = T.alloc_shared((32, 64), T.f32)
        left = T.alloc_fragment((32, 32), T.f32)
        right = T.alloc_fragment((32, 32), T.f32)
        whole = T.alloc_fragment((64, 32), T.f32)
        T.copy(X[r, c], left)
        T.copy(X[r, c + 32], right)
        T.copy(left, s[:, 0:32])
        T.copy(right, s[:, 32:64])
        with T.parallel(whole) as (i, j):
            Y[c + i, r + j] = s[j, i]


@T.program(arch="sm_80")
def under_conditions(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
    """What is filled in one iteration is read in the next one."""
    with T.kernel(threads=128, grid=[T.ceildiv(M, 64)]):
        r = T.block_id() * 64
        s = T.alloc_shared((64, 64), T.f16)
        f = T.alloc_fragment((64, 64), T.f16)
        with T.serial(0, T.ceildiv(N, 64) + 1) as n:
            with T.when(n > 0), T.parallel(f) as (i, j):
                Y[(n - 1) * 64 + i, r + j] = s[j, i]
            with T.when(n * 64 < N):
                T.copy(X[r, n * 64], s)


@T.program(arch="sm_80")
def summed(X: T.Tensor[M, N, T.f32], Y: T.Out[M, T.f32]):
    """An exchange beside a reduction, whose warps meet once already."""
    with T.kernel(threads=128, grid=[M]):
        r = T.block_id()
        x = T.alloc_fragment((1, 256), T.f32)
        s = T.alloc_shared((1, 256), T.f32)
        g = T.alloc_fragment((1, 256), T.f32)
        total = T.alloc_fragment((1,), T.f32)
        T.clear(total)
        with T.serial(0, N, 256) as c:
            T.copy(X[r, c], x)
            T.copy(x, s)
            with T.parallel(g) as (i, j):
                g[i, j] = s[i, 255 - j]
            T.reduce("sum", g, total, axis=1, accumulate=True)
        T.copy(total, Y[r])


def multiplied(arch: str, mma: str, loader: str, when: str = "", deep: int = 64) -> T.Program:
    """A product step by step, as one writes it first."""

    @T.program(arch=arch)
    def program(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)], when=when):
            r, c = T.tile_coordinates(M, N, tile=(64, 64))
            a = T.alloc_shared((64, deep), T.f16)
            b = T.alloc_shared((deep, 64), T.f16)
            acc = T.alloc_fragment((64, 64), T.f32)
            T.clear(acc)
            with T.serial(0, K, deep) as k:
                T.copy(A[r, k], a, loader=loader)
                T.copy(B[k, c], b, loader=loader)
                done = T.gemm(a, b, acc, mma=mma, token=True)
                T.await_(done)
            T.copy(acc, C[r, c])

    return program


@T.program(arch="sm_90a")
def left_from_registers(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
    """The left operand is written by threads, and wgmma reads it: a barrier is not all."""
    with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)], when=EVEN_ROWS):
        r, c = T.tile_coordinates(M, N, tile=(64, 64))
        a = T.alloc_shared((64, 64), T.f16)
        b = T.alloc_shared((64, 64), T.f16)
        f = T.alloc_fragment((64, 64), T.f16)
        acc = T.alloc_fragment((64, 64), T.f32)
        T.clear(acc)
        with T.serial(0, K, 64) as k:
            T.copy(A[r, k], f)
            T.copy(f, a)
            T.copy(B[k, c], b, loader="tma")
            T.barrier()
            done = T.gemm(a, b, acc, mma="wgmma", token=True)
            T.await_(done)
        T.copy(acc, C[r, c])


@T.program(arch="sm_90a", assume="K mod 8 == 0, N mod 8 == 0")
def under_way(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
    """A tile is filled again while wgmma reads it."""
    with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)]):
        r, c = T.tile_coordinates(M, N, tile=(64, 64))
        a = T.alloc_shared((64, 64), T.f16)
        b = T.alloc_shared((64, 64), T.f16)
        acc = T.alloc_fragment((64, 64), T.f32)
        T.clear(acc)
        T.copy(A[r, 0], a, loader="register")
        T.copy(B[0, c], b, loader="register")
        one = T.gemm(a, b, acc, mma="wgmma", token=True)
        T.copy(A[r, 64], a, loader="register")
        T.await_(one)
        T.copy(B[64, c], b, loader="register")
        two = T.gemm(a, b, acc, mma="wgmma", token=True)
        T.await_(two)
        T.copy(acc, C[r, c])


@T.program(arch="sm_80")
def in_a_pipeline(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
    """One operand goes by a tile that the pipeline does not know."""
    with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)]):
        r, c = T.tile_coordinates(M, N, tile=(64, 64))
        b = T.alloc_shared((32, 64), T.f16)
        p = T.alloc_shared((64, 32), T.f16)
        f = T.alloc_fragment((64, 32), T.f16)
        acc = T.alloc_fragment((64, 64), T.f32)
        T.clear(acc)
        with T.pipelined(K, step=32, stages=3) as (k, _n):
            T.copy(B[k, c], b)
            T.copy(A[r, k], f)
            with T.parallel(f) as (i, j):
                f[i, j] = f[i, j] * 2
            T.copy(f, p)
            T.gemm(p, b, acc)
        T.copy(acc, C[r, c])


def pipeline_by_tiles(loader: str, when: str = "") -> T.Program:
    """A pipeline in a persistent kernel: the next tile's first copies fill what is still read."""

    @T.program(arch="sm_80")
    def program(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
        with T.kernel(
            threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)], persistent=True, when=when
        ):
            a = T.alloc_shared((64, 32), T.f16)
            b = T.alloc_shared((32, 64), T.f16)
            acc = T.alloc_fragment((64, 64), T.f32)
            with T.tile_loop((M, N), tile=(64, 64)) as (r, c, _n):
                T.clear(acc)
                with T.pipelined(K, step=32, stages=3) as (k, _i):
                    T.copy(A[r, k], a, loader=loader)
                    T.copy(B[k, c], b, loader=loader)
                    T.gemm(a, b, acc)
                T.copy(acc, C[r, c])

    return program


def passed_on(arch: str, loader: str, store: str, when: str = "") -> T.Program:
    """Through shared memory from one tensor to another."""

    @T.program(arch=arch)
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64)], when=when):
            r = T.block_id() * 64
            s = T.alloc_shared((64, 64), T.f16)
            with T.serial(0, N, 64) as c:
                T.copy(X[r, c], s, loader=loader)
                T.copy(s, Y[r, c], loader=store)

    return program


@T.program(arch="sm_80")
def by_hand(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
    """All threads fill a tile, and some of them read it at addresses."""
    with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)]):
        r, c = T.tile_coordinates(M, N, tile=(64, 64))
        s = T.alloc_shared((64, 64), T.f16, swizzle=0)
        T.copy(X[r, c], s)
        t = T.thread_id()
        with T.when(t < 64), T.serial(0, 64) as j, T.when(c + t < N), T.when(r + j < M):
            address = T.op(tile.ElementAddressOp, s, T.const(0), j, t)
            value = T.op(hw.LoadSharedOp, address, f16)
            T.op(hw.StoreGlobalOp, value, Y, [c + t, r + j])


@T.program(arch="sm_80")
def all_by_hand(X: T.Tensor[M, N, T.f32], Y: T.Out[M, N, T.f32]):
    """Threads reverse a row of 128 at addresses."""
    with T.kernel(threads=128, grid=[M]):
        r = T.block_id()
        s = T.alloc_shared((1, 128), T.f32, swizzle=0)
        g = T.alloc_fragment((1, 128), T.f32)
        t = T.thread_id()
        zero = T.const(0)
        T.copy(X[r, 0], g)
        T.copy(g, s)
        value = T.op(hw.LoadSharedOp, T.op(tile.ElementAddressOp, s, zero, zero, 127 - t), T.f32)
        T.op(hw.StoreSharedOp, value, T.op(tile.ElementAddressOp, s, zero, zero, t))
        T.copy(s, g)
        T.copy(g, Y[r, 0])


def exchanged_by_consumers() -> T.Program:
    """The consumers of a ring exchange a tile among themselves."""

    @T.program(arch="sm_90a", assume="K mod 8 == 0, N mod 8 == 0, K >= 1")
    def program(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
        with T.kernel(threads=384, grid=[T.ceildiv(M, 128), T.ceildiv(N, 64)]):
            r, c = T.tile_coordinates(M, N, tile=(128, 64))
            a = T.alloc_shared((128, 64), T.f16, ring=2)
            b = T.alloc_shared((64, 64), T.f16, ring=2)
            o = T.alloc_shared((128, 64), T.f32)
            steps = T.ceildiv(K, 64)
            ring = T.ring(2, consumers=2)
            with T.roles(consumers=2, registers=(40, 232), single_thread=True) as roles:
                with roles.producer(), T.serial(0, steps) as i:
                    ring[i].acquire()
                    T.copy(A[r, i * 64], a.slot(i % 2), signal=ring[i], loader="tma")
                    T.copy(B[i * 64, c], b.slot(i % 2), signal=ring[i], loader="tma")
                with roles.consumer():
                    acc = T.alloc_fragment((128, 64), T.f32)
                    z = T.alloc_fragment((128, 64), T.f32)
                    T.clear(acc)
                    with T.serial(0, steps) as i:
                        ring[i].wait()
                        t = T.gemm(a.slot(i % 2), b.slot(i % 2), acc, mma="wgmma", token=True)
                        T.await_(t)
                        ring[i].release()
                    T.copy(acc, o)
                    with T.parallel(z) as (i, j):
                        C[r + i, c + j] = o[i, j]

    return program


def multicast(again: bool) -> T.Program:
    """Both CTAs of a cluster get the same tile, and each writes half of it."""

    @T.program(arch="sm_90a", assume="N mod 8 == 0")
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]):
        with T.kernel(threads=128, cluster=2, grid=[2, T.ceildiv(M, 128)]):
            half = T.cluster_rank() * 64
            r = T.block_id() // 2 * 128
            s = T.alloc_shared((128, 128), T.f16)
            f = T.alloc_fragment((64, 128), T.f16)
            with T.serial(0, N if again else 1, 128) as c:
                T.copy(X[r, c], s, loader="tma", multicast=True)
                with T.parallel(f) as (i, j):
                    Y[r + i + half, c + j] = s[i + half, j]

    return program


WIDE = [{"M": 72, "N": 200}]

PROGRAMS: Mapping[str, Unordered] = {
    "threads, transposed": Unordered(transposed("sm_80", "register"), [MN], turned, ANY, 1),
    "cp.async, transposed": Unordered(
        transposed("sm_80", "cp_async", EVEN), [MN], turned, EIGHTS, 1
    ),
    "TMA, transposed": Unordered(transposed("sm_90a", "tma", EVEN), [MN], turned, EIGHTS, 1),
    "threads in a loop": Unordered(in_a_loop("sm_80", "register"), [MN], turned, ANY, 2),
    "cp.async in a loop": Unordered(
        in_a_loop("sm_90a", "cp_async", EVEN), [MN], turned, EIGHTS, 2
    ),
    "threads from tile to tile": Unordered(
        persistent("sm_80", "register"), [MN], turned, [{"M": 140, "N": 264}], 2
    ),
    "cp.async from tile to tile": Unordered(
        persistent("sm_80", "cp_async", EVEN), [MN], turned, [{"M": 136, "N": 264}], 2
    ),
    "TMA from tile to tile": Unordered(
        persistent("sm_90a", "tma", EVEN), [MN], turned, [{"M": 136, "N": 264}], 2
    ),
    "two fragments, read as one": Unordered(
        from_fragments, [MN], turned, ANY, 1, np.float32
    ),
    "under conditions": Unordered(under_conditions, [MN], turned, ANY, 2),
    "beside a reduction": Unordered(
        summed,
        [MN],
        lambda x: x.sum(1),
        [{"M": 3, "N": 256}, {"M": 2, "N": 700}, {"M": 2, "N": 5}],
        2,
        np.float32,
    ),
    "mma.sync, by threads": Unordered(
        multiplied("sm_80", "mma.sync", "register", deep=32), AB, product, PRODUCTS, 2
    ),
    "mma.sync, by cp.async": Unordered(
        multiplied("sm_80", "mma.sync", "cp_async", EVEN_ROWS), AB, product, PRODUCTS_OF_EIGHTS, 2
    ),
    "wgmma, by threads": Unordered(
        multiplied("sm_90a", "wgmma", "register"), AB, product, PRODUCTS, 2
    ),
    "wgmma, by cp.async": Unordered(
        multiplied("sm_90a", "wgmma", "cp_async", EVEN_ROWS), AB, product, PRODUCTS_OF_EIGHTS, 2
    ),
    "wgmma, without its fence": Unordered(
        left_from_registers, AB, product, PRODUCTS_OF_EIGHTS, 4
    ),
    "wgmma under way": Unordered(
        under_way, AB, product, [{"M": 64, "N": 64, "K": 128}, {"M": 65, "N": 72, "K": 72}], 3
    ),
    "in a pipeline": Unordered(
        in_a_pipeline, AB, lambda a, b: 2 * a @ b, PRODUCTS, 2
    ),
    "a pipeline from tile to tile": Unordered(
        pipeline_by_tiles("cp_async", EVEN_ROWS),
        AB,
        product,
        [{"M": 136, "N": 200, "K": 72}, {"M": 136, "N": 200, "K": 8}],
        2,
    ),
    "a loose pipeline from tile to tile": Unordered(
        pipeline_by_tiles("register"), AB, product, [{"M": 136, "N": 199, "K": 7}], 2
    ),
    "cp.async, stored by threads": Unordered(
        passed_on("sm_80", "cp_async", "register", EVEN), [MN], same, EIGHTS, 2
    ),
    "cp.async, stored by TMA": Unordered(
        passed_on("sm_90a", "cp_async", "tma", EVEN), [MN], same, EIGHTS, 2
    ),
    "TMA, stored by TMA": Unordered(
        passed_on("sm_90a", "tma", "tma", EVEN), [MN], same, EIGHTS, 4
    ),
    "read by hand": Unordered(by_hand, [MN], turned, ANY, 1, in_tiles=False),
    "reversed by hand": Unordered(
        all_by_hand,
        [MN],
        lambda x: x[:, ::-1],
        [{"M": 3, "N": 128}],
        3,
        np.float32,
        in_tiles=False,
    ),
    "among consumers": Unordered(
        exchanged_by_consumers(),
        AB,
        product,
        [{"M": 130, "N": 72, "K": 200}],
        2,
    ),
    "multicast": Unordered(multicast(False), [MN], same, [{"M": 130, "N": 72}], 0),
    "multicast in a loop": Unordered(multicast(True), [MN], same, WIDE, 0),
}  # fmt: skip
"""By who writes and who uses; barriers of the cluster are not counted."""
