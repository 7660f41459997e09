"""``frontend-to-tiny``: a gather at places that slide along an axis is of its windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import bounds, is_integer
from polyc.lowering.frontend_to_tiny.builder import Builder

ONE = Dim.const(1)


@dataclass(frozen=True)
class Counted:
    """Integers ``start`` plus, for each axis of their tensor, a step times the place along it."""

    start: int
    steps: Mapping[int, int]

    def moved(self, places: Mapping[int, int]) -> Counted:
        """The same where each axis has another number."""
        return Counted(self.start, {places[axis]: step for axis, step in self.steps.items()})


def counted(value: SSAValue) -> Counted | None:
    """Integers that count along the axes of their tensor; None where that is not seen."""
    kind, op = tiny.tensor_of(value), value.owner
    if not is_integer(kind.element_type) or not isinstance(op, Operation):
        return None
    found: Counted | None = None
    match op:
        case tiny.IotaOp():
            found = Counted(0, {} if kind.dims[0] == ONE else {0: 1})
        case tiny.ConstantOp():
            found = Counted(int(op.number), {})
        case tiny.ExpandOp():
            found, stretched = counted(op.operand), op.stretched()
            places = dict(enumerate(op.dims))
            if found is None or any(places[axis] in stretched for axis in found.steps):
                return None
            found = found.moved(places)
        case tiny.PermuteOp():
            found = counted(op.operand)
            places = {axis: at for at, axis in enumerate(op.perm)}
            found = None if found is None else found.moved(places)
        case tiny.ReshapeOp():
            found = _reshaped(op)
        case tiny.CastOp():
            found = counted(op.operand)
        case tiny.BinaryOp() if op.function in ("add", "sub", "mul"):
            found = _combined(op)
        case _:
            return None
    return found if found is not None and _holds(kind, found) else None


def _reshaped(op: tiny.ReshapeOp) -> Counted | None:
    """Integers that have axes of one point more or less."""
    found = counted(op.operand)
    before, after = (tiny.tensor_of(v).dims for v in (op.operand, op.result))
    long, now = ([i for i, size in enumerate(dims) if size != ONE] for dims in (before, after))
    if found is None or [before[i] for i in long] != [after[i] for i in now]:
        return None
    return found.moved(dict(zip(long, now, strict=True)))


def _combined(op: tiny.BinaryOp) -> Counted | None:
    """Sums and differences of such integers, and products with one that is the same everywhere."""
    left, right = counted(op.lhs), counted(op.rhs)
    if left is None or right is None:
        return None
    if op.function == "mul":
        if left.steps and right.steps:
            return None
        many, one = (left, right.start) if not right.steps else (right, left.start)
        return Counted(many.start * one, {a: step * one for a, step in many.steps.items()})
    sign = 1 if op.function == "add" else -1
    axes = {**left.steps, **right.steps}
    steps = {a: left.steps.get(a, 0) + sign * right.steps.get(a, 0) for a in axes}
    return Counted(left.start + sign * right.start, steps)


def _holds(kind: tiny.TensorType, found: Counted) -> bool:
    """Whether a tensor's type holds all of its integers."""
    ends = extremes(found, kind.dims)
    least, most = bounds(kind.element_type)
    return ends is not None and least <= ends[0] and ends[1] <= most


def extremes(found: Counted, dims: Sequence[Dim]) -> tuple[int, int] | None:
    """The least and the largest of the integers; None where a size is open, or there are none."""
    least = most = found.start
    for axis, step in found.steps.items():
        size = dims[axis].constant()
        if not size:
            return None
        reach = step * (size - 1)
        least, most = least + min(0, reach), most + max(0, reach)
    return least, most


def windows_taken(build: Builder, value: SSAValue, indices: SSAValue, axis: int) -> SSAValue | None:
    """The windows of a value that a gather along one axis reads, or None where its places do not
    slide.

    Of places ``start + stride * i + dilation * j`` of two axes, of known sizes and inside of the
    operand: clamped, filled or counted from the end, they are the same.  Exact: an element is the
    same one of what is read.
    """
    own, found = tiny.tensor_of(indices).dims, counted(indices)
    sizes = tiny.tensor_of(value).dims
    if found is None or len(own) != 2 or set(found.steps) != {0, 1}:
        return None
    ends, whole = extremes(found, own), sizes[axis].constant()
    if ends is None or whole is None or ends[0] < 0 or ends[1] >= whole:
        return None
    if min(found.steps.values()) < 1:
        return None
    many, few = (0, 1) if _points(own[0]) >= _points(own[1]) else (1, 0)
    if ends != (0, whole - 1):
        low, high = [Dim.const(0)] * len(sizes), list(sizes)
        low[axis], high[axis] = Dim.const(ends[0]), Dim.const(ends[1] + 1)
        value = build.add(tiny.SliceOp(value, low, high, [1] * len(sizes)))
    steps = (found.steps[many],), (found.steps[few],)
    made = build.add(tiny.WindowOp(value, (axis,), (own[few],), *steps))
    # The elements of a window stand last, and belong behind or in front of its place.
    order = [*range(axis), *((axis, len(sizes)) if few else (len(sizes), axis))]
    order += range(axis + 1, len(sizes))
    if order == list(range(len(order))):
        return made
    return build.add(tiny.PermuteOp(made, order))


def _points(size: Dim) -> int:
    return size.constant() or 0
