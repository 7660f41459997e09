"""``region-to-gpu``: where the axes of a region stand in the loops of a block, and points there."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstraintKind, AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from polyc.affine.repeating import End
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, number_of, without_sign
from polyc.dialects.gpu.hardware import LoadGlobalOp
from polyc.dialects.gpu.types import FragmentType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp
from polyc.dialects.region.types import MemRefType
from polyc.families.loops.flat import Flat
from polyc.families.loops.lines import Lines
from polyc.families.loops.recognise import Space
from polyc.families.loops.resampled import Resampled
from polyc.families.loops.turned_stores import TurnedStore
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Coordinates
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Indices, Point
from polyc.lowering.region_to_gpu.row_point import RowPoint
from polyc.rewriting.emit import Emit


def tile_sizes(space: Space, plan: ScheduleOp) -> list[int]:
    """What a tile has of each axis of a space."""
    rows, columns, _ = plan.tile_sizes
    ends = [1 if space.row is None else rows, 1 if space.column is None else columns]
    return [*(1 for _ in space.outer), *ends]


@dataclass(frozen=True)
class AxisPlace:
    """Where an axis stands: at an axis of the tile (0 its rows, 1 its columns), from a start on.

    Of an axis of the tile that is several axes it is one: its points are ``inside`` points of that
    each, and it begins again after ``size`` of them.  A start that is ``fixed`` is that number.
    """

    along: int | None
    start: SSAValue
    inside: int = 1
    size: int | None = None
    fixed: int | None = None


@dataclass(frozen=True)
class Walk:
    """An axis that a block walks: where a tile has it, its size, and how far a step goes."""

    label: str
    along: int | None
    size: Dim
    step: int


@dataclass(frozen=True)
class Scope:
    """Where code is emitted: the block, the axes' places there, and the reductions made so far."""

    emit: Emit
    places: Mapping[str, AxisPlace]
    made: ChainMap[tuple[object, ...], SSAValue] = field(
        default_factory=ChainMap[tuple[object, ...], SSAValue]
    )

    def inside(self, emit: Emit, label: str, place: AxisPlace) -> Scope:
        """The scope of a loop over an axis."""
        return Scope(emit, {**self.places, label: place}, self.made.new_child())

    def within(self, emit: Emit) -> Scope:
        """The scope of what is done where a condition holds."""
        return Scope(emit, self.places, self.made.new_child())

    def along(self, labels: Sequence[str]) -> tuple[bool, bool]:
        """Whether values with these axes differ between a tile's rows, and its columns."""
        used = {self.places[label].along for label in labels}
        return 0 in used, 1 in used


@dataclass(frozen=True)
class AtHand:
    """A fragment that holds what a read finds along ``column``: first where it does so inside of a
    line, then where at each of the ``ends``."""

    fragment: SSAValue
    places: tuple[Indices, ...]
    ends: tuple[End, ...]
    column: str


