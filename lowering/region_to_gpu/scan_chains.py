"""``region-to-gpu``: scans of long lines, a tile a block, each of which looks back (S8, S9).

The tiles of all lines are in an order, and blocks that run at once take them in turn.  A block scans
its tile, posts what it comes to, and takes the posts of the tiles before its own: of those of its
group, and of the last one of the group before what the line comes to until there.  Which posts it
takes, and how it combines them, is fixed, so that runs repeat to the bit whoever is first; and it
waits for tiles before its own alone, which are on their way.  All goes through memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from polyc.dialects.common.elements import is_integer, without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import BlockIdOp, GridSizeOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    index_attr,
)
from polyc.families.scans.schedules import group_of, room_of
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.loop_scope import AxisPlace
from polyc.lowering.region_to_gpu.point import BINARY, COLUMN, ROW
from polyc.lowering.region_to_gpu.scan_builders import COMBINE, Lines, RowsBuilder, start_of
from polyc.lowering.region_to_gpu.scan_teams import ONE, OWN, ZERO
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim


@dataclass(frozen=True)
class Link:
    """Where a tile stands: the ``rank``-th of the ``parts`` of its line, and in which group."""

    line: SSAValue
    rank: SSAValue
    parts: SSAValue
    group: SSAValue
    """The number of its group, and its own number there."""
    own: SSAValue


class ChainBuilder(RowsBuilder):
    """Builds a kernel whose blocks take the tiles of all lines in turn."""

    told: SSAValue
    """What each tile comes to: words, a row a line."""
    ends: SSAValue
    """What each line comes to with the last tile of each of its groups."""

    def taking(self, kinds: Sequence[GlobalType], spaces: Sequence[BindAttr]) -> None:
        """Let the blocks meet in workspaces."""
        both = zip(kinds, spaces, strict=True)
        self.told, self.ends = (self.frame.space(kind, space) for kind, space in both)

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        kernel = super().finish(bindings)
        kernel.blocks_per_sm = index_attr(room_of(self.scans))
        return kernel

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel: a loop over the block's tiles."""
        scans, emit, group = self.scans, self.emit, group_of(self.plan)
        columns, length = self.plan.tile_sizes[1], scans.size(scans.along)
        size, parts = self.frame.size(length), self.frame.size(length.ceildiv(columns))
        labels = [label for label in scans.labels if label is not None]
        sizes = [self.frame.size(scans.size(label)) for label in labels]
        count = parts
        for one in sizes:
            count = emit.value(arith.MuliOp(count, one))
        block, blocks = emit.value(BlockIdOp(), "block"), emit.value(GridSizeOp(), "blocks")
        body = Block(arg_types=[INDEX])
        (number,) = body.args
        number.name_hint = "tile"
        inner = Emit(emit)
        line = inner.value(arith.DivUIOp(number, parts), "line")
        rank = inner.value(arith.RemUIOp(number, parts), "rank")
        of_group = inner.apply(affine_dim(0) // group, [rank], hint="group")
        own = inner.apply(affine_dim(0) % group, [rank], hint="own")
        link = Link(line, rank, parts, of_group, own)
        places: dict[str, AxisPlace] = {}
        for label, extent in reversed(list(zip(labels, sizes, strict=True))[1:]):
            places[label] = AxisPlace(None, inner.value(arith.RemUIOp(line, extent)))
            line = inner.value(arith.DivUIOp(line, extent))
        places.update({label: AxisPlace(None, line) for label in labels[:1]})
        start = inner.apply(affine_dim(0) * columns, [rank])
        if scans.scan.is_reverse:
            back = (affine_dim(1) - affine_dim(0) - 1) * columns
            start = inner.apply(back, [rank, parts])
        at = Lines(places, scans.along, start)
        held = self.fragment(inner, (True, True), "held")
        self.load(inner, held, at, size)
        self.join(inner, held, self.before(inner, link, self.tell(inner, held, link)))
        self.store(inner, held, at)
        body.add_ops([*inner.ops, scf.YieldOp()])
        emit.op(scf.ForOp(block, count, blocks, [], body))
        return self.finish(bindings)

    def tell(self, emit: Emit, held: SSAValue, link: Link) -> SSAValue:
        """Scan the block's tile of a line, and post what it comes to."""
        scan = self.scans.scan
        whole = self.fragment(emit, self.along, "whole")
        emit.op(tile.FillOp(start_of(emit, scan, self.kind), whole))
        how = {"reverse": scan.is_reverse, "exclusive": scan.is_exclusive}
        emit.op(located(tile.ScanOp(scan.fn.data, held, 1, whole, **how), scan))
        emit.op(located(tile.PostOp(whole, self.told, [link.line, link.rank]), scan))
        return whole

    def before(self, emit: Emit, link: Link, whole: SSAValue) -> SSAValue:
        """What the tiles before the block's own come to; the last of a group posts that with it."""
        scan, fn, group = self.scans.scan, self.scans.scan.fn.data, group_of(self.plan)
        threads, kind = self.plan.threads(), without_sign(self.kind)
        layout = FragmentLayoutAttr.of(
            threads, group // threads, AffineMap(2, 0, (ZERO, ROW + COLUMN * threads))
        )
        others = emit.value(tile.FragmentOp(FragmentType.of([1, group], kind, layout)), "others")
        first = emit.apply(affine_dim(0) * group, [link.group])
        where = [link.line, first]
        emit.op(located(tile.AwaitPostsOp(fn, self.told, where, 1, link.own, others), scan))
        found = self.fragment(emit, self.along, "before")
        emit.op(located(tile.ReduceOp(fn, others, ONE, found), scan))
        end = self.fragment(emit, self.along, "end")
        earlier = emit.apply(affine_dim(0) - 1, [link.group])
        one = emit.value(arith.MinSIOp(link.group, emit.index(1)))
        where = [link.line, earlier]
        emit.op(located(tile.AwaitPostsOp(fn, self.ends, where, 1, one, end), scan))
        self.combine(emit, found, end, OWN)
        last = emit.compare("eq", link.own, emit.index(group - 1))

        def post(then: Emit) -> None:
            self.combine(then, whole, found, OWN)
            then.op(located(tile.PostOp(whole, self.ends, [link.line, link.group]), scan))

        emit.when(last, post)
        return found

    def join(self, emit: Emit, held: SSAValue, before: SSAValue) -> None:
        """Let a tile go on from what is before it."""
        self.combine(emit, held, before, ONE)

    def combine(self, emit: Emit, held: SSAValue, other: SSAValue, at: AffineMap) -> None:
        """Each element with another fragment's, which comes first."""
        kind, fn = without_sign(self.kind), COMBINE[self.scans.scan.fn.data]
        block = Block(arg_types=[kind, kind])
        own, (old, new) = Emit(), block.args
        if is_integer(self.kind):
            value = integers.binary(own, fn, new, old, self.kind)
        else:
            assert self.kind == f32
            value = own.value(BINARY[fn](new, old))
        block.add_ops([*own.ops, tile.YieldOp([value])])
        emit.op(tile.MapOp(held, [], [other], [held], [at, OWN], Region(block)))
