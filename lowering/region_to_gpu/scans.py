"""``region-to-gpu``: scans, at the tile level (S9, T3).

A block has a tile of the axes that a scan does not go along.  ``serial``: its threads walk the
axis, a ``gpu.map`` a step, with what they have so far in a fragment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, neutral, without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ScanOp
from polyc.dialects.region.types import ValType
from polyc.families.loops.recognise import accumulated
from polyc.families.scans.recognise import Scans
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.kernel import Builder, Walked
from polyc.lowering.region_to_gpu.loop_scope import AxisPlace, placed, projection
from polyc.lowering.region_to_gpu.point import (
    BINARY,
    COLUMN,
    ROW,
    Making,
    Point,
    Wanted,
    element_of,
)
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.emit import Emit, affine_dim

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""The binary function of each scan."""


@dataclass(frozen=True)
class ScansLowering(Walked):
    """A region with a scan."""

    scans: Scans

    @property
    def kernel(self) -> KernelOp:
        return self.scans.kernel

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """A block has a tile of all axes but the one that is walked."""
        rows, columns, _ = plan.tile_sizes
        steps = (*(1 for _ in self.scans.outer), rows, columns)
        axes = [
            Axis("", Dim.const(1)) if label is None else Axis(label, self.scans.size(label), step)
            for label, step in zip(self.scans.labels, steps, strict=True)
        ]
        return [Grid(tuple(axes))]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid]) -> ScanBuilder:
        return ScanBuilder(self.scans, plan, grids)


LOWERING = ScansLowering


class ScanBuilder(Builder):
    """Builds a kernel whose threads walk the axis of a scan."""

    def __init__(self, scans: Scans, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(scans.kernel, plan, grids)
        self.scans = scans
        self.kind = accumulated(scans.scan)
        """The type in which it accumulates."""
        layout, _ = row_layout(
            *plan.tile_sizes[:2], plan.integer("vectorize"), element_bytes(f32), plan.threads()
        )
        self.spread = Spread.of(layout)

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """A walk along the axis, in which a step has one point of it."""
        scans, emit = self.scans, self.emit
        places: dict[str, AxisPlace] = {}
        for i, label in enumerate(scans.labels):
            if label is not None:
                along = i - len(scans.outer)
                places[label] = AxisPlace(along if along >= 0 else None, at[label])
                at[label].name_hint = f"{label}0"
        acc = self.fragment(emit)
        emit.op(tile.FillOp(start_of(emit, scans.scan, self.kind), acc))
        size = self.frame.size(scans.size(scans.along))

        def step(inner: Emit, number: SSAValue) -> None:
            place = number
            if scans.scan.is_reverse:
                place = inner.apply(affine_dim(1) - affine_dim(0) - 1, [number, size])
            self.step(inner, acc, {**places, scans.along: AxisPlace(None, place)})

        emit.loop(size, step, hint=scans.along)

    def fragment(self, emit: Emit) -> SSAValue:
        """What each thread has so far, of each of its columns."""
        scans, (rows, columns, _) = self.scans, self.plan.tile_sizes
        along = scans.row is not None, scans.column is not None
        sizes = [n if here else 1 for n, here in zip((rows, columns), along, strict=True)]
        layout = self.spread.image(projection(along)).layout()
        kind = FragmentType.of(sizes, without_sign(self.kind), layout)
        return emit.value(tile.FragmentOp(kind), "acc")

    def step(self, emit: Emit, acc: SSAValue, places: dict[str, AxisPlace]) -> None:
        """One point of each thread: into ``acc``, and to the outputs."""
        scans, end = self.scans, self.kernel.yield_op
        origin: list[SSAValue] = []
        axes = {label: placed(place, origin) for label, place in places.items()}
        own = Block(arg_types=[cast("FragmentType", acc.type).element_type])
        own.args[0].name_hint = "so_far"
        point = ScanPoint(self.frame, own, axes, origin, scans.scan, self.kind)
        wanted = [Wanted(scans.scan.result, acc, (ROW, COLUMN), lambda p, _: point.total)]
        for value, output in zip(end.values, self.frame.outputs, strict=True):
            labels = cast("ValType", value.type).labels
            wanted.append(Wanted(value, output, tuple(axes[a] for a in labels)))
        emit.op(point.write(acc, wanted, scans.scan))


class ScanPoint(Point):
    """A point of a step, whose own element is what a scan has so far."""

    def __init__(
        self,
        frame: Frame,
        block: Block,
        axes: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        scan: ScanOp,
        kind: Attribute,
    ) -> None:
        super().__init__(frame, block, {}, axes, 2, origin)
        self.scan, self.kind = scan, kind
        self._total: SSAValue | None = None

    @property
    def total(self) -> SSAValue:
        """What the scan has with this point."""
        assert self._total is not None  # made with the scan's result
        return self._total

    def make(self, op: Operation) -> Making:
        return self.scanned(op) if op is self.scan else super().make(op)

    def scanned(self, op: Operation) -> Making:
        """The scan's result here: with this point, or before it."""
        assert isinstance(op, ScanOp)
        value = yield op.operand
        old = self.block.args[0]
        self._total = joined(self, op.fn.data, old, value, element_of(op.operand), self.kind)
        return self.cast(old if op.is_exclusive else self._total, element_of(op.result))


def joined(
    point: Point, fn: str, old: SSAValue, value: SSAValue, element: Attribute, kind: Attribute
) -> SSAValue:
    """What a scan has so far, in ``kind``, with one more value of type ``element``."""
    value = point.converted(value, element, kind)
    if is_integer(kind):
        return integers.binary(point.emit, COMBINE[fn], old, value, kind)
    return point.emit.value(BINARY[COMBINE[fn]](old, value))


def start_of(emit: Emit, scan: ScanOp, kind: Attribute) -> SSAValue:
    """What a scan begins with, in the type in which it accumulates."""
    number = neutral(scan.fn.data, scan.accumulator)
    if is_integer(kind):
        return integers.number(emit, int(number), kind)
    return emit.value(arith.ConstantOp(FloatAttr(float(number), f32)))
