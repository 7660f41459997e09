"""``gpu.tile_loop``: every tile has one CTA, in the raster's order, whatever the grid is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gpu_text import find, run
from polyc.test.support.turns import examples

TENSOR = "!gpu.global<[B, R, C], f32>"


def text(raster: str, group: int, more: str = "", cluster: int = 1, shares: int = 1) -> str:
    """Each tile gets the number 1 + 1000 * CTA + ordinal; ``shares`` threads share a CTA's."""
    share = f" share %thread of {shares}" if shares > 1 else ""
    order = f'raster "{raster}" {group} {more}{share}'
    return f"""gpu.module @m arch "sm_90a" symbols [B, R, C, G] {{
  gpu.kernel @k(%T: {TENSOR} = tensor 0, %B: index = symbol B, %R: index = symbol R,
      %C: index = symbol C) threads 32 {f"cluster {cluster} " if cluster > 1 else ""}{{
    %shares = arith.constant {shares} : index
    %thread = gpu.thread_id
    %block = gpu.block_id
    %works = arith.cmpi slt, %thread, %shares : index
    scf.if %works {{
      gpu.tile_loop (%b, %r, %c, %n) = [%B, %R, %C] tile <1, 3, 2> {order} {{
        %who = affine.apply affine_map<(d0, d1) -> (d0 * 1000 + d1 + 1)> (%block, %n)
        %as = arith.index_cast %who : index to i32
        %number = arith.sitofp %as : i32 to f32
        %inside = arith.cmpi slt, %r, %R : index
        gpu.store_global %number, %T[%b, %r, %c : index, index, index] if %inside : f32, {TENSOR}
      }}
    }}
    gpu.return
  }}
  gpu.dispatch () -> (T: {TENSOR}) {{
    gpu.launch @k align [4] grid [G * {cluster}]
  }}
}}
"""


