"""``region-to-gpu``: movements in boxes, at the tile level (S9, T3).

A block reads a box along the lines of a tensor and keeps it in shared memory as it lies there.
Then it goes through the box along the lines of the result, takes each element from where it is
kept, and computes and stores what is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import FragmentType, SharedType, element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp
from polyc.families.loops.boxes import LINE, Box, Side
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid
from polyc.lowering.region_to_gpu.kernel import Builder
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point, Wanted, element_of
from polyc.passes.support.gpu.free_layouts import BANK_BYTES, row_layout
from polyc.rewriting.driver import located


def box_grid(kernel: KernelOp, box: Box) -> Grid:
    """A block has a box: some points of each axis."""
    return Grid(tuple(Axis(a.label, a.size, box.extents[a.label]) for a in kernel.iters))


class BoxBuilder(Builder):
    """Builds the kernel of one schedule."""

    def __init__(self, kernel: KernelOp, plan: ScheduleOp, grids: Sequence[Grid], box: Box) -> None:
        super().__init__(kernel, plan, grids)
        self.box = box

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """Bring the box, and write it."""
        box, emit = self.box, self.emit
        for label, value in at.items():
            value.name_hint = f"{label}0"
        kind = without_sign(element_of(box.read.result))
        pieces, piece = self.pieces
        pitch = piece + -(-BANK_BYTES // element_bytes(kind))
        shared = located(SharedTileOp(SharedType.of([pieces, pitch], kind, 0)), box.read)
        kept = emit.value(shared, f"{self.kernel.name_of(box.read.tensor)}_box")
        self.bring(at, kept)
        self.write(at, kept)

    def bring(self, at: Coordinates, kept: SSAValue) -> None:
        """Read the box along the tensor's lines, and keep it."""
        box, side = self.box, self.box.source
        read, kind = box.read, without_sign(element_of(box.read.result))
        pieces, piece = self.pieces
        held = self.fragment((pieces, piece), kind)
        each = side.tile[1] // piece
        place = self.place(side, at, ROW // each, ROW % each * piece + COLUMN)
        origin = list(at.values())
        assert isinstance(read.tensor, BlockArgument)
        number = read.tensor.index
        tensor = self.frame.view(number, box.dims(side))
        block = Block(arg_types=[kind, kind])
        block.args[1].name_hint = read.tensor.name_hint
        block.add_op(tile.YieldOp([block.args[1]]))
        maps = [
            AffineMap(2, len(origin), place),
            AffineMap(2, len(origin), (ROW, COLUMN)),
        ]
        load = tile.MapOp(held, origin, [tensor], [held], maps, Region(block))
        store = tile.CopyOp(tile.CopyEnd(held), tile.CopyEnd(kept), tile.CopyView((0, 0)))
        for op in (load, store):
            self.emit.op(located(op, read))

    def write(self, at: Coordinates, kept: SSAValue) -> None:
        """Go through the box along the result's lines."""
        box, side = self.box, self.box.result
        (value,), origin = self.kernel.yield_op.values, list(at.values())
        steps = side.steps(side.others) | side.steps(side.line)
        inside: dict[str, AffineExpr] = {}
        for label in side.order:
            among = COLUMN if label in side.line else ROW
            # The outermost one takes what is left.
            found = among // steps[label] if steps[label] > 1 else among
            first = label == (side.line if label in side.line else side.others)[0]
            inside[label] = found if first else found % box.extents[label]
            if box.extents[label] == 1:
                inside[label] = AffineExpr.constant(0)
        axes = {label: AffineExpr.symbol(i) + inside[label] for i, label in enumerate(at)}
        space = self.fragment(side.tile, f32)
        block = Block(arg_types=[f32])
        line, along = self.among(box.source.others, inside), self.among(box.source.line, inside)
        _, piece = self.pieces
        where = line * (box.source.tile[1] // piece) + along // piece, along % piece
        point = BoxPoint(self.frame, block, axes, origin, box.read, kept, where)
        number = len(self.kernel.arg_names)
        target = self.frame.view(number, box.dims(side))
        wanted = Wanted(value, target, self.place(side, at, ROW, COLUMN))
        self.emit.op(point.write(space, [wanted], self.kernel.yield_op))

    def among(self, part: Sequence[str], inside: dict[str, AffineExpr]) -> AffineExpr:
        """Which of the points of a box along some of the tensor's axes one is."""
        found: AffineExpr = AffineExpr.constant(0)
        for label, step in self.box.source.steps(part).items():
            found = inside[label] * step + found
        return found

    @property
    def pieces(self) -> tuple[int, int]:
        """The lines of the source in pieces that lie apart in shared memory: as many, and so long.

        Threads that have neighbours of the result read elements that lie apart by a power of two,
        as a rule: they are of unlike banks where a piece is as long as all banks are wide.
        """
        size = element_bytes(without_sign(element_of(self.box.read.result)))
        piece = gcd(self.box.source.tile[1], LINE // size)
        return self.box.elements // piece, piece

    def place(
        self, side: Side, at: Coordinates, line: AffineExpr, along: AffineExpr
    ) -> tuple[AffineExpr, ...]:
        """Where an element of a box lies in a tensor whose line is one axis."""
        box, numbers = self.box, {label: i for i, label in enumerate(at)}
        steps = side.steps(side.others)
        found: list[AffineExpr] = []
        for label in side.others:
            inner = line // steps[label] if steps[label] > 1 else line
            if label != side.others[0]:
                inner = inner % box.extents[label]
            start = AffineExpr.symbol(numbers[label])
            found.append(start if box.extents[label] == 1 else start + inner)
        first = side.line[0]
        start = AffineExpr.symbol(numbers[first]) * side.steps(side.line)[first]
        return (*found, start + along)

    def fragment(self, sizes: tuple[int, int], kind: Attribute) -> SSAValue:
        """A fragment of a box as one side has it, in vectors along the lines."""
        box, (lines, length) = self.box, sizes
        size = element_bytes(without_sign(element_of(box.read.result)))
        layout, _ = row_layout(lines, length, box.vector, size, box.threads)
        return self.emit.value(tile.FragmentOp(FragmentType.of([lines, length], kind, layout)))


class BoxPoint(Point):
    """A point of a box, whose one tensor is ``kept`` in shared memory, at ``where``."""

    def __init__(
        self,
        frame: Frame,
        block: Block,
        axes: dict[str, AffineExpr],
        origin: Sequence[SSAValue],
        read: Operation,
        kept: SSAValue,
        where: tuple[AffineExpr, AffineExpr],
    ) -> None:
        super().__init__(frame, block, {}, axes, 2, origin)
        self.moved, self.kept, self.place_kept = read, kept, where

    def source(self, op: ReadOp) -> tuple[SSAValue, tuple[AffineExpr, ...]]:
        if op is self.moved:
            return self.kept, self.place_kept
        return super().source(op)
