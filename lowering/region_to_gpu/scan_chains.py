"""``region-to-gpu``: scans of long lines, a tile a block, each of which looks back (S8, S9).

The tiles of all lines are in an order, and blocks that run at once take them in turn.  A block scans
its tile, posts what it comes to, and takes posts of the tiles before its own: of those of its group
one by one, of the groups before in the group's own group what each comes to, and one for all that
is before these.  Which posts it takes, and how it combines them, is fixed, so that runs repeat to the
bit whoever is first; and it waits for tiles before its own alone, which are on their way.  All goes
through memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import BlockIdOp, GridSizeOp, OpaqueOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    index_attr,
)
from polyc.dialects.plan import ScheduleOp
from polyc.families.scans.recognise import Scans
from polyc.families.scans.schedules import axis_of, group_of, room_of
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.loop_scope import AxisPlace, placed
from polyc.lowering.region_to_gpu.point import BINARY, COLUMN, ROW
from polyc.lowering.region_to_gpu.scan_builders import COMBINE, RowsBuilder, start_of
from polyc.lowering.region_to_gpu.scan_teams import ONE, OWN, ZERO
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim


@dataclass(frozen=True)
class Link:
    """Where a tile stands: the ``rank``-th along its line, and at which ``column`` it begins."""

    line: SSAValue
    rank: SSAValue
    column: SSAValue | None = None


@dataclass(frozen=True)
class Walk:
    """Where a tile's elements are, as ``Lines``, with any axes along those of the tile."""

    places: Mapping[str, AxisPlace]

    def axes(self, origin: list[SSAValue]) -> dict[str, AffineExpr]:
        """The axes in a map's dimensions and origins, which learn where the tile begins."""
        return {label: placed(place, origin) for label, place in self.places.items()}


