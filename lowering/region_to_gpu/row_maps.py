"""``region-to-gpu``: maps over a tile of rows, or over a value a row.

A tile is what a kernel of rows reads, or the accumulator of a product: what is reduced along its
columns and computed from that is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.elements import is_integer, neutral, without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType
from polyc.dialects.region import ReadOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.scope import NEUTRAL
from polyc.dialects.region.types import ValType
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.point import (
    COLUMN,
    ROW,
    Held,
    MakePoint,
    Point,
    Wanted,
    element_of,
)
from polyc.rewriting.emit import Emit


@dataclass
class Tile:
    """A tile of rows while it is computed.

    ``start`` is its first column; None where it has the whole row.  ``held`` are the fragments of
    values along the row.
    """

    start: SSAValue | None = None
    held: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])


@dataclass
class Span:
    """Where a tile lies in the space of a region.

    ``sizes``   its rows and columns
    ``axis``    the axis along which its columns lie; values without it are one a row
    ``column``  where on that axis a column is, in a map of the tile and its origin
    ``places``  where on each other axis an element is, in the same
    ``origin``  the tile's first coordinates, which these are relative to
    ``length``  the points of ``axis``, where columns of the tile may lie beyond them
    ``vector``  so many neighbouring columns are inside or beyond together
    ``merged``  the axes of the region that ``axis`` is together, where it is none itself
    ``upright`` whether the tile's rows lie along ``axis``, and its columns along the last of
                ``places``, in which these are given: rows that lie side by side in memory
    """

    sizes: tuple[int, int]
    axis: str
    column: AffineExpr
    places: Mapping[str, AffineExpr]
    origin: Sequence[SSAValue]
    length: SSAValue | None
    vector: int
    upright: bool = False
    merged: Sequence[str] = ()

    @property
    def along(self) -> AffineExpr:
        """The tile's own coordinate on ``axis``."""
        return ROW if self.upright else COLUMN

    @property
    def across(self) -> AffineExpr:
        """The other one."""
        return COLUMN if self.upright else ROW


@dataclass(frozen=True)
class Parts:
    """How values of which each thread has its own are held: what it has of a row so far.

    ``make``   a fragment of such a value, of a name
    ``along``  a tile's element to the place in it of the thread that has the element
    ``whole``  a place in it to that in a fragment of one value a row
    """

    make: Callable[[str | None], SSAValue]
    along: AffineMap
    whole: AffineMap

    @property
    def own(self) -> tuple[AffineExpr, ...]:
        """A place of the fragment itself."""
        return tuple(AffineExpr.dimension(i) for i in range(len(self.along.results)))


