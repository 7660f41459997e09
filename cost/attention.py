"""How long an attention takes under a plan of wgmma, as a formula of its sizes (S11.1).

    time = start + (tiles * ends + steps * what each takes) / CTAs at once + what the last one adds

As that of products (``cost/products.py``) it is a polynomial of the sizes with floors, in ns: the
compiler ranks plans by it, and the host finds the fastest of those that were built at a launch.
What all plans of an attention have alike, such as the bytes of its tensors, is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Generic, cast

from polyc.cost.products import Size, ceildiv, floordiv, longest


@dataclass(frozen=True)
class Sight(Generic[Size]):
    """The sizes of an attention, and which keys its queries see.

    ``end`` and ``first`` are bounds that go by a query's position, if there are any: of so many
    queries from one on the first key that they see, and the one behind the last.
    """

    heads: Size
    """Attentions, points of a batch."""
    queries: Size
    keys: Size
    depth: int
    """Features of a query's and a key's tile."""
    width: int
    """The same of a value's."""
    end: Callable[[int, Size], Size] | None = None
    first: Callable[[int, Size], Size] | None = None
    apart: bool = True
    """Whether each head has keys of its own."""

    @property
    def everywhere(self) -> bool:
        """Whether all queries see all keys."""
        return self.end is None and self.first is None

    def seen(self, rows: int, query: Size) -> Size:
        """Keys that a tile of so many queries sees; where sizes are open, the difference of the
        bounds by position, as no polynomial is the least of two."""
        end = self.keys if self.end is None else self.end(rows, query)
        first = query * 0 if self.first is None else self.first(rows, query)
        if isinstance(self.keys, int):
            known, start = cast("int", end), cast("int", first)
            return cast("Size", max(0, min(known, self.keys) - max(0, start)))
        return end - first


@dataclass(frozen=True, slots=True)
class Tiles:
    """What a plan does with an attention.

    ``rows``, ``keys``  of a tile and of a step
    ``consumers``       warpgroups that share a tile's rows
    ``at_once``         CTAs of a multiprocessor
    ``persistent``      whether a CTA goes on to other tiles: of different keys in pairs,
                        one with many and one with few
    """

    rows: int
    keys: int
    consumers: int
    at_once: int = 1
    persistent: bool = False


@dataclass(frozen=True, slots=True)
class Rates:
    """What one multiprocessor does; times in ns, rates in bytes a ns.

    ``cycle``    of wgmma, with all of the chip at work
    ``weight``   of 1024 scores: exponents, and what goes with them
    ``each``     what threads do in a step beside that
    ``step``     of a warpgroup at least, and ``key`` for each of its keys: products, a softmax and
                 products, which wait for each other
    ``draw``     bytes of K and V that come from L2 in the time by which they delay a step
    ``start``    of a kernel
    ``end``      of a tile beyond its steps, which the other warpgroups share, and ``element`` 1024
                 of its output
    ``begin``    what a CTA of one tile takes more, and ``pair`` one that has pairs of tiles
    ``beside``   how many times as long such a CTA takes that is not alone on its multiprocessor
    ``last``     the share of a longest tile by which CTAs end apart
    ``memory``   bytes that memory brings and takes, for all of the chip, and ``bound`` the share of
                 the time for these below which a plan is bound by nothing else
    """

    cycle: float = 0.744
    weight: float = 40.8
    each: float = 88
    step: float = 170
    key: float = 7.73
    draw: float = 815
    start: float = 1500
    end: float = 39
    element: float = 117
    begin: float = 858
    pair: float = 743
    beside: float = 1.08
    last: float = 0.09
    memory: float = 2950
    bound: float = 0.91


RATES = Rates()
"""Fitted to what ``bench/attention_regret.py`` timed on an H100."""

COLUMNS = 32
"""Columns of keys and features that a cycle of wgmma takes for 64 rows of both products."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan takes in whole ns: once, for each tile and step of a CTA; the CTAs at once."""

    once: int
    tile: int
    step: int
    ctas: int


