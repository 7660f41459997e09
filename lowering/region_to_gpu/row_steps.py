"""``region-to-gpu``: a tile is reduced along its columns, step by step, and written.

The tile is a kernel of rows' own, read from memory, or the accumulators of products.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import ClusterRankOp
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.region import BinaryOp, ReadOp, ReduceOp, UnaryOp
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point, Wanted, element_of
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Tile
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit
from polyc.rewriting.postorder import reached

CHEAP = ("add", "sub", "mul", "max", "min", "neg", "abs")
"""Functions of one instruction: what they give is computed again rather than kept."""

ALONG = AffineMap(2, 0, (ROW,))
"""A tile's elements to their rows."""


@dataclass(frozen=True)
class Output:
    """What a region yields, the tensor that it goes to, and the axis of each of its dimensions.

    ``whole`` is a fragment of the tile that takes its place, from which it is stored later.
    """

    value: SSAValue
    tensor: SSAValue
    axes: Sequence[str]
    whole: SSAValue | None = None

    def wanted(self, places: Mapping[str, AffineExpr]) -> Wanted:
        """The value, written where a map's element is on each axis."""
        if self.whole is not None:
            return Wanted(self.value, self.whole, (ROW, COLUMN))
        return Wanted(self.value, self.tensor, tuple(places[axis] for axis in self.axes))


