"""``region-to-gpu``: scans of long lines and few, each by a team of blocks (S8, S9).

A block has the same tile of each line of its team.  It scans that, tells what it comes to, and once
all blocks of the team have told theirs combines those before its own, in a fixed order.  So all
goes through memory once, and runs repeat to the bit, which they would not where a block took what
others happen to have by then.  The tile of the next line is on its way meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import BlockIdOp, GridSizeOp
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType, GlobalType, index_attr
from polyc.families.scans.schedules import MOST_PARTS, room_of
from polyc.lowering.region_to_gpu.loop_scope import AxisPlace
from polyc.lowering.region_to_gpu.point import COLUMN, ROW
from polyc.lowering.region_to_gpu.scan_builders import OWN, Lines, RowsBuilder, start_of
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim

ZERO = AffineExpr.constant(0)
ONE = AffineMap(2, 0, (ZERO, ZERO))
"""All of a fragment to one value."""


@dataclass(frozen=True)
class Team:
    """Where a block stands: ``rank`` of the ``parts`` blocks of team ``number`` of ``count``."""

    rank: SSAValue
    parts: SSAValue
    number: SSAValue
    count: SSAValue


class TeamBuilder(RowsBuilder):
    """Builds a kernel whose blocks share lines, in teams of one for each tile of a line."""

    told: SSAValue
    """What each block has of each line."""
    arrived: SSAValue
    """Of each line, how many blocks have told that."""

    def taking(self, kinds: Sequence[GlobalType], spaces: Sequence[BindAttr]) -> None:
        """Let the blocks meet in workspaces."""
        both = zip(kinds, spaces, strict=True)
        self.told, self.arrived = (self.frame.space(kind, space) for kind, space in both)

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        kernel = super().finish(bindings)
        kernel.blocks_per_sm = index_attr(room_of(self.scans, self.plan))
        return kernel

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel: a loop over the lines of a block's team."""
        scans, emit = self.scans, self.emit
        columns, length = self.plan.tile_sizes[1], scans.size(scans.along)
        size, parts = self.frame.size(length), self.frame.size(length.ceildiv(columns))
        labels = [label for label in scans.labels if label is not None]
        sizes = [self.frame.size(scans.size(label)) for label in labels]
        count = emit.index(1)
        for one in sizes:
            count = emit.value(arith.MuliOp(count, one))
        block, blocks = emit.value(BlockIdOp(), "block"), emit.value(GridSizeOp(), "blocks")
        team = Team(
            emit.value(arith.RemUIOp(block, parts), "rank"),
            parts,
            emit.value(arith.DivUIOp(block, parts), "team"),
            emit.value(arith.DivUIOp(blocks, parts), "teams"),
        )
        start = emit.apply(affine_dim(0) * columns, [team.rank])
        if scans.scan.is_reverse:
            back = (affine_dim(1) - affine_dim(0) - 1) * columns
            start = emit.apply(back, [team.rank, parts])

        def lines(inner: Emit, number: SSAValue) -> Lines:
            """A line by its number: the last axis is the fastest, and what is beyond the last line
            is beyond the end of the first axis."""
            places: dict[str, AxisPlace] = {}
            for label, extent in reversed(list(zip(labels, sizes, strict=True))[1:]):
                places[label] = AxisPlace(None, inner.value(arith.RemUIOp(number, extent)))
                number = inner.value(arith.DivUIOp(number, extent))
            for label in labels[:1]:
                places[label] = AxisPlace(None, number)
            return Lines(places, scans.along, start)

        held = self.fragment(emit, (True, True), "line")
        self.load(emit, held, lines(emit, team.number), size)
        body = Block(arg_types=[INDEX])
        (line,) = body.args
        line.name_hint = "number"
        inner = Emit(emit)
        self.tell(inner, held, team, line)
        coming = None
        if labels:
            coming = self.fragment(inner, (True, True), "next")
            after = inner.value(arith.AddiOp(line, team.count))
            self.load(inner, coming, lines(inner, after), size)
        self.join(inner, held, self.before(inner, team, line))
        self.store(inner, held, lines(inner, line))
        if coming is not None:
            self.combine(inner, held, coming, OWN, taken=True)
        body.add_ops([*inner.ops, scf.YieldOp()])
        emit.op(scf.ForOp(team.number, count, team.count, [], body))
        return self.finish(bindings)

    def tell(self, emit: Emit, held: SSAValue, team: Team, line: SSAValue) -> None:
        """Scan the block's tile of a line, and say what it comes to."""
        scan = self.scans.scan
        whole = self.fragment(emit, self.along, "whole")
        emit.op(tile.FillOp(start_of(emit, scan, self.kind), whole))
        how = {"reverse": scan.is_reverse, "exclusive": scan.is_exclusive}
        emit.op(located(tile.ScanOp(scan.fn.data, held, 1, whole, **how), scan))
        block = Block(arg_types=[without_sign(self.kind)])
        block.add_op(tile.YieldOp([block.args[0]]))
        place = AffineMap(2, 2, (AffineExpr.symbol(0), AffineExpr.symbol(1)))
        emit.op(tile.MapOp(whole, [line, team.rank], [], [self.told], [place], Region(block)))
        emit.op(located(tile.GridSignalOp(self.arrived, [line]), scan))

    def before(self, emit: Emit, team: Team, line: SSAValue) -> SSAValue:
        """What the tiles before the block's own come to, once all have told."""
        scan, threads = self.scans.scan, self.plan.threads()
        kind = without_sign(self.kind)
        emit.op(located(tile.GridWaitOp(self.arrived, [line], team.parts), scan))
        layout = FragmentLayoutAttr.of(
            threads, MOST_PARTS // threads, AffineMap(2, 0, (ZERO, ROW + COLUMN * threads))
        )
        others = emit.value(tile.FragmentOp(FragmentType.of([1, MOST_PARTS], kind, layout)), "told")
        block = Block(arg_types=[kind, kind])
        own = Emit()
        earlier = own.compare("slt", own.value(tile.TileIndexOp(1)), team.rank)
        nothing = start_of(own, scan, self.kind)
        value = own.value(arith.SelectOp(earlier, block.args[1], nothing))
        block.add_ops([*own.ops, tile.YieldOp([value])])
        maps = [
            AffineMap(2, 2, (AffineExpr.symbol(0), COLUMN)),
            AffineMap(2, 2, (ROW, COLUMN)),
        ]
        origin, inputs = [line, team.rank], [self.told]
        emit.op(tile.MapOp(others, origin, inputs, [others], maps, Region(block)))
        found = self.fragment(emit, self.along, "before")
        emit.op(located(tile.ReduceOp(scan.fn.data, others, ONE, found), scan))
        return found

    def join(self, emit: Emit, held: SSAValue, before: SSAValue) -> None:
        """Let a tile go on from what is before it."""
        self.combine(emit, held, before, ONE)
