"""``frontend-to-tiny``: scatters, whose indices come to have the shape of their updates (S3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import (
    MAX_BITS,
    Number,
    bounds,
    holds,
    is_integer,
    neutral,
    width,
)
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.common.sizes import product
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace
from polyc.lowering.frontend_to_tiny.gathers import from_start, index_of
from polyc.lowering.frontend_to_tiny.in_parts import cut, parts_near

IN_ORDER = 64
"""Updates up to which a sum of them is rounded after each, in their order."""

GROUPED, FEWEST = 16, 4
"""Updates of a place that a group of them has about, and groups at least: the lists of places of
all groups are as long, and made side by side."""

SMALL = 16
"""Bits of integers whose sums as real numbers are counted."""

REDUCED = {"add": ("sum", "add"), "mul": ("prod", "mul"), "max": ("max",) * 2, "min": ("min",) * 2}
"""The reduction of updates that all fall to one place, and how that is combined into it."""


class LowerScatter(RewritePattern):
    """A scatter → ``tiny.scatter`` of indices and updates of one shape, or, of one update of each
    line along the axis, as one-hot rows are, a choice at each element between it and what is there.

    Exact.  Legal when the operands are lowered.  Conditions go as 1 and 0.  What more updates than
    are rounded in their order come to along an axis of one point is a reduction of those that are
    not left out: one place has no lists.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: frontend.ScatterOp | frontend.ScatterElementsOp | frontend.ScatterNdOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        values = lowered_all(op.operands)
        if values is None:
            return
        build = Builder.before(op, rewriter)
        value, indices, updates = values
        conditions = tiny.tensor_of(value).element_type == i1
        if conditions:
            value, updates = (_numbers(build, v) for v in (value, updates))
        match op:
            case frontend.ScatterOp():
                found = self._rows(build, op, value, indices, updates)
            case frontend.ScatterElementsOp():
                found = self._elements(build, op, value, indices, updates)
            case _:
                found = self._tuples(build, op, value, indices, updates)
        if conditions:
            zero = build.splat(0.0, tiny.tensor_of(found).dims)
            found = build.compare("ne", found, zero)
        replace(op, found, rewriter)

    def _rows(
        self,
        build: Builder,
        op: frontend.ScatterOp,
        value: SSAValue,
        indices: SSAValue,
        updates: SSAValue,
    ) -> SSAValue:
        """The axes of the indices are one, in their order."""
        axis, sizes, own = op.number, tiny.tensor_of(value).dims, tiny.tensor_of(indices).dims
        index = from_start(build, indices, sizes[axis], op.counts_from_end)
        count = product(own)
        shape = (*sizes[:axis], count, *sizes[axis + 1 :])
        if len(own) != 1:
            index = build.reshape(index, (count,))
            updates = build.reshape(updates, shape)
        index = build.expand(index, [axis], shape)
        many = (count.constant() or 0) > IN_ORDER
        if many and sizes[axis] == Dim.const(1) and op.function in REDUCED:
            return _reduced(build, op.function, value, updates, index, axis)
        if shape[axis].constant() == 1:
            return _chosen(build, op.function, value, updates, index, axis)
        return _combined(build, op.function, value, updates, [index], [axis], axis)

    def _elements(
        self,
        build: Builder,
        op: frontend.ScatterElementsOp,
        value: SSAValue,
        indices: SSAValue,
        updates: SSAValue,
    ) -> SSAValue:
        """Where there are fewer updates along another axis, places of that axis are indices too."""
        axis, sizes = op.number, tiny.tensor_of(value).dims
        shape = tiny.tensor_of(updates).dims
        index = from_start(build, indices, sizes[axis], op.counts_from_end)
        axes = [i for i in range(len(sizes)) if i == axis or sizes[i] != shape[i]]
        if axes == [axis] and shape[axis].constant() == 1:
            return _chosen(build, op.function, value, updates, index, axis)
        element = tiny.tensor_of(index).element_type
        found: list[SSAValue] = []
        for i in axes:
            if i == axis:
                found.append(index)
                continue
            iota = build.add(tiny.IotaOp(shape[i], element))
            found.append(build.expand(iota, [i], shape))
        if len(axes) > 1:
            return build.add(tiny.ScatterOp(op.function, value, updates, found, axes))
        return _combined(build, op.function, value, updates, found, axes, axis)

    def _tuples(
        self,
        build: Builder,
        op: frontend.ScatterNdOp,
        value: SSAValue,
        indices: SSAValue,
        updates: SSAValue,
    ) -> SSAValue:
        """The tuples stand along the first axis that they have an index of, in their order; the
        other axes of these have one point.
        """
        batch, sizes, own = op.number, tiny.tensor_of(value).dims, tiny.tensor_of(indices).dims
        count = own[-1].constant()
        assert count is not None
        tuples = product(own[batch:-1])
        one = [Dim.const(1)] * (count - 1)
        shape: Shape = (*own[:batch], tuples, *one, *sizes[batch + count :])
        found: list[SSAValue] = []
        for i in range(count):
            part = build.reshape(index_of(build, indices, i), (*own[:batch], tuples))
            index = from_start(build, part, sizes[batch + i], op.counts_from_end)
            found.append(build.expand(index, range(batch + 1), shape))
        updates = build.reshape(updates, shape)
        axes = range(batch, batch + count)
        return _combined(build, op.function, value, updates, found, axes, batch)