class RowMaps:
    """Builds the maps of a kernel.

    ``outer``       where what does not change from chunk to chunk is computed
    ``emit``        where tiles are: there, or in a loop over a row's chunks
    ``statistics``  fragments of values that each row has one of
    ``passing``     those of ``statistics`` that are about the tile in hand alone
    ``parts``       how these are held where each thread has its own, and not each row
    ``keeps``       ops whose results of one a row are kept in a fragment, with what follows them;
                    other such values are computed where they are used
    ``layout``      how a tile lies with threads, where that does not follow from how it is copied
    """

    def __init__(
        self,
        frame: Frame,
        outer: Emit,
        span: Span,
        point: MakePoint = Point,
        keeps: tuple[type[Operation], ...] = (ReadOp, ReduceOp, ReduceTogetherOp),
        layout: FragmentLayoutAttr | None = None,
    ) -> None:
        self.frame = frame
        self.outer = self.emit = outer
        self.span = span
        self.point = point
        self.keeps = keeps
        self.layout = layout
        self.statistics: dict[SSAValue, SSAValue] = {}
        self.passing: set[SSAValue] = set()
        self.parts: Parts | None = None

    def has_row(self, value: SSAValue) -> bool:
        """Whether a value lies along the columns; a tensor does not."""
        if not isinstance(value.type, ValType):
            return False
        along = self.span.merged or (self.span.axis,)
        return any(label in value.type.labels for label in along)

    # What maps run over ---------------------------------------------------------------------

    def fragment(self, sizes: Sequence[int], element: Attribute, hint: str | None) -> SSAValue:
        """A fragment of the kernel."""
        kind = FragmentType.of(sizes, without_sign(element))
        return self.outer.value(tile.FragmentOp(kind), hint)

    def wide(self, element: Attribute, hint: str | None = None) -> SSAValue:
        """A fragment of a tile."""
        if self.layout is None:
            return self.fragment(self.span.sizes, element, hint)
        kind = FragmentType.of(self.span.sizes, without_sign(element), self.layout)
        return self.outer.value(tile.FragmentOp(kind), hint)

    def narrow(self, hint: str | None = None, element: Attribute = f32) -> SSAValue:
        """A fragment of one value a row."""
        sizes = self.span.sizes
        return self.fragment(sizes[1:] if self.span.upright else sizes[:1], element, hint)

    def number(self, value: float) -> SSAValue:
        """An f32 constant of the kernel."""
        return self.outer.value(arith.ConstantOp(FloatAttr(value, f32)))

    def nothing(self, reduce: ReduceOp) -> SSAValue:
        """What a reduction gives over nothing, in the type in which it accumulates."""
        kind = reduce.accumulates_in
        if is_integer(kind):
            return integers.number(self.outer, int(neutral(reduce.fn.data, kind)), kind)
        return self.number(NEUTRAL[reduce.fn.data])

    def axes(self, over: Tile | None) -> tuple[dict[str, AffineExpr], list[SSAValue]]:
        """Where the region's axes are in a map over a tile, or over its rows; and the origins."""
        span, origin = self.span, list(self.span.origin)
        places = dict(span.places)
        if over is not None:
            if span.upright:
                symbols = [AffineExpr.symbol(i) for i in range(len(origin))]
                across = [span.across, span.across]
                places = {a: e.replace_dims_and_symbols(across, symbols) for a, e in places.items()}
            places[span.axis] = self.column(over)
            if over.start is not None:
                origin.append(over.start)
        return places, origin

    def column(self, over: Tile, within: AffineExpr | None = None) -> AffineExpr:
        """Where on the columns' axis the column ``within`` of a tile is, or each of its own."""
        within = self.span.along if within is None else within
        found = self.span.column.replace_dims_and_symbols(
            [ROW, within], [AffineExpr.symbol(i) for i in range(len(self.span.origin))]
        )
        return found if over.start is None else found + AffineExpr.symbol(len(self.span.origin))

    # Maps -----------------------------------------------------------------------------------

    def over_tile(self, over: Tile, space: SSAValue, wanted: Sequence[Wanted]) -> None:
        """Compute values along the row; ``space`` is a fragment of the tile, held or not."""

        def held(value: SSAValue) -> Held | None:
            if (fragment := over.held.get(value)) is not None:
                return Held(fragment, (ROW, COLUMN))
            if self.has_row(value):
                return None
            own = self.statistic(value)
            if own is None:
                return None
            if self.parts is not None and value in self.passing:
                return Held(own, self.parts.along.results)
            return Held(own, (self.span.across,))

        known = next((v for v, fragment in over.held.items() if fragment is space), None)
        self._map(self.emit, space, known, over, held, wanted)

    def over_rows(
        self,
        emit: Emit,
        space: SSAValue,
        held: Mapping[SSAValue, SSAValue],
        wanted: Sequence[Wanted],
    ) -> None:
        """Compute values of which each row has one, from those that fragments hold."""
        here = {value: Held(fragment, (ROW,)) for value, fragment in held.items()}
        self.over_places(emit, space, here, wanted)

    def over_places(
        self,
        emit: Emit,
        space: SSAValue,
        held: Mapping[SSAValue, Held],
        wanted: Sequence[Wanted],
        rank: int = 1,
    ) -> None:
        """Compute values over the places of ``space``, of so many axes, from what is held where."""
        known = next((v for v, found in held.items() if found == Held(space, (ROW,))), None)
        self._map(emit, space, known, None, held.get, wanted, rank)

    def statistic(self, value: SSAValue) -> SSAValue | None:
        """The fragment of a value that each row has one of, made when it is asked for first.

        None where nothing is read or reduced for it, and for conditions, which no fragment holds.
        """
        if value not in self.statistics:
            found = sources(value)
            if not isinstance(element_of(value), AnyFloat) or not any(
                isinstance(v.owner, self.keeps) for v in found
            ):
                return None
            passing = any(v in self.passing for v in found)
            if passing and self.parts is not None:
                fragment = self.of_parts(value, self.parts)
            else:
                fragment = self.narrow(value.name_hint)
                held = dict(self.statistics)
                space = next((held[v] for v in found if v in held), None)
                emit = self.emit if passing else self.outer
                self.over_rows(emit, space or fragment, held, [Wanted(value, fragment, (ROW,))])
            self.statistics[value] = fragment
            if passing:
                self.passing.add(value)
        return self.statistics[value]

    def of_parts(self, value: SSAValue, parts: Parts) -> SSAValue:
        """A fragment of a value that each thread has its own of, from those and from rows'."""
        fragment = parts.make(value.name_hint)
        held = {
            v: Held(found, parts.own if v in self.passing else parts.whole.results)
            for v, found in self.statistics.items()
        }
        wanted = [Wanted(value, fragment, parts.own)]
        self.over_places(self.emit, fragment, held, wanted, len(parts.own))
        return fragment

    def forget(self) -> None:
        """Leave the tile in hand: what was about it alone is no longer held."""
        for value in self.passing:
            del self.statistics[value]
        self.passing.clear()

    def _map(
        self,
        emit: Emit,
        space: SSAValue,
        known: SSAValue | None,
        over: Tile | None,
        held: Callable[[SSAValue], Held | None],
        wanted: Sequence[Wanted],
        rank: int = 2,
    ) -> None:
        block = Block(arg_types=[element_of(space)])
        axes, origin = self.axes(over)
        point = self.point(self.frame, block, {}, axes, rank, origin, held)
        if known is not None:
            point.take(known, block.args[0])
        source = wanted[0].value.owner
        at = source if isinstance(source, Operation) else self.frame.kernel
        emit.op(point.write(space, wanted, at))

    def inside(self, over: Tile, beyond: SSAValue) -> Callable[[Point, SSAValue], SSAValue] | None:
        """What makes elements beyond the end of a row ``beyond``; None where there are none."""
        length, vector = self.span.length, self.span.vector
        if length is None:
            return None
        along = self.span.along
        column = self.column(over, along if vector == 1 else along // vector * vector)

        def chosen(point: Point, scalar: SSAValue) -> SSAValue:
            scalar = point.cast(scalar, beyond.type)
            inside = point.emit.compare("slt", point.index(column), length)
            return point.emit.value(arith.SelectOp(inside, scalar, beyond))

        return chosen


def sources(value: SSAValue) -> list[SSAValue]:
    """A value and those that it is computed from, back to reads and reductions."""
    found: dict[SSAValue, None] = {}
    work = [value]
    while work:
        here = work.pop()
        if here in found:
            continue
        found[here] = None
        if isinstance(op := here.owner, Operation) and not isinstance(
            op, ReadOp | ReduceOp | ReduceTogetherOp
        ):
            work += op.operands
    return list(found)