def owners(
    source: str, batch: int, rows: int, columns: int, grid: int, seed: int = 0
) -> list[tuple[int, int, tuple[int, int, int]]]:
    """(CTA, ordinal, tile) of every tile that is inside the tensor."""
    module = run(source, "gpu-lower-coordinates", "gpu-linearize-access", "gpu-plan-shared-memory")
    assert not find(module, tile.TileLoopOp)
    # The output's other elements stay as they are, so that a tile is told by its first one.
    sizes = {"B": batch, "R": 3 * rows - 1, "C": 2 * columns - 1, "G": grid}
    result = simulate(gpu_module_of(module), [], sizes, schedule="random", seed=seed)
    assert {f.kind for f in result.findings} <= {"Unwritten"}
    first = result.outputs[0][:, ::3, ::2]
    found: list[tuple[int, int, tuple[int, int, int]]] = []
    for place in np.ndindex(*first.shape):
        number = first[place]
        assert number > 0, f"no CTA has tile {place}"
        b, r, c = (int(i) for i in place)
        found.append((int(number - 1) // 1000, int(number - 1) % 1000, (b, r, c)))
    return sorted(found)


def in_bands(rows: int, columns: int, group: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, group):
        for column in range(columns):
            for row in range(first, min(first + group, rows)):
                yield row, column


def curve(side: int) -> list[tuple[int, int]]:
    """The Hilbert curve by its recursion: a square is four curves, the outer two turned."""
    if side == 1:
        return [(0, 0)]
    half = side // 2
    inner = curve(half)
    found = [(c, r) for r, c in inner]
    found += [(r + half, c) for r, c in inner]
    found += [(r + half, c + half) for r, c in inner]
    found += [(half - 1 - c, side - 1 - r) for r, c in inner]
    return found


def expected(raster: str, rows: int, columns: int, group: int) -> list[tuple[int, int]]:
    match raster:
        case "row":
            return list(np.ndindex(rows, columns))
        case "column":
            return [(r, c) for c, r in np.ndindex(columns, rows)]
        case "grouped":
            return list(in_bands(rows, columns, group))
        case "shorter" if rows <= columns:
            return list(in_bands(rows, columns, group))
        case "shorter":
            return [(r, c) for c, r in in_bands(columns, rows, group)]
        case _:
            found: list[tuple[int, int]] = []
            for first in range(0, rows, group):
                height = min(group, rows - first)
                for left in range(0, columns, group):
                    width = min(group, columns - left)
                    inside = (
                        curve(group)
                        if (height, width) == (group, group)
                        else [(r, c) for c in range(width) for r in range(height)]
                    )
                    found += [(first + r, left + c) for r, c in inside]
            return found


RASTERS = [
    ("row", 1),
    ("column", 1),
    ("grouped", 3),
    ("shorter", 2),
    ("hilbert", 4),
    ("hilbert", 2),
]


@pytest.mark.parametrize(("raster", "group"), RASTERS)
@settings(max_examples=examples(8), deadline=None)
@given(
    batch=st.integers(1, 2),
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    grid=st.integers(1, 7),
)
def test_tiles_come_in_the_rasters_order(
    raster: str, group: int, batch: int, rows: int, columns: int, grid: int
) -> None:
    found = owners(text(raster, group), batch, rows, columns, grid)
    order = expected(raster, rows, columns, group)
    wanted = [
        (number % grid, number // grid, (b, *place))
        for number, (b, place) in enumerate((b, p) for b in range(batch) for p in order)
    ]
    assert found == sorted(wanted)


def test_reversed_rows_come_last_first() -> None:
    found = owners(text("row", 1, "reversed"), 1, 4, 3, 2)
    wanted = [(i % 2, i // 2, (0, 3 - i // 3, i % 3)) for i in range(12)]
    assert found == sorted(wanted)


@pytest.mark.parametrize("order", ["paired", "reversed paired"])
@pytest.mark.parametrize(("rows", "ctas"), [(4, 2), (5, 4), (1, 4)])
def test_pairs_of_rows_are_one_ctas(rows: int, ctas: int, order: str) -> None:
    """A row in the middle is by itself, and counts as one tile."""
    found = owners(text("row", 1, order), 2, rows, 3, ctas)
    counts, wanted = [0] * ctas, list[tuple[int, int, tuple[int, int, int]]]()
    pairs = [(b, r, c) for b in range(2) for r in range(-(-rows // 2)) for c in range(3)]
    for number, (batch, row, column) in enumerate(pairs):
        both = list(dict.fromkeys((row, rows - 1 - row)))
        for one in both if order == "paired" or len(both) == 1 else both[::-1]:
            cta = number % ctas
            wanted.append((cta, counts[cta], (batch, one, column)))
            counts[cta] += 1
    assert found == sorted(wanted)


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_a_cluster_takes_neighbouring_rows(rows: int) -> None:
    found = owners(text("grouped", 2, cluster=2), 1, rows, 3, 2)
    order = list(in_bands(-(-rows // 2), 3, 2))
    wanted = [
        (2 * (i % 2) + rank, i // 2, (0, 2 * r + rank, c))
        for i, (r, c) in enumerate(order)
        for rank in range(2)
        if 2 * r + rank < rows
    ]
    assert found == sorted(wanted)


def test_shares_take_turns() -> None:
    """Three threads share the tiles of a CTA; the ordinal counts all of them."""
    found = owners(text("row", 1, shares=3), 1, 5, 4, 2)
    assert found == sorted((i % 2, i // 2, (0, i // 4, i % 4)) for i in range(20))


def summed(share: str = "") -> str:
    """Each CTA's sum of the rows of its tiles, behind the loop and at each tile, where it began."""
    tensor = "!gpu.global<[G, S], f32>"
    return f"""gpu.module @m arch "sm_90a" symbols [R, G, S] {{
  gpu.kernel @k(%T: {tensor} = tensor 0, %R: index = symbol R, %G: index = symbol G,
      %S: index = symbol S) threads 32 {{
    %one = arith.constant 1 : index
    %ten = arith.constant 10 : index
    %half = arith.constant 0.5 : f32
    %block = gpu.block_id
    %sum, %wide = gpu.tile_loop (%r, %c, %n) = [%R, %one] tile <3, 1> raster "row" 1 {share}
        iter_args(%so_far = %ten, %x = %half) -> (index, f32) {{
      %as = arith.index_cast %so_far : index to i32
      %number = arith.sitofp %as : i32 to f32
      gpu.store_global %number, %T[%block, %n : index, index] : f32, {tensor}
      %more = arith.addi %so_far, %r : index
      %twice = arith.addf %x, %x : f32
      gpu.yield %more, %twice : index, f32
    }}
    %as = arith.index_cast %sum : index to i32
    %number = arith.sitofp %as : i32 to f32
    %both = arith.addf %number, %wide : f32
    %last = affine.apply affine_map<(s) -> (s - 1)> (%S)
    gpu.store_global %both, %T[%block, %last : index, index] : f32, {tensor}
    gpu.return
  }}
  gpu.dispatch () -> (T: {tensor}) {{
    gpu.launch @k align [4] grid [G]
  }}
}}
"""


def test_numbers_go_on_from_tile_to_tile() -> None:
    """Of 7 tiles 3 CTAs have 3, 2 and 2, a fourth one of 8 none; and of a CTA's every other one."""
    sizes = {"R": 21, "G": 8, "S": 4}
    for share, step in (("", 1), ("share %one of 2", 2)):
        module = run(summed(share), "gpu-lower-coordinates", "gpu-linearize-access",
                     "gpu-plan-shared-memory")  # fmt: skip
        for grid in (3, 8):
            sizes["G"] = grid
            found = simulate(gpu_module_of(module), [], sizes).outputs[0]
            for block in range(grid):
                so_far, wide = 10, 0.5
                for ordinal, number in enumerate(range(block, 7, grid)):
                    if share and ordinal % step != 1:
                        continue
                    assert found[block, ordinal] == so_far
                    so_far, wide = so_far + 3 * number, 2 * wide
                assert found[block, 3] == so_far + wide
