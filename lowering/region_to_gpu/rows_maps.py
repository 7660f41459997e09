"""``region-to-gpu``: the maps of a kernel of rows, over a tile of them or over a value a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, StringAttr, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Assumption
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp, ReduceOp, ReduceTogetherOp
from polyc.families.facts import holds_always
from polyc.families.rows.recognise import Rows
from polyc.families.rows.schedules import known_sizes
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Point, Wanted, element_of
from polyc.rewriting.emit import Emit


@dataclass
class Tile:
    """A tile of rows while it is computed.

    ``start`` is its first column; None where it has the whole row.  ``held`` are the fragments of
    values along the row.
    """

    start: SSAValue | None = None
    held: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])


class RowMaps:
    """Builds maps into the kernel of one schedule.

    ``emit``        where tiles are computed: the kernel's block, or a loop's over a row's chunks
    ``corner``      where the block's rows are on the outer axes
    ``statistics``  fragments of values that each row has one of
    ``passing``     those of ``statistics`` that are about the tile in hand alone
    """

    def __init__(self, rows: Rows, plan: ScheduleOp) -> None:
        self.rows = rows
        self.frame = Frame(rows.kernel)
        self.emit = self.frame.emit
        self.height, self.width, _ = plan.tile_sizes
        self.corner: list[SSAValue] = []
        self.statistics: dict[SSAValue, SSAValue] = {}
        self.passing: set[SSAValue] = set()
        self.length = self.frame.size(rows.length)
        facts, symbols = known_sizes(rows, plan), rows.kernel.symbol_names

        def multiple_of(size: int) -> bool:
            return holds_always(Assumption(rows.length.mod(size), "=="), facts, symbols)

        vector = plan.integer("vectorize")
        self.vector = vector if multiple_of(vector) else 1
        """So many neighbours are inside a row or beyond its end together."""
        exact = Assumption(rows.length - self.width, "==")
        streaming = plan.algo_choice.data["rows"] == StringAttr("streaming")
        self.has_tail = not (
            multiple_of(self.width) if streaming else holds_always(exact, facts, symbols)
        )

    # What maps run over ---------------------------------------------------------------------

    def fragment(self, sizes: Sequence[int], element: Attribute, hint: str | None) -> SSAValue:
        """A fragment of the kernel."""
        kind = FragmentType.of(sizes, element)
        return self.frame.emit.value(tile.FragmentOp(kind), hint)

    def wide(self, element: Attribute, hint: str | None = None) -> SSAValue:
        """A fragment of a tile."""
        return self.fragment([self.height, self.width], element, hint)

    def narrow(self, hint: str | None = None) -> SSAValue:
        """A fragment of one value a row."""
        return self.fragment([self.height], f32, hint)

    def number(self, value: float) -> SSAValue:
        """An f32 constant of the kernel."""
        return self.frame.emit.value(arith.ConstantOp(FloatAttr(value, f32)))

    def axes(self, over: Tile | None) -> tuple[dict[str, AffineExpr], list[SSAValue]]:
        """Where the region's axes are in a map over a tile, or over its rows; and the origins."""
        origin = list(self.corner)
        places: dict[str, AffineExpr] = {
            axis.label: AffineExpr.symbol(i) for i, axis in enumerate(self.rows.outer)
        }
        if self.rows.outer:
            places[self.rows.outer[-1].label] += ROW
        if over is not None:
            column = COLUMN
            if over.start is not None:
                column = column + AffineExpr.symbol(len(origin))
                origin.append(over.start)
            places[self.rows.row.label] = column
        return places, origin

    # Maps -----------------------------------------------------------------------------------

    def over_tile(self, over: Tile, space: SSAValue, wanted: Sequence[Wanted]) -> None:
        """Compute values along the row; ``space`` is a fragment of the tile, held or not."""

        def held(value: SSAValue) -> Held | None:
            if (fragment := over.held.get(value)) is not None:
                return Held(fragment, (ROW, COLUMN))
            if self.rows.has_row(value):
                return None
            own = self.statistic(value)
            return None if own is None else Held(own, (ROW,))

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
        known = next((v for v, fragment in held.items() if fragment is space), None)

        def find(value: SSAValue) -> Held | None:
            fragment = held.get(value)
            return None if fragment is None else Held(fragment, (ROW,))

        self._map(emit, space, known, None, find, wanted)

    def statistic(self, value: SSAValue) -> SSAValue | None:
        """The fragment of a value that each row has one of, made when it is asked for first.

        None where nothing is read or reduced for it, and for conditions, which no fragment holds.
        """
        if value not in self.statistics:
            found = sources(value)
            if not isinstance(element_of(value), AnyFloat) or not any(
                isinstance(v.owner, ReadOp | ReduceOp | ReduceTogetherOp) for v in found
            ):
                return None
            passing = any(v in self.passing for v in found)
            fragment = self.narrow(value.name_hint)
            held = dict(self.statistics)
            space = next((held[v] for v in found if v in held), None)
            emit = self.emit if passing else self.frame.emit
            self.over_rows(emit, space or fragment, held, [Wanted(value, fragment, (ROW,))])
            self.statistics[value] = fragment
            if passing:
                self.passing.add(value)
        return self.statistics[value]

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
    ) -> None:
        block = Block(arg_types=[element_of(space)])
        axes, origin = self.axes(over)
        point = Point(self.frame, block, {}, axes, 1 if over is None else 2, origin, held)
        if known is not None:
            point.take(known, block.args[0])
        source = wanted[0].value.owner
        at = source if isinstance(source, Operation) else self.rows.kernel
        emit.op(point.write(space, wanted, at))

    def inside(self, over: Tile, beyond: SSAValue) -> Callable[[Point, SSAValue], SSAValue] | None:
        """What makes elements beyond the end of a row ``beyond``; None where there are none."""
        if not self.has_tail:
            return None
        column = COLUMN if self.vector == 1 else COLUMN // self.vector * self.vector
        if over.start is not None:
            column = column + AffineExpr.symbol(len(self.corner))

        def chosen(point: Point, scalar: SSAValue) -> SSAValue:
            scalar = point.cast(scalar, f32)
            inside = point.emit.compare("slt", point.index(column), self.length)
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
