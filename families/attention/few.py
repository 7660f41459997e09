"""Few queries and many keys: which tiles have them, and how many CTAs share the keys (S8, S9).

A token that is decoded has one query a head, a draft or a chunk of a prompt some, and all keys of a
cache.  What takes time is to read these.  A tile is then as high as its queries need, with those of
all heads that share keys, so that keys are read once; and where such tiles are few, CTAs share the
keys of each (``split_k``), as many as keep a chip's memory busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan.attention import PATTERN, SHARED_KEYS
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.family import Fields

WARP_ROWS = 16
"""Rows of a warp, the least that mma.sync takes."""

MOST_ROWS = 128
"""Rows of one attention, queries times heads, from where on it has no few queries."""

TILE_ROWS = 64
"""Rows of a tile at most: each of its warps reads all keys from shared memory."""

BUSY = 4
"""CTAs of a multiprocessor that keep its part of the memory busy."""

STEP_BYTES = 32 * 1024
"""Keys and values of a step, at most."""

LADDER = (64, 16, 4)
"""Parts where the number of tiles is open: the first of which a chip has no more CTAs than
``MOST_BUSY`` for each multiprocessor."""

MOST_BUSY = 8

LEAST = 1024
"""Keys from where on this is worth it: fewer are read in the time that a kernel takes to begin."""

LESS = 8
"""By how much parts are fewer where keys are too few for each to have a step."""


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
    """The variants for few queries, those of most parts first; none where queries are many."""
    heads = heads_of(attention)
    rows = attention.size(attention.m) * heads
    known = rows.constant()
    wanted = heads if known is None else known
    if wanted > MOST_ROWS:
        return
    high = min(TILE_ROWS, -(-wanted // WARP_ROWS) * WARP_ROWS)
    facts = [] if known is not None else [Assumption(-rows + high, ">=")]
    features = sum(attention.tile_features)
    keys = max(16, min(64, STEP_BYTES // (2 * features) // 16 * 16))
    fields: Fields = {
        "mma": "mma.sync",
        "loader": "cp_async",
        "vectorize": 8,
        "stages": min(4, max(2, 2 * STEP_BYTES // (2 * features * keys))),
        "tile": [high, keys],
        "warp_tile": [WARP_ROWS],
        "algo_choice": {PATTERN: "streaming_softmax" if heads == 1 else SHARED_KEYS},
    }
    tiles = _tiles(attention, heads) * rows.ceildiv(high)
    for parts, more in _parts(tiles, attention.size(attention.n), keys, arch):
        if parts == heads == 1 and high == TILE_ROWS:
            return  # Such tiles are there for any number of queries.
        name = f"few_parts{parts}" if parts > 1 else "few"
        yield Few(name, {**fields, "split_k": parts}, (*facts, *more))


def _tiles(attention: StreamingAttention, heads: int) -> Dim:
    """How many attentions have keys of their own."""
    sizes = {label: attention.size(label) for label in attention.batch}
    if attention.shared is not None:
        sizes[attention.shared.axis] = sizes[attention.shared.axis].floordiv(heads)
    return prod(sizes.values(), start=Dim.const(1))


def _parts(
    tiles: Dim, length: Dim, keys: int, arch: str
) -> Iterator[tuple[int, tuple[Assumption, ...]]]:
    """How many parts the keys of a tile may have, and for which sizes."""
    chip = ARCHS[arch].multiprocessors
    count = tiles.constant()
    if count is None:
        choices = [*LADDER]
        busy = {parts: Assumption(-tiles * parts + MOST_BUSY * chip, ">=") for parts in LADDER}
    else:
        most = BUSY * chip // max(1, count)
        choices = [parts for parts in (most, most // LESS) if parts > 1]
        busy = {}
    steps = length.ceildiv(keys).constant()
    if steps is not None:
        # No part has more steps than with so many.
        choices = [min(parts, steps) for parts in choices]
        choices = [-(-steps // -(-steps // parts)) if parts else 0 for parts in choices]
    done: set[int] = set()
    for parts in choices:
        if parts < 2 or parts in done:
            continue
        done.add(parts)
        facts = [busy[parts]] if parts in busy else []
        yield parts, (*facts, Assumption(length - max(parts * keys, LEAST), ">="))
    yield 1, (Assumption(length - LEAST, ">="),)
