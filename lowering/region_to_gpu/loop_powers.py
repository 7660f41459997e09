"""``region-to-gpu``: a maximum and the sum of exponentials below it, of points that blocks share.

Each thread reads its points once.  It has the largest so far at each place of a fragment, and the
sum of exponentials below that; where a step has a larger one, the sum is scaled down to it.  So are
those of threads, blocks and parts where they are brought together (Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

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
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Wanted
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit

LEAST = float("-inf")
"""The largest of no points."""


def least(emit: Emit) -> SSAValue:
    """The same as a constant."""
    return number(emit, LEAST)


@dataclass(frozen=True)
class Powers:
    """What a thread has of its points at each place of a fragment: the largest, ``top``, and the
    sum of exponentials below it."""

    top: SSAValue
    sums: SSAValue

    def begin(self, emit: Emit) -> None:
        """No points."""
        emit.op(tile.FillOp(least(emit), self.top))
        emit.op(tile.FillOp(number(emit, 0.0), self.sums))

    def take(self, emit: Emit, points: SSAValue, grown: SSAValue, fold: AffineMap) -> None:
        """Bring the points of a step in; ``grown`` is a fragment for their exponentials, and
        ``fold`` takes their places to a thread's own."""
        kind = self.top.type
        assert isinstance(kind, FragmentType)
        before = emit.value(tile.FragmentOp(kind))

        def same(_: Emit, __: SSAValue, here: SSAValue) -> list[SSAValue]:
            return [here]

        each(emit, self.top, [(self.top, OWN)], [before], same)
        emit.op(tile.ReduceOp("max", points, fold, self.top, accumulate=True))
        self.scale(emit, before, (self.top, OWN), self.sums)

        def below(own: Emit, _: SSAValue, point: SSAValue, top: SSAValue) -> list[SSAValue]:
            return [_power(own, point, top)]

        each(emit, grown, [(points, OWN), (self.top, fold)], [grown], below)
        emit.op(tile.ReduceOp("sum", grown, fold, self.sums, accumulate=True))

    def scale(self, emit: Emit, top: SSAValue, to: Fragment, into: SSAValue) -> None:
        """The sums, which are below ``top``, below what is as large at least."""

        def scaled(
            own: Emit, _: SSAValue, top: SSAValue, to: SSAValue, sums: SSAValue
        ) -> list[SSAValue]:
            return [own.value(arith.MulfOp(sums, _power(own, top, to)))]

        each(emit, self.top, [(top, OWN), to, (self.sums, OWN)], [into], scaled)

    def join(self, emit: Emit, whole: SSAValue, sums: SSAValue, over: AffineMap) -> None:
        """What all threads of a block have, in ``whole`` and ``sums``; ``over`` takes their places
        to the results'."""
        emit.op(tile.ReduceOp("max", self.top, over, whole))
        self.scale(emit, self.top, (whole, over), self.sums)
        emit.op(tile.ReduceOp("sum", self.sums, over, sums))


def _power(emit: Emit, value: SSAValue, top: SSAValue) -> SSAValue:
    """The exponential of a value below the largest; 1 where both are the least, as of no points."""
    nothing = least(emit)
    none = emit.value(arith.CmpfOp(top, nothing, "oeq"))
    below = emit.value(arith.SubfOp(value, top))
    zero = number(emit, 0.0)
    return emit.value(math.ExpOp(emit.value(arith.SelectOp(none, zero, below))))


def combine(
    emit: Emit,
    part: Part,
    here: Here,
    acc: SSAValue,
    top: Fragment,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    spaces: Sequence[SSAValue],
) -> None:
    """Bring the sums of all parts of a tile's results into ``acc``, below ``top``, every thread
    those of its own, in order; ``spaces`` are the workspaces with each part's sum and maximum.

    Where all points are the least, each is as far below it as that is from itself: no number.
    """

    def value_of(own: Emit, sums: SSAValue, own_top: SSAValue, whole: SSAValue) -> SSAValue:
        below = own.value(math.ExpOp(own.value(arith.SubfOp(own_top, whole))))
        return own.value(arith.MulfOp(sums, below))

    combine_shares(emit, part, here, acc, top, at, origin, spaces, value_of)


def of_share(builder: LoopBase, scope: Scope, moments: Moments) -> None:
    """What a block has of the points of a tile, stored: their maximum, and the sum of
    exponentials below it."""
    total, emit = moments.total, scope.emit
    along = scope.along(type_of(total.result).labels)
    apart = parted(total, along, builder.tile)
    top, fold = threads_fragment(builder, scope, along, apart, "top")
    kind = cast("FragmentType", top.type)
    powers = Powers(top, emit.value(tile.FragmentOp(kind), "powers"))
    powers.begin(emit)
    order = sorted(total.labels, key=lambda label: label in apart)
    tails = tails_of(builder, total, apart)
    masked = within(tails, LEAST, as_f32)

    def step(here: Scope, _: SSAValue) -> None:
        points = builder.fragment(here, (True, True), total.label)
        wanted = [Wanted(total.operand, points, (ROW, COLUMN), masked)]
        builder.map(here, points, list(tails), lambda _: wanted, total, [total.operand], {})
        grown = builder.fragment(here, (True, True), "grown")
        powers.take(here.emit, points, grown, fold)

    start = len(emit.ops)
    turns_of(builder, scope, total, order, apart, step)
    over = projection(along)
    whole, sums = (builder.fragment(scope, along, hint) for hint in ("top", "powers"))
    powers.join(emit, whole, sums, over)
    for op in emit.ops[start:]:
        located(op, moments.squares)
    store_shares(builder, scope, moments, [whole, sums])
