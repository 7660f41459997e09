"""Layouts as tables: evaluation, images, holders, and the way back to a map."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu.types import FragmentLayoutAttr
from polyc.passes.support.gpu.layouts import mma_sync_accumulator, wgmma_accumulator
from polyc.passes.support.gpu.spread import Spread, digits

ROW = AffineMap.from_callable(lambda i, j: (i,))
COLUMN = AffineMap.from_callable(lambda i, j: (j,))
PAIRS = AffineMap.from_callable(lambda i, j: (i, j // 2 % 4))

ACCUMULATORS = [
    (wgmma_accumulator(128, 80, (64, 80)), (128, 80)),
    (wgmma_accumulator(64, 256, (64, 256)), (64, 256)),
    (mma_sync_accumulator(128, 128, (64, 64)), (128, 128)),
]


@pytest.mark.parametrize(("layout", "sizes"), ACCUMULATORS)
def test_tables_and_map_say_the_same(layout: FragmentLayoutAttr, sizes: tuple[int, int]) -> None:
    spread = Spread.of(layout)
    m = layout.map.data
    for t in (0, 5, 33, len(spread.threads) - 1):
        for r in (0, 3, len(spread.registers) - 1):
            assert spread.at(t, r) == m.eval([t, r], [])
    assert Spread.of(spread.layout()) == spread
    assert spread.outside(sizes) is None
    assert spread.uncovered(sizes) is None
    assert spread.uncovered((sizes[0], sizes[1] + 1)) == (0, sizes[1])
    assert spread.outside((sizes[0], sizes[1] - 1)) is not None


@pytest.mark.parametrize(("layout", "sizes"), ACCUMULATORS)
@pytest.mark.parametrize("by", [ROW, COLUMN, PAIRS])
def test_an_image_has_what_the_thread_has(
    layout: FragmentLayoutAttr, sizes: tuple[int, int], by: AffineMap
) -> None:
    spread = Spread.of(layout)
    image = spread.image(by)
    which = spread.held(by, image)
    assert which == spread.ranks(by)
    assert Spread.of(image.layout()) == image
    for t in (0, 3, 37):
        for r in range(len(spread.registers)):
            assert image.at(t, which[r]) == by.eval(list(spread.at(t, r)), [])


def test_another_thread_holds_it() -> None:
    rows = Spread.of(wgmma_accumulator(64, 64, (64, 64))).image(ROW)
    one_a_thread = Spread(tuple((t // 2,) for t in range(128)), ((0,),))
    with pytest.raises(ValueError, match="another thread"):
        Spread.of(wgmma_accumulator(64, 64, (64, 64))).held(ROW, one_a_thread)
    assert len(rows.registers) == 2


def test_more_threads_may_hold_it() -> None:
    """A warp takes of what all threads of a block have; not the other way round."""
    own = AffineMap(1, 0, (AffineExpr.dimension(0),))
    warp, block = (Spread(tuple((0,) for _ in range(n)), ((0,), (1,))) for n in (32, 256))
    assert warp.held(own, block) == (0, 1)
    with pytest.raises(ValueError, match="32 threads hold it, not 256"):
        block.held(own, warp)


def test_thread_and_register_do_not_mix() -> None:
    t, r = AffineExpr.dimension(0), AffineExpr.dimension(1)
    with pytest.raises(ValueError, match="mixes"):
        Spread.of(FragmentLayoutAttr.of(32, 2, AffineMap(2, 0, ((t + r) // 2,))))


@given(
    st.lists(
        st.tuples(st.integers(2, 4), st.tuples(st.integers(0, 9), st.integers(0, 9))), max_size=4
    )
)
def test_digits_of_any_mixed_radix(parts: list[tuple[int, tuple[int, int]]]) -> None:
    points = [(7, 1)]
    for count, step in parts:
        points = [(x + i * step[0], y + i * step[1]) for i in range(count) for x, y in points]
    spread = Spread(tuple(points), ((0, 0),))
    assert Spread.of(spread.layout()) == spread


def test_no_digits() -> None:
    with pytest.raises(ValueError, match="digits"):
        digits([(0,), (1,), (3,), (5,)])
