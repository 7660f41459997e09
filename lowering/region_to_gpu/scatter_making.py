"""``region-to-gpu``: what the kernels are made of that make lists of a scatter's updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.types import FragmentType, element_bytes
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.point import COLUMN, Point
from polyc.lowering.region_to_gpu.scatter_lists import ListMaker
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit

Targets: TypeAlias = Mapping[SSAValue, tuple[SSAValue, tuple[AffineExpr, ...]]]
"""Of fragments and workspaces what goes there, and where."""


class Making:
    """Builds one kernel: a thread has an update, or so many.

    ``block`` updates are those of a block.
    """

    def __init__(
        self, maker: ListMaker, spaces: Sequence[BindAttr], grid: Grid, each: int = 1
    ) -> None:
        self.maker, self.scatters, self.lists = maker, maker.scatters, maker.lists
        self.frame = Frame(maker.scatters.kernel)
        self.emit = self.frame.emit
        self.spaces = list(zip(maker.spaces(), spaces, strict=True))
        self._given: dict[int, SSAValue] = {}
        sizes = [self.frame.size(axis.size) for axis in grid.axes]
        self.at: Coordinates = grid.coordinates(self.emit, sizes, maker.plan)
        for label, value in self.at.items():
            value.name_hint = f"{label}0"
        self.size = self.frame.size(maker.count)
        symbols = {label: AffineExpr.symbol(i) for i, label in enumerate(self.at)}
        self.along = symbols[maker.label] + COLUMN
        """Where an update is in their order."""
        self.each = (*(symbols[axis.label] for axis in self.lists.batch), self.along)
        """And in a workspace of all of a batch."""
        self.symbols = symbols
        self.block = grid.axes[-1].tile
        self.threads = self.block // each

    def space(self, number: int) -> SSAValue:
        """A workspace as an argument."""
        if number not in self._given:
            space, binding = self.spaces[number]
            hint = space.name.rpartition("_")[2]
            self._given[number] = self.frame.space(space.kind, binding, hint)
        return self._given[number]

    @property
    def batch(self) -> list[SSAValue]:
        """The point of the batch that the block is at."""
        return [self.at[axis.label] for axis in self.lists.batch]

    def updates(
        self,
        then: Callable[[Point, Mapping[str, SSAValue], SSAValue], Targets | None],
    ) -> None:
        """A map over the block's updates: ``then`` is given where on the axes of lists each falls,
        and whether it does, and gives what goes where."""
        point = self.point(i32)
        if len(self.scatters.over) == 1:
            point.axes = {**point.axes, self.maker.label: self.along}
        else:
            point.axes = {**point.axes, **self.maker.at(point, point.index(self.along))}
        here = point.emit.compare("slt", point.index(self.along), self.size)
        where, here = self.where(point, here)
        targets = then(point, where, here) or {}
        self.map(self.emit, point, self.space_of(self.emit, self.block, i32, "update"), targets)

    def point(self, element: Attribute, *more: SSAValue) -> Point:
        """A point of the block's updates, with ``more`` origins."""
        axes = {axis.label: AffineExpr.constant(0) for axis in self.scatters.axes}
        axes |= {label: self.symbols[label] for label in self.symbols if label in axes}
        origin = [*self.at.values(), *more]
        return Point(self.frame, Block(arg_types=[element]), {}, axes, 2, origin)

    def space_of(self, emit: Emit, columns: int, element: Attribute, hint: str) -> SSAValue:
        """A fragment of so many columns, neighbours of which neighbouring threads have."""
        layout, _ = row_layout(1, columns, 1, element_bytes(element), self.threads)
        return emit.value(tile.FragmentOp(FragmentType.of([1, columns], element, layout)), hint)

    def map(
        self,
        emit: Emit,
        point: Point,
        space: SSAValue,
        targets: Targets,
    ) -> None:
        """The map of a point over ``space``; of each target what goes there, and where."""
        values = [value for value, _ in targets.values()]
        point.block.add_ops([*point.emit.ops, tile.YieldOp(values)])
        maps = [*point.input_maps, *(point.map(place) for _, place in targets.values())]
        body = Region(point.block)
        new = tile.MapOp(space, point.origin, point.inputs, list(targets), maps, body)
        emit.op(located(new, self.scatters.scatter))

    def where(self, point: Point, here: SSAValue) -> tuple[dict[str, SSAValue], SSAValue]:
        """Where on the axes of lists the update of a point falls, and whether it does, of one that
        is ``here``."""
        emit = point.emit
        where = {axis.label: self.at[axis.label] for axis in self.lists.batch}
        for one in self.lists.placed:
            index, first = point.wide(one.index), point.wide(one.place)
            at = integers.binary(emit, "sub", index, first, i64)
            size = point.dim(one.axis.size, i64)
            here = emit.both(here, emit.compare("ult", at, size))
            where[one.axis.label] = emit.value(arith.IndexCastOp(at, INDEX))
        return where, here

    def which(self, emit: Emit, where: Mapping[str, SSAValue]) -> SSAValue:
        """The number of a list among those of a point of the batch."""
        found: SSAValue | None = None
        for placed in self.lists.placed:
            at = where[placed.axis.label]
            if found is not None:
                size = self.frame.size(placed.axis.size)
                at = emit.value(arith.AddiOp(emit.value(arith.MuliOp(found, size)), at))
            found = at
        assert found is not None
        return found

    def place(self, point: Point) -> SSAValue:
        """The place of an update in their order, an i32."""
        return point.emit.value(arith.IndexCastOp(point.index(self.along), i32))

    def number(self, point: Point) -> SSAValue:
        """That counted from 1."""
        one = point.emit.int32(1)
        return integers.binary(point.emit, "add", self.place(point), one, i32)

    def counted(self, point: Point, where: Mapping[str, SSAValue]) -> list[SSAValue]:
        """The coordinates of how long a list is."""
        return self.maker.counted(point.emit, self.frame, where)

    def in_batch(self, emit: Emit, place: SSAValue, *more: SSAValue) -> list[SSAValue]:
        """The coordinates of what an i32 says, in a workspace of all of a batch."""
        return [*self.batch, emit.value(arith.IndexCastOp(place, INDEX)), *more]

    def of_list(self, emit: Emit, which: SSAValue) -> dict[str, SSAValue]:
        """Where the list of a number is on the axes of lists."""
        where = {axis.label: self.at[axis.label] for axis in self.lists.batch}
        for placed in reversed(self.lists.placed[1:]):
            size = self.frame.size(placed.axis.size)
            where[placed.axis.label] = emit.value(arith.RemUIOp(which, size))
            which = emit.value(arith.DivUIOp(which, size))
        return {**where, self.lists.placed[0].axis.label: which}