class ChainBuilder(RowsBuilder):
    """Builds a kernel whose blocks take the tiles of all lines in turn, a line a tile."""

    words: tuple[SSAValue, ...]
    """What each tile comes to, each group of them, and each line until the end of a group of
    groups."""

    axis = 1
    """The axis of a tile that is scanned."""

    def taking(self, kinds: Sequence[GlobalType], spaces: Sequence[BindAttr]) -> None:
        """Let the blocks meet in workspaces."""
        both = zip(kinds, spaces, strict=True)
        self.words = tuple(self.frame.space(kind, space) for kind, space in both)

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        kernel = super().finish(bindings)
        kernel.blocks_per_sm = index_attr(room_of(self.scans))
        return kernel

    # The walk

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel: a loop over the block's tiles."""
        scans, emit = self.scans, self.emit
        step, length = self.plan.tile_sizes[self.axis], scans.size(scans.along)
        size = self.frame.size(length)
        counts = [self.frame.size(n) for n in levels_of(length.ceildiv(step), self.group)]
        others = [label for label in scans.labels if label is not None]
        parted = others[len(others) - self.axis_count :]
        sizes = [self.frame.size(scans.size(label)) for label in others]
        tiles, strips = counts[0], None
        for label, one in zip(others, sizes, strict=True):
            if label in parted:
                columns = self.plan.tile_sizes[1]
                one = strips = self.frame.size(scans.size(label).ceildiv(columns))
            tiles = emit.value(arith.MuliOp(tiles, one))
        block, blocks = emit.value(BlockIdOp(), "block"), emit.value(GridSizeOp(), "blocks")
        body = Block(arg_types=[INDEX])
        (number,) = body.args
        number.name_hint = "tile"
        inner = Emit(emit)
        places: dict[str, AxisPlace] = {}
        rest: SSAValue = number
        column: SSAValue | None = None
        if strips is not None:
            strip = inner.value(arith.RemUIOp(rest, strips))
            rest = inner.value(arith.DivUIOp(rest, strips))
            column = inner.apply(affine_dim(0) * self.plan.tile_sizes[1], [strip], hint="column")
            places[parted[0]] = AxisPlace(1, column)
        rank = inner.value(arith.RemUIOp(rest, counts[0]), "rank")
        rest = line = inner.value(arith.DivUIOp(rest, counts[0]), "line")
        lone = [pair for pair in zip(others, sizes, strict=True) if pair[0] not in parted]
        for label, extent in reversed(lone[1:]):
            places[label] = AxisPlace(None, inner.value(arith.RemUIOp(rest, extent)))
            rest = inner.value(arith.DivUIOp(rest, extent))
        places.update({label: AxisPlace(None, rest) for label, _ in lone[:1]})
        start = inner.apply(affine_dim(0) * step, [rank])
        if scans.scan.is_reverse:
            back = (affine_dim(1) - affine_dim(0) - 1) * step
            start = inner.apply(back, [rank, counts[0]])
        places[scans.along] = AxisPlace(self.axis, start)
        at, link = Walk(dict(places)), Link(line, rank, column)
        held = self.fragment(inner, (True, True), "held")
        self.load(inner, held, at, size)
        before = self.before(inner, link, self.tell(inner, held, link, counts), counts)
        self.combine(inner, held, before, AffineMap(2, 0, self.word(ROW, COLUMN)))
        # Where it is stored is computed anew: addresses would take the registers of what is held.
        again = inner.value(OpaqueOp(start), "again")
        places[scans.along] = AxisPlace(self.axis, again)
        self.store(inner, held, Walk(places))
        body.add_ops([*inner.ops, scf.YieldOp()])
        emit.op(scf.ForOp(block, tiles, blocks, [], body))
        return self.finish(bindings)

    @property
    def group(self) -> int:
        """Posts of a level that a block takes one by one."""
        return group_of(self.plan, self.axis)

    axis_count = 0
    """Axes besides the scanned one that a tile runs along."""

    # Words

    def word(self, row: AffineExpr, column: AffineExpr) -> tuple[AffineExpr, AffineExpr]:
        """Where in a row of words what a tile's element goes on from is."""
        return ZERO, ZERO

    def told(self) -> FragmentLayoutAttr:
        """How a row of words is spread over threads."""
        return FragmentLayoutAttr.of(self.plan.threads(), 1, AffineMap(2, 0, (ZERO, ZERO)))

    def awaited(self) -> FragmentLayoutAttr:
        """How the words of a group are."""
        threads = self.plan.threads()
        place = AffineMap(2, 0, (ZERO, ROW + COLUMN * threads))
        return FragmentLayoutAttr.of(threads, self.group // threads, place)

    by = ONE
    """What a group's words are summed to."""

    def row(self, emit: Emit, hint: str, count: int = 1) -> SSAValue:
        """A fragment of so many words for each of a tile's lines."""
        layout, sizes = self.told() if count == 1 else self.awaited(), [1, 1]
        sizes[self.axis] = count
        if self.axis == 0:
            sizes[1] = self.plan.tile_sizes[1]
        kind = FragmentType.of(sizes, without_sign(self.kind), layout)
        return emit.value(tile.FragmentOp(kind), hint)

    def where(
        self, emit: Emit, link: Link, number: SSAValue, count: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The word of the ``number``-th of ``count`` of a tile's line."""
        return link.line, number

    def tell(
        self, emit: Emit, held: SSAValue, link: Link, counts: Sequence[SSAValue]
    ) -> SSAValue:
        """Scan the block's tile, and post what it comes to."""
        scan = self.scans.scan
        whole = self.fragment(emit, self.along, "whole")
        emit.op(tile.FillOp(start_of(emit, scan, self.kind), whole))
        how = {"reverse": scan.is_reverse, "exclusive": scan.is_exclusive}
        emit.op(located(tile.ScanOp(scan.fn.data, held, self.axis, whole, **how), scan))
        found = self.worded(emit, whole)
        at = self.where(emit, link, link.rank, counts[0])
        emit.op(located(tile.PostOp(found, self.words[0], at), scan))
        return found

    def worded(self, emit: Emit, whole: SSAValue) -> SSAValue:
        """What a tile comes to, in the order of words."""
        return whole

    def before(
        self, emit: Emit, link: Link, whole: SSAValue, counts: Sequence[SSAValue]
    ) -> SSAValue:
        """What the tiles before the block's own come to; the last of a group posts that with it."""
        scan, group = self.scans.scan, self.group
        found: SSAValue | None = None
        number, last = link.rank, list[SSAValue]()
        for level, (words, count) in enumerate(zip(self.words, counts, strict=True)):
            if level == 2:
                here = self.row(emit, "first")
                first = emit.apply(affine_dim(0) - 1, [number])
                until = emit.value(arith.MinSIOp(number, emit.index(1)))
            else:
                others = self.row(emit, "others", group)
                here = self.row(emit, "before")
                own = emit.apply(affine_dim(0) % group, [number], hint="own")
                first, until = emit.apply(affine_dim(0) - affine_dim(1), [number, own]), own
            at = self.where(emit, link, first, count)
            target = here if level == 2 else others
            wait = tile.AwaitPostsOp(scan.fn.data, words, at, self.axis, until, target)
            emit.op(located(wait, scan))
            if level < 2:
                emit.op(located(tile.ReduceOp(scan.fn.data, others, self.by, here), scan))
            if found is not None:
                self.combine(emit, found, here, OWN)
            else:
                found = here
            if level == 2:
                break
            last.append(emit.compare("eq", own, emit.index(group - 1)))
            number = emit.apply(affine_dim(0) // group, [number], hint="group")
            if level == 0:
                emit.when(last[0], self.posting(found, whole, link, number, counts, 1))
            else:
                over = emit.both(*last)
                ends = number
        assert found is not None
        emit.when(over, self.posting(found, whole, link, ends, counts, 2))
        return found

    def posting(
        self,
        before: SSAValue,
        whole: SSAValue,
        link: Link,
        number: SSAValue,
        counts: Sequence[SSAValue],
        level: int,
    ) -> Callable[[Emit], None]:
        """Post what there is before a tile, with that: its group, or its line until there."""

        def post(then: Emit) -> None:
            end = self.row(then, "end")
            self.combine(then, end, whole, OWN, taken=True)
            self.combine(then, end, before, OWN)
            at = self.where(then, link, number, counts[level])
            then.op(located(tile.PostOp(end, self.words[level], at), self.scans.scan))

        return post

    def combine(
        self, emit: Emit, held: SSAValue, other: SSAValue, at: AffineMap, taken: bool = False
    ) -> None:
        """Each element with another fragment's, which comes first, or that alone."""
        kind, fn = without_sign(self.kind), COMBINE[self.scans.scan.fn.data]
        block = Block(arg_types=[kind, kind])
        own, (old, new) = Emit(), block.args
        value: SSAValue = new
        if not taken and is_integer(self.kind):
            value = integers.binary(own, fn, new, old, self.kind)
        elif not taken:
            assert self.kind == f32
            value = own.value(BINARY[fn](new, old))
        block.add_ops([*own.ops, tile.YieldOp([value])])
        emit.op(tile.MapOp(held, [], [other], [held], [at, OWN], Region(block)))


class ColumnChainBuilder(ChainBuilder):
    """The same of lines that lie side by side: a tile's rows are their points.

    A thread has neighbouring points of neighbouring lines.  The words of these lie apart, so that
    those of neighbouring threads are neighbours.
    """

    axis = 0
    axis_count = 1
    by = AffineMap(2, 0, (ZERO, COLUMN))

    @property
    def along(self) -> tuple[bool, bool]:
        return False, True

    @property
    def across(self) -> int:
        """Threads side by side."""
        return self.plan.tile_sizes[1] // self.plan.integer("vectorize")

    def layout(self) -> FragmentLayoutAttr:
        """Threads have vectors side by side, and as many rows each below each other."""
        rows, columns, _ = self.plan.tile_sizes
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        run = rows * self.across // threads
        place = ROW // self.across * run + COLUMN // vector, self.column(vector)
        return FragmentLayoutAttr.of(threads, run * vector, AffineMap(2, 0, place))

    def column(self, vector: int) -> AffineExpr:
        return ROW % self.across * vector + COLUMN % vector

    def word(self, row: AffineExpr, column: AffineExpr) -> tuple[AffineExpr, AffineExpr]:
        vector = self.plan.integer("vectorize")
        return ZERO, column % vector * self.across + column // vector

    def told(self) -> FragmentLayoutAttr:
        place = ZERO, ROW % self.across + COLUMN * self.across
        vector = self.plan.integer("vectorize")
        return FragmentLayoutAttr.of(self.plan.threads(), vector, AffineMap(2, 0, place))

    def awaited(self) -> FragmentLayoutAttr:
        vector, threads = self.plan.integer("vectorize"), self.plan.threads()
        deep = threads // self.across
        row = ROW // self.across + COLUMN // vector * deep
        column = ROW % self.across + COLUMN % vector * self.across
        return FragmentLayoutAttr.of(
            threads, vector * self.group // deep, AffineMap(2, 0, (row, column))
        )

    def where(
        self, emit: Emit, link: Link, number: SSAValue, count: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        assert link.column is not None
        first = emit.value(arith.MuliOp(link.line, count))
        return emit.value(arith.AddiOp(first, number)), link.column

    def worded(self, emit: Emit, whole: SSAValue) -> SSAValue:
        found, vector = self.row(emit, "words"), self.plan.integer("vectorize")
        place = ZERO, COLUMN % self.across * vector + COLUMN // self.across
        self.combine(emit, found, whole, AffineMap(2, 0, place), taken=True)
        return found


def levels_of(tiles: Dim, group: int) -> tuple[Dim, Dim, Dim]:
    """How many tiles a line has, groups of them, and groups of these."""
    groups = tiles.ceildiv(group)
    return tiles, groups, groups.ceildiv(group)


def chain_words(scans: Scans, plan: ScheduleOp) -> list[GlobalType]:
    """The words in which the tiles of a schedule's kernel, and groups of them, post."""
    rows, columns, _ = plan.tile_sizes
    axis = axis_of(scans)
    step = (rows, columns)[axis]
    found: list[GlobalType] = []
    for count in levels_of(scans.size(scans.along).ceildiv(step), group_of(plan, axis)):
        if axis:
            sizes = [prod((scans.size(a) for a in scans.labels), start=Dim.const(1)), count]
        else:
            lines = prod((scans.size(a) for a in scans.labels[:-1]), start=Dim.const(1))
            sizes = [lines * count, scans.size(scans.column).ceildiv(columns) * columns]
        found.append(GlobalType.of(sizes, i64))
    return found
