"""How blocks part the space of a kernel's outputs (S8, S9)."""

from __future__ import annotations

from xdsl.ir import Block

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import BlockIdOp, ClusterRankOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Value
from polyc.lowering.region_to_gpu.grid import Axis, Grid, blocks_of
from polyc.rewriting.emit import INDEX, Emit

M, N = Dim.sym("M"), Dim.sym("N")


def plan() -> ScheduleOp:
    """A schedule of tiles of 128x256."""
    fields: dict[str, Value] = {"mma": "wgmma", "loader": "tma", "tile": [128, 256, 64]}
    return ScheduleOp(
        "r",
        "v",
        {**fields, "arch": "sm_90a", "tensorize": "acc", "stages": 4, "warp_tile": [64, 256]},
    )


def emitted(grid: Grid, schedule: ScheduleOp) -> tuple[list[type], set[str]]:
    """The ops that find a tile's place, and the axes that have one."""
    emit, block = Emit(), Block(arg_types=[INDEX] * len(grid.axes))
    at = grid.coordinates(emit, list(block.args), schedule)
    return [type(op) for op in emit.ops], set(at)


def test_a_block_has_a_tile_of_the_plan_s() -> None:
    """And one point of each axis before it, which needs no division."""
    rows, columns, _ = plan().tile_sizes
    grid = Grid.of(plan(), [("B", Dim.sym("B"))], ("m", M), ("n", N))
    assert grid.tile == [1, rows, columns]
    assert grid.blocks() == [Dim.sym("B"), M.ceildiv(rows), N.ceildiv(columns)]
    assert emitted(grid, plan()) == ([tile.TileCoordinatesOp], {"B", "m", "n"})


def test_clusters_are_whole() -> None:
    """Neighbours along an axis are there beyond its end; those of one tile are more blocks."""
    beside = Grid((Axis("m", M, 128, beside=2), Axis("n", N, 64)))
    assert beside.blocks() == [M.ceildiv(256) * 2, N.ceildiv(64)]
    columns = Grid((Axis("m", M, 64), Axis("n", N, 256, beside=4)))
    kinds, _ = emitted(columns, plan())
    assert kinds[:2] == [tile.TileCoordinatesOp, ClusterRankOp]
    assert Grid((Axis("m", M, 64), Axis("n", N, 64)), share=8).blocks()[-1] == N.ceildiv(64) * 8


def test_one_axis_is_in_the_order_of_the_blocks() -> None:
    kinds, at = emitted(Grid((Axis("r", M, 4),), share=8), plan())
    assert kinds[0] is BlockIdOp and at == {"r"} and tile.TileCoordinatesOp not in kinds


def test_an_output_without_an_axis_has_a_block() -> None:
    assert Grid(()).blocks() == [Dim.const(1)] and Grid((), share=8).blocks() == [Dim.const(8)]
    assert emitted(Grid(()), plan()) == ([], set())


def test_spaces_are_parted_one_after_another() -> None:
    first, second = Grid((Axis("m", M, 4), Axis("n", N))), Grid((Axis("n", N, 8),))
    assert blocks_of([first]) == first.blocks()
    assert blocks_of([first, second]) == [M.ceildiv(4) * N + N.ceildiv(8)]
