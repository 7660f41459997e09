"""``region-to-gpu``: any region as loops, at the tile level (S9, T3).

A block takes a tile of each space of outputs and computes it by one ``gpu.map``.  What a map needs
of a reduction lies in a fragment: an accumulator that loops over the reduced axes update, a
``gpu.map`` a step.  Where the result lacks an axis of the tile, the threads along it part the
points of a reduced axis, and a ``gpu.reduce`` brings their parts together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.cost.reductions import OF_MOMENTS
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, number_of, without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import ClusterRankOp, SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import (
    BindAttr,
    FragmentType,
    GlobalType,
    SharedType,
    element_bytes,
    index_attr,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import CastOp, CompareOp, InsideOp, KernelOp, ReadOp, ReduceOp, SelectOp
from polyc.dialects.region.moments import Moments, moments_of
from polyc.families.loops.boxes import Box, find_box
from polyc.families.loops.lines import Lines, LineTile, find_lines
from polyc.families.loops.lines import tile_from as line_tile_from
from polyc.families.loops.partial_sums import BLOCKS, THREADS, VECTOR
from polyc.families.loops.recognise import (
    Loops,
    Space,
    axes_in,
    line_of,
    loads_of,
    made_by,
    parted,
    reductions_in,
    size_of,
    spaces_of,
    summed,
    turned_reads,
    type_of,
)
from polyc.families.loops.resampled import Brought, Resampled, find_resampled
from polyc.families.loops.windows import (
    Sliding,
    Window,
    WindowTile,
    find_window,
    held_value,
    tile_from,
)
from polyc.lowering.region_to_gpu import integers, loop_moments, loop_powers
from polyc.lowering.region_to_gpu.boxes import BoxBuilder, box_grid
from polyc.lowering.region_to_gpu.frame import Space as Workspace
from polyc.lowering.region_to_gpu.grid import Axis, Coordinates, Grid, blocks_of
from polyc.lowering.region_to_gpu.kernel import Builder, Walked
from polyc.lowering.region_to_gpu.loop_parts import Part, combine, joined, store
from polyc.lowering.region_to_gpu.loop_scope import (
    AtHand,
    AxisPlace,
    LoopPoint,
    Scope,
    Walk,
    WindowPoint,
    held_in,
    line_places,
    placed,
    places_of,
    projection,
    tile_sizes,
    walks_of,
)
from polyc.lowering.region_to_gpu.partial_sums import PART
from polyc.lowering.region_to_gpu.point import (
    COLUMN,
    ROW,
    Held,
    Point,
    Wanted,
    element_of,
    is_there_and_back,
)
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim

BANK_BYTES = 4
"""A word of shared memory, which a bank gives at once."""

ZERO = AffineExpr.constant(0)

THIN = 6
"""Blocks of a multiprocessor that compute element by element, of few tensors: each asks memory but
once, and what is on its way is as much as there are."""


@dataclass(frozen=True)
class LoopsLowering(Walked):
    """Any region."""

    loops: Loops

    @property
    def kernel(self) -> KernelOp:
        return self.loops.kernel

    def grids(self, plan: ScheduleOp) -> list[Grid]:
        """A block has a tile of each space of outputs, and walks some axes of it."""
        if plan.moves_boxes:
            return [box_grid(self.kernel, self.box(plan))]
        return [_grid(space, plan) for space in _spaces(self.kernel, plan)]

    def box(self, plan: ScheduleOp) -> Box:
        """The box that a block moves."""
        found = find_box(self.loops, plan.arch.data)
        assert found is not None, "a schedule that moves boxes is checked"
        return replace(found, vector=plan.integer("vectorize"), threads=plan.threads())

    def builder(
        self, plan: ScheduleOp, grids: Sequence[Grid], adds: bool = False
    ) -> LoopBuilder | BoxBuilder:
        if plan.moves_boxes:
            return BoxBuilder(self.kernel, plan, grids, self.box(plan))
        return LoopBuilder(self.kernel, plan, grids, adds)

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        """One kernel, or that which stores parts of reductions and the one that combines them."""
        own = super().launches(plan)
        if not plan.stores_sums:
            return own
        both = zip(plan.kernel_names, self._two(plan), strict=True)
        return [LaunchOp(n, plan.when, own[0].align.data, blocks_of([grid])) for n, grid in both]

    def _two(self, plan: ScheduleOp) -> tuple[Grid, Grid]:
        """The grids of both."""
        (grid,), part = self.grids(plan), _part(self.kernel, plan)
        return part.storing(grid), part.combining(grid)

    def spaces(self, plan: ScheduleOp) -> list[Workspace]:
        """The parts of each reduction."""
        if not plan.stores_sums:
            return []
        stored = _stored(self.kernel, _part(self.kernel, plan))
        return [Workspace(f"{plan.kernel_name}_sums", kind) for _, kind in stored]

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        if not plan.stores_sums:
            return super().build(plan, bindings, spaces)
        both = zip(self._two(plan), (False, True), strict=True)
        builders = [LoopBuilder(self.kernel, plan, [g], adds).taking(spaces) for g, adds in both]
        return [builder.build(bindings) for builder in builders]


LOWERING = LoopsLowering


def _lines(kernel: KernelOp, plan: ScheduleOp) -> Lines | None:
    """The lines along which a schedule's windows slide; None where none do."""
    return find_lines(Loops(kernel, kernel)) if plan.slides_lines else None


