"""``region-to-gpu``: the parts of long lists of a scatter's updates, combined ahead (S9, T3).

A block takes parts in turn.  Its threads lie in rows below each other: a row combines every so
manieth update of a part, and the rows' results are reduced.  What a part comes to so depends on the
plan and on which updates it has, and on nothing else: runs repeat to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, f32, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.elements import accumulation, is_integer, neutral, ui64, without_sign
from polyc.dialects.common.gathers import REDUCTIONS
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import LoadGlobalOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType
from polyc.lowering.region_to_gpu import integers, scatter_lists
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Axis, Grid
from polyc.lowering.region_to_gpu.point import BINARY, COLUMN, ROW, Point, Wanted
from polyc.lowering.region_to_gpu.scatter_lists import BEGIN, PARTS, SIZE, ListMaker
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit

EACH = 4
"""Parts that a block takes where there are as many as there can be."""

AT_ONCE = 4
"""Updates of a part that a row of threads has on their way at once."""

WARP = 32
"""Threads that lie along the columns at most."""

BLOCK = "block"
"""What the axis of the blocks that take parts is called."""


def below_each_other(rows: int, columns: int, vector: int, threads: int) -> FragmentLayoutAttr:
    """A tile of which threads lie along the columns first, so that one has elements of several rows
    below each other: it reads an update of any of these once."""
    across = min(threads, columns // vector)
    again, down = columns // (across * vector), threads // across
    thread, register = AffineExpr.dimension(0), AffineExpr.dimension(1)
    beside = register // vector % again * (across * vector)
    column = thread % across * vector + register % vector + beside
    row = thread // across + register // (vector * again) * down
    each = rows * columns // threads
    return FragmentLayoutAttr.of(threads, each, AffineMap(2, 0, (row, column)))


@dataclass(frozen=True)
class Join:
    """How updates of elements of a type are combined by a function."""

    fn: str
    element: Attribute

    def joined(self, point: Point, old: SSAValue, new: SSAValue, here: SSAValue) -> SSAValue:
        """An element with an update combined into it, where that is ``here``."""
        emit, fn = point.emit, self.fn
        if fn == "set":
            found = new
        elif is_integer(self.element):
            found = integers.binary(emit, fn, old, new, self.element)
        else:
            found = emit.value(BINARY[fn](old, new))
        return emit.value(arith.SelectOp(here, found, old))


@dataclass(frozen=True)
class PartJoin(Join):
    """The same of updates of a part, which are wide enough to be reduced: of ``element``, of
    updates of ``source``.  The largest numbers of 64 bits without a sign are moved to signed ones.
    """

    source: Attribute

    @staticmethod
    def of(fn: str, source: Attribute) -> PartJoin:
        """Of a scatter's function and its elements."""
        kind = accumulation(REDUCTIONS[fn], source)
        return PartJoin(fn, i64 if kind == ui64 else kind, source)

    @property
    def moves(self) -> bool:
        """Whether numbers are moved."""
        return self.source == ui64 and self.fn in ("max", "min")

    def _moved(self, point: Point, value: SSAValue) -> SSAValue:
        half = integers.number(point.emit, -(1 << 63), i64)
        return point.emit.value(arith.XOrIOp(value, half))

    def taken(self, point: Point, update: SSAValue) -> SSAValue:
        """An update as a part has it."""
        if self.moves:
            return self._moved(point, update)
        return point.converted(update, self.source, self.element)

    def given(self, point: Point, part: SSAValue) -> SSAValue:
        """What a part comes to as an update."""
        if self.moves:
            return self._moved(point, part)
        return point.converted(part, self.element, self.source)

    def start(self, emit: Emit) -> SSAValue:
        """What a part is before its first update."""
        value = neutral(REDUCTIONS[self.fn], self.element)
        if not is_integer(self.element):
            return emit.value(arith.ConstantOp(FloatAttr(float(value), f32)))
        return integers.number(emit, int(value), self.element)


