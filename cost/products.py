"""How long a product of matrices, or a convolution, takes under a plan, by its sizes (S11.1).

    time = start + turns * ends + blocks beside each other + steps * what each takes + a split's

It is a polynomial of the sizes with floors, in ns: the compiler ranks a space of plans by it, and
the host finds the fastest of those that were built at a launch.  What all plans of a product have
alike, such as each tensor's bytes from memory, is not in it.

A convolution is a product of pixels and filters whose steps go over the channels of one tap after
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil, exp, prod
from typing import Any, TypeVar

from polyc.dialects.common.dim import Dim

Size = TypeVar("Size", Dim, int)
"""A size that is open, or one that is known."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What one multiprocessor does; times in ns, rates in bytes a ns.

    ``cycle``     of wgmma, with all of the chip at work, and ``halves`` how many it takes where the
                  operand of the columns has rows of half a swizzle
    ``start``     of a kernel, and ``goes_on`` what one takes more whose blocks go on to other tiles
    ``fill``      until the first step of a block is there, and its last sums are out
    ``element``   of a tile, from sums to memory, 1024 of them
    ``again``     the fill of a block's next tile, and ``turn`` its elements, as ``element``
    ``beside``    what a block takes of those beside it, and ``elements`` 1024 of its sums
    ``draw``      bytes that a multiprocessor draws from L2, and ``line`` each row of a box of them
    ``uneven``    how often ``line`` counts again where rows lie in two lines of the cache each, and
                  ``sectors`` where they begin inside of a sector of one, so that each of them is in
                  two parts
    ``narrow``    of 10^6 bytes of the operand of the columns, where a tile has 128 columns of those
                  that it is stored along; of 256 there is none, of 64 three times as much
    ``latency``   of a stage's copies, from its being free until it is full
    ``shared``    what is added to that where a cluster shares them, and ``meet`` to its start
    ``combine``   until a cluster has brought its sums together, and ``combined`` 1024 of them
    ``second``    of a second kernel
    ``sums``      bytes that all of them store and add
    ``panels``    rows of boxes of each row of columns that are no multiple of 64, and ``whole`` the
                  same of an operand that is stored along k, whose boxes have whole lines
    ``alone``     of a kernel whose blocks leave no room on a multiprocessor for the next kernel's,
                  which could begin there while they end
    ``issue``     of a warp's load of pixels, where threads of the producer load them
    ``take``      of an element of a step's rows, where threads take them to registers
    ``together``  bytes a ns that L2 gives all multiprocessors; 0 where it is not told from ``draw``
    ``twice``     how often rows that lie in two lines each count again there
    ``alike``     the part of what blocks draw of the columns that counts there, as those beside
                  each other, of a band of tiles, draw the same
    ``idle_draw`` the part of what a multiprocessor takes to draw that it is spared where all others
                  are idle, as L2 serves it alone; ``idle_cycle`` the same of a cycle, as power does
                  not slow the clock, and ``idle_fill`` of ``fill``
    """

    cycle: float = 0.611
    halves: float = 1
    start: float = 78
    goes_on: float = 341
    fill: float = 850
    element: float = 73
    again: float = 699
    turn: float = 18.4
    beside: float = 181
    elements: float = 117
    draw: float = 345
    line: float = 0.513
    uneven: float = 1.617
    sectors: float = 1.15
    narrow: float = 34.8
    latency: float = 805
    shared: float = 723
    meet: float = 676
    combine: float = 200
    combined: float = 221
    second: float = 1156
    sums: float = 1523
    panels: float = 2
    whole: float = 2
    alone: float = 0
    issue: float = 2.0
    take: float = 0.072
    together: float = 0
    twice: float = 0
    alike: float = 1
    idle_draw: float = 0
    idle_cycle: float = 0
    idle_fill: float = 0

    def idle(self, part: float) -> Rates:
        """The same where this part of the multiprocessors has no block."""
        drawn = 1 - self.idle_draw * part
        return replace(
            self,
            cycle=self.cycle * (1 - self.idle_cycle * part),
            draw=self.draw / drawn,
            line=self.line * drawn,
            fill=self.fill * (1 - self.idle_fill * part),
        )


H200_RATES = Rates()
"""Fitted to 4359 times of 286 products, 74 of them on an H100: the first choice of those that were
timed takes 2.8 % longer than the fastest (13 % at the 95th percentile); fitted to half of them, 2.9
and 3.5 % of the others.  What an earlier fit of an H200 alone had was 3.7 % (17 %)."""

SHARED_RATES = Rates(
    cycle=0.59,
    halves=1.14,
    start=82.5,
    goes_on=629,
    fill=1190,
    element=53.1,
    again=189,
    turn=37.1,
    beside=192,
    elements=27,
    line=0.575,
    uneven=0.855,
    latency=851,
    shared=1170,
    meet=721,
    combine=435,
    combined=176,
    second=1660,
    sums=1740,
    narrow=18.5,
    panels=2.58,
    whole=1,
    alone=109,
    together=10600,
    twice=0.817,
    alike=0.557,
)
"""The same of known sizes, with what L2 gives all multiprocessors, and memory: fitted to 4390 times
of 283 products, two thirds of them on an H100, and asked beside ``H200_RATES``, which count two
fifths."""

CONV_RATES = Rates(
    cycle=0.51,
    start=80,
    goes_on=570,
    fill=1270,
    element=78,
    again=336,
    turn=67,
    beside=7,
    elements=23.5,
    draw=107,
    line=0.564,
    uneven=0.2,
    sectors=2.3,
    latency=610,
    combine=210,
    combined=105,
    second=690,
    sums=2900,
    panels=1,
    whole=1,
    alone=290,
    idle_draw=0.6,
    idle_cycle=0.12,
    idle_fill=0.17,
)
"""The same of convolutions: filters lie along the channels, so that any number of them comes in
whole rows, and channels are often no multiple of a line's.  Fitted to 181 random convolutions on an
H100, 10 plans of each; fitted to half of these, the first choice of the others took 3.5 % longer
than the fastest plan."""


@dataclass(frozen=True, slots=True)
class Stored:
    """How a product's operands lie in memory.

    ``rows``     whether rows of the operand of the rows lie in two lines of the L2 cache each, as
                 their length is no multiple of one: 1, or 2 where it is none of a sector either
    ``columns``  the same of the operand of the columns
    ``along``    whether that is stored along its columns, so that tiles of few draw little of each
                 of its rows
    ``pixels``   of that operand which a thread of the producer loads at once; 0 where TMA brings
                 it
    ``waits``    what that thread waits for the loads which it has on their way at once, in ns
    ``late``     whether it waits but once a step, as cp.async has any number of them on their way
    ``passed``   pixels that a row of the image has for each of these
    ``held``     whether threads take the operand of the rows to registers
    """

    rows: int = 0
    columns: int = 0
    along: bool = True
    pixels: int = 0
    waits: int = 0
    late: bool = False
    passed: int = 1
    held: bool = False


AS_USUAL = Stored()
"""In whole lines, row by row."""

STEP = 64
"""Elements of k in a step, where a plan says nothing else."""

GPC = 16
"""Multiprocessors that each GPC of a chip of sm_90 is taken to have for clusters.  A cluster lies
in one GPC (CUDA C++ Programming Guide, "Thread Block Clusters"); what is left of that stays out of
them."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """What a plan does with a product.

    ``rows``, ``columns``  of a tile
    ``stages``             of the ring
    ``at_once``            blocks of a multiprocessor
    ``parts``              blocks that share a tile's steps
    ``summed``             whether their sums go through memory, and not through a cluster
    ``persistent``         whether a block goes on to other tiles
    ``products``           that share a tile's rows
    ``below``              blocks of a cluster whose tiles lie below each other, and which share
                           what they read of the columns
    ``beside``             the same of tiles that lie beside each other, and of the rows
    ``depth``              elements of k in a step
    """

    rows: int
    columns: int
    stages: int
    at_once: int = 1
    parts: int = 1
    summed: bool = False
    persistent: bool = False
    products: int = 1
    below: int = 1
    beside: int = 1
    depth: int = STEP

    @property
    def together(self) -> int:
        """Blocks of a cluster, of neighbouring tiles or of one."""
        parts = 1 if self.summed else self.parts
        return self.below * self.beside * parts


def step_cycles(rows: int, columns: int, depth: int = STEP) -> float:
    """Cycles of a step on one multiprocessor's tensor cores.

    A warpgroup's product of 64 rows takes half a cycle a column for each 16 of k, but no less than
    both operands take from shared memory, of which 128 bytes come in a cycle.
    """
    return rows / 64 * (depth / 16) * max(columns / 2, (64 + columns) / 4)


def ceildiv(size: Size, by: int) -> Size:
    """The number of parts of ``by`` that hold ``size``."""
    return size.ceildiv(by) if isinstance(size, Dim) else -(-size // by)


def floordiv(size: Size, by: int) -> Size:
    """The whole parts of ``by`` that ``size`` holds."""
    return size.floordiv(by) if isinstance(size, Dim) else size // by


def box_rows(rows: int, columns: int, panels: float = 2) -> float:
    """The rows of the boxes that TMA copies in a step: of 128 bytes, or ``panels`` times as many
    where columns are no multiple of 64.
    """
    return rows + columns * (1 if columns % 64 == 0 else panels)


def clusters(chip: int, parts: int) -> int:
    """The clusters of ``parts`` blocks that run at once on so many multiprocessors, one on each.

    GPCs are uneven.  On an H200 31 clusters of 4 take twice as long as 30, and 15 of 8 longer than
    14; 64 of 2 run at once.
    """
    return chip if parts == 1 else chip // GPC * (GPC // parts) - 2 * (parts > 2)


def longest(*times: float, power: float = 4) -> float:
    """What takes as long as the longest of these, and longer where others are near it, the more
    so the lower the ``power``."""
    return sum(time**power for time in times) ** (1 / power)


def step_of(plan: Tiles, rates: Rates, stored: Stored = AS_USUAL) -> tuple[float, float]:
    """What a step of a tile takes for each block that a multiprocessor has, and for each turn of
    as many blocks as it has room for.

    Blocks beside each other wait for their copies at once, and work one after another: the two
    times are such that one block alone, and as many as there is room for, take what the longest of
    these does.
    """
    columns = plan.columns * plan.products
    cycles = step_cycles(plan.rows, plan.columns, plan.depth) * plan.products * rates.cycle
    cycles *= rates.halves if plan.columns % 64 and stored.along else 1
    # What the blocks of a cluster share each of them draws a part of.
    rows, others = plan.rows / plan.beside, columns / plan.below
    panels = rates.panels if stored.along else rates.whole
    boxes = box_rows(0, plan.columns, panels) * plan.products / plan.below
    more = (0.0, rates.uneven, rates.sectors)
    boxes = 0 if stored.pixels else boxes
    lines = rows * (1 + more[stored.rows]) + boxes * (1 + more[stored.columns])
    drawn = (rows + others * stored.passed) * plan.depth * 2 / rates.draw + lines * rates.line
    latency = rates.latency + (rates.shared if plan.below * plan.beside > 1 else 0)
    issued, loaded = loads_of(plan, stored, rates)
    taken = rates.take * plan.rows * plan.depth if stored.held else 0.0
    work, waits = longest(cycles, drawn, issued, taken), latency / plan.stages
    one = longest(work, waits, issued + loaded)
    if plan.at_once == 1:
        return one, 0
    more = (longest(work * plan.at_once, waits, issued + loaded) - one) / (plan.at_once - 1)
    return more, one - more


def loads_of(plan: Tiles, stored: Stored, rates: Rates) -> tuple[float, float]:
    """What the loads of a step's pixels take to be issued, and until they are there, where threads
    of the producer load them: these wait for each batch of them."""
    if not stored.pixels:
        return 0.0, 0.0
    loads = plan.columns * plan.products * plan.depth / stored.pixels / PRODUCING
    words = ceil(loads * stored.pixels / max(LEAST_WORD, stored.pixels))
    batches = 1 if stored.late else ceildiv(words, words_in_flight(stored.pixels, stored.passed))
    return loads * WARPS * rates.issue, batches * stored.waits


def words_in_flight(pixels: int, passed: int) -> int:
    """How many words of shared memory a thread loads before it stores the first of them, each of so
    many ``pixels`` with those ``passed`` between: more hides more of memory's latency, and takes
    registers."""
    each = LEAST_WORD if pixels == 1 else max(1, pixels * passed // 2)
    return IN_FLIGHT // each


PRODUCING, WARPS, LEAST_WORD, IN_FLIGHT = 128, 4, 2, 32
"""Threads of a producer, its warps, the pixels of a word of shared memory, and the registers that
a thread has for what is on its way."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan takes in whole ns, once, and for each of what the sizes count: ``turns``, blocks
    of the ``busiest`` multiprocessor, and the steps of both.
    """

    once: int
    turn: int
    block: int
    step_of_block: int
    step_of_turn: int
    blocks: int
    """That the chip has room for."""
    sums: int
    """Bytes a ns of sums through memory; 0 where there are none."""
    narrow: int = 0
    """Of a step for 1024 columns of the whole product."""


@cache
def terms(plan: Tiles, chip: int, rates: Rates, stored: Stored = AS_USUAL) -> Terms:
    """The factors of a plan's formula."""
    r, kilo = rates, plan.rows * plan.columns * plan.products / 1024
    each, once = r.fill + kilo * r.element, r.start
    if plan.persistent:
        once += r.goes_on + each
        each = r.again + kilo * r.turn
        once -= each
    elif plan.at_once == 1:
        once += r.alone
    if plan.parts > 1 and not plan.summed:
        each += r.combine + kilo * r.combined
    if plan.summed:
        once += r.second
    if plan.below * plan.beside > 1:
        once += r.meet
    beside = round(r.beside + kilo * r.elements) if plan.at_once > 1 else 0
    own, turn = step_of(plan, r, stored)
    room = clusters(chip, plan.together) * plan.at_once
    if plan.parts == 1:
        room *= plan.together
    sums = round(r.sums) if plan.summed else 0
    drawn = STEP * 2 * plan.parts * plan.products * 1024 / 1e6 * (256 / plan.columns - 1)
    narrow = round(drawn * r.narrow) if stored.along else 0
    each = round(each) - beside
    return Terms(round(once), each, beside, round(own), round(turn), room, sums, narrow)


