"""What a kernel of rows does (``algo_choice`` rows): reductions along one innermost axis."""

from __future__ import annotations

from math import log2
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.cost.device import Device
from polyc.cost.values import Values, operations, size_in_bytes
from polyc.cost.work import LOAD, SCATTERED, SECTOR, STORE, Work
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import BinaryOp, ReadOp, ReduceOp, ReduceTogetherOp, UnaryOp
from polyc.dialects.region.types import val_type

CONVERT = 1
"""Instructions of a vector's element around its load."""

EXCHANGE = 2
"""Instructions of a lane that combines its part of a result with another's."""

PART_OF_SECTOR = 2 * SECTOR
"""Bytes of L2's time that a store of part of a sector takes: 4096 rows of 2048 halves that were
stored turned took 126 us."""

TURNED = 2
"""Accesses of shared memory of an element that is stored turned."""

MEETING = 0.5
"""Of a load's latency, what the threads of a row wait for each other's parts of a result."""


SUM = 4
"""Bytes of what a block tells its team."""

TURN = 3.3
"""Latencies between what a block that keeps one row has read of it and what it writes."""

MEET = 6.7
"""The same in which the blocks of a team tell each other what they have of a reduction."""

NARROW, TOLD = 16, 256
"""Rows that lie side by side, and blocks of their team, with which a meeting takes twice as long:
columns of 8192 by 4096 take 60 us in a LayerNorm by 128 rows and 69 by 32, of 32768 by 1024 65 with
43 blocks and 71 with 86."""

TEAMS = 4.0
"""The same of a launch of teams: counters are cleared ahead of it, and all blocks begin at once."""

SHORT = 4
"""Instructions in the time of an exponential that is the device's own, of base 2, where all that is
stored has 16 bits."""


