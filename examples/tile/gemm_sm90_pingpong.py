"""C = A · B with two consumer warpgroups that take turns: the twin of gemm_sm90_pingpong.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, N, K = T.sizes("M", "N", "K")

TILE = (64, 256)


@T.program(arch="sm_90a", assume="K mod 8 == 0, N mod 8 == 0, K >= 1")
def gemm_sm90_pingpong(
    A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f16]
) -> None:
    with T.kernel(
        threads=384,
        grid=[T.ceildiv(M, TILE[0]), T.ceildiv(N, TILE[1])],
        persistent=True,
        binds=[A, B, C, M, N, K],
    ):
        zero = T.const(0.0, T.f32)
        none = T.const(0)
        one = T.const(1)
        steps = T.ceildiv(K, 64)
        a = T.alloc_shared((64, 64), T.f16, ring=4)
        b = T.alloc_shared((64, 256), T.f16, ring=4)
        c = T.alloc_shared((64, 256), T.f16, ring=2, swizzle=128)
        ring = T.ring(4, consumers=1)
        turns = T.order_barrier(2)
        with T.roles(consumers=2, registers=(40, 232), independent=True) as roles:
            with roles.producer():
                with T.tile_loop((M, N), tile=TILE, group=16) as (row, column, n):
                    first = n * steps
                    with T.serial(none, steps, one) as i:
                        it = first + i
                        slot = it % 4
                        k = i * 64
                        ring[it].acquire()
                        T.copy(A[row, k], a.slot(slot), loader="tma", signal=ring[it])
                        T.copy(B[k, column], b.slot(slot), loader="tma", signal=ring[it])
            with roles.consumer() as w:
                with T.tile_loop((M, N), tile=TILE, group=16, share=(w, 2)) as (row, column, n):
                    acc = T.alloc_fragment((64, 256), T.f32)
                    out = T.alloc_fragment((64, 256), T.f16)
                    T.fill(acc, zero)
                    first = n * steps
                    with T.turn(turns, w):
                        with T.serial(none, steps, one) as i:
                            it = first + i
                            slot = it % 4
                            ring[it].wait()
                            T.gemm(a.slot(slot), b.slot(slot), acc)
                            T.await_(pending=1)
                            late = i > none
                            with T.when(late):
                                previous = it - 1
                                ring[previous].release()
                    T.await_(pending=0)
                    last = first + steps - 1
                    ring[last].release()
                    with T.parallel(acc) as (i, j):
                        x = acc[i, j]
                        y = T.cast(x, T.f16)
                        out[i, j] = y
                    T.copy(out, c.slot(w))
                    T.copy(c.slot(w), C[row, column], loader="tma")
