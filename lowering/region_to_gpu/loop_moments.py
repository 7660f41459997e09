"""``region-to-gpu``: a sum and the squares about its mean, of points that blocks share (S8, S9).

Each thread reads its points once.  It takes the mean of those of its first step for a ``pivot``,
and sums distances from that, and their squares: the pivot is the mean of a part of all points that
it adds, so that what is taken away from the squares at the end is no more than the part's inverse
times what is left.  Threads, blocks and then parts are brought together by their counts and means,
as Chan, Golub and LeVeque have it (1979).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu import tile
from polyc.lowering.region_to_gpu.loop_parts import Part
from polyc.lowering.region_to_gpu.point import COLUMN, ROW
from polyc.rewriting.emit import Emit, affine_dim

HUGE = 3.0e38
"""What no finite number of f32 is far above: a pivot beyond is none."""

OWN = AffineMap.identity(2)
"""An element's own place."""

Fragment = tuple[SSAValue, AffineMap]
"""A fragment, and where in it an element of a map is."""


def number(emit: Emit, value: float) -> SSAValue:
    """An f32 constant."""
    return emit.value(arith.ConstantOp(FloatAttr(value, f32)))


def each(
    emit: Emit,
    space: SSAValue,
    inputs: Sequence[Fragment],
    outputs: Sequence[SSAValue],
    compute: Callable[..., Sequence[SSAValue]],
) -> None:
    """A map over the places of ``space``: ``compute`` takes an ``Emit``, the elements of ``space``
    and of ``inputs``, and gives those of ``outputs``."""
    block = Block(arg_types=[f32] * (1 + len(inputs)))
    own = Emit()
    results = compute(own, *block.args)
    block.add_ops([*own.ops, tile.YieldOp(list(results))])
    maps = [*(place for _, place in inputs), *(OWN for _ in outputs)]
    emit.op(tile.MapOp(space, [], [f for f, _ in inputs], outputs, maps, Region(block)))


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
    acc: SSAValue,
    mean: Fragment,
    at: Mapping[str, AffineExpr],
    origin: Sequence[SSAValue],
    spaces: Sequence[SSAValue],
) -> None:
    """Bring the squares of all parts of a tile's results into ``acc``, about ``mean``, every thread
    those of its own, in order; ``spaces`` are the workspaces with each part's squares, sum, count
    and sum of distances from the mean of that sum."""
    step = part.tile[part.along]

    def one(inner: Emit, start: SSAValue) -> None:
        block = Block(arg_types=[f32] * 6)
        here, squares, total, count, rest, about = block.args
        own = Emit()
        far = own.value(arith.SubfOp(_over(own, total, count), about))
        twice = own.value(arith.MulfOp(own.value(arith.AddfOp(far, far)), rest))
        value = own.value(arith.AddfOp(_moved(own, squares, far, count), twice))
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
        held = AffineMap(2, symbols, mean[1].results)
        maps = [*(there for _ in spaces), held, AffineMap(2, symbols, (ROW, COLUMN))]
        inner.op(tile.MapOp(acc, [*origin, start], [*spaces, mean[0]], [acc], maps, Region(block)))

    emit.loop(part.parts, one, step=step, hint="part")
