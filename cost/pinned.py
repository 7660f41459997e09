"""Guards that pin axes: what is read at few points of a window, as each phase of an image is.

The phases of a transposed convolution lie in tensors of their own, and a value is the largest of
all of them, each -inf where it has no pixel.  In a window of two by two pixels each phase has one,
which the guard says of the window's axes alone: at each point of these one tensor is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product
from math import prod

from xdsl.ir.affine import AffineConstraintKind, AffineExpr

from polyc.dialects.region import ReadOp

MOST_POINTS = 32
"""Of pinned axes together, up to which they are gone through one by one."""


def pinned_by(read: ReadOp, among: Collection[str]) -> set[str]:
    """The axes, of those ``among``, that a read's guard holds by equations of them alone."""
    labels = read.result.type.labels
    found: set[str] = set()
    return found.union(*({labels[d] for d in e.used_dims()} for e in _equations(read, among)))


def pinned_share(read: ReadOp, extents: Mapping[str, int], among: Collection[str]) -> float:
    """The share of the points of some axes at which a read's guard may hold, by what it says of
    these alone; 1 where it says nothing, or they have too many."""
    axes = sorted(pinned_by(read, among))
    points = prod(extents[label] for label in axes)
    if not axes or not 0 < points <= MOST_POINTS:
        return 1.0
    labels, equations = read.result.type.labels, _equations(read, among)
    held = 0
    for point in product(*(range(extents[label]) for label in axes)):
        place = dict(zip(axes, point, strict=True))
        at = [place.get(label, 0) for label in labels]
        held += all(expr.eval(at, []) == 0 for expr in equations)
    return held / points


def _equations(read: ReadOp, among: Collection[str]) -> list[AffineExpr]:
    """What is 0 where a guard holds, of axes ``among`` some alone."""
    if read.guard is None or read.guard.data.num_symbols:
        return []
    labels, found = read.result.type.labels, list[AffineExpr]()
    for row in read.guard.data.constraints:
        expr = row.lhs - row.rhs
        used = {labels[d] for d in expr.used_dims()}
        if row.kind is AffineConstraintKind.eq and used and used <= set(among):
            found.append(expr)
    return found
