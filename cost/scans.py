"""What a kernel with a scan does (``algo_choice`` scans): its axis walked in order."""

from __future__ import annotations

from math import prod

from polyc.cost.values import Values, operations, size_in_bytes
from polyc.cost.work import LOAD, STORE, Work, load_cost
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp, ScanOp
from polyc.dialects.region.types import val_type

OVERHEAD = 4.0
"""Instructions around a step of a walk: its counter, its bounds, its addresses."""


def scans_work(values: Values, plan: ScheduleOp, there: int) -> Work:
    """Every element is read, joined and written once; a thread walks its own one by one."""
    scan = next(op for op in values.kernel.walk() if isinstance(op, ScanOp))
    rows, columns, _ = plan.tile_sizes
    labels = val_type(values.kernel.yield_op.values[0]).labels
    others = [label for label in labels if label != scan.label]
    tile = dict(zip(reversed(others), (columns, rows), strict=False))
    blocks = prod(-(-values.extents[label] // tile.get(label, 1)) for label in others)
    work = Work(float(blocks), plan.threads(), there)
    length, vector = values.extents[scan.label], plan.integer("vectorize")
    points = float(blocks) * max(rows * columns, plan.threads()) * length
    column = others[-1] if others else None
    cost = OVERHEAD / vector
    for op in values.reached:
        if isinstance(op, ReadOp):
            price, over = load_cost(op, column, {**tile, scan.label: 0})
            cost += price / vector if price == LOAD else price
            size = size_in_bytes(op.result.type.element_type)
            work.cache += values.points(val_type(op.result).labels) * size * over
        else:
            cost += operations(op)
    for kind in values.kernel.outs:
        cost += STORE / vector
        work.cache += values.points(labels) * size_in_bytes(kind.element_type)
    work.operations += points * cost
    work.steps = float(length)
    return work
