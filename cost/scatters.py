"""What a kernel of scatters does: a block has a tile of the result (``algo_choice`` scatters)."""

from __future__ import annotations

from math import ceil, prod

from polyc.cost.values import Values, operations, read_labels, size_in_bytes
from polyc.cost.work import LOAD, Work
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.region import ReadOp, ScatterOp

POOL = 2048
"""Updates that a block looks at at once."""

LOOKED = 24.0
"""Instructions by which a thread looks at one of them."""

TAKEN = 3.0
"""Instructions of each element of a tile by which an update is taken, or left."""

MEETINGS = 8
"""Waits for memory that looking at so many and sorting what was found takes."""


def scatters_work(values: Values, plan: ScheduleOp, at_once: int) -> Work:
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
    if record_of(plan.algo_choice)["scatters"] == "pooled":
        places = values.points(values.own(scatter.places[0]))
        found = count * rows / max(1.0, places)
        looked = ceil(count / POOL)
        work.operations = blocks * (count * LOOKED + found * tile * (TAKEN + LOAD / vector))
        work.steps = looked * MEETINGS + 1
    else:
        found = count
        work.operations = blocks * count * tile * (TAKEN + LOAD / vector)
        work.steps = count / 4 + 1
    work.operations += blocks * tile * made
    for op in values.reached:
        if isinstance(op, ReadOp):
            size = size_in_bytes(op.result.type.element_type)
            if op in of_updates:
                work.cache += blocks * found * columns * size
            elif scatter.labels[0] in read_labels(op):
                work.cache += blocks * count * size
            else:
                work.cache += blocks * tile * size
    return work
