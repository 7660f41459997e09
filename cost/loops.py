"""What a kernel of loops does (``algo_choice`` loops): every point of a tile by a thread.

A tile's reductions are loops that the block runs for itself: what does not differ between blocks is
computed in each of them, and a reduction inside another one in each of its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.affine.expressions import Linear, expr_of, linear_of
from polyc.cost.pinned import pinned_share
from polyc.cost.places import FLOOR, LINE, WARP, beside, finding, has_places, shared_by
from polyc.cost.reductions import COUNTED
from polyc.cost.resampled import (
    AROUND,
    BEGINS,
    GUARD,
    LOAD_STORE,
    count_resampled,
    count_resampled_rows,
    stored_bytes,
)
from polyc.cost.values import (
    Values,
    innermost,
    line_step,
    operations,
    read_labels,
    result_labels,
    size_in_bytes,
)
from polyc.cost.work import LOAD, SCATTERED, SECTOR, Work, load_cost, most_over, tensor_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import BinaryOp, CastOp, ReadOp, ReduceOp
from polyc.dialects.region.moments import moments_of
from polyc.dialects.region.present import present
from polyc.dialects.region.siblings import siblings
from polyc.dialects.region.types import MemRefType, val_type

SUM_BYTES = 4
"""Of what a block has of a reduction, f32."""

MOMENTS = 4
"""What it stores of moments: a sum, squares, how many points these are of, and distances."""

KEPT = 10.0
"""Instructions by which an element goes to shared memory and is found there again."""

TURNED_STORE = 6.0
"""The same of one that is stored turned: threads have several vectors, which share its place."""

OVERHEAD = 3.0
"""Instructions around a step of a loop: its counter, its bounds, its addresses."""


AHEAD, SHORT = 4.0, 256
"""Steps of a reduction of a thread's own whose loads are on their way at a time, as its loops are
unrolled, where it has no more than so many."""

TORN = 48.0
"""Bytes more of a piece of a line that begins and ends within a sector: where lines are read and
stored in pieces of 128 bytes 885 us, of 512 603, of 2048 570, and 556 where all is one line."""


def loops_work(values: Values, plan: ScheduleOp, at_once: int) -> Work:
    """The work of a plan of loops; the spaces of unlike outputs one after another."""
    work = Work(0.0, plan.threads(), at_once)
    if plan.moves_boxes:
        _boxes(values, plan, work)
        return work
    if plan.is_flat:
        _count_flat(values, plan, work)
        return work
    if plan.turns_outputs:
        _count_turned(values, plan, work)
        return work
    if plan.slides_lines:
        _count_lines(values, plan, work)
        return work
    if plan.resamples_lines:
        count_resampled(values, plan, work)
        return work
    if plan.resamples_rows:
        count_resampled_rows(values, plan, work)
        return work
    spaces: dict[frozenset[str], list[int]] = {}
    for i, value in enumerate(values.kernel.yield_op.values):
        spaces.setdefault(frozenset(val_type(value).labels), []).append(i)
    for outputs in spaces.values():
        _Space(values, plan, outputs, work).count()
    work.begins = BEGINS
    return work


def _boxes(values: Values, plan: ScheduleOp, work: Work) -> None:
    """A movement in boxes: all of it once, and each element to shared memory and from there."""
    (kind,) = values.kernel.outs.data
    labels = val_type(values.kernel.yield_op.values[0]).labels
    points, box = values.points(labels), prod(plan.tile_sizes[:2])
    work.blocks = float(-(-points // box))
    made = sum(operations(op) for op in values.reached)
    work.operations = work.blocks * box * (LOAD_STORE / plan.integer("vectorize") + KEPT + made)
    reads = [op for op in values.reached if isinstance(op, ReadOp)]
    read = sum(size_in_bytes(op.result.type.element_type) for op in reads)
    work.cache = points * (read + size_in_bytes(kind.element_type))


def _count_lines(values: Values, plan: ScheduleOp, work: Work) -> None:
    """The work of a plan whose windows slide along lines: a thread has some points of one."""
    roots = list(values.kernel.yield_op.values)
    *outer, column = val_type(roots[0]).labels
    rows, columns, _ = plan.tile_sizes
    line, lines = values.extents[column], prod(values.extents[a] for a in outer)
    outputs, vector = rows * columns // work.threads, plan.integer("vectorize")
    work.blocks = float(-(-lines // rows) * -(-line // columns))
    threads = work.blocks * work.threads
    reductions = _reductions(values, roots)
    inside = set(values.behind([reduce.operand for reduce in reductions]))
    outside = [op for op in values.behind(roots) if op not in inside]
    each = sum(operations(op) for op in outside if not isinstance(op, ReadOp))
    each = outputs * (each + LOAD_STORE)
    for reduce in reductions:
        made = tap_operations(values.behind([reduce.operand]), reduce)
        reads = [op for op in values.behind([reduce.operand]) if isinstance(op, ReadOp)]
        slid = [op for op in reads if column in read_labels(op)]
        label, taps = _tap(values, reduce, slid[0], column)
        steps = prod(values.extents[a] for a in reduce.labels if a != label)
        step = AROUND + taps * outputs * (1 + made) + (len(reads) - len(slid)) * taps * (LOAD + 1)
        for op in slid:
            span = (outputs - 1) * _step_along(op, column) + taps
            loads = -(-span // vector) + (vector > 1)
            step += loads * (LOAD + GUARD) + span
            work.cache += AGAIN * tensor_bytes(values, op.tensor)
        made = list(values.behind([reduce.operand], into=True))
        part = present(reduce, made)
        each += steps * step * (1.0 if part is None else part.share)
    work.operations += threads * each
    work.steps = 1.0
    work.cache += stored_bytes(values, outputs, line) * lines


def tap_operations(made: Iterable[Operation], reduce: ReduceOp) -> float:
    """The instructions of a thread at a point of a window, of the ops by which it is ``made`` what
    is reduced: beside loads and their conversions, which neighbours share, and the step itself,
    into which a last product goes, and what depends on the point alone, as its number does, which
    is the same for all outputs of a thread.  Numbers of 64 bits take twice as many."""
    last = reduce.operand.owner if reduce.fn.data == "sum" else None
    found = 0.0
    for op in made:
        converts = isinstance(op, CastOp) and isinstance(op.operand.owner, ReadOp)
        product = op is last and isinstance(op, BinaryOp) and op.fn.data == "mul"
        alike = set(val_type(op.results[0]).labels) <= set(reduce.labels)
        if not (converts or product or alike or isinstance(op, ReadOp)):
            kind = val_type(op.results[0]).element_type
            found += operations(op) * (2 if size_in_bytes(kind) > 4 else 1)
    return found


def _count_flat(values: Values, plan: ScheduleOp, work: Work) -> None:
    """The work of a plan that has all points of the outputs as one axis."""
    roots = list(values.kernel.yield_op.values)
    labels = val_type(roots[0]).labels
    points = values.points(labels)
    work.blocks = float(-(-points // plan.tile_sizes[1]))
    each = LOAD_STORE + (len(labels) - 1) * FLOOR + finding(values, roots, labels, labels).of_both
    here = dict[str, int]()
    loads = [(op, 1.0, here) for op in values.behind(roots) if isinstance(op, ReadOp)]
    steps = 1.0
    for reduce in _reductions(values, roots):
        trips = float(prod(values.extents[a] for a in reduce.labels))
        inner = finding(values, [reduce.operand], labels, reduce.labels)
        each += inner.of_row + trips * (inner.of_column + inner.of_both + 1)
        behind = values.behind([reduce.operand])
        walked = dict.fromkeys(reduce.labels, 0)
        loads += [(op, trips, walked) for op in behind if isinstance(op, ReadOp)]
        steps += waits([int(trips)], {})
    for op, times, walked in loads:
        size = size_in_bytes(op.result.type.element_type)
        warp = beside(values, op, labels)
        lines, over = (WARP, float(SECTOR // size)) if warp is None else (warp.lines, warp.over)
        over = min(over, most_over(op, walked)) if walked else over
        each += times * max(LOAD, SCATTERED * lines / WARP)
        # Of what neighbours read again the first level of cache keeps most.
        again = AGAIN * max(tensor_bytes(values, op.tensor), points * size)
        work.cache += min(times * points * size * over, again * max(1.0, over))
    work.operations = work.blocks * plan.tile_sizes[1] * each
    work.steps, work.begins = steps, BEGINS
    for kind in values.kernel.outs:
        work.cache += size_in_bytes(kind.element_type) * points


def _count_turned(values: Values, plan: ScheduleOp, work: Work) -> None:
    """The work of a plan that turns what it stores: a thread has vectors along the lines of what is
    read, and each result goes through shared memory."""
    roots = list(values.kernel.yield_op.values)
    labels = val_type(roots[0]).labels
    column = plan.vectorize_axis.data.partition(".")[0]
    behind = [a for a in labels if f"{a}.o" in plan.bind.data and a != column]
    rows, columns, _ = plan.tile_sizes
    vector = plan.integer("vectorize")
    tiles = -(-prod(values.extents[a] for a in behind) // rows)
    tiles *= -(-values.extents[column] // columns)
    outer = prod(values.extents[a] for a in labels if a != column and a not in behind)
    work.blocks = float(tiles * outer)
    shared = shared_by((rows, columns), int(work.threads), vector)
    at_once = dict.fromkeys(behind, rows) | {column: columns}
    each = len(roots) * (TURNED_STORE + LOAD_STORE / vector)
    each += (len(behind) - 1) * FLOOR / vector
    each += finding(values, roots, behind, [column], vector).each(*shared)
    loads = [(op, 1.0) for op in values.behind(roots) if isinstance(op, ReadOp)]
    steps = 1.0
    for reduce in _reductions(values, roots):
        trips = float(prod(values.extents[a] for a in reduce.labels))
        inner = finding(values, [reduce.operand], [*behind, *reduce.labels], [column], vector)
        each += trips * (inner.each(*shared) + 1)
        for op in values.behind([reduce.operand]):
            if isinstance(op, ReadOp):
                share = pinned_share(op, values.extents, reduce.labels)
                loads.append((op, trips * share))
        steps += waits([int(trips)], {})
    points = work.blocks * rows * columns
    for op, times in loads:
        price, over = load_cost(values, op, column, at_once)
        each += times * price / (vector if column in innermost(op) else 1)
        size = size_in_bytes(op.result.type.element_type)
        again = float(tensor_bytes(values, op.tensor))
        if op.guard is None or times > 1:  # Else it is a part of what is joined, read once.
            again = AGAIN * max(again, points * size)
        work.cache += min(times * points * size * over, again * max(1.0, over))
    work.operations = points * each
    work.steps, work.begins = steps, BEGINS
    for kind in values.kernel.outs:
        work.cache += size_in_bytes(kind.element_type) * values.points(labels)


def _tap(values: Values, reduce: ReduceOp, read: ReadOp, column: str) -> tuple[str, int]:
    """The reduced axis that slides along a line with a column, and its points."""
    labels = read.result.type.labels
    dims = (e for e in read.map.data.results[-1].dfs() if isinstance(e, AffineDimExpr))
    (label,) = {labels[e.position] for e in dims} & set(reduce.labels)
    return label, values.extents[label]


def _step_along(read: ReadOp, column: str) -> int:
    """How far what is read goes along its line from a point of the outputs to the next one."""
    place = read.result.type.labels.index(column)
    terms = dict(linear_of(read.map.data.results[-1]).terms)
    return terms.get(("d", place), 1)


FEW_STEPS = 8
"""Steps of a thread's own, up to which their loads are on their way at a time."""