class PartMaker:
    """The kernel that combines the updates of each part, for all columns."""

    def __init__(self, maker: ListMaker) -> None:
        self.maker, self.scatters = maker, maker.scatters
        self.op = maker.scatters.scatter
        self.join = PartJoin.of(self.op.fn.data, self.op.result.type.element_type)
        column = self.scatters.column
        self.column = None if column in maker.listed else column
        vector = 1 if self.column is None else maker.plan.integer("vectorize")
        columns = maker.plan.tile_sizes[1] if self.column is not None else 1
        self.vector = vector
        self.columns = min(1 << columns.bit_length() - 1, WARP * vector)
        self.rows = scatter_lists.THREADS * vector // self.columns

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.maker.names[-1]

    @property
    def grid(self) -> Grid:
        """What blocks part: the points that lists do not tell apart, and the parts, in turn."""
        axes = [Axis(axis.label, axis.size) for axis in self.maker.lists.batch]
        for axis in self.maker.unlisted:
            axes.append(Axis(axis.label, axis.size, self.columns if axis is self.column else 1))
        return Grid((*axes, Axis(BLOCK, self.maker.parts.ceildiv(EACH))))

    def launch(self, align: Sequence[int]) -> LaunchOp:
        """The kernel's launch."""
        return LaunchOp(self.name, self.maker.plan.when, align, self.grid.blocks())

    def build(self, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel."""
        maker, frame = self.maker, Frame(self.scatters.kernel)
        emit, every = frame.emit, list(zip(maker.spaces(), spaces, strict=True))

        def space(number: int) -> SSAValue:
            one, binding = every[number]
            return frame.space(one.kind, binding, one.name.rpartition("_")[2])

        counts, members, sizes, partial = (space(number) for number in (0, 7, 8, 9))
        grid = self.grid
        at = dict(grid.coordinates(emit, [frame.size(a.size) for a in grid.axes], maker.plan))
        for label, value in at.items():
            value.name_hint = f"{label}0"
        first = at.pop(BLOCK)
        batch = [at[axis.label] for axis in maker.lists.batch]
        places: dict[str, AffineExpr] = {}
        for number, label in enumerate(at):
            places[label] = AffineExpr.symbol(number)
        if self.column is not None:
            places[self.column.label] += COLUMN
        found = maker.of_all(emit, batch, PARTS)
        total = emit.value(LoadGlobalOp(counts, found, i32))
        total = emit.value(arith.IndexCastOp(total, INDEX), "parts")
        kind = without_sign(self.join.element)
        threads = scatter_lists.THREADS
        layout = below_each_other(self.rows, self.columns, self.vector, threads)
        shape = FragmentType.of([self.rows, self.columns], kind, layout)
        whole = Spread.of(layout).image(AffineMap(2, 0, (COLUMN,))).layout()
        held = emit.value(tile.FragmentOp(shape), self.op.fn.data)
        carry = emit.value(tile.FragmentOp(FragmentType.of([self.columns], kind, whole)), "partial")
        body = Block(arg_types=[INDEX])
        (part,) = body.args
        part.name_hint = "part"
        inner = Emit(emit)
        inner.op(tile.FillOp(self.join.start(inner), held))
        size, begin = (
            inner.value(LoadGlobalOp(sizes, [*batch, part, inner.index(which)], i32), hint)
            for which, hint in ((SIZE, "size"), (BEGIN, "begin"))
        )
        begin = inner.value(arith.IndexCastOp(begin, INDEX))
        rows = inner.int32(self.rows)
        above = inner.value(arith.AddiOp(size, inner.int32(self.rows - 1)))
        steps = inner.value(arith.IndexCastOp(inner.value(arith.DivUIOp(above, rows)), INDEX))
        origin = [*at.values(), part]

        def some(outer: Emit, start: SSAValue) -> None:
            def one(last: Emit, more: SSAValue) -> None:
                axes = dict(places)
                block = Block(arg_types=[kind])
                point = Point(frame, block, {}, axes, 2, [*origin, start, more])
                then, count = point.emit, len(origin)
                steps = AffineExpr.symbol(count) + AffineExpr.symbol(count + 1)
                number = point.index(steps * self.rows + ROW)
                own = then.value(arith.IndexCastOp(number, i32))
                here = then.compare("slt", own, size)
                member = [*batch, then.value(arith.AddiOp(begin, number))]
                update = then.value(LoadGlobalOp(members, member, i32, here), "update")
                axes |= maker.at(point, then.value(arith.IndexCastOp(update, INDEX)))
                point.where = here

                def combined(point: Point, scalar: SSAValue) -> SSAValue:
                    new = self.join.taken(point, scalar)
                    return self.join.joined(point, block.args[0], new, here)

                wanted = [Wanted(self.op.updates, held, (ROW, COLUMN), combined)]
                last.op(point.write(held, wanted, self.op))

            outer.loop(AT_ONCE, one, unroll=True)

        inner.loop(steps, some, step=AT_ONCE, hint="step")
        by = AffineMap(2, 0, (COLUMN,))
        inner.op(located(tile.ReduceOp(REDUCTIONS[self.op.fn.data], held, by, carry), self.op))
        inner.op(self.store(carry, partial, list(at), origin))
        body.add_ops([*inner.ops, scf.YieldOp()])
        blocks = frame.size(grid.axes[-1].size)
        emit.op(scf.ForOp(first, total, blocks, [], body))
        return frame.finish(maker.plan, bindings, ahead=(self.name, threads))

    def store(
        self, carry: SSAValue, partial: SSAValue, labels: Sequence[str], origin: Sequence[SSAValue]
    ) -> tile.MapOp:
        """The map that leaves what a part comes to."""
        maker, block = self.maker, Block(arg_types=[carry.type.element_type])  # pyright: ignore
        block.add_op(tile.YieldOp([block.args[0]]))

        def place(label: str) -> AffineExpr:
            found = AffineExpr.symbol(labels.index(label))
            own = self.column is not None and self.column.label == label
            return found + AffineExpr.dimension(0) if own else found

        where = (
            *(place(axis.label) for axis in maker.lists.batch),
            AffineExpr.symbol(len(labels)),
            *(place(axis.label) for axis in maker.unlisted),
        )
        maps = [AffineMap(1, len(origin), where)]
        new = tile.MapOp(carry, list(origin), [], [partial], maps, Region(block))
        return located(new, self.op)
