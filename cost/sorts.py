"""What a kernel of sorts does (``algo_choice`` sorts): a row by a block, by steps of a network."""

from __future__ import annotations

from math import ceil, log2, prod

from polyc.cost.device import Device
from polyc.cost.values import Values, operations, size_in_bytes
from polyc.cost.work import Work
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.plan.resources import PASS
from polyc.dialects.region import ReadOp, SortOp

COMPARED = 20.0
"""Instructions by which a thread compares two elements of shared memory and exchanges them."""

WARP = 32
"""Threads of a warp."""

MEETING = 2
"""Steps of a network that take as long as waiting for memory once: threads meet after each."""

DIGIT = 8
"""Bits of a digit at most."""

DIGIT_STEP, DIGIT_BLOCK = 115.0, 100.0
"""Instructions of an element for a digit, and those of a thread of its block."""

DIGIT_MEETINGS = 3
"""Latencies of a digit: threads meet five times, and count and move elements between."""

COUNTING = 3.7
"""What counting digits and moving elements take together, beside sorting a tile by a digit."""

SORTED = 5
"""Sorts of a pool while a random row goes by: where its bound falls, and at its end."""

POOLED = 256
"""Elements that such a pool has then, where few are kept, and a warp sorts."""


def sorts_work(values: Values, plan: ScheduleOp, at_once: int, device: Device) -> Work:
    """The work of a plan of sorts; a pool is sorted as often as random rows ask for."""
    kernel, threads = values.kernel, plan.threads()
    sort = next(op for op in kernel.walk() if isinstance(op, SortOp))
    outer = [axis for axis in sort.result.type.axes if axis.label != sort.into]
    rows = prod(values.extents[axis.label] for axis in outer)
    size = values.extents[sort.over]
    work = Work(float(rows), threads, at_once)
    way = record_of(plan.algo_choice)["sorts"]
    made = sum(operations(op) for op in kernel.walk() if not isinstance(op, SortOp))
    elements = max(1, size)
    tile, sorts = plan.tile_sizes[1], 1
    if way == "pool":
        least = values.extents[sort.into]
        elements, sorts = min(elements, max(POOLED, 2 * least)), SORTED
    reads = (op for op in kernel.walk() if isinstance(op, ReadOp))
    bytes_read = sum(size_in_bytes(op.result.type.element_type) for op in reads)
    if way == "digits":
        first, end = sort.bits
        digits = -(-(end - first) // DIGIT)
        each = digits * (tile * DIGIT_STEP + threads * DIGIT_BLOCK)
        work.operations = rows * (max(size, threads) * (made + 4) + each)
        kept = size_in_bytes(sort.result.type.element_type)
        work.cache = float(rows) * (bytes_read + kept) * size
        work.steps = 2 + digits * DIGIT_MEETINGS
        return work
    if plan.sorts_in_passes:
        kept = size_in_bytes(sort.result.type.element_type)
        return _in_passes(work, plan, rows, size, bytes_read, kept, made, device)
    levels = ceil(log2(elements)) if elements > 1 else 0
    steps = sorts * levels * (levels + 1) / 2
    compared = max(elements / 2, WARP if way == "pool" else threads) * steps * COMPARED
    work.operations = rows * (max(size, threads) * (made + 4) + compared)
    bytes_kept = 8 * elements * steps if way == "memory" else 0
    work.cache = float(rows) * (bytes_read * size + 2 * bytes_kept)
    work.steps = ceil(size / tile) + steps / MEETING * (4 if way == "memory" else 0.25)
    return work


def _in_passes(
    work: Work,
    plan: ScheduleOp,
    rows: int,
    size: int,
    read: int,
    kept: int,
    made: float,
    device: Device,
) -> Work:
    """The work of three kernels for each digit: all read every element, or what was counted, and
    one writes it: ``read`` bytes of it the first time, and ``kept`` ones between passes."""
    tile, passes = plan.tile_sizes[1], plan.integer("stages")
    tiles, each = ceil(size / tile), plan.threads() * DIGIT_BLOCK
    work.blocks = float(rows * tiles)
    moved = passes * COUNTING * (tile * DIGIT_STEP + each)
    work.operations = work.blocks * (moved + 2 * tile * (made + 4))
    elements = float(rows) * size
    keys = kept * elements
    work.cache = elements * 2 * read + keys * (3 * passes - 2)
    if keys > device.cache_bytes:
        work.again = elements * read + keys * 3 * (passes - 1)
    work.steps = passes * 2 * DIGIT_MEETINGS
    work.before = (len(PASS) * passes - 1) * device.launch
    return work
