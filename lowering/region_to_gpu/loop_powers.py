"""``region-to-gpu``: a maximum and the sum of exponentials below it, of points that blocks share.

Each thread reads its points once.  It has the largest so far at each place of a fragment, and the
sum of exponentials below that; where a step has a larger one, the sum is scaled down to it.  So are
those of threads, blocks and parts where they are brought together (Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.lowering.region_to_gpu.loop_moments import OWN, Fragment, each, number
from polyc.lowering.region_to_gpu.loop_parts import Part
from polyc.lowering.region_to_gpu.point import COLUMN, ROW
from polyc.rewriting.emit import Emit, affine_dim

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
    step = part.tile[part.along]

    def one(inner: Emit, start: SSAValue) -> None:
        block = Block(arg_types=[f32] * 4)
        here, sums, own_top, whole = block.args
        own = Emit()
        below = own.value(math.ExpOp(own.value(arith.SubfOp(own_top, whole))))
        value = own.value(arith.MulfOp(sums, below))
        if part.parts % step:
            index = own.value(tile.TileIndexOp(part.along))
            place = own.apply(affine_dim(0) + affine_dim(1), [index, start])
            inside = own.compare("slt", place, own.index(part.parts))
            value = own.value(arith.SelectOp(inside, value, number(own, 0.0)))
        found = own.value(arith.AddfOp(here, value))
        block.add_ops([*own.ops, tile.YieldOp([found])])
        symbols = len(origin) + 1
        place_of = (ROW, COLUMN)[part.along] + AffineExpr.symbol(len(origin))
        there = AffineMap(2, symbols, part.place(place_of, at))
        held = AffineMap(2, symbols, top[1].results)
        maps = [*(there for _ in spaces), held, AffineMap(2, symbols, (ROW, COLUMN))]
        inner.op(tile.MapOp(acc, [*origin, start], [*spaces, top[0]], [acc], maps, Region(block)))

    emit.loop(part.parts, one, step=step, hint="part")
