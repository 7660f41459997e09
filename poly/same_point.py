"""Whether an access takes unlike points to unlike elements (S7.1).

A producer whose elements are each wanted at one point of the consumer can be computed there, and
nothing is computed twice.  Two points that want one element refuse, and are shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSet

from polyc.affine import isl
from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects.index import moved_row
from polyc.dialects.index.attrs import at_least_zero


def two_points(map: AffineMap, domain: AffineSet, names: Sequence[str]) -> str | None:
    """Two points of ``domain`` that ``map`` takes to one element, as a clause.

    None where there are none.  ``names`` are those of the dimensions.  Raises
    ``IslLimitExceeded``.
    """
    dims = map.num_dims
    plain = {e.position for e in map.results if isinstance(e, AffineDimExpr)}
    if len(plain) == dims:
        return None
    shifted: list[AffineExpr] = [AffineDimExpr(dims + i) for i in range(dims)]
    rows = [*domain.constraints, *(moved_row(row, shifted) for row in domain.constraints)]
    for expr in map.results:
        other = expr.replace_dims_and_symbols(shifted, ())
        rows.append(constraint_of(linear_of(expr - other), equality=True))
    for axis in range(dims):
        if axis in plain:
            continue
        apart = at_least_zero(isl.canonical_expr(shifted[axis] - AffineDimExpr(axis) - 1))
        pairs = AffineSet(2 * dims, map.num_symbols, (*rows, apart))
        if (sample := isl.sample_point(pairs)) is not None:
            at, symbols = sample
            element = map.eval(list(at[:dims]), list(symbols))
            first, second = _point(names, at[:dims]), _point(names, at[dims:])
            return f"element {list(element)} is wanted at {first} and at {second}"
    return None


def _point(names: Sequence[str], at: Sequence[int]) -> str:
    return "[" + ", ".join(f"{n} = {v}" for n, v in zip(names, at, strict=True)) + "]"