def of_output(
    output: tuple[Size, Size, Size], plan: Tiles, of: Terms, chip: int
) -> tuple[Size, Size]:
    """What a plan takes of ``batch, m, n`` whatever their depth, and what each step over that."""
    batch, m, n = output
    high, wide = plan.rows * plan.below, plan.columns * plan.beside
    blocks = batch * ceildiv(m, high) * ceildiv(n, wide) * (plan.below * plan.beside)
    if plan.summed:
        blocks = blocks * plan.parts
    turns = ceildiv(blocks, of.blocks)
    busiest = ceildiv(blocks, chip) if plan.at_once > 1 else turns
    once = turns * of.turn + busiest * of.block + of.once
    if plan.summed:
        once = once + ceildiv(batch * m * n * plan.parts * plan.products * 4, of.sums)
    step = busiest * of.step_of_block + turns * of.step_of_turn
    return once, step + floordiv(batch * n * of.narrow, 1024) if of.narrow else step


def steps_of(k: Size, plan: Tiles, taps: int = 1) -> Size:
    """The steps over ``k`` of one part of a tile, which has all of them ``taps`` times."""
    if taps == 1:
        return ceildiv(k, plan.depth * plan.parts)
    return ceildiv(ceildiv(k, plan.depth) * taps, plan.parts)


