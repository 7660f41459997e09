"""``region-to-gpu``: kernels that keep rows in shared memory, of a block or more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    BarrierOp,
    BlockIdOp,
    ClusterRankOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    GridSizeOp,
    SharedTileOp,
)
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import (
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
)
from polyc.dialects.region.scope import NEUTRAL
from polyc.dialects.region.together import StateOp
from polyc.families.rows.recognise import Rows
from polyc.families.rows.schedules import down_of, is_upright
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Wanted, element_of
from polyc.lowering.region_to_gpu.row_builders import Streaming
from polyc.lowering.region_to_gpu.row_maps import Parts, RowMaps, Tile
from polyc.lowering.region_to_gpu.row_point import RowPoint
from polyc.lowering.region_to_gpu.row_steps import RowSteps
from polyc.lowering.region_to_gpu.rows_flat import flattened
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim
from polyc.rewriting.region.chunks import Chunk


class Kept(Streaming):
    """Rows in chunks that a block, or a cluster of blocks, keeps in shared memory.

    Each is read once from global memory.  A thread has the same elements in every walk, and a part
    of each reduction of its own until the walk ends.
    """

    def __init__(self, rows: Rows, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(rows, plan, grids)
        vector, threads = plan.integer("vectorize"), plan.threads()
        self.down = down_of(plan) if self.upright else 0
        """Points of rows that lie side by side that a block has at once, one a thread."""
        if self.upright:
            self.along = AffineMap(2, 0, (ROW % self.down, COLUMN))
            self.place = (ROW, COLUMN)
        else:
            self.along = AffineMap(2, 0, (COLUMN // vector % threads,))
        self.homes: dict[SSAValue, SSAValue] = {}
        """The shared tiles that hold reads."""
        self.slot: SSAValue | None = None
        """Which of the chunks that the block keeps is in hand."""
        self.base: SSAValue | None = None
        """The first chunk of the row in hand, where the block keeps several rows."""

    def reduce(self) -> None:
        if self.parts > 1:
            self.rank = self.emit.value(ClusterRankOp(), "rank")
        self.make_homes()
        self.walk(self.bring, self.plan.tile_sizes[2])
        for op in (CpAsyncCommitOp(), CpAsyncWaitOp(0), BarrierOp()):
            self.emit.op(op)
        self.reduce_levels()

    def make_homes(self) -> None:
        """Make the room for the block's chunks of each read."""
        _, width, deep = self.plan.tile_sizes
        for op in self.rows.kept:
            sizes = [width, self.plan.tile_sizes[0]] if self.upright else [1, width]
            rows = self.plan.integer("stages")
            kind = SharedType.of(sizes, element_of(op.result), ring=rows * deep)
            self.homes[op.result] = self.emit.value(SharedTileOp(kind), op.tensor.name_hint)

    def bring(self, over: Tile, origin: Sequence[SSAValue] | None = None) -> None:
        """Bring a chunk of the row in hand, or of the one at ``origin``, where it is kept."""
        for op in self.rows.kept:
            corner = self.corner_of(op, over, origin)
            source = tile.CopyEnd(self.frame.argument(op.tensor), corner)
            target = tile.CopyEnd(self.homes[op.result], slot=self.slot)
            travel = tile.CopyTravel(loader="cp_async")
            self.maps.emit.op(located(tile.CopyOp(source, target, travel=travel), op))

    def walk(self, body: Callable[[Tile], None], whole: int | None = None) -> None:
        """A loop over the block's chunks by number, which is where each is kept.

        With ``whole`` it is over so many, those beyond the row's end too.
        """
        maps = self.maps
        outer = maps.emit
        count = self.own_chunks(outer)

        def chunk(inner: Emit, number: SSAValue) -> None:
            maps.emit = inner
            hint = f"{self.rows.row.label}0"
            self.slot = number
            if self.base is not None:
                self.slot = inner.apply(affine_dim(0) + affine_dim(1), [self.base, number])
            body(Tile(self.start(inner, number, hint)))
            maps.forget()
            maps.emit = outer

        outer.loop(count if whole is None else whole, chunk, unroll=whole is not None, hint="chunk")

    def start(self, emit: Emit, number: SSAValue, hint: str | None = None) -> SSAValue:
        """Where one of the block's chunks begins, by its number."""
        width = self.plan.tile_sizes[1]
        own = affine_dim(0) * (width * self.parts)
        if self.rank is None:
            return emit.apply(own, [number], (), hint)
        return emit.apply(own + affine_dim(1) * width, [number, self.rank], (), hint)

    def after(self, emit: Emit, start: SSAValue) -> SSAValue:
        """Where the one after the chunk that begins there does."""
        return emit.apply(affine_dim(0) + self.plan.tile_sizes[1] * self.parts, [start])

    def own_chunks(self, emit: Emit) -> SSAValue:
        """How many chunks of a row the block has."""
        width, length = self.plan.tile_sizes[1], affine_dim(0)
        own = [] if self.rank is None else [self.rank]
        before = affine_dim(1) * width if own else AffineExpr.constant(0)
        return emit.apply(-((before - length) // (width * self.parts)), [self.length, *own])

    def write_all(self, values: Sequence[SSAValue]) -> None:
        """The walk that writes; what all rows read alike, as a norm's weights, comes a chunk ahead.

        A thread would wait for it in each chunk, as long as for a cache.
        """
        maps = self.maps
        needed = self.steps.along_row(values, ())
        ahead = [op for op in self.rows.alike if op.result in needed and not self.upright]
        kinds = [(op.result, element_of(op.result), op.tensor.name_hint) for op in ahead]
        here = {value: maps.wide(kind, hint) for value, kind, hint in kinds}
        coming = {value: maps.wide(kind, hint) for value, kind, hint in kinds}

        def bring(start: SSAValue, to: dict[SSAValue, SSAValue]) -> None:
            for value, fragment in to.items():
                maps.over_tile(Tile(start), fragment, [Wanted(value, fragment, (ROW, COLUMN))])

        def write(over: Tile) -> None:
            assert over.start is not None
            bring(self.after(maps.emit, over.start), coming)
            over.held |= here
            self.write(over, values)
            for value, fragment in here.items():
                then = Tile(over.start, {value: coming[value]})
                maps.over_tile(then, coming[value], [Wanted(value, fragment, (ROW, COLUMN))])

        if ahead:
            bring(self.start(maps.emit, maps.emit.index(0)), here)
        self.walk(write if ahead else lambda over: self.write(over, values))

    def home_of(self, read: ReadOp, over: Tile) -> tile.CopyEnd:
        home = self.homes.get(read.result)
        if home is None:
            return super().home_of(read, over)
        return tile.CopyEnd(home, slot=self.slot)

    def walked(self, ops: Sequence[ReduceOp | ReduceTogetherOp]) -> dict[SSAValue, SSAValue]:
        self.maps.parts = Parts(self.so_far, self.along, self.whole)
        return super().walked(ops)

    @property
    def whole(self) -> AffineMap:
        """A place of what threads have of a row to the row's own value."""
        return AffineMap(2, 0, (COLUMN,)) if self.upright else NOWHERE

    def so_far(self, hint: str | None) -> SSAValue:
        if not self.upright:
            return self.maps.fragment([self.plan.threads()], f32, hint)
        return self.columns(self.down, hint)

    def columns(self, rows: int, hint: str | None) -> SSAValue:
        """A fragment of so many rows of the tile's columns, which lies with threads as a tile."""
        height, threads = self.plan.tile_sizes[0], self.plan.threads()
        layout = FragmentLayoutAttr.of(threads, rows * height // threads, self.spread())
        kind = FragmentType.of([rows, height], f32, layout)
        return self.maps.outer.value(tile.FragmentOp(kind), hint)

    def load(self, over: Tile, steps: Sequence[Sequence[SSAValue]]) -> None:
        if not self.upright:
            super().load(over, steps)
            return
        reached = [self.steps.along_row(roots, ()) for roots in steps]
        for op in self.rows.kept:
            users = [i for i, values in enumerate(reached) if op.result in values]
            if users and (users[0] == 0 or len(users) > 1):
                fragment = self.maps.wide(element_of(op.result), op.tensor.name_hint)
                copy = tile.CopyOp(self.home_of(op, over), tile.CopyEnd(fragment))
                self.maps.emit.op(located(copy, op))
                over.held[op.result] = fragment

    def joined(
        self, ops: Sequence[ReduceOp | ReduceTogetherOp], totals: dict[SSAValue, SSAValue]
    ) -> None:
        together = self.rank is not None and not self.plan.meets_in_memory
        for op in ops:
            if isinstance(op, ReduceOp):
                totals[op.result] = self.all_of(op, totals[op.result], together)
            else:
                self.states_of_all(self.chunks[op], totals, together)

    def all_of(self, op: ReduceOp, total: SSAValue, cluster: bool = False) -> SSAValue:
        """What all threads, or those of a cluster, have of a reduction."""
        whole = self.maps.narrow(op.label)
        join = tile.ReduceOp(op.fn.data, total, self.whole, whole, cluster=cluster)
        self.emit.op(located(join, op))
        return whole

    def states_of_all(
        self, chunk: Chunk, totals: dict[SSAValue, SSAValue], cluster: bool = False
    ) -> None:
        """The same of a maximum and its sums: these are scaled down to the largest maximum first.

        Legality: ``rescales``.
        """
        top, *sums = chunk.op.states
        first, *others = chunk.reductions
        largest = self.all_of(first, totals[top], cluster)
        nothing = self.maps.narrow()
        self.emit.op(tile.FillOp(self.maps.number(0.0), nothing))
        other = [largest, *(nothing for _ in sums)]
        block, whole = chunk.op.combine.block, self.whole.results
        held = [Held(totals[v], self.place) for v in chunk.op.states]
        held += [Held(found, whole) for found in other]
        last = block.last_op
        assert isinstance(last, StateOp)
        wanted = [
            Wanted(value, totals[total], self.place)
            for value, total in zip(last.values[1:], sums, strict=True)
        ]
        space = totals[sums[0]]
        both: dict[SSAValue, Held] = dict(zip(block.args, held, strict=True))
        self.maps.over_places(self.emit, space, both, wanted, len(self.place))
        totals[top] = largest
        for op, total in zip(others, sums, strict=True):
            totals[total] = self.all_of(op, totals[total], cluster)


@dataclass(frozen=True)
class Meeting:
    """Where the blocks that share rows meet: ``told`` has a workspace for each reduction of a row,
    in their order, with what each block has of it; ``arrived`` counts the blocks of each level."""

    told: Sequence[SSAValue]
    arrived: SSAValue


class Turns(Kept):
    """Kept rows, one after another: a block has the same chunks of each of its rows.

    Those of another row take the place of what it writes of the row in hand, so that as many rows
    as there are ``stages`` are there or on their way.  Where several blocks share rows
    they are a team of the whole grid, which runs at once.  What they have of a reduction goes
    through memory: each tells its part, and once all have, each combines them in their order, so
    that all have the same bits, and have them again in the next run.
    """

    def __init__(self, rows: Rows, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(rows, plan, grids)
        self.source = rows
        """The rows as they are given, whose reductions are not flattened."""
        self.meeting: Meeting | None = None
        self.open = has_open_teams(rows, plan)
        self.team: SSAValue | None = None
        """The blocks of a team, where that depends on the sizes."""
        self.level = 0
        """Of the row's reductions, that of those in hand."""
        self.number: SSAValue | None = None
        """Which row is in hand."""
        self.next: Sequence[SSAValue] = ()
        """Where the block's row is that takes the place of the one in hand."""

    def taking(self, spaces: Sequence[BindAttr]) -> Turns:
        """Let the block's team meet in workspaces."""
        if spaces:
            kinds = [space.kind for space in meeting_spaces(self.source, self.plan)]
            found = [self.frame.space(k, s) for k, s in zip(kinds, spaces, strict=True)]
            self.meeting = Meeting(found[:-1], found[-1])
        return self

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel: a loop over the rows of a block's team."""
        emit, parts = self.emit, self.parts
        self.length = self.frame.size(self.rows.length)
        sizes = [self.frame.size(size) for size in tiled_sizes(self.rows, self.plan)]
        count = emit.index(1) if not sizes else sizes[0]
        for size in sizes[1:]:
            count = emit.value(arith.MuliOp(count, size))
        first, step = emit.value(BlockIdOp(), "block"), emit.value(GridSizeOp(), "blocks")
        if self.open:
            first, step = self.form_teams(first, step, count)
        elif parts > 1:
            self.rank = emit.apply(affine_dim(0) % parts, [first], hint="rank")
            first = emit.apply(affine_dim(0) // parts, [first], hint="team")
            step = emit.apply(affine_dim(0) // parts, [step], hint="teams")
        self.make_homes()
        rows, deep = self.plan.integer("stages"), self.plan.tile_sizes[2]
        late = self.meeting is not None and lags(self.source, self.plan)
        if self.meeting is not None and not late:
            self.stagger(first, step, count, self.meeting)
        ahead = first
        for row in range(rows):
            self.begin(self.coordinates(ahead, sizes))
            self.base = emit.index(row * deep) if row else None
            self.walk(self.bring, deep)
            emit.op(CpAsyncCommitOp())
            ahead = emit.value(arith.AddiOp(ahead, step), "ahead")
        block = Block(arg_types=[INDEX, *([INDEX] if rows > 1 else [])])
        self.number, *turns = block.args
        self.number.name_hint = "number"
        last = count
        if late:
            block.add_ops(self.within(lambda: self.turn_late(sizes, first, count, step, turns[0])))
            last = emit.value(arith.AddiOp(count, step))
        else:
            block.add_ops(self.within(lambda: self.turn(sizes, step, turns)))
        emit.op(scf.ForOp(first, last, step, [emit.index(0) for _ in turns], block))
        emit.op(CpAsyncWaitOp(0))
        return self.finish(bindings)

    def stagger(self, team: SSAValue, teams: SSAValue, count: SSAValue, meeting: Meeting) -> None:
        """Let a third of the teams begin after another one has its first rows.

        Teams that read at the same time compute and meet at the same time, and memory idles.
        """
        emit = self.emit
        third = emit.apply((affine_dim(0) + GROUPS - 1) // GROUPS, [teams])
        late = emit.both(emit.compare("sge", team, third), emit.compare("slt", team, count))

        def wait(inner: Emit) -> None:
            before = inner.value(arith.SubiOp(team, third))
            where = [before, inner.index(0)]
            inner.op(tile.GridWaitOp(meeting.arrived, where, self.blocks_of_team(inner)))

        emit.when(late, wait)

    def form_teams(
        self, block: SSAValue, blocks: SSAValue, count: SSAValue
    ) -> tuple[SSAValue, SSAValue]:
        """The block's team and their number, where these depend on the sizes: as many blocks as a
        row needs, or more where there would be fewer rows than teams.

        A block that no team has goes beyond the last row.
        """
        emit, width = self.emit, self.plan.tile_sizes[1]
        room = width * self.plan.tile_sizes[2]
        chunks = emit.apply(affine_dim(0).ceil_div(width), [self.length])
        needed = emit.apply(affine_dim(0).ceil_div(room), [self.length])
        most = emit.value(arith.MinSIOp(emit.index(self.parts), chunks))
        there = emit.value(arith.DivUIOp(blocks, count))
        parts = emit.value(arith.MaxSIOp(needed, emit.value(arith.MinSIOp(most, there))))
        self.team = emit.value(arith.MaxSIOp(parts, emit.index(1)), "parts")
        self.rank = emit.value(arith.RemUIOp(block, self.team), "rank")
        first = emit.value(arith.DivUIOp(block, self.team), "team")
        step = emit.value(arith.DivUIOp(blocks, self.team), "teams")
        inside = emit.compare("slt", first, step)
        return emit.value(arith.SelectOp(inside, first, count), "team"), step

    def start(self, emit: Emit, number: SSAValue, hint: str | None = None) -> SSAValue:
        if self.team is None:
            return super().start(emit, number, hint)
        assert self.rank is not None
        width, before = self.plan.tile_sizes[1], emit.value(arith.MuliOp(number, self.team))
        own = affine_dim(0) * width + affine_dim(1) * width
        return emit.apply(own, [before, self.rank], (), hint)

    def after(self, emit: Emit, start: SSAValue) -> SSAValue:
        if self.team is None:
            return super().after(emit, start)
        step = affine_dim(1) * self.plan.tile_sizes[1]
        return emit.apply(affine_dim(0) + step, [start, self.team])

    def own_chunks(self, emit: Emit) -> SSAValue:
        if self.team is None:
            return super().own_chunks(emit)
        assert self.rank is not None
        chunks = affine_dim(0).ceil_div(self.plan.tile_sizes[1])
        left = chunks - affine_dim(1) + affine_dim(2) - 1
        found = emit.apply(left, [self.length, self.rank, self.team])
        return emit.value(arith.DivUIOp(found, self.team))

    def blocks_of_team(self, emit: Emit) -> SSAValue:
        """How many blocks meet."""
        return emit.index(self.parts) if self.team is None else self.team

    def begin(self, at: Coordinates) -> None:
        """Turn to a row."""
        self.maps = RowMaps(self.frame, self.emit, self.span(at), RowPoint, layout=self.layout())

    def coordinates(self, number: SSAValue, sizes: Sequence[SSAValue]) -> dict[str, SSAValue]:
        """Where a row is on each outer axis: the last one is the fastest.

        One beyond the last is beyond the end of the first axis, where nothing is brought from.
        """
        found: dict[str, SSAValue] = {}
        left = number
        pairs = list(zip(self.rows.outer, sizes, strict=True))
        for axis, size in reversed(pairs[1:]):
            found[axis.label] = self.emit.value(arith.RemUIOp(left, size))
            left = self.emit.value(arith.DivUIOp(left, size))
        if pairs:
            found[pairs[0][0].label] = left
            if self.upright:
                last = pairs[-1][0].label
                wide = affine_dim(0) * self.plan.tile_sizes[0]
                found[last] = self.emit.apply(wide, [found[last]])
        return {axis.label: found[axis.label] for axis, _ in pairs}

    def turn(self, sizes: Sequence[SSAValue], step: SSAValue, turns: Sequence[SSAValue]) -> None:
        """The row in hand: what was brought is reduced and written, and another row takes its
        place.  ``turns`` says where it is, of several rows that the block keeps."""
        assert self.number is not None
        self.level = 0
        rows, deep = self.plan.integer("stages"), self.plan.tile_sizes[2]
        following: list[SSAValue] = []
        for turn in turns:
            turn.name_hint = "turn"
            self.base = self.emit.apply(affine_dim(0) * deep, [turn])
            following.append(self.around(turn, rows))
        self.turn_to(self.number, sizes)
        self.follow(step, sizes)
        for op in (CpAsyncWaitOp(rows - 1), BarrierOp()):
            self.emit.op(op)
        self.reduce_levels()
        self.leave()
        self.emit.op(scf.YieldOp(*following))

    def turn_late(
        self,
        sizes: Sequence[SSAValue],
        first: SSAValue,
        count: SSAValue,
        step: SSAValue,
        turn: SSAValue,
    ) -> None:
        """A row is reduced and told, and then the one before it written, of which all has long been
        told: what blocks tell each other is on its way while they compute.

        The reductions need none of each other.
        """
        assert self.number is not None
        emit, number, turn.name_hint = self.emit, self.number, "turn"
        rows, deep = self.plan.integer("stages"), self.plan.tile_sizes[2]
        ops = [op for op in self.rows.reductions if op not in self.inner]

        def tell() -> None:
            self.base = self.emit.apply(affine_dim(0) * deep, [turn])
            self.turn_to(number, sizes)
            # The row before this one is still there, and nothing has taken its place.
            for op in (CpAsyncWaitOp(rows - 2), BarrierOp()):
                self.emit.op(op)
            totals = self.walked(ops)
            super(Turns, self).joined(ops, totals)
            self.tell(ops, totals)

        def hear() -> None:
            self.number = self.emit.value(arith.SubiOp(number, step), "before")
            last = self.emit.compare("eq", turn, self.emit.index(0))
            less = self.emit.apply(affine_dim(0) - 1, [turn])
            place = arith.SelectOp(last, self.emit.index(rows - 1), less)
            self.base = self.emit.apply(affine_dim(0) * deep, [self.emit.value(place)])
            self.turn_to(self.number, sizes)
            self.follow(step, sizes)
            totals: dict[SSAValue, SSAValue] = {}
            self.hear(ops, totals)
            self.maps.statistics |= totals
            if values := self.steps.wide_outputs:
                self.write_all(values)
            self.leave()

        for holds, scope in (
            (emit.compare("slt", number, count), tell),
            (emit.compare("sgt", number, first), hear),
        ):
            inner = self.within(scope)
            emit.op(scf.IfOp(holds, [], [*inner, scf.YieldOp()]))
        emit.op(scf.YieldOp(self.around(turn, rows)))

    def around(self, turn: SSAValue, rows: int) -> SSAValue:
        """The place after one of so many."""
        more = self.emit.apply(affine_dim(0) + 1, [turn])
        around = self.emit.compare("eq", more, self.emit.index(rows))
        return self.emit.value(arith.SelectOp(around, self.emit.index(0), more))

    def turn_to(self, number: SSAValue, sizes: Sequence[SSAValue]) -> None:
        """Turn to a row by its number."""
        self.begin(self.coordinates(number, sizes))
        self.steps = RowSteps(self.maps, self.outputs, along=self.along, rank=self.rank)

    def follow(self, step: SSAValue, sizes: Sequence[SSAValue]) -> None:
        """Find the row that takes the place of the one in hand."""
        assert self.number is not None
        rows = self.plan.integer("stages")
        far = step if rows == 1 else self.emit.value(arith.MuliOp(step, self.emit.index(rows)))
        after = self.emit.value(arith.AddiOp(self.number, far), "after")
        self.next = list(self.coordinates(after, sizes).values())

    def leave(self) -> None:
        """End a row that has been written, as far as it is."""
        if not self.steps.wide_outputs:
            self.walk(lambda over: self.bring(over, self.next))
        self.steps.write_statistics()
        self.emit.op(CpAsyncCommitOp())

    def taken(self, over: Tile) -> None:
        self.bring(over, self.next)

    def joined(
        self, ops: Sequence[ReduceOp | ReduceTogetherOp], totals: dict[SSAValue, SSAValue]
    ) -> None:
        """What the block has of each reduction, and then what its team has."""
        super().joined(ops, totals)
        if self.meeting is not None:
            self.tell(ops, totals)
            self.hear(ops, totals)
            self.level += 1

    def tell(
        self, ops: Sequence[ReduceOp | ReduceTogetherOp], totals: dict[SSAValue, SSAValue]
    ) -> None:
        """Tell the team what the block has of each reduction of the row in hand."""
        assert self.meeting is not None and self.rank is not None and self.number is not None
        emit = self.emit
        own = [self.number, self.rank]
        if self.team is not None:
            own[1] = emit.value(arith.AddiOp(self.first_told(), self.rank))
        if self.upright:
            own.append(emit.index(0))
        for value, op in (pair for op in ops for pair in self.results_of(op)):
            whole, there = tile.CopyEnd(totals[value]), tile.CopyEnd(self.told(value), own)
            emit.op(located(tile.CopyOp(whole, there), op))
        where = [self.number, emit.index(self.level)]
        emit.op(located(tile.GridSignalOp(self.meeting.arrived, where), ops[0]))

    def first_told(self) -> SSAValue:
        """The place of what a team's first block tells: where teams have fewer blocks than there
        are places, they have the last ones, so that none is read behind them."""
        if self.team is None:
            return self.emit.index(0)
        return self.emit.apply(-affine_dim(0) + self.parts, [self.team])

    def hear(
        self, ops: Sequence[ReduceOp | ReduceTogetherOp], totals: dict[SSAValue, SSAValue]
    ) -> None:
        """What the team has of each reduction of the row in hand, once all have told."""
        assert self.meeting is not None and self.number is not None
        emit = self.emit
        where = [self.number, emit.index(self.level)]
        wait = tile.GridWaitOp(self.meeting.arrived, where, self.blocks_of_team(emit))
        emit.op(located(wait, ops[0]))
        first = [self.number, self.first_told(), *([emit.index(0)] if self.upright else [])]
        for value, op in (pair for op in ops for pair in self.results_of(op)):
            totals[value] = heard = self.heard(op)
            copy = tile.CopyOp(tile.CopyEnd(self.told(value), first), tile.CopyEnd(heard))
            emit.op(located(copy, op))
            if NEUTRAL[op.fn.data]:
                self.mask(op, heard)
        for op in ops:
            if isinstance(op, ReduceOp):
                totals[op.result] = self.all_of(op, totals[op.result])
            else:
                self.states_of_all(self.chunks[op], totals)

    def results_of(self, op: ReduceOp | ReduceTogetherOp) -> list[tuple[SSAValue, ReduceOp]]:
        """What is told of a reduction: each value, and how such are brought together."""
        if isinstance(op, ReduceOp):
            return [(op.result, op)]
        return list(zip(op.states, self.chunks[op].reductions, strict=True))

    def told(self, value: SSAValue) -> SSAValue:
        """The workspace with what each block has of a reduction."""
        assert self.meeting is not None
        whole = [op for op in self.rows.reductions if op not in self.inner]
        return self.meeting.told[[v for op in whole for v in op.results].index(value)]

    def heard(self, op: ReduceOp) -> SSAValue:
        """A fragment for what all blocks of its team have of a reduction."""
        if not self.upright:
            threads = self.plan.threads()
            layout = FragmentLayoutAttr.of(threads, 1, AffineMap(2, 0, (ROW,)))
            kind = FragmentType.of([threads], f32, layout)
            return self.maps.outer.value(tile.FragmentOp(kind), op.label)
        return self.columns(-(-self.parts // self.down) * self.down, op.label)

    def mask(self, op: ReduceOp, heard: SSAValue) -> None:
        """Make what is behind the last block's part change no result."""
        nothing = self.maps.number(NEUTRAL[op.fn.data])
        rank = 2 if self.upright else 1
        block = Block(arg_types=[f32])
        inner = Emit()
        at = inner.value(tile.TileIndexOp(0))
        inside = inner.compare("slt", at, self.blocks_of_team(inner))
        chosen = inner.value(arith.SelectOp(inside, block.args[0], nothing))
        block.add_ops([*inner.ops, tile.YieldOp([chosen])])
        kind = AffineMap.identity(rank)
        new = tile.MapOp(heard, [], [], [heard], [kind], Region(block))
        self.emit.op(located(new, op))

    @property
    def inner(self) -> set[Operation]:
        """The reductions inside of others."""
        return {op for chunk in self.flat.chunks for op in chunk.reductions}

    @property
    def blocks_at_once(self) -> int:
        return self.plan.blocks_kept


GROUPS = 3
"""Groups of teams that begin one after another."""

NOWHERE = AffineMap(1, 0, (AffineExpr.constant(0),))
"""All of a fragment to one value."""


def tiled_sizes(rows: Rows, plan: ScheduleOp) -> list[Dim]:
    """The outer axes in tiles: of rows that lie side by side, a block has several."""
    sizes = [axis.size for axis in rows.outer]
    if is_upright(rows, plan):
        sizes[-1] = sizes[-1].ceildiv(plan.tile_sizes[0])
    return sizes


def lags(rows: Rows, plan: ScheduleOp) -> bool:
    """Whether blocks that meet in memory write each row a turn after they have told of it: they
    keep three or more, of which one is on its way, and meet once for each."""
    levels = flattened(rows.kernel).levels()
    return plan.meets_in_memory and plan.integer("stages") > 2 and max(levels.values()) == 1


def has_open_teams(rows: Rows, plan: ScheduleOp) -> bool:
    """Whether how many blocks have a row together follows from sizes that are open."""
    return plan.meets_in_memory and not is_upright(rows, plan) and bool(rows.kernel.symbol_names)


def blocks_together(rows: Rows, plan: ScheduleOp) -> Dim:
    """How many blocks must run at once for a row: those of a team, or one more than it needs."""
    if not has_open_teams(rows, plan):
        return Dim.const(plan.integer("split_k"))
    return (rows.length + 1).ceildiv(plan.tile_sizes[1] * plan.tile_sizes[2])


def meeting_spaces(rows: Rows, plan: ScheduleOp) -> list[Space]:
    """The workspaces in which the blocks of a row meet: their parts of each reduction of each row,
    and a counter for each level of reductions that need one another."""
    parts = plan.integer("split_k")
    if not plan.meets_in_memory:
        return []
    count = prod(tiled_sizes(rows, plan), start=Dim.const(1))
    levels = flattened(rows.kernel).levels()
    name, many = plan.kernel_name, sum(len(op.results) for op in rows.reductions)
    told = GlobalType.of([count, Dim.const(parts)], f32)
    if is_upright(rows, plan):
        told = GlobalType.of([count, Dim.const(parts), Dim.const(plan.tile_sizes[0])], f32)
    met = GlobalType.of([count, Dim.const(max(levels.values()))], i32)
    spaces = [Space(f"{name}_told", told) for _ in range(many)]
    return [*spaces, Space(f"{name}_arrived", met, zeroed=True)]
