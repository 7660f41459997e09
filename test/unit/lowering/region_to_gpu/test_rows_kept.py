"""Kernels that keep rows one after another: a block's own, and those that a team shares."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.types import index_attr
from polyc.passes.finish import finished
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.row_plans import asked, mismatch
from polyc.test.support.row_programs import COLUMNS, PROGRAMS, RowProgram

NAMES = ("softmax", "layer_norm", "log_softmax", "residual", "masked_heads")
PARTS = 3
LENGTH = 1288
"""The last block of a team has 264 elements of 512, or none of its second chunk."""


def turns(name: str, folder: Path, parts: int, stages: int, **more: object) -> ModuleOp:
    """A program whose rows are kept by so many blocks of two warps, each of ``stages`` rows."""
    text = PROGRAMS[name].text
    region = only(parsed(text), GraphOp).sym_name.data
    plan: dict[str, object] = {
        "region": region,
        "variant": "team64",
        "split_k": parts,
        "stages": stages,
        "tile": [1, 512, 4 if parts == 1 else 2],
        "warp_tile": "1x256",
        "when": [f"{PROGRAMS[name].row} mod 8 == 0", f"2048 - {PROGRAMS[name].row} >= 0"],
    }
    return asked(text, folder, "sm_80", **{**plan, **more})


def sizes_of(name: str) -> dict[str, int]:
    program = PROGRAMS[name]
    sizes = program.sizes(LENGTH)
    return {key: 7 if key == "M" else size for key, size in sizes.items()}


def panels(name: str, folder: Path, parts: int, stages: int) -> ModuleOp:
    """A program whose columns are kept by so many blocks of two warps, ``stages`` panels each."""
    f32 = name == "residual"
    plan: dict[str, object] = {
        "region": "rows",
        "variant": "panel",
        "split_k": parts,
        "stages": stages,
        "tile": [16, 32, 8 // parts],
        "warp_tile": [16, 16],
        "vectorize": 4 if f32 else 8,
        "when": [f"N mod {4 if f32 else 8} == 0", "256 - M >= 0"],
    }
    if f32:
        plan |= {"tile": [16, 16, 16 // parts], "warp_tile": [16, 8]}
    return asked(COLUMNS[name].text, folder, "sm_80", **plan)


def plays(program: RowProgram, module: ModuleOp, sizes: dict[str, int]) -> None:
    source = only(parsed(program.text), GraphOp)
    inputs = make_inputs(source, sizes)
    found = tile.run(only(module, gpu.ModuleOp), inputs, sizes)
    assert (unlike := mismatch(source, sizes, inputs, found)) is None, unlike


@pytest.mark.parametrize(("parts", "stages"), [(1, 3), (PARTS, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_rows_in_turns_play_as_the_graph(
    name: str, parts: int, stages: int, tmp_path: Path
) -> None:
    plays(PROGRAMS[name], turns(name, tmp_path, parts, stages), sizes_of(name))


@pytest.mark.parametrize(("parts", "stages"), [(1, 1), (4, 2)])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_in_turns_play_as_the_graph(
    name: str, parts: int, stages: int, tmp_path: Path
) -> None:
    """The last panel has columns that are not there, and the last block fewer points."""
    module = panels(name, tmp_path, parts, stages)
    plays(COLUMNS[name], module, COLUMNS[name].sizes(201))


ORDERS = [("round-robin", "late"), ("random", "random"), ("one-warp-ahead", "late")]


@pytest.mark.parametrize(("parts", "stages", "order"), [(1, 1, 1), (1, 3, 2), (PARTS, 2, 0)])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "residual"])
def test_threads_that_have_rows_in_turns(
    name: str, parts: int, stages: int, order: int, tmp_path: Path
) -> None:
    """Two teams, or blocks, have seven rows; none overtakes another, whatever runs first."""
    module = turns(name, tmp_path, parts, stages)
    runs(PROGRAMS[name], module, sizes_of(name), parts, *ORDERS[order])


@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_teams_meet_whatever_runs_first(order: int, tmp_path: Path) -> None:
    module = turns("softmax", tmp_path, PARTS, 1)
    runs(PROGRAMS["softmax"], module, sizes_of("softmax"), PARTS, *ORDERS[order])


@pytest.mark.parametrize(("parts", "stages", "order"), [(1, 2, 0), (4, 1, 1), (4, 2, 2)])
@pytest.mark.parametrize("name", ["softmax", "residual"])
def test_threads_that_have_columns_in_turns(
    name: str, parts: int, stages: int, order: int, tmp_path: Path
) -> None:
    module = panels(name, tmp_path, parts, stages)
    runs(COLUMNS[name], module, COLUMNS[name].sizes(201), parts, *ORDERS[order])


def runs(
    program: RowProgram,
    module: ModuleOp,
    sizes: dict[str, int],
    parts: int,
    schedule: str,
    completion: str,
) -> None:
    source = only(parsed(program.text), GraphOp)
    inputs = make_inputs(source, sizes)
    threads = finished(only(module, gpu.ModuleOp))
    (kernel,) = threads.kernels()
    kernel.blocks_per_sm = index_attr(2 * parts)
    result = simulate(
        threads,
        inputs,
        sizes,
        kernel.sym_name.data,
        multiprocessors=1,
        schedule=schedule,
        completion=completion,
        seed=1,
    )
    result.check()
    assert result.launches == [(kernel.sym_name.data, 2 * parts)]
    unlike = mismatch(source, sizes, inputs, result.outputs)
    assert unlike is None, unlike
