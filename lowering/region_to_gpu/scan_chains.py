"""``region-to-gpu``: scans of long lines, a tile a block, each of which looks back (S8, S9).

The tiles of all lines are in an order, and blocks that run at once take them in turn.  A block
scans its tile, posts what it comes to, and takes posts of the tiles before its own: of those of its
group one by one, of the groups before in the group's own group what each comes to, and one for all
that is before these.  Which posts it takes, and how it combines them, is fixed, so that runs repeat
to the bit whoever is first; and it waits for tiles before its own alone, which are on their way.
All goes through memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import (
    BarrierOp,
    BlockIdOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    GridSizeOp,
    OpaqueOp,
    SharedTileOp,
)
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
    index_attr,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ReadOp
from polyc.families.scans.recognise import Scans, ringed_reads
from polyc.families.scans.schedules import asking, axis_of, group_of, room_of
from polyc.lowering.region_to_gpu.loop_scope import AxisPlace, placed
from polyc.lowering.region_to_gpu.point import (
    COLUMN,
    ROW,
    Point,
    Wanted,
    element_of,
)
from polyc.lowering.region_to_gpu.scan_builders import OWN, RowsBuilder, start_of
from polyc.lowering.region_to_gpu.scan_teams import ONE, ZERO
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim


@dataclass(frozen=True)
class Link:
    """Where a tile stands: the ``rank``-th along its line, and at which ``column`` it begins."""

    line: SSAValue
    rank: SSAValue
    column: SSAValue | None = None


@dataclass
class Chain:
    """What the tiles of a kernel have in common.

    ``size`` of the scanned axis, ``counts`` of words of a line by level, ``labels`` of the other
    axes with their ``sizes``, ``strips`` of tiles that are side by side, and all tiles.
    """

    size: SSAValue
    counts: Sequence[SSAValue]
    labels: Sequence[str]
    sizes: Sequence[SSAValue]
    strips: SSAValue | None = None

    def __post_init__(self) -> None:
        self.total = self.counts[0]


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

    chain: Chain

    axis = 1
    """The axis of a tile that is scanned."""

    def taking(self, kinds: Sequence[GlobalType], spaces: Sequence[BindAttr]) -> None:
        """Let the blocks meet in workspaces."""
        both = zip(kinds, spaces, strict=True)
        self.words = tuple(self.frame.space(kind, space) for kind, space in both)

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        kernel = super().finish(bindings)
        kernel.blocks_per_sm = index_attr(room_of(self.scans, self.plan))
        return kernel

    # The walk

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel: a loop over the block's tiles.

        With two stages what a tile comes to is posted before the block waits for those before the
        tile ahead of it, so that posts are there as a rule when they are asked for, and what its
        group comes to likewise.  With three the elements of one more are on their way.  A ring in
        shared memory (the loader ``cp_async``) holds as many tiles as there are stages: each is
        summed up there for its post, and scanned when what is before it is known, so that threads
        have registers for no more than a tile, and a multiprocessor has more blocks.
        """
        scans, emit, stages = self.scans, self.emit, self.plan.integer("stages")
        length = scans.size(scans.along)
        tiles = length.ceildiv(self.plan.tile_sizes[self.axis])
        counts = [self.frame.size(n) for n in levels_of(tiles, self.group)]
        self.chain = Chain(
            self.frame.size(length),
            counts,
            [label for label in scans.labels if label is not None],
            [self.frame.size(scans.size(label)) for label in scans.labels if label is not None],
        )
        total = counts[0]
        for label, size in zip(self.chain.labels, self.chain.sizes, strict=True):
            if label == self.beside:
                columns = self.plan.tile_sizes[1]
                size = self.chain.strips = self.frame.size(scans.size(label).ceildiv(columns))
            total = emit.value(arith.MuliOp(total, size), "tiles")
        self.chain.total = total
        block, blocks = emit.value(BlockIdOp(), "block"), emit.value(GridSizeOp(), "blocks")
        ringed = self.plan.loader.data == "cp_async"
        body = Block(arg_types=[INDEX, *([INDEX] if ringed else [])])
        number, *turns = body.args
        number.name_hint = "tile"
        inner, more = Emit(emit), list[SSAValue]()
        whole, found = self.row(emit, "whole"), self.row(emit, "before")
        if stages == 1:
            held = self.fragment(emit, (True, True), "held")
            link, _ = self.begin(inner, number, held, whole, inside=True)
            self.gather(inner, link, whole, found)
            self.end(inner, number, held, whole, found)
        else:
            after = inner.value(arith.AddiOp(number, blocks), "after")
            then = self.row(inner, "then")
            if ringed:
                ring = self.ring(emit)
                ahead: SSAValue = block
                for slot in range(stages - 1):
                    self.bring(emit, ring, ahead, emit.index(slot))
                    ahead = emit.value(arith.AddiOp(ahead, blocks), "ahead")
                emit.op(CpAsyncWaitOp(stages - 2))
                emit.op(BarrierOp())
                link, there = self.sum(emit, block, whole, self.seen(emit, ring, emit.index(0)))
                self.gather(emit, link, whole, found, there)
                # What is awaited is there for all threads; and all have read what is ahead of it.
                inner.op(CpAsyncWaitOp(stages - 3))
                inner.op(BarrierOp())
                (turn,) = turns
                following = inner.apply((affine_dim(0) + 1) % stages, [turn], hint="following")
                last = inner.apply((affine_dim(0) + (stages - 1)) % stages, [turn])
                far = inner.apply(affine_dim(0) + affine_dim(1) * (stages - 1), [number, blocks])
                self.bring(inner, ring, far, last)
                link, there = self.sum(inner, after, then, self.seen(inner, ring, following))
                self.end_held(inner, number, whole, found, self.seen(inner, ring, turn))
                more.append(following)
            else:
                raw = self.raw(emit) if stages > 2 else {}
                if raw:
                    self.fetch(emit, raw, block)
                held = self.fragment(emit, (True, True), "held")
                link, there = self.begin(emit, block, held, whole, raw)
                if raw:
                    self.fetch(emit, raw, emit.value(arith.AddiOp(block, blocks)))
                self.gather(emit, link, whole, found, there)
                coming = self.fragment(inner, (True, True), "coming")
                link, there = self.begin(inner, after, coming, then, raw)
                if raw:
                    self.fetch(inner, raw, inner.value(arith.AddiOp(after, blocks)))
                self.end(inner, number, held, whole, found)
                self.combine(inner, held, coming, OWN, taken=True)
            self.combine(inner, whole, then, OWN, taken=True)
            self.gather(inner, link, whole, found, there)
        body.add_ops([*inner.ops, scf.YieldOp(*more)])
        emit.op(scf.ForOp(block, total, blocks, [emit.index(0) for _ in turns], body))
        if ringed:
            emit.op(CpAsyncWaitOp(0))
        return self.finish(bindings)

    def begin(
        self,
        emit: Emit,
        number: SSAValue,
        held: SSAValue,
        whole: SSAValue,
        raw: Mapping[SSAValue, SSAValue] = MappingProxyType({}),
        inside: bool = False,
    ) -> tuple[Link, SSAValue | None]:
        """Scan a tile, where there is one, and post what it comes to; where it is, and whether."""
        link, at, there = self.place(emit, number, inside)
        self.load(emit, held, at, self.chain.size, raw)
        self.tell(emit, held, whole, link, there)
        return link, there

    def end(
        self, emit: Emit, number: SSAValue, held: SSAValue, whole: SSAValue, found: SSAValue
    ) -> None:
        """Let a tile go on from what is before it."""
        # Where it is stored is computed anew: addresses would take the registers of what is held.
        link, at, _ = self.place(emit, emit.value(OpaqueOp(number), "again"), True)
        self.before(emit, link, whole, found)
        before = self.known(emit, found)
        self.combine(emit, held, before, AffineMap(2, 0, self.word(ROW, COLUMN)))
        self.store(emit, held, at)

    def sum(
        self,
        emit: Emit,
        number: SSAValue,
        whole: SSAValue,
        raw: Mapping[SSAValue, SSAValue] = MappingProxyType({}),
    ) -> tuple[Link, SSAValue | None]:
        """Post what a tile comes to, as ``begin`` does; its elements stay in the ring."""
        scan = self.scans.scan
        link, at, there = self.place(emit, number, False)
        held = self.fragment(emit, (True, True), "seen")
        self.load(emit, held, at, self.chain.size, raw)
        carry = self.fragment(emit, self.along, "sum")
        by = ONE if self.axis else AffineMap(2, 0, (ZERO, COLUMN))
        emit.op(located(tile.ReduceOp(scan.fn.data, held, by, carry), scan))
        self.combine(emit, whole, carry, self.worded(), taken=True)
        self.post(emit, whole, link, there)
        return link, there

    def end_held(
        self,
        emit: Emit,
        number: SSAValue,
        whole: SSAValue,
        found: SSAValue,
        raw: Mapping[SSAValue, SSAValue] = MappingProxyType({}),
    ) -> None:
        """Scan a tile of the ring from what is before it on."""
        scan = self.scans.scan
        link, at, _ = self.place(emit, emit.value(OpaqueOp(number), "again"), True)
        held = self.fragment(emit, (True, True), "held")
        self.load(emit, held, at, self.chain.size, raw)
        self.before(emit, link, whole, found)
        before = self.known(emit, found)
        carry = self.fragment(emit, self.along, "carry")
        # Of a narrow type what is nothing in 32 bits is not what is nothing in it.
        narrow = is_integer(self.kind)
        if narrow:
            emit.op(tile.FillOp(start_of(emit, scan, self.kind), carry))
        place = AffineMap(2, 0, self.word(ROW, COLUMN))
        self.combine(emit, carry, before, place, taken=not narrow)
        how = {"reverse": scan.is_reverse, "exclusive": scan.is_exclusive}
        emit.op(located(tile.ScanOp(scan.fn.data, held, self.axis, carry, **how), scan))
        self.store(emit, held, at)

    def place(
        self, emit: Emit, number: SSAValue, inside: bool
    ) -> tuple[Link, Walk, SSAValue | None]:
        """Where a tile is, and whether it is one, unless it is known to be ``inside``."""
        chain, step = self.chain, self.plan.tile_sizes[self.axis]
        places: dict[str, AxisPlace] = {}
        rest: SSAValue = number
        column: SSAValue | None = None
        if self.beside is not None:
            assert chain.strips is not None
            strip = emit.value(arith.RemUIOp(rest, chain.strips))
            rest = emit.value(arith.DivUIOp(rest, chain.strips))
            column = emit.apply(affine_dim(0) * self.plan.tile_sizes[1], [strip], hint="column")
            places[self.beside] = AxisPlace(1, column)
        parts = chain.counts[0]
        rank = emit.value(arith.RemUIOp(rest, parts), "rank")
        rest = line = emit.value(arith.DivUIOp(rest, parts), "line")
        pairs = zip(chain.labels, chain.sizes, strict=True)
        lone = [pair for pair in pairs if pair[0] != self.beside]
        for label, extent in reversed(lone[1:]):
            places[label] = AxisPlace(None, emit.value(arith.RemUIOp(rest, extent)))
            rest = emit.value(arith.DivUIOp(rest, extent))
        places.update({label: AxisPlace(None, rest) for label, _ in lone[:1]})
        there: SSAValue | None = None
        # A tile that is none is beyond the end, and begins at a multiple of its size as all do, so
        # that it is read by vectors too.
        place, reverse = rank, self.scans.scan.is_reverse
        if not inside:
            there = emit.compare("slt", number, chain.total)
            beyond = emit.index(-1) if reverse else parts
            place = emit.value(arith.SelectOp(there, rank, beyond))
        first = affine_dim(1) - affine_dim(0) - 1 if reverse else affine_dim(0)
        start = emit.apply(first * step, [place, parts])
        places[self.scans.along] = AxisPlace(self.axis, start)
        return Link(line, rank, column), Walk(places), there

    # What is read ahead

    def raw(self, emit: Emit) -> dict[SSAValue, SSAValue]:
        """A fragment for each tensor that is scanned as it is read, in its own type."""
        found: dict[SSAValue, SSAValue] = {}
        work: list[SSAValue] = [self.scans.scan.operand]
        layout = self.spread.layout()
        rows, columns, _ = self.plan.tile_sizes
        walked = {self.scans.along, self.beside} - {None}
        while work:
            owner = work.pop().owner
            if not isinstance(owner, Operation):
                continue
            if isinstance(owner, ReadOp):
                kind = owner.result.type
                if walked <= set(kind.labels) and owner.result not in found:
                    element = without_sign(kind.element_type)
                    made = FragmentType.of([rows, columns], element, layout)
                    found[owner.result] = emit.value(tile.FragmentOp(made), "raw")
            else:
                work.extend(owner.operands)
        return found

    def fetch(self, emit: Emit, raw: Mapping[SSAValue, SSAValue], number: SSAValue) -> None:
        """Let a tile's elements be on their way."""
        _, at, _ = self.place(emit, number, False)
        for value, fragment in raw.items():
            origin = list[SSAValue]()
            axes = at.axes(origin)
            point = Point(self.frame, Block(arg_types=[element_of(fragment)]), {}, axes, 2, origin)
            emit.op(
                point.write(fragment, [Wanted(value, fragment, (ROW, COLUMN))], self.scans.scan)
            )

    # What a ring of shared memory holds

    def ring(self, emit: Emit) -> dict[ReadOp, SSAValue]:
        """Room for as many tiles of each tensor that is scanned as there are stages."""
        found: dict[ReadOp, SSAValue] = {}
        for read in ringed_reads(self.scans):
            element = cast("GlobalType", self.frame.argument(read.tensor).type).element_type
            kind = SharedType.of(
                self.plan.tile_sizes[:2], element, ring=self.plan.integer("stages")
            )
            found[read] = emit.value(SharedTileOp(kind), read.tensor.name_hint)
        return found

    def bring(
        self, emit: Emit, ring: Mapping[ReadOp, SSAValue], number: SSAValue, slot: SSAValue
    ) -> None:
        """Let a tile's elements be on their way to a slot: zeros where it is none."""
        _, at, _ = self.place(emit, number, False)
        symbols = list(self.frame.symbols.values())
        for read, shared in ring.items():
            starts = [at.places[label].start for label in read.result.type.labels]
            corner = [emit.apply(c, starts, symbols) for c in read.map.data.results]
            tensor = self.frame.argument(read.tensor)
            if len(corner) == 1:
                assert isinstance(read.tensor, BlockArgument)
                line = (Dim.const(1), *cast("GlobalType", tensor.type).dims)
                tensor = self.frame.view(read.tensor.index, line)
                corner.insert(0, emit.index(0))
            source = tile.CopyEnd(tensor, corner)
            target, travel = tile.CopyEnd(shared, slot=slot), tile.CopyTravel(loader="cp_async")
            emit.op(located(tile.CopyOp(source, target, travel=travel), read))
        emit.op(CpAsyncCommitOp())

    def seen(
        self, emit: Emit, ring: Mapping[ReadOp, SSAValue], slot: SSAValue
    ) -> dict[SSAValue, SSAValue]:
        """What a slot holds, in fragments of the tensors' own types."""
        found: dict[SSAValue, SSAValue] = {}
        for read, shared in ring.items():
            element = cast("SharedType", shared.type).element_type
            made = FragmentType.of(self.plan.tile_sizes[:2], element, self.spread.layout())
            fragment = found[read.result] = emit.value(tile.FragmentOp(made), "raw")
            ends = tile.CopyEnd(shared, slot=slot), tile.CopyEnd(fragment)
            emit.op(located(tile.CopyOp(*ends), read))
        return found

    @property
    def group(self) -> int:
        """Posts of a level that a block takes one by one."""
        return group_of(self.plan, self.axis)

    @property
    def beside(self) -> str | None:
        """The axis besides the scanned one that a tile runs along."""
        return None

    # Words

    def word(self, row: AffineExpr, column: AffineExpr) -> tuple[AffineExpr, AffineExpr]:
        """Where in a row of words what a tile's element goes on from is."""
        return ZERO, ZERO

    def told(self) -> FragmentLayoutAttr:
        """How a row of words is spread over threads: a warp has it, and asks for others."""
        return FragmentLayoutAttr.of(asking(self.plan), 1, AffineMap(2, 0, (ZERO, ZERO)))

    def awaited(self) -> FragmentLayoutAttr:
        """How the words of a group are."""
        threads = asking(self.plan)
        place = AffineMap(2, 0, (ZERO, ROW + COLUMN * threads))
        return FragmentLayoutAttr.of(threads, self.group // threads, place)

    def known(self, emit: Emit, before: SSAValue) -> SSAValue:
        """Let all threads have what the words say, by way of shared memory."""
        if asking(self.plan) == self.plan.threads():
            return before
        found = self.fragment(emit, self.along, "before")
        area = SharedType.of([1, 1], without_sign(self.kind), 0)
        shared = emit.value(SharedTileOp(area), "known")
        emit.op(located(tile.CopyOp(tile.CopyEnd(before), tile.CopyEnd(shared)), self.scans.scan))
        emit.op(located(tile.CopyOp(tile.CopyEnd(shared), tile.CopyEnd(found)), self.scans.scan))
        return found

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
        self, emit: Emit, held: SSAValue, whole: SSAValue, link: Link, there: SSAValue | None
    ) -> None:
        """Scan the block's tile, and post what it comes to."""
        scan = self.scans.scan
        carry = self.fragment(emit, self.along, "carry")
        emit.op(tile.FillOp(start_of(emit, scan, self.kind), carry))
        how = {"reverse": scan.is_reverse, "exclusive": scan.is_exclusive}
        emit.op(located(tile.ScanOp(scan.fn.data, held, self.axis, carry, **how), scan))
        self.combine(emit, whole, carry, self.worded(), taken=True)
        self.post(emit, whole, link, there)

    def post(self, emit: Emit, whole: SSAValue, link: Link, there: SSAValue | None) -> None:
        """Post what a tile comes to, where there is one."""

        def post(then: Emit) -> None:
            at = self.where(then, link, link.rank, self.chain.counts[0])
            then.op(located(tile.PostOp(whole, self.words[0], at), self.scans.scan))

        if there is None:
            post(emit)
        else:
            emit.when(there, post)

    def worded(self) -> AffineMap:
        """Where what a word says is in what a tile comes to."""
        return OWN

    def gather(
        self,
        emit: Emit,
        link: Link,
        whole: SSAValue,
        found: SSAValue,
        there: SSAValue | None = None,
    ) -> None:
        """What the tiles before a tile in its group come to; the last of a group posts the group.

        A block does so for the tile that it has begun, before it ends another: what groups come to
        is there as a rule when it is asked for.
        """
        group = self.group
        own = emit.apply(affine_dim(0) % group, [link.rank], hint="own")
        last = emit.compare("eq", own, emit.index(group - 1))
        count: SSAValue = own
        if there is not None:
            count = emit.value(arith.SelectOp(there, own, emit.index(0)))
            last = emit.both(there, last)
        first = emit.apply(affine_dim(0) - affine_dim(1), [link.rank, own])
        self.take_level(emit, 0, link, first, count, found)
        number = emit.apply(affine_dim(0) // group, [link.rank], hint="group")
        emit.when(last, self.posting(found, whole, link, number, 1))

    def before(self, emit: Emit, link: Link, whole: SSAValue, found: SSAValue) -> None:
        """What all tiles before the block's own come to, of those of its group; the last of a group
        of groups posts that with it."""
        group = self.group
        rank = emit.apply(affine_dim(0) // group, [link.rank], hint="group")
        own = emit.apply(affine_dim(0) % group, [rank], hint="own")
        first = emit.apply(affine_dim(0) - affine_dim(1), [rank, own])
        earlier, begun = self.row(emit, "earlier"), self.row(emit, "begun")
        self.take_level(emit, 1, link, first, own, earlier)
        self.combine(emit, found, earlier, OWN)
        number = emit.apply(affine_dim(0) // group, [rank], hint="group")
        one = emit.value(arith.MinSIOp(number, emit.index(1)))
        self.wait(emit, 2, link, emit.apply(affine_dim(0) - 1, [number]), one, begun)
        self.combine(emit, found, begun, OWN)
        last = emit.apply((affine_dim(0) + 1) % (group * group), [link.rank])
        ends = emit.compare("eq", last, emit.index(0))
        emit.when(ends, self.posting(found, whole, link, number, 2))

    def take_level(
        self,
        emit: Emit,
        level: int,
        link: Link,
        first: SSAValue,
        count: SSAValue,
        found: SSAValue,
    ) -> None:
        """What so many words of a level come to, from the ``first`` of a line on."""
        others = self.row(emit, "others", self.group)
        self.wait(emit, level, link, first, count, others)
        emit.op(
            located(tile.ReduceOp(self.scans.scan.fn.data, others, self.by, found), self.scans.scan)
        )

    def wait(
        self,
        emit: Emit,
        level: int,
        link: Link,
        first: SSAValue,
        until: SSAValue,
        target: SSAValue,
    ) -> None:
        """Take so many words of a level, from the ``first`` of a line on."""
        scan = self.scans.scan
        at = self.where(emit, link, first, self.chain.counts[level])
        wait = tile.AwaitPostsOp(scan.fn.data, self.words[level], at, self.axis, until, target)
        emit.op(located(wait, scan))

    def posting(
        self,
        before: SSAValue,
        whole: SSAValue,
        link: Link,
        number: SSAValue,
        level: int,
    ) -> Callable[[Emit], None]:
        """Post what there is before a tile, with that: its group, or its line until there."""

        def post(then: Emit) -> None:
            end = self.row(then, "end")
            self.combine(then, end, whole, OWN, taken=True)
            self.combine(then, end, before, OWN)
            at = self.where(then, link, number, self.chain.counts[level])
            then.op(located(tile.PostOp(end, self.words[level], at), self.scans.scan))

        return post


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
