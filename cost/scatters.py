"""What a kernel of scatters does: a block has a tile of the result (``algo_choice`` scatters)."""

from __future__ import annotations

from math import ceil, expm1, log, prod, sqrt

from polyc.cost.device import Device
from polyc.cost.values import Values, operations, read_labels, size_in_bytes
from polyc.cost.work import LOAD, Work
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.region import ReadOp, ScatterOp
from polyc.dialects.region.magnitudes import integer_up_to

POOL = 2048
"""Updates that a block looks at at once."""

LOOKED = 24.0
"""Instructions by which a thread looks at one of them."""

TAKEN = 3.0
"""Instructions of each element of a tile by which an update is taken, or left."""

MEETINGS = 8
"""Waits for memory that looking at so many and sorting what was found takes."""

TAKES = 1.5
"""And that reading an update, and combining it before the next one, takes."""

CLEARS = 1.5e-6
"""Seconds in which a workspace is cleared."""

ATOMIC = 1.2e9
"""Updates a second of one element, where atomics meet."""

LINKING, POOLED, EACH = 512, 1024, 4
"""Updates of a block that counts those of a list together, updates from which on those of 32 bits
are combined by blocks, and those of a thread of such a block."""

FIRST, GROUP, CHAINS = 4, 4, 3
"""Updates of a list that are on their way at once: the first ones, further ones, and those that are
counted."""

LONG, CHUNK, RUN_CHAINS = 64, 512, 31
"""Updates of the longest list that is walked along, those of longer ones that a block sorts at
once, and the chains of what that leaves of a list."""

PART, GROWS = 128, 2048
"""Updates of a part of a longer list, and of the shortest list whose parts are larger."""

SORTED = 8e-6
"""Seconds in which a block sorts a chunk, and links what that gives."""

STEP = 0.5e-6
"""Seconds of a step along chains: a place, and what stands there."""

NOTHING = 1.2e-6
"""And in which a kernel ends that finds nothing to do."""


def scatters_work(values: Values, plan: ScheduleOp, at_once: int, device: Device) -> Work:
    """The work of a plan of scatters, for indices that are spread evenly."""
    kernel = values.kernel
    scatter = next(op for op in kernel.walk() if isinstance(op, ScatterOp))
    rows, columns, _ = plan.tile_sizes
    points = prod(values.extents[axis.label] for axis in kernel.iters)
    blocks = ceil(points / (rows * columns))
    count = values.points(scatter.labels)
    work = Work(float(blocks), plan.threads(), at_once)
    vector = max(1, plan.integer("vectorize"))
    tile = float(max(rows * columns, plan.threads()))
    made = sum(operations(op) for op in kernel.walk())
    of_updates = set(values.behind([scatter.updates], into=True))
    placed = {label for place in scatter.places for label in values.own(place)}
    places = max(1.0, values.points(placed))
    mean = count / places
    joined = tile * (TAKEN + LOAD / vector)
    looked = count
    match str(record_of(plan.algo_choice)["scatters"]):
        case "pooled":
            found = mean * rows
            work.operations = blocks * (count * LOOKED + found * joined)
            work.steps = ceil(count / POOL) * MEETINGS + found * TAKES + 1
        case "listed":
            found = mean * rows
            # The longest list of a tile, where updates are spread evenly.
            longest = ceil(mean + 2 * sqrt(mean * log(rows + 1.0)))
            if longest > LONG:
                # A long list is combined in parts ahead, and parts come one by one.
                longest = ceil(longest / part_of(longest))
                found = rows * longest
                work.steps = 4.0 + longest
            else:
                # Blocks whose lists are empty go on at once, and which updates a group has is known
                # before it.
                further = max(0, ceil((longest - FIRST) / GROUP))
                work.steps = 2 - 2 * expm1(-found) + further
            work.operations = blocks * longest * joined
            work.before = _listing(values, scatter, count, places, device)
            looked = 0.0
        case "atomic":
            found = 0.0
            work.operations = blocks * tile * (TAKEN + LOAD)
            work.steps = 2
            size = max(4, size_in_bytes(scatter.result.type.element_type))
            sets = values.points({axis.label for axis in kernel.iters} - placed)
            added = integer_up_to(scatter.updates) if size > 4 else None
            if scatter.fn.data == "add" and added is not None and count * added < 1 << 31:
                size = 4
            work.cache += blocks * tile * size
            narrow = size == 4 and count >= POOLED
            met = min(mean, ceil(count / (LINKING * EACH))) if narrow else mean
            work.before = _places(values, scatter, count, places, device, sets, size, met)
            looked = 0.0
        case "last":
            found = rows * -expm1(-mean)
            work.operations = blocks * joined
            work.steps = 3
            work.before = _places(values, scatter, count, places, device)
            looked = 0.0
        case _:
            found = count
            work.operations = blocks * count * joined
            work.steps = count / 4 + 1
    work.operations += blocks * tile * made
    for op in values.reached:
        if isinstance(op, ReadOp):
            size = size_in_bytes(op.result.type.element_type)
            if op in of_updates:
                work.cache += blocks * found * columns * size
            elif scatter.labels[0] in read_labels(op):
                work.cache += blocks * looked * size
            else:
                work.cache += blocks * tile * size
    return work


def _batch(values: Values, scatter: ScatterOp) -> float:
    """Of how many sets of updates there are lists."""
    own = {label for index in scatter.indices for label in values.own(index)}
    return max(1.0, values.points(own - set(scatter.labels)))


def _listing(
    values: Values, scatter: ScatterOp, count: float, places: float, device: Device
) -> float:
    """Seconds of the kernels that make a list of updates for each place, and of clearing."""
    sets, mean = _batch(values, scatter), count / places
    # Most updates are in lists that are longer than the mean one.
    walked = 4 * device.latency + ceil(max(0.0, min(mean, LONG) - FIRST) / CHAINS) * STEP
    moved = sets * (count * 60 + places * 12) / device.memory
    met = min(mean, count / LINKING) / ATOMIC
    found = 2 * device.launch + CLEARS + walked + moved + met
    if mean <= LONG:
        return found + 2 * NOTHING
    # What parts read counts as what the scatter's own kernel does.
    runs = ceil(count / CHUNK / RUN_CHAINS)
    return found + 2 * device.launch + SORTED + runs * STEP


def _places(
    values: Values,
    scatter: ScatterOp,
    count: float,
    places: float,
    device: Device,
    sets: float = 0.0,
    size: int = 4,
    met: float | None = None,
) -> float:
    """Seconds of the kernel that finds the last update of each place, and of clearing that;
    ``sets`` of places there are, those that indices have unless given, of ``size`` bytes each, for
    one of which so many atomics have ``met``, all of its updates unless given."""
    sets = sets or _batch(values, scatter)
    moved = sets * (count * (4 + size) + places * size) / device.memory
    meetings = count / places if met is None else met
    return device.launch + CLEARS + 2 * device.latency + moved + meetings / ATOMIC


def part_of(length: float) -> int:
    """Updates of the parts of a list that is so long."""
    size, least = PART, GROWS
    while length >= least:
        size, least = 2 * size, 4 * least
    return size
