"""O = softmax(Q · Kᵀ / sqrt(d)) · V on SM90: the twins of attention_sm90_d{64,128}[_causal].mlir.

One function makes the four: scores and values are under way together, one step of keys apart, and
the softmax of one step runs while the tensor cores work for another one or another warpgroup.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

from contextlib import nullcontext
from math import e, log2, sqrt

import polyc.tile as T

BH, SQ, SK = T.sizes("BH", "SQ", "SK")

KEYS = 128
"""Keys of a step."""


def attention(d: int, causal: bool) -> T.Program:
    """The program for heads of ``d``."""
    groups = 2 if d == 128 else 3
    queries = 64 * groups
    heads = 4 if d == 128 else 8
    title = f"attention_sm90_d{d}" + ("_causal" if causal else "")
    tiles = T.ceildiv(SQ, queries)
    grid = [T.ceildiv(BH, heads), tiles, heads] if causal else [BH, tiles]

    @T.program(arch="sm_90a", name=title)
    def program(
        Q: T.Tensor[BH, SQ, d, T.f16],
        K: T.Tensor[BH, SK, d, T.f16],
        V: T.Tensor[BH, SK, d, T.f16],
        O: T.Out[BH, SQ, d, T.f16],  # noqa: E741
    ) -> None:
        with T.kernel(
            f"{title}_tma",
            threads=128 * (groups + 1),
            grid=grid,
            persistent=not causal,
            when="BH >= 1, SQ >= 1, SK >= 1",
        ):
            body(Q, K, V, O, d, causal, groups, heads)

    return program


def body(Q, K, V, O, d: int, causal: bool, groups: int, heads: int) -> None:  # noqa: E741
    queries = 64 * groups
    c0 = T.const(0)
    c1 = T.const(1)
    q = T.alloc_shared((64, d), T.f16, ring=groups)
    k = T.alloc_shared((KEYS, d), T.f16, ring=2)
    v = T.alloc_shared((KEYS, d), T.f16, ring=2)
    rq = T.ring(1, consumers=groups)
    rk = T.ring(2, consumers=groups)
    rv = T.ring(2, consumers=groups)
    turn = T.order_barrier(groups)
    if causal:
        # Heads go by groups, in a group tiles from the last queries to the first, heads fastest.
        tiles = (SQ + (queries - 1)) // queries
        of_group = tiles * heads
        block = T.block_id()
        group = T.divide(block, of_group)
        rest = T.remainder(block, of_group)
        bh = group * heads + rest % heads
        q0 = T.apply(lambda r, t: (t - r // heads - 1) * queries, rest, symbols=[tiles])
        # The keys that the tile's last query sees; none where there is no such head.
        seen = T.apply(lambda q, sq, sk: q + queries + sk - sq, q0, symbols=[SQ, SK])
        some = T.min(seen, SK)
        there = bh < BH
        keys = T.select(there, some, c0)
        steps = (keys + (KEYS - 1)) // KEYS
        any = steps > c0
    else:
        steps = (SK + (KEYS - 1)) // KEYS

    def load(bh, q0, n) -> None:
        """What the producer does for a tile of queries, the ``n``-th of this CTA."""
        rq[n].acquire()
        for i in range(groups):
            at = T.name(q0 + 64 * i, f"q{i}")
            slot = c0 if i == 0 else c1 if i == 1 else T.name(T.const(i), f"c{i}")
            T.copy(Q[bh, at, c0], q.slot(slot), loader="tma", signal=rq[n])
        if not causal:
            before = n * steps
        with T.serial(c0, steps, c1) as i:
            it = i
            if not causal:
                it = T.add(before, i)
            slot = it % 2
            k0 = T.apply(lambda i, n: (n - i - 1) * KEYS, i, symbols=[steps])
            rk[it].acquire()
            T.copy(K[bh, k0, c0], k.slot(slot), loader="tma", signal=rk[it])
            rv[it].acquire()
            T.copy(V[bh, k0, c0], v.slot(slot), loader="tma", signal=rv[it])

    registers = (40, 232) if groups == 2 else (32, 160)
    with T.roles(consumers=groups, registers=registers, independent=True) as roles:
        with roles.producer():
            if causal:
                with T.when(any):
                    load(bh, q0, c0)
            else:
                with T.tile_loop((BH, SQ), tile=(1, queries), raster="row", group=1) as (bh, q0, n):
                    load(bh, q0, n)
        with roles.consumer() as w:
            zero = T.const(0.0, T.f32)
            none = T.const(-T.inf, T.f32)
            scale = T.const(log2(e) / sqrt(d), T.f32)
            less = T.const(-log2(e) / sqrt(d), T.f32)
            one = T.const(1.0, T.f32)
            s = T.alloc_fragment((64, KEYS), T.f32)
            p = T.alloc_fragment((64, KEYS), T.f16)
            o = T.alloc_fragment((64, d), T.f32)
            m = T.alloc_fragment((64,), T.f32)
            was = T.alloc_fragment((64,), T.f32)
            base = T.alloc_fragment((64,), T.f32)
            alpha = T.alloc_fragment((64,), T.f32)
            part = T.alloc_fragment((64, 4), T.f32)
            l = T.alloc_fragment((64, 4), T.f32)  # noqa: E741
            if causal:
                limit = T.alloc_fragment((64,), T.index)

            def mask(k0, tag: str) -> None:
                """Scores of keys that a query does not see, or that are not there."""
                if not causal:
                    left = T.name(T.subtract(SK, k0), f"left{tag}")
                with T.parallel(s) as (i, j):
                    x = s[i, j]
                    if causal:
                        last = limit[i]
                    column = T.tile_index(1)
                    if not causal:
                        visible = column < left
                    elif d == 64:
                        # Compared with 0: the bounds as immediates cost registers.
                        end = T.name(T.subtract(last, k0), f"end{tag}")
                        over = T.name(T.subtract(column, end), f"over{tag}")
                        visible = over < c0
                    else:
                        end = T.name(T.subtract(last, k0), f"end{tag}")
                        visible = column < end
                    y = T.select(visible, x, none)
                    s[i, j] = y

            def softmax() -> None:
                """New maxima, what the old sums are multiplied by, powers and their sums."""
                T.reduce("max", s, m, accumulate=True)
                with T.parallel(m) as (i,):
                    new = m[i]
                    old = was[i]
                    # Where nothing was visible yet, the maximum is -inf.
                    dark = new == none
                    low = new * less
                    shift = T.select(dark, zero, low)
                    d = T.fma(old, scale, shift)
                    ratio = T.exp2(d, approximate=True)
                    base[i] = shift
                    alpha[i] = ratio
                    was[i] = new
                with T.parallel(s) as (i, j):
                    x = s[i, j]
                    shift = base[i]
                    y = T.fma(x, scale, shift)
                    e = T.exp2(y, approximate=True)
                    s[i, j] = e
                T.reduce("sum", s, part, by=lambda i, j: (i, j // 2 % 4))
                with T.parallel(l) as (i, j):
                    sum = l[i, j]
                    new = part[i, j]
                    ratio = alpha[i]
                    y = T.fma(sum, ratio, new)
                    l[i, j] = y

            def pack() -> None:
                with T.parallel(s) as (i, j):
                    x = s[i, j]
                    y = T.cast(x, T.f16)
                    p[i, j] = y

            def step(q0, i, first) -> None:
                """The scores of keys ``i`` and the values of the keys before."""
                it = i
                if not causal:
                    it = T.add(first, i)
                before = it - 1
                ks = it % 2
                vs = before % 2
                rk[it].wait()
                with T.turn(turn, w):
                    ts = T.gemm(q.slot(w), k.slot(ks), s, transpose_b=True, clear=True, token=True)
                    rv[before].wait()
                    to = T.gemm(p, v.slot(vs), o, token=True)
                T.await_(ts)
                rk[it].release()
                if causal:
                    at = T.apply(lambda i, n: (n - i - 1) * KEYS, i, symbols=[steps])
                    # Some query of the CTA does not see all of these keys: so it is in the first
                    # steps, and gpu-split-steps makes a loop of those.
                    slack = T.apply(
                        lambda q, k, sq, sk: q + sk - sq - k - (KEYS - 1), q0, at, symbols=[SQ, SK]
                    )
                    cut = slack < c0
                    with T.when(cut):
                        mask(at, "")
                softmax()
                T.await_(to)
                rv[before].release()
                with T.parallel(o) as (i, j):
                    x = o[i, j]
                    ratio = alpha[i]
                    y = x * ratio
                    o[i, j] = y
                pack()

            def attend(bh, q0, n) -> None:
                """What a consumer does for its queries of a tile, the ``n``-th of this CTA."""
                row = q0 + w * 64
                T.fill(o, zero)
                T.fill(l, zero)
                T.fill(m, none)
                T.fill(was, none)
                if causal:
                    # The first key that a query does not see.
                    reach = T.apply(lambda r, sq, sk: r + sk - sq + 1, row, symbols=[SQ, SK])
                    with T.parallel(m) as (i,):
                        x = m[i]
                        query = T.tile_index(0)
                        reached = T.add(query, reach)
                        last = T.min(reached, SK)
                        limit[i] = last
                with T.when(any) if causal else nullcontext():
                    first = c0
                    if not causal:
                        first = n * steps
                    slot0 = T.apply(lambda i: i % 2, first)
                    k0 = T.apply(lambda n: (n - 1) * KEYS, symbols=[steps])
                    rq[n].wait()
                    rk[first].wait()
                    t0 = T.gemm(
                        q.slot(w), k.slot(slot0), s, transpose_b=True, clear=True, token=True
                    )
                    T.await_(t0)
                    rk[first].release()
                    mask(k0, "0")
                    softmax()
                    pack()
                    with T.serial(c1, steps, c1) as i:
                        step(q0, i, first)
                    if causal:
                        end = T.apply(lambda n: n - 1, symbols=[steps])
                    else:
                        end = T.apply(lambda f, n: f + n - 1, first, symbols=[steps])
                    vs0 = end % 2
                    rq[n].release()
                    rv[end].wait()
                    t1 = T.gemm(p, v.slot(vs0), o, token=True)
                    T.await_(t1)
                    rv[end].release()
                T.reduce("sum", l, was)
                with T.parallel(was) as (i,):
                    sum = was[i]
                    positive = sum > zero
                    inverse = one / sum
                    y = T.select(positive, inverse, zero)
                    alpha[i] = y
                with T.parallel(o) as (i, j):
                    x = o[i, j]
                    inverse = alpha[i]
                    y = x * inverse
                    z = T.cast(y, T.f16)
                    O[bh, i + row, j] = z

            if causal:
                attend(bh, q0, c0)
            else:
                with T.tile_loop((BH, SQ), tile=(1, queries), raster="row", group=1) as (bh, q0, n):
                    attend(bh, q0, n)


attention_sm90_d64 = attention(64, causal=False)
attention_sm90_d64_causal = attention(64, causal=True)
attention_sm90_d128 = attention(128, causal=False)
attention_sm90_d128_causal = attention(128, causal=True)
