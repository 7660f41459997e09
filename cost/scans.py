"""What a kernel with a scan does (``algo_choice`` scans): its axis walked in order."""

from __future__ import annotations

from math import log2, prod

from xdsl.dialects.builtin import StringAttr

from polyc.cost.values import Values, operations, size_in_bytes
from polyc.cost.work import LOAD, STORE, Work, load_cost
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp, ScanOp
from polyc.dialects.region.types import val_type

AHEAD = 16
"""Elements of a thread that walks alone that are on their way at once."""

OVERHEAD = 4.0
"""Instructions around a step of a walk: its counter, its bounds, its addresses."""

EXCHANGE = 3
"""Instructions of a lane that takes another's part of a line along: a shuffle, a choice, and the
function."""

MEETING = 0.5
"""Of a load's latency, what the threads of a line wait for each other's parts of a tile."""


MEET = 1.5
"""Latencies of a line in which a team's blocks wait for each other; assumed."""

SLOTS = 132
"""Multiprocessors of the chips that teams are modelled on."""


LOOK = 3.0
"""Latencies of a tile of a chain: its load, and posts that are taken after its own; assumed."""

PASS = 2
"""Instructions of an element of a line that lies beside others: it is added up, and added."""


def scans_work(values: Values, plan: ScheduleOp, there: int) -> Work:
    """Every element is read, joined and written once: by threads alone one by one, or, where they
    share lines, a tile after another."""
    scan = next(op for op in values.kernel.walk() if isinstance(op, ScanOp))
    way = plan.algo_choice.data["scans"]
    alone, team = way == StringAttr("serial"), way == StringAttr("teams")
    chain = way == StringAttr("chains")
    rows, columns, _ = plan.tile_sizes
    labels = val_type(values.kernel.yield_op.values[0]).labels
    beside = alone or labels[-1] != scan.label
    run = rows if beside and chain else columns
    others = [label for label in labels if label != scan.label]
    sizes = (columns, rows) if alone else (columns if beside else rows,)
    tile = dict(zip(reversed(others), sizes, strict=False))
    blocks = float(prod(-(-values.extents[label] // tile.get(label, 1)) for label in others))
    if team or chain:
        blocks *= -(-values.extents[scan.label] // run)
    work = Work(blocks, plan.threads(), there)
    length, vector = values.extents[scan.label], plan.integer("vectorize")
    steps = length if alone else 1 if team or chain else -(-length // columns)
    points = blocks * steps * max(rows * columns, plan.threads())
    if beside:
        column = others[-1] if others else None
        cost = OVERHEAD / vector + (0 if alone else PASS)
    else:
        column, lanes = scan.label, min(plan.target.warp, plan.threads() // rows)
        cost = (OVERHEAD + EXCHANGE * log2(max(2, lanes))) / vector + 1
    held = {**tile, scan.label: 0 if alone else run}
    for op in values.reached:
        if isinstance(op, ReadOp):
            price, over = load_cost(values, op, column, held)
            cost += price / vector if price == LOAD else price
            size = size_in_bytes(op.result.type.element_type)
            own = val_type(op.result).labels
            # A gather reads one of an axis's elements for each of its own.
            if any(values.index_along(label) is not None for label in own):
                own = labels
            work.cache += values.points(own) * size * over
        else:
            cost += operations(op)
    for kind in values.kernel.outs:
        cost += STORE / vector
        work.cache += values.points(labels) * size_in_bytes(kind.element_type)
    work.operations += points * cost
    work.steps = -(-steps * vector // AHEAD) if alone else steps * (1.0 + MEETING)
    if chain:
        work.steps = LOOK
    if team:
        # Blocks that run at once take one line after another, and meet.
        work.alone = max(1.0, blocks / (SLOTS * there)) * MEET
    return work