def _reduced(
    build: Builder, fn: str, value: SSAValue, updates: SSAValue, index: SSAValue, axis: int
) -> SSAValue:
    """What all updates whose index is 0 come to, combined into the one place that an axis has."""
    shape, kind = tiny.tensor_of(updates).dims, tiny.tensor_of(updates).element_type
    reduction, combined = REDUCED[fn]
    zero = build.splat(0, shape, tiny.tensor_of(index).element_type)
    nothing = build.splat(neutral(reduction, kind), shape, kind)
    taken = build.select(build.compare("eq", index, zero), updates, nothing)
    found = build.reduce(reduction, taken, (axis,))
    found = build.repeat(found, (axis,), tiny.tensor_of(value).dims)
    return build.binary(combined, value, found)


def _combined(
    build: Builder,
    fn: str,
    value: SSAValue,
    updates: SSAValue,
    indices: Sequence[SSAValue],
    axes: Sequence[int],
    over: int,
) -> SSAValue:
    """A scatter of updates that stand along the axis ``over``; in groups, sums and products of real
    numbers of which so many fall to each of few places that a list of all would be cut into parts.

    A group of updates, in their order, has a result of its own, and these are combined.  Ones that
    are the same number are counted, and what is an integer has no order.
    """
    sizes, own = tiny.tensor_of(value).dims, tiny.tensor_of(updates)
    places = [sizes[axis] for axis in axes]
    groups = _groups(fn, updates, own.dims[over], places)
    if groups is None or any(
        _largest(one) < (size.constant() or 0) for one, size in zip(indices, places, strict=True)
    ):
        return build.add(tiny.ScatterOp(fn, value, updates, indices, axes))
    reduction, combined = REDUCED[fn]
    none = neutral(reduction, own.element_type)
    # Updates that follow each other are of other groups, as sorted ones fall to one place.  Along
    # lines groups lie beside each other.
    parts = -(-(own.dims[over].constant() or 0) // groups)
    beside = all(size == Dim.const(1) for size in own.dims[over + 1 :])

    def parted(value: SSAValue, fill: Number) -> SSAValue:
        value = cut(build, value, over, parts, fill)
        order = list(range(len(own.dims) + 1))
        order[over : over + 2] = over + 1, over
        return value if beside else build.permute(value, order)

    # What fills up the last of them falls to no place.
    updates = parted(updates, none)
    indices = [parted(one, _largest(one)) for one in indices]
    group = over + beside
    start = (*sizes[:group], tiny.tensor_of(updates).dims[group], *sizes[group:])
    nothing = build.splat(none, start, own.element_type)
    axes = [axis + (axis >= group) for axis in axes]
    found = build.add(tiny.ScatterOp(fn, nothing, updates, indices, axes))
    return build.binary(combined, value, build.reduce(reduction, found, (group,)))


def _groups(fn: str, updates: SSAValue, count: Dim, places: Sequence[Dim]) -> int | None:
    """How many groups so many updates are parted into, of places along axes; None for no groups."""
    number, sizes = count.constant(), [size.constant() for size in places]
    if fn not in ("add", "mul") or is_integer(tiny.tensor_of(updates).element_type):
        return None
    if not number or not all(sizes) or _is_constant(updates):
        return None
    rows = prod(size or 0 for size in sizes)
    if number <= rows * IN_ORDER:
        return None
    groups = parts_near(number, number // (rows * GROUPED))
    return groups if groups >= FEWEST else None


def _largest(index: SSAValue) -> int:
    """The largest number of an index's type."""
    return bounds(tiny.tensor_of(index).element_type)[1]


def _is_constant(value: SSAValue) -> bool:
    """Whether a value is one number, or as small integers are."""
    while isinstance(op := value.owner, MovementOp):
        value = op.source
    if isinstance(op, tiny.CastOp):
        kind = tiny.tensor_of(op.operand).element_type
        return (is_integer(kind) and width(kind) <= SMALL) or _is_constant(op.operand)
    return isinstance(op, tiny.ConstantOp)


def _chosen(
    build: Builder, fn: str, value: SSAValue, updates: SSAValue, index: SSAValue, axis: int
) -> SSAValue:
    """One update of each line along an axis, as a choice at each element of the operand."""
    sizes = tiny.tensor_of(value).dims
    kind, size = tiny.tensor_of(index).element_type, sizes[axis].constant()
    if size is None or not holds(kind, max(size - 1, 0)):
        kind = i64 if width(kind) < MAX_BITS else kind
        index = build.cast(index, kind)
    place = build.add(tiny.IotaOp(sizes[axis], kind))
    index, updates = (build.aligned(one, sizes) for one in (index, updates))
    met = build.compare("eq", index, build.expand(place, [axis], sizes))
    made = updates if fn == "set" else build.binary(fn, value, updates)
    return build.select(met, made, value)


def _numbers(build: Builder, value: SSAValue) -> SSAValue:
    """Conditions as 1 and 0."""
    dims = tiny.tensor_of(value).dims
    return build.select(value, build.splat(1.0, dims), build.splat(0.0, dims))