def nanoseconds(
    sizes: tuple[Size, Size, Size, Size],
    plan: Tiles,
    chip: int,
    rates: Rates = H200_RATES,
    stored: Stored = AS_USUAL,
    taps: int = 1,
) -> Size:
    """The time of a product of ``batch, m, n, k`` under a plan, on so many multiprocessors; of a
    convolution of ``k`` channels with so many ``taps``.
    """
    return time_of(sizes, plan, terms(plan, chip, rates, stored), chip, taps)


def time_of(
    sizes: tuple[Size, Size, Size, Size], plan: Tiles, of: Terms, chip: int, taps: int = 1
) -> Size:
    """The same by the factors of the plan's formula."""
    batch, m, n, k = sizes
    once, step = of_output((batch, m, n), plan, of, chip)
    return steps_of(k, plan, taps) * step + once


def goes_by_rows(m: int, n: int, plan: Tiles) -> bool:
    """Whether the tiles of a plan are taken row by row, so that blocks beside each other read the
    same rows: where a row of them is short, and less than half of a column.

    Of the longer operand each line comes from memory, and those that read it at once find it in L2
    together: 3264 by 320 by 14016 takes 84 us in bands of 16 rows, down each column, and 75 row by
    row, 4192 by 128 by 7376 by tiles of 128x64 31 and 26; 144 by 8776 by 6032, whose columns are
    the shorter, 59 and 77 (an H100).
    """
    across = -(-n // plan.columns)
    return across <= BAND and 2 * across < -(-m // plan.rows)


BAND = 16
"""Tiles of a row at most that are taken row by row, and rows of a band of others."""


def of_all(
    sizes: tuple[int, int, int, int],
    plan: Tiles,
    of: Terms,
    chip: int,
    rates: Rates,
    stored: Stored,
    memory: float,
) -> int:
    """The time of a product of known sizes, whose steps take what blocks of their own do, what L2
    gives all of them, or what memory does, in bytes a ns: the longest, and more where others are
    near it.

    Parts of a tile, and blocks of a cluster, are blocks.  Their sums go to memory beside operands
    that come from there.
    """
    batch, m, n, k = sizes
    once, step = of_output((batch, m, n), plan, of, chip)
    blocks = batch * -(-m // plan.rows) * -(-n // plan.columns) * plan.parts
    more = (0.0, 1.0, 1.0)
    rows = plan.rows / plan.beside * (1 + rates.twice * more[stored.rows])
    columns = plan.columns * plan.products / plan.below * (1 + rates.twice * more[stored.columns])
    steps = steps_of(k, plan)
    line = plan.depth * ELEMENT_BYTES
    drawn = blocks * steps * line * (rows + rates.alike * columns) / rates.together
    moved = batch * (m * k + plan.products * n * (m + k)) * ELEMENT_BYTES / memory
    if plan.summed:
        moved += batch * m * n * plan.parts * plan.products * 4 / memory
    return once + round(longest(float(steps * step), drawn, moved, power=3))


def busy(sizes: tuple[int, int, int, int], plan: Tiles, chip: int) -> float:
    """The part of the multiprocessors that has a block, in steps of a sixteenth."""
    batch, m, n, _ = sizes
    blocks = batch * -(-m // plan.rows) * -(-n // plan.columns) * plan.parts
    return min(BUSY, -(-blocks * BUSY // chip)) / BUSY


BUSY = 16
"""Steps in which the part of a chip that is busy counts."""


# Bytes of memory ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Image:
    """The image of a convolution of known sizes, which each tap reads again.

    ``size``     its bytes
    ``columns``  whether its pixels are the columns of a tile
    """

    size: int
    columns: bool = False


def missed(size: float, room: float) -> float:
    """The part of ``size`` bytes, read over and over, that a cache of ``room`` bytes has not kept.

    What is brought takes the place of anything that is there: of what was read so many misses ago
    the part ``exp(-missed * size / room)`` is left.
    """
    if size <= room:
        return 0.0
    found = 1.0
    for _ in range(MISSES):
        found = 1.0 - exp(-found * size / room)
    return found


MISSES = 32
"""Steps in which that is found."""

ELEMENT_BYTES = 2


def brought(
    sizes: tuple[int, int, int, int], plan: Tiles, of: Terms, taps: int, image: Image, room: float
) -> float:
    """Bytes that a convolution takes from memory and gives it, with an L2 cache of ``room`` bytes.

    Steps go over all channels of a tap and then of the next one.  The tiles of a turn have between
    a tap and the next one read that many pixels, and find those again that L2 has kept.  Parts of a
    tile go over fewer taps each, all at once.
    """
    batch, m, n, k = sizes
    pixels, step = (n, plan.columns) if image.columns else (m, plan.rows)
    high, wide = -(-m // plan.rows), -(-n // plan.columns)
    tiles, others = (wide, high) if image.columns else (high, wide)
    parts = plan.parts
    together = min(of.blocks * (1 if plan.summed else parts), batch * high * wide * parts)
    at_once = min(batch * tiles, -(-together // max(1, others * parts)))
    tap = batch * pixels * k * ELEMENT_BYTES
    once = min(image.size, taps * tap)
    again = max(0.0, max(1.0, taps / parts) * tap - once)
    kept = min(image.size, at_once * step * k * ELEMENT_BYTES)
    filters, output = taps * k * (m if image.columns else n), batch * m * n
    return once + again * missed(kept, room) + (filters + output) * ELEMENT_BYTES


def with_memory(
    time: int, sizes: tuple[int, int, int, int], plan: Tiles, moved: float, rates: Rates
) -> int:
    """The time of a plan whose first kernel moves so many ns of bytes beside its steps."""
    batch, m, n, _ = sizes
    second = 0.0
    if plan.summed:
        second = rates.second + batch * m * n * plan.parts * plan.products * 4 / rates.sums
    return round(longest(time - second, rates.start + moved) + second)


# All sizes of a grid -----------------------------------------------------------------------


def over_grid(
    axes: tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]],
    plan: Tiles,
    of: Terms,
    chip: int,
    taps: int = 1,
) -> list[int]:
    """The same of all sizes of a grid, those of k the innermost, by one evaluation for all."""
    *outputs, depths = (tuple(axis) for axis in axes)
    points = _points(tuple(outputs), tuple(steps_of(k, plan, taps) for k in depths))
    once, step = of_output(points[:3], plan, of, chip)
    return (once + step * points[3]).tolist()


@cache
def _points(axes: tuple[tuple[int, ...], ...], steps: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Three sizes and the steps at all points of a grid, a vector each, the steps the innermost.

    Python's integers where those of 64 bits may not do.
    """
    import numpy as np

    every = (*axes, steps)
    kind = np.int64 if prod(map(max, every)) < LARGE else object
    found = np.meshgrid(*(np.array(one, kind) for one in every), indexing="ij")
    batch, m, n, count = (one.ravel() for one in found)
    return batch, m, n, count


LARGE = 1 << 48
"""Sizes, multiplied, whose figures are below 2 ** 63 by far."""
