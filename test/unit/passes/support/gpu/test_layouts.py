"""Accumulator layouts: who holds which element, against the PTX ISA's figures."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.ir.affine import AffineExpr

from polyc.dialects.gpu.types import FragmentLayoutAttr
from polyc.passes.support.gpu.layouts import (
    fma_accumulator,
    fma_lane,
    fma_place,
    mma_sync_accumulator,
    wgmma_accumulator,
)
from polyc.test.support.evaluate import affine_value

Places = NDArray[np.int64]


def places(layout: FragmentLayoutAttr) -> tuple[Places, Places]:
    """Row and column of every (thread, register)."""
    threads, registers = layout.threads.data, layout.registers.data
    t, r = np.meshgrid(np.arange(threads), np.arange(registers), indexing="ij")
    row, column = (affine_value(e, [t, r]) for e in layout.map.data.results)
    shape = (threads, registers)
    return np.broadcast_to(row, shape), np.broadcast_to(column, shape)


def assert_each_once(layout: FragmentLayoutAttr, m: int, n: int) -> None:
    """(thread, register) to (row, column) is a bijection onto the tile."""
    row, column = places(layout)
    assert row.min() >= 0 and row.max() < m and column.min() >= 0 and column.max() < n
    counts = np.bincount((row * n + column).ravel(), minlength=m * n)
    assert counts.tolist() == [1] * (m * n)


@pytest.mark.parametrize("m", [64, 128, 192, 256])
@pytest.mark.parametrize("n", [8, 16, 24, 40, 64, 72, 128, 200, 256])
def test_wgmma_accumulator_holds_each_element_once(m: int, n: int) -> None:
    layout = wgmma_accumulator(m, n, (64, n))
    assert_each_once(layout, m, n)
    assert layout.threads.data * layout.registers.data == m * n


@pytest.mark.parametrize(
    ("m", "n", "warp_tile"),
    [
        (m, n, (wm, wn))
        for m, n in ((16, 16), (32, 64), (64, 64), (64, 96), (128, 128), (128, 256), (48, 160))
        for wm in (16, 32, 48, 64)
        for wn in (16, 32, 64, 80)
        if m % wm == 0 and n % wn == 0 and (m // wm) * (n // wn) <= 32
    ],
)
def test_mma_sync_accumulator_holds_each_element_once(
    m: int, n: int, warp_tile: tuple[int, int]
) -> None:
    layout = mma_sync_accumulator(m, n, warp_tile)
    assert_each_once(layout, m, n)
    assert layout.threads.data == 32 * (m // warp_tile[0]) * (n // warp_tile[1])


@pytest.mark.parametrize(
    ("warp_tile", "lanes"),
    [
        ((32, 16), (8, 4)),
        ((64, 32), (8, 4)),
        ((32, 64), (8, 4)),
        ((16, 32), (4, 8)),
        ((8, 64), (2, 16)),
        ((4, 128), (1, 32)),
    ],
)
@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True), (False, False)])
def test_fma_accumulator_holds_each_element_once(
    warp_tile: tuple[int, int], lanes: tuple[int, int], flags: tuple[bool, bool]
) -> None:
    """Lines that are not stored along k lie by four behind each other, for a load of 16 bytes."""
    layout = fma_accumulator(64, 128, warp_tile, *flags)
    assert_each_once(layout, 64, 128)
    row, column = places(layout)
    high, wide = lanes
    columns = warp_tile[1] // wide
    assert (row[:, columns] - row[:, 0] == (high if flags[0] else 1)).all()
    assert (column[:, 1] - column[:, 0] == (wide if flags[1] else 1)).all()


@pytest.mark.parametrize("lanes", [(8, 4), (4, 8), (2, 16), (1, 32)])
def test_fma_lane_is_the_one_that_has_a_place(lanes: tuple[int, int]) -> None:
    row, column = fma_place(AffineExpr.dimension(0), lanes)
    lane = fma_lane(row, column, lanes)
    assert [lane.eval([number], []) for number in range(32)] == [*range(32)]


def test_wgmma_accumulator_is_the_figure_of_the_isa() -> None:
    """PTX ISA, register fragment of D for m64nNk16: ``row = 16·warp + lane/4 + 8·(i/2 mod 2)``."""
    row, column = places(wgmma_accumulator(128, 64, (64, 64)))
    for thread in range(256):
        warpgroup, warp, lane = thread // 128, thread % 128 // 32, thread % 32
        for i in range(32):
            first = 64 * warpgroup + 16 * warp + lane // 4
            expected = (first + (8 if i % 4 >= 2 else 0), 8 * (i // 4) + 2 * (lane % 4) + i % 2)
            assert (row[thread, i], column[thread, i]) == expected


def test_mma_sync_accumulator_is_the_figure_of_the_isa() -> None:
    """PTX ISA, C of m16n8k16: groupID = lane/4; c0 c1 in its row, c2 c3 eight rows below.

    A warp has its blocks row by row, and warps tile the output row by row.
    """
    row, column = places(mma_sync_accumulator(64, 96, (32, 48)))
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        top, left = 32 * (warp // 2), 48 * (warp % 2)
        for block in range(2 * 6):
            for c in range(4):
                expected = (
                    top + 16 * (block // 6) + lane // 4 + 8 * (c // 2),
                    left + 8 * (block % 6) + 2 * (lane % 4) + c % 2,
                )
                register = 4 * block + c
                assert (row[thread, register], column[thread, register]) == expected


@pytest.mark.parametrize(
    ("m", "n", "warp_tile", "words"),
    [
        (128, 256, (64, 128), "64 rows and the whole width 256 of the tile, not 64x128"),
        (128, 64, (128, 64), "64 rows and the whole width 64 of the tile, not 128x64"),
        (96, 64, (64, 64), "64 rows"),
    ],
)
def test_wgmma_accumulator_refuses_another_warp_tile(
    m: int, n: int, warp_tile: tuple[int, int], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        wgmma_accumulator(m, n, warp_tile)