class LoopPoint(RowPoint):
    """A point of a tile, some of whose tensors are ``turned``: in shared memory, columns first; and
    some of whose reads are ``at_hand``: in fragments, without what guards them."""

    def __init__(
        self,
        frame: Frame,
        block: Block,
        axes: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        held: Mapping[SSAValue, Held],
        turned: Mapping[Operation, SSAValue],
        at_hand: Mapping[Operation, AtHand],
    ) -> None:
        super().__init__(frame, block, {}, axes, 2, origin, held.get)
        self.turned, self.at_hand = turned, at_hand

    def source(self, op: ReadOp) -> tuple[SSAValue, tuple[AffineExpr, ...]]:
        if op in self.turned:
            return self.turned[op], (COLUMN, ROW)
        if op in self.at_hand:
            return self.at_hand[op].fragment, self.at_hand[op].places[0]
        return super().source(op)

    def read(self, op: ReadOp) -> SSAValue:
        """A tensor's element is not loaded where a guard that few points meet does not hold, as of
        every second row in each of two tensors; where neighbours of a vector have it alike."""
        holds = self._settled(op)
        if holds is False and op.fill is not None:
            return self.number(number_of(op.fill), op.result.type.element_type)
        if holds and op not in self.turned and op not in self.at_hand:
            tensor, place = self.source(op)
            if not self.is_data(place):
                found = self.element(op, tensor, place)
                found.name_hint = op.tensor.name_hint
                return found
        if not self._skips(op):
            return super().read(op)
        tensor, place = self.source(op)
        if self.is_data(place):
            return super().read(op)
        return filled_load(self, op, tensor, place, self.guarded(op, place))

    def _settled(self, op: ReadOp) -> bool | None:
        """Whether a read's guard holds, where axes at ``fixed`` places say so; None elsewhere."""
        if op.guard is None:
            return None
        known: list[bool] = []
        for row in op.guard.data.constraints:
            place = self.place(row.lhs - row.rhs, op.result.type.labels, op)
            if place.used_dims() or any(isinstance(e, AffineSymExpr) for e in place.dfs()):
                continue
            value = place.eval([], [])
            if row.kind is AffineConstraintKind.eq:
                known.append(value == 0)
            else:
                known.append(value <= 0 if row.kind is AffineConstraintKind.le else value >= 0)
        if not all(known):
            return False
        return True if len(known) == len(op.guard.data.constraints) else None

    def binary(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """What is read nowhere changes no maximum, and no minimum."""
        least = {"max": float("-inf"), "min": float("inf")}.get(fn)
        for one, other in ((lhs, rhs), (rhs, lhs)):
            made = one.owner.operands[0].owner if isinstance(one.owner, arith.ExtFOp) else one.owner
            number = made.value if isinstance(made, arith.ConstantOp) else None
            if isinstance(number, FloatAttr) and number.value.data == least:
                return other
        return super().binary(fn, lhs, rhs)

    def _skips(self, op: ReadOp) -> bool:
        if op.guard is None or op.fill is None or op in self.turned or op in self.at_hand:
            return False
        rows = op.guard.data.constraints
        equal = any(row.kind is AffineConstraintKind.eq for row in rows)
        if not equal or without_sign(op.result.type.element_type) == i1:
            return False
        labels = op.result.type.labels
        used = {labels[d] for row in rows for d in _dims(row.lhs - row.rhs)}
        return not any(1 in _dims(self.axes[label]) for label in used)

    def element(self, op: ReadOp, tensor: SSAValue, place: Sequence[AffineExpr]) -> SSAValue:
        found = super().element(op, tensor, place)
        if op not in self.at_hand:
            return found
        held = self.at_hand[op]
        for end, where in zip(held.ends, held.places[1:], strict=True):
            other, at = self.input(held.fragment, where), self.index(self.axes[held.column])
            # Ends that lie further out choose last.
            if end.first == end.last:
                here = self.emit.compare("eq", at, self.emit.index(end.first))
            elif end.in_front:
                here = self.emit.compare("sle", at, self.emit.index(end.last))
            else:
                here = self.emit.compare("sge", at, self.emit.index(end.first))
            found = self.emit.value(arith.SelectOp(here, other, found))
        return found


def filled_load(
    point: Point,
    op: ReadOp,
    tensor: SSAValue,
    place: Sequence[AffineExpr],
    where: SSAValue | None = None,
) -> SSAValue:
    """A load of what is read, which itself gives the fill outside of the tensor, or not ``where``
    a condition holds."""
    assert op.fill is not None
    number, kind = number_of(op.fill), without_sign(op.result.type.element_type)
    if is_integer(kind):
        fill = IntegerAttr(int(number), cast(IntegerType, kind))
    else:
        fill = FloatAttr(number, cast(AnyFloat, kind))
    at = [point.index(e) for e in place]
    if where is not None:
        where = point.within(where, tensor, at)
    load = LoadGlobalOp(tensor, at, kind, where, fill)
    return point.emit.value(load, op.tensor.name_hint)


class WindowPoint(Point):
    """A point of what a tile reads: ``along`` of the tile, its rows or its columns, goes along one
    coordinate of what is ``slid``, from so many elements ``before`` on."""

    def __init__(
        self,
        frame: Frame,
        block: Block,
        axes: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        slid: Mapping[Operation, int],
        along: AffineExpr = ROW,
        before: int = 0,
    ) -> None:
        super().__init__(frame, block, {}, axes, 2, origin, dict[SSAValue, Held]().get)
        self.slid, self.step = slid, along - before

    def source(self, op: ReadOp) -> tuple[SSAValue, tuple[AffineExpr, ...]]:
        tensor, place = super().source(op)
        along = self.slid.get(op)
        return tensor, tuple(e + self.step if i == along else e for i, e in enumerate(place))

    def read(self, op: ReadOp) -> SSAValue:
        """What slides has its fill where it is outside of its tensor, which the load itself gives:
        all of a vector is inside, or nothing."""
        kind = without_sign(op.result.type.element_type)
        if op not in self.slid or op.fill is None or op.fill.value.data == 0 or kind == i1:
            return super().read(op)
        return filled_load(self, op, *self.source(op))

    def guarded(self, op: ReadOp, place: Sequence[AffineExpr]) -> SSAValue:
        """The guard of what slides is that it is in its tensor, which is asked of the place itself:
        the axes of the window are not where they are in the region."""
        if op not in self.slid:
            return super().guarded(op, place)
        assert op.guard is not None
        found: SSAValue | None = None
        asked = {d for row in op.guard.data.constraints for d in _dims(row.lhs - row.rhs)}
        shape = cast("MemRefType", op.tensor.type).shape
        for expr, moved, size in zip(op.map.data.results, place, shape, strict=True):
            if not asked & _dims(expr):
                continue
            at = self.index(moved)
            found = self.emit.both(found, self.emit.compare("sge", at, self.emit.index(0)))
            found = self.emit.both(found, self.emit.compare("slt", at, self.frame.size(size)))
        return super().guarded(op, place) if found is None else found


def _dims(expr: AffineExpr) -> set[int]:
    return {e.position for e in expr.dfs() if isinstance(e, AffineDimExpr)}


def places_of(space: Space, at: Coordinates) -> dict[str, AxisPlace]:
    """Where a tile stands along the axes of a space that no block walks."""
    places: dict[str, AxisPlace] = {}
    for i, label in enumerate(space.labels):
        if label is not None and label not in space.walked:
            places[label] = AxisPlace(space.along(i), at[label])
            at[label].name_hint = f"{label}0"
    return places


def line_places(lines: Lines | Resampled, at: Coordinates) -> dict[str, AxisPlace]:
    """The same of a tile of lines: those of all axes outside of them are its rows."""
    row, column = at[lines.space.row or ""], at[lines.space.column or ""]
    places: dict[str, AxisPlace] = {}
    for number, (label, inside, size) in enumerate(lines.outer):
        # What is beyond the last line is outside of the first axis, whose size is not asked then.
        places[label] = AxisPlace(0, row, inside, size if number else None)
    places[str(lines.space.column)] = AxisPlace(1, column)
    return places


def flat_places(flat: Flat, at: Coordinates) -> dict[str, AxisPlace]:
    """The same where all axes are one, along the columns of a tile."""
    first = at[flat.space.column or ""]
    return {label: AxisPlace(1, first, inside, size) for label, inside, size in flat.axes}


def turned_places(found: TurnedStore, at: Coordinates) -> dict[str, AxisPlace]:
    """The same where what is stored is turned: the axes behind the columns' are a tile's rows."""
    places = {label: AxisPlace(None, at[label]) for label in found.space.outer}
    for label, inside, size in found.rows:
        places[label] = AxisPlace(0, at[found.space.row or ""], inside, size)
    places[found.column] = AxisPlace(1, at[found.column])
    return places


def walks_of(space: Space, plan: ScheduleOp) -> list[Walk]:
    """The axes of a space that a block walks, in order."""
    axes = zip(space.labels, space.sizes, tile_sizes(space, plan), strict=True)
    return [
        Walk(label, space.along(i), size, step)
        for i, (label, size, step) in enumerate(axes)
        if label is not None and label in space.walked
    ]


def projection(along: tuple[bool, bool]) -> AffineMap:
    """A tile's points, by the axes along which something differs."""
    dims = [
        AffineExpr.dimension(i) if here else AffineExpr.constant(0) for i, here in enumerate(along)
    ]
    return AffineMap(2, 0, tuple(dims))


def held_in(fragment: SSAValue) -> Held:
    """A value's place in a fragment that may have one row or one column."""
    assert isinstance(fragment.type, FragmentType)
    rows, columns = fragment.type.sizes
    return Held(fragment, projection((rows > 1, columns > 1)).results)


def placed(place: AxisPlace, origin: list[SSAValue]) -> AffineExpr:
    """A place as an expression of a map's dimensions and origins, which learn its start."""
    if place.fixed is not None:
        return AffineExpr.constant(place.fixed)
    if place.start not in origin:
        origin.append(place.start)
    start = AffineExpr.symbol(origin.index(place.start))
    found = start if place.along is None else AffineExpr.dimension(place.along) + start
    found = found // place.inside if place.inside > 1 else found
    return found if place.size is None else found % place.size


def placed_all(
    places: Mapping[str, AxisPlace],
) -> tuple[dict[str, AffineExpr], list[SSAValue]]:
    """The same of several axes, and the origins of all of them."""
    origin: list[SSAValue] = []
    return {label: placed(place, origin) for label, place in places.items()}, origin


def held_along(along: tuple[bool, bool], apart: Mapping[str, int]) -> tuple[bool, bool]:
    """Whether what threads have of a reduction differs between a tile's rows, and its columns:
    where its results do, and where they part its axes ``apart``."""
    parted = apart.values()
    return along[0] or 0 in parted, along[1] or 1 in parted