BANK = 4
"""Bytes of a word, of which 32 are a line that a load of a warp has at once."""

NEAR_BYTES, MOST_THREADS = 1 << 18, 2048
"""Of the cache of a multiprocessor, and its threads: 1024 neighbours of four times as many as there
are threads, 25 elements of a line each, took an H100 111 us, where L2 gives eight times what they
read in 110."""


class _Space:
    """Outputs over the same axes, and how a block's tile lies in them."""

    def __init__(
        self, values: Values, plan: ScheduleOp, outputs: Sequence[int], work: Work
    ) -> None:
        self.values, self.work = values, work
        self.turned = plan.cached
        self.outputs = 1.0
        """Neighbouring outputs of a thread, whose windows share what they read."""
        self.vector = 1
        """Elements that one of its loads brings."""
        if plan.slides_windows:
            self.vector = plan.integer("vectorize")
            self.outputs = prod(plan.tile_sizes[:2]) / plan.threads() / self.vector
        self.lanes = 1 if plan.slides_windows else plan.integer("vectorize")
        """Neighbours along the columns that a thread has at once: what they share it makes once."""
        self.roots = [values.kernel.yield_op.values[i] for i in outputs]
        self.kinds = [values.kernel.outs.data[i] for i in outputs]
        self.labels = val_type(self.roots[0]).labels
        bound = plan.bind.data
        rows, columns, _ = plan.tile_sizes
        column = plan.vectorize_axis.data.partition(".")[0] or None
        self.column = column if column in self.labels else None
        self.tile: dict[str, int] = {}
        """A block's points of each axis of its tile."""
        self.along: dict[str, int] = {}
        """The axis of the tile that an axis of the region lies along: 0 rows, 1 columns."""
        self.whole = (rows, columns)
        for label in self.labels:
            if label == self.column:
                self.tile[label], self.along[label] = columns, 1
            elif f"{label}.o" in bound:
                self.tile[label], self.along[label] = rows, 0
            else:
                self.tile[label] = 1
        grid = [a for a in self.labels if a in bound or f"{a}.o" in bound]
        self.walked = [a for a in self.labels if a not in grid]
        along = [a for a in self.walked if a != self.column]
        if along and 0 not in self.along.values():
            # A block that walks an axis goes by the rows of its tile: along the longest.
            longest = max(reversed(along), key=lambda a: values.extents[a])
            self.tile[longest], self.along[longest] = rows, 0
        self.parts = plan.integer("split_k")
        """Blocks that share the reductions of a tile: by its rows, or all of its steps where what
        they have of it goes through memory."""
        self.stored = plan.stores_sums
        self.moments = moments_of(self.roots) if self.stored else None
        """The sum and the squares about its mean that blocks find while they read once."""
        tiles = prod(-(-values.extents[a] // self.tile[a]) for a in grid)
        if plan.spreads_sums:
            self.parts = max(1, self.parts // max(1, tiles))
        self.blocks = self.parts * tiles
        self.steps = 0.0
        """Of a block, one after another."""
        self.access = plan.integer("vectorize")
        """Elements that an access has where each is computed by itself."""
        self.is_alone = not _reductions(values, self.roots)
        if self.access > 1:
            self.is_alone &= not self.turned and has_places(values, self.roots)
        """Whether each element is computed by itself, of nothing that is reduced, and what that
        takes is counted: of vectors where there are places to find."""
        self.done: set[tuple[SSAValue, tuple[tuple[str, int | None], ...]]] = set()

    def count(self) -> None:
        values, work = self.values, self.work
        work.blocks += self.blocks
        scope: dict[str, int | None] = {a: self.along.get(a) for a in self.labels}
        needed = _reductions(values, self.roots)
        if self.moments is not None:
            self.reduction([self.moments.squares], scope, 1.0)
        for group in [] if self.moments is not None else self.groups(needed, scope):
            self.reduction(group, scope, 1.0)
        times = float(prod(-(-values.extents[a] // self.tile[a]) for a in self.walked))
        here = set(self.along.values())
        points = float(prod(self.whole[axis] for axis in here))
        self.step(self.roots, scope, times, points, {})
        self.steps += times if self.walked else 0.0
        work.steps = max(work.steps, self.steps)
        store = LOAD_STORE / (self.access if self.is_alone else 1)
        work.operations += times * self.blocks * max(points, work.threads) * store
        stored = sum(size_in_bytes(kind.element_type) for kind in self.kinds)
        work.cache += stored * values.points(self.labels)
        work.again += TORN * self.torn()

    def torn(self) -> float:
        """How many pieces of lines that are no whole sectors blocks store, and read of tensors
        whose lines lie along the outputs': of every second point, two for one.  Lines that points
        share, as of what is made larger, are in the cache."""
        values, last = self.values, self.labels[-1] if self.labels else None
        if last is None or (wide := self.tile.get(last, 0)) >= (line := values.extents[last]):
            return 0.0
        pieces = values.points(self.labels[:-1]) * -(-line // wide)
        found = sum(line * size_in_bytes(kind.element_type) % SECTOR > 0 for kind in self.kinds)
        for op in values.behind(self.roots):
            if not isinstance(op, ReadOp) or not op.map.data.results:
                continue
            labels, along = op.result.type.labels, op.map.data.results[-1]
            if last not in labels or labels.index(last) not in along.used_dims():
                continue
            kind = cast("MemRefType", op.tensor.type)
            own = kind.shape[-1].evaluate(values.sizes)
            if op.guard is None and own < line:
                continue  # Several points have one of its: it is there already.
            own *= size_in_bytes(kind.element_type)
            found += (own % SECTOR > 0) * (1 if last in innermost(op) else 2)
        return pieces * found

    def groups(
        self, needed: Sequence[ReduceOp], scope: Mapping[str, int | None]
    ) -> list[list[ReduceOp]]:
        """Reductions that one loop has together; windows that slide are one after another."""
        if self.outputs > 1 or len(needed) == 1:
            return [[reduce] for reduce in needed]
        return siblings(
            needed,
            lambda made: self.values.behind(made, into=True),
            lambda reduce: {scope.get(a) for a in result_labels(reduce)} - {None},
        )

    def reduction(
        self, several: Sequence[ReduceOp], scope: Mapping[str, int | None], times: float
    ) -> None:
        """Reductions that a block computes together so many times, at the places of ``scope``."""
        if times == 1.0:
            keys = {
                reduce: (reduce.result, tuple((a, scope.get(a)) for a in result_labels(reduce)))
                for reduce in several
            }
            several = [reduce for reduce in several if keys[reduce] not in self.done]
            self.done.update(keys.values())
        if not several:
            return
        reduce, operands = several[0], [one.operand for one in several]
        used = {scope.get(a) for a in result_labels(reduce)} - {None}
        apart: dict[str, int] = {}
        if reduce.fn.data != "sum" or reduce.accumulator == f32:
            free = [axis for axis in (1, 0) if axis not in used and self.whole[axis] > 1]
            axes = [a for a in reversed(val_type(reduce.operand).labels) if a in reduce.labels]
            apart = dict(zip(axes, free, strict=False))
        held = used | set(apart.values())
        points = float(prod(self.whole[cast(int, axis)] for axis in held))
        order = sorted(reduce.labels, key=lambda label: label in apart)
        trips = [self.trips(label, apart) for label in order]
        if self.stored:
            trips = [-(-prod(trips) // self.parts)]
            results = self.values.points(result_labels(reduce))
            stored = len(several) if self.moments is None else MOMENTS
            self.work.summed += self.parts * results * SUM_BYTES * stored
        inner: dict[str, int | None] = {**scope, **{a: apart.get(a) for a in order}}
        if self.moments is None:
            self.before(operands, scope, inner, order, trips, times)
        self.step(operands, inner, times * prod(trips), points, apart)
        # Points of a window that slides are unrolled.
        extra = len(several) if self.outputs > 1 else OVERHEAD + len(several)
        extra = (extra + (0 if self.moments is None else COUNTED)) * max(points, self.work.threads)
        self.work.operations += self.blocks * times * prod(trips) * extra
        self.steps += times * waits(trips, apart)

    def trips(self, label: str, apart: Mapping[str, int]) -> int:
        extent = self.values.extents[label]
        if label not in apart:
            return extent
        sharing = self.parts if apart[label] == 0 and not self.stored else 1
        return -(-extent // (self.whole[apart[label]] * sharing))

    def before(
        self,
        operands: Sequence[SSAValue],
        outside: Mapping[str, int | None],
        inner: Mapping[str, int | None],
        order: Sequence[str],
        trips: Sequence[int],
        times: float,
    ) -> None:
        """The reductions that operands need: before the loops that they do not depend on."""
        for group in self.groups(_reductions(self.values, operands), inner):
            own = self.values.own(group[0].result)
            depends = [i for i, a in enumerate(order) if a in own]
            if depends:
                self.reduction(group, inner, times * prod(trips[: depends[-1] + 1]))
            else:
                self.reduction(group, outside, times)

    def step(
        self,
        roots: Sequence[SSAValue],
        scope: Mapping[str, int | None],
        times: float,
        points: float,
        apart: Mapping[str, int],
    ) -> None:
        """One point of each of a tile's places, ``times`` times in each block."""
        values, work = self.values, self.work
        cost = 0.0
        column = next((a for a, axis in scope.items() if axis == 1), None)
        if self.is_alone:
            # What a thread finds once for its points of a column, or of a row.
            row = next((a for a, axis in scope.items() if axis == 0), None)
            found = finding(values, roots, [str(row)], [str(column)], self.access)
            cost = found.each(*shared_by(self.whole, int(work.threads), self.access))
        lies = {a: self.tile.get(a, 0) if a in self.labels else 0 for a in scope}
        lies |= {a: self.whole[axis] for a, axis in apart.items()}
        for op in values.behind(roots):
            if isinstance(op, ReduceOp) or (self.is_alone and not isinstance(op, ReadOp)):
                continue
            alike = self.lanes if column and column not in values.own(op.results[0]) else 1
            if isinstance(op, ReadOp):
                price, over = load_cost(values, op, column, lies)
                if column in read_labels(op):
                    over = max(over, self.forgotten(op, column, scope))
                price *= self.lines_of(op, column) / alike
                if values.kernel.name_of(op.tensor) in self.turned and price > TURNED:
                    price, over = TURNED, float(line_step(op))
                wide = self.is_alone and column in innermost(op)
                share = self.shared(op, scope)
                cost += price / (self.access if wide else self.vector) * share
                unique = prod(
                    min(self.whole[axis], values.extents[a])
                    for a in values.walked(read_labels(op))
                    if (axis := scope.get(a)) is not None
                )
                bytes_of = size_in_bytes(op.result.type.element_type)
                work.cache += self.blocks * times * unique * bytes_of * over * share
            elif self.outputs > 1 and isinstance(op, BinaryOp) and op.result in roots:
                continue  # It is multiplied and added at once.
            elif isinstance(op, CastOp) and isinstance(op.operand.owner, ReadOp):
                cost += operations(op) * self.shared(op.operand.owner, scope)
            else:
                cost += operations(op) / alike
        work.operations += self.blocks * times * max(points, work.threads) * cost

    def lines_of(self, read: ReadOp, column: str | None) -> float:
        """How many cache lines a warp's load touches for each that it would of neighbours: a thread
        has several columns, whose elements it loads one by one where no vector of them begins at
        its first one, as of windows that slide along the columns."""
        if self.lanes == 1 or self.is_alone or column not in innermost(read):
            return 1.0
        labels, extents = read.result.type.labels, self.values.extents
        along = linear_of(read.map.data.results[-1])
        whole, reduced = True, {a for a in labels if a not in self.labels and extents[a] > 1}
        for term, factor in along.terms:
            used = {labels[d] for d in expr_of(Linear(((term, 1),), 0)).used_dims()}
            whole &= factor % self.lanes == 0 or column in used or not used & reduced
        size = size_in_bytes(read.result.type.element_type)
        return 1.0 if whole else max(1.0, self.lanes * size / max(size, BANK))

    def forgotten(self, read: ReadOp, column: str, scope: Mapping[str, int | None]) -> float:
        """How many bytes a read brings for each of its own where threads go along lines of their
        own, an element a step, and those of a multiprocessor have more than its cache: what lies
        beside is gone before a thread comes to it.  0 elsewhere, and of few steps, whose loads are
        on their way together."""
        last, extents = innermost(read), self.values.extents
        size = size_in_bytes(read.result.type.element_type)
        if column in last or not any(
            scope.get(a) is None and extents[a] > FEW_STEPS for a in last - set(self.labels)
        ):
            return 0.0
        apart = min(LINE, max(extents[a] for a in last) * size)
        lines = prod(
            min(self.whole[axis], extents[a])
            for a in self.values.walked(read_labels(read))
            if (axis := scope.get(a)) is not None
        )
        held = lines * apart * MOST_THREADS / self.work.threads
        return max(1.0, min(apart, SECTOR) / size) if held > NEAR_BYTES else 0.0

    def shared(self, read: ReadOp, scope: Mapping[str, int | None]) -> float:
        """The part of a read at one point of a window that falls to it, where neighbours share it:
        what does not go along the rows of a tile is read once for them, and windows overlap."""
        row = next((a for a, axis in scope.items() if axis == 0), None)
        slid = [a for a in scope if a not in self.labels]
        if self.outputs == 1.0 or not slid:
            return 1.0
        labels = read.result.type.labels
        if row not in labels:
            return 1.0 / self.outputs
        taps = 1
        for expr in read.map.data.results:
            used = {labels[e.position] for e in expr.dfs() if isinstance(e, AffineDimExpr)}
            if row in used:
                taps = max([taps, *(self.values.extents[a] for a in used if a in slid)])
        return (self.outputs + taps - 1) / (self.outputs * taps)


def waits(trips: Sequence[int], apart: Mapping[str, int]) -> float:
    """Of how many steps of a reduction each waits for its loads, where threads part axes or not."""
    steps = float(prod(trips))
    return steps if apart or steps > SHORT else steps / AHEAD


TURNED = 10.0
"""Instructions of an element that goes through shared memory: read there, stored and read back."""


AGAIN = 2.0
"""How often what windows share comes from L2, where their lines lie one after another."""


def _reductions(values: Values, roots: Sequence[SSAValue]) -> list[ReduceOp]:
    found: list[Operation] = [*values.behind(roots)]
    return [op for op in found if isinstance(op, ReduceOp)]
