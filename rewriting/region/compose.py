"""The body of one kernel computed at the points at which another one reads what it makes (S6.1).

A value of the producer has axes; where the consumer wants it, each of them is an expression of the
consumer's axes.  Broadcasts and transposes leave nothing behind, a read composes the two maps, and
a reduction keeps axes of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias, cast

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap, AffineSet

from polyc.affine import isl
from polyc.dialects import region
from polyc.dialects.common.elements import number_of
from polyc.dialects.index import bounds
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, val_type
from polyc.rewriting.region.points import Point, both, composed, moved_set
from polyc.rewriting.region.values import Values

COMPOSED = (
    region.ReadOp,
    region.ConstantOp,
    region.DimOp,
    region.IndexOp,
    region.InsideOp,
    region.UnaryOp,
    region.BinaryOp,
    region.CompareOp,
    region.SelectOp,
    region.CastOp,
    region.BitcastOp,
    region.BroadcastInDimOp,
    region.TransposeOp,
    region.ReduceOp,
)
"""The ops that can be computed at other points."""

Key: TypeAlias = tuple[SSAValue, Point]


def fresh_label(label: str, taken: Collection[str]) -> str:
    """``label`` where it is free, else the first free ``r<n>``."""
    number = -1
    found = label
    while found in taken:
        number += 1
        found = f"r{number}"
    return found


class Composer:
    """Computes a producer's values at points over a consumer's axes, at the end of ``block``.

    ``tensors`` takes the producer's inputs to the arguments of ``block``, ``sizes`` has the axes
    of the consumer and ``labels`` the names of its reductions; those of new reductions are added.
    """

    def __init__(
        self,
        producer: region.KernelOp,
        block: Block,
        tensors: Mapping[SSAValue, SSAValue],
        sizes: Mapping[str, AxisAttr],
        labels: set[str],
    ) -> None:
        self.producer = producer
        self.ops = [op for op in producer.body.block.ops if isinstance(op, COMPOSED)]
        self.values = Values(block)
        self.tensors = tensors
        self.sizes = dict(sizes)
        self.labels = labels
        self.made: dict[Key, SSAValue] = {}
        self.fresh: dict[Key, tuple[AxisAttr, ...]] = {}

    def value(self, wanted: SSAValue, point: Point) -> SSAValue:
        """A value of the producer at ``point``; it has the point's axes or fewer."""
        asked: dict[SSAValue, dict[Point, tuple[Key, ...]]] = {wanted: {point: ()}}
        for op in reversed(self.ops):
            points = asked.get(op.results[0], {})
            for where in points:
                if (op.results[0], where) not in self.made:
                    points[where] = tuple(self._operands(op, where))
                    for operand, inner in points[where]:
                        asked.setdefault(operand, {}).setdefault(inner, ())
        for op in self.ops:
            for where, operands in asked.get(op.results[0], {}).items():
                key = (op.results[0], where)
                if key not in self.made:
                    self.made[key] = self._make(op, where, [self.made[k] for k in operands])
        return self.made[(wanted, point)]

    def _operands(self, op: Operation, point: Point) -> list[Key]:
        """What an op's value at a point is made of, and where."""
        at, rank = point.map.results, len(point.axes)
        axes, guard = point.axes, point.guard
        match op:
            case region.ReadOp():
                return []
            case region.BroadcastInDimOp():
                found = [at[p] for p in op.positions]
            case region.TransposeOp():
                found = [at[op.permutation.index(i)] for i in range(len(at))]
            case region.ReduceOp():
                new = self._reduced_axes(op, point)
                self.fresh[(op.result, point)] = new
                kept, gone = iter(at), iter(range(rank, rank + len(new)))
                axes = (*axes, *new)
                found = [
                    AffineDimExpr(next(gone)) if label in op.labels else next(kept)
                    for label in val_type(op.operand).labels
                ]
                if guard is not None:
                    guard = AffineSet(len(axes), guard.num_symbols, guard.constraints)
            case _:
                return [(operand, point) for operand in op.operands]
        inner = Point.of(axes, found, point.map.num_symbols, guard)
        return [(op.operands[0], inner)]

    def _reduced_axes(self, op: region.ReduceOp, point: Point) -> tuple[AxisAttr, ...]:
        """Axes for a reduction, in the operand's order; a name means one size in a kernel."""
        found: list[AxisAttr] = []
        for axis in val_type(op.operand).axes:
            if axis.label in op.labels:
                taken = {*point.labels, *(a.label for a in found)}
                taken |= {name for name, other in self.sizes.items() if other.size != axis.size}
                new = AxisAttr.of(fresh_label(axis.label, taken), axis.size)
                self.sizes[new.label] = new
                found.append(new)
        return tuple(found)

    def _make(self, op: Operation, point: Point, operands: Sequence[SSAValue]) -> SSAValue:
        hint = op.results[0].name_hint
        match op:
            case region.ReadOp():
                return self._read(op, point)
            case region.InsideOp():
                points = moved_set(op.set.data, point.map.results, len(point.axes))
                tested = Point.of(point.axes, (), points.num_symbols, points)
                assert tested.guard is not None
                return self.values.add(region.InsideOp(tested.guard, tested.axes), op, hint)
            case region.IndexOp():
                (expr,) = composed(op.map.data, point.map.results)
                at = Point.of(point.axes, (expr,), point.map.num_symbols)
                made = region.IndexOp(at.map, at.axes, op.result.type.element_type)
                return self.values.add(made, op, hint)
            case region.BroadcastInDimOp() | region.TransposeOp():
                return operands[0]
            case region.ReduceOp():
                return self._reduce(op, point, operands[0])
            case region.UnaryOp():
                made: Operation = region.UnaryOp(op.fn.data, operands[0])
            case region.BitcastOp():
                made = region.BitcastOp(operands[0], op.result.type.element_type)
            case region.CastOp():
                made = region.CastOp(operands[0], op.result.type.element_type)
            case region.BinaryOp():
                made = region.BinaryOp(op.fn.data, *self._aligned(op, point, operands))
            case region.CompareOp():
                made = region.CompareOp(op.fn.data, *self._aligned(op, point, operands))
            case region.SelectOp():
                made = region.SelectOp(*self._aligned(op, point, operands))
            case _:
                made = op.clone()
        return self.values.add(made, op, hint)

    def _aligned(
        self, op: Operation, point: Point, operands: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        return self.values.aligned(operands, point.axes, op)

    def _read(self, op: region.ReadOp, point: Point) -> SSAValue:
        results = composed(op.map.data, point.map.results)
        guard, fill = point.guard, None if point.guard is None else 0.0
        if op.guard is not None and op.fill is not None:
            guard = both(guard, moved_set(op.guard.data, point.map.results, len(point.axes)))
            fill = number_of(op.fill)
        if guard is not None:
            guard = isl.simplify_set(guard, domain(self.producer, point.axes))
            if not guard.constraints:
                guard = fill = None
        there = Point.of(point.axes, results, point.map.num_symbols, guard)
        read = region.ReadOp(self.tensors[op.tensor], there.map, there.axes, there.guard, fill)
        return self.values.add(read, op, op.result.name_hint)

    def _reduce(self, op: region.ReduceOp, point: Point, body: SSAValue) -> SSAValue:
        fresh = self.fresh[(op.result, point)]
        have = cast(ValType, body.type)
        missing = [a for a in fresh if have.axis(a.label) is None]
        if missing:
            wanted = [a for a in (*point.axes, *fresh) if have.axis(a.label) or a in missing]
            body = self.values.spread(body, wanted, op)
        label, number = op.label, 0
        while label is not None and label in self.labels:
            number += 1
            label = f"{op.label}{number}"
        if label is not None:
            self.labels.add(label)
        made = region.ReduceOp(
            op.fn.data,
            body,
            [a.label for a in fresh],
            acc=op.acc,
            label=label,
            precision=op.precision,
        )
        return self.values.add(made, op, op.result.name_hint)


def domain(kernel: region.KernelOp, axes: Sequence[AxisAttr]) -> AffineSet:
    """The points of some axes, for the sizes that a kernel assumes."""
    names = kernel.symbol_names
    rows = bounds([a.size for a in axes], names)
    facts = kernel.assumptions.as_affine_set(names).constraints
    return AffineSet(len(axes), len(names), (*rows, *facts))


def guards_bounds(kernel: region.KernelOp, read: region.ReadOp) -> bool:
    """Whether a read's guard holds wherever it reads inside of its tensor, or it has none."""
    if read.guard is None:
        return True
    points = domain(kernel, read.result.type.axes.data)
    shape = cast("MemRefType", read.tensor.type).shape
    tensor = AffineSet(len(shape), points.num_symbols, bounds(shape, kernel.symbol_names))
    inside = moved_set(tensor, read.map.data.results, points.num_dims)
    rows = (*points.constraints, *inside.constraints)
    return isl.implies(AffineSet(points.num_dims, points.num_symbols, rows), read.guard.data)


def read_point(read: region.ReadOp) -> Point:
    """Where a consumer reads: its value's axes to the coordinates of the tensor."""
    guard = None if read.guard is None else read.guard.data
    access: AffineMap = read.map.data
    return Point(tuple(val_type(read.result).axes), access, guard)


def compose(composer: Composer, made: SSAValue, read: region.ReadOp) -> SSAValue:
    """The producer's value ``made`` as ``read`` gives it: its axes in order, its fill."""
    point = read_point(read)
    axes = point.axes
    inner = Point.of(axes, point.map.results, point.map.num_symbols, point.guard)
    found = composer.value(made, inner)
    if point.guard is not None and read.fill is not None:
        tested = Point.of(axes, (), point.map.num_symbols, point.guard)
        assert tested.guard is not None
        fill = read.fill.value.data
        found = composer.values.chosen(tested.guard, tested.axes, found, fill, axes, read)
    return composer.values.spread(found, axes, read)
