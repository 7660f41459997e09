"""Values of a kernel in the making: ops added at the end of its body, brought to common axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineSet

from polyc.dialects import region
from polyc.dialects.common.elements import Number
from polyc.dialects.region.types import AxisAttr, ValType
from polyc.rewriting.driver import located


class Values:
    """Adds ops to the end of ``block``."""

    def __init__(self, block: Block) -> None:
        self.block = block

    def add(self, op: Operation, like: Operation, hint: str | None = None) -> SSAValue:
        """Put ``op`` at the end, where ``like`` is in the source; its result."""
        self.block.add_op(located(op, like))
        op.results[0].name_hint = hint
        return op.results[0]

    def spread(self, value: SSAValue, axes: Sequence[AxisAttr], like: Operation) -> SSAValue:
        """``value`` over ``axes``, which contain its own."""
        have = cast(ValType, value.type).labels
        want = tuple(a.label for a in axes)
        if have == want:
            return value
        if len(have) == len(want):
            return self.add(region.TransposeOp(value, [have.index(w) for w in want]), like)
        return self.add(region.BroadcastInDimOp(value, [want.index(h) for h in have], axes), like)

    def aligned(
        self, values: Sequence[SSAValue], order: Sequence[AxisAttr], like: Operation
    ) -> list[SSAValue]:
        """``values`` over the axes that any of them has; unlike ones stand as in ``order``."""
        types = [cast(ValType, v.type) for v in values]
        axes: Sequence[AxisAttr] = types[0].axes.data
        if any(t.axes != types[0].axes for t in types):
            labels = {label for t in types for label in t.labels}
            axes = [a for a in order if a.label in labels]
        return [self.spread(v, axes, like) for v in values]

    def chosen(
        self,
        inside: AffineSet,
        over: Sequence[AxisAttr],
        value: SSAValue,
        fill: Number,
        order: Sequence[AxisAttr],
        like: Operation,
    ) -> SSAValue:
        """``value`` inside a set over some axes, ``fill`` elsewhere (S6.4)."""
        condition = self.add(region.InsideOp(inside, over), like)
        element = cast(ValType, value.type).element_type
        other = self.add(region.ConstantOp(fill, element), like)
        labels = {*cast(ValType, value.type).labels, *(a.label for a in over)}
        axes = [a for a in order if a.label in labels]
        spread = [self.spread(v, axes, like) for v in (condition, value, other)]
        return self.add(region.SelectOp(*spread), like)
