"""Few queries and many keys: which tiles have them, and how many CTAs share the keys (S8, S9).

A token that is decoded has one query a head, a draft or a chunk of a prompt some, and all keys of a
cache.  What takes time is to read these.  A tile is then as high as its queries need, with those of
all heads that share keys, so that keys are read once; and where such tiles are few, CTAs share the
keys of each (``split_k``), as many as keep a chip's memory busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import inf, log, prod

from xdsl.dialects.builtin import f32
from xdsl.ir.affine import AffineConstantExpr

from polyc.affine.expressions import canonical_expr
from polyc.cost.walks import RATES, Rates, Walk, nanoseconds, reading, waiting
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan.attention import PATTERN, SHARED_KEYS
from polyc.dialects.plan.resources import RESERVED, SUM_BYTES
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

PARTS = (1, 2, 4, 8, 16, 32, 64)
"""CTAs that may share the keys of a tile, where sizes are known."""

OPEN_PARTS = PARTS[::2]
"""The same where they are open: between two of these there is little to win."""

TILES, LENGTHS = tuple(1 << i for i in range(11)), (1024, 2048, 4096, 8192, 16384, 65536)
"""Tiles, and keys of each, at which numbers of parts are compared where they are open."""

MOST, LOW, TALL = 4, 2, 1
"""Kernels for open sizes, and those of low and of high tiles where the number of queries is open
too."""

WORTH = 0.0002
"""The mean square of the share of the time lost, up to which there is no kernel more."""

LEAST = 1024
"""Keys from where on this is worth it: fewer are read in the time that a kernel takes to begin."""


@dataclass(frozen=True)
class Few:
    """A variant for few queries, and when it may run."""

    name: str
    fields: Fields
    when: tuple[Assumption, ...]
    tiles: Dim
    """How many there are."""
    walk: Walk
    """What its CTAs do."""


def heads_of(attention: StreamingAttention) -> int:
    """Heads that read the same keys."""
    return 1 if attention.shared is None else attention.shared.heads


def few_queries(attention: StreamingAttention, arch: str) -> Iterator[Few]:
    """The variants for few queries, low tiles and many parts first; none where queries are many.

    An open number of queries has tiles for those of one position, and higher ones for more.
    """
    if attention.element == f32:
        return
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
    keys = attention.step(keys)
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
    kernels = MOST if most is None else TALL if high == TILE_ROWS else LOW
    walk = Walk(keys, 2 * keys * (depth + width), 1, high * (width + 2) * SUM_BYTES, once)
    for parts, more in _parts(attention, arch, tiles, walk, kernels):
        if parts == heads == 1 and high == TILE_ROWS:
            return  # Such tiles are there for any number of queries.
        own = f"{name}_parts{parts}" if parts > 1 else name
        found = {**fields, "split_k": parts}
        yield Few(own, found, (*facts, *more), tiles, replace(walk, parts=parts))


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
    attention: StreamingAttention, arch: str, tiles: Dim, walk: Walk, most: int
) -> list[tuple[int, tuple[Assumption, ...]]]:
    """How many parts the keys of a tile may have, most first, and for which sizes.

    Of known sizes that is the fastest by the model of time.  Of open ones ``most`` share the sizes:
    those that lose the least over a grid, by squares.  Each runs where the one behind it is slower:
    that one's CTAs then wait for their steps, longer than its own do and than memory takes with
    more parts.
    """
    length = attention.size(attention.n)
    count, known, seen = tiles.constant(), length.constant(), _seen(attention)
    most_keys = min((n for n in (known, seen) if n is not None), default=None)
    found = dict.fromkeys(_numbers(walk, count, most_keys))
    plans = [replace(walk, parts=parts) for parts in found]
    walked = list(LENGTHS) if most_keys is None else [most_keys]
    points = list(product(TILES if count is None else [count], walked))
    plans = _cover(plans, points, most if count is None or known is None else 1, RATES[arch])
    keys = length if seen is None else Dim.const(seen)
    offered: list[tuple[int, tuple[Assumption, ...]]] = []
    for plan, behind in pairwise([*plans, None]):
        assert plan is not None
        facts = [Assumption(length - max(plan.parts * walk.keys, LEAST), ">=")]
        if behind is not None:
            other = waiting(tiles, keys, behind, RATES[arch])
            mine = (way(tiles, keys, plan, RATES[arch]) for way in (waiting, reading))
            facts = [*(Assumption(other - time, ">=") for time in mine), *facts]
        offered.append((plan.parts, tuple(facts)))
    return offered


def _numbers(walk: Walk, count: int | None, most_keys: int | None) -> Iterator[int]:
    """Numbers of parts: powers of two, and of a known number of tiles what fills a chip once.

    No part of so many keys has less than two steps.
    """
    found = {*(OPEN_PARTS if count is None else PARTS)}
    if count is not None:
        found.add(max(1, min(walk.once // max(1, count), MOST_PARTS)))
    for parts in sorted(found, reverse=True):
        if most_keys is None:
            yield parts
            continue
        steps = -(-most_keys // walk.keys)
        parts = min(parts, max(1, steps // 2))
        yield -(-steps // -(-steps // parts))


def _cover(
    plans: Sequence[Walk], points: Sequence[tuple[int, int]], most: int, rates: Rates
) -> list[Walk]:
    """Those of the plans that lose the least over all points, most parts first."""
    times = {
        plan: [
            log(nanoseconds(tiles, keys, plan, rates)) if leaves(plan, keys) else inf
            for tiles, keys in points
        ]
        for plan in plans
    }
    least = [min(of_point) for of_point in zip(*times.values(), strict=True)]

    def loss(best: Sequence[float]) -> float:
        return sum((mine - one) ** 2 for mine, one in zip(best, least, strict=True))

    found: list[Walk] = []
    best = [inf] * len(points)
    while len(found) < min(most, len(plans)) and loss(best) > WORTH * len(points):
        new = min(times, key=lambda plan: loss(list(map(min, times[plan], best))))
        found.append(new)
        best = list(map(min, times[new], best))
    return sorted(found, key=lambda plan: -plan.parts)


def leaves(plan: Walk, keys: int) -> bool:
    """Whether each part of so many keys has two steps, or there is one."""
    return plan.parts == 1 or keys >= 2 * plan.parts * plan.keys
