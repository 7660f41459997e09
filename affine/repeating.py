"""Functions of one axis that repeat themselves: some points further they are an integer more.

``floor`` of a multiple, as the places are that an image is enlarged or shrunk by, is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, lcm
from typing import NamedTuple

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineSymExpr

from polyc.affine.expressions import Floor, Linear, NotAffine, expr_of, linear_of

MOST_STEPS = 4
"""Integers by which a function that is clamped is outside, at both ends together."""


def alone(expr: AffineExpr, axis: int) -> AffineExpr | None:
    """An expression of dimension ``axis`` alone as one of dimension 0; None where it is of others,
    of symbols or of nothing."""
    if expr.used_dims() != {axis} or any(isinstance(e, AffineSymExpr) for e in expr.dfs()):
        return None
    dims = [AffineDimExpr(0) if i == axis else AffineConstantExpr(0) for i in range(axis + 1)]
    found = expr.replace_dims_and_symbols(dims, [])
    try:
        linear_of(found)
    except NotAffine:
        return None
    return found


def at(expr: AffineExpr, point: int) -> int:
    """The value of an expression of dimension 0."""
    return expr.eval([point], [])


def period_of(expr: AffineExpr) -> int:
    """After how many points an expression of dimension 0 is an integer further, always the same."""
    return _period(linear_of(expr))


def _period(whole: Linear) -> int:
    found = 1
    for atom, _ in whole.terms:
        if isinstance(atom, Floor):
            found = lcm(found, _period(atom.num) * atom.den)
    return found


def clamped(expr: AffineExpr, points: int, size: int) -> AffineExpr | None:
    """An expression of dimension 0, from 0 up to ``points``, which never falls, between 0 and
    ``size - 1``: one that is affine for these points.

    ``floor((d0 + points - p) / points)`` is 1 from point ``p`` on and 0 before.  None where it
    would take more than ``MOST_STEPS`` of these, one for each integer that it is outside by.
    """
    values = [at(expr, i) for i in range(points)]
    if not values or size < 1:
        return None
    found, here = expr, AffineDimExpr(0)
    below, above = max(0, -values[0]), max(0, values[-1] - size + 1)
    if below + above > MOST_STEPS:
        return None

    def beyond(first: int) -> AffineExpr:
        return (here + (points - first)) // points

    for step in range(below):
        found = found + 1 - beyond(sum(v < -step for v in values))
    for step in range(above):
        found = found - beyond(sum(v < size + step for v in values))
    return found


@dataclass(frozen=True)
class End:
    """Points from ``first`` up to ``last``, at which a function is ``more`` than it is inside: in
    front of what is inside, or behind it."""

    first: int
    last: int
    more: int
    in_front: bool


def inner_and_ends(expr: AffineExpr, points: int) -> tuple[AffineExpr, tuple[End, ...]]:
    """An expression of dimension 0, from 0 up to ``points``, as what it is where its steps do not
    change for longest, and the points before and behind that, inner ones first.

    Steps are the terms that ``clamped`` adds.
    """
    whole = linear_of(expr)
    steps = {a: t for a, t in whole.terms if _step_of(a, points) is not None}
    rest = Linear(tuple((a, t) for a, t in whole.terms if a not in steps), whole.constant)
    cuts = sorted({p for a in steps if 0 < (p := _step_of(a, points) or 0) < points})
    spans = list(pairwise((0, *cuts, points)))
    more = [
        sum(t for a, t in steps.items() if (_step_of(a, points) or 0) <= first)
        for first, _ in spans
    ]
    inner = max(range(len(spans)), key=lambda i: spans[i][1] - spans[i][0])
    order = [*range(inner - 1, -1, -1), *range(inner + 1, len(spans))]
    ends = [End(spans[i][0], spans[i][1] - 1, more[i] - more[inner], i < inner) for i in order]
    found = expr_of(Linear(rest.terms, rest.constant + more[inner]))
    sides = {end.in_front for end in ends if end.more}
    return found, tuple(end for end in ends if end.in_front in sides)


def _step_of(atom: object, points: int) -> int | None:
    """From which point on a term is 1, and 0 before; None of another term."""
    if not isinstance(atom, Floor) or atom.den != points or atom.num.terms != ((("d", 0), 1),):
        return None
    return points - atom.num.constant


class FloorLine(NamedTuple):
    """Numbers of which number ``i`` is ``each * floor((times * i + plus) / by) + base``."""

    times: int
    plus: int
    by: int
    base: int
    each: int = 1

    def at(self, axis: AffineExpr) -> AffineExpr:
        """The number at a place."""
        return (axis * self.times + self.plus) // self.by * self.each + self.base


def floor_line(values: Sequence[int]) -> FloorLine | None:
    """The line of which numbers are the floor, or multiples of it, with the least ``by``; None
    where they follow no such line.
    """
    if not values:
        return None
    first, count = values[0], len(values)
    each = gcd(*(value - first for value in values)) or 1
    rise = (values[-1] - first) // each
    for by in range(1, count + 1):
        # The numbers' slope says that of the line but for less than one over all of them.
        low, high = ((rise + off) * by // max(count - 1, 1) for off in (-1, 1))
        for times in range(low, high + 2):
            for plus in range(by):
                if all((times * i + plus) // by * each == v - first for i, v in enumerate(values)):
                    return FloorLine(times, plus, by, first, each)
    return None
