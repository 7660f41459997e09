"""Functions of one axis that repeat themselves: some points further they are an integer more.

``floor`` of a multiple, as the places are that an image is enlarged or shrunk by, is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineSymExpr

from polyc.affine.expressions import Floor, Linear, NotAffine, linear_of


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


def floor_line(values: Sequence[int]) -> tuple[int, int, int, int] | None:
    """``times``, ``plus``, ``by`` and ``base`` so that value ``i`` is ``floor((times * i + plus) /
    by) + base``, with the least ``by``; None where numbers follow no such line.
    """
    if not values:
        return None
    first, count = values[0], len(values)
    rise = values[-1] - first
    for by in range(1, count + 1):
        # The numbers' slope says that of the line but for less than one over all of them.
        low, high = ((rise + off) * by // max(count - 1, 1) for off in (-1, 1))
        for times in range(low, high + 2):
            for plus in range(by):
                if all((times * i + plus) // by == v - first for i, v in enumerate(values)):
                    return times, plus, by, first
    return None
