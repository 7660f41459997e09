"""A region without reductions over one axis, whose places in the smaller tensors are digits of it.

``[K, 28, 2]`` times a number of each of ``[K, 2]`` has tiles of 56 elements along its inner axes;
along one axis of ``K * 56`` points its tensor is read and written as it lies, and the number is
that of ``(e floordiv 56, e mod 2)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    KernelOp,
    ReadOp,
    SelectOp,
    UnaryOp,
    YieldOp,
)
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, val_type
from polyc.rewriting.driver import located
from polyc.rewriting.region.merge_axes import over_axes

MOST = (1 << 31) - (1 << 16)
"""Points of an axis, whose last tile may go beyond its end."""

PLAIN = (
    *(ReadOp, ConstantOp, BroadcastInDimOp, UnaryOp, BinaryOp, CompareOp, SelectOp, CastOp),
    YieldOp,
)
"""Ops that compute at each point by itself, and say nothing of where that is."""


def flattened(kernel: KernelOp) -> KernelOp | None:
    """The region over one axis, which stands nowhere, or None.

    Every output has all axes in their order, of known sizes, and so does a read at least, whole and
    as it lies; the others lack axes, and are read at those that they have and at constants, without
    guards.  Exact: each element is what it was, and lies where it lay.
    """
    sizes = [axis.size.constant() for axis in kernel.iters]
    labels = [axis.label for axis in kernel.iters]
    if len(labels) < 2 or None in sizes or not 0 < (total := prod(n or 0 for n in sizes)) <= MOST:
        return None
    ops = list(kernel.body.block.ops)
    if not all(isinstance(op, PLAIN) for op in ops):
        return None
    if any(list(val_type(v).labels) != labels for v in kernel.yield_op.values):
        return None
    shape = [axis.size for axis in kernel.iters]
    if any(list(out.shape) != shape for out in kernel.outs):
        return None
    whole: dict[SSAValue, bool] = {}
    for op in ops:
        if not isinstance(op, ReadOp):
            continue
        if op.guard is not None or op.map.data.num_symbols or not _is_plain(op):
            return None
        own = _is_whole(op, labels, shape)
        if not own and len(val_type(op.result).labels) == len(labels):
            return None  # What is turned is read in tiles, and not along the other's lines.
        if whole.setdefault(op.tensor, own) != own:
            return None
    if not any(whole.values()):
        return None
    return _Flat(kernel, total, whole).built()


def _is_plain(op: ReadOp) -> bool:
    return all(isinstance(e, AffineDimExpr | AffineConstantExpr) for e in op.map.data.results)


def _is_whole(op: ReadOp, labels: Sequence[str], shape: Sequence[object]) -> bool:
    """Whether a read takes all of a tensor as it lies, at all axes in their order."""
    kind = cast("MemRefType", op.tensor.type)
    own = val_type(op.result).labels
    where = [own[e.position] for e in op.map.data.results if isinstance(e, AffineDimExpr)]
    return where == list(labels) and list(kind.shape) == list(shape)


def _divided(step: int) -> AffineExpr:
    """The place along the one axis by so many points."""
    place = AffineDimExpr(0)
    return place if step == 1 else place // step


class _Flat:
    """Builds the region over one axis."""

    def __init__(self, kernel: KernelOp, total: int, whole: Mapping[SSAValue, bool]) -> None:
        self.kernel, self.whole = kernel, whole
        self.axis = AxisAttr.of("".join(a.label for a in kernel.iters), total)
        self.digits: dict[str, AffineExpr] = {}
        step, first = 1, kernel.iters.data[0].label
        for axis in reversed(kernel.iters.data):
            size = cast("int", axis.size.constant())
            place = _divided(step)
            self.digits[axis.label] = (
                place if axis.label == first else place - (_divided(step * size) * size)
            )
            step *= size

    def flat(self, kind: MemRefType) -> MemRefType:
        """A whole tensor as it is seen here."""
        return MemRefType.of([self.axis.size], kind.element_type, kind.align, kind.noalias)

    def built(self) -> KernelOp:
        kernel = self.kernel
        old = kernel.body.block
        ins = [
            self.flat(cast("MemRefType", arg.type)) if self.whole.get(arg) else arg.type
            for arg in old.args
        ]
        block = Block(arg_types=ins)
        values: dict[SSAValue, SSAValue] = dict(zip(old.args, block.args, strict=True))
        for before, new in zip(old.args, block.args, strict=True):
            new.location, new.name_hint = before.location, before.name_hint
        for op in old.ops:
            if isinstance(op, BroadcastInDimOp) and val_type(op.operand).labels:
                values[op.result] = values[op.operand]
                continue
            operands = [values[operand] for operand in op.operands]
            if isinstance(op, ReadOp):
                new = self.read(op, operands[0])
            else:
                kinds = [
                    self.kind(r) if isinstance(r.type, ValType) else r.type for r in op.results
                ]
                if isinstance(op, BroadcastInDimOp):
                    new = BroadcastInDimOp(operands[0], [], [self.axis])
                else:
                    new = type(op).create(
                        operands=operands,
                        result_types=kinds,
                        properties=dict(op.properties),
                        attributes=dict(op.attributes),
                    )
            block.add_op(located(new, op))
            for before, value in zip(op.results, new.results, strict=True):
                value.name_hint = before.name_hint
                values[before] = value
        outs = [self.flat(out) for out in kernel.outs]
        return over_axes(kernel, [self.axis], ins, outs, block)

    def kind(self, value: SSAValue) -> ValType:
        """The type of a value here: over the one axis, or a number that is the same everywhere."""
        own = val_type(value)
        return ValType.of([self.axis] if own.labels else [], own.element_type)

    def read(self, op: ReadOp, tensor: SSAValue) -> ReadOp:
        """A read at the digits of the axis."""
        labels = val_type(op.result).labels
        if self.whole[op.tensor]:
            return ReadOp(tensor, AffineMap(1, 0, (AffineDimExpr(0),)), [self.axis])
        if not labels:
            return ReadOp(tensor, op.map.data, [])
        places = [self.digits[label] for label in labels]
        results = [e.replace_dims_and_symbols(places, []) for e in op.map.data.results]
        return ReadOp(tensor, AffineMap(1, 0, tuple(results)), [self.axis])
