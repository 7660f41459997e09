"""Variants of several launches: their order, their workspaces, and grids of persistent kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.playback import tile
from polyc.playback.gpu import SimulationResult, simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation.verdict import Case, judge_all
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = NDArray[Any]

TEXT = """
gpu.module @two arch "sm_80" symbols [N] {
  gpu.kernel @twice(%X: !gpu.global<[N], f32> = tensor 0, %W: !gpu.global<[N + 1], f32> = workspace "W", %n: !gpu.global<[1], i32> = workspace "n", %N: index = symbol N) threads 32 {
    %block = gpu.block_id
    %thread = gpu.thread_id
    %at = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%block, %thread)
    %inside = arith.cmpi slt, %at, %N : index
    %x = gpu.load_global %X[%at : index] if %inside : !gpu.global<[N], f32> -> f32
    %y = arith.addf %x, %x : f32
    gpu.store_global %y, %W[%at : index] if %inside : f32, !gpu.global<[N + 1], f32>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : i32
    gpu.atomic_global "add" %one, %n[%zero : index] if %inside : i32, !gpu.global<[1], i32>
    gpu.return
  }
  gpu.kernel @turn(%W: !gpu.global<[N + 1], f32> = workspace "W", %n: !gpu.global<[1], i32> = workspace "n", %Y: !gpu.global<[N], f32> = tensor 1, %N: index = symbol N) threads 32 {
    %block = gpu.block_id
    %thread = gpu.thread_id
    %at = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%block, %thread)
    %inside = arith.cmpi slt, %at, %N : index
    %from = affine.apply affine_map<(d0)[s0] -> (s0 - 1 - d0)> (%at)[%N]
    %x = gpu.load_global %W[%from : index] if %inside : !gpu.global<[N + 1], f32> -> f32
    %zero = arith.constant 0 : index
    %count = gpu.load_global %n[%zero : index] : !gpu.global<[1], i32> -> i32
    %f = arith.sitofp %count : i32 to f32
    %y = arith.addf %x, %f : f32
    gpu.store_global %y, %Y[%at : index] if %inside : f32, !gpu.global<[N], f32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f32>) -> (Y: !gpu.global<[N], f32>) {
    gpu.sequence @both when (N >= 2) align [4, 4] {
      gpu.workspace "W" : !gpu.global<[N + 1], f32>
      gpu.workspace "n" zeroed : !gpu.global<[1], i32>
      gpu.launch @twice grid [(N + 31) floordiv 32]
      gpu.launch @turn grid [(N + 31) floordiv 32]
    }
  }
}
"""  # noqa: E501

N = 70


def module(*edits: tuple[str, str]) -> ModuleOp:
    text = TEXT
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return parse_text(make_context(), text, "two.mlir")


def run(*edits: tuple[str, str], **options: Any) -> SimulationResult:
    x = np.arange(N, dtype=np.float32)
    return simulate(module(*edits), [x], {"N": N}, **options)


def kinds(result: SimulationResult) -> set[str]:
    return {f.kind for f in result.findings}


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
def test_a_launch_sees_what_those_before_it_wrote(schedule: str) -> None:
    result = run(schedule=schedule)
    assert result.findings == []
    assert (result.variant, result.launches) == ("both", [("twice", 3), ("turn", 3)])
    assert result.grid == 6
    np.testing.assert_array_equal(result.outputs[0], 2 * np.arange(N)[::-1] + N)


def test_the_order_is_the_text_s() -> None:
    """The other way round, memory is read that nothing has written."""
    launches = [f"gpu.launch @{name} grid [(N + 31) floordiv 32]" for name in ("twice", "turn")]
    result = run((launches[0], "FIRST"), (launches[1], launches[0]), ("FIRST", launches[1]))
    assert "Uninitialised" in kinds(result)
    (found,) = (f for f in result.findings if f.kind == "Uninitialised")
    assert "the workspace W is read where no kernel has written it" in found.message


def test_a_workspace_holds_nothing_unless_it_is_zeroed() -> None:
    found = [f.message for f in run((" zeroed", "")).findings]
    assert found == ["the workspace n is updated where nothing has set it"]


def test_a_launch_of_no_blocks_is_none() -> None:
    result = run(("gpu.launch @turn", "gpu.launch @twice grid [N - 70]\n gpu.launch @turn"))
    assert result.findings == []
    assert result.launches == [("twice", 3), ("turn", 3)]


def test_workspaces_are_checked_within_a_launch() -> None:
    """Two CTAs that write one element of it collide, as anywhere in global memory."""
    index = "(d0 * 32 + d1)> (%block, %thread)\n    %inside"
    result = run((index, "(d1 + d0 * 0)> (%block, %thread)\n    %inside"))
    assert "DataRace" in kinds(result)


def test_the_conditions_are_the_sequence_s() -> None:
    with pytest.raises(PolycError) as caught:
        simulate(module(), [np.zeros(1, np.float32)], {"N": 1})
    assert caught.value.kind == "NoVariant" and caught.value.notes == (
        "both: N >= 2 does not hold",
    )
    with pytest.raises(PolycError, match="there is no kernel 'twice'; there are both"):
        run(variant="twice")


@pytest.mark.parametrize(
    ("multiprocessors", "cluster", "per_sm", "grid"),
    [(2, 1, 1, 2), (5, 1, 1, 3), (1, 1, 2, 2), (3, 2, 1, 2), (1, 2, 1, 2), (9, 4, 1, 4)],
)
def test_a_persistent_grid_fits_the_chip(
    multiprocessors: int, cluster: int, per_sm: int, grid: int
) -> None:
    """Whole clusters, and never none."""
    size = f" blocks_per_sm {per_sm}" * (per_sm > 1) + f" cluster {cluster}" * (cluster > 1)
    found = gpu_module_of(
        module(
            ('"sm_80"', '"sm_90a"'), ("threads 32", f"threads 32{size}"), ("32]", "32] persistent")
        )
    )
    launch = found.dispatch().launches()[0]
    assert launch.blocks({"N": N}, multiprocessors, found.kernels()[0]) == grid
    if cluster == 1:
        result = run(("32]", "32] persistent"), multiprocessors=multiprocessors)
        assert result.launches[0] == ("twice", min(3, multiprocessors))


def test_mutants_of_every_kernel_of_a_sequence_are_judged() -> None:
    x = np.arange(N, dtype=np.float32)
    (gpu,) = (op for op in module().ops)
    case = Case.of(gpu_module_of(gpu), "both", {"N": N}, [x], [2 * x[::-1] + N])
    verdicts = judge_all([case])
    assert {v.mutant.kernel for v in verdicts} == {"twice", "turn"}
    assert all(v.outcome == "caught" for v in verdicts if v.mutant.change == "remove it")


TILES = """
gpu.module @tiles arch "sm_80" symbols [M, N] {
  gpu.kernel @one(%X: !gpu.global<[M, N], f32> = tensor 0, %W: !gpu.global<[N, M], f32> = workspace "W", %M: index = symbol M, %N: index = symbol N) threads 128 {
    %i, %j = gpu.tile_coordinates[%M, %N] tile <16, 8> raster "row" 1
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[16, 8], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[16, 8], f32>
    gpu.map %acc : !gpu.fragment<[16, 8], f32> origin [%i, %j] ins(%X : !gpu.global<[M, N], f32> affine_map<(d0, d1)[s0, s1] -> (s0 + d0, s1 + d1)>) outs(%W : !gpu.global<[N, M], f32> affine_map<(d0, d1)[s0, s1] -> (s1 + d1, s0 + d0)>) {
    ^bb0(%a: f32, %x: f32):
      %y = arith.addf %x, %x : f32
      gpu.yield %y : f32
    }
    gpu.return
  }
  gpu.kernel @two(%W: !gpu.global<[N, M], f32> = workspace "W", %Y: !gpu.global<[N, M], f32> = tensor 1, %M: index = symbol M, %N: index = symbol N) threads 128 {
    %i, %j = gpu.tile_coordinates[%N, %M] tile <16, 8> raster "row" 1
    %one = arith.constant 1.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[16, 8], f32>
    gpu.fill %one, %acc : !gpu.fragment<[16, 8], f32>
    gpu.map %acc : !gpu.fragment<[16, 8], f32> origin [%i, %j] ins(%W : !gpu.global<[N, M], f32> affine_map<(d0, d1)[s0, s1] -> (s0 + d0, s1 + d1)>) outs(%Y : !gpu.global<[N, M], f32> affine_map<(d0, d1)[s0, s1] -> (s0 + d0, s1 + d1)>) {
    ^bb0(%a: f32, %x: f32):
      %y = arith.addf %x, %a : f32
      gpu.yield %y : f32
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[N, M], f32>) {
    gpu.sequence @turned align [4, 4] {
      gpu.workspace "W" : !gpu.global<[N, M], f32>
      gpu.launch @one grid [(M + 15) floordiv 16, (N + 7) floordiv 8]
      gpu.launch @two grid [(N + 15) floordiv 16, (M + 7) floordiv 8]
    }
  }
}
"""  # noqa: E501


def test_tiles_of_a_sequence() -> None:
    """Playback of the tile level, and without the first launch what was never written."""
    found = gpu_module_of(parse_text(make_context(), TILES, "tiles.mlir"))
    x = np.random.default_rng(0).standard_normal((33, 21)).astype(np.float32)
    (y,) = tile.run(found, [x], {"M": 33, "N": 21})
    np.testing.assert_array_equal(y, 2 * x.T + np.float32(1))
    found.dispatch().launches()[0].detach()
    (y,) = tile.run(found, [x], {"M": 33, "N": 21})
    assert np.isnan(y).all()
