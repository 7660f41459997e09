"""Views: a dense tensor's memory in other axes; consecutive ones are merged and split."""

from __future__ import annotations

import pytest

from polyc.dialects.common.dim import Dim, shape_text
from polyc.dialects.common.views import is_cut_anew, is_view, merged_axes

N, H, W, F, ONE, TWO = (*map(Dim.sym, "NHWF"), Dim.const(1), Dim.const(2))
HALF = (H + 1).floordiv(2)

PRODUCTS: list[tuple[list[Dim], list[Dim], list[list[int]] | None]] = [
    ([N * H * W, F], [N, H, W, F], [[0, 1, 2], [3]]),
    ([N * HALF * HALF, F], [N, HALF, HALF, F], [[0, 1, 2], [3]]),
    ([F, Dim.const(9)], [F, Dim.const(3), Dim.const(3)], [[0], [1, 2]]),
    ([N, H], [N, H], [[0], [1]]),
    ([N, H], [N, ONE, H, ONE], [[0], [1, 2]]),
    ([N, ONE, H], [N, H], [[0], [], [1]]),
    ([ONE], [], [[]]),
    ([], [ONE], []),
    ([H * N], [N], None),
    ([N], [N, H], None),
    ([N, F], [N, H], None),
    ([N * F, H], [N, H, F], None),
    ([N, H], [N * H], None),
    ([N * HALF], [N, H.floordiv(2)], None),
]


@pytest.mark.parametrize(
    ("view", "memory", "found"),
    PRODUCTS,
    ids=[f"{shape_text(v)}-{shape_text(m)}" for v, m, _ in PRODUCTS],
)
def test_each_axis_of_a_view_is_a_product(
    view: list[Dim], memory: list[Dim], found: list[list[int]] | None
) -> None:
    assert merged_axes(view, memory) == found


@pytest.mark.parametrize(
    ("view", "memory", "wanted"),
    [
        ([TWO * H, N, H], [TWO, H * N, H], True),
        ([N, F * H], [H * N, F], True),
        ([Dim.const(4), Dim.const(6)], [Dim.const(8), Dim.const(3)], True),
        ([Dim.const(4), Dim.const(6)], [Dim.const(6), Dim.const(4)], False),
        ([N, F], [F, N], False),
        ([TWO * N, F], [F, TWO * N], False),
        ([N, H], [N, H, F], False),
    ],
)
def test_axes_are_merged_and_split_and_do_not_move(
    view: list[Dim], memory: list[Dim], wanted: bool
) -> None:
    assert is_view(view, memory) is is_view(memory, view) is wanted


@pytest.mark.parametrize(
    ("view", "memory", "wanted"),
    [
        ([N, Dim.const(49), Dim.const(64)], [N, Dim.const(64), Dim.const(49)], False),  # turned
        ([N, Dim.const(98), Dim.const(32)], [N, Dim.const(64), Dim.const(49)], True),
        ([N, Dim.const(490), Dim.const(64)], [N, Dim.const(640), Dim.const(49)], True),
        ([N, Dim.const(98), Dim.const(64)], [N, Dim.const(64), Dim.const(49)], False),
        ([N, Dim.const(448), Dim.const(7)], [N, Dim.const(64), Dim.const(49)], False),
        ([Dim.const(64)], [N, Dim.const(64)], False),
    ],
)
def test_a_run_is_cut_into_other_lines(view: list[Dim], memory: list[Dim], wanted: bool) -> None:
    assert is_cut_anew(view, memory) is wanted
