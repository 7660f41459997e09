"""A region whose innermost axes are one axis, whose places in the smaller tensors are digits of it.

``[K, 28, 2]`` times a number of each of ``[K, 2]`` has tiles of 56 elements along its inner axes;
along one axis of ``K * 56`` points its tensor is read and written as it lies, and the number is
that of ``(e floordiv 56, e mod 2)``.  Of ``[R, K, 2]`` less a number of each of ``[K]``, summed
over the first axis, the two others are one, and the number is that of ``e floordiv 2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.region import (
    BinaryOp,
    BitcastOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    IndexOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    SelectOp,
    UnaryOp,
    YieldOp,
)
from polyc.dialects.region.types import AxisAttr, MemRefType, val_type
from polyc.rewriting.region.other_shapes import OverOthers

MOST = (1 << 31) - (1 << 16)
"""Points of an axis, whose last tile may go beyond its end."""

PLAIN = (
    *(ReadOp, ConstantOp, BroadcastInDimOp, UnaryOp, BinaryOp, CompareOp, SelectOp, CastOp),
    *(BitcastOp, ReduceOp, YieldOp),
)
"""Ops that compute at each point by itself, or reduce, and say nothing of where that is."""


def lines(kernel: KernelOp) -> list[AxisAttr]:
    """The axes of the first tensor that is read whole, as it lies, outermost first; none where
    there is no such."""
    best: list[AxisAttr] = []
    for op in kernel.body.block.ops:
        if isinstance(op, ReadOp) and _is_plain(op) and len(val_type(op.result).labels) > len(best):
            axes = {axis.label: axis for axis in val_type(op.result).axes}
            where = [label for label in _where(op) if label is not None]
            if len(where) == len(axes) and _is_whole(op, where):
                best = [axes[label] for label in where]
    return best


def flattened(kernel: KernelOp, axes: Sequence[AxisAttr], apart: bool = False) -> KernelOp | None:
    """The region with some axes, which follow each other, as one, which stands nowhere, or None.

    They are of known sizes.  Every output has all of them in their order, or none, and so does a
    read at least, as they lie; the others lack some of them, and are read at those that they have
    and at constants, without guards.  What is read as it lies is read along no other axes.  What is
    reduced is so over all of them or over none.  With ``apart`` they may lie apart in all that is
    read, as those do that a reduced axis lies between.  Exact: each element is what it was, and
    lies where it lay; a sum's order is as free as it was.
    """
    labels, sizes = [a.label for a in axes], [axis.size.constant() for axis in axes]
    if len(labels) < 2 or None in sizes or not 0 < prod(n or 0 for n in sizes) <= MOST:
        return None
    ops = list(kernel.body.block.ops)
    if not all(isinstance(op, PLAIN) or _is_elsewhere(op, labels) for op in ops):
        return None
    of_outputs = [val_type(value).labels for value in kernel.yield_op.values]
    reductions = [op for op in ops if isinstance(op, ReduceOp)]
    if not all(
        _has_all_or_none(own, labels) for own in (*of_outputs, *(r.labels for r in reductions))
    ):
        return None
    # A sum of what lacks some would be made again for each point of these.
    if any(len(set(labels) & set(val_type(r.operand).labels)) % len(labels) for r in reductions):
        return None
    whole: dict[SSAValue, bool] = {}
    beside: set[SSAValue] = set()
    for op in ops:
        if not isinstance(op, ReadOp):
            continue
        if not set(labels) & set(val_type(op.result).labels):
            beside.add(op.tensor)
            continue
        if op.guard is not None or op.map.data.num_symbols or not _is_plain(op):
            return None
        own = _is_whole(op, labels)
        if not own and not apart and set(labels) <= set(val_type(op.result).labels):
            return None  # What is turned is read in tiles, and not along the other's lines.
        if whole.setdefault(op.tensor, own) != own:
            return None
    if any(whole.get(tensor) for tensor in beside) or not (apart or any(whole.values())):
        return None
    return _Flat(kernel, axes, whole).built()


def _is_elsewhere(op: Operation, labels: Sequence[str]) -> bool:
    """Whether an op says where other axes are."""
    return isinstance(op, IndexOp) and not set(labels) & set(op.result.type.labels)


def _has_all_or_none(own: Sequence[str], labels: Sequence[str]) -> bool:
    """Whether some axes are all there, one after another, or none of them is."""
    if not set(own) & set(labels):
        return True
    first = next(at for at, label in enumerate(own) if label in labels)
    return list(own[first : first + len(labels)]) == list(labels)


def _is_plain(op: ReadOp) -> bool:
    return all(isinstance(e, AffineDimExpr | AffineConstantExpr) for e in op.map.data.results)


def _where(op: ReadOp) -> list[str | None]:
    """The axis that each coordinate of a plain read is; None for a constant."""
    own = val_type(op.result).labels
    return [own[e.position] if isinstance(e, AffineDimExpr) else None for e in op.map.data.results]


def _is_whole(op: ReadOp, labels: Sequence[str]) -> bool:
    """Whether a read takes a tensor as it lies along some axes, all of them in their order."""
    kind, where = cast("MemRefType", op.tensor.type), _where(op)
    if labels[0] not in where:
        return False
    first = where.index(labels[0])
    there = slice(first, first + len(labels))
    sizes = {axis.label: axis.size for axis in val_type(op.result).axes}
    return where[there] == list(labels) and list(kind.shape[there]) == [sizes[a] for a in labels]


def _divided(place: AffineExpr, step: int) -> AffineExpr:
    """The place along the one axis by so many points."""
    return place if step == 1 else place // step


class _Flat(OverOthers):
    """Builds the region with some axes as one."""

    def __init__(
        self, kernel: KernelOp, axes: Sequence[AxisAttr], whole: Mapping[SSAValue, bool]
    ) -> None:
        super().__init__(kernel)
        self.whole, self.labels = whole, [axis.label for axis in axes]
        total = prod((axis.size for axis in axes), start=Dim.const(1))
        every = [val_type(r) for op in kernel.body.block.ops for r in op.results]
        taken = {label for kind in every for label in kind.labels}
        label = "".join(self.labels)
        while label in taken:
            label += "_"
        self.axis = AxisAttr.of(label, total)
        self.sizes = [cast("int", axis.size.constant()) for axis in axes]

    def digit(self, label: str, place: AffineExpr) -> AffineExpr:
        """Where one of the axes stands at a place along the one axis."""
        number = self.labels.index(label)
        step = prod(self.sizes[number + 1 :])
        found = _divided(place, step)
        size = self.sizes[number]
        return found if number == 0 else found - (_divided(place, step * size) * size)

    def over(self, axes: Iterable[AxisAttr]) -> list[AxisAttr]:
        """Axes with the one where the first of those was."""
        found: list[AxisAttr] = []
        for axis in axes:
            if axis.label not in self.labels:
                found.append(axis)
            elif self.axis not in found:
                found.append(self.axis)
        return found

    def shape(self, shape: Sequence[Dim], where: Sequence[str | None]) -> list[Dim]:
        """A shape whose dimensions are these axes."""
        inner = set(self.labels[1:])
        return [
            self.axis.size if label == self.labels[0] else size
            for size, label in zip(shape, where, strict=True)
            if label not in inner
        ]

    def built(self) -> KernelOp:
        kernel = self.kernel
        old = kernel.body.block
        kinds: dict[SSAValue, MemRefType] = {a: cast("MemRefType", a.type) for a in old.args}
        for op in old.ops:
            if isinstance(op, ReadOp) and self.whole.get(op.tensor):
                kind = cast("MemRefType", op.tensor.type)
                shape = self.shape(kind.shape, _where(op))
                flat = MemRefType.of(shape, kind.element_type, kind.align, kind.noalias)
                kinds[op.tensor] = flat
        outs: list[MemRefType] = []
        for value, out in zip(kernel.yield_op.values, kernel.outs, strict=True):
            shape = self.shape(list(out.shape), list(val_type(value).labels))
            outs.append(MemRefType.of(shape, out.element_type, out.align, out.noalias))
        return self.region(list(kinds.values()), outs)

    def read(self, op: ReadOp, tensor: SSAValue) -> ReadOp:
        """A read at the digits of the axis."""
        own = self.over(val_type(op.result).axes)
        places = {axis.label: AffineDimExpr(i) for i, axis in enumerate(own)}
        flat, inner = places.get(self.axis.label), set(self.labels[1:])
        results: list[AffineExpr] = []
        for label, expr in zip(_where(op), op.map.data.results, strict=True):
            if label is None:
                results.append(expr)
            elif label not in self.labels:
                results.append(places[label])
            elif not self.whole[op.tensor]:
                results.append(self.digit(label, cast("AffineExpr", flat)))
            elif label not in inner:
                results.append(cast("AffineExpr", flat))
        return ReadOp(tensor, AffineMap(len(own), 0, tuple(results)), own)
