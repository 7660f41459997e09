"""All points of the outputs as one axis: a tile has so many that lie together (S8, S9.3).

A tile of rows and columns runs along two axes, and is as large as these are: of small images it
has a part of its threads idle, and a block for each channel.  As one axis points fill all tiles but
the last, whatever the axes are; a thread finds where each of its points is on every axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from polyc.dialects.common.dim import Dim
from polyc.dialects.region import ReduceOp
from polyc.dialects.region.moments import moments_of
from polyc.families.loops.recognise import Loops, Space, reductions_in, size_of, type_of

POINTS = "points"
"""The name of the axis that all axes of the outputs are together."""

MOST_POINTS = (1 << 31) - (1 << 20)
"""That one axis has, so that coordinates of 32 bits are beyond the last tile too."""


SHORT = 16
"""Points of one output, up to which a thread sums them all where the sums are of sums, or where a
tile could part them.  What threads wait for then is not in the model of time: on an H100 32,768 of
each of 8,192 outputs took 4 ms, where warps that part them take 0.25, and 64 of pools of pools took
3.5 ms for 0.37."""


@dataclass(frozen=True)
class Flat:
    """Outputs over the same axes of known sizes: their ``space``, and of each of the ``axes`` the
    points that a point of it is and its size, which is open for the outermost one."""

    space: Space
    axes: tuple[tuple[str, int, int | None], ...]


def find_flat(loops: Loops) -> Flat | None:
    """The outputs of a region as one axis; None where blocks walk axes or turn tensors, or where
    threads part a reduction.  What a reduction sums may be reduced itself, in its loop."""
    values = loops.values
    if not values or len(loops.spaces) != 1 or loops.turned or loops.spaces[0].walked:
        return None
    labels = type_of(values[0]).labels
    if len(labels) < 2 or any(type_of(value).labels != labels for value in values):
        return None
    if moments_of(values) is not None:
        return None
    for reduce in reductions_in(values):
        if sorted(type_of(reduce.result).labels) != sorted(labels):
            return None
        if reductions_in([reduce.operand]) and points_of(reduce) > SHORT:
            return None
    sizes = [size.constant() for size in type_of(values[0]).shape]
    known = [size for size in sizes if size]
    if len(known) < len(sizes) or prod(known) > MOST_POINTS:
        return None
    axes: list[tuple[str, int, int | None]] = []
    inside = 1
    for label, size in zip(reversed(labels), reversed(known), strict=True):
        axes.append((label, inside, size))
        inside *= size
    # What is beyond the last point is outside of the first axis, whose size is not asked then.
    axes[-1] = (*axes[-1][:2], None)
    outputs = tuple(range(len(values)))
    whole = (Dim.const(1), Dim.const(inside))
    return Flat(Space(outputs, (), None, POINTS, whole, frozenset()), tuple(reversed(axes)))


def points_of(reduce: ReduceOp) -> float:
    """How many points one result of a reduction is of, with those of the reductions inside of it;
    infinite where a size is not known."""
    inner = [points_of(one) for one in reductions_in([reduce.operand])]
    sizes = (size_of(reduce, label).constant() or inf for label in reduce.labels)
    return prod(sizes) * max(inner, default=1)