@cache
def terms(
    plan: Tiles, features: tuple[int, int], chip: int, rates: Rates, pairs: bool = False
) -> Terms:
    """The factors of a plan's formula for heads of so many features of K and of V, where its CTAs
    take tiles or ``pairs`` of them."""
    r, (depth, width) = rates, features
    groups = plan.consumers * plan.at_once
    tensor = plan.keys * (depth + width) / COLUMNS * r.cycle
    weigh = plan.keys / 16 * r.weight + r.each
    chain = (r.step + r.key * plan.keys) / groups
    drawn = plan.keys * (depth + width) * 2 / plan.consumers / r.draw
    step = longest(tensor, weigh, chain) + drawn
    end = r.end / groups + 64 * width / 1024 * r.element
    if not plan.persistent:
        end += r.begin / groups
    if pairs and plan.persistent and plan.at_once > 1:
        end, step = end * r.beside, step * r.beside
    return Terms(round(r.start), round(groups * end), round(groups * step), chip * plan.at_once)


def _terms(sight: Sight[Size], plan: Tiles, chip: int, rates: Rates) -> Terms:
    """The same for an attention."""
    return terms(plan, (sight.depth, sight.width), chip, rates, not sight.everywhere)


def steps_of(sight: Sight[Size], plan: Tiles) -> tuple[Size, Size, Size]:
    """Tiles of a head, the steps of all of them, and those of the one that sees most.

    Of bounds that go by position the first tile and the last say what all see, as what lies between
    does.  Where tiles do not end with steps, half a step more is counted for each.
    """
    tiles = ceildiv(sight.queries, plan.rows)
    if sight.everywhere:
        each = ceildiv(sight.keys, plan.keys)
        return tiles, tiles * each, each
    low = sight.seen(plan.rows, tiles * 0)
    high = sight.seen(plan.rows, (tiles - 1) * plan.rows)
    more = 0 if plan.rows % plan.keys == 0 else plan.keys
    steps = floordiv(tiles * (low + high + more), 2 * plan.keys)
    return tiles, steps, ceildiv(high, plan.keys)


