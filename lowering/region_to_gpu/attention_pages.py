"""``region-to-gpu``: what data says of the keys of an attention (S6.10).

Where those of a step lie, of a tensor in pages, and how many there are, by lengths.

A page is asked for once, by all threads, ahead of the copies of its keys; these run ahead of the
step that reads them, and so does what says where they lie.  A place that is none is outside of the
tensor, where copies bring zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu.hardware import LoadGlobalOp
from polyc.dialects.region import ReadOp
from polyc.families.attention.ends import End
from polyc.families.attention.paged import Paged
from polyc.families.attention.recognise import StreamingAttention
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.point import Point, element_of
from polyc.rewriting.emit import Emit, affine_dim
from polyc.rewriting.region.building import type_of


class PagePoint(Point):
    """The scalars of region values at a point of the batch and a key, outside of any map."""

    def __init__(
        self, frame: Frame, attention: StreamingAttention, batch: Sequence[SSAValue], key: SSAValue
    ) -> None:
        labels = (*attention.batch, attention.n)
        axes = {label: AffineExpr.symbol(i) for i, label in enumerate(labels)}
        axes[attention.m] = AffineExpr.constant(0)  # an axis of one query, if it is asked
        super().__init__(frame, Block(), {}, axes, 0, [*batch, key])

    def read(self, op: ReadOp) -> SSAValue:
        """A tensor read at the point by all threads."""
        tensor, place = self.source(op)
        kind = without_sign(op.result.type.element_type)
        load = LoadGlobalOp(tensor, [self.index(e) for e in place], kind)
        return self.emit.value(load, op.tensor.name_hint)


def end_at(
    emit: Emit,
    frame: Frame,
    attention: StreamingAttention,
    end: End,
    batch: Sequence[SSAValue],
) -> SSAValue:
    """How many keys there are at a point of the batch by a length: from none to all."""
    point = PagePoint(frame, attention, batch, emit.index(0))
    value, element = point.scalar(end.value), element_of(end.value)
    size, scalars = point.dim(attention.size(attention.n), element), point.emit
    # A length is cut in its own type, so that none wraps; a closed one then takes one key more.
    last = size
    if end.closed:
        last = integers.binary(scalars, "sub", size, integers.number(scalars, 1, element), element)
    least = integers.number(scalars, -1 if end.closed else 0, element)
    value = integers.binary(scalars, "min", value, last, element)
    value = integers.binary(scalars, "max", value, least, element)
    found = scalars.value(arith.IndexCastOp(value, IndexType()))
    if end.closed:
        found = scalars.apply(affine_dim(0) + 1, [found])
    for op in scalars.ops:
        emit.op(op)
    return found


def page_at(
    emit: Emit,
    frame: Frame,
    attention: StreamingAttention,
    paged: Paged,
    batch: Sequence[SSAValue],
    key: SSAValue,
) -> SSAValue:
    """Where along the tensor the page of a key lies; behind its end where there is none."""
    point = PagePoint(frame, attention, batch, key)
    (label,) = paged.gather.labels
    axis = type_of(paged.gather.operand).axis(label)
    assert axis is not None
    value = point.scalar(paged.index)
    number = paged.gather.number
    inside, place = point.nearest(axis.size, value, element_of(paged.index), number)
    if inside is not None and number is not None:
        outside = frame.size(axis.size)
        place = point.emit.value(arith.SelectOp(inside, place, outside))
    place.name_hint = "page"
    for op in point.emit.ops:
        emit.op(op)
    return place
