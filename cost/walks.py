"""How long CTAs take that share the keys of few queries, as formulas of sizes (S11.1).

    time = start + the longer of (rounds * (begin + steps * what each waits for), bytes / memory)
         + a second kernel and the sums that it adds, where keys are parted

What takes time is to read keys and values.  Each of the two is a polynomial with floors, in ns: the
compiler chooses numbers of parts by them, and the host among those that were built at a launch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polyc.cost.products import Size, ceildiv, floordiv


@dataclass(frozen=True, slots=True)
class Walk:
    """What a plan's CTAs do.

    ``keys``   of a step, and ``bytes`` that it brings
    ``parts``  CTAs that share the keys of a tile
    ``sums``   bytes that each of them leaves where there are several
    ``once``   CTAs that a chip has at once
    """

    keys: int
    bytes: int
    parts: int
    sums: int
    once: int


@dataclass(frozen=True, slots=True)
class Rates:
    """Times in ns, rates in bytes a ns.

    ``start``   of a kernel
    ``begin``   until a CTA has its first keys, and its last sums are out
    ``step``    that a CTA waits for at least, and ``share`` bytes of it in a ns beside that
    ``memory``  bytes of all CTAs
    ``second``  of a second kernel
    ``summed``  bytes that all CTAs leave for it, and it adds
    """

    start: float = 1780
    begin: float = 40
    step: float = 246
    share: float = 28.5
    memory: float = 4375
    second: float = 1140
    summed: float = 3350


H200_RATES = Rates()

RATES = {"sm_90a": H200_RATES, "sm_80": replace(H200_RATES, memory=1600)}
"""Of the chip that each architecture is modelled by; that of sm_80 but for its memory assumed."""


def waiting(tiles: Size, keys: Size, walk: Walk, rates: Rates = H200_RATES) -> Size:
    """The time where CTAs wait for their steps, of so many tiles, each over so many keys."""
    steps = ceildiv(keys, walk.parts * walk.keys)
    each = steps * round(rates.step + walk.bytes / rates.share) + round(rates.begin)
    return ceildiv(tiles * walk.parts, walk.once) * each + _sums(tiles, walk, rates)


def reading(tiles: Size, keys: Size, walk: Walk, rates: Rates = H200_RATES) -> Size:
    """The time where memory gives what all CTAs together ask for."""
    read = floordiv(tiles * keys * (walk.bytes // walk.keys), round(rates.memory))
    return read + _sums(tiles, walk, rates)


def nanoseconds(tiles: int, keys: int, walk: Walk, rates: Rates = H200_RATES) -> int:
    """The time of known sizes."""
    both = (waiting(tiles, keys, walk, rates), reading(tiles, keys, walk, rates))
    return max(both)


def _sums(tiles: Size, walk: Walk, rates: Rates) -> Size:
    """What does not run beside either: the start, and what follows where keys are parted."""
    if walk.parts == 1:
        return tiles * 0 + round(rates.start)
    more = floordiv(tiles * (walk.parts * walk.sums), round(rates.summed))
    return more + round(rates.start + rates.second)
