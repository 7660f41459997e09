"""Tail axes: those whose last tile is not whole, so that its points are predicated (S4.10, S7.1).

An axis of size ``n`` cut into tiles of ``T`` has a tail unless

    { symbols : the assumptions hold }  is within  { symbols : n mod T = 0 }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineSet

from polyc.affine import isl
from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects.common.dim import Dim


@dataclass(frozen=True, slots=True)
class Tail:
    """An axis that needs a predicate: values of the symbols with a tile that is not whole.

    ``symbols`` is None where the size multiplies symbols and is beyond isl.
    """

    symbols: tuple[int, ...] | None


def tail(size: Dim, tile: int, symbols: Sequence[str], facts: AffineSet) -> Tail | None:
    """Whether tiles of ``tile`` leave a tail on an axis; None where it is proved that not.

    ``facts`` are the assumptions over ``symbols``.  Raises ``IslLimitExceeded``.
    """
    rest = size.mod(tile)
    if rest.constant() == 0:
        return None
    expr = rest.as_affine(symbols)
    if expr is None:
        return Tail(None)
    some = constraint_of(linear_of(expr - 1), False)
    sample = isl.sample_point(AffineSet(0, len(symbols), (*facts.constraints, some)))
    return None if sample is None else Tail(sample[1])
