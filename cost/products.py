"""How long a product of matrices takes under a plan, as a formula of its sizes (S11.1).

    time = start + turns * ends + blocks beside each other + steps * what each takes + a split's

It is a polynomial of the sizes with floors, in ns: the compiler ranks a space of plans by it, and
the host finds the fastest of those that were built at a launch.  What all plans of a product have
alike, such as each tensor's bytes from memory, is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from polyc.dialects.common.dim import Dim

Size = TypeVar("Size", Dim, int)
"""A size that is open, or one that is known."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What one multiprocessor does; times in ns, rates in bytes a ns.

    ``cycle``     of wgmma, with all of the chip at work
    ``start``     of a kernel, and ``goes_on`` what one takes more whose blocks go on to other tiles
    ``fill``      until the first step of a block is there, and its last sums are out
    ``element``   of a tile, from sums to memory, 1024 of them
    ``again``     the fill of a block's next tile, and ``turn`` its elements, as ``element``
    ``beside``    what a block takes of those beside it, and ``elements`` 1024 of its sums
    ``draw``      bytes that a multiprocessor draws from L2, and ``line`` each row of a box of them
    ``latency``   of a stage's copies, from its being free until it is full
    ``combine``   until a cluster has brought its sums together, and ``combined`` 1024 of them
    ``second``    of a second kernel
    ``sums``      bytes that all of them store and add
    """

    cycle: float = 0.56
    start: float = 80
    goes_on: float = 530
    fill: float = 730
    element: float = 84
    again: float = 670
    turn: float = 15.5
    beside: float = 390
    elements: float = 18
    draw: float = 190
    line: float = 0.65
    latency: float = 930
    combine: float = 400
    combined: float = 83
    second: float = 1050
    sums: float = 1120


H200_RATES = Rates()

STEP = 64
"""Elements of k in a step."""

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
    """

    rows: int
    columns: int
    stages: int
    at_once: int = 1
    parts: int = 1
    summed: bool = False
    persistent: bool = False
    products: int = 1


def step_cycles(rows: int, columns: int) -> float:
    """Cycles of a step on one multiprocessor's tensor cores.

    A warpgroup's product of 64 rows takes half a cycle a column for each 16 of k, but no less than
    both operands take from shared memory, of which 128 bytes come in a cycle.
    """
    return rows / 64 * 4 * max(columns / 2, (64 + columns) / 4)


def ceildiv(size: Size, by: int) -> Size:
    """The number of parts of ``by`` that hold ``size``."""
    return size.ceildiv(by) if isinstance(size, Dim) else -(-size // by)


def floordiv(size: Size, by: int) -> Size:
    """How often ``by`` goes into ``size``."""
    return size.floordiv(by) if isinstance(size, Dim) else size // by


def box_rows(rows: int, columns: int) -> int:
    """The rows of the boxes that TMA copies in a step: of 128 bytes, or 64 where columns are no
    multiple of that.
    """
    return rows + columns * (1 if columns % 64 == 0 else 2)


def clusters(chip: int, parts: int) -> int:
    """The clusters of ``parts`` blocks that run at once on so many multiprocessors, one on each.

    GPCs are uneven.  On an H200 as many clusters of 4 or 8 as would fill it take longer than half
    as many blocks do in clusters half as large; those of 2 do not.
    """
    return chip if parts == 1 else chip // GPC * (GPC // parts) - (parts > 2)


def longest(*times: float) -> float:
    """What takes as long as the longest of these, and longer where others are near it."""
    return sum(time**4 for time in times) ** 0.25


def step_of(plan: Tiles, rates: Rates) -> tuple[float, float]:
    """What a step of a tile takes for each block that a multiprocessor has, and for each turn of
    as many blocks as it has room for.

    Blocks beside each other wait for their copies at once, and work one after another: the two
    times are such that one block alone, and as many as there is room for, take what the longest of
    these does.
    """
    columns = plan.columns * plan.products
    cycles = step_cycles(plan.rows, plan.columns) * plan.products * rates.cycle
    drawn = (plan.rows + columns) * STEP * 2 / rates.draw
    drawn += box_rows(plan.rows, plan.columns) * rates.line
    work, waits = longest(cycles, drawn), rates.latency / plan.stages
    one = longest(work, waits)
    if plan.at_once == 1:
        return one, 0
    more = (longest(work * plan.at_once, waits) - one) / (plan.at_once - 1)
    return more, one - more


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


@cache
def terms(plan: Tiles, chip: int, rates: Rates) -> Terms:
    """The factors of a plan's formula."""
    r, kilo = rates, plan.rows * plan.columns * plan.products / 1024
    in_cluster = plan.parts if plan.parts > 1 and not plan.summed else 1
    each, once = r.fill + kilo * r.element, r.start
    if plan.persistent:
        once += r.goes_on + each
        each = r.again + kilo * r.turn
        once -= each
    if in_cluster > 1:
        each += r.combine + kilo * r.combined
    if plan.summed:
        once += r.second
    beside = round(r.beside + kilo * r.elements) if plan.at_once > 1 else 0
    own, turn = step_of(plan, r)
    room = clusters(chip, in_cluster) * plan.at_once
    sums = round(r.sums) if plan.summed else 0
    return Terms(round(once), round(each) - beside, beside, round(own), round(turn), room, sums)


def nanoseconds(
    sizes: tuple[Size, Size, Size, Size], plan: Tiles, chip: int, rates: Rates = H200_RATES
) -> Size:
    """The time of a product of ``batch, m, n, k`` under a plan, on so many multiprocessors."""
    batch, m, n, k = sizes
    of = terms(plan, chip, rates)
    blocks = batch * ceildiv(m, plan.rows) * ceildiv(n, plan.columns)
    if plan.summed:
        blocks = blocks * plan.parts
    turns = ceildiv(blocks, of.blocks)
    busiest = ceildiv(blocks, chip) if plan.at_once > 1 else turns
    steps = ceildiv(k, STEP * plan.parts)
    time = turns * of.turn + busiest * of.block + of.once
    time = time + steps * (busiest * of.step_of_block + turns * of.step_of_turn)
    if plan.summed:
        time = time + ceildiv(batch * m * n * plan.parts * plan.products * 4, of.sums)
    return time
