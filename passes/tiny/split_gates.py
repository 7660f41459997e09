"""``tiny-split-gates``: a product whose two halves are computed with is two products of the halves.

A layer of SwiGLU or GEGLU has one weight for the gate and for what is gated, and cuts its product
in two.  As two products of the same rows they are one kernel with what is computed of both, and
the product itself is stored nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, bf16, f16
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.movements import MovementOp, numbers
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.region.building import erase_unused
from polyc.rewriting.tiny.elementwise import ELEMENTWISE


class SplitGate(RewritePattern):
    """A product of which the two halves along an axis are read → the products of these halves.

    Legal where nothing else reads the product, or what is computed of it element by element before
    it is cut; the halves are equal and make up the axis, which only one factor has.  Worth it where
    something is computed of both halves at the same places, and the factors are of 16 bits: it is
    one kernel with the products then, which those of f32 would not be.  Exact: each element is the
    sum that it was.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReduceOp, rewriter: PatternRewriter, /) -> None:
        product = _product(op)
        if product is None or not all(map(_is_narrow, product.operands)):
            return
        last, halves = _cut(op.result)
        if halves is None:
            return
        axis = _axis(halves)
        if axis is None or not _meet(halves):
            return
        inside = _kept(op)[axis]
        if sum(inside in _axes_of(factor) for factor in product.operands) != 1:
            return
        for half in halves:
            part = _Part(rewriter, half, half.low[axis], half.high[axis])
            rewriter.replace(half, [], [part.of(last, axis)])
        if isinstance(last.owner, Operation):
            erase_unused(last.owner, rewriter)


def _product(op: tiny.ReduceOp) -> tiny.BinaryOp | None:
    """The product of two values that a sum is of."""
    product = op.operand.owner
    if op.function != "sum" or not isinstance(product, tiny.BinaryOp) or product.function != "mul":
        return None
    one, other = product.operands
    apart = one is not other and one.has_one_use() and other.has_one_use()
    return product if apart and product.result.has_one_use() else None


def _is_narrow(value: SSAValue) -> bool:
    """Whether a value is widened from a type of 16 bits, and moved."""
    while isinstance(op := value.owner, MovementOp):
        value = op.operands[0]
    if not isinstance(op, tiny.CastOp):
        return False
    return tiny.tensor_of(op.operand).element_type in (f16, bf16)


def _cut(value: SSAValue) -> tuple[SSAValue, tuple[tiny.SliceOp, tiny.SliceOp] | None]:
    """What is computed of a value alone, element by element, and the two slices of that which are
    all that reads it; None for these where it is read otherwise."""
    while True:
        readers = [use.operation for use in value.uses]
        match readers:
            case [tiny.SliceOp() as one, tiny.SliceOp() as other]:
                first, second = (one, other) if one.is_before_in_block(other) else (other, one)
                return value, (first, second)
            case [only] if isinstance(only, ELEMENTWISE) and len(only.results) == 1:
                value = only.results[0]
            case _:
                return value, None


def _axis(halves: Sequence[tiny.SliceOp]) -> int | None:
    """The axis that two slices halve; None where they do anything else."""
    dims = tiny.tensor_of(halves[0].operand).dims
    places = [
        axis
        for axis, size in enumerate(dims)
        if any((half.low[axis], half.high[axis]) != (Dim.const(0), size) for half in halves)
    ]
    if len(places) != 1 or any(step != 1 for half in halves for step in half.steps):
        return None
    (axis,) = places
    low, high = sorted(halves, key=lambda half: half.low[axis] != Dim.const(0))
    ends = low.low[axis], low.high[axis], high.high[axis]
    even = ends[1] == high.low[axis] and ends[1] + ends[1] == ends[2]
    return axis if even and (ends[0], ends[2]) == (Dim.const(0), dims[axis]) else None


def _meet(halves: Sequence[tiny.SliceOp]) -> bool:
    """Whether something is computed of both halves at the same places."""
    one, other = (set(_computed(half.result)) for half in halves)
    return not one.isdisjoint(other)


def _computed(value: SSAValue) -> Iterator[Operation]:
    """The ops that compute something of a value, element by element."""
    stack, seen = [value], set[Operation]()
    while stack:
        for use in stack.pop().uses:
            op = use.operation
            if isinstance(op, ELEMENTWISE) and op not in seen:
                seen.add(op)
                stack += op.results
                yield op


def _kept(op: tiny.ReduceOp) -> list[int]:
    """The axis of what is reduced that each axis of the result is."""
    rank = tiny.tensor_of(op.operand).rank
    return [axis for axis in range(rank) if axis not in op.axes]


def _axes_of(value: SSAValue) -> set[int]:
    """The axes along which a factor differs."""
    op = value.owner
    if not isinstance(op, tiny.ExpandOp):
        return set(range(tiny.tensor_of(value).rank))
    return set(op.dims) - set(op.stretched())


@dataclass
class _Part:
    """Makes values anew from ``low`` to ``high`` along one axis, where a slice was read."""

    rewriter: PatternRewriter
    at: tiny.SliceOp
    low: Dim
    high: Dim

    def of(self, value: SSAValue, axis: int) -> SSAValue:
        """A value's part along an axis."""
        op = value.owner
        match op:
            case tiny.ReduceOp():
                source = self.of(op.operand, _kept(op)[axis])
                made = tiny.ReduceOp(op.function, source, op.axes, self.kind(value, axis))
                made.properties |= {k: v for k, v in op.properties.items() if k != "axes"}
            case tiny.ExpandOp():
                source = op.operand
                if axis in op.dims and axis not in op.stretched():
                    source = self.of(source, op.dims.index(axis))
                made = tiny.ExpandOp(source, op.dims, self.kind(value, axis))
            case tiny.PermuteOp():
                source = self.of(op.operand, numbers(op.permutation)[axis])
                made = type(op).create(
                    operands=[source],
                    result_types=[self.kind(value, axis)],
                    properties=dict(op.properties),
                )
            case Operation() if isinstance(op, ELEMENTWISE):
                made = type(op).create(
                    operands=[self.of(operand, axis) for operand in op.operands],
                    result_types=[self.kind(value, axis)],
                    properties=dict(op.properties),
                )
            case _:
                dims = tiny.tensor_of(value).dims
                low, high = [Dim.const(0) for _ in dims], list(dims)
                low[axis], high[axis] = self.low, self.high
                made = tiny.SliceOp(value, low, high)
        located(made, op if isinstance(op, Operation) else self.at)
        self.rewriter.insert(made, InsertPoint.before(self.at))
        return made.results[0]

    def kind(self, value: SSAValue, axis: int) -> tiny.TensorType:
        """The type of a value's part."""
        dims = list(tiny.tensor_of(value).dims)
        dims[axis] = self.high - self.low
        return tiny.tensor(dims, tiny.tensor_of(value).element_type)


@dataclass(frozen=True)
class TinySplitGates(ModulePass):
    """Products that are cut in two halves, which are computed with, are two products."""

    name = "tiny-split-gates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SplitGate()])