def both_of(sight: Sight[Size], plan: Tiles) -> Size:
    """The steps of a pair of tiles, the one that sees most and the one that sees least.

    A head of one tile is counted as a pair.
    """
    last = (ceildiv(sight.queries, plan.rows) - 1) * plan.rows
    more = 0 if plan.rows % plan.keys == 0 else plan.keys
    seen = sight.seen(plan.rows, last * 0) + sight.seen(plan.rows, last)
    return ceildiv(seen + more // 2, plan.keys)


def steps_each(sight: Sight[int], rows: int, keys: int) -> list[int]:
    """The steps of each tile of known sizes.

    Keys before the first that a tile sees come along where that is inside of a step.
    """
    tiles = -(-sight.queries // rows)
    ends = _at_tiles(sight.end, rows, tiles, sight.keys)
    firsts = _at_tiles(sight.first, rows, tiles, 0)
    found: list[int] = []
    for end, first in zip(ends, firsts, strict=True):
        begin = max(0, first)
        seen = min(end, sight.keys) - begin
        found.append(-(-(seen + begin % keys) // keys) if seen > 0 else 0)
    return found


def _at_tiles(
    bound: Callable[[int, int], int] | None, rows: int, tiles: int, default: int
) -> Sequence[int]:
    """A bound at all tiles: nearly always a line through that of the first two."""
    if bound is None or not tiles:
        return [default] * tiles
    first, second, last = (bound(rows, rows * tile) for tile in (0, 1, tiles - 1))
    if first + (tiles - 1) * (second - first) == last:
        return [first + tile * (second - first) for tile in range(tiles)]
    return [bound(rows, rows * tile) for tile in range(tiles)]


def nanoseconds(sight: Sight[Size], plan: Tiles, chip: int, rates: Rates = RATES) -> Size:
    """The time of an attention under a plan, on so many multiprocessors.

    A multiprocessor with fewer CTAs than it has room for runs each faster, and no kernel takes less
    than its longest tile.  Of known sizes also what no polynomial says: the steps of each tile.
    """
    if isinstance(sight.heads, int):
        return cast("Size", _known(cast("Sight[int]", sight), plan, chip, rates))
    few = _few(sight, replace(plan, at_once=1), chip, rates)
    many = _many(sight, plan, chip, rates)
    return few + holds(_blocks(sight, plan) - (chip + 1)) * (many - few)


MOST = 1 << 40
"""More than there are CTAs, and than any kernel takes ns."""


def holds(excess: Size) -> Size:
    """1 where a number is 0 or more, and 0 where it is less; as a polynomial with a floor."""
    return floordiv(excess + MOST, MOST)


def _blocks(sight: Sight[Size], plan: Tiles) -> Size:
    """The CTAs' worth of tiles of a plan: pairs of them where it takes these."""
    tiles = ceildiv(sight.queries, plan.rows)
    pairs = plan.persistent and not sight.everywhere
    return sight.heads * (ceildiv(tiles, 2) if pairs else tiles)


def _few(sight: Sight[Size], plan: Tiles, chip: int, rates: Rates) -> Size:
    """The time where each CTA has one tile, or one pair, at once: that of the longest."""
    _, _, most = steps_of(sight, plan)
    of = _terms(sight, plan, chip, rates)
    if plan.persistent and not sight.everywhere:
        return both_of(sight, plan) * of.step + (2 * of.tile + of.once + round(rates.pair))
    return most * of.step + (of.tile + of.once)


def _many(sight: Sight[Size], plan: Tiles, chip: int, rates: Rates) -> Size:
    """The time where there are more of them than run at once."""
    tiles, steps, most = steps_of(sight, plan)
    of = _terms(sight, plan, chip, rates)
    if sight.everywhere:
        turns = ceildiv(_blocks(sight, plan), of.ctas)
        return turns * of.tile + turns * most * of.step + of.once
    if plan.persistent:
        turns = ceildiv(_blocks(sight, plan), of.ctas)
        more = of.once + round(rates.pair)
        return turns * 2 * of.tile + turns * both_of(sight, plan) * of.step + more
    shared = floordiv(sight.heads * tiles * of.tile + sight.heads * steps * of.step, of.ctas)
    return shared + most * round(of.step * rates.last) + round(of.tile * rates.last) + of.once


def _known(sight: Sight[int], plan: Tiles, chip: int, rates: Rates) -> int:
    """The time of an attention of known sizes."""
    each = steps_each(sight, plan.rows, plan.keys)
    tiles, most = len(each), max(each, default=0)
    paired = plan.persistent and not sight.everywhere
    blocks = sight.heads * (-(-tiles // 2) if paired else tiles)
    if blocks < chip * plan.at_once:
        plan = replace(plan, at_once=max(1, -(-blocks // chip)))
    of = _terms(sight, plan, chip, rates)
    turns = -(-blocks // of.ctas)
    if sight.everywhere:
        return turns * (of.tile + most * of.step) + of.once
    if paired:
        half = tiles // 2
        both = [each[i] + each[-1 - i] for i in range(half)] + each[half : tiles - half]
        steps = (turns - 1) * sum(both) // max(1, len(both)) + max(both, default=0)
        return turns * min(2, tiles) * of.tile + steps * of.step + of.once + round(rates.pair)
    shared = (blocks * of.tile + sight.heads * sum(each) * of.step) // of.ctas
    last = most * round(of.step * rates.last) + round(of.tile * rates.last)
    return max(shared + last, most * of.step + of.tile) + of.once


def at_memory(sight: Sight[Size], rates: Rates = RATES) -> Size:
    """The time of a plan below which memory is all that an attention waits for.

    Such plans take nearly the same; what they differ by is how even they ask for their bytes.
    """
    rows = sight.queries + sight.keys if sight.apart else sight.queries
    moved = sight.heads * rows * ((sight.depth + sight.width) * 2)
    return floordiv(moved, round(rates.memory / rates.bound))


def evenness(plan: Tiles) -> tuple[int, int]:
    """How evenly a plan asks memory for its bytes, the least first.

    Where CTAs of one tile share a multiprocessor, one begins when another ends, as many as there
    are.  One that goes on to other tiles loads the next one's ahead; small steps are there soonest.
    Several of those come to their ends together, and one CTA of one tile has nothing beside it.
    """
    if not plan.persistent:
        return (0, -plan.at_once) if plan.at_once > 1 else (3, plan.keys)
    return (1, plan.keys) if plan.at_once == 1 else (2, -plan.at_once)


@dataclass(frozen=True)
class Counts:
    """What all CTAs of a kernel do, in the words of the simulator's counters."""

    tiles: int
    steps: int
    tma_bytes: int
    wgmma: int


def counted(sight: Sight[int], plan: Tiles) -> Counts:
    """The counts of known sizes, tile by tile.

    A CTA brings its queries once, each step its keys and values, and a warpgroup multiplies 16
    features or 16 keys at a time.
    """
    each = steps_each(sight, plan.rows, plan.keys)
    tiles, steps, some = len(each), sum(each), sum(own > 0 for own in each)
    features = sight.depth + sight.width
    brought = some * plan.rows * sight.depth + steps * plan.keys * features
    products = steps * plan.consumers * (sight.depth + plan.keys) // 16
    return Counts(*(sight.heads * n for n in (tiles, steps, 2 * brought, products)))
