"""Heads that share keys: queries that a tile may have together, so that keys are read once (S6.10).

Where a model has fewer heads of keys than of queries, neighbours on an axis of the batch read the
same K and V.  A tile of queries may then go over both: its rows are the queries of all these heads,
a query's heads side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineExpr

from polyc.affine.expressions import alike
from polyc.dialects.common.dim import Dim


@dataclass(frozen=True)
class SharedKeys:
    """``heads`` neighbours on the ``axis`` of the batch have the same keys and values."""

    axis: str
    heads: int


def shared_keys(
    batch: Sequence[str], size: Callable[[str], Dim], places: Sequence[AffineExpr]
) -> SharedKeys | None:
    """The axis of which most points share keys; None where no two do.

    ``places`` are where K and V are read, in the batch's axes.
    """
    found: list[SharedKeys] = []
    for number, axis in enumerate(batch):
        heads = alike(places, number)
        if not heads:
            heads = size(axis).constant() or 1
        if heads > 1 and size(axis).mod(heads) == Dim.const(0):
            found.append(SharedKeys(axis, heads))
    return max(found, key=lambda one: one.heads, default=None)
