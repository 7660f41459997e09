"""``region-to-gpu``: a sum and the squares about its mean, of points that blocks share (S8, S9).

Each thread reads its points once.  It takes the mean of those of its first step for a ``pivot``,
and sums distances from that, and their squares: the pivot is the mean of a part of all points that
it adds, so that what is taken away from the squares at the end is no more than the part's inverse
times what is left.  Threads, blocks and then parts are brought together by their counts and means,
as Chan, Golub and LeVeque have it (1979).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.dialects.region.moments import Moments
from polyc.families.loops.recognise import parted, type_of
from polyc.lowering.region_to_gpu.loop_base import LoopBase
from polyc.lowering.region_to_gpu.loop_parts import Here, Part
from polyc.lowering.region_to_gpu.loop_scope import Scope, projection
from polyc.lowering.region_to_gpu.loop_shares import (
    OWN,
    Fragment,
    as_f32,
    combine_shares,
    each,
    number,
    store_shares,
    tails_of,
    threads_fragment,
    turns_of,
    within,
)
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Wanted
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit

HUGE = 3.0e38
"""What no finite number of f32 is far above: a pivot beyond is none."""


@dataclass(frozen=True)
class Sums:
    """What a thread has of its points at each place of a fragment: ``pivot``, the sums of distances
    from it and of their squares, and how many there are."""

    pivot: SSAValue
    off: SSAValue
    squares: SSAValue
    count: SSAValue

    @property
    def fragments(self) -> tuple[SSAValue, ...]:
        return self.pivot, self.off, self.squares, self.count

    def begin(self, emit: Emit) -> None:
        """No points."""
        zero = number(emit, 0.0)
        for fragment in self.fragments:
            emit.op(tile.FillOp(zero, fragment))

    def set_pivot(self, emit: Emit, total: SSAValue, count: SSAValue) -> None:
        """The mean of a step of which the sum and the count are given; 0 where that is no finite
        number, so that infinite points are summed as they are."""

        def mean(own: Emit, _: SSAValue, total: SSAValue, count: SSAValue) -> list[SSAValue]:
            found = _over(own, total, count)
            size = own.value(math.AbsFOp(found))
            finite = own.value(arith.CmpfOp(size, number(own, HUGE), "olt"))
            return [own.value(arith.SelectOp(finite, found, number(own, 0.0)))]

        each(emit, self.pivot, [(total, OWN), (count, OWN)], [self.pivot], mean)

    def totals(self, emit: Emit, into: SSAValue) -> None:
        """The plain sum of each thread's points."""

        def total(own: Emit, pivot: SSAValue, off: SSAValue, count: SSAValue) -> list[SSAValue]:
            whole = own.value(arith.MulfOp(pivot, count))
            return [own.value(arith.AddfOp(whole, off))]

        each(emit, self.pivot, [(self.off, OWN), (self.count, OWN)], [into], total)

    def about(
        self, emit: Emit, total: Fragment, count: Fragment, into: SSAValue, rest: SSAValue
    ) -> None:
        """The squares of each thread's points about the mean of all, whose sum and count are given,
        and the ``rest``, the sum of distances from it.

        About the threads' own means squares are what they are about the pivots, less what these are
        off; from there to the mean of all all points go as far.  That mean is rounded: distances
        from what it is make up for it.
        """

        def squares(
            own: Emit,
            pivot: SSAValue,
            off: SSAValue,
            squares: SSAValue,
            count: SSAValue,
            total: SSAValue,
            every: SSAValue,
        ) -> list[SSAValue]:
            mean = _over(own, off, count)
            less = own.value(arith.MulfOp(mean, off))
            about = own.value(arith.SubfOp(squares, less))
            about = own.value(arith.MaximumfOp(about, number(own, 0.0)))
            near = own.value(arith.SubfOp(pivot, _over(own, total, every)))
            far = own.value(arith.AddfOp(near, mean))
            left = own.value(arith.AddfOp(own.value(arith.MulfOp(near, count)), off))
            return [_moved(own, about, far, count), left]

        own = [(f, OWN) for f in (self.off, self.squares, self.count)]
        each(emit, self.pivot, [*own, total, count], [into, rest], squares)


def _over(emit: Emit, total: SSAValue, count: SSAValue) -> SSAValue:
    """A mean; 0 of no points."""
    least = emit.value(arith.MaximumfOp(count, number(emit, 1.0)))
    return emit.value(arith.DivfOp(total, least))


def _moved(emit: Emit, squares: SSAValue, far: SSAValue, count: SSAValue) -> SSAValue:
    """Squares about another number, so far from the mean of so many points."""
    more = emit.value(arith.MulfOp(emit.value(arith.MulfOp(far, far)), count))
    return emit.value(arith.AddfOp(squares, more))


