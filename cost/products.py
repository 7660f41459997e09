"""How long a product of matrices takes under a plan, as a formula of its sizes (S11.1).

    time = start + turns * ends + steps of the busiest multiprocessor * a step + what a split adds

It is a polynomial of the sizes with floors, in ns: the compiler ranks a space of plans by it, and
the host finds the fastest of those that were built at a launch.  What all plans of a product have
alike, such as each tensor's bytes from memory, is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from polyc.dialects.common.dim import Dim

Size = TypeVar("Size", Dim, int)
"""A size that is open, or one that is known."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What one multiprocessor does; times in ns, rates in bytes a ns.

    ``cycle``     of wgmma, with all of the chip at work
    ``start``     from the kernel before to the first tile
    ``fill``      until the first step of a block is there, and its last sums are out
    ``element``   of a tile, from sums to memory, 1024 of them
    ``again``     the fill of a block's next tile, and ``turn`` its elements, as ``element``
    ``draw``      bytes that a multiprocessor draws from L2
    ``latency``   of a stage's copies, from its being free until it is full
    ``combine``   until a cluster has brought its sums together, and ``combined`` 1024 of them
    ``second``    of a second kernel
    ``sums``      bytes that all of them store and add
    """

    cycle: float = 0.74
    start: float = 1000
    fill: float = 1400
    element: float = 16
    again: float = 1000
    turn: float = 18
    draw: float = 90
    latency: float = 900
    combine: float = 600
    combined: float = 40
    second: float = 700
    sums: float = 1600


H200_RATES = Rates()

STEP = 64
"""Elements of k in a step."""


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


def nanoseconds(
    sizes: tuple[Size, Size, Size, Size], plan: Tiles, chip: int, rates: Rates = H200_RATES
) -> Size:
    """The time of a product of ``batch, m, n, k`` under a plan, on so many multiprocessors."""
    batch, m, n, k = sizes
    columns, r = plan.columns * plan.products, rates
    kilo = plan.rows * columns / 1024
    blocks = batch * ceildiv(m, plan.rows) * ceildiv(n, plan.columns) * plan.parts
    turns = ceildiv(blocks, chip * plan.at_once)
    busiest = ceildiv(blocks, chip) if plan.at_once > 1 else turns
    stage = (plan.rows + columns) * STEP * 2
    step = max(
        step_cycles(plan.rows, plan.columns) * plan.products * r.cycle,
        stage / r.draw,
        r.latency / (plan.stages * plan.at_once),
    )
    first = r.start
    if plan.persistent:
        each = r.again + kilo * r.turn
        first += r.fill + kilo * (r.element - r.turn) - r.again
    else:
        each = r.fill + kilo * r.element
    if plan.parts > 1 and not plan.summed:
        each += r.combine + kilo * r.combined
    time = turns * round(each) + busiest * ceildiv(k, STEP * plan.parts) * round(step)
    if plan.parts > 1 and plan.summed:
        time = time + ceildiv(batch * m * n * plan.parts * plan.products * 4, round(r.sums))
        first += r.second
    return time + round(first)