def rows_work(values: Values, plan: ScheduleOp, there: int, device: Device) -> Work:
    """Rows that are reduced: read once where they are held or kept, else once for each pass."""
    height, columns, _ = plan.tile_sizes
    blocks = 1.0
    for key in plan.bind.data:
        label, _, rest = key.partition(".")
        if rest in ("", "o"):
            blocks *= -(-values.extents[label] // (height if rest else 1))
    parts = plan.integer("split_k")  # blocks that take a row's chunks in turn
    beside = plan.vectorize_axis.data.partition(".")[0]
    row = next(
        op.labels[0] for op in values.kernel.walk() if isinstance(op, ReduceOp | ReduceTogetherOp)
    )
    length = values.extents.get(row, 1)
    chunks = -(-length // columns)
    if plan.meets_in_memory and values.kernel.symbol_names and height == 1:
        # As many as a row needs, or more where there are fewer rows than teams.
        needed, most = -(-chunks // plan.tile_sizes[2]), min(parts, chunks)
        parts = max(1, needed, min(most, there * device.multiprocessors // max(1, int(blocks))))
    lanes = max(1, plan.threads() // height)
    meetings = log2(min(plan.target.warp, lanes))
    # What is beyond the row's end is computed like the rest of a tile.
    padded = chunks * columns / max(1, length)
    work = Work(blocks * parts, plan.threads(), there)
    streamed = plan.algo_choice.data["rows"] == StringAttr("streaming")
    deep = _passes(values, row)
    # Rows that are kept are walked as often, and once more where a stream joins two reductions
    # that no team meets once for.
    joined = any(isinstance(op, ReduceTogetherOp) for op in values.kernel.walk())
    joined = joined and not (plan.meets_in_memory and beside == row)
    passes = deep + joined if plan.keeps_rows else deep if streamed else 1
    brought = passes if streamed else 1
    short = all(size_in_bytes(kind.element_type) <= 2 for kind in values.kernel.outs)
    for op in values.reached:
        labels = values.walked(val_type(op.results[0]).labels)
        here = padded if row in labels else 1.0
        if isinstance(op, ReadOp):
            points = values.points(labels) * here
            vector = max(1, plan.integer("vectorize"))
            work.operations += points * (brought * LOAD / vector + passes * CONVERT)
            bytes_of = size_in_bytes(op.result.type.element_type)
            work.cache += brought * values.points(labels) * bytes_of
        elif isinstance(op, ReduceOp):
            work.operations += values.points(val_type(op.operand).labels) * padded
            work.operations += values.points(labels) * EXCHANGE * lanes * meetings
        else:
            price = operations(op)
            if isinstance(op, BinaryOp) and op.fn.data == "div":
                # What a row has one of is inverted once.
                whole, by = (values.own(value) for value in values.operands(op))
                price = 1 if row in whole and row not in by else price
            if short and isinstance(op, UnaryOp) and op.fn.data == "exp":
                price = SHORT
            # What follows a reduction is not computed in the walk for that.
            follows = plan.keeps_rows and any(
                isinstance(o, ReduceOp) for o in values.behind(op.results, into=True)
            )
            work.operations += (passes - follows) * price * values.points(labels) * here
    for kind, value in zip(values.kernel.outs, values.kernel.yield_op.values, strict=True):
        labels = val_type(value).labels
        points = values.points(labels)
        if row in labels and labels[-1] != beside and stores_turned(plan, kind.element_type):
            work.operations += (TURNED * LOAD + STORE) * points
            work.cache += points * size_in_bytes(kind.element_type)
        elif row in labels and labels[-1] != beside:
            # Neighbours of the row lie apart: each element is a store of part of a sector.
            work.operations += SCATTERED * points
            work.cache += points * PART_OF_SECTOR
        else:
            work.operations += STORE * points / max(1, plan.integer("vectorize"))
            work.cache += points * size_in_bytes(kind.element_type)
    if plan.takes_turns:
        teams = max(1, there * device.multiprocessors // parts)
        rounds = -(-blocks // teams)
        work.blocks = min(blocks, teams) * parts
        met = MEET * deep + TEAMS / rounds if parts > 1 else 0.0
        if beside != row:
            met *= (1 + NARROW / height) * (1 + parts / TOLD)
        work.alone = rounds * (TURN + met)
    if plan.meets_in_memory:
        # What each block has of a reduction all of its team read.
        high = height if beside != row else 1
        work.cache += SUM * _results(values) * blocks * high * parts * (1 + parts)
    walked = brought * -(-chunks // parts) if streamed else 1
    work.steps = walked + MEETING * deep
    # Rows that all blocks walk at the same time, and walk again, are not in L2 any more.
    rows_read = sum(
        values.points(values.walked(values.own(op.result)))
        * size_in_bytes(op.result.type.element_type)
        for op in values.reached
        if isinstance(op, ReadOp) and row in values.own(op.result)
    )
    share = min(1.0, there * device.multiprocessors / max(1.0, work.blocks))
    if rows_read * share > device.cache_bytes:
        work.again = (brought - 1) * rows_read
    return work


def stores_turned(plan: ScheduleOp, element: Attribute) -> bool:
    """Whether a tile that has rows whole has a sector of what lies across them, where results are
    stored so: they go through shared memory then."""
    resident = plan.algo_choice.data["rows"] == StringAttr("resident")
    return resident and plan.tile_sizes[0] * size_in_bytes(element) >= SECTOR


def _results(values: Values) -> int:
    """What reductions give each row that leave it: no inner ones of those that are joined."""
    ops = values.kernel.body.block.ops
    return sum(len(op.results) for op in ops if isinstance(op, ReduceOp | ReduceTogetherOp))


def _passes(values: Values, row: str) -> int:
    """How often a row is walked: for reductions that need others', and for what is stored."""
    depth: dict[SSAValue, int] = {}

    def seen_from(op: Operation | None, value: SSAValue) -> int:
        # Reductions that one walk does together count once, where their results leave it.
        chunk = _chunk(value.owner)
        return depth[value] + (chunk is not None and chunk is not _chunk(op))

    def deep(value: SSAValue) -> int:
        # A value is reached by several ways: what it needs comes first, whichever was walked first.
        left = [values.real(value)]
        while left:
            here = left[-1]
            op = here.owner
            below = values.operands(op) if isinstance(op, Operation) else []
            if missing := [v for v in below if v not in depth]:
                left += missing
                continue
            left.pop()
            most = max((seen_from(cast(Operation, op), v) for v in below), default=0)
            alone = isinstance(op, ReduceOp) and row in op.labels and _chunk(op) is None
            depth[here] = most + alone
        return seen_from(None, values.real(value))

    outputs = [deep(v) + (row in val_type(v).labels) for v in values.kernel.yield_op.values]
    return max(1, *outputs)


def _chunk(op: object) -> ReduceTogetherOp | None:
    """The reductions of one walk that an op is part of."""
    parent = op.parent_op() if isinstance(op, Operation) else None
    return parent if isinstance(parent, ReduceTogetherOp) else None