def combine(
    emit: Emit,
    part: Part,
    here: Here,
    acc: SSAValue,
    mean: Fragment,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    spaces: Sequence[SSAValue],
) -> None:
    """Bring the squares of all parts of a tile's results into ``acc``, about ``mean``, every thread
    those of its own, in order; ``spaces`` are the workspaces with each part's squares, sum, count
    and sum of distances from the mean of that sum."""

    def value_of(
        own: Emit,
        squares: SSAValue,
        total: SSAValue,
        count: SSAValue,
        rest: SSAValue,
        about: SSAValue,
    ) -> SSAValue:
        far = own.value(arith.SubfOp(_over(own, total, count), about))
        twice = own.value(arith.MulfOp(own.value(arith.AddfOp(far, far)), rest))
        return own.value(arith.AddfOp(_moved(own, squares, far, count), twice))

    combine_shares(emit, part, here, acc, mean, at, origin, spaces, value_of)


def mean_of(builder: LoopBase, scope: Scope, moments: Moments) -> Fragment:
    """What squares are about, where parts of these are brought together."""
    labels = type_of(moments.mean).labels
    along = scope.along(labels)
    found = builder.fragment(scope, along, "mean")
    wanted = [Wanted(moments.mean, found, (ROW, COLUMN))]
    values = [moments.mean]
    builder.map(scope, found, labels, lambda _: wanted, moments.squares, values)
    return found, projection(along)


def of_share(builder: LoopBase, scope: Scope, moments: Moments) -> None:
    """What a block has of the points of a tile's moments, stored: their sum, the squares about
    their own mean, how many they are, and what is left of distances from that mean."""
    total, emit = moments.total, scope.emit
    along = scope.along(type_of(total.result).labels)
    apart = parted(total, along, builder.tile)
    made, fold = threads_fragment(builder, scope, along, apart, "pivot")
    kind = cast("FragmentType", made.type)
    others = (emit.value(tile.FragmentOp(kind), hint) for hint in ("off", "squares", "count"))
    sums = Sums(made, *others)
    sums.begin(emit)
    order = sorted(total.labels, key=lambda label: label in apart)
    tails = tails_of(builder, total, apart)
    masked = within(tails, 0.0, as_f32)
    counted = within(tails, 0.0, lambda point, _: number(point.emit, 1.0))

    def step(here: Scope, turn: SSAValue) -> None:
        emit, place = here.emit, (ROW, COLUMN)
        points = builder.fragment(here, (True, True), total.label)
        there = builder.fragment(here, (True, True), "inside")
        wanted = [
            Wanted(total.operand, points, place, masked),
            Wanted(total.operand, there, place, counted),
        ]
        builder.map(here, points, list(tails), lambda _: wanted, total, [total.operand], {})

        def begin(inner: Emit) -> None:
            whole, count = (inner.value(tile.FragmentOp(kind)) for _ in range(2))
            inner.op(tile.ReduceOp("sum", points, fold, whole))
            inner.op(tile.ReduceOp("sum", there, fold, count))
            sums.set_pivot(inner, whole, count)

        assert builder.rank is not None
        emit.when(emit.compare("eq", turn, builder.rank), begin)
        far = builder.fragment(here, (True, True), "distance")
        square = builder.fragment(here, (True, True), "square")
        known = {
            total.operand: Held(points, place),
            moments.mean: Held(sums.pivot, fold.results),
        }
        wanted = [
            Wanted(moments.distance, far, place, masked),
            Wanted(moments.squares.operand, square, place, masked),
        ]
        values = [moments.squares.operand]
        builder.map(here, points, list(tails), lambda _: wanted, moments.squares, values, known)
        for source, target in ((far, sums.off), (square, sums.squares), (there, sums.count)):
            emit.op(tile.ReduceOp("sum", source, fold, target, accumulate=True))

    start = len(emit.ops)
    turns_of(builder, scope, total, order, apart, step)
    over = projection(along)
    parts, left = (emit.value(tile.FragmentOp(kind)) for _ in range(2))
    whole, count, squares, rest = (
        builder.fragment(scope, along, hint) for hint in ("total", "count", "squares", "rest")
    )
    sums.totals(emit, parts)
    emit.op(tile.ReduceOp("sum", parts, over, whole))
    emit.op(tile.ReduceOp("sum", sums.count, over, count))
    sums.about(emit, (whole, over), (count, over), parts, left)
    emit.op(tile.ReduceOp("sum", parts, over, squares))
    emit.op(tile.ReduceOp("sum", left, over, rest))
    for op in emit.ops[start:]:
        located(op, moments.squares)
    store_shares(builder, scope, moments, [whole, squares, count, rest])
