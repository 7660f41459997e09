"""``gpu-lower-coordinates``: every tile of a grid has one block, in the raster's order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.test.support.evaluate import Machine
from polyc.test.support.gpu_text import body_of, find, kernel, only, run
from polyc.test.support.turns import examples

ARGS = "%T: !gpu.global<[M, N], f32> = tensor 0, %M: index = symbol M, %N: index = symbol N"


def walk(
    m: int, n: int, sizes: tuple[int, int], raster: str, group: int = 8
) -> list[tuple[int, int]]:
    """The first element of each block's tile, block by block, from the lowered arithmetic."""
    rows, columns = sizes
    text = kernel(
        f"""
    %zero = arith.constant 0.0 : f32
    %r, %c = gpu.tile_coordinates[%M, %N] tile <{rows}, {columns}> raster "{raster}" {group}
    gpu.store_global %zero, %T[%r, %c : index, index] : f32, !gpu.global<[M, N], f32>""",
        ARGS,
    )
    module = run(text, "gpu-lower-coordinates")
    assert not find(module, tile.TileCoordinatesOp)
    blocks = -(-m // rows) * -(-n // columns)
    machine = Machine(threads=blocks, block=np.arange(blocks))
    _, big_m, big_n = only(module, KernelOp).body.block.args
    machine.set(big_m, m)
    machine.set(big_n, n)
    machine.run(body_of(module))
    (event,) = machine.events
    assert isinstance(event.op, hw.StoreGlobalOp)
    r, c = (event[i].tolist() for i in event.op.indices)
    return list(zip(r, c, strict=True))


def in_bands(rows: int, columns: int, group: int) -> Iterator[tuple[int, int]]:
    """The grouped raster as loops: bands of tile rows, in each down a column and then right."""
    for first in range(0, rows, group):
        for column in range(columns):
            for row in range(first, min(first + group, rows)):
                yield row, column


GRIDS = {
    "m": st.integers(1, 700),
    "n": st.integers(1, 700),
    "sizes": st.tuples(st.sampled_from([16, 48, 128]), st.sampled_from([16, 40, 256])),
}


@settings(max_examples=examples(100))
@given(**GRIDS, group=st.integers(1, 12))
def test_lower_tile_coordinates_grouped(m: int, n: int, sizes: tuple[int, int], group: int) -> None:
    rows, columns = -(-m // sizes[0]), -(-n // sizes[1])
    found = walk(m, n, sizes, "grouped", group)
    assert len(set(found)) == rows * columns
    assert found == [(r * sizes[0], c * sizes[1]) for r, c in in_bands(rows, columns, group)]


@settings(max_examples=examples(50))
@given(**GRIDS)
def test_lower_tile_coordinates_row_by_row(m: int, n: int, sizes: tuple[int, int]) -> None:
    found = walk(m, n, sizes, "row")
    assert found == [(r, c) for r in range(0, m, sizes[0]) for c in range(0, n, sizes[1])]


@settings(max_examples=examples(50))
@given(
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=5),
    raster=st.sampled_from(["row", "column", "grouped"]),
    group=st.integers(1, 4),
)
def test_lower_tile_coordinates_takes_axes_before_the_last_two_outermost(
    sizes: list[int], raster: str, group: int
) -> None:
    """Each matrix of the batch has its tiles one after another, in the raster's order."""
    steps = [1] * (len(sizes) - 2) + [2, 3]
    names = [f"S{i}" for i in range(len(sizes))]
    shape = ", ".join(names)
    coordinates = ", ".join(f"%c{i}" for i in range(len(sizes)))
    operands = ", ".join(f"%{name}" for name in names)
    tensor = f"!gpu.global<[{shape}], f32>"
    arguments = f"%T: {tensor} = tensor 0, "
    arguments += ", ".join(f"%{name}: index = symbol {name}" for name in names)
    tiles = ", ".join(map(str, steps))
    head = f"""
    %zero = arith.constant 0.0 : f32
    {coordinates} = gpu.tile_coordinates[{operands}] tile <{tiles}> raster "{raster}" {group}
    gpu.store_global %zero, %T[{coordinates} : {", ".join(["index"] * len(sizes))}] : f32, {tensor}
"""
    text = kernel(head, arguments, symbols=shape)
    module = run(text, "gpu-lower-coordinates")
    *outer, rows, columns = (-(-n // s) for n, s in zip(sizes, steps, strict=True))
    tiles_of = [(r, c) for r in range(rows) for c in range(columns)]
    if raster == "grouped":
        tiles_of = list(in_bands(rows, columns, group))
    if raster == "column":
        tiles_of = [(r, c) for c in range(columns) for r in range(rows)]
    wanted = [(*b, 2 * r, 3 * c) for b in np.ndindex(*outer) for r, c in tiles_of]
    machine = Machine(threads=len(wanted), block=np.arange(len(wanted)))
    for argument, size in zip(only(module, KernelOp).body.block.args[1:], sizes, strict=True):
        machine.set(argument, size)
    machine.run(body_of(module))
    (event,) = machine.events
    assert isinstance(event.op, hw.StoreGlobalOp)
    found = zip(*(np.broadcast_to(event[i], len(wanted)) for i in event.op.indices), strict=True)
    assert [tuple(int(x) for x in place) for place in found] == wanted


def test_a_large_grid_stays_in_32_bits() -> None:
    """The machine refuses an index beyond 2^31; the last tile of a long matrix is in reach."""
    text = kernel(
        """
    %zero = arith.constant 0.0 : f32
    %r, %c = gpu.tile_coordinates[%M, %N] tile <128, 128> raster "grouped" 8
    gpu.store_global %zero, %T[%r, %c : index, index] : f32, !gpu.global<[M, N], f32>""",
        ARGS,
    )
    module = run(text, "gpu-lower-coordinates")
    m, n = 2**31 - 128, 128
    machine = Machine(block=m // 128 - 1)
    _, big_m, big_n = only(module, KernelOp).body.block.args
    machine.set(big_m, m)
    machine.set(big_n, n)
    machine.run(body_of(module))
    (event,) = machine.events
    assert isinstance(event.op, hw.StoreGlobalOp)
    assert [int(event[i][0]) for i in event.op.indices] == [m - 128, 0]
