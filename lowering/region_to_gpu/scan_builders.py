"""``region-to-gpu``: the kernels of scans whose blocks need no others, at the tile level (S9, T3).

``serial``: a block has a tile of the axes that a scan does not go along, and its threads walk that
axis, a ``gpu.map`` a step, with what they have so far in a fragment.  ``rows``: it has lines, which
its threads share, a tile after another, each a ``gpu.scan``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.cost.scans import AHEAD
from polyc.dialects.common.elements import accumulation, is_integer, neutral, without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType, element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ScanOp
from polyc.dialects.region.types import ValType
from polyc.families.scans.recognise import Scans
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.kernel import Builder
from polyc.lowering.region_to_gpu.loop_scope import AxisPlace, held_in, placed, projection
from polyc.lowering.region_to_gpu.point import (
    BINARY,
    COLUMN,
    ROW,
    Held,
    Making,
    Point,
    Wanted,
    element_of,
)
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""The binary function of each scan."""

OWN = AffineMap(2, 0, (ROW, COLUMN))
"""Each element of a fragment to its own place."""


class ScanBuilder(Builder):
    """Builds a kernel whose threads walk the axis of a scan, each alone."""

    def __init__(self, scans: Scans, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(scans.kernel, plan, grids)
        self.scans = scans
        self.kind = accumulation(scans.scan.fn.data, scans.scan.accumulator)
        """The type in which it accumulates."""
        self.spread = Spread.of(self.layout())

    def layout(self) -> FragmentLayoutAttr:
        """How a tile is spread over threads."""
        rows, columns, _ = self.plan.tile_sizes
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        return row_layout(rows, columns, vector, element_bytes(f32), threads)[0]

    @property
    def along(self) -> tuple[bool, bool]:
        """Whether what a thread has so far differs between a tile's rows, and its columns."""
        return self.scans.row is not None, self.scans.column is not None

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """A walk along the axis, with what there is so far in a fragment."""
        scans, emit = self.scans, self.emit
        acc = self.fragment(emit, self.along, "acc")
        emit.op(tile.FillOp(start_of(emit, scans.scan, self.kind), acc))
        self.walk(acc, self.places(at))

    def places(self, at: Coordinates) -> dict[str, AxisPlace]:
        """Where the block stands along the axes that it does not walk."""
        scans = self.scans
        places: dict[str, AxisPlace] = {}
        for i, label in enumerate(scans.labels):
            if label is not None:
                along = self.tile_axis(i - len(scans.outer))
                places[label] = AxisPlace(along, at[label])
                at[label].name_hint = f"{label}0"
        return places

    def tile_axis(self, number: int) -> int | None:
        """The axis of a tile along which the ``number``-th of the last two axes runs."""
        return number if number >= 0 else None

    def walk(self, acc: SSAValue, places: Mapping[str, AxisPlace]) -> None:
        """A step for each point of the axis, with what several take on its way at once.

        Beyond the end of the axis nothing is written, and what is read of there makes nothing.
        """
        scans, ahead = self.scans, max(1, AHEAD // self.plan.integer("vectorize"))
        length = scans.size(scans.along)
        size, known = self.frame.size(length), length.constant()

        def stretch(inner: Emit, number: SSAValue) -> None:
            steps: list[tuple[SSAValue, dict[str, AxisPlace]]] = []
            for later in range(ahead if known is None else min(ahead, known)):
                own = affine_dim(1) - affine_dim(0) - (1 + later)
                if not scans.scan.is_reverse:
                    own = affine_dim(0) + later
                place = inner.apply(own, [number, size])
                at = {**places, scans.along: AxisPlace(None, place)}
                taken = self.fragment(inner, self.along, "point")
                self.take(inner, taken, at)
                steps.append((taken, at))
            for taken, at in steps:
                self.step(inner, acc, taken, at)

        self.emit.loop(size, stretch, step=ahead, hint=scans.along)

    def take(self, emit: Emit, taken: SSAValue, places: Mapping[str, AxisPlace]) -> None:
        """What is scanned at one point of each thread."""
        scan, origin = self.scans.scan, list[SSAValue]()
        axes = {label: placed(place, origin) for label, place in places.items()}
        point = Point(self.frame, Block(arg_types=[element_of(taken)]), {}, axes, 2, origin)

        def converted(here: Point, scalar: SSAValue) -> SSAValue:
            return here.converted(scalar, element_of(scan.operand), self.kind)

        wanted = [Wanted(scan.operand, taken, (ROW, COLUMN), converted)]
        emit.op(point.write(taken, wanted, scan))

    def fragment(self, emit: Emit, along: tuple[bool, bool], hint: str) -> SSAValue:
        """A fragment that differs along some axes of the tile."""
        rows, columns, _ = self.plan.tile_sizes
        sizes = [n if here else 1 for n, here in zip((rows, columns), along, strict=True)]
        layout = self.spread.image(projection(along)).layout()
        kind = FragmentType.of(sizes, without_sign(self.kind), layout)
        return emit.value(tile.FragmentOp(kind), hint)

    def step(
        self, emit: Emit, acc: SSAValue, taken: SSAValue, places: Mapping[str, AxisPlace]
    ) -> None:
        """One point of each thread: into ``acc``, and to the outputs."""
        scan, origin = self.scans.scan, list[SSAValue]()
        axes = {label: placed(place, origin) for label, place in places.items()}
        own = Block(arg_types=[element_of(acc)])
        own.args[0].name_hint = "so_far"
        held = {scan.operand: held_in(taken)}
        point = ScanPoint(self.frame, own, axes, origin, held, scan, self.kind)
        so_far = Wanted(scan.result, acc, (ROW, COLUMN), lambda p, _: point.total)
        emit.op(point.write(acc, [so_far, *self.outputs(axes)], scan))

    def outputs(self, axes: Mapping[str, AffineExpr]) -> list[Wanted]:
        """What a map writes to the outputs."""
        wanted: list[Wanted] = []
        for value, output in zip(self.scans.values, self.frame.outputs, strict=True):
            labels = cast("ValType", value.type).labels
            wanted.append(Wanted(value, output, tuple(axes[a] for a in labels)))
        return wanted


class RowsBuilder(ScanBuilder):
    """Builds a kernel whose threads share lines: a tile's rows are lines, its columns their points.

    A tile is loaded, scanned by a ``gpu.scan`` and stored, and the next one goes on from its ends.
    """

    @property
    def along(self) -> tuple[bool, bool]:
        return True, False

    def layout(self) -> FragmentLayoutAttr:
        """Threads of a line have neighbouring vectors, and the next ones beyond these of all."""
        rows, columns, _ = self.plan.tile_sizes
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        across = threads // rows
        t, r = affine_dim(0), affine_dim(1)
        column = t % across * vector + r // vector * (across * vector) + r % vector
        m = AffineMap(2, 0, (t // across, column))
        return FragmentLayoutAttr.of(threads, columns // across, m)

    def tile_axis(self, number: int) -> int | None:
        return 0 if number == 1 else None

    def walk(self, acc: SSAValue, places: Mapping[str, AxisPlace]) -> None:
        """A step for each tile of the lines, from the last on of a scan in reverse."""
        scans, emit = self.scans, self.emit
        columns, length = self.plan.tile_sizes[1], scans.size(scans.along)
        size = self.frame.size(length)

        def step(inner: Emit, number: SSAValue) -> None:
            start = number
            if scans.scan.is_reverse:
                last = (affine_dim(1) + (columns - 1)) // columns - 1
                start = inner.apply(last * columns - affine_dim(0), [number, size])
            self.line(inner, acc, Lines(places, scans.along, start), size)

        known = length.constant()
        if known is not None and known <= columns:
            self.line(emit, acc, Lines(places, scans.along), size)
        else:
            emit.loop(size, step, step=columns, hint=f"{scans.along}0")

    def line(self, emit: Emit, acc: SSAValue, at: Lines, size: SSAValue) -> None:
        """A tile of each line: loaded, scanned and stored."""
        scan = self.scans.scan
        held = self.fragment(emit, (True, True), "line")
        self.load(emit, held, at, size)
        how = {"reverse": scan.is_reverse, "exclusive": scan.is_exclusive}
        emit.op(located(tile.ScanOp(scan.fn.data, held, 1, acc, **how), scan))
        self.store(emit, held, at)

    def load(
        self,
        emit: Emit,
        held: SSAValue,
        at: Placed,
        size: SSAValue,
        raw: Mapping[SSAValue, SSAValue] = MappingProxyType({}),
    ) -> None:
        """What is scanned of a tile; in reverse nothing comes from beyond the lines' ends.

        Values that fragments hold already, ``raw``, are not read again.
        """
        scan, origin = self.scans.scan, list[SSAValue]()
        axes = at.axes(origin)
        there = {value: Held(fragment, (ROW, COLUMN)) for value, fragment in raw.items()}
        block = Block(arg_types=[element_of(held)])
        point = Point(self.frame, block, {}, axes, 2, origin, there.get)

        def taken(here: Point, scalar: SSAValue) -> SSAValue:
            value = here.converted(scalar, element_of(scan.operand), self.kind)
            if not scan.is_reverse:
                return value
            inside = here.emit.compare("slt", here.index(axes[scan.label]), size)
            nothing = start_of(here.emit, scan, self.kind)
            return here.emit.value(arith.SelectOp(inside, value, nothing))

        wanted = [Wanted(scan.operand, held, (ROW, COLUMN), taken)]
        emit.op(point.write(held, wanted, scan))

    def store(self, emit: Emit, held: SSAValue, at: Placed) -> None:
        """The outputs, of what was scanned."""
        scan, origin = self.scans.scan, list[SSAValue]()
        axes = at.axes(origin)
        point = Point(self.frame, Block(arg_types=[element_of(held)]), {}, axes, 2, origin)
        point.take(scan.result, point.block.args[0])
        emit.op(point.write(held, self.outputs(axes), self.kernel.yield_op))

    def combine(
        self, emit: Emit, held: SSAValue, other: SSAValue, at: AffineMap, taken: bool = False
    ) -> None:
        """Each element with another fragment's, which comes first, or where it is ``taken`` that
        alone."""
        kind, fn = without_sign(self.kind), COMBINE[self.scans.scan.fn.data]
        block = Block(arg_types=[kind, kind])
        own, (old, new) = Emit(), block.args
        value: SSAValue = new
        if not taken and is_integer(self.kind):
            value = integers.binary(own, fn, new, old, self.kind)
        elif not taken:
            assert self.kind == f32
            value = own.value(BINARY[fn](new, old))
        block.add_ops([*own.ops, tile.YieldOp([value])])
        emit.op(tile.MapOp(held, [], [other], [held], [at, OWN], Region(block)))


class Placed(Protocol):
    """Where a tile of lines stands."""

    def axes(self, origin: list[SSAValue]) -> dict[str, AffineExpr]:
        """The axes in a map's dimensions and origins, which learn where the tile begins."""
        ...


@dataclass(frozen=True)
class Lines:
    """Where a tile of lines stands: along the other axes, and from where on along their own."""

    places: Mapping[str, AxisPlace]
    along: str
    start: SSAValue | None = None

    def axes(self, origin: list[SSAValue]) -> dict[str, AffineExpr]:
        """The axes in a map's dimensions and origins, which learn where the tile begins."""
        axes = {label: placed(place, origin) for label, place in self.places.items()}
        place = None if self.start is None else AxisPlace(1, self.start)
        return {**axes, self.along: COLUMN if place is None else placed(place, origin)}


class ScanPoint(Point):
    """A point of a step, whose own element is what a scan has so far."""

    def __init__(
        self,
        frame: Frame,
        block: Block,
        axes: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        held: Mapping[SSAValue, Held],
        scan: ScanOp,
        kind: Attribute,
    ) -> None:
        super().__init__(frame, block, {}, axes, 2, origin, held.get)
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
