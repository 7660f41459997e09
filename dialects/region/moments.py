"""A sum and the sum of squared distances from its mean, as variances have them; a maximum and the
sum of exponentials below it, as softmaxes have them.

Both are over the same points, and the second one needs the first one's result.  Threads that have
parts of the points can still find both while they read these once: the squares of a part are about
any number near its mean, and parts are brought together by their counts and means (Chan, Golub and
LeVeque, 1979); exponentials of a part are below its own maximum, and are scaled down to the largest
of all (Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from polyc.dialects.common.dim import Dim
from polyc.dialects.region.axes import BroadcastInDimOp, ReduceOp
from polyc.dialects.region.elementwise import BinaryOp, UnaryOp
from polyc.dialects.region.scope import behind
from polyc.dialects.region.types import val_type

FEW_ROWS, KEPT_ROW = 8, 26 << 20
"""Rows that leave most of a chip idle where a cluster walks along each, and the bytes of one that
the blocks of a whole chip keep at most, about."""


def are_long(others: Sequence[Dim], length: Dim, element: int) -> bool:
    """Whether rows of elements of so many bytes, one for each point of other axes, are few, and the
    blocks of a whole chip do not keep one; of known sizes alone."""
    sizes, long = [size.constant() for size in others], length.constant()
    if long is None or None in sizes:
        return False
    return prod(size or 0 for size in sizes) <= FEW_ROWS and long * element > KEPT_ROW


@dataclass(frozen=True)
class Moments:
    """``squares`` sums the squares of ``distance``, which is what ``total`` sums less ``mean``:
    what is made of the total, as the mean of all points, rounded or not."""

    total: ReduceOp
    mean: SSAValue
    distance: SSAValue
    squares: ReduceOp

    @property
    def below(self) -> bool:
        """Whether ``total`` is a maximum, and its own ``mean``, and ``squares`` sums what grows
        with the ``distance`` below it."""
        return self.total.fn.data == "max"

    @property
    def stored(self) -> list[SSAValue]:
        """What parts of the points say of themselves: both results; of moments how many points they
        are and how far from their mean in all, too, which stand for mean and distance."""
        found: list[SSAValue] = [reduce.result for reduce in self.reductions]
        return found if self.below else [*found, self.mean, self.distance]

    @property
    def reductions(self) -> list[ReduceOp]:
        """Both, in the order in which one needs the other."""
        return [self.total, self.squares]


def moments_of(values: Sequence[SSAValue]) -> Moments | None:
    """The moments that ``values`` are made of, where they are made of no other reduction.

    Both accumulate in f32, and distances and their squares are not rounded to fewer bits.
    """
    reductions = [op for op in behind(values) if isinstance(op, ReduceOp)]
    if len(reductions) != 2:
        return None
    found = None
    for reduce in reductions:
        found = found or _squared(reduce) or _grown(reduce)
    if found is None or {found.total, found.squares} != set(reductions):
        return None
    return found


def _squared(squares: ReduceOp) -> Moments | None:
    product = squares.operand.owner
    if not _is_sum(squares) or not isinstance(product, BinaryOp) or product.fn.data != "mul":
        return None
    distance, other = product.operands
    taken = distance.owner
    if other is not distance or not isinstance(taken, BinaryOp) or taken.fn.data != "sub":
        return None
    own, repeated = taken.operands
    if not isinstance(repeated.owner, BroadcastInDimOp):
        return None
    mean = repeated.owner.operand
    totals = [op for op in behind([mean]) if isinstance(op, ReduceOp)]
    if len(totals) != 1 or not _is_sum(totals[0]) or totals[0].operand is not own:
        return None
    if set(totals[0].labels) != set(squares.labels):
        return None
    if any(val_type(v).element_type != f32 for v in (own, mean, distance, squares.operand)):
        return None
    if set(val_type(mean).labels) - set(val_type(totals[0].result).labels):
        return None
    return Moments(totals[0], mean, distance, squares)


def _grown(powers: ReduceOp) -> Moments | None:
    """The maximum below which a sum of exponentials is, with both."""
    grown = powers.operand.owner
    if not _is_sum(powers) or not isinstance(grown, UnaryOp) or grown.fn.data != "exp":
        return None
    distance = grown.operand
    taken = distance.owner
    if not isinstance(taken, BinaryOp) or taken.fn.data != "sub":
        return None
    own, repeated = taken.operands
    if not isinstance(repeated.owner, BroadcastInDimOp):
        return None
    top = repeated.owner.operand
    total = top.owner
    if not isinstance(total, ReduceOp) or total.fn.data != "max" or total.accumulator != f32:
        return None
    if total.operand is not own or set(total.labels) != set(powers.labels):
        return None
    if any(val_type(v).element_type != f32 for v in (own, top, distance, powers.operand)):
        return None
    return Moments(total, top, distance, powers)


def _is_sum(op: ReduceOp) -> bool:
    return op.fn.data == "sum" and op.accumulator == f32
