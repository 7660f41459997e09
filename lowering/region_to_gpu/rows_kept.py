"""``region-to-gpu``: kernels that keep rows in shared memory, of a block or more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    BarrierOp,
    ClusterRankOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    SharedTileOp,
)
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    SharedType,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import (
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
)
from polyc.dialects.region.together import StateOp
from polyc.families.rows.recognise import Rows
from polyc.families.rows.schedules import down_of
from polyc.lowering.region_to_gpu.grid import Grid
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Wanted, element_of
from polyc.lowering.region_to_gpu.row_builders import Streaming
from polyc.lowering.region_to_gpu.row_maps import Parts, Tile
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim
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

    def layout(self) -> FragmentLayoutAttr | None:
        """Rows of single elements lie with threads as they are written: neighbours with
        neighbours, whatever vectors shared memory has."""
        if self.upright or self.plan.integer("vectorize") > 1:
            return super().layout()
        threads, each = AffineExpr.dimension(0), AffineExpr.dimension(1)
        count, width = self.plan.threads(), self.plan.tile_sizes[1]
        spread = AffineMap(2, 0, (AffineExpr.constant(0), each * count + threads))
        return FragmentLayoutAttr.of(count, width // count, spread)

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
            element = without_sign(element_of(op.result))
            kind = SharedType.of(sizes, element, ring=rows * deep)
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
        here: dict[SSAValue, SSAValue] = {v: maps.wide(kind, hint) for v, kind, hint in kinds}
        coming: dict[SSAValue, SSAValue] = {v: maps.wide(kind, hint) for v, kind, hint in kinds}

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

    def so_far(self, hint: str | None, element: Attribute = f32) -> SSAValue:
        if not self.upright:
            return self.maps.fragment([self.plan.threads()], element, hint)
        return self.columns(self.down, hint, element)

    def columns(self, rows: int, hint: str | None, element: Attribute) -> SSAValue:
        """A fragment of so many rows of the tile's columns, which lies with threads as a tile."""
        height, threads = self.plan.tile_sizes[0], self.plan.threads()
        layout = FragmentLayoutAttr.of(threads, rows * height // threads, self.spread())
        kind = FragmentType.of([rows, height], without_sign(element), layout)
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
        whole = self.maps.narrow(op.label, op.accumulates_in)
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


NOWHERE = AffineMap(1, 0, (AffineExpr.constant(0),))
"""All of a fragment to one value."""
