"""``region-to-gpu``: any region as loops, at the tile level (S9, T3).

A block takes a tile of each space of outputs and computes it by one ``gpu.map``.  What a map needs
of a reduction lies in a fragment: an accumulator that loops over the reduced axes update, a
``gpu.map`` a step.  Where the result lacks an axis of the tile, the threads along it part the
points of a reduced axis, and a ``gpu.reduce`` brings their parts together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.elements import is_integer, number_of
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import ClusterRankOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.present import present
from polyc.dialects.region.siblings import siblings
from polyc.families.loops.boxes import Box, find_box
from polyc.families.loops.recognise import (
    Loops,
    Space,
    made_by,
    parted,
    pinned_axes,
    reductions_in,
    size_of,
    type_of,
)
from polyc.lowering.region_to_gpu import integers, loop_moments, loop_powers
from polyc.lowering.region_to_gpu.boxes import BoxBuilder, box_grid
from polyc.lowering.region_to_gpu.frame import Space as Workspace
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid, blocks_of
from polyc.lowering.region_to_gpu.kernel import Walked
from polyc.lowering.region_to_gpu.loop_base import (
    ZERO,
    LoopBase,
    Sum,
    grid_of,
    part_of,
    parted_spaces,
    stored_of,
)
from polyc.lowering.region_to_gpu.loop_parts import combine, joined
from polyc.lowering.region_to_gpu.loop_reads import bring, bring_rows, turn
from polyc.lowering.region_to_gpu.loop_scope import (
    AxisPlace,
    Scope,
    Walk,
    flat_places,
    held_along,
    held_in,
    line_places,
    placed_all,
    places_of,
    projection,
    turned_places,
    walks_of,
)
from polyc.lowering.region_to_gpu.loop_shares import inside, store_share, turns_of
from polyc.lowering.region_to_gpu.loop_stores import store_turned
from polyc.lowering.region_to_gpu.loop_windows import slide, slide_along
from polyc.lowering.region_to_gpu.partial_sums import PART
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point, Wanted, element_of
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim


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
        return [grid_of(space, plan) for space in parted_spaces(self.kernel, plan)]

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
        (grid,), part = self.grids(plan), part_of(self.kernel, plan)
        return part.storing(grid), part.combining(grid)

    def spaces(self, plan: ScheduleOp) -> list[Workspace]:
        """The parts of each reduction."""
        if not plan.stores_sums:
            return []
        stored = stored_of(self.kernel, part_of(self.kernel, plan))
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


class LoopBuilder(LoopBase):
    """Builds the kernel of one schedule, or of one that stores parts the second, which ``adds``."""

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """The outputs of a space: its reductions, and a map of what is made of them.

        Where the blocks of a cluster have a tile together, each of them reduces points of its own,
        and the first one writes.
        """
        space = next(s for one, s in zip(self.grids, self.spaces, strict=True) if one is grid)
        if self.part is not None:
            known = self.part.combined if self.adds else self.part.stored
            self.here = known(self.emit, self.frame.size, at)
            at, self.rank = self.here.at, self.here.number
        lines = self.of_lines
        if self.flat is not None:
            places = flat_places(self.flat, at)
        elif self.turned_store is not None:
            places = turned_places(self.turned_store, at)
        else:
            places = places_of(space, at) if lines is None else line_places(lines, at)
        scope = Scope(self.emit, places)
        if self.moments is not None and not self.adds:
            together = loop_powers if self.moments.below else loop_moments
            together.of_share(self, scope, self.moments)
            return
        if self.parts > 1:
            self.rank = self.emit.value(ClusterRankOp(), "rank")
        needed = reductions_in([self.kernel.yield_op.values[i] for i in space.outputs])
        self.bring_together(scope, needed)
        for reduce in needed:
            held = self.reduction(scope, reduce)
            if self.part is not None and self.rank is not None:
                store_share(self, scope, reduce.result, held, reduce)
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
            turn(self, scope, cast(ReadOp, read), shared)
        if self.resampled is not None:
            bring(self, scope, self.resampled)
        if self.resampled_rows is not None:
            bring_rows(self, scope, self.resampled_rows)
        end = self.kernel.yield_op
        values = [end.values[i] for i in space.outputs]
        labels = [type_of(v).labels for v in values]
        every = [a for part in labels for a in part]
        outputs = [self.frame.outputs[i] for i in space.outputs]
        if self.turned_store is not None:
            store_turned(self, scope, self.turned_store, values)
            return

        def wanted(axes: Mapping[str, AffineExpr]) -> list[Wanted]:
            places = [tuple(axes[a] for a in part) for part in labels]
            return [Wanted(*one) for one in zip(values, outputs, places, strict=True)]

        fragment = self.fragment(scope, scope.along(every), "out")
        self.map(scope, fragment, every, wanted, end, values)

    def reduction(self, scope: Scope, reduce: ReduceOp) -> SSAValue:
        """The fragment of a reduction's results at a scope's places, computed there once."""
        key = _key(scope, reduce)
        if key not in scope.made:
            self.reduce(scope, [reduce])
        return scope.made[key]

    def bring_together(self, scope: Scope, needed: Sequence[ReduceOp]) -> None:
        """Compute reductions at a scope's places, those that go along the same points in one loop.

        What slides is in registers for one of them at a time.
        """
        if self.slides is not None or self.lines is not None or self.adds:
            return
        left = [one for one in needed if _key(scope, one) not in scope.made]
        groups = siblings(
            left, partial(made_by, into=True), lambda one: scope.along(type_of(one.result).labels)
        )
        for group in groups:
            # One that another group needs is there by now.
            several = [one for one in group if _key(scope, one) not in scope.made]
            parts = {present(one, list(made_by([one.operand], into=True))) for one in several}
            if len(several) > 1 and len(parts) == 1 and not any(map(pinned_axes, several)):
                self.reduce(scope, several)

    def reduce(self, scope: Scope, reduces: Sequence[ReduceOp]) -> None:
        """Compute reductions that go along the same points, in one loop over these."""
        first, emit = reduces[0], scope.emit
        labels = type_of(first.result).labels
        along = scope.along(labels)
        apart = parted(first, along, self.tile)
        if self.part is not None and self.adds:
            apart = {PART: self.part.along}
        start = len(emit.ops)
        sums = [self._begun(scope, reduce, along, apart) for reduce in reduces]
        # Axes that threads part go innermost: what is computed a step of the others is shared.
        lines = None if self.lines is None else self.lines.of(first)
        slid = lines if self.slides is None else self.slides[0]
        inner = {*apart, *([] if slid is None else [slid.label])}
        order = sorted(first.labels, key=lambda label: label in inner)
        where = None if self.part is not None else self.present(scope, first)
        if where is not None:
            emit.when(where, lambda own: self.loop(scope.within(own), sums, order, apart))
        elif self.part is None:
            self.loop(scope, sums, order, apart)
        elif self.adds:
            assert self.here is not None
            (one,) = sums
            where, origin = placed_all(scope.places)
            to = self.sums[first.result]
            if self.moments is not None and first is self.moments.squares:
                mean = loop_moments.mean_of(self, scope, self.moments)
                others = [v for v in self.moments.stored if v is not first.result]
                spaces = [to, *(self.sums[value] for value in others)]
                together = loop_powers if self.moments.below else loop_moments
                together.combine(emit, self.part, self.here, one.acc, mean, where, origin, spaces)
            else:
                neutral = _neutral(emit, first)
                combine(emit, self.part, self.here, first, neutral, one.acc, where, origin, to)
        else:
            run = partial(self.step, sums=sums, apart=apart)
            turns_of(self, scope, first, order, apart, lambda here, _: run(here))
        for one in sums:
            acc = one.acc
            if apart:
                hint = one.reduce.label or one.reduce.result.name_hint
                whole = self.fragment(scope, along, hint, one.reduce.accumulates_in)
                over, shared = projection(along), self.parts > 1
                emit.op(tile.ReduceOp(one.reduce.fn.data, acc, over, whole, cluster=shared))
                acc = whole
            scope.made[_key(scope, one.reduce)] = acc
        for op in emit.ops[start:]:
            located(op, first)

    def present(self, scope: Scope, reduce: ReduceOp) -> SSAValue | None:
        """Whether a reduction is of something at some point of a block's tile, as each part of a
        concat is in its own; None where it may be everywhere.

        What is of something lies together, and is more than a tile has: then so is the tile's first
        point, or its last.
        """
        found = present(reduce, list(made_by([reduce.operand], into=True)))
        place = None if found is None else scope.places.get(found.label)
        if found is None or place is None or place.fixed is not None:
            return None
        count = 1 if place.along is None else self.tile[place.along]
        if (found.last - found.first + 1) * place.inside < count:
            return None
        emit, holds = scope.emit, list[SSAValue]()
        for behind in dict.fromkeys((0, count - 1)):
            expr = affine_dim(0) + behind
            expr = expr // place.inside if place.inside > 1 else expr
            expr = expr if place.size is None else expr % place.size
            at, here = emit.apply(expr, [place.start]), None
            if found.first > 0:
                here = emit.compare("sge", at, emit.index(found.first))
            if found.last < found.size - 1:
                here = emit.both(here, emit.compare("sle", at, emit.index(found.last)))
            assert here is not None
            holds.append(here)
        return holds[0] if len(holds) == 1 else emit.value(arith.OrIOp(holds[0], holds[1]))

    def _begun(
        self,
        scope: Scope,
        reduce: ReduceOp,
        along: tuple[bool, bool],
        apart: Mapping[str, int],
    ) -> Sum:
        """A reduction before its first point."""
        hint, kind = reduce.label or reduce.result.name_hint, reduce.accumulates_in
        held, fold = held_along(along, apart), None
        if self.adds or not apart or self.plan.integer("vectorize") == 1:
            acc = self.fragment(scope, held, hint, kind)
        else:
            acc, fold = self.folded(scope, held, apart, hint, kind)
        scope.emit.op(tile.FillOp(_neutral(scope.emit, reduce), acc))
        return Sum(reduce, acc, fold)

    def loop(
        self, scope: Scope, sums: Sequence[Sum], labels: Sequence[str], apart: Mapping[str, int]
    ) -> None:
        """The loops over ``labels``, around a step that brings one point into each of ``sums``."""
        first = sums[0].reduce
        self.before(scope, [one.reduce.operand for one in sums], set(labels))
        if not labels:
            self.step(scope, sums, apart)
            return
        if self.slides is not None and list(labels) == [self.slides[0].label]:
            slide(self, scope, *self.slides, sums[0].acc)
            return
        lines = None if self.lines is None else self.lines.of(first)
        if lines is not None and list(labels) == [lines.label]:
            slide_along(self, scope, lines, sums[0].acc)
            return
        label, *rest = labels
        along = apart.get(label)
        if label in pinned_axes(first) and along is None:
            for point in range(size_of(first, label).constant() or 0):
                place = AxisPlace(None, scope.emit.index(point), fixed=point)
                within = scope.inside(scope.emit, label, place)
                self.loop(within, sums, rest, apart)
            return
        size = self.frame.size(size_of(first, label))
        step = 1 if along is None else self.tile[along]
        rank = self.rank if along == 0 else None

        def body(inner: Emit, at: SSAValue) -> None:
            if rank is not None:
                own = affine_dim(0) + affine_dim(1) * step
                at = inner.apply(own, [at, rank])
            within = scope.inside(inner, label, AxisPlace(along, at))
            self.loop(within, sums, rest, apart)

        hint = label if along is None else f"{label}0"
        scope.emit.loop(size, body, step=step if rank is None else step * self.parts, hint=hint)

    def before(self, scope: Scope, values: Sequence[SSAValue], bound: Set[str]) -> None:
        """The reductions that ``values`` need and that depend on none of ``bound``."""
        needed = reductions_in(values)
        free = [one for one in needed if not bound & set(type_of(one.result).labels)]
        self.bring_together(scope, free)
        for reduce in needed:
            if bound & set(type_of(reduce.result).labels):
                self.before(scope, [reduce.operand], bound | set(reduce.labels))
            else:
                self.reduction(scope, reduce)

    def step(self, scope: Scope, sums: Sequence[Sum], apart: Mapping[str, int]) -> None:
        """One point of each thread, or none where its part of an axis has ended.

        Where it has a fold, a thread brings its points together first, and then into the sum.
        """
        tails = {label: self.frame.size(size_of(sums[0].reduce, label)) for label in apart}
        wanted: list[Wanted] = []
        for one in sums:
            here = one.acc
            if one.fold is not None:
                axes = [one.fold.results[axis] != ZERO for axis in (0, 1)]
                hint, kind = one.reduce.result.name_hint, one.reduce.accumulates_in
                here = self.fragment(scope, (axes[0], axes[1]), hint, kind)
            then = partial(self._joined, one, here if not wanted else None, tails)
            wanted.append(Wanted(one.reduce.operand, here, (ROW, COLUMN), then))
        operands, space = [one.reduce.operand for one in sums], wanted[0].target
        self.map(scope, space, list(tails), lambda _: wanted, sums[0].reduce, operands)
        for one, want in zip(sums, wanted, strict=True):
            if one.fold is not None:
                fn = one.reduce.fn.data
                scope.emit.op(tile.ReduceOp(fn, want.target, one.fold, one.acc, accumulate=True))

    def _joined(
        self,
        one: Sum,
        space: SSAValue | None,
        tails: Mapping[str, SSAValue],
        point: Point,
        scalar: SSAValue,
    ) -> SSAValue:
        """What a sum is with one point more, or the point alone where it has a fold; its fragment
        is the ``space`` of the map, or another one."""
        emit, reduce = point.emit, one.reduce
        value = point.converted(scalar, element_of(reduce.operand), reduce.accumulates_in)
        there = inside(point, tails)
        if there is not None:
            value = emit.value(arith.SelectOp(there, value, _neutral(emit, reduce)))
        if one.fold is not None:
            return value
        old = point.block.args[0]
        if space is None:
            held = held_in(one.acc)
            old = point.input(held.fragment, held.place)
        found = joined(emit, reduce, old, value)
        return found if is_integer(reduce.accumulates_in) else _rounded(emit, found, reduce)


def _key(scope: Scope, reduce: ReduceOp) -> tuple[object, ...]:
    """A reduction and where the axes of its results stand."""
    return reduce.result, *(scope.places[label] for label in type_of(reduce.result).labels)


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
