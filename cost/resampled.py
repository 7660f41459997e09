"""What a kernel of loops does whose threads have neighbours, and bring once what several read.

Along the lines of memory (``resampled``), or along the rows of a tile (``resampled_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.affine.repeating import alone, at, inner_and_ends
from polyc.cost.values import Values, innermost, operations, read_labels, size_in_bytes
from polyc.cost.work import LOAD, SECTOR, Work
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.region import IndexOp, InsideOp, ReadOp
from polyc.dialects.region.types import MemRefType, val_type

BEGINS = 125e-9
"""Seconds of a multiprocessor for one more tile: 106,008 tiles of 56 elements take 0.1 ms."""

GUARD, AROUND = 4.0, 24.0
"""Instructions of a vector's bounds, and around a step of a window beside its line."""

LOAD_STORE = 5.0
"""Instructions of a store, and of where an element lies."""


def stored_bytes(values: Values, outputs: int, line: int) -> float:
    """The bytes by which a line is stored of which threads have so many neighbours each: where
    several stores have parts of a sector, it goes to L2 for each of them."""
    sizes = [size_in_bytes(kind.element_type) for kind in values.kernel.outs]
    vector = gcd(max(1, MAX_VECTOR_BYTES // max(sizes)), outputs, line)
    return sum(line * max(size, min(outputs * size, SECTOR) / vector) for size in sizes)


def count_resampled(values: Values, plan: ScheduleOp, work: Work) -> None:
    """The work of a plan whose threads bring what neighbours of a line read.

    What is computed of the same elements of a tensor alone, a thread computes once for them.
    """
    roots = list(values.kernel.yield_op.values)
    *outer, column = val_type(roots[0]).labels
    rows, columns, _ = plan.tile_sizes
    line, lines = values.extents[column], prod(values.extents[a] for a in outer)
    outputs, vector = rows * columns // work.threads, plan.integer("vectorize")
    work.blocks = float(-(-lines // rows) * -(-line // columns))
    threads = work.blocks * work.threads
    each = AROUND + outputs * LOAD_STORE + resampled_operations(values, outputs, column)
    spans: dict[tuple[object, ...], tuple[int, int]] = {}
    for op in values.behind(roots):
        if not isinstance(op, ReadOp):
            continue
        place = _place_along(op, column)
        if place is None:
            each += outputs * LOAD
            work.cache += outputs * threads * size_in_bytes(op.result.type.element_type)
            continue
        read = [at(place, i) for i in range(outputs)]
        labels = op.result.type.labels
        key = (op.tensor, *(str(e) for e in op.map.data.results[:-1]), labels)
        low, high = spans.get(key, (min(read), max(read)))
        spans[key] = min(low, *read), max(high, *read)
    for (tensor, *_), (low, high) in spans.items():
        span = high + 1 - low
        each += (-(-span // vector) + (vector > 1)) * (LOAD + GUARD) + span
        kind = cast("MemRefType", cast(SSAValue, tensor).type).element_type
        work.cache += threads * span * size_in_bytes(kind)
    work.operations += threads * each
    work.steps = 1.0
    work.cache += stored_bytes(values, outputs, line) * lines


def count_resampled_rows(values: Values, plan: ScheduleOp, work: Work) -> None:
    """The same of a plan whose threads have several rows of a vector, and bring those of a tensor
    that these read."""
    roots = list(values.kernel.yield_op.values)
    labels = val_type(roots[0]).labels
    (row,) = (a for a in labels[:-1] if f"{a}.o" in plan.bind.data)
    rows, columns, _ = plan.tile_sizes
    vector, column = plan.integer("vectorize"), labels[-1]
    outputs = rows * columns // work.threads // vector
    outer = prod(values.extents[a] for a in labels if a not in (row, column))
    work.blocks = float(
        outer * -(-values.extents[row] // rows) * -(-values.extents[column] // columns)
    )
    threads = work.blocks * work.threads
    each = AROUND + outputs * LOAD_STORE + resampled_operations(values, outputs, row, vector)
    spans: dict[tuple[object, ...], tuple[int, int]] = {}
    for op in values.behind(roots):
        if not isinstance(op, ReadOp):
            continue
        place, number = _place_of(values, op, row)
        size = size_in_bytes(op.result.type.element_type)
        if place is None:
            own = vector if column in innermost(op) else 1
            each += outputs * LOAD * vector / own
            work.cache += outputs * threads * own * size
            continue
        read = [at(place, i) for i in range(outputs)]
        rest = [str(e) for i, e in enumerate(op.map.data.results) if i != number]
        key = (op.tensor, number, *rest, op.result.type.labels)
        low, high = spans.get(key, (min(read), max(read)))
        spans[key] = min(low, *read), max(high, *read)
    for (tensor, *_), (low, high) in spans.items():
        span = high + 1 - low
        each += span * (LOAD + GUARD + vector)
        kind = cast("MemRefType", cast(SSAValue, tensor).type).element_type
        work.cache += threads * span * vector * size_in_bytes(kind)
    work.operations += threads * each
    work.steps, work.begins = 1.0, BEGINS
    for kind in values.kernel.outs:
        work.cache += size_in_bytes(kind.element_type) * values.points(labels)


def _place_of(values: Values, op: ReadOp, row: str) -> tuple[AffineExpr | None, int]:
    """Where along an axis of its tensor a read is, as a function of a row alone, without what ends
    of the tensor change; and which axis."""
    labels, results = op.result.type.labels, op.map.data.results
    if row not in labels:
        return None, 0
    using = [i for i, e in enumerate(results) if labels.index(row) in e.used_dims()]
    if len(using) != 1 or using[0] == len(results) - 1:
        return None, 0
    found = alone(results[using[0]], labels.index(row))
    if found is not None:
        found, _ = inner_and_ends(found, values.extents[row])
    return found, using[0]


def _place_along(op: ReadOp, column: str) -> AffineExpr | None:
    """Where along the lines of its tensor a read is, as a function of a line's points alone."""
    labels, results = op.result.type.labels, op.map.data.results
    return alone(results[-1], labels.index(column)) if column in labels and results else None


def resampled_operations(values: Values, outputs: int, along: str, vector: int = 1) -> float:
    """The instructions of a thread for what so many neighbours of an axis are made of, other than
    loads, where it has what they read in registers; where it has a ``vector`` of the innermost axis
    of each, what depends on that is computed so often.

    An op is computed once where the neighbours are alike, not at all of a place alone, which its
    register says, and once for each element of a tensor where it is made of those of one place.
    """
    roots = list(values.kernel.yield_op.values)
    column, inner = along, val_type(roots[0]).labels[-1]
    total = 0.0
    made: dict[SSAValue, frozenset[tuple[int, ...] | None]] = {}
    """The elements that neighbours read of what a value is made of, by place; None of what is made
    of the points themselves, or read in another way."""
    for op in _operands_first(values, roots):
        (result,) = op.results
        found = frozenset[tuple[int, ...] | None]()
        if isinstance(op, ReadOp):
            place = _place_along(op, column) if vector == 1 else _place_of(values, op, column)[0]
            read = None if place is None else tuple(at(place, i) for i in range(outputs))
            found = frozenset((read,)) if column in read_labels(op) else found
        elif isinstance(op, IndexOp | InsideOp) and column in op.result.type.labels:
            found = frozenset((None,))
        else:
            found = found.union(*(made[v] for v in values.operands(op)))
        made[result] = found
        if isinstance(op, ReadOp):
            continue
        own = set(values.own(result))
        times = vector if inner in own else 1
        if not found:
            total += times * operations(op)
        elif len(found) == 1 and None not in found:
            total += times * len(set(next(iter(found)) or ())) * operations(op)
        elif own != {column}:
            total += times * outputs * operations(op)
    return total


def _operands_first(values: Values, roots: Sequence[SSAValue]) -> list[Operation]:
    """The ops behind values, each before what it takes."""
    found: dict[Operation, None] = {}
    stack: list[tuple[SSAValue, bool]] = [(values.real(v), False) for v in roots]
    while stack:
        value, done = stack.pop()
        op = value.owner
        if not isinstance(op, Operation) or op in found:
            continue
        if done:
            found[op] = None
            continue
        stack.append((value, True))
        stack += [(v, False) for v in values.operands(op)]
    return list(found)
