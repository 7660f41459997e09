"""Questions about sizes: signs, quotients, and the factor groups of a reshape (S4.7)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation

from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.sizes import (
    divided,
    factor_groups,
    never_negative,
    quotient,
    window_count,
)
from polyc.dialects.frontend import GraphOp, OutputOp, tensor

M, N, K = (Dim.sym(s) for s in "MNK")


def at(*facts: Assumption) -> Operation:
    """An op in a graph with the symbols M, N and K."""
    graph = GraphOp("f", [tensor("MNK", f32)], [tensor("MNK", f32)], assumptions=facts)
    graph.body.block.add_op(op := OutputOp([graph.body.block.args[0]]))
    return op


EVEN = Assumption(K.mod(8), "==")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (M * N, M, N),
        (M * N * 4, N * 2, M * 2),
        (M * 2, M * 4, None),
        (M, N, None),
        (M + N, M, None),
        (M * N + N, N, M + 1),
        (M + N, M + N, Dim.const(1)),
        ((M + 1) * (N.floordiv(2) + K), N.floordiv(2) + K, M + 1),
        ((M - N) * (M + N), M + N, M - N),
        ((M + 1) * (N + 1) + 1, N + 1, None),
        (Dim.const(8), Dim.const(2), Dim.const(4)),
        (Dim.const(0), M, Dim.const(0)),
        (M, Dim.const(0), None),
    ],
)
def test_quotients(a: Dim, b: Dim, expected: Dim | None) -> None:
    assert quotient(a, b) == expected


def test_a_division_comes_out_even_by_the_assumptions() -> None:
    assert divided(K, Dim.const(8), at()) is None
    assert divided(K, Dim.const(8), at(EVEN)) == K.floordiv(8)
    assert divided(K, N, at(EVEN)) is None
    assert divided(K, Dim.const(0), at()) is None


@pytest.mark.parametrize(
    ("size", "facts", "given", "expected"),
    [
        (M, (), (), True),
        (M * N + K.floordiv(3) + 1, (), (), True),
        (M - 1, (), (), False),
        (M - 1, (Assumption(M - 1, ">="),), (), True),
        (M - 1, (), (M - 4,), True),
        (M * N - 1, (Assumption(M - 1, ">="), Assumption(N - 1, ">=")), (), False),
        (M - M.floordiv(2), (), (), True),
        (Dim.const(-1), (), (), False),
        (Dim.const(0), (), (), True),
        ((M - 1).floordiv(2), (), (), False),
        ((M + 1).floordiv(2), (), (), True),
    ],
)
def test_signs(
    size: Dim, facts: tuple[Assumption, ...], given: tuple[Dim, ...], expected: bool
) -> None:
    assert never_negative(size, at(*facts), given) is expected


@pytest.mark.parametrize(
    ("a", "b", "facts", "expected"),
    [
        ((M, N), (M, N), (), (((0,), (0,)), ((1,), (1,)))),
        ((M, N), (M * N,), (), (((0, 1), (0,)),)),
        ((M, N, K), (M * N, K), (), (((0, 1), (0,)), ((2,), (1,)))),
        ((M, N * 8, K), (M, N, 8, K), (), (((0,), (0,)), ((1,), (1, 2)), ((2,), (3,)))),
        ((M, N), (N, M), (), (((0, 1), (0, 1)),)),
        ((M, N), (M, N, 2), (), None),
        ((1, M), (M,), (), (((0,), ()), ((1,), (0,)))),
        ((M,), (M, 1), (), (((0,), (0,)), ((), (1,)))),
        ((), (), (), ()),
        ((), (1, 1), (), (((), (0,)), ((), (1,)))),
        ((0, M), (0, N), (), (((0, 1), (0, 1)),)),
        ((M, 0), (0,), (), (((0, 1), (0,)),)),
        ((0,), (M,), (), None),
        ((M, K), (M, K.floordiv(8), 8), (), None),
        ((M, K), (M, K.floordiv(8), 8), (EVEN,), (((0,), (0,)), ((1,), (1, 2)))),
        ((2, 3, 4), (6, 2, 2), (), (((0, 1), (0,)), ((2,), (1, 2)))),
        ((2, 6), (4, 3), (), (((0, 1), (0, 1)),)),
    ],
)
def test_factor_groups(
    a: tuple[Dim | int, ...],
    b: tuple[Dim | int, ...],
    facts: tuple[Assumption, ...],
    expected: object,
) -> None:
    left, right = tensor(a, f32).dims, tensor(b, f32).dims
    assert factor_groups(left, right, at(*facts)) == expected


@given(st.lists(st.integers(0, 6), max_size=5), st.data())
def test_groups_cover_both_shapes_with_equal_products(
    sizes: list[int], data: st.DataObject
) -> None:
    total = math.prod(sizes)
    other: list[int] = []
    rest = total
    while rest > 1 and len(other) < 4:
        factor = data.draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        other.append(factor)
        rest //= factor
    other.append(rest)
    groups = factor_groups(tensor(sizes, f32).dims, tensor(other, f32).dims, at())
    assert groups is not None
    assert [i for left, _ in groups for i in left] == list(range(len(sizes)))
    assert [j for _, right in groups for j in right] == list(range(len(other)))
    for left, right in groups:
        assert math.prod(sizes[i] for i in left) == math.prod(other[j] for j in right)


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_windows_are_those_that_fit(size: int, window: int, stride: int, dilation: int) -> None:
    reach = dilation * (window - 1) + 1
    starts = [o for o in range(0, size, stride) if o + reach <= size]
    count = window_count(Dim.sym("M"), Dim.const(window), stride, dilation).evaluate({"M": size})
    assert max(count, 0) == len(starts)
