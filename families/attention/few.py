"""Few queries and many keys: which tiles have them, and how many CTAs share the keys (S8, S9).

A token that is decoded has one query a head, a draft or a chunk of a prompt some, and all keys of a
cache.  What takes time is to read these.  A tile is then as high as its queries need, with those of
all heads that share keys, so that keys are read once; and where such tiles are few, CTAs share the
keys of each (``split_k``), as many as keep a chip's memory busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.ir.affine import AffineConstantExpr

from polyc.affine.expressions import canonical_expr
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan.attention import PATTERN, SHARED_KEYS
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.family import Fields
from polyc.families.structure import MOST_PARTS

WARP_ROWS = 16
"""Rows of a warp, the least that mma.sync takes."""

MOST_ROWS = 128
"""Rows of one attention, queries times heads, from where on it has no few queries."""

TILE_ROWS = 64
"""Rows of a tile at most: each of its warps reads all keys from shared memory."""

ALONE = 64
"""Features of a head, from where on a warp alone has no registers for the look at its sums and
what follows: where keys are hidden a second one, of no queries, has half of the copies."""

STEP_KEYS = 32
"""Keys of a step, fewer of wide heads and more of narrow ones: as a warp takes about as long for
32 keys as for 64, and more warps have more copies on their way."""

STAGES = 3

LADDER = {64: 1, 32: 2, 8: None}
"""Parts where the number of tiles is open, and how many waves of CTAs they make at most."""

LOW, TALL = {32: 2, 8: None}, {16: None}
"""The same of low and of high tiles where the number of queries is open too: fewer kernels."""

FULL = 4
"""CTAs of one wave that have a tile, from where on they are about as many as a chip has at once;
of more tiles there are parts for several waves."""

RESERVED = 1024
"""Bytes of shared memory that each CTA takes beside its own."""

LEAST = 1024
"""Keys from where on this is worth it: fewer are read in the time that a kernel takes to begin."""


Ladder = Mapping[int, int | None]


@dataclass(frozen=True)
class Few:
    """A variant for few queries, and when it may run."""

    name: str
    fields: Fields
    when: tuple[Assumption, ...]


def heads_of(attention: StreamingAttention) -> int:
    """Heads that read the same keys."""
    return 1 if attention.shared is None else attention.shared.heads


def few_queries(attention: StreamingAttention, arch: str) -> Iterator[Few]:
    """The variants for few queries, low tiles and many parts first; none where queries are many.

    An open number of queries has tiles for those of one position, and higher ones for more.
    """
    heads = heads_of(attention)
    known = (attention.size(attention.m) * heads).constant()
    wanted = heads if known is None else known
    if wanted > MOST_ROWS:
        return
    least = 2 if attention.hides and max(attention.tile_features) > ALONE else 1
    low = min(TILE_ROWS, max(least, -(-wanted // WARP_ROWS)) * WARP_ROWS)
    if known is not None:
        yield from _of_height(attention, arch, low, "few", None)
        return
    if low >= heads:
        yield from _of_height(attention, arch, low, "few", low)
    if low < TILE_ROWS or low < heads:
        yield from _of_height(attention, arch, TILE_ROWS, f"few{TILE_ROWS}", MOST_ROWS)


def _of_height(
    attention: StreamingAttention, arch: str, high: int, name: str, most: int | None
) -> Iterator[Few]:
    """Those with tiles of so many rows, for at most so many rows where their number is open."""
    heads = heads_of(attention)
    rows = attention.size(attention.m) * heads
    facts = [] if most is None else [Assumption(-rows + most, ">=")]
    depth, width = attention.tile_features
    keys = STEP_KEYS if max(depth, width) <= 128 else STEP_KEYS // 2
    keys *= 2 if depth + width <= 64 else 1
    ring = 2 * (high * depth + STAGES * keys * (depth + width))
    chip = ARCHS[arch]
    once = chip.multiprocessors * max(1, (chip.shared_bytes + RESERVED) // (ring + RESERVED))
    fields: Fields = {
        "mma": "mma.sync",
        "loader": "cp_async",
        "vectorize": 8,
        "stages": STAGES,
        "tile": [high, keys],
        "warp_tile": [WARP_ROWS],
        "algo_choice": {PATTERN: "streaming_softmax" if heads == 1 else SHARED_KEYS},
    }
    tiles = _tiles(attention, heads) * rows.ceildiv(high)
    ladder = LADDER if most is None else TALL if high == TILE_ROWS else LOW
    for parts, more in _parts(attention, tiles, keys, once, ladder):
        if parts == heads == 1 and high == TILE_ROWS:
            return  # Such tiles are there for any number of queries.
        own = f"{name}_parts{parts}" if parts > 1 else name
        yield Few(own, {**fields, "split_k": parts}, (*facts, *more))


def _tiles(attention: StreamingAttention, heads: int) -> Dim:
    """How many attentions have keys of their own."""
    sizes = {label: attention.size(label) for label in attention.batch}
    if attention.shared is not None:
        sizes[attention.shared.axis] = sizes[attention.shared.axis].floordiv(heads)
    return prod(sizes.values(), start=Dim.const(1))


def _seen(attention: StreamingAttention) -> int | None:
    """Keys that a query sees at most by a window; None where that follows from no numbers."""
    visible = attention.score.visible
    ends = [*visible.end_keys(1)]
    length = attention.size(attention.n).as_affine(attention.kernel.symbol_names)
    if length is not None:
        ends.append(length)
    spans = (canonical_expr(end - first) for end in ends for first in visible.first_keys(1))
    known = [max(0, one.value) for one in spans if isinstance(one, AffineConstantExpr)]
    return min(known, default=None)


def _parts(
    attention: StreamingAttention, tiles: Dim, keys: int, once: int, ladder: Ladder
) -> Iterator[tuple[int, tuple[Assumption, ...]]]:
    """How many parts the keys of a tile may have, and for which sizes; ``once`` are the CTAs that
    a chip has at once, and ``ladder`` are the parts where the number of tiles is open."""
    length = attention.size(attention.n)
    count, known, seen = tiles.constant(), length.constant(), _seen(attention)
    most_keys = min((n for n in (known, seen) if n is not None), default=None)
    waves: dict[int, tuple[Assumption, ...]] = {}
    if count is None:
        for parts, most in ladder.items():
            waves[parts] = () if most is None else (Assumption(-tiles * parts + most * once, ">="),)
    else:
        wave = min(once // max(1, count), MOST_PARTS)
        wave = wave if wave >= FULL else [*LADDER][-1]
        waves = dict.fromkeys((wave, min(wave, LEAST // keys)), ())
        if known is not None:
            # Which is the fastest the model of time says.
            waves = dict.fromkeys([*(1 << i for i in reversed(range(wave.bit_length()))), wave], ())
    found: dict[int, tuple[Assumption, ...]] = {}
    for parts, facts in waves.items():
        if most_keys is not None:
            # No part has more steps than with so many; of a window two, for any number of tiles.
            steps = -(-most_keys // keys)
            parts = min(parts, steps // 2 or 1) if count is None else parts
            parts = -(-steps // max(1, -(-steps // parts)))
        if parts > 0:
            found[parts] = facts  # Of the same number the later ones ask for less.
    for parts, facts in found.items():
        yield parts, (*facts, Assumption(length - max(parts * keys, LEAST), ">="))
