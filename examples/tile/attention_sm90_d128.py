"""O = softmax(Q · Kᵀ / sqrt(d)) · V on SM90: the twins of attention_sm90_d{64,128}[_causal].mlir
and attention_sm90_d128_causal_persistent.mlir.

One function makes them all: a plain loop over keys.  gpu-warp-specialize gives the copies to a
producer, gpu-skew lets the products of neighbouring steps overlap, gpu-turns lets one warpgroup
compute while another one's products run, gpu-partial-lanes keeps the sums in each thread, and
gpu-split-steps takes the mask out of the steps that it does not cut.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

from math import e, log2, sqrt

import polyc.tile as T

BH, SQ, SK = T.sizes("BH", "SQ", "SK")

KEYS = 128
"""Keys of a step."""


def attention(d: int, causal: bool, persistent: bool) -> T.Program:
    """The program for heads of ``d``; ``persistent`` says whether a CTA has several tiles."""
    groups = 2 if d == 128 else 3
    queries = 64 * groups
    heads = 4 if d == 128 else 8
    title = f"attention_sm90_d{d}" + ("_causal" if causal else "")
    title += "_persistent" if causal and persistent else ""
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
            persistent=persistent,
            registers=(40, 232) if groups == 2 else (32, 160),
            when="BH >= 1, SQ >= 1, SK >= 1",
        ):
            body(Q, K, V, O, d, causal, persistent, groups, heads)

    return program


def body(Q, K, V, O, d: int, causal: bool, persistent: bool, consumers: int, heads: int) -> None:  # noqa: E741
    queries = 64 * consumers
    c0 = T.const(0)

    def visible_keys(bh, q0):
        """How many keys the tile's last query sees; none where there is no such head."""
        seen = T.apply(lambda q, sq, sk: q + queries + sk - sq, q0, symbols=[SQ, SK])
        some = T.min(seen, SK)
        there = bh < BH
        keys = T.select(there, some, c0)
        return keys

    if causal and not persistent:
        # Heads go by groups, in a group tiles from the last queries to the first, heads fastest.
        tiles = (SQ + (queries - 1)) // queries
        of_group = tiles * heads
        block = T.block_id()
        group = T.divide(block, of_group)
        rest = T.remainder(block, of_group)
        bh = group * heads + rest % heads
        q0 = T.apply(lambda r, t: (t - r // heads - 1) * queries, rest, symbols=[tiles])
        keys = visible_keys(bh, q0)
        any = keys > c0
    elif not causal:
        keys = SK
        any = keys > c0
    zero = T.const(0.0, T.f32)
    none = T.const(-T.inf, T.f32)
    one = T.const(1.0, T.f32)
    scale = T.const(log2(e) / sqrt(d), T.f32)
    less = T.const(-log2(e) / sqrt(d), T.f32)
    width = T.const(KEYS)
    q = T.alloc_shared((queries, d), T.f16)
    k = T.alloc_shared((KEYS, d), T.f16)
    v = T.alloc_shared((KEYS, d), T.f16)
    s = T.alloc_fragment((queries, KEYS), T.f32)
    p = T.alloc_fragment((queries, KEYS), T.f16)
    o = T.alloc_fragment((queries, d), T.f32)
    m = T.alloc_fragment((queries,), T.f32)
    was = T.alloc_fragment((queries,), T.f32)
    base = T.alloc_fragment((queries,), T.f32)
    alpha = T.alloc_fragment((queries,), T.f32)
    part = T.alloc_fragment((queries,), T.f32)
    l = T.alloc_fragment((queries,), T.f32)  # noqa: E741

    def step(bh, q0, number, k0) -> None:
        """The scores of 128 keys, their softmax so far and the weighted values."""
        T.copy(K[bh, k0, c0], k, loader="tma")
        T.copy(V[bh, k0, c0], v, loader="tma")
        T.gemm(q, k, s, transpose_b=True, clear=True)
        # Keys that some query of the tile does not see, or that are none.
        left = T.name(T.subtract(SK, k0), "left")
        short = left < width
        cut = short
        if causal:
            slack = T.apply(
                lambda q, k, sq, sk: q + sk - sq - k - (KEYS - 1), q0, k0, symbols=[SQ, SK]
            )
            hidden = slack < c0
            cut = short | hidden
        with T.when(cut):
            with T.parallel(s) as (i, j):
                x = s[i, j]
                column = T.tile_index(1)
                exists = column < left
                visible = exists
                if causal:
                    row = T.tile_index(0)
                    reach = T.apply(
                        lambda r, c, q, k, sq, sk: r + q + sk - sq - c - k,
                        row, column, symbols=[q0, k0, SQ, SK],
                    )  # fmt: skip
                    sees = reach >= c0
                    visible = exists & sees
                y = T.select(visible, x, none)
                s[i, j] = y
        T.reduce("max", s, m, accumulate=True)
        with T.parallel(m) as (i,):
            new = m[i]
            old = was[i]
            # Where nothing was visible yet, the maximum is -inf.
            dark = new == none
            low = new * less
            shift = T.select(dark, zero, low)
            difference = T.fma(old, scale, shift)
            ratio = T.exp2(difference, approximate=True)
            base[i] = shift
            alpha[i] = ratio
            was[i] = new
        with T.parallel(s) as (i, j):
            x = s[i, j]
            shift = base[i]
            y = T.fma(x, scale, shift)
            weight = T.exp2(y, approximate=True)
            s[i, j] = weight
        T.reduce("sum", s, part)
        with T.parallel(l) as (i,):
            sum = l[i]
            new = part[i]
            ratio = alpha[i]
            y = T.fma(sum, ratio, new)
            l[i] = y
        # The first step has nothing to scale.
        later = number > c0
        with T.when(later):
            with T.parallel(o) as (i, j):
                x = o[i, j]
                ratio = alpha[i]
                y = x * ratio
                o[i, j] = y
        with T.parallel(s) as (i, j):
            x = s[i, j]
            y = T.cast(x, T.f16)
            p[i, j] = y
        T.gemm(p, v, o)

    def attend(bh, q0, keys, any) -> None:
        """A tile of queries, from the last keys that it sees to the first."""
        T.fill(o, zero)
        T.fill(l, zero)
        T.fill(m, none)
        T.fill(was, none)
        with T.when(any):
            T.copy(Q[bh, q0, c0], q, loader="tma")
            steps = T.name((keys + (KEYS - 1)) // KEYS, "steps")
            with T.pipelined(keys, step=KEYS, stages=2) as (position, i):
                k0 = T.apply(lambda i, n: (n - i - 1) * KEYS, i, symbols=[steps])
                step(bh, q0, i, k0)
        with T.parallel(l) as (i,):
            sum = l[i]
            positive = sum > zero
            inverse = one / sum
            y = T.select(positive, inverse, zero)
            alpha[i] = y
        with T.parallel(o) as (i, j):
            x = o[i, j]
            inverse = alpha[i]
            y = x * inverse
            z = T.cast(y, T.f16)
            O[bh, i + q0, j] = z

    if not persistent:
        attend(bh, q0, keys, any)
    elif not causal:
        with T.tile_loop((BH, SQ), tile=(1, queries), raster="row", group=1) as (bh, q0, n):
            attend(bh, q0, keys, any)
    else:
        c4 = T.const(heads)
        groups = (BH + (heads - 1)) // heads
        # Heads go by groups, in a group tiles from the last queries to the first, heads fastest.
        tiles = T.tile_loop(
            (groups, SQ, c4), tile=(1, queries, 1), raster="row", group=1, reversed=True
        )
        with tiles as (group, q0, head, n):
            bh = group * heads + head
            keys = visible_keys(bh, q0)
            any = keys > c0
            attend(bh, q0, keys, any)


attention_sm90_d64 = attention(64, causal=False, persistent=True)
attention_sm90_d64_causal = attention(64, causal=True, persistent=False)
attention_sm90_d128 = attention(128, causal=False, persistent=True)
attention_sm90_d128_causal = attention(128, causal=True, persistent=False)
attention_sm90_d128_causal_persistent = attention(128, causal=True, persistent=True)
