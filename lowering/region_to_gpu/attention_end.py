"""``region-to-gpu``: what follows the softmax of an attention, into its outputs (S6.10, T3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects import region
from polyc.dialects.gpu import tile
from polyc.lowering.region_to_gpu.attention_parts import (
    Parts,
    QueryTile,
    Rows,
    sizes_of,
)
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Making, Point, element_of
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.views import behind_views

Outputs = Sequence[tuple[SSAValue, SSAValue]]
"""Values of the region, and the tensors that they go to."""


@dataclass
class End:
    """The end of a kernel of attention for the tile of queries ``at``.

    ``total`` is the sum of each query's weights, ``sums`` its weighted sums of V.  ``rows.alpha``
    is written over.
    """

    parts: Parts
    at: QueryTile
    rows: Rows
    total: SSAValue
    sums: SSAValue

    def write(self, emit: Emit) -> None:
        """The outputs over V's features from the sums, the others from the totals."""
        attention = self.parts.attention
        kernel = attention.kernel
        outputs = list(zip(kernel.yield_op.values, self.parts.frame.outputs, strict=True))
        wide = [o for o in outputs if attention.width_axis in type_of(o[0]).labels]
        narrow = [o for o in outputs if o not in wide]
        if narrow:
            self.map(emit, self.total, narrow)
        if wide:
            divided = any(self.by_total(op) for op in kernel.body.block.ops)
            self.map(emit, self.sums, wide, self.inverse(emit) if divided else None)

    def by_total(self, op: Operation) -> bool:
        """Whether an op divides by the sum of a query's weights."""
        return (
            isinstance(op, region.BinaryOp)
            and op.fn.data == "div"
            and behind_views(op.rhs) is self.parts.attention.total
        )

    def inverse(self, emit: Emit) -> SSAValue:
        """1 / total of each query: sums are multiplied by it, as a division takes ten times as
        long.  A total is 0, where the quotient is not asked for, or 1 or more, or not finite."""

        def body(inner: Emit, total: SSAValue) -> list[SSAValue]:
            return [inner.value(arith.DivfOp(self.parts.number(inner, 1.0), total))]

        self.parts.map(emit, self.total, [], [self.rows.alpha], body)
        return self.rows.alpha

    def map(
        self, emit: Emit, space: SSAValue, outputs: Outputs, inverse: SSAValue | None = None
    ) -> None:
        """What the region says of each element of ``space``."""
        attention = self.parts.attention
        rank = len(sizes_of(space))
        axes = self.parts.places()
        axes[attention.width_axis] = COLUMN
        block = Block(arg_types=[f32])
        inputs: list[SSAValue] = []

        def scalar(fragment: SSAValue) -> SSAValue:
            if fragment is space:
                return block.args[0]
            inputs.append(fragment)
            return block.insert_arg(f32, len(block.args))

        states = {attention.total: self.total, attention.maximum: self.rows.maximum}
        if rank == 2:
            states[attention.weighted] = space
        known = {state: scalar(f) for state, f in states.items() if state.first_use is not None}
        before = Emit()
        scale = attention.score.scale
        if attention.maximum in known and scale is not None:
            # The fragment holds the largest product.
            product = arith.MulfOp(known[attention.maximum], self.parts.number(before, scale))
            known[attention.maximum] = before.value(product)
        factor = None if inverse is None else scalar(inverse)
        origin = [*self.at.batch, self.at.row]
        point = _Element(self, factor, block, known, axes, rank, origin)
        results: list[SSAValue] = []
        places: list[AffineMap] = []
        for value, tensor in outputs:
            results.append(point.cast(point.scalar(value), element_of(tensor)))
            places.append(point.map([axes[label] for label in type_of(value).labels]))
        block.add_ops([*before.ops, *point.emit.ops, tile.YieldOp(results)])
        new = tile.MapOp(
            space,
            point.origin,
            [*inputs, *point.inputs],
            [tensor for _, tensor in outputs],
            [*(point.map((ROW,)) for _ in inputs), *point.input_maps, *places],
            Region(block),
        )
        emit.op(located(new, attention.kernel.yield_op))


class _Element(Point):
    """A point of the end; ``inverse``, if given, is 1 / total there."""

    def __init__(
        self,
        end: End,
        inverse: SSAValue | None,
        block: Block,
        known: Mapping[SSAValue, SSAValue],
        axes: Mapping[str, AffineExpr],
        rank: int,
        origin: Sequence[SSAValue],
    ) -> None:
        super().__init__(end.parts.frame, block, known, axes, rank, origin)
        self.end = end
        self.inverse = inverse

    def make(self, op: Operation) -> Making:
        if self.inverse is not None and self.end.by_total(op):
            return self.emit.value(arith.MulfOp((yield op.operands[0]), self.inverse))
        return (yield from super().make(op))
