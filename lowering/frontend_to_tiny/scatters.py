"""``frontend-to-tiny``: scatters, whose indices come to have the shape of their updates (S3.1)."""

from __future__ import annotations

from xdsl.dialects.builtin import i1, i64
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import MAX_BITS, holds, width
from polyc.dialects.common.sizes import product
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace
from polyc.lowering.frontend_to_tiny.gathers import from_start, index_of


class LowerScatter(RewritePattern):
    """A scatter → ``tiny.scatter`` of indices and updates of one shape, or, of one update of each
    line along the axis, as one-hot rows are, a choice at each element between it and what is there.

    Exact.  Legal when the operands are lowered.  Conditions go as 1 and 0.
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
        return _scattered(build, op.function, value, updates, index, axis)

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
        if axes == [axis]:
            return _scattered(build, op.function, value, updates, index, axis)
        element = tiny.tensor_of(index).element_type
        found: list[SSAValue] = []
        for i in axes:
            if i == axis:
                found.append(index)
                continue
            iota = build.add(tiny.IotaOp(shape[i], element))
            found.append(build.expand(iota, [i], shape))
        return build.add(tiny.ScatterOp(op.function, value, updates, found, axes))

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
        return build.add(tiny.ScatterOp(op.function, value, updates, found, axes))


def _scattered(
    build: Builder, fn: str, value: SSAValue, updates: SSAValue, index: SSAValue, axis: int
) -> SSAValue:
    """Updates at indices along one axis, whose other axes are the operand's."""
    shape, sizes = tiny.tensor_of(updates).dims, tiny.tensor_of(value).dims
    if shape[axis].constant() != 1:
        return build.add(tiny.ScatterOp(fn, value, updates, [index], [axis]))
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
