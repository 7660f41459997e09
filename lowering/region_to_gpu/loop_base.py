"""``region-to-gpu``: what every part of a builder of loops shares (S9, T3).

How a schedule spreads a tile over threads and parts its reductions, the fragments and maps of a
tile, and what has been brought for it so far.  Modules that bring reads, slide windows or store
parts take the builder as this class; ``loops`` has the one that joins them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Self, cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.cost.reductions import OF_MOMENTS
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType, element_bytes, index_attr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import (
    BinaryOp,
    CompareOp,
    InsideOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    SelectOp,
    UnaryOp,
)
from polyc.dialects.region.moments import moments_of
from polyc.families.loops.flat import Flat, find_flat
from polyc.families.loops.lines import Lines, LineTile, find_lines
from polyc.families.loops.lines import tile_from as line_tile_from
from polyc.families.loops.partial_sums import BLOCKS, THREADS, VECTOR
from polyc.families.loops.recognise import (
    Loops,
    Space,
    axes_in,
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
from polyc.families.loops.resampled import Resampled, find_resampled
from polyc.families.loops.resampled_rows import ResampledRows, find_resampled_rows
from polyc.families.loops.turned_stores import TurnedStore, find_turned_store
from polyc.families.loops.windows import Window, WindowTile, find_window, tile_from
from polyc.lowering.region_to_gpu.grid import Axis, Grid
from polyc.lowering.region_to_gpu.kernel import Builder
from polyc.lowering.region_to_gpu.loop_parts import Here, Part, SpreadPart
from polyc.lowering.region_to_gpu.loop_scope import (
    AtHand,
    LoopPoint,
    Scope,
    held_in,
    placed_all,
    projection,
    tile_sizes,
)
from polyc.lowering.region_to_gpu.point import Held, Wanted, element_of
from polyc.passes.support.gpu.free_layouts import BANK_BYTES, row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located

ZERO = AffineExpr.constant(0)
"""Where an element of a fragment with one row or one column is along it."""

THIN = 6
"""Blocks of a multiprocessor that compute element by element, of few tensors: each asks memory but
once, and what is on its way is as much as there are."""

JOINED = 4
"""Blocks of a multiprocessor that turn what they store: of eight parts each thread reads one, and
87 registers that all eight could have leave too little on its way."""


def lines_of(kernel: KernelOp, plan: ScheduleOp) -> Lines | None:
    """The lines along which a schedule's windows slide; None where none do."""
    return find_lines(Loops(kernel, kernel)) if plan.slides_lines else None


def resampled_of(kernel: KernelOp, plan: ScheduleOp) -> Resampled | None:
    """What a schedule resamples along lines; None where that is nothing."""
    return find_resampled(Loops(kernel, kernel)) if plan.resamples_lines else None


def resampled_rows_of(kernel: KernelOp, plan: ScheduleOp) -> ResampledRows | None:
    """What a schedule resamples along the rows of its tiles; None where that is nothing."""
    return find_resampled_rows(Loops(kernel, kernel)) if plan.resamples_rows else None


def flat_of(kernel: KernelOp, plan: ScheduleOp) -> Flat | None:
    """The outputs as one axis, where a schedule has them so."""
    return find_flat(Loops(kernel, kernel)) if plan.is_flat else None


def turned_store_of(kernel: KernelOp, plan: ScheduleOp) -> TurnedStore | None:
    """How a schedule turns what it stores, where it does."""
    return find_turned_store(Loops(kernel, kernel)) if plan.turns_outputs else None


def parted_spaces(kernel: KernelOp, plan: ScheduleOp) -> list[Space]:
    """The spaces of a region's outputs as a schedule parts them."""
    lines = lines_of(kernel, plan) or resampled_of(kernel, plan) or flat_of(kernel, plan)
    own = lines or turned_store_of(kernel, plan) or resampled_rows_of(kernel, plan)
    return spaces_of(kernel) if own is None else [own.space]


def grid_of(space: Space, plan: ScheduleOp) -> Grid:
    """A space in tiles; axes that it lacks, and those that a block walks, have one point."""
    axes = [
        Axis("", Dim.const(1)) if label in (None, *space.walked) else Axis(str(label), size, step)
        for label, size, step in zip(
            space.labels, space.sizes, tile_sizes(space, plan), strict=True
        )
    ]
    return Grid(tuple(axes), 1 if plan.stores_sums else plan.integer("split_k"))


def part_of(kernel: KernelOp, plan: ScheduleOp) -> Part:
    """How a schedule parts the reductions of a region, which has one space of outputs."""
    (space,) = spaces_of(kernel)
    parts = plan.integer("split_k")
    if not plan.spreads_sums:
        return Part(space, parts)
    return SpreadPart(space, parts, grid_of(space, plan), steps_of(kernel, space, plan))