def _resampled(kernel: KernelOp, plan: ScheduleOp) -> Resampled | None:
    """What a schedule resamples along lines; None where that is nothing."""
    return find_resampled(Loops(kernel, kernel)) if plan.resamples_lines else None


def _spaces(kernel: KernelOp, plan: ScheduleOp) -> list[Space]:
    """The spaces of a region's outputs as a schedule parts them."""
    lines = _lines(kernel, plan) or _resampled(kernel, plan)
    return spaces_of(kernel) if lines is None else [lines.space]


def _part(kernel: KernelOp, plan: ScheduleOp) -> Part:
    """How a schedule parts the reductions of a region, which has one space of outputs."""
    (space,) = spaces_of(kernel)
    return Part(space, plan.integer("split_k"))


def _stored(kernel: KernelOp, part: Part) -> list[tuple[SSAValue, GlobalType]]:
    """What the blocks of a part store: what they have of each reduction, and what more of those
    that need one another."""
    values = list(kernel.yield_op.values)
    moments = moments_of(values)
    if moments is not None:
        return [(value, part.kind(f32)) for value in moments.stored]
    return [(r.result, part.kind(r.accumulates_in)) for r in summed(values)]


def _grid(space: Space, plan: ScheduleOp) -> Grid:
    """A space in tiles; axes that it lacks, and those that a block walks, have one point."""
    axes = [
        Axis("", Dim.const(1)) if label in (None, *space.walked) else Axis(str(label), size, step)
        for label, size, step in zip(
            space.labels, space.sizes, tile_sizes(space, plan), strict=True
        )
    ]
    return Grid(tuple(axes), 1 if plan.stores_sums else plan.integer("split_k"))


