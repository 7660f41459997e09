"""How long a reduction takes whose points the threads of a tile part, by its plan (S11.1).

    time = start + turns of blocks, each so many steps and an end + a second kernel's

A block walks over the points of its results step by step: each of its threads has some loads on
their way, converts and adds what came, and goes on.  A step therefore takes the longest of what one
warp needs for it by itself, from its loads' latency to its last instruction, of the instructions
that the warps of all blocks of a multiprocessor issue, and of the bytes that these draw.  Where the
blocks of several tiles share the points, what they have goes through memory or a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects.builtin import BFloat16Type, Float16Type

from polyc.cost.device import Device
from polyc.cost.values import Values, operations, read_labels, size_in_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp, ReduceOp
from polyc.dialects.region.types import MemRefType, val_type

SECTOR = 32
"""Bytes of a cache line that are brought at once."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """What is reduced; sizes in points.

    ``outer``    results that no tile has two of
    ``kept``     results along the axis of a tile that has several
    ``beside``   whether these lie along its columns, so that its rows part what is reduced; else
                 its columns do
    ``inner``    reduced points along the axis that threads part
    ``second``   those along the tile's rows, where these keep no results and its columns part
    ``others``   those of further axes, a step each
    ``sizes``    bytes of an element of each tensor that is read at every point
    ``line``     bytes of which the length of a row of memory is a multiple
    ``work``     instructions of a point, beside its loads
    ``sums``     reductions, each with a result of its own
    """

    outer: int
    kept: int
    beside: bool
    inner: int
    second: int = 1
    others: int = 1
    sizes: tuple[int, ...] = (2,)
    line: int = 2
    work: float = 2.0
    sums: int = 1


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile of ``rows`` and ``columns`` of ``threads`` that read by vectors of ``vector``; of its
    points ``parts`` blocks have each some, which meet in memory (``stored``) or are a cluster."""

    rows: int
    columns: int
    threads: int
    vector: int
    parts: int = 1
    stored: bool = True

    @property
    def loads(self) -> int:
        """Vectors of each thread."""
        return max(1, self.rows * self.columns // (self.threads * self.vector))


@dataclass(frozen=True, slots=True)
class ReductionRates:
    """What a multiprocessor does with it, in ns and bytes a ns.

    ``cycle``      of its clock
    ``apart``      cycles between two instructions of a warp that depend on each other
    ``latency``    from a load to what it brings, where memory is not asked for much
    ``draw``       bytes that a multiprocessor draws at most
    ``start``      of a kernel beyond its work
    ``begin``      of a block, from the end of the one before it to its first load
    ``end``        of a block: its threads meet and bring together what they have
    ``end_each``   of that, a partial sum that a thread takes
    ``load``       instructions of a load: its place, whether it is inside, and itself
    ``loop``       those of a step beside
    ``behind``     from the end of the first kernel to a load of the second
    ``clustered``  until the blocks of a cluster have met
    """

    cycle: float = 0.6
    apart: float = 4.0
    latency: float = 550.0
    draw: float = 60.0
    start: float = 2000.0
    begin: float = 400.0
    end: float = 300.0
    end_each: float = 20.0
    load: float = 8.0
    loop: float = 8.0
    behind: float = 1200.0
    clustered: float = 900.0


RATES = ReductionRates()

REGISTERS, BASE_REGISTERS = 65536, 24
MOST_THREADS, MOST_BLOCKS = 2048, 32
ISSUED = 4
"""Instructions of warps that a multiprocessor issues in a cycle."""

ADDING = 256
"""Threads of a block of the second kernel, and ``ADDED`` parts that each has on its way."""
ADDED = 8
WIDE, HIGH = 32, 8
"""Results of a tile of the second kernel, along its columns and along its rows."""


# What is reduced ---------------------------------------------------------------------------


def reduction_of(values: Values, column: str | None) -> Reduction | None:
    """The reductions of a region whose points threads may part, where results lie along ``column``
    or, if there is none, along its last axis; None where they are others.

    All have a result for each point of the outputs, over the same points, and none needs another's.
    """
    kinds = [val_type(value) for value in values.kernel.yield_op.values]
    labels = kinds[0].labels
    needed = [op for op in values.behind(values.outputs) if isinstance(op, ReduceOp)]
    if not needed or any(set(kind.labels) != set(labels) for kind in kinds):
        return None
    order = [a for a in reversed(val_type(needed[0].operand).labels) if a in needed[0].labels]
    for reduce in needed:
        behind = values.behind([reduce.operand])
        if set(val_type(reduce.result).labels) != set(labels) or set(reduce.labels) != set(order):
            return None
        if any(isinstance(op, ReduceOp) for op in behind):
            return None
        if reduce.fn.data == "sum" and isinstance(reduce.accumulator, Float16Type | BFloat16Type):
            return None
    made = list(values.behind([reduce.operand for reduce in needed]))
    reads = [op for op in made if isinstance(op, ReadOp) and set(order) & set(read_labels(op))]
    kept = column if column is not None else labels[-1] if labels else None
    extents = [values.extents[label] for label in (*order, *labels)]
    if not reads or 0 in extents:
        return None
    parts = column is None and kept is None and len(order) > 1
    inner, *others = (values.extents[label] for label in order)
    return Reduction(
        prod(values.extents[label] for label in labels if label != kept),
        1 if kept is None else values.extents[kept],
        column is not None,
        inner,
        others[0] if parts else 1,
        prod(others[1:] if parts else others),
        tuple(size_in_bytes(read.result.type.element_type) for read in reads),
        gcd(*(_row_bytes(values, read) for read in reads)),
        len(needed) + sum(operations(op) for op in made if not isinstance(op, ReduceOp)),
        len(needed),
    )


def _row_bytes(values: Values, read: ReadOp) -> int:
    """The bytes of a row of what is read; 0 where that is all of it."""
    kind = read.tensor.type
    assert isinstance(kind, MemRefType)
    if len(kind.shape) < 2:
        return 0
    return kind.shape[-1].evaluate(values.sizes) * size_in_bytes(kind.element_type)


def planned(values: Values, plan: ScheduleOp) -> tuple[Reduction, SharedTile] | None:
    """What a plan of loops reduces, and how; None where its threads part nothing."""
    column = plan.vectorize_axis.data.partition(".")[0] or None
    labels = val_type(values.kernel.yield_op.values[0]).labels
    column = column if column in labels else None
    bound = plan.bind.data
    if plan.slides_windows or plan.cached:
        return None
    if column is not None and any(f"{label}.o" in bound for label in labels if label != column):
        return None
    if any(label not in bound and f"{label}.o" not in bound for label in labels):
        return None
    problem = reduction_of(values, column)
    if problem is None:
        return None
    rows, columns, _ = plan.tile_sizes
    parts, vector = plan.integer("split_k"), plan.integer("vectorize")
    return problem, SharedTile(rows, columns, plan.threads(), vector, parts, plan.stores_sums)


# How long it takes -------------------------------------------------------------------------


def longest(*times: float) -> float:
    """What takes as long as the longest of these, and longer where others are near it."""
    return sum(time**4 for time in times) ** 0.25


def registers(problem: Reduction, plan: SharedTile) -> int:
    """Registers of a thread: a sum for each element that it has, and what is on its way."""
    elements = plan.loads * plan.vector
    raw = sum(-(-plan.vector * size // 4) for size in problem.sizes) * plan.loads
    return min(255, BASE_REGISTERS + elements * problem.sums + raw)


def at_once(problem: Reduction, plan: SharedTile) -> int:
    """Blocks that a multiprocessor has room for."""
    by_registers = REGISTERS // (plan.threads * registers(problem, plan))
    return max(1, min(MOST_BLOCKS, MOST_THREADS // plan.threads, by_registers))


def steps_of(problem: Reduction, plan: SharedTile) -> int:
    """The steps of a block, those of the one that has most."""
    if problem.beside:
        rows = -(-problem.inner // plan.rows)
        return -(-rows * problem.second * problem.others // plan.parts)
    second = problem.second
    if problem.kept * problem.outer == 1 or plan.rows == 1 or problem.kept == 1:
        second = -(-second // plan.rows) if problem.kept == 1 else second
    columns = -(-problem.inner // plan.columns)
    return -(-columns * second * problem.others // plan.parts)


def tiles_of(problem: Reduction, plan: SharedTile) -> int:
    """The tiles of the results."""
    step = plan.columns if problem.beside else plan.rows
    return problem.outer * -(-problem.kept // (step if problem.kept > 1 else 1))


def nanoseconds(
    problem: Reduction, plan: SharedTile, device: Device, rates: ReductionRates = RATES
) -> float:
    """The time of a reduction under a plan."""
    r, chip = rates, device.multiprocessors
    tiles, steps = tiles_of(problem, plan), steps_of(problem, plan)
    blocks, room = tiles * plan.parts, at_once(problem, plan)
    warps = plan.threads / 32
    # Instructions of a warp in a step.
    elements = plan.loads * plan.vector
    own = plan.loads * r.load * len(problem.sizes) + elements * problem.work + r.loop
    # Bytes of a step that are there, and those of sectors that it has a part of.
    row = min(plan.columns, problem.kept if problem.beside else problem.inner)
    high = plan.rows
    if not problem.beside:
        high = min(plan.rows, problem.second if problem.kept == 1 else problem.kept)
    else:
        high = min(plan.rows, problem.inner)
    drawn = asked = 0.0
    for size in problem.sizes:
        asked += high * row * size
        over = SECTOR - gcd(SECTOR, problem.line) if problem.line % SECTOR else 0
        drawn += high * (-(-row * size // SECTOR) * SECTOR + over)
    total = problem.outer * problem.kept * problem.inner * problem.second * problem.others
    exact = sum(problem.sizes) * total / (blocks * steps)
    asked = min(asked, exact * 1.0) if steps else asked
    alone = r.latency + own * r.apart * r.cycle
    busy = min(chip, blocks)
    memory = device.memory / 1e9 / busy
    time, left = 0.0, blocks
    while left > 0:
        now = min(left, chip * room)
        turns = left // (chip * room) or 1
        each = now / min(now, chip)
        most = -(-now // chip)
        one = longest(
            alone,
            most * warps * own / ISSUED * r.cycle,
            most * drawn / r.draw,
            each * asked / memory,
        )
        partials = plan.threads * plan.vector / max(1, plan.columns) if problem.beside else 5
        end = r.begin + r.end + r.end_each * min(partials, 64) * plan.vector / 4
        time += turns * (steps * one + end)
        left -= turns * chip * room
    time += r.start
    if plan.parts > 1 and not plan.stored:
        time += r.clustered
    if plan.parts > 1 and plan.stored:
        results = problem.outer * problem.kept
        kept = WIDE if problem.beside else HIGH
        beside = min(kept, 1 << max(0, problem.kept - 1).bit_length())
        deep = max(1, ADDING * ADDED // beside)
        passes = -(-plan.parts // deep)
        sums = results * plan.parts * 4 * problem.sums / (device.sums / 1e9)
        time += r.behind + passes * r.latency + r.end + sums
    return time