def steps_of(kernel: KernelOp, space: Space, plan: ScheduleOp) -> Dim:
    """The steps of a tile's reductions, all along their axes."""
    reduce = summed(list(kernel.yield_op.values))[0]
    labels, tile = type_of(reduce.result).labels, plan.tile_sizes[:2]
    apart = parted(reduce, (space.row in labels, space.column in labels), tile)
    steps = {label: tile[apart[label]] if label in apart else 1 for label in reduce.labels}
    counts = (size_of(reduce, label).ceildiv(step) for label, step in steps.items())
    return prod(counts, start=Dim.const(1))


def stored_of(kernel: KernelOp, part: Part) -> list[tuple[SSAValue, GlobalType]]:
    """What the blocks of a part store: what they have of each reduction, and what more of those
    that need one another."""
    values = list(kernel.yield_op.values)
    moments = moments_of(values)
    if moments is not None:
        return [(value, part.kind(f32)) for value in moments.stored]
    return [(r.result, part.kind(r.accumulates_in)) for r in summed(values)]


@dataclass(frozen=True)
class Sum:
    """A reduction on its way: the fragment of what threads have of it, and, where a thread has one
    number of several points, which of the fragment's elements a point of the tile goes to."""

    reduce: ReduceOp
    acc: SSAValue
    fold: AffineMap | None = None


