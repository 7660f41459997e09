"""Functions that repeat themselves: periods, clamped ones, and floors of lines."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir.affine import AffineExpr

from polyc.affine.repeating import (
    End,
    alone,
    at,
    clamped,
    floor_line,
    inner_and_ends,
    period_of,
)
from polyc.test.support.turns import examples

D0, D1, S0 = AffineExpr.dimension(0), AffineExpr.dimension(1), AffineExpr.symbol(0)


def value_of(place: AffineExpr, ends: tuple[End, ...], point: int) -> int:
    """A function at a point, by what it is inside and at its ends, further out ones last."""
    more = 0
    for end in ends:
        within = point <= end.last if end.in_front else point >= end.first
        more = end.more if within else more
    return at(place, point) + more


@given(st.integers(1, 7), st.integers(-9, 9), st.integers(1, 9))
def test_a_period_later_a_function_is_an_integer_further(step: int, plus: int, by: int) -> None:
    expr = (D0 * step + plus) // by
    period = period_of(expr)
    assert by % period == 0
    further = {at(expr, i + period) - at(expr, i) for i in range(3 * by)}
    assert len(further) == 1


def test_functions_of_an_axis_alone() -> None:
    assert alone((D1 * 3 + 1) // 2, 1) == (D0 * 3 + 1) // 2
    assert alone(D0 + D1, 1) is None and alone(D1 + S0, 1) is None
    assert alone(AffineExpr.constant(3), 0) is None


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(1, 4), st.integers(-8, 8), st.integers(1, 6), st.integers(1, 20), st.integers(1, 9)
)
def test_a_clamped_function_is_affine_for_its_points(
    step: int, plus: int, by: int, points: int, size: int
) -> None:
    expr = (D0 * step + plus) // by
    found = clamped(expr, points, size)
    wanted = [min(max(at(expr, i), 0), size - 1) for i in range(points)]
    outside = max(0, -at(expr, 0)) + max(0, at(expr, points - 1) - size + 1)
    assert (found is None) == (outside > 4)
    if found is None:
        return
    assert [at(found, i) for i in range(points)] == wanted
    inner, ends = inner_and_ends(found, points)
    assert [value_of(inner, ends, i) for i in range(points)] == wanted
    # What is left inside has no step, which would repeat itself after all points alone.
    assert period_of(inner) <= by or points <= by


def test_nothing_is_clamped_to_nothing() -> None:
    assert clamped(D0, 0, 3) is None and clamped(D0, 3, 0) is None


@settings(max_examples=examples(200), deadline=None)
@given(
    st.integers(0, 5), st.integers(0, 7), st.integers(1, 8), st.integers(1, 24), st.integers(1, 4)
)
def test_floors_of_lines_are_found(times: int, plus: int, by: int, count: int, each: int) -> None:
    values = [(times * i + plus) // by * each - 3 for i in range(count)]
    found = floor_line(values)
    assert found is not None
    assert [at(found.at(D0), i) for i in range(count)] == values


def test_what_is_no_line_is_refused() -> None:
    assert floor_line([0, 1, 0]) is None and floor_line([0, 1, 5]) is None
    assert floor_line([]) is None