class LoopBuilder(Builder):
    """Builds the kernel of one schedule, or of one that stores parts the second, which ``adds``."""

    def __init__(
        self, kernel: KernelOp, plan: ScheduleOp, grids: Sequence[Grid], adds: bool = False
    ) -> None:
        super().__init__(kernel, plan, grids)
        self.spaces = _spaces(kernel, plan)
        self.lines = _lines(kernel, plan)
        """The windows that slide along lines of the outputs."""
        self.resampled = _resampled(kernel, plan)
        """What is resampled along them."""
        self.tile = plan.tile_sizes[:2]
        self.parts = plan.cluster_blocks
        """Blocks of a cluster, which share the points of each reduction."""
        self.part = _part(kernel, plan) if plan.stores_sums else None
        """How the blocks of the grid share them."""
        self.moments = moments_of(kernel.yield_op.values) if plan.stores_sums else None
        """The sum and the squares about its mean that they share, where they share such."""
        self.adds = adds
        self.sums: dict[SSAValue, SSAValue] = {}
        """Of each reduction, the workspace with its parts."""
        vector, threads, size = plan.integer("vectorize"), plan.threads(), element_bytes(f32)
        if self.part is not None and adds:
            self.tile, vector, threads = self.part.tile, 1, self.part.threads
        elif self.part is not None:
            size = _narrowest(kernel)
        # Where rows of threads part points, a thread has vectors below each other.
        below = not adds and any(
            0 in parted(r, self.along_of(r), self.tile).values() for r in self.reductions
        )
        # Lines have a layout of their own, whose loads are wider than a tile may be.
        if self.of_lines is not None:
            vector = 1
        layout, _ = row_layout(*self.tile, vector, size, threads, along=below)
        self.slides: tuple[Window, WindowTile] | None = None
        """The windows that slide along the tile's rows, and their tile."""
        self.shared: dict[SSAValue, Held] = {}
        """What the points of a tile read, where they share it."""
        if plan.slides_windows:
            window = find_window(Loops(kernel, kernel))
            windows = tile_from(self.tile, threads, vector)
            assert window is not None and windows is not None  # checked with the plan
            self.slides, layout = (window, windows), windows.layout
        self.line_tile: LineTile | None = None
        if self.of_lines is not None:
            self.line_tile = line_tile_from(self.tile, threads)
            assert self.line_tile is not None  # checked with the plan
            layout = self.line_tile.layout
        self.spread = Spread.of(layout)
        self.rank: SSAValue | None = None
        """Which block of its cluster this one is, where a cluster has a tile."""
        self.at_hand: dict[Operation, AtHand] = {}
        """Where a thread has what is resampled."""
        self.turned: dict[Operation, SSAValue] = {}
        """What is read of tensors that lie along the rows, in shared memory as they lie there."""
        for read in turned_reads(kernel, self.spaces):
            if kernel.name_of(read.tensor) in plan.cached:
                self.turned[read] = self.tile_of(read)

    def taking(self, spaces: Sequence[BindAttr]) -> LoopBuilder:
        """Let the parts of each reduction lie in a workspace."""
        assert self.part is not None
        for (value, kind), space in zip(_stored(self.kernel, self.part), spaces, strict=True):
            self.sums[value] = self.frame.space(kind, space)
        return self

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        if self.part is not None and self.adds:
            return self.frame.finish(self.plan, bindings, adding=self.part.threads)
        kernel = super().finish(bindings)
        kernel.blocks_per_sm = index_attr(self.blocks_at_once)
        return kernel

    @property
    def blocks_at_once(self) -> int:
        """How many blocks are to find room on a multiprocessor.

        Where threads part reductions, loads of many blocks are to be on their way: as many as the
        plan counts on.  A thread's vectors and what it has of their results then have to do with
        64 registers, of which 87 would be taken for the same code: of 64 MB of columns' sums the
        blocks that 87 leave room for draw 2.8 TB/s.
        """
        if not self.reductions:
            return THIN if self.is_thin else 1
        nested = any(reductions_in([reduce.operand]) for reduce in self.reductions)
        if nested and self.plan.threads() <= THREADS * 2:
            return max(1, self.plan.target.registers // (OF_MOMENTS * self.plan.threads()))
        elements, most = prod(self.tile) // self.plan.threads(), loads_of(self.reductions) * VECTOR
        shares = any(parted(r, self.along_of(r), self.tile) for r in self.reductions)
        if not shares or elements > most or self.plan.threads() > THREADS:
            return 1
        return BLOCKS

    @property
    def is_thin(self) -> bool:
        """Whether threads have a vector each of few tensors, so that 40 registers are enough."""
        made = list(made_by(list(self.kernel.yield_op.values), True))
        reads = [op for op in made if isinstance(op, ReadOp)]
        whole = all(op.guard is None for op in reads) and not self.turned
        heavy = any(isinstance(op, CompareOp | InsideOp | SelectOp) for op in made)
        small = prod(self.tile) <= VECTOR * THREADS and self.plan.threads() == THREADS
        return small and whole and not heavy and len(reads) <= 3 and len(self.kernel.outs) == 1

    @property
    def reductions(self) -> list[ReduceOp]:
        """All that the outputs need; of moments both."""
        if self.moments is not None:
            return self.moments.reductions
        return reductions_in(list(self.kernel.yield_op.values))

    @property
    def of_lines(self) -> Lines | Resampled | None:
        """What makes a tile one of lines: the axes outside of them are one axis."""
        return self.lines or self.resampled

    def along_of(self, reduce: ReduceOp) -> tuple[bool, bool]:
        """Whether the results of a reduction differ between a tile's rows, and its columns."""
        labels = type_of(reduce.result).labels
        if self.lines is not None:
            return True, True
        return (
            any(s.row in labels for s in self.spaces),
            any(s.column in labels for s in self.spaces),
        )

    def tile_of(self, read: ReadOp) -> SSAValue:
        """A tile in shared memory for what is read; its lines end in a word more than they need.

        Threads that have neighbouring columns then read words of unlike banks.
        """
        kind, (rows, columns) = without_sign(element_of(read.result)), self.tile
        line = rows + -(-BANK_BYTES // element_bytes(kind))
        shared = located(SharedTileOp(SharedType.of([columns, line], kind, 0)), read)
        return self.frame.emit.value(shared, f"{self.kernel.name_of(read.tensor)}_turned")

    @property
    def has_turns(self) -> bool:
        return self.parts == 1

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """The outputs of a space: its reductions, and a map of what is made of them.

        Where the blocks of a cluster have a tile together, each of them reduces points of its own,
        and the first one writes.
        """
        space = next(s for one, s in zip(self.grids, self.spaces, strict=True) if one is grid)
        lines = self.of_lines
        places = places_of(space, at) if lines is None else line_places(lines, at)
        scope = Scope(self.emit, places)
        if self.moments is not None and not self.adds:
            self.rank = at[PART]
            found = self.powers_of_part if self.moments.below else self.moments_of_part
            found(scope, self.moments)
            return
        if self.parts > 1:
            self.rank = self.emit.value(ClusterRankOp(), "rank")
        elif self.part is not None and not self.adds:
            self.rank = at[PART]
        for reduce in reductions_in([self.kernel.yield_op.values[i] for i in space.outputs]):
            held = self.reduction(scope, reduce)
            if self.part is not None and self.rank is not None:
                origin: list[SSAValue] = []
                where = {label: placed(place, origin) for label, place in places.items()}
                to = self.sums[reduce.result]
                new = store(self.emit, self.part, held, self.rank, where, origin, to)
                located(new, reduce)
        if self.part is not None and self.rank is not None:
            return
        if self.rank is None:
            self.walk(scope, space, walks_of(space, self.plan))
            return
        first = self.emit.compare("eq", self.rank, self.emit.index(0))
        self.emit.when(first, lambda inner: self.store(Scope(inner, places, scope.made), space))

    def walk(self, scope: Scope, space: Space, walks: Sequence[Walk]) -> None:
        """The tiles of a block, along the axes that it walks."""
        if not walks:
            self.store(scope, space)
            return
        axis, *rest = walks

        def body(inner: Emit, at: SSAValue) -> None:
            self.walk(scope.inside(inner, axis.label, AxisPlace(axis.along, at)), space, rest)

        size = self.frame.size(axis.size)
        scope.emit.loop(size, body, step=axis.step, hint=f"{axis.label}0")

    def store(self, scope: Scope, space: Space) -> None:
        """One map from what the outputs of a space are made of into them.

        It runs over a fragment that holds nothing, and says how the tile is spread over threads.
        """
        for read, shared in self.turned.items():
            self.turn(scope, cast(ReadOp, read), shared)
        if self.resampled is not None:
            self.bring(scope, self.resampled)
        end = self.kernel.yield_op
        values = [end.values[i] for i in space.outputs]
        labels = [type_of(v).labels for v in values]
        every = [a for part in labels for a in part]
        outputs = [self.frame.outputs[i] for i in space.outputs]

        def wanted(axes: Mapping[str, AffineExpr]) -> list[Wanted]:
            places = [tuple(axes[a] for a in part) for part in labels]
            return [Wanted(*one) for one in zip(values, outputs, places, strict=True)]

        fragment = self.fragment(scope, scope.along(every), "out")
        self.map(scope, fragment, every, wanted, end, values)

    def turn(self, scope: Scope, read: ReadOp, shared: SSAValue) -> None:
        """Bring a tile of what is read into shared memory: neighbours of its rows by neighbours,
        which have one element each where these lie apart."""
        kind, (rows, columns) = without_sign(element_of(read.result)), self.tile
        vector = self.plan.integer("vectorize") if line_of(read)[1] == 1 else 1
        size = element_bytes(kind)
        layout, _ = row_layout(columns, rows, vector, size, self.plan.threads())
        held = scope.emit.value(tile.FragmentOp(FragmentType.of((columns, rows), kind, layout)))
        origin: list[SSAValue] = []
        axes: dict[str, AffineExpr] = {}
        for label in read.result.type.labels:
            place = scope.places[label]
            along = None if place.along is None else 1 - place.along
            axes[label] = placed(AxisPlace(along, place.start), origin)
        point = Point(self.frame, Block(arg_types=[kind]), {}, axes, 2, origin)
        tensor, place = point.source(read)
        element = point.block.insert_arg(kind, 1)
        element.name_hint = read.tensor.name_hint
        point.block.add_op(tile.YieldOp([element]))
        maps = [point.map(place), point.map((ROW, COLUMN))]
        body = Region(point.block)
        load = tile.MapOp(held, point.origin, [tensor], [held], maps, body)
        store = tile.CopyOp(tile.CopyEnd(held), tile.CopyEnd(shared), tile.CopyView((0, 0)))
        for op in (load, store):
            scope.emit.op(located(op, read))

    def bring(self, scope: Scope, resampled: Resampled) -> None:
        """Bring what is resampled into registers: whole vectors of lines, for all reads of one
        tensor's; what lies outside of it is 0."""
        tile_of, column = self.line_tile, str(resampled.space.column)
        assert tile_of is not None
        for one in resampled.resamples:
            brought, read = Brought.of(one, tile_of), one.reads[0]
            kind, labels = without_sign(element_of(read.result)), read.result.type.labels
            wide = f32 if all(map(_is_widened, one.reads)) else kind
            held_kind = FragmentType.of(brought.sizes(tile_of), wide, brought.layout(tile_of))
            held = scope.emit.value(tile.FragmentOp(held_kind), read.tensor.name_hint)
            origin: list[SSAValue] = []
            axes = {label: placed(scope.places[label], origin) for label in labels}
            point = Point(self.frame, Block(arg_types=[wide]), {}, axes, 2, origin)
            tensor, place = point.source(read)
            # A tile's columns are so many periods that what is read goes on by whole elements.
            start = placed(AxisPlace(None, scope.places[column].start), origin)
            step = start * one.moves(tile_of.outputs) // tile_of.outputs
            if one.moves(tile_of.outputs) == tile_of.outputs:
                step = start
            element = point.block.insert_arg(kind, 1)
            element.name_hint = read.tensor.name_hint
            found = point.cast(element, wide)
            point.block.add_ops([*point.emit.ops, tile.YieldOp([found])])
            maps = [
                point.map((*place[:-1], COLUMN + step + brought.first)),
                point.map((ROW, COLUMN)),
            ]
            load = tile.MapOp(held, point.origin, [tensor], [held], maps, Region(point.block))
            scope.emit.op(located(load, read))
            for each, where in zip(one.reads, one.places, strict=True):
                places = [(ROW, brought.find(e, COLUMN)) for e in where.every]
                self.at_hand[each] = AtHand(held, tuple(places), where.ends, column)

    def fragment(
        self,
        scope: Scope,
        along: tuple[bool, bool],
        hint: str | None,
        element: Attribute = f32,
    ) -> SSAValue:
        """A fragment that differs along some axes of the tile.

        Its elements lie with the threads that have the points of the tile that read them.
        """
        sizes = [n if here else 1 for n, here in zip(self.tile, along, strict=True)]
        layout = self.spread.image(projection(along)).layout()
        return scope.emit.value(
            tile.FragmentOp(FragmentType.of(sizes, without_sign(element), layout)), hint
        )

    def map(
        self,
        scope: Scope,
        space: SSAValue,
        labels: Sequence[str],
        wanted: Callable[[Mapping[str, AffineExpr]], Sequence[Wanted]],
        like: Operation,
        values: Sequence[SSAValue],
        given: Mapping[SSAValue, Held] | None = None,
    ) -> None:
        """A ``gpu.map`` over ``space`` of what is ``wanted`` of ``values``.

        It is told where the axes of the scope stand that ``values`` use, and ``labels``; where some
        values are ``given``, nothing is reduced for the others.
        """
        held: dict[SSAValue, Held] = dict(given or {})
        for reduce in [] if given is not None else reductions_in(values):
            held[reduce.result] = held_in(self.reduction(scope, reduce))
        origin: list[SSAValue] = []
        axes: dict[str, AffineExpr] = {}
        used = {*axes_in(values), *labels}
        for label, place in scope.places.items():
            if label in used:
                axes[label] = placed(place, origin)
        known = {**held, **self.shared}
        own = Block(arg_types=[cast("FragmentType", space.type).element_type])
        point = LoopPoint(self.frame, own, axes, origin, known, self.turned, self.at_hand)
        point.block.args[0].name_hint = space.name_hint
        for value in held:
            point.known(value)
        scope.emit.op(point.write(space, wanted(axes), like))

    # Reductions

    def reduction(self, scope: Scope, reduce: ReduceOp) -> SSAValue:
        """The fragment of a reduction's results at a scope's places, computed there once."""
        labels = type_of(reduce.result).labels
        key = (reduce.result, *(scope.places[label] for label in labels))
        if key not in scope.made:
            scope.made[key] = self.reduce(scope, reduce, scope.along(labels))
        return scope.made[key]

    def reduce(self, scope: Scope, reduce: ReduceOp, along: tuple[bool, bool]) -> SSAValue:
        hint = reduce.label or reduce.result.name_hint
        apart = parted(reduce, along, self.tile)
        if self.part is not None and self.adds:
            apart = {PART: self.part.along}
        held = tuple(here or axis in apart.values() for axis, here in enumerate(along))
        emit = scope.emit
        start = len(emit.ops)
        fold, kind = None, reduce.accumulates_in
        if self.adds or not apart or self.plan.integer("vectorize") == 1:
            acc = self.fragment(scope, (held[0], held[1]), hint, kind)
        else:
            acc, fold = self.folded(scope, (held[0], held[1]), apart, hint, kind)
        neutral = _neutral(emit, reduce)
        emit.op(tile.FillOp(neutral, acc))
        # Axes that threads part go innermost: what is computed a step of the others is shared.
        lines = None if self.lines is None else self.lines.of(reduce)
        slid = lines if self.slides is None else self.slides[0]
        inner = {*apart, *([] if slid is None else [slid.label])}
        order = sorted(reduce.labels, key=lambda label: label in inner)
        if self.part is None:
            self.loop(scope, reduce, order, apart, acc, fold)
        elif self.adds:
            origin: list[SSAValue] = []
            where = {label: placed(place, origin) for label, place in scope.places.items()}
            to = self.sums[reduce.result]
            if self.moments is not None and reduce is self.moments.squares:
                mean = self.mean_of(scope, self.moments)
                others = [v for v in self.moments.stored if v is not reduce.result]
                spaces = [to, *(self.sums[value] for value in others)]
                together = loop_powers if self.moments.below else loop_moments
                together.combine(emit, self.part, acc, mean, where, origin, spaces)
            else:
                combine(emit, self.part, reduce, neutral, acc, where, origin, to)
        else:
            run = partial(self.step, reduce=reduce, apart=apart, acc=acc, fold=fold)
            self.turns_of(scope, reduce, order, apart, lambda here, _: run(here))
        if apart:
            whole = self.fragment(scope, along, hint, kind)
            over, shared = projection(along), self.parts > 1
            emit.op(tile.ReduceOp(reduce.fn.data, acc, over, whole, cluster=shared))
            acc = whole
        for op in emit.ops[start:]:
            located(op, reduce)
        return acc

    def mean_of(self, scope: Scope, moments: Moments) -> loop_moments.Fragment:
        """What squares are about, where parts of these are brought together."""
        labels = type_of(moments.mean).labels
        along = scope.along(labels)
        found = self.fragment(scope, along, "mean")
        wanted = [Wanted(moments.mean, found, (ROW, COLUMN))]
        values = [moments.mean]
        self.map(scope, found, labels, lambda _: wanted, moments.squares, values)
        return found, projection(along)

    def moments_of_part(self, scope: Scope, moments: Moments) -> None:
        """What a block has of the points of a tile's moments, stored: their sum, the squares about
        their own mean, how many they are, and what is left of distances from that mean."""
        total, emit = moments.total, scope.emit
        along = scope.along(type_of(total.result).labels)
        apart = parted(total, along, self.tile)
        held = tuple(here or axis in apart.values() for axis, here in enumerate(along))
        made, fold = self.folded(scope, (held[0], held[1]), apart, "pivot", f32)
        fold = fold or projection((held[0], held[1]))
        kind = cast("FragmentType", made.type)
        others = (emit.value(tile.FragmentOp(kind), hint) for hint in ("off", "squares", "count"))
        sums = loop_moments.Sums(made, *others)
        sums.begin(emit)
        order = sorted(total.labels, key=lambda label: label in apart)
        tails = self.tails_of(total, apart)

        def masked(point: Point, scalar: SSAValue) -> SSAValue:
            there, value = self.inside(point, tails), point.cast(scalar, f32)
            if there is None:
                return value
            nothing = loop_moments.number(point.emit, 0.0)
            return point.emit.value(arith.SelectOp(there, value, nothing))

        def counted(point: Point, _: SSAValue) -> SSAValue:
            there, one = self.inside(point, tails), loop_moments.number(point.emit, 1.0)
            if there is None:
                return one
            nothing = loop_moments.number(point.emit, 0.0)
            return point.emit.value(arith.SelectOp(there, one, nothing))

        def step(here: Scope, turn: SSAValue) -> None:
            emit, place = here.emit, (ROW, COLUMN)
            points = self.fragment(here, (True, True), total.label)
            there = self.fragment(here, (True, True), "inside")
            wanted = [
                Wanted(total.operand, points, place, masked),
                Wanted(total.operand, there, place, counted),
            ]
            self.map(here, points, list(tails), lambda _: wanted, total, [total.operand], {})

            def begin(inner: Emit) -> None:
                whole, count = (inner.value(tile.FragmentOp(kind)) for _ in range(2))
                inner.op(tile.ReduceOp("sum", points, fold, whole))
                inner.op(tile.ReduceOp("sum", there, fold, count))
                sums.set_pivot(inner, whole, count)

            assert self.rank is not None
            emit.when(emit.compare("eq", turn, self.rank), begin)
            far = self.fragment(here, (True, True), "distance")
            square = self.fragment(here, (True, True), "square")
            known = {
                total.operand: Held(points, place),
                moments.mean: Held(sums.pivot, fold.results),
            }
            wanted = [
                Wanted(moments.distance, far, place, masked),
                Wanted(moments.squares.operand, square, place, masked),
            ]
            values = [moments.squares.operand]
            self.map(here, points, list(tails), lambda _: wanted, moments.squares, values, known)
            for source, target in ((far, sums.off), (square, sums.squares), (there, sums.count)):
                emit.op(tile.ReduceOp("sum", source, fold, target, accumulate=True))

        start = len(emit.ops)
        self.turns_of(scope, total, order, apart, step)
        over = projection(along)
        parts, left = (emit.value(tile.FragmentOp(kind)) for _ in range(2))
        whole, count, squares, rest = (
            self.fragment(scope, along, hint) for hint in ("total", "count", "squares", "rest")
        )
        sums.totals(emit, parts)
        emit.op(tile.ReduceOp("sum", parts, over, whole))
        emit.op(tile.ReduceOp("sum", sums.count, over, count))
        sums.about(emit, (whole, over), (count, over), parts, left)
        emit.op(tile.ReduceOp("sum", parts, over, squares))
        emit.op(tile.ReduceOp("sum", left, over, rest))
        for op in emit.ops[start:]:
            located(op, moments.squares)
        self.store_parts(scope, moments, [whole, squares, count, rest])

    def powers_of_part(self, scope: Scope, moments: Moments) -> None:
        """What a block has of the points of a tile, stored: their maximum, and the sum of
        exponentials below it."""
        total, emit = moments.total, scope.emit
        along = scope.along(type_of(total.result).labels)
        apart = parted(total, along, self.tile)
        held = tuple(here or axis in apart.values() for axis, here in enumerate(along))
        top, fold = self.folded(scope, (held[0], held[1]), apart, "top", f32)
        fold = fold or projection((held[0], held[1]))
        kind = cast("FragmentType", top.type)
        powers = loop_powers.Powers(top, emit.value(tile.FragmentOp(kind), "powers"))
        powers.begin(emit)
        order = sorted(total.labels, key=lambda label: label in apart)
        tails = self.tails_of(total, apart)

        def masked(point: Point, scalar: SSAValue) -> SSAValue:
            there, value = self.inside(point, tails), point.cast(scalar, f32)
            if there is None:
                return value
            nothing = loop_powers.least(point.emit)
            return point.emit.value(arith.SelectOp(there, value, nothing))

        def step(here: Scope, _: SSAValue) -> None:
            points = self.fragment(here, (True, True), total.label)
            wanted = [Wanted(total.operand, points, (ROW, COLUMN), masked)]
            self.map(here, points, list(tails), lambda _: wanted, total, [total.operand], {})
            grown = self.fragment(here, (True, True), "grown")
            powers.take(here.emit, points, grown, fold)

        start = len(emit.ops)
        self.turns_of(scope, total, order, apart, step)
        over = projection(along)
        whole, sums = (self.fragment(scope, along, hint) for hint in ("top", "powers"))
        powers.join(emit, whole, sums, over)
        for op in emit.ops[start:]:
            located(op, moments.squares)
        self.store_parts(scope, moments, [whole, sums])

    def tails_of(self, reduce: ReduceOp, apart: Mapping[str, int]) -> dict[str, SSAValue]:
        """The sizes of the axes whose last step may go beyond their end, of those that threads
        part."""
        ends = {label: size_of(reduce, label) for label in apart}
        return {
            label: self.frame.size(size)
            for label, size in ends.items()
            if size.mod(self.tile[apart[label]]).constant() != 0
        }

    @staticmethod
    def inside(point: Point, tails: Mapping[str, SSAValue]) -> SSAValue | None:
        """Whether a point is within the ends of axes; None where nothing says so."""
        found: SSAValue | None = None
        for label, size in tails.items():
            here = point.index(point.axes[label])
            found = point.emit.both(found, point.emit.compare("slt", here, size))
        return found

    def store_parts(self, scope: Scope, moments: Moments, fragments: Sequence[SSAValue]) -> None:
        """Write what a block has of each of ``moments.stored``."""
        assert self.part is not None and self.rank is not None
        for value, fragment in zip(moments.stored, fragments, strict=True):
            origin: list[SSAValue] = []
            where = {label: placed(place, origin) for label, place in scope.places.items()}
            to = self.sums[value]
            new = store(scope.emit, self.part, fragment, self.rank, where, origin, to)
            located(new, moments.squares)

    def folded(
        self,
        scope: Scope,
        held: tuple[bool, bool],
        apart: Mapping[str, int],
        hint: str | None,
        element: Attribute,
    ) -> tuple[SSAValue, AffineMap | None]:
        """A fragment for what threads have of a reduction, and where in it a tile's elements go.

        A thread has a place for all of its vectors along the parted axis, and their registers are
        left to what is on its way.
        """
        axis = next(iter(apart.values()))
        whole = self.spread.image(projection(held)).layout().registers.data
        for several in (8, 4, 2):
            size, rest = divmod(self.tile[axis], several)
            if rest or size < 1:
                continue
            dims = [AffineExpr.dimension(i) if h else ZERO for i, h in enumerate(held)]
            dims[axis] = AffineExpr.dimension(axis) % size
            fold = AffineMap(2, 0, tuple(dims))
            layout = self.spread.image(fold).layout()
            if layout.registers.data * several != whole:
                continue
            sizes = [n if h else 1 for n, h in zip(self.tile, held, strict=True)]
            sizes[axis] = size
            kind = FragmentType.of(sizes, without_sign(element), layout)
            return scope.emit.value(tile.FragmentOp(kind), hint), fold
        return self.fragment(scope, held, hint, element), None

    def loop(
        self,
        scope: Scope,
        reduce: ReduceOp,
        labels: Sequence[str],
        apart: Mapping[str, int],
        acc: SSAValue,
        fold: AffineMap | None = None,
    ) -> None:
        """The loops over ``labels``, around a step that brings one point into ``acc``."""
        self.before(scope, reduce.operand, set(labels))
        if not labels:
            self.step(scope, reduce, apart, acc, fold)
            return
        if self.slides is not None and list(labels) == [self.slides[0].label]:
            self.slide(scope, *self.slides, acc)
            return
        lines = None if self.lines is None else self.lines.of(reduce)
        if lines is not None and list(labels) == [lines.label]:
            self.slide_along(scope, lines, acc)
            return
        label, *rest = labels
        along = apart.get(label)
        size = self.frame.size(size_of(reduce, label))
        step = 1 if along is None else self.tile[along]
        rank = self.rank if along == 0 else None

        def body(inner: Emit, at: SSAValue) -> None:
            if rank is not None:
                own = affine_dim(0) + affine_dim(1) * step
                at = inner.apply(own, [at, rank])
            within = scope.inside(inner, label, AxisPlace(along, at))
            self.loop(within, reduce, rest, apart, acc, fold)

        hint = label if along is None else f"{label}0"
        scope.emit.loop(size, body, step=step if rank is None else step * self.parts, hint=hint)

    def slide(self, scope: Scope, window: Window, tile_of: WindowTile, acc: SSAValue) -> None:
        """The points of a window one after another, with what it reads in registers ahead."""
        (row, column), emit = (window.space.row, window.space.column), scope.emit
        assert row is not None and column is not None
        first = scope.inside(emit, window.label, AxisPlace(None, emit.index(0)))
        for one in window.sliding:
            sizes, layout = tile_of.window(one, window.taps)
            value = held_value(one.read)
            kind = FragmentType.of(sizes, without_sign(type_of(value).element_type), layout)
            held = emit.value(tile.FragmentOp(kind), one.read.tensor.name_hint)
            places = {**first.places, row: AxisPlace(None, first.places[row].start)}
            self.hold(Scope(emit, places), value, held, {one.read: one.result})
            self.shared[value] = Held(held, (ROW, COLUMN))
        slid = {held_value(one.read): one for one in window.sliding}
        whole = dict(self.shared)
        for tap in range(window.taps):
            here = scope.inside(emit, window.label, AxisPlace(None, emit.index(tap)))
            for read in window.still:
                value, along = held_value(read), column in read.result.type.labels
                layout = self.spread.image(projection((False, along))).layout()
                sizes = [1, self.tile[1] if along else 1]
                kind = FragmentType.of(sizes, without_sign(type_of(value).element_type), layout)
                held = emit.value(tile.FragmentOp(kind), read.tensor.name_hint)
                place = projection((False, along)).results
                self.hold(here, value, held, {})
                self.shared[value] = Held(held, place)
            for value, one in slid.items():
                at = ROW * one.step + tap * one.dilation
                self.shared[value] = Held(whole[value].fragment, (at, COLUMN))
            self.step(here, window.reduce, {}, acc)
        self.shared.clear()

    def slide_along(self, scope: Scope, lines: Lines, acc: SSAValue) -> None:
        """The same of windows that slide along lines: what they read is there in whole vectors."""
        tile_of, column, emit = self.line_tile, lines.space.column, scope.emit
        assert tile_of is not None and column is not None
        places = {**scope.places, column: AxisPlace(None, scope.places[column].start)}
        wide: dict[SSAValue, tuple[Sliding, SSAValue]] = {}
        for one in lines.sliding:
            sizes, layout = tile_of.window(one, lines.taps)
            value = held_value(one.read)
            kind = FragmentType.of(sizes, without_sign(type_of(value).element_type), layout)
            held = emit.value(tile.FragmentOp(kind), one.read.tensor.name_hint)
            before, at = tile_of.before(one), Scope(emit, places)
            self.hold(at, value, held, {one.read: one.result}, COLUMN, before, lines.label)
            wide[value] = one, held
        layout = self.spread.image(projection((True, False))).layout()
        for tap in range(lines.taps):
            here = scope.inside(emit, lines.label, AxisPlace(None, emit.index(tap)))
            for read in lines.still:
                value = held_value(read)
                element = without_sign(type_of(value).element_type)
                kind = FragmentType.of([self.tile[0], 1], element, layout)
                held = emit.value(tile.FragmentOp(kind), read.tensor.name_hint)
                self.hold(here, value, held, {})
                self.shared[value] = Held(held, projection((True, False)).results)
            for value, (one, held) in wide.items():
                at = COLUMN * one.step + (tap * one.dilation + tile_of.before(one))
                self.shared[value] = Held(held, (ROW, at))
            self.step(here, lines.reduce, {}, acc)
        self.shared.clear()

    def hold(
        self,
        scope: Scope,
        value: SSAValue,
        held: SSAValue,
        slid: Mapping[Operation, int],
        along: AffineExpr = ROW,
        before: int = 0,
        first: str | None = None,
    ) -> None:
        """Bring a value at the places of a scope, and the ``first`` point of an axis, into a
        fragment, by a map over it."""
        origin: list[SSAValue] = []
        used = axes_in([value])
        axes = {
            a: AffineExpr.constant(0) if a == first else placed(scope.places[a], origin)
            for a in used
        }
        kind = cast("FragmentType", held.type).element_type
        own = Block(arg_types=[kind])
        point = WindowPoint(self.frame, own, axes, origin, slid, along, before)
        owner = value.owner
        assert isinstance(owner, Operation)
        scope.emit.op(point.write(held, [Wanted(value, held, (ROW, COLUMN))], owner))

    def turns_of(
        self,
        scope: Scope,
        reduce: ReduceOp,
        labels: Sequence[str],
        apart: Mapping[str, int],
        step_of: Callable[[Scope, SSAValue], None],
    ) -> None:
        """One loop over the steps along all of ``labels`` that fall to this block of the grid, each
        by its number."""
        assert self.part is not None and self.rank is not None
        steps = {label: self.tile[apart[label]] if label in apart else 1 for label in labels}
        counts = [size_of(reduce, label).ceildiv(step) for label, step in steps.items()]
        sizes = [self.frame.size(count) for count in counts[1:]]

        def body(inner: Emit, number: SSAValue) -> None:
            here, left = scope, number
            found: dict[str, SSAValue] = {}
            for label, size in zip(reversed(labels[1:]), reversed(sizes), strict=True):
                found[label] = inner.value(arith.RemUIOp(left, size))
                left = inner.value(arith.DivUIOp(left, size))
            found[labels[0]] = left
            for label, step in steps.items():
                start = inner.apply(affine_dim(0) * step, [found[label]])
                if start.name_hint is None:
                    start.name_hint = f"{label}0" if step > 1 else label
                here = here.inside(inner, label, AxisPlace(apart.get(label), start))
            step_of(here, number)

        total = self.frame.size(prod(counts, start=Dim.const(1)))
        scope.emit.loop(total, body, step=self.part.parts, start=self.rank, hint="step")

    def before(self, scope: Scope, value: SSAValue, bound: Set[str]) -> None:
        """The reductions that ``value`` needs and that depend on none of ``bound``."""
        for reduce in reductions_in([value]):
            if bound & set(type_of(reduce.result).labels):
                self.before(scope, reduce.operand, bound | set(reduce.labels))
            else:
                self.reduction(scope, reduce)

    def step(
        self,
        scope: Scope,
        reduce: ReduceOp,
        apart: Mapping[str, int],
        acc: SSAValue,
        fold: AffineMap | None = None,
    ) -> None:
        """One point of each thread, or none where its part of an axis has ended.

        With ``fold`` a thread brings its points together first, and then into ``acc``.
        """
        tails = {label: self.frame.size(size_of(reduce, label)) for label in apart}

        def combined(point: Point, scalar: SSAValue) -> SSAValue:
            kind = reduce.accumulates_in
            value = point.converted(scalar, element_of(reduce.operand), kind)
            emit, (old, *_) = point.emit, point.block.args
            inside: SSAValue | None = None
            for label, size in tails.items():
                here = point.index(point.axes[label])
                inside = emit.both(inside, emit.compare("slt", here, size))
            if inside is not None:
                neutral = _neutral(emit, reduce)
                value = emit.value(arith.SelectOp(inside, value, neutral))
            if fold is not None:
                return value
            found = joined(emit, reduce, old, value)
            return found if is_integer(kind) else _rounded(emit, found, reduce)

        here = acc
        if fold is not None:
            axes = [fold.results[axis] != ZERO for axis in (0, 1)]
            kind = reduce.accumulates_in
            here = self.fragment(scope, (axes[0], axes[1]), reduce.result.name_hint, kind)
        wanted = [Wanted(reduce.operand, here, (ROW, COLUMN), combined)]
        self.map(scope, here, list(tails), lambda _: wanted, reduce, [reduce.operand])
        if fold is not None:
            scope.emit.op(tile.ReduceOp(reduce.fn.data, here, fold, acc, accumulate=True))


def _is_widened(read: ReadOp) -> bool:
    """Whether all that is made of a read is made of it as f32, and it is not chosen from a fill."""
    casts = [use.operation for use in read.result.uses]
    if read.guard is not None or not all(isinstance(op, CastOp) for op in casts):
        return False
    for op in casts:
        assert isinstance(op, CastOp)
        back = [u.operation for u in op.result.uses]
        if op.result.type.element_type != f32:
            return False
        if all(isinstance(b, CastOp) and is_there_and_back(b) for b in back):
            return False
    return True


def _narrowest(kernel: KernelOp) -> int:
    """Bytes of the narrowest elements that a region reads."""
    reads = (op for op in made_by(list(kernel.yield_op.values), True) if isinstance(op, ReadOp))
    return min((element_bytes(op.result.type.element_type) for op in reads), default=1)


def _neutral(emit: Emit, reduce: ReduceOp) -> SSAValue:
    """What a reduction begins with, in the type in which it accumulates."""
    kind = reduce.accumulates_in
    if is_integer(kind):
        return integers.number(emit, int(number_of(reduce.init)), kind)
    return emit.value(arith.ConstantOp(FloatAttr(float(number_of(reduce.init)), f32)))


def _rounded(emit: Emit, value: SSAValue, reduce: ReduceOp) -> SSAValue:
    """An f32 in the type in which a reduction accumulates.

    The largest or smallest of values of that type is of that type, and needs no rounding.
    """
    kind = cast(AnyFloat, reduce.accumulator)
    picks = reduce.fn.data != "sum" and type_of(reduce.operand).element_type == kind
    return value if kind == f32 or picks else emit.value(arith.TruncFOp(value, kind))