class LoopBase(Builder):
    """The kernel of one schedule, or of one that stores parts the second, which ``adds``; how its
    reductions are made is for the builder of loops to say."""

    def __init__(
        self, kernel: KernelOp, plan: ScheduleOp, grids: Sequence[Grid], adds: bool = False
    ) -> None:
        super().__init__(kernel, plan, grids)
        self.spaces = parted_spaces(kernel, plan)
        self.lines = lines_of(kernel, plan)
        """The windows that slide along lines of the outputs."""
        self.resampled = resampled_of(kernel, plan)
        """What is resampled along them."""
        self.resampled_rows = resampled_rows_of(kernel, plan)
        """What is resampled along the tile's rows."""
        self.flat = flat_of(kernel, plan)
        """The outputs as one axis."""
        self.turned_store = turned_store_of(kernel, plan)
        """How what is stored is turned."""
        self.tile = plan.tile_sizes[:2]
        self.parts = plan.cluster_blocks
        """Blocks of a cluster, which share the points of each reduction."""
        self.part = part_of(kernel, plan) if plan.stores_sums else None
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
        self.window_tile: WindowTile | None = None
        """The tile, where a thread has several of its rows."""
        if plan.slides_windows or plan.resamples_rows:
            self.window_tile = tile_from(self.tile, threads, vector)
            assert self.window_tile is not None  # checked with the plan
            layout = self.window_tile.layout
        if plan.slides_windows:
            window = find_window(Loops(kernel, kernel))
            assert window is not None and self.window_tile is not None
            self.slides = window, self.window_tile
        self.line_tile: LineTile | None = None
        if self.of_lines is not None:
            self.line_tile = line_tile_from(self.tile, threads)
            assert self.line_tile is not None  # checked with the plan
            layout = self.line_tile.layout
        self.turned_tiles: list[SSAValue] = []
        """What is stored turned, in shared memory as threads compute it."""
        if self.turned_store is not None:
            self.turned_tiles = [self.tile_turned(target) for target in self.frame.outputs]
        self.spread = Spread.of(layout)
        self.rank: SSAValue | None = None
        """Which block of its cluster this one is, where a cluster has a tile, or which part of a
        tile it has."""
        self.here: Here | None = None
        """What it knows of the parts of a tile."""
        self.at_hand: dict[Operation, AtHand] = {}
        """Where a thread has what is resampled."""
        self.turned: dict[Operation, SSAValue] = {}
        """What is read of tensors that lie along the rows, in shared memory as they lie there."""
        for read in turned_reads(kernel, self.spaces) if plan.cached else ():
            if kernel.name_of(read.tensor) in plan.cached:
                self.turned[read] = self.tile_of(read)

    def taking(self, spaces: Sequence[BindAttr]) -> Self:
        """Let the parts of each reduction lie in a workspace."""
        assert self.part is not None
        for (value, kind), space in zip(stored_of(self.kernel, self.part), spaces, strict=True):
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
        if self.turned_store is not None and self.turned_store.is_plain:
            return JOINED if self.is_short else JOINED - 1
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
    def is_short(self) -> bool:
        """Whether threads that turn what they store have two vectors, or no function of theirs
        takes registers of its own."""
        made = made_by(list(self.kernel.yield_op.values), True)
        slow = any(isinstance(op, UnaryOp) and op.fn.data not in ("neg", "abs") for op in made)
        elements = prod(self.tile) // self.plan.threads()
        return elements <= 2 * self.plan.integer("vectorize") or not slow

    @property
    def is_thin(self) -> bool:
        """Whether threads have a vector each of few tensors, so that 40 registers are enough.

        Functions that branch are asked of all elements at once (``gpu-group-functions``).
        """
        made = list(made_by(list(self.kernel.yield_op.values), True))
        reads = [op for op in made if isinstance(op, ReadOp)]
        whole = all(op.guard is None for op in reads) and not self.turned
        heavy = any(isinstance(op, CompareOp | InsideOp | SelectOp) or _branches(op) for op in made)
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
        if self.lines is not None or self.turned_store is not None:
            return True, True
        if self.flat is not None:
            return False, True
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

    def tile_turned(self, target: SSAValue) -> SSAValue:
        """A tile in shared memory for what is stored turned; its lines are longer alike."""
        kind, (rows, columns) = element_of(target), self.tile
        line = columns + -(-BANK_BYTES // element_bytes(kind))
        shared = located(SharedTileOp(SharedType.of([rows, line], kind, 0)), self.kernel.yield_op)
        return self.frame.emit.value(shared, f"{target.name_hint}_turned")

    @property
    def has_turns(self) -> bool:
        return self.parts == 1 and (self.adds or not self.plan.spreads_sums)

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

    def folded(
        self,
        scope: Scope,
        held: tuple[bool, bool],
        apart: Mapping[str, int],
        hint: str | None,
        element: Attribute,
        lanes: int = 1,
    ) -> tuple[SSAValue, AffineMap | None]:
        """A fragment for what threads have of a reduction, and where in it a tile's elements go.

        A thread has a place for all of its vectors along the parted axis, and their registers are
        left to what is on its way; with ``lanes`` for so many neighbours of a vector too, where
        these lie along that axis.
        """
        axis = next(iter(apart.values()))
        whole = self.spread.image(projection(held)).layout().registers.data
        each = (lanes, 1) if lanes > 1 and axis == 1 else (1,)
        for together, several in product(each, (8, 4, 2, 1)):
            size, rest = divmod(self.tile[axis], several * together)
            if rest or size < 1 or together == several == 1:
                continue
            dims = [AffineExpr.dimension(i) if h else ZERO for i, h in enumerate(held)]
            vector = AffineExpr.dimension(axis)
            dims[axis] = (vector if together == 1 else vector // together) % size
            fold = AffineMap(2, 0, tuple(dims))
            layout = self.spread.image(fold).layout()
            if layout.registers.data * several * together != whole:
                continue
            sizes = [n if h else 1 for n, h in zip(self.tile, held, strict=True)]
            sizes[axis] = size
            kind = FragmentType.of(sizes, without_sign(element), layout)
            return scope.emit.value(tile.FragmentOp(kind), hint), fold
        return self.fragment(scope, held, hint, element), None

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
        needed = [] if given is not None else reductions_in(values)
        self.bring_together(scope, needed)
        for reduce in needed:
            held[reduce.result] = held_in(self.reduction(scope, reduce))
        used = {*axes_in(values), *labels}
        axes, origin = placed_all({a: place for a, place in scope.places.items() if a in used})
        known = {**held, **self.shared}
        own = Block(arg_types=[cast("FragmentType", space.type).element_type])
        point = LoopPoint(self.frame, own, axes, origin, known, self.turned, self.at_hand)
        point.block.args[0].name_hint = space.name_hint
        for value in held:
            point.known(value)
        scope.emit.op(point.write(space, wanted(axes), like))

    @abstractmethod
    def reduction(self, scope: Scope, reduce: ReduceOp) -> SSAValue:
        """The fragment of a reduction's results at a scope's places, computed there once."""

    @abstractmethod
    def bring_together(self, scope: Scope, needed: Sequence[ReduceOp]) -> None:
        """Compute reductions at a scope's places, those that go along the same points in one
        loop."""

    @abstractmethod
    def step(self, scope: Scope, sums: Sequence[Sum], apart: Mapping[str, int]) -> None:
        """One point of each thread, or none where its part of an axis has ended.

        Where it has a fold, a thread brings its points together first, and then into the sum.
        """


def _narrowest(kernel: KernelOp) -> int:
    """Bytes of the narrowest elements that a region reads."""
    reads = (op for op in made_by(list(kernel.yield_op.values), True) if isinstance(op, ReadOp))
    return min((element_bytes(op.result.type.element_type) for op in reads), default=1)


def _branches(op: Operation) -> bool:
    """Whether a function of numbers is asked for some elements at once."""
    return isinstance(op, BinaryOp | UnaryOp) and op.fn.data in ("div", "reciprocal", "sin", "cos")
