"""``region-to-gpu``: blocks that keep one row after another, alone or as a team of the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import (
    BarrierOp,
    BlockIdOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    GridSizeOp,
)
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType, GlobalType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import (
    ReduceOp,
    ReduceTogetherOp,
)
from polyc.families.rows.recognise import Rows
from polyc.families.rows.schedules import is_upright
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.point import ROW, element_of
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Tile
from polyc.lowering.region_to_gpu.row_point import RowPoint
from polyc.lowering.region_to_gpu.row_steps import RowSteps
from polyc.lowering.region_to_gpu.rows_flat import flattened
from polyc.lowering.region_to_gpu.rows_kept import Kept
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim


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
        if self.meeting is not None:
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
        block.add_ops(self.within(lambda: self.turn(sizes, step, turns)))
        emit.op(scf.ForOp(first, count, step, [emit.index(0) for _ in turns], block))
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
        for value, op in (pair for one in ops for pair in self.results_of(one)):
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
        for value, op in (pair for one in ops for pair in self.results_of(one)):
            totals[value] = heard = self.heard(op)
            copy = tile.CopyOp(tile.CopyEnd(self.told(value), first), tile.CopyEnd(heard))
            emit.op(located(copy, op))
            if op.fn.data != "sum":
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
        values: list[SSAValue] = [v for op in whole for v in op.results]
        return self.meeting.told[values.index(value)]

    def heard(self, op: ReduceOp) -> SSAValue:
        """A fragment for what all blocks of its team have of a reduction."""
        if not self.upright:
            threads = self.plan.threads()
            layout = FragmentLayoutAttr.of(threads, 1, AffineMap(2, 0, (ROW,)))
            kind = FragmentType.of([threads], without_sign(op.accumulates_in), layout)
            return self.maps.outer.value(tile.FragmentOp(kind), op.label)
        rows = -(-self.parts // self.down) * self.down
        return self.columns(rows, op.label, op.accumulates_in)

    def mask(self, op: ReduceOp, heard: SSAValue) -> None:
        """Make what is behind the last block's part change no result."""
        nothing = self.maps.nothing(op)
        rank = 2 if self.upright else 1
        block = Block(arg_types=[element_of(heard)])
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


class WalkedTurns(Turns):
    """Rows of so many points that no team keeps them: each block of it walks over its chunks, once
    for each reduction that needs another one's result and once for what is written.

    The blocks meet as those do that keep rows.
    """

    def make_homes(self) -> None:
        """Nothing is kept."""

    def bring(self, over: Tile, origin: Sequence[SSAValue] | None = None) -> None:
        """Nothing is brought ahead."""

    def load(self, over: Tile, steps: Sequence[Sequence[SSAValue]]) -> None:
        """A chunk is read where it is used."""


GROUPS = 3
"""Groups of teams that begin one after another."""


def tiled_sizes(rows: Rows, plan: ScheduleOp) -> list[Dim]:
    """The outer axes in tiles: of rows that lie side by side, a block has several."""
    sizes = [axis.size for axis in rows.outer]
    if is_upright(rows, plan):
        sizes[-1] = sizes[-1].ceildiv(plan.tile_sizes[0])
    return sizes


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
    name = plan.kernel_name
    sizes = [count, Dim.const(parts)]
    if is_upright(rows, plan):
        sizes.append(Dim.const(plan.tile_sizes[0]))
    told: list[GlobalType] = []
    for op in rows.reductions:
        kind = op.accumulates_in if isinstance(op, ReduceOp) else f32
        told += [GlobalType.of(sizes, without_sign(kind))] * len(op.results)
    met = GlobalType.of([count, Dim.const(max(levels.values()))], i32)
    spaces = [Space(f"{name}_told", kind) for kind in told]
    return [*spaces, Space(f"{name}_arrived", met, zeroed=True)]
