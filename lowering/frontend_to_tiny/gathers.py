"""``frontend-to-tiny``: gathers, whose indices come to have the shape of the result (S3.1)."""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import MAX_BITS, Number, holds, is_unsigned, neutral, width
from polyc.dialects.index import is_widening
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace
from polyc.lowering.frontend_to_tiny.windows_taken import windows_taken


class LowerGather(RewritePattern):
    """A gather → ``tiny.gather`` of indices and an operand that are spread to the same axes, or a
    ``tiny.window`` where its places slide along one (``windows_taken``).

    Exact.  Legal when the operands are lowered.  Real numbers are gathered in the type in which
    they lie in memory, where that holds the fill, and widened after.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: frontend.GatherOp | frontend.GatherElementsOp | frontend.GatherNdOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        values = lowered_all(op.operands)
        if values is None:
            return
        build = Builder.before(op, rewriter)
        value, indices = values
        wide = tiny.tensor_of(value).element_type
        value = as_stored(value, op.outside)
        shape = frontend.tensor_of(op.result).dims
        match op:
            case frontend.GatherOp():
                found = windows_taken(build, value, indices, op.number)
                found = found or self._take(build, op, value, indices)
            case frontend.GatherElementsOp():
                found = self._elements(build, op, value, indices, shape)
            case _:
                found = self._tuples(build, op, value, indices, shape)
        replace(op, build.cast(found, wide), rewriter)

    def _take(
        self, build: Builder, op: frontend.GatherOp, value: SSAValue, indices: SSAValue
    ) -> SSAValue:
        """One axis of the operand becomes those of the indices, of which the first is gathered."""
        axis, before, own = op.number, tiny.tensor_of(value).dims, tiny.tensor_of(indices).dims
        index = from_start(build, indices, before[axis], op.counts_from_end)
        if not own:
            index = build.reshape(index, (Dim.const(1),))
        first, *rest = own or (Dim.const(1),)
        shape = (*before[:axis], first, *rest, *before[axis + 1 :])
        index = build.expand(index, range(axis, axis + 1 + len(rest)), shape)
        if rest:
            kept = [*range(axis + 1), *range(axis + 1 + len(rest), len(shape))]
            value = build.expand(value, kept, (*before[: axis + 1], *rest, *before[axis + 1 :]))
        found = build.add(tiny.GatherOp(value, [index], [axis], op.outside))
        return found if own else build.reshape(found, (*before[:axis], *before[axis + 1 :]))

    def _elements(
        self,
        build: Builder,
        op: frontend.GatherElementsOp,
        value: SSAValue,
        indices: SSAValue,
        shape: Shape,
    ) -> SSAValue:
        """The indices have the shape of the result; of the operand what they are beside is left."""
        axis, sizes = op.number, tiny.tensor_of(value).dims
        ends = [
            n if i == axis or n == m else m
            for i, (n, m) in enumerate(zip(sizes, shape, strict=True))
        ]
        if list(sizes) != ends:
            value = build.add(
                tiny.SliceOp(value, [Dim.const(0)] * len(ends), ends, [1] * len(ends))
            )
        index = from_start(build, indices, sizes[axis], op.counts_from_end)
        return build.add(tiny.GatherOp(value, [index], [axis], op.outside))

    def _tuples(
        self,
        build: Builder,
        op: frontend.GatherNdOp,
        value: SSAValue,
        indices: SSAValue,
        shape: Shape,
    ) -> SSAValue:
        """The axes of the indices stand in the place of the first of those that they are along,
        and the others of these have one point, which goes in the end.
        """
        batch, sizes, own = op.number, tiny.tensor_of(value).dims, tiny.tensor_of(indices).dims
        count = own[-1].constant()
        assert count is not None
        parts = [index_of(build, indices, i) for i in range(count)]
        tuples = own[batch:-1] or (Dim.const(1),)
        first, *rest = tuples
        one = [Dim.const(1)] * (count - 1)
        whole = (*own[:batch], first, *one, *rest, *sizes[batch + count :])
        places = [*range(batch), *([batch] if own[batch:-1] else [])]
        places += range(batch + count, batch + count + len(rest))
        found: list[SSAValue] = []
        for i, part in enumerate(parts):
            index = from_start(build, part, sizes[batch + i], op.counts_from_end)
            found.append(build.expand(index, places, whole))
        if rest:
            spread = (*sizes[: batch + count], *rest, *sizes[batch + count :])
            kept = [*range(batch + count), *range(batch + count + len(rest), len(spread))]
            value = build.expand(value, kept, spread)
        axes = range(batch, batch + count)
        gathered = build.add(tiny.GatherOp(value, found, axes, op.outside))
        return gathered if tuple(whole) == tuple(shape) else build.reshape(gathered, shape)


def part_of(build: Builder, indices: SSAValue, number: int) -> SSAValue:
    """One number of each tuple."""
    own = tiny.tensor_of(indices).dims
    low = [*(Dim.const(0) for _ in own[:-1]), Dim.const(number)]
    high = [*own[:-1], Dim.const(number + 1)]
    part = build.add(tiny.SliceOp(indices, low, high, [1] * len(own)))
    return build.reshape(part, own[:-1])


def index_of(build: Builder, indices: SSAValue, number: int) -> SSAValue:
    """One index of each tuple; of tuples that are joined, the tensor that it is in."""
    alone = _joined_at(indices, number)
    if alone is None:
        return part_of(build, indices, number)
    return build.reshape(alone, tiny.tensor_of(indices).dims[:-1])


def _joined_at(indices: SSAValue, number: int) -> SSAValue | None:
    """What a concat along the last axis, a maximum of its padded parts, has at one place there:
    the part that is padded to it, of one place; None where it is no such concat."""
    op = indices.owner
    if isinstance(op, tiny.BinaryOp) and op.function == "max":
        found = (_joined_at(value, number) for value in op.operands)
        return next((value for value in found if value is not None), None)
    if not isinstance(op, tiny.PadOp):
        return None
    kind, last = tiny.tensor_of(op.operand), len(op.low) - 1
    along = any(low != Dim.const(0) for low in (*op.low[:last], *op.high[:last]))
    alone = op.low[last].constant() == number and kind.dims[last].constant() == 1
    least = op.number == neutral("max", kind.element_type)
    return op.operand if alone and least and not along else None


def as_stored(value: SSAValue, fill: Number | None) -> SSAValue:
    """What a value is widened from, where that type holds the fill; or itself."""
    op = value.owner
    if not is_widening(value) or not isinstance(op, tiny.CastOp):
        return value
    held = fill is None or holds(tiny.tensor_of(op.operand).element_type, fill)
    return op.operand if held else value


def from_start(build: Builder, index: SSAValue, size: Dim, from_end: bool) -> SSAValue:
    """Indices that count from the start, where negative ones may count ``from_end``.

    Those that are repeated are counted before that: it stays plain that they are.
    """
    kind = tiny.tensor_of(index)
    if not from_end or is_unsigned(kind.element_type):
        return index
    repeat = index.owner
    if isinstance(repeat, tiny.ExpandOp) and tiny.tensor_of(repeat.operand).dims:
        once = from_start(build, repeat.operand, size, from_end)
        return build.expand(once, repeat.dims, kind.dims)
    if width(kind.element_type) < MAX_BITS:
        index = build.cast(index, i64)
    count = build.spread(build.add(tiny.DimOp(size, tiny.tensor((), i64))), kind.dims)
    zero = build.splat(0, kind.dims, i64)
    below = build.compare("lt", index, zero)
    return build.select(below, build.binary("add", index, count), index)
