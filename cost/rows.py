"""What a kernel of rows does (``algo_choice`` rows): reductions along one innermost axis."""

from __future__ import annotations

from math import log2

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from polyc.cost.values import Values, operations, size_in_bytes
from polyc.cost.work import LOAD, SCATTERED, SECTOR, STORE, Work
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp, ReduceOp
from polyc.dialects.region.types import val_type

CONVERT = 1
"""Instructions of a vector's element around its load."""

EXCHANGE = 2
"""Instructions of a lane that combines its part of a result with another's."""

PART_OF_SECTOR = 2 * SECTOR
"""Bytes of L2's time that a store of part of a sector takes: 4096 rows of 2048 halves that were
stored turned took 126 us."""

MASKED = 3.5
"""What an element of a vector beyond the row's end takes, where one of the row takes 1: rows of
4096 in tiles of 8192 take longer than whole ones (``bench/results/norms-*.json``)."""


def rows_work(values: Values, plan: ScheduleOp, there: int) -> Work:
    """Rows that are reduced: read once where they are resident, else once for each pass."""
    height, columns, _ = plan.tile_sizes
    blocks = 1.0
    for key in plan.bind.data:
        label, _, rest = key.partition(".")
        if rest in ("", "o"):
            blocks *= -(-values.extents[label] // (height if rest else 1))
    row = plan.vectorize_axis.data.partition(".")[0]
    length = values.extents.get(row, 1)
    chunks = -(-length // columns)
    # Threads without a vector of the row idle beside the others; their further ones are masked.
    lanes = max(1, plan.threads() // height)
    meetings = log2(min(plan.target.warp, lanes))
    sweep = lanes * max(1, plan.integer("vectorize"))
    swept = min(chunks * columns, -(-length // sweep) * sweep)
    padded = (swept + MASKED * (chunks * columns - swept)) / max(1, length)
    work = Work(blocks, plan.threads(), there)
    streamed = plan.algo_choice.data["rows"] == StringAttr("streaming")
    passes = _passes(values, row) if streamed else 1
    for op in values.reached:
        labels = val_type(op.results[0]).labels
        here = padded if row in labels else 1.0
        if isinstance(op, ReadOp):
            points = values.points(val_type(op.result).labels) * here
            vector = max(1, plan.integer("vectorize"))
            work.operations += passes * points * (LOAD / vector + CONVERT)
            bytes_of = size_in_bytes(op.result.type.element_type)
            work.cache += passes * values.points(labels) * bytes_of
        elif isinstance(op, ReduceOp):
            work.operations += values.points(val_type(op.operand).labels) * padded
            work.operations += values.points(labels) * EXCHANGE * lanes * meetings
        else:
            work.operations += passes * operations(op) * values.points(labels) * here
    for kind, value in zip(values.kernel.outs, values.kernel.yield_op.values, strict=True):
        labels = val_type(value).labels
        points = values.points(labels)
        if row in labels and labels[-1] != row:
            # Neighbours of the row lie apart: each element is a store of part of a sector.
            work.operations += SCATTERED * points
            work.cache += points * PART_OF_SECTOR
        else:
            work.operations += STORE * points / max(1, plan.integer("vectorize"))
            work.cache += points * size_in_bytes(kind.element_type)
    work.steps = passes * chunks + 3
    return work


def _passes(values: Values, row: str) -> int:
    """How often a row is walked: for reductions that need others', and for what is stored."""
    depth: dict[SSAValue, int] = {}

    def deep(value: SSAValue) -> int:
        order = [*values.behind([value], into=True)]
        for op in reversed(order):
            below = [depth.get(v, 0) for v in values.operands(op)]
            most = max(below, default=0)
            depth[op.results[0]] = most + (isinstance(op, ReduceOp) and row in op.labels)
        return depth.get(values.real(value), 0)

    outputs = [deep(v) + (row in val_type(v).labels) for v in values.kernel.yield_op.values]
    return max(1, *outputs)
