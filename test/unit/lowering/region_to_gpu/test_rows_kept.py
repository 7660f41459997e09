"""Kernels that keep rows one after another: a block's own, and those that a team shares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.bench.any_axes import Problem, text_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.launches import WorkspaceOp
from polyc.dialects.gpu.types import GlobalType, index_attr
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.rows_in_turns import Turns
from polyc.lowering.region_to_gpu.rows_kept import Kept
from polyc.passes.finish import finished
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.row_plans import asked, mismatch
from polyc.test.support.row_programs import COLUMNS, PROGRAMS, RowProgram
from polyc.test.support.split_programs import leave_only
from polyc.tools.registry import make_context

NAMES = ("softmax", "layer_norm", "log_softmax", "residual", "masked_heads")
PARTS = 3
LENGTH = 2568
"""More than two blocks of a team have room for: the last one has none of its second chunk."""


def turns(name: str, folder: Path, parts: int, stages: int, **more: object) -> ModuleOp:
    """A program whose rows are kept by so many blocks of two warps, each of ``stages`` rows."""
    text = PROGRAMS[name].text
    region = only(parsed(text), GraphOp).sym_name.data
    plan: dict[str, object] = {
        "region": region,
        "variant": "team",
        "split_k": parts,
        "stages": stages,
        "tile": [1, 512, 6 if parts == 1 else 2],
        "warp_tile": "1x256",
        "when": [f"{PROGRAMS[name].row} mod 8 == 0", f"3072 - {PROGRAMS[name].row} >= 0"],
    }
    return asked(text, folder, "sm_80", **{**plan, **more})


def sizes_of(name: str) -> dict[str, int]:
    program = PROGRAMS[name]
    sizes = program.sizes(LENGTH)
    return {key: 7 if key == "M" else size for key, size in sizes.items()}


def panels(
    name: str, folder: Path, parts: int, stages: int, arch: str = "sm_80", **more: object
) -> ModuleOp:
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
    return asked(COLUMNS[name].text, folder, arch, **{**plan, **more})


def plays(program: RowProgram, module: ModuleOp, sizes: dict[str, int]) -> None:
    source = only(parsed(program.text), GraphOp)
    inputs = make_inputs(source, sizes)
    found = tile.run(only(module, gpu.ModuleOp), inputs, sizes)
    assert (unlike := mismatch(source, sizes, inputs, found)) is None, unlike


@pytest.mark.turns(2)
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


@pytest.mark.turns(2)
@pytest.mark.parametrize(("parts", "stages", "order"), [(1, 1, 1), (1, 3, 2), (PARTS, 2, 0)])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "residual"])
def test_threads_that_have_rows_in_turns(
    name: str, parts: int, stages: int, order: int, tmp_path: Path
) -> None:
    """Two teams, or blocks, have seven rows; none overtakes another, whatever runs first."""
    module = turns(name, tmp_path, parts, stages)
    runs(PROGRAMS[name], module, sizes_of(name), parts, *ORDERS[order])


@pytest.mark.turns(1)
@pytest.mark.parametrize("order", range(len(ORDERS)))
@pytest.mark.parametrize("stages", [1, 2])
def test_a_team_may_be_a_cluster(stages: int, order: int, tmp_path: Path) -> None:
    """It meets in distributed shared memory, and needs no workspace."""
    text = PROGRAMS["layer_norm"].text
    plan: dict[str, object] = {
        "region": "layer_norm",
        "variant": "team",
        "split_k": 4,
        "cluster": [1, 4],
        "stages": stages,
        "tile": [1, 512, 2],
        "warp_tile": "1x256",
        "when": ["N mod 8 == 0", "4096 - N >= 0"],
    }
    module = asked(text, tmp_path, "sm_90a", **plan)
    assert not any(isinstance(op, WorkspaceOp) for op in module.walk())
    runs(PROGRAMS["layer_norm"], module, sizes_of("layer_norm"), 4, *ORDERS[order])


@pytest.mark.parametrize(("rows", "length", "chip"), [(7, 520, 6), (1, 2568, 5), (2, 8, 4)])
def test_how_many_blocks_a_row_of_open_length_has(
    rows: int, length: int, chip: int, tmp_path: Path
) -> None:
    """One, where it needs no more; three of five where there are no other rows; one of one chunk.

    What is left of the chip is no team.
    """
    module = finished(only(turns("layer_norm", tmp_path, PARTS, 1), gpu.ModuleOp))
    sizes = {"M": rows, "N": length}
    (kernel,) = module.kernels()
    kernel.blocks_per_sm = index_attr(chip)
    source = only(parsed(PROGRAMS["layer_norm"].text), GraphOp)
    inputs = make_inputs(source, sizes)
    result = simulate(module, inputs, sizes, multiprocessors=1)
    result.check()
    assert mismatch(source, sizes, inputs, result.outputs) is None


@pytest.mark.parametrize("order", range(len(ORDERS)))
def test_teams_meet_whatever_runs_first(order: int, tmp_path: Path) -> None:
    module = turns("softmax", tmp_path, PARTS, 1)
    runs(PROGRAMS["softmax"], module, sizes_of("softmax"), PARTS, *ORDERS[order])


@pytest.mark.turns(2)
@pytest.mark.parametrize(("parts", "stages", "order"), [(1, 2, 0), (4, 1, 1), (4, 2, 2)])
@pytest.mark.parametrize("name", ["softmax", "residual"])
def test_threads_that_have_columns_in_turns(
    name: str, parts: int, stages: int, order: int, tmp_path: Path
) -> None:
    module = panels(name, tmp_path, parts, stages)
    runs(COLUMNS[name], module, COLUMNS[name].sizes(201), parts, *ORDERS[order])


@pytest.mark.turns(1)
@pytest.mark.parametrize(("rows", "order"), [(201, 0), (70, 1), (517, 2)])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_teams_walk_over(name: str, rows: int, order: int, tmp_path: Path) -> None:
    """Nothing is kept: blocks read their chunks again for each reduction; of 70 rows some have no
    points."""
    fields: dict[str, object] = {"algo_choice": {"rows": "streaming"}, "loader": "register"}
    fields["when"] = list[str]()
    wide = 16 if name == "residual" else 32
    module = panels(name, tmp_path, 4, 1, "sm_90a", tile=[16, wide, 1], **fields)
    runs(COLUMNS[name], module, COLUMNS[name].sizes(rows), 4, *ORDERS[order])


@pytest.mark.parametrize(
    ("op", "fields"),
    [
        ("l1_norm", {}),
        ("layer_norm", {"split_k": 2, "tile": [1, 2048, 3], "warp_tile": [1, 256]}),
        (
            "softmax",
            {"split_k": 3, "persistent": True, "tile": [1, 1024, 3], "warp_tile": [1, 128]},
        ),
    ],
)
def test_rows_of_single_elements_are_kept(
    op: str, fields: dict[str, object], tmp_path: Path
) -> None:
    """Copies of 4 bytes bring rows of an odd length, which no vector divides."""
    text = text_of(Problem(op, (2, 8209), (1,), "f32"))
    module = asked(text, tmp_path, "sm_90a", **fields)
    source = only(parsed(text), GraphOp)
    inputs = make_inputs(source, {})
    threads = finished(only(module, gpu.ModuleOp))
    (kernel,) = threads.kernels()
    if fields.get("persistent"):
        kernel.blocks_per_sm = index_attr(3)
    result = simulate(threads, inputs, {}, kernel.sym_name.data, multiprocessors=1, seed=1)
    result.check()
    assert mismatch(source, {}, inputs, result.outputs) is None
    found = nvrtc.compile_cuda(cuda_source(threads), "sm_90a")
    assert [info.spill_bytes for info in found.kernels.values()] == [0]


CLUSTERS = {
    "in turns": {"cluster": [1, 4]},
    "each a block": {"persistent": False},
}


@pytest.mark.turns(1)
@pytest.mark.parametrize("way", CLUSTERS)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_that_a_cluster_keeps(name: str, way: str, tmp_path: Path) -> None:
    """Its blocks meet in distributed shared memory: the last ones have no points of 70 rows."""
    module = panels(name, tmp_path, 4, 1, "sm_90a", **CLUSTERS[way])
    assert not any(isinstance(op, WorkspaceOp) for op in module.walk())
    plays(COLUMNS[name], module, COLUMNS[name].sizes(201))
    program, sizes = COLUMNS[name], COLUMNS[name].sizes(70)
    source = only(parsed(program.text), GraphOp)
    inputs = make_inputs(source, sizes)
    threads = finished(only(module, gpu.ModuleOp))
    found = nvrtc.compile_cuda(cuda_source(threads), "sm_90a")
    assert [info.spill_bytes for info in found.kernels.values()] == [0]
    for number, (schedule, completion) in enumerate(ORDERS):
        result = simulate(
            threads, inputs, sizes, schedule=schedule, completion=completion, seed=number
        )
        result.check()
        assert mismatch(source, sizes, inputs, result.outputs) is None


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


def test_teams_give_the_same_bits_in_any_order(tmp_path: Path) -> None:
    sizes = sizes_of("layer_norm")
    inputs = make_inputs(only(parsed(PROGRAMS["layer_norm"].text), GraphOp), sizes)
    module = finished(only(turns("layer_norm", tmp_path, PARTS, 1), gpu.ModuleOp))
    one, other = (
        simulate(module, inputs, sizes, multiprocessors=1, schedule=schedule, seed=7).outputs[0]
        for schedule in ("round-robin", "random")
    )
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "parts", "told"),
    [("layer_norm", 1, []), ("layer_norm", 3, ["[M, 3]", "[M, 3]", "[M, 2]"])],
)
def test_where_teams_meet(name: str, parts: int, told: list[str], tmp_path: Path) -> None:
    """A place for each block's part of each reduction of a row, and a counter for each level."""
    (kernel,) = only(turns(name, tmp_path, parts, 1), gpu.ModuleOp).kernels()
    kinds = [arg.type for arg in kernel.body.block.args if isinstance(arg.type, GlobalType)]
    spaces = [str(k).split("<")[1].split("],")[0] + "]" for k in kinds[4:]]
    assert spaces == told
    assert issubclass(Turns, Kept)


