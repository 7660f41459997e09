"""How long a reduction takes whose points the threads of a tile part, by its plan (S11.1).

    time = start + turns of blocks, each so many steps and an end + a second kernel's

A block walks over the points of its results step by step: each of its threads has some loads on
their way, converts and adds what came, and goes on.  A step therefore takes the longest of what one
warp needs for it by itself, from its loads' latency to its last instruction, of the instructions
that the warps of all blocks of a multiprocessor issue, and of the bytes that these draw.  Where the
blocks of several tiles share the points, what they have goes through memory or a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, StringAttr

from polyc.affine.expressions import linear_of
from polyc.cost.device import Device
from polyc.cost.products import GPC
from polyc.cost.values import Values, operations, read_labels, size_in_bytes
from polyc.cost.work import SECTOR
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp, ReduceOp
from polyc.dialects.region.orders import innermost_first
from polyc.dialects.region.types import MemRefType, val_type

SUM_BYTES = 4
"""Of a part of a sum."""


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
    ``apart``    bytes from a result to the next along its axis of a tile, and from a reduced point
                 to the next along its own
    ``work``     instructions of a point, beside its loads
    ``sums``     reductions, each with a result of its own
    ``moments``  whether the squares of one are about another one's mean, which blocks find together
                 where what they have goes through memory
    """

    outer: int
    kept: int
    beside: bool
    inner: int
    second: int = 1
    others: int = 1
    sizes: tuple[int, ...] = (2,)
    line: int = 2
    apart: tuple[int, int] = (2, 2)
    work: float = 2.0
    sums: int = 1
    moments: bool = False


