"""A sum and the sum of squared distances from its mean, as variances have them.

Both are over the same points, and the second one needs the first one's result.  Threads that have
parts of the points can still find both while they read these once: the squares of a part are about
any number near its mean, and parts are brought together by their counts and means (Chan, Golub and
LeVeque, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from polyc.dialects.region.axes import BroadcastInDimOp, ReduceOp
from polyc.dialects.region.elementwise import BinaryOp
from polyc.dialects.region.scope import behind
from polyc.dialects.region.types import val_type


@dataclass(frozen=True)
class Moments:
    """``squares`` sums the squares of ``distance``, which is what ``total`` sums less ``mean``:
    what is made of the total, as the mean of all points, rounded or not."""

    total: ReduceOp
    mean: SSAValue
    distance: SSAValue
    squares: ReduceOp

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
    found = _squared(reductions[0]) or _squared(reductions[1])
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


def _is_sum(op: ReduceOp) -> bool:
    return op.fn.data == "sum" and op.accumulator == f32