REFUSED = {
    "more blocks than threads": ({"split_k": 128}, "lets 128 blocks tell what a thread each hears"),
    "rows that do not fit": ({"tile": [1, 512, 1]}, "keeps a row of N in a tile of"),
    "several rows at once": (
        {"persistent": False, "split_k": 1},
        "stages belongs to tensor-core kernels",
    ),
    "what shared memory has not": ({"tile": [1, 512, 200]}, "ResourceExceeded"),
}


@pytest.mark.parametrize(("fields", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(fields: dict[str, object], why: str, tmp_path: Path) -> None:
    with pytest.raises(PolycError, match=why):
        turns("softmax", tmp_path, PARTS, 2, **fields)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_of_teams_spill_nothing(arch: str, tmp_path: Path) -> None:
    """As they are proposed, of all that needs most registers."""
    for program, variant in (("layer_norm", "team"), ("columns", "panel_team32")):
        text = COLUMNS["softmax"].text if program == "columns" else PROGRAMS[program].text
        module = parsed(text)
        for border in ABOVE_GPU:
            build(border, arch).apply(make_context(), module)
            if border == "plan-select":
                leave_only(module, variant)
        found = nvrtc.compile_cuda(cuda_source(finished(only(module, gpu.ModuleOp))), arch)
        assert [info.spill_bytes for info in found.kernels.values()] == [0]
