"""What is decided of expressions where dims have known sizes."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSymExpr

from polyc.affine.expressions import Floor, canonical_expr, decided, linear_of

X, Y, Z = (AffineDimExpr(i) for i in range(3))
S = AffineSymExpr(0)


@pytest.mark.parametrize(
    ("given", "sizes", "found"),
    [
        (X + (Y * 64 + Z) // 1024, (8, 16, 64), X),
        ((Y * 64 + Z + 1024) // 1024, (8, 16, 64), canonical_expr(X * 0 + 1)),
        ((Y * 64 + Z) % 1024, (8, 16, 64), Y * 64 + Z),
        ((Y * 64 + Z) // 1024, (8, 17, 64), (Y * 64 + Z) // 1024),
        (Y // 16, (8, None, 64), Y // 16),
        ((Y + S) // 16, (8, 16, 64), (Y + S) // 16),
        ((Z - Y) // 64, (8, 1, 64), canonical_expr(X * 0)),
        ((Z - Y) // 64, (8, 2, 64), (Z - Y) // 64),
        ((X // 8 * 4 + Y) // 4, (8, 5, 1), Y // 4),
    ],
)
def test_floors_that_have_one_value_are_that(
    given: AffineExpr, sizes: tuple[int | None, ...], found: AffineExpr
) -> None:
    assert canonical_expr(decided(given, sizes)) == canonical_expr(found)


@st.composite
def sums(draw: st.DrawFn, deep: int = 2) -> AffineExpr:
    """A sum of dims, of a constant and of floors of such sums."""
    total = canonical_expr(X * 0 + draw(st.integers(-9, 9)))
    for dim in (X, Y, Z):
        total = total + dim * draw(st.integers(-5, 5))
    if deep and draw(st.booleans()):
        inner = draw(sums(deep - 1)) // draw(st.integers(1, 12))
        total = total + inner * draw(st.integers(-3, 3))
    return total


@given(sums(), st.tuples(*[st.integers(1, 4)] * 3))
def test_what_is_decided_is_the_same_everywhere(
    expr: AffineExpr, sizes: tuple[int, int, int]
) -> None:
    found = decided(expr, sizes)
    for point in product(*map(range, sizes)):
        assert found.eval(list(point), []) == expr.eval(list(point), [])


def test_a_floor_inside_of_one_that_stays_is_decided() -> None:
    found = linear_of(decided((Y + X // 8) // 4, (8, 9, 1)))
    ((atom, _),) = found.terms
    assert isinstance(atom, Floor) and atom.num == linear_of(Y)
