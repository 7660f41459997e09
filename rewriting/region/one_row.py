"""A region whose images are lines, as one whose images have a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap, AffineSymExpr

from polyc.affine.expressions import Floor, linear_of
from polyc.dialects.common.dim import Dim
from polyc.dialects.region import IndexOp, InsideOp, KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, val_type
from polyc.rewriting.region.merge_axes import sums_products
from polyc.rewriting.region.other_shapes import OverOthers
from polyc.rewriting.region.points import moved_set

ONE = Dim.const(1)


def with_a_row(kernel: KernelOp) -> KernelOp:
    """The region in which lines that are read in windows, and summed, are rows of one: a copy that
    stands nowhere, or itself where no tensor of lines is read so.

    ``X[n, w + s, c]`` is seen as ``X[n, 0, w + s, c]``, what is read and stored along ``w`` has an
    axis of one point before it.  Exact: it is another view of the same memory.
    """
    ops = list(kernel.body.block.ops)
    if any(isinstance(op, IndexOp | InsideOp) for op in ops):
        return kernel
    summed = {label for op in ops if isinstance(op, ReduceOp) for label in op.labels}
    outer = {axis.label for axis in kernel.iters}
    reads = (op for op in ops if isinstance(op, ReadOp))
    along = {axis for op in reads for axis in _windows(op, outer - summed, summed)}
    if len(along) != 1:
        return kernel
    row = _WithARow(kernel, along.pop())
    if row.uneven:
        return kernel
    # What put a tap of one point beside others is none here, so that a product may show.
    found = row.built()
    return found if sums_products(found) else kernel


def _windows(op: ReadOp, kept: set[str], summed: set[str]) -> Iterable[str]:
    """The kept axes that a read goes along in windows: a coordinate is the sum of a kept axis and a
    summed one, times numbers."""
    names = val_type(op.result).labels
    for result in op.map.data.results:
        atoms = [atom for atom, _ in linear_of(result).terms]
        own = [
            names[i] for kind, i in (a for a in atoms if not isinstance(a, Floor)) if kind == "d"
        ]
        axes = [name for name in own if name in kept]
        if len(own) == len(atoms) == 2 and len(axes) == 1 and summed.intersection(own):
            yield axes[0]


class _WithARow(OverOthers):
    """Builds the region with an axis of one point before the axis ``along``."""

    def __init__(self, kernel: KernelOp, along: str) -> None:
        super().__init__(kernel)
        self.along = along
        kinds = (r.type for op in kernel.walk() for r in op.results)
        taken = {a.label for kind in kinds if isinstance(kind, ValType) for a in kind.axes}
        label = f"{along}_row"
        while label in taken:
            label += "_"
        self.row = AxisAttr.of(label, 1)
        self.places: dict[SSAValue, int] = {}
        self.uneven = False
        others = set[SSAValue]()
        for op in kernel.walk():
            if not isinstance(op, ReadOp):
                continue
            if along not in val_type(op.result).labels:
                others.add(op.tensor)
                continue
            place = self.place(op)
            if place is None or self.places.setdefault(op.tensor, place) != place:
                self.uneven = True
        self.uneven |= not others.isdisjoint(self.places)

    def place(self, op: ReadOp) -> int | None:
        """The coordinate of a read that goes along the axis, of which there is one."""
        own = val_type(op.result).labels.index(self.along)
        found = [i for i, r in enumerate(op.map.data.results) if own in r.used_dims()]
        return found[0] if len(found) == 1 else None

    def built(self) -> KernelOp:
        kernel = self.kernel
        ins: list[Attribute] = [
            self.seen(cast(MemRefType, arg.type), self.places.get(arg)) for arg in kernel.ins
        ]
        outs: list[Attribute] = []
        for value, kind in zip(kernel.yield_op.values, kernel.outs, strict=True):
            labels = val_type(value).labels
            at = labels.index(self.along) if self.along in labels else None
            outs.append(self.seen(kind, at))
        return self.region(ins, outs)

    def seen(self, kind: MemRefType, at: int | None) -> MemRefType:
        """A tensor's type, with a dimension of one point before the one at ``at``."""
        if at is None:
            return kind
        shape = (*kind.shape[:at], ONE, *kind.shape[at:])
        return MemRefType.of(shape, kind.element_type, kind.align, kind.noalias)

    def over(self, axes: Iterable[AxisAttr]) -> list[AxisAttr]:
        found: list[AxisAttr] = []
        for axis in axes:
            found += [self.row, axis] if axis.label == self.along else [axis]
        return found

    def read(self, op: ReadOp, tensor: SSAValue) -> ReadOp:
        axes = val_type(op.result).axes.data
        own = self.over(axes)
        there = {axis.label: i for i, axis in enumerate(own)}
        dims = [AffineDimExpr(there[axis.label]) for axis in axes]
        symbols = [AffineSymExpr(i) for i in range(op.map.data.num_symbols)]
        results = [r.replace_dims_and_symbols(dims, symbols) for r in op.map.data.results]
        if (at := self.places.get(op.tensor)) is not None:
            results.insert(at, AffineDimExpr(there[self.row.label]))
        guard = None if op.guard is None else moved_set(op.guard.data, dims, len(own))
        fill = None if op.fill is None else op.fill.value.data
        access = AffineMap(len(own), op.map.data.num_symbols, tuple(results))
        return ReadOp(tensor, access, own, guard, fill)