class SharedTile(NamedTuple):
    """A tile of ``rows`` and ``columns`` of ``threads`` that read by vectors of ``vector``; of its
    points ``parts`` blocks have each some, which meet in memory (``stored``) or are a cluster.

    Where ``blocks`` share all tiles, ``parts`` are theirs of one problem (``spread``).
    """

    rows: int
    columns: int
    threads: int
    vector: int
    parts: int = 1
    stored: bool = True
    blocks: int = 0

    @property
    def loads(self) -> int:
        """Vectors of each thread."""
        return max(1, self.rows * self.columns // (self.threads * self.vector))


@dataclass(frozen=True, slots=True)
class ReductionRates:
    """What a multiprocessor does with it, in ns and bytes a ns.

    ``cycle``      of its clock
    ``issued``     instructions of warps in a cycle
    ``apart``      cycles from one instruction of a warp to its next
    ``load``       instructions of a load: its place, whether it is inside, and itself
    ``loop``       those of a step beside
    ``lines``      cycles of a load of a warp for each line of the cache that its lanes touch
    ``latency``    that a step waits for what it loads beyond these
    ``ahead``      loads of single elements that are on their way at a time, of several steps where
                   each has fewer; 0 where that is all loads of a step
    ``draw``       bytes that a multiprocessor draws at most
    ``memory``     the part of the memory's bandwidth that they come at, and ``narrow`` what of it
                   is lost where tiles have little of each line
    ``crowd``      loads of single elements that warps of a multiprocessor have on their way, beyond
                   which the memory is slower where points are much work, and ``crowded`` what part
                   of its time that is at most
    ``start``      of a kernel beyond its work
    ``block``      until a multiprocessor has begun one more block, and ``joins`` what that takes
                   more of a cluster's
    ``meet``       until the threads of a block have met, and ``partial`` one that each adds then
    ``together``   until the blocks of a cluster have met, and ``clustered`` of a kernel of these
    ``behind``     from the end of the first kernel to the loads of the second
    ``pass_``      of the parts that a thread of that has on its way
    ``sums``       bytes of parts that are stored and added
    """

    cycle: float = 0.6
    issued: float = 2.76
    apart: float = 2.2
    load: float = 12.0
    loop: float = 0.8
    lines: float = 0.25
    latency: float = 288.0
    ahead: float = 6.7
    draw: float = 160.0
    memory: float = 1.05
    narrow: float = 0.1
    crowd: float = 192.0
    crowded: float = 0.2
    start: float = 2100.0
    block: float = 125.0
    joins: float = 150.0
    meet: float = 205.0
    partial: float = 7.0
    together: float = 1550.0
    clustered: float = 580.0
    behind: float = 225.0
    pass_: float = 78.0
    sums: float = 2260.0


H100_REDUCTIONS = ReductionRates()
"""Fitted to 230 random reductions on an H100, 16 plans of each; fitted to half of these, the first
choice of the others took 4.3 % longer than the fastest plan."""

H100_ROWS = replace(
    H100_REDUCTIONS,
    issued=3.0,
    apart=2.8,
    load=14.0,
    loop=3.0,
    lines=0.0,
    latency=500.0,
    ahead=0.0,
    draw=43.0,
    narrow=0.0,
    start=1800.0,
    joins=460.0,
    meet=60.0,
    partial=6.5,
    together=0.0,
    clustered=2600.0,
)
"""The same of rows that are walked in chunks, of which the compiler has one on its way at a time:
fitted to 14 of them."""

REGISTERS, GRAIN = 65536, 8
"""Of a multiprocessor, 32 bits each, and those that a thread has a multiple of."""
MOST_THREADS, MOST_BLOCKS = 2048, 32
"""Of a multiprocessor."""

ADDING, ADDED = 256, 8
"""Threads of a block of the second kernel, and parts that each has on its way."""
WIDE, HIGH = 32, 8
"""Results of a tile of the second kernel, along its columns and along its rows."""


# What is reduced ---------------------------------------------------------------------------


def reduction_of(values: Values, column: str | None, apart: bool = False) -> Reduction | None:
    """The reductions of a region whose points threads may part, where results lie along ``column``
    or, if there is none, along its last axis, or no tile has two of them (``apart``); None where
    they are others.

    All have a result for each point of the outputs, over the same points, and none needs another's,
    but for the moments of what is read.
    """
    key = reduction_of, column, apart
    if key not in values.answers:
        values.answers[key] = _reduction_of(values, column, apart)
    return cast("Reduction | None", values.answers[key])


def _reduction_of(values: Values, column: str | None, apart: bool) -> Reduction | None:
    kinds = [val_type(value) for value in values.kernel.yield_op.values]
    labels = kinds[0].labels
    needed = [op for op in values.behind(values.outputs) if isinstance(op, ReduceOp)]
    moments = values.moments()
    if moments is not None:
        needed = moments.reductions
    if not needed or any(set(kind.labels) != set(labels) for kind in kinds):
        return None
    order = innermost_first(needed[0])
    for reduce in needed:
        behind = values.behind([reduce.operand])
        if set(val_type(reduce.result).labels) != set(labels) or set(reduce.labels) != set(order):
            return None
        if moments is None and any(isinstance(op, ReduceOp) for op in behind):
            return None
        if reduce.fn.data == "sum" and isinstance(reduce.accumulator, Float16Type | BFloat16Type):
            return None
    made = list(values.behind([reduce.operand for reduce in needed]))
    reads = [op for op in made if isinstance(op, ReadOp) and set(order) & set(read_labels(op))]
    kept = column if column is not None else labels[-1] if labels and not apart else None
    extents = [values.extents[label] for label in (*order, *labels)]
    if not reads or 0 in extents:
        return None
    parts = column is None and kept is None and len(order) > 1
    inner, *others = (values.extents[label] for label in order)
    # What lacks an axis, as a row that multiplies all columns, comes from near after its first use.
    wide = {label for label in (*order, *labels) if values.extents[label] > 1}
    whole = [read for read in reads if wide <= set(read_labels(read))]
    reads = whole or _largest(values, reads)
    # What has no reduced axis, as a mean is made of its sum, is computed once.
    work = [
        op
        for op in made
        if (kept is None or kept in val_type(op.results[0]).labels or not whole)
        and set(order) & set(val_type(op.results[0]).labels)
    ]
    return Reduction(
        prod(values.extents[label] for label in labels if label != kept),
        1 if kept is None else values.extents[kept],
        column is not None,
        inner,
        others[0] if parts else 1,
        prod(others[1:] if parts else others),
        tuple(size_in_bytes(read.result.type.element_type) for read in reads),
        gcd(*(_row_bytes(values, read) for read in reads)),
        (_apart(values, reads[0], kept), _apart(values, reads[0], order[0])),
        len(needed)
        + sum(operations(op) for op in work if not isinstance(op, ReduceOp))
        + (COUNTED if moments is not None else 0),
        len(needed) if moments is None else len(needed) + 2,
        moments is not None,
    )


NEAR = 16
"""How many times as large as what comes from near is what is waited for."""


def _largest(values: Values, reads: Sequence[ReadOp]) -> list[ReadOp]:
    """Of reads that each lack an axis those of the most points: others come from near, as the
    coordinates of bodies do beside what pairs of these have."""
    points = [prod(values.extents[label] for label in read_labels(read)) for read in reads]
    most = max(points)
    return [read for read, size in zip(reads, points, strict=True) if size * NEAR > most]


OF_MOMENTS = 80
"""Registers of a thread that has moments of its points: a pivot, sums, squares and a count of each
element of a vector, beside two vectors on their way."""

COUNTED = 2.0
"""Instructions of a point that is counted, and whose distance is summed beside its square."""


def _row_bytes(values: Values, read: ReadOp) -> int:
    """The bytes of a row of what is read; 0 where that is all of it."""
    kind = read.tensor.type
    assert isinstance(kind, MemRefType)
    if len(kind.shape) < 2:
        return 0
    return kind.shape[-1].evaluate(values.sizes) * size_in_bytes(kind.element_type)


def _apart(values: Values, read: ReadOp, label: str | None) -> int:
    """The bytes from a point of an axis to the next in what is read; 0 where that is the same."""
    kind, labels = read.tensor.type, read.result.type.labels
    assert isinstance(kind, MemRefType)
    found, each = 0, size_in_bytes(kind.element_type)
    for size, expr in zip(reversed(kind.shape), reversed(read.map.data.results), strict=True):
        for term, factor in linear_of(expr).terms if label in labels else ():
            if term == ("d", labels.index(label or "")):
                found += abs(factor) * each
        each *= size.evaluate(values.sizes)
    return found


Planned = tuple[Reduction, SharedTile, ReductionRates]
"""What is reduced, how, and what a multiprocessor does with it."""


def planned(values: Values, plan: ScheduleOp) -> Planned | None:
    """What a plan of loops or of rows reduces, and how; None where its threads part nothing."""
    labels = val_type(values.kernel.yield_op.values[0]).labels
    axis = plan.vectorize_axis.data.partition(".")[0] or None
    column = axis if axis in labels else None
    tile = SharedTile(
        *plan.tile_sizes[:2],
        plan.threads(),
        plan.integer("vectorize"),
        1 if plan.spreads_sums else plan.integer("split_k"),
        plan.stores_sums,
        plan.integer("split_k") if plan.spreads_sums else 0,
    )
    if plan.pattern == "rows":
        walks = plan.algo_choice.data["rows"] == StringAttr("streaming")
        problem = reduction_of(values, None) if walks and column is None else None
        return None if problem is None else (problem, tile, H100_ROWS)
    bound = plan.bind.data
    if plan.slides_windows or plan.slides_lines or plan.resamples_lines or plan.cached:
        return None
    if plan.is_flat or plan.turns_outputs or plan.resamples_rows:
        return None
    along = [label for label in labels if f"{label}.o" in bound]
    if column is not None and any(label != column for label in along):
        return None
    if any(label not in bound and f"{label}.o" not in bound for label in labels):
        return None
    problem = reduction_of(values, column, apart=not along)
    if problem is None or (problem.moments and not tile.stored):
        return None
    return problem, spread(problem, tile), H100_REDUCTIONS


# How long it takes -------------------------------------------------------------------------


def _numpy() -> Any:
    """NumPy, which is not brought in before times are asked for."""
    import numpy

    return numpy


def together(plans: Sequence[SharedTile]) -> Any:
    """Several plans as one whose fields are arrays."""
    np = _numpy()

    return _Several(*map(np.array, zip(*plans, strict=True)))


class _Several(NamedTuple):
    rows: Any
    columns: Any
    threads: Any
    vector: Any
    parts: Any
    stored: Any
    blocks: Any

    @property
    def loads(self) -> Any:
        np = _numpy()

        return np.maximum(1, self.rows * self.columns // (self.threads * self.vector))


def registers(problem: Reduction, plans: Any) -> Any:
    """Registers of a thread, about: a sum for each element of its vectors, and what goes with it.

    Blocks of 256 threads are built for 64 at most, those of 1024 have no more; of moments for
    ``OF_MOMENTS``.
    """
    np = _numpy()

    if problem.moments:
        return np.full(plans.rows.shape, OF_MOMENTS)
    single = 32 + plans.loads
    wide = 52 + 3 * plans.loads if problem.beside else 28 + 7 * plans.loads * plans.vector // 8
    found = np.where(plans.vector == 1, single, wide) * problem.sums
    small = (plans.threads <= 256) & (plans.loads * plans.vector <= 32)
    return np.minimum(np.where(small | (plans.threads > 512), 64, 255), found)


def at_once(problem: Reduction, plans: Any) -> Any:
    """Blocks that a multiprocessor has room for."""
    np = _numpy()

    each = -(-registers(problem, plans) // GRAIN) * GRAIN
    by_registers = REGISTERS // (plans.threads * each)
    found = np.minimum(np.minimum(MOST_BLOCKS, MOST_THREADS // plans.threads), by_registers)
    return np.maximum(1, found)


def steps_of(problem: Reduction, plan: Any) -> Any:
    """The steps of a block, those of the one that has most."""
    return -(-whole_steps(problem, plan) // plan.parts)


def whole_steps(problem: Reduction, plan: Any) -> Any:
    """The steps of a tile, whose parts are of several blocks."""
    inner, second = problem.inner, problem.second
    if problem.beside:
        steps = -(-inner // plan.rows) * second
    else:
        steps = -(-inner // plan.columns) * (-(-second // plan.rows) if problem.kept == 1 else 1)
    return steps * problem.others


def spread(problem: Reduction, tile: SharedTile) -> SharedTile:
    """A tile with the parts that it has of a problem where blocks share all tiles: the fewest of
    which none has more steps.  Others are as they are."""
    if not tile.blocks:
        return tile
    rows, columns, threads, vector, _, stored, blocks = tile
    steps = max(1, int(whole_steps(problem, tile)))
    most = min(max(1, blocks // max(1, int(tiles_of(problem, tile)))), steps)
    parts = -(-steps // -(-steps // most))
    return SharedTile(rows, columns, threads, vector, parts, stored, blocks)


def tiles_of(problem: Reduction, plan: Any) -> Any:
    """The tiles of the results."""
    return problem.outer * -(-problem.kept // (plan.columns if problem.beside else plan.rows))


def _piece(problem: Reduction, plans: Any) -> tuple[Any, Any, int, int]:
    """Rows and columns of tiles that there are, and the bytes from one of each to the next."""
    np = _numpy()

    kept, inner = problem.apart
    if problem.beside:
        return (
            np.minimum(plans.rows, problem.inner),
            np.minimum(plans.columns, problem.kept),
            inner,
            kept,
        )
    high = np.minimum(plans.rows, problem.second if problem.kept == 1 else problem.kept)
    return high, np.minimum(plans.columns, problem.inner), kept, inner


def sectors_of(problem: Reduction, plans: Any) -> Any:
    """The bytes of the sectors that a step of a block brings.

    A row of a tile that is a part of one of memory begins anywhere in a sector, unless rows of
    memory are whole ones; where tiles have all of these, they follow each other.  Of columns that
    lie apart each is a piece of its own, as long as the tile's rows are neighbours in memory.
    """
    np = _numpy()

    rows, columns, down, across = _piece(problem, plans)
    whole = _is_whole(problem, plans)
    found = np.zeros(plans.rows.shape)
    for size in problem.sizes:
        if across > problem.sizes[0]:
            near = down == problem.sizes[0]
            long = rows * size if near else np.full(plans.rows.shape, size)
            begun = np.minimum(across, -(-long // SECTOR) * SECTOR + size)
            piece = np.where(long >= across, long, begun)
            found += columns * piece * (1 if near else rows)
        else:
            over = SECTOR - gcd(SECTOR, problem.line)
            parts = rows * (-(-columns * size // SECTOR) * SECTOR + over)
            found += np.where(whole, rows * columns * size, parts)
    return found


def _is_whole(problem: Reduction, plans: Any) -> Any:
    """Whether tiles have whole rows of memory, one after another."""
    one = problem.beside and problem.outer == problem.others == 1
    return (plans.columns >= problem.kept) & one


def end_of(problem: Reduction, plans: Any, rates: ReductionRates) -> Any:
    """From the last step of a block until it has its results: threads that have parts of them meet,
    and each adds some."""
    np = _numpy()

    if problem.beside:
        alone = plans.columns >= plans.threads * plans.vector
        others = plans.threads * plans.vector / plans.columns
        partials = np.minimum(
            MOST_PARTIALS, others * np.maximum(1.0, plans.columns / plans.threads)
        )
        return np.where(alone, 0.0, rates.meet + rates.partial * partials)
    several = plans.columns > WARP * plans.vector * plans.loads
    return rates.meet + rates.partial * np.where(several, 2 * MEETING, MEETING)


MEETING, MOST_PARTIALS, WARP, LINE = 8.0, 64.0, 32, 128
"""Parts that the lanes of a warp add, that a thread adds at most, lanes of a warp, and bytes of a
line of the cache."""


def nanoseconds(
    problem: Reduction, plan: SharedTile, device: Device, rates: ReductionRates = H100_REDUCTIONS
) -> float:
    """The time of a reduction under a plan."""
    return float(times_of(problem, together([plan]), device, rates)[0])


def times_of(
    problem: Reduction, plans: Any, device: Device, rates: ReductionRates = H100_REDUCTIONS
) -> Any:
    """The times of a reduction under several plans (``together``)."""
    np = _numpy()

    r, chip = rates, np.full(plans.rows.shape, device.multiprocessors)
    steps, room = steps_of(problem, plans), at_once(problem, plans)
    left = tiles_of(problem, plans) * plans.parts
    all_steps = left * steps
    is_cluster = (plans.parts > 1) & ~plans.stored
    # A cluster lies in one GPC, and what is left of that stays out of them.
    fitting = np.maximum(1, chip // GPC * (GPC // plans.parts)) * plans.parts
    chip = np.where(is_cluster, fitting, chip)
    begins = r.block + np.where(is_cluster, r.joins, 0.0)
    end = r.block + end_of(problem, plans, r) + np.where(is_cluster, r.together, 0.0)
    warps, loads = plans.threads / WARP, plans.loads * len(problem.sizes)
    own = loads * r.load + plans.loads * plans.vector * problem.work + r.loop
    waits = _waits(problem, plans, r) * (WAITS if problem.moments else 1.0)
    alone = r.latency * waits + own * r.apart * r.cycle
    issued = warps * own / r.issued * r.cycle
    _, columns, _, across = _piece(problem, plans)
    lines = min(WARP, max(1.0, WARP * across / LINE)) if across > problem.sizes[0] else 1.0
    taken = warps * loads * lines * r.lines * r.cycle
    drawn = sectors_of(problem, plans) / r.draw
    points = problem.outer * problem.kept * problem.inner * problem.second * problem.others
    memory = np.full(plans.rows.shape, device.memory / 1e9 * r.memory)
    if problem.beside and across == problem.sizes[0]:
        parts = 1 - r.narrow * np.maximum(0.0, 1 - columns * across / LINE)
        memory = np.where(plans.columns < problem.kept, memory * parts, memory)
    if not problem.beside and (problem.moments or problem.inner * across >= PAGE):
        short = np.minimum(1.0, columns * across / RUN) ** SHORT_RUN
        memory = np.where(plans.columns < problem.inner, memory * short, memory)
    if problem.beside and across == problem.sizes[0] and r.ahead and problem.work >= HEAVY:
        on_way = room * warps * loads / r.crowd - 1
        slower = 1 + np.clip(CROWDING * on_way, 0.0, r.crowded)
        memory = np.where(plans.vector == 1, memory / slower, memory)
    moved = points * sum(problem.sizes) / all_steps / memory
    time = np.full(plans.rows.shape, r.start)
    for _ in range(2):
        # Whole turns of as many blocks as find room, and then those that are left.
        now = np.maximum(1, np.minimum(left, chip * room))
        turns, most = left // now, -(-now // chip)
        each = (alone, most * issued, most * drawn, most * taken, now * moved)
        step = sum(one**4 for one in each) ** 0.25
        time = time + turns * ((steps * step + end) ** 4 + (most * begins) ** 4) ** 0.25
        left = left - turns * now
    stored = _second(problem, plans, device, r)
    more = np.where(is_cluster, r.clustered, stored)
    return np.where(plans.parts == 1, time, time + more)


WAITS = 2.0
"""How many times as long a step waits that finds moments: fewer threads are beside it."""

CROWDING, HEAVY = 0.4, 8.0
"""How much slower for each ``crowd`` beyond the first, and instructions of a point from which on
that holds: of 128x4096x4095 f32 the places of the largest took 3040 us where warps had 192 loads on
their way, 3335 to 3636 with 256, 3580 with 384.  Sums, whose points are little work, do not show
it, and the choice of their plans with this would be better of some and worse of others."""

RUN, SHORT_RUN, PAGE = 2 * LINE, 0.25, 2048
"""Bytes of a row that a step reads together, and by which power of what there is less the memory is
slower, where a tile has a part of a row: of 4096 images' channels 27 us by 512 columns of 16 bits,
34 by 64, 39 by 32; of 32768 rows of 32768 f32 2163 us by 8 columns, where whole rows take 1380.
Bytes of a row from which on that is so: what is left of shorter ones follows at once, but where
moments are found."""


def _waits(problem: Reduction, plans: Any, rates: ReductionRates) -> Any:
    """How often a step waits for loads.

    Steps of one axis are a loop that the compiler unrolls where each loads little; where they go
    over several in turn, it does not.
    """
    np = _numpy()

    if not rates.ahead:
        return 1.0
    chunks = -(-problem.inner // (plans.rows if problem.beside else plans.columns))
    nested = (chunks > 1) & (problem.others * problem.second > 1)
    return np.where((plans.vector > 1) | nested, 1.0, plans.loads / rates.ahead)


def _second(problem: Reduction, plans: Any, device: Device, rates: ReductionRates) -> Any:
    """The time of the kernel that adds what blocks have stored."""
    np = _numpy()

    tile = min(WIDE if problem.beside else HIGH, 1 << (problem.kept - 1).bit_length())
    passes = -(-plans.parts // max(1, ADDING * ADDED // tile))
    blocks = problem.outer * -(-problem.kept // tile)
    begun = -(-blocks // device.multiprocessors) * rates.block
    stored = problem.outer * problem.kept * plans.parts * SUM_BYTES * problem.sums
    longer = ((passes * rates.pass_) ** 4 + float(begun) ** 4) ** 0.25
    return rates.behind + np.asarray(longer) + stored / rates.sums