class RowSteps:
    """The steps of a kernel over its tiles.

    ``outputs``  what the kernel writes
    ``cluster``  whether the CTAs of a cluster have rows together: the columns of a tile, or chunks
    ``along``    what a tile's elements are reduced to: their rows, or a part for each thread
    ``rank``     which of the CTAs that have rows together this one is, where no cluster says so
    """

    def __init__(
        self,
        maps: RowMaps,
        outputs: Sequence[Output],
        cluster: bool = False,
        along: AffineMap = ALONG,
        rank: SSAValue | None = None,
    ) -> None:
        self.maps = maps
        self.outputs = outputs
        self.cluster = cluster
        self.along = along
        self.rank = rank

    @property
    def wide_outputs(self) -> list[SSAValue]:
        """What the region yields along the columns."""
        return [out.value for out in self.outputs if self.maps.has_row(out.value)]

    def roots(self, reductions: Sequence[ReduceOp]) -> list[list[SSAValue]]:
        """What each step computes along the columns: a reduction's operand, and the outputs."""
        found = [[op.operand] for op in reductions]
        return [*found, self.wide_outputs] if self.wide_outputs else found

    def whole(self, over: Tile, reductions: Sequence[ReduceOp]) -> None:
        """All steps over a tile that has its rows whole, but for the outputs of one a row."""
        steps = self.roots(reductions)
        for i, op in enumerate(reductions):
            later = [value for roots in steps[i + 1 :] for value in roots]
            target = self.maps.narrow(op.label, op.accumulates_in)
            self.reduce(over, op, later, target, more=False)
            self.maps.statistics[op.result] = target
        if self.wide_outputs:
            self.write(over, self.wide_outputs)

    def along_row(
        self, roots: Sequence[SSAValue], held: Collection[SSAValue]
    ) -> dict[SSAValue, None]:
        """The values along the row that a map computes for ``roots``, operands before users."""

        def computed(values: Iterable[SSAValue]) -> list[SSAValue]:
            return [v for v in values if v not in held and self.maps.has_row(v)]

        def operands(value: SSAValue) -> list[SSAValue]:
            assert isinstance(value.owner, Operation)
            return computed(value.owner.operands)

        return dict.fromkeys(reached(computed(roots), operands))

    def kept(
        self, over: Tile, now: Sequence[SSAValue], later: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """What a step computes or reads for later steps too, in place of what these would need.

        No later step computes again what is not cheap.  Of the ways to that, the one of which
        fragments hold the fewest bytes until then: what is not cheap itself, beside what is held
        and needed still, or one value that the rest goes through.
        """
        here = self.along_row(now, over.held)
        chosen: list[SSAValue] = []
        again = self.along_row(later, over.held)
        for value in reversed(here):
            if value in again and costs(value):
                chosen.append(value)
                again = self.along_row(later, {*over.held, *chosen})
        best = self.bytes_held(over, chosen, later)
        for value in here:
            if element_of(value) == i1:
                continue
            one = [value]
            rest = self.along_row(later, {*over.held, value})
            if any(v in here and costs(v) for v in rest) or value not in self.needed(later, one):
                continue
            held = self.bytes_held(over, one, later)
            if held < best:
                chosen, best = one, held
        return chosen

    def needed(self, later: Sequence[SSAValue], held: Collection[SSAValue]) -> set[SSAValue]:
        """Which of ``held`` later steps read, without what is behind others of them."""
        computed = self.along_row(later, held)
        read = {*later, *(v for value in computed for v in cast(Operation, value.owner).operands)}
        return {value for value in held if value in read}

    def bytes_held(self, over: Tile, kept: Sequence[SSAValue], later: Sequence[SSAValue]) -> int:
        """Bytes of an element of all fragments that later steps read, if ``kept`` are some."""
        found = self.needed(later, {*over.held, *kept})
        return sum(element_bytes(without_sign(element_of(value))) for value in found)

    def reduce(
        self, over: Tile, op: ReduceOp, later: Sequence[SSAValue], target: SSAValue, more: bool
    ) -> None:
        """Reduce a tile into one value a row, with ``more`` on top of what the target has.

        Elements beyond the row's end become what changes no result (S6.4).  A chunk is reduced by
        the CTA that has it, a tile of the whole row by all that have its columns.
        """
        maps, kind, own = self.maps, op.accumulates_in, (ROW, COLUMN)
        inside = maps.inside(over, maps.nothing(op))
        keep = self.kept(over, [op.operand], later)
        source = maps.wide(kind, op.label)

        def operand(point: Point, scalar: SSAValue) -> SSAValue:
            scalar = point.converted(scalar, element_of(op.operand), kind)
            return scalar if inside is None else inside(point, scalar)

        wanted = [Wanted(op.operand, source, own, operand)]
        made: dict[SSAValue, SSAValue] = {}
        for value in keep:
            if value is op.operand and element_of(value) == kind:
                made[value] = source
            else:
                made[value] = maps.wide(element_of(value), value.name_hint)
                wanted.append(Wanted(value, made[value], own))
        maps.over_tile(over, self.space(over, [op.operand], source), wanted)
        over.held.update(made)
        together = self.cluster and over.start is None
        fn = op.fn.data
        reduce = tile.ReduceOp(fn, source, self.along, target, accumulate=more, cluster=together)
        maps.emit.op(located(reduce, op))

    def space(self, over: Tile, roots: Sequence[SSAValue], other: SSAValue | None) -> SSAValue:
        """A fragment for a map to run over: one that it reads, if there is one, or ``other``."""
        needed = self.along_row(roots, ())
        found = [f for v, f in over.held.items() if v in needed] or list(over.held.values())
        if found:
            return found[-1]
        return other or self.maps.wide(f32)

    def write(self, over: Tile, values: Sequence[SSAValue]) -> None:
        """Compute the outputs along the row, and write them."""
        axes, _ = self.maps.axes(over)
        wanted = [out.wanted(axes) for out in self.outputs if out.value in values]
        self.maps.over_tile(over, self.space(over, values, None), wanted)

    def write_statistics(self) -> None:
        """Write the outputs of which each row has one.

        Of the CTAs that have rows together, the first one does.
        """
        maps = self.maps
        axes, _ = maps.axes(None)
        narrow = [out for out in self.outputs if not maps.has_row(out.value)]
        spaces = [maps.statistic(out.value) or maps.narrow() for out in narrow]

        def write(emit: Emit) -> None:
            for out, space in zip(narrow, spaces, strict=True):
                maps.over_rows(emit, space, maps.statistics, [out.wanted(axes)])

        if (self.cluster or self.rank is not None) and narrow:
            rank = self.rank or maps.outer.value(ClusterRankOp(), "rank")
            maps.outer.when(maps.outer.compare("eq", rank, maps.outer.index(0)), write)
        else:
            write(maps.outer)


def costs(value: SSAValue) -> bool:
    """Whether a number takes a read or more than an instruction; fragments hold no conditions."""
    op = value.owner
    if element_of(value) == i1:
        return False
    return isinstance(op, ReadOp) or (
        isinstance(op, UnaryOp | BinaryOp) and op.fn.data not in CHEAP
    )
