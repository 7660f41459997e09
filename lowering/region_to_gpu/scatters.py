"""``region-to-gpu``: scatters, at the tile level (S9, T3).

A block has a tile of the result in registers, which begins as what is updated.  It goes through the
updates in their order; each falls to the elements whose places its indices are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.dialects.region.types import ValType
from polyc.families.scatters.recognise import Scatters
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.kernel import Builder, Walked
from polyc.lowering.region_to_gpu.point import BINARY, COLUMN, ROW, Held, Point, Wanted
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.emit import Emit


@dataclass(frozen=True)
class ScattersLowering(Walked):
    """A region that scatters."""

    scatters: Scatters

    @property
    def kernel(self) -> KernelOp:
        return self.scatters.kernel

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """A block has a tile along the rows and the columns, and a point of any other axis."""
        rows, columns, _ = plan.tile_sizes
        axes = [Axis(axis.label, axis.size) for axis in self.scatters.outer]
        if (row := self.scatters.row) is not None:
            axes.append(Axis(row.label, row.size, rows))
        if (column := self.scatters.column) is not None:
            axes.append(Axis(column.label, column.size, columns))
        return [Grid(tuple(axes))]

    def builder(self, plan: ScheduleOp, grids: Sequence[Grid]) -> ScatterBuilder:
        return ScatterBuilder(self.scatters, plan, grids)


LOWERING = ScattersLowering


class ScatterBuilder(Builder):
    """Builds the kernel of one schedule."""

    def __init__(self, scatters: Scatters, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(scatters.kernel, plan, grids)
        self.scatters = scatters
        self.op = scatters.scatter
        self.element = self.op.result.type.element_type

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """The tile of a block: what is updated, the updates, and what is stored."""
        places: dict[str, AffineExpr] = {}
        for i, (label, value) in enumerate(at.items()):
            places[label], value.name_hint = AffineExpr.symbol(i), f"{label}0"
        for axis, along in ((self.scatters.row, ROW), (self.scatters.column, COLUMN)):
            if axis is not None:
                places[axis.label] += along
        origin = list(at.values())
        rows, columns, _ = self.plan.tile_sizes
        kind = without_sign(self.element)
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        layout, _ = row_layout(rows, columns, vector, element_bytes(f32), threads)
        held = self.emit.value(
            tile.FragmentOp(FragmentType.of([rows, columns], kind, layout)), self.op.fn.data
        )
        self.map(self.emit, held, places, origin, [Wanted(self.op.operand, held, (ROW, COLUMN))])
        self.updates(self.emit, held, places, origin, self.scatters.over)
        self.store(held, places, origin)

    def map(
        self,
        emit: Emit,
        space: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        wanted: Sequence[Wanted],
        held: Mapping[SSAValue, Held] | None = None,
    ) -> None:
        """A map over the tile."""
        block = Block(arg_types=[without_sign(self.element)])
        block.args[0].name_hint = space.name_hint
        known = held or dict[SSAValue, Held]()
        point = Point(self.frame, block, {}, places, 2, origin, known.get)
        emit.op(point.write(space, wanted, self.op))

    def updates(
        self,
        emit: Emit,
        held: SSAValue,
        places: Mapping[str, AffineExpr],
        origin: Sequence[SSAValue],
        over: Sequence[tuple[str, Dim]],
    ) -> None:
        """The loops over the updates, one by one, around a map that combines one of them."""
        if not over:
            self.map(emit, held, places, origin, [self.combined(held)])
            return
        (label, size), *rest = over

        def body(inner: Emit, at: SSAValue) -> None:
            here = {**places, label: AffineExpr.symbol(len(origin))}
            self.updates(inner, held, here, [*origin, at], rest)

        emit.loop(self.frame.size(size), body, hint=label)

    def combined(self, held: SSAValue) -> Wanted:
        """What the elements of a tile are after the update in hand."""

        def then(point: Point, update: SSAValue) -> SSAValue:
            emit, (old, *_) = point.emit, point.block.args
            here: SSAValue | None = None
            for index, place in self.op.pairs:
                one, other = (point.wide(v) for v in (index, place))
                here = emit.both(here, emit.value(arith.CmpiOp(one, other, "eq")))
            assert here is not None
            fn = self.op.fn.data
            if fn == "set":
                new = update
            elif is_integer(self.element):
                new = integers.binary(emit, fn, old, update, self.element)
            else:
                new = emit.value(BINARY[fn](old, update))
            return emit.value(arith.SelectOp(here, new, old))

        return Wanted(self.op.updates, held, (ROW, COLUMN), then)

    def store(
        self, held: SSAValue, places: Mapping[str, AffineExpr], origin: Sequence[SSAValue]
    ) -> None:
        """The outputs of a tile."""
        values = list(self.kernel.yield_op.values)
        symbols = [AffineExpr.symbol(i) for i in range(len(origin))]
        dims: list[AffineExpr] = [ROW, COLUMN]
        wanted: list[Wanted] = []
        for value, output in zip(values, self.frame.outputs, strict=True):
            labels = cast(ValType, value.type).labels
            at = tuple(places[a].replace_dims_and_symbols(dims, symbols) for a in labels)
            wanted.append(Wanted(value, output, at))
        known: dict[SSAValue, Held] = {self.op.result: Held(held, (ROW, COLUMN))}
        self.map(self.emit, held, places, origin, wanted, known)
