"""O = softmax(Q · Kᵀ / sqrt(d)) · V on SM80: the twins of attention_sm80_d{64,128}[_causal].mlir.

One function makes the four, for two sizes of heads and with and without the causal mask.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import math
from contextlib import nullcontext

import polyc.tile as T

BH, SQ, SK = T.sizes("BH", "SQ", "SK")


def attention(head: int, causal: bool, rows: int, keys: int) -> T.Program:
    """The program for heads of ``head``: tiles of ``rows`` queries, ``keys`` keys a step."""
    title = f"attention_sm80_d{head}" + ("_causal" if causal else "")

    @T.program(arch="sm_80", name=title)
    def program(
        Q: T.Tensor[BH, SQ, head, T.f16],
        K: T.Tensor[BH, SK, head, T.f16],
        V: T.Tensor[BH, SK, head, T.f16],
        O: T.Out[BH, SQ, head, T.f16],  # noqa: E741
    ) -> None:
        with T.kernel(
            f"{title}_cp_async",
            threads=128,
            grid=[BH, T.ceildiv(SQ, rows)],
            when="BH >= 1, SQ >= 1, SK >= 1",
        ):
            body(Q, K, V, O, head, causal, rows, keys)

    return program


def body(Q, K, V, O, head: int, causal: bool, rows: int, keys: int) -> None:  # noqa: E741
    warp_rows = rows // 4
    c0 = T.const(0)
    width = T.const(keys)
    zero = T.const(0.0, T.f32)
    one = T.const(1.0, T.f32)
    none = T.const(-T.inf, T.f32)
    scale = T.const(math.log2(math.e) / math.sqrt(head), T.f32)
    less = T.const(-math.log2(math.e) / math.sqrt(head), T.f32)
    block = T.block_id()
    tiles = (SQ + (rows - 1)) // rows
    bh = T.divide(block, tiles)
    place = T.remainder(block, tiles)
    tile, ends = place, SK
    if causal:
        # The last tiles of queries first; they see keys up to `ends`.
        tile = T.apply(lambda i, n: n - i - 1, place, symbols=[tiles])
    q0 = tile * rows
    if causal:
        shift = T.subtract(SK, SQ)
        after = T.apply(lambda q, s: q + s + rows, q0, symbols=[shift])
        some = T.max(after, c0)
        ends = T.min(some, SK)
    q = T.alloc_shared((rows, head), T.f16)
    k = T.alloc_shared((keys, head), T.f16)
    v = T.alloc_shared((keys, head), T.f16)
    s = T.alloc_fragment((rows, keys), T.f32)
    p = T.alloc_fragment((rows, keys), T.f16)
    o = T.alloc_fragment((rows, head), T.f32)
    m = T.alloc_fragment((rows,), T.f32)
    was = T.alloc_fragment((rows,), T.f32)
    base = T.alloc_fragment((rows,), T.f32)
    alpha = T.alloc_fragment((rows,), T.f32)
    part = T.alloc_fragment((rows,), T.f32)
    l = T.alloc_fragment((rows,), T.f32)  # noqa: E741
    T.fill(o, zero)
    T.fill(l, zero)
    T.fill(m, none)
    T.fill(was, none)
    # The copy belongs to the first group that the pipeline waits for.
    if causal:
        any = ends > c0
    with T.when(any) if causal else nullcontext():
        T.copy(Q[bh, q0, c0], q, loader="cp_async")
    with T.pipelined(ends, step=keys, stages=2) as (k0, i):
        T.copy(K[bh, k0, c0], k, loader="cp_async")
        T.copy(V[bh, k0, c0], v, loader="cp_async")
        T.gemm(q, k, s, transpose_b=True, clear=True, warp_tile=(warp_rows, keys))
        # Keys that some query of the tile does not see, or that are none.
        if causal:
            seen = T.apply(lambda q, k, s: q + s - k + 1, q0, k0, symbols=[shift])
        left = T.subtract(SK, k0)
        least = left
        if causal:
            least = T.min(seen, left)
        cut = least < width
        with T.when(cut):
            with T.parallel(s) as (i, j):
                x = s[i, j]
                if causal:
                    r = T.tile_index(0)
                column = T.tile_index(1)
                bound = left
                if causal:
                    more = T.add(seen, r)
                    bound = T.min(more, left)
                visible = column < bound
                y = T.select(visible, x, none)
                s[i, j] = y
        T.reduce("max", s, m, accumulate=True)
        with T.parallel(m) as (i,):
            new = m[i]
            old = was[i]
            # Where nothing was visible yet, the maximum is -inf.
            dark = new == none
            low = new * less
            down = T.select(dark, zero, low)
            d = T.fma(old, scale, down)
            ratio = T.exp2(d, approximate=True)
            base[i] = down
            alpha[i] = ratio
            was[i] = new
        with T.parallel(s) as (i, j):
            x = s[i, j]
            down = base[i]
            y = T.fma(x, scale, down)
            e = T.exp2(y, approximate=True)
            s[i, j] = e
        T.reduce("sum", s, part)
        with T.parallel(l) as (i,):
            sum = l[i]
            new = part[i]
            ratio = alpha[i]
            y = T.fma(sum, ratio, new)
            l[i] = y
        with T.parallel(s) as (i, j):
            x = s[i, j]
            y = T.cast(x, T.f16)
            p[i, j] = y
        with T.parallel(o) as (i, j):
            x = o[i, j]
            ratio = alpha[i]
            y = x * ratio
            o[i, j] = y
        T.gemm(p, v, o, warp_tile=(warp_rows, head))
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


attention_sm80_d64 = attention(64, False, rows=128, keys=128)
attention_sm80_d64_causal = attention(64, True, rows=128, keys=128)
attention_sm80_d128 = attention(128, False, rows=128, keys=32)
attention_sm80_d128_causal = attention(128, True, rows=64, keys=64)
