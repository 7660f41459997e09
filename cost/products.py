"""How long a product of matrices takes under a plan, as a formula of its sizes (S11.1).

    time = start + max(tiles of the busiest multiprocessor, bytes of memory, bytes of L2, power)

Each part is a polynomial of the sizes with floors, so that the host can find the fastest of a few
plans at a launch as the compiler does of many.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyc.dialects.common.dim import Dim


@dataclass(frozen=True)
class Rates:
    """What a multiprocessor and its chip do; times in ps, rates in bytes a ns.

    ``cycle``      of wgmma, in ps
    ``start``      from the kernel before to the first tile
    ``fill``       until the first step of a block's ring is there, and its sums are out
    ``element``    of a tile, from sums to memory
    ``turn``       the same of a block that goes on to other tiles
    ``draw``       bytes that a multiprocessor draws from L2 in a ns
    ``latency``    of a step's copies
    ``memory``     bytes of memory in a ns
    ``cache``      bytes that all draw from L2 in a ns
    ``power``      multiply-adds of all tensor cores in a ns, for long
    ``combine``    until a cluster has brought its sums together, and ``combined`` a byte of it
    ``second``     of a second kernel, and ``sums`` bytes of sums in a ns
    """

    cycle: float = 570.0
    start: float = 2.2e6
    fill: float = 1.2e6
    element: float = 20.0
    turn: float = 10.0
    again: float = 0.3e6
    draw: float = 80.0
    latency: float = 1.0e6
    memory: float = 4200.0
    cache: float = 8000.0
    power: float = 340e3
    combine: float = 1.5e6
    combined: float = 8.0
    second: float = 2.0e6
    sums: float = 1400.0


H200_RATES = Rates()


@dataclass(frozen=True)
class Shape:
    """Sizes of a product: matrices, rows, columns and depth."""

    batch: Dim
    m: Dim
    n: Dim
    k: Dim


def step_cycles(rows: int, columns: int) -> float:
    """Cycles of a step of 64 on one multiprocessor's tensor cores.

    Those read both operands from shared memory, 128 bytes a cycle.
    """
    return rows / 64 * 4 * max(columns / 2, (64 + columns) / 4)


def terms(
    shape: Shape,
    rows: int,
    columns: int,
    stages: int,
    at_once: int,
    parts: int,
    summed: bool,
    persistent: bool,
    chip: int,
    rates: Rates = H200_RATES,
) -> list[Dim]:
    """The parts of which the greatest is the time, in ps."""

    def whole(value: float) -> int:
        return round(value)

    r = rates
    tiles = shape.batch * shape.m.ceildiv(rows) * shape.n.ceildiv(columns)
    blocks = tiles * parts
    steps = shape.k.ceildiv(64 * parts)
    busiest = blocks.ceildiv(chip)
    turns = blocks.ceildiv(chip * at_once)
    stage = (rows + columns) * 128
    mma = step_cycles(rows, columns) * r.cycle
    fixed = whole(r.start)
    if persistent:
        ends = turns * whole(r.again + rows * columns * r.turn) + whole(r.fill)
    else:
        ends = turns * whole(r.fill + rows * columns * r.element)
    base = ends + fixed
    if parts > 1 and summed:
        base = base + whole(r.second) + shape.batch * shape.m * shape.n * whole(
            parts * 4 / r.sums * 1000
        )
    elif parts > 1:
        base = base + whole(r.combine + rows * columns * r.combined)
    flow = max(mma, stage / r.draw * 1000)
    wait = max(mma, r.latency / stages)
    memory = (
        shape.m * shape.k + shape.n * shape.k + shape.m * shape.n
    ) * shape.batch * whole(2 / r.memory * 1000)
    return [
        base + busiest * steps * whole(flow),
        base + turns * steps * whole(wait),
        memory + fixed + whole(r.fill),
        base + blocks * steps * whole(stage / r.cache * 1000),
        base + blocks * steps * whole(rows * columns * 64 / r.power * 1000),
    ]
