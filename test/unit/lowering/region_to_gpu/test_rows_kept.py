"""Rows that blocks keep in shared memory: read once, and walked there for each reduction."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile as tiles
from polyc.dialects.gpu.types import GlobalType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Record
from polyc.passes.finish import finish
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.row_plans import asked, mismatch
from polyc.test.support.row_programs import PROGRAMS
from polyc.tools.registry import make_context

SMALL: dict[str, dict[str, Any]] = {
    "kept": {"tile": [1, 512, 4], "warp_tile": "1x256", "when": ["N mod 8 == 0", "N <= 2048"]},
    "kept_split8": {
        "tile": [1, 512, 2],
        "warp_tile": "1x256",
        "when": ["N mod 8 == 0", "N <= 8192"],
    },
    "kept_split16": {
        "tile": [1, 512, 1],
        "warp_tile": "1x256",
        "when": ["N mod 8 == 0", "N <= 8192"],
    },
}
"""The variants in chunks that the simulator walks quickly."""


@cache
def programs(name: str, variant: str, folder: Path) -> tuple[gpu.ModuleOp, gpu.ModuleOp]:
    """A program in small chunks, at the tile level and as threads."""
    module = asked(PROGRAMS[name].text, folder, variant=variant, **SMALL[variant])
    found = only(module, gpu.ModuleOp)
    done = module.clone()
    finish(done)
    return found, only(done, gpu.ModuleOp)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


def named(module: gpu.ModuleOp, variant: str) -> str:
    names = [v.variant_name for v in module.dispatch().variants()]
    (found,) = [name for name in names if name.endswith(f"_{variant}")]
    return found


@pytest.mark.parametrize(
    ("name", "variant", "length"),
    [
        ("softmax", "kept", 8),
        ("softmax", "kept", 2048),
        ("layer_norm", "kept", 520),
        ("log_softmax", "kept", 1032),
        ("masked_heads", "kept", 1000),
        ("parts_of_a_sum", "kept", 1032),
        ("residual", "kept_split8", 1000),
        ("softmax", "kept_split8", 520),
        ("layer_norm", "kept_split8", 4104),
        ("residual", "kept_split8", 8192),
        ("log_softmax", "kept_split8", 8),
        ("layer_norm", "kept_split16", 6152),
    ],
)
def test_kept_rows_compute_the_graph(name: str, variant: str, length: int, folder: Path) -> None:
    """Rows of part of a chunk, of whole ones, and with a tail; blocks of a cluster without any."""
    found, threads = programs(name, variant, folder)
    source = only(parsed(PROGRAMS[name].text), GraphOp)
    sizes = {k: n if k == "N" else min(n, 2) for k, n in PROGRAMS[name].sizes(length).items()}
    inputs = make_inputs(source, sizes)
    full = named(found, variant)
    assert mismatch(source, sizes, inputs, tile.run(found, inputs, sizes, full)) is None
    result = simulate(threads, inputs, sizes, full, schedule="random", seed=length)
    result.check()
    assert mismatch(source, sizes, inputs, result.outputs) is None


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, 65504.0])
@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_numbers_that_are_apart(name: str, value: float, folder: Path) -> None:
    """In all of a row, and in the chunks of a few threads."""
    found, _ = programs(name, "kept", folder)
    source = only(parsed(PROGRAMS[name].text), GraphOp)
    sizes = PROGRAMS[name].sizes(1544)
    first, *rest = make_inputs(source, sizes)
    first[0] = value
    first[1, 500:600] = value
    with np.errstate(all="ignore"):
        outputs = tile.run(found, [first, *rest], sizes, named(found, "kept"))
        assert mismatch(source, sizes, [first, *rest], outputs) is None


def test_what_is_kept_is_read_once(folder: Path) -> None:
    """A copy from global memory of each tensor; every walk is of the shared tile."""
    found, _ = programs("layer_norm", "kept", folder)
    kernel = next(k for k in found.kernels() if k.sym_name.data.endswith("_kept"))
    copies = find(kernel, tiles.CopyOp)
    assert sum(isinstance(op.source.type, GlobalType) for op in copies) == 1
    assert len(copies) == 4


def test_rows_that_are_reduced_alone_are_not_kept() -> None:
    """One walk needs them once."""
    module = parsed(PROGRAMS["extremes"].text)
    for border in ABOVE_GPU[: ABOVE_GPU.index("plan-select") + 1]:
        build(border, "sm_90a").apply(make_context(), module)
    assert not any("kept" in plan.variant.data for plan in find(module, ScheduleOp))


def test_the_copies_are_waited_for_together(folder: Path) -> None:
    """One wait for all chunks of a row: in the loop that brings them it would take turns."""
    _, threads = programs("softmax", "kept", folder)
    kernel = next(k for k in threads.kernels() if k.sym_name.data.endswith("_kept"))
    (wait,) = find(kernel, hw.CpAsyncWaitOp)
    assert wait.parent_op() is kernel


def test_the_wait_for_the_copies_is_needed(folder: Path) -> None:
    _, threads = programs("softmax", "kept", folder)
    source = only(parsed(PROGRAMS["softmax"].text), GraphOp)
    mutant, sizes = threads.clone(), {"M": 1, "N": 1032}
    kernel = next(k for k in mutant.kernels() if k.sym_name.data.endswith("_kept"))
    find(kernel, hw.CpAsyncWaitOp)[0].detach()
    result = simulate(mutant, make_inputs(source, sizes), sizes, named(mutant, "kept"))
    assert result.findings


# Plans -----------------------------------------------------------------------------------------


def test_a_plan_says_what_is_kept(folder: Path) -> None:
    """How many chunks of how many bytes of which tensors, and by which loader."""
    module = parsed(PROGRAMS["residual"].text)
    for border in ABOVE_GPU[: ABOVE_GPU.index("plan-select") + 1]:
        build(border, "sm_90a").apply(make_context(), module)
    plans = {plan.variant.data: plan for plan in find(module, ScheduleOp)}
    plan = plans["kept_split8"]
    # f16 and f32: two chunks of 4096 are 48 KB, three 72.
    assert plan.tile_sizes == (1, 4096, 2) and plan.loader.data == "cp_async"
    kept = cast("list[Record]", plan.fields()["cache"])
    assert [(e["tensor"], e["bytes"]) for e in kept] == [("X", 2), ("R", 4)]
    assert plan.shared_bytes() == 2 * 4096 * 6
    # One block would keep no more than registers hold.
    assert "kept" not in plans
    assert ScheduleOp.from_json(plan.to_json()).fields() == plan.fields()


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({"tile": [1, 4096, 4]}, "BadPlan", "keeps a row of N in a tile of 16384 columns"),
        ({"tile": [1, 4096, 64]}, "ResourceExceeded", "524288 bytes of shared memory"),
        ({"loader": "register"}, "BadPlan", "keeps rows by loader register; it is cp_async"),
        ({"vectorize": 1}, "BadPlan", "cp.async copies 4, 8 or 16 bytes"),
        ({"tile": [1, 1024, 32], "warp_tile": [1, 128]}, "BadPlan", "make it a multiple"),
        ({"cache": []}, "BadPlan", "says cache"),
    ],
)
def test_a_plan_that_cannot_keep_is_refused(
    fields: dict[str, Any], kind: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError) as caught:
        asked(PROGRAMS["softmax"].text, tmp_path, variant="kept", **fields)
    assert reason in caught.value.message
    assert caught.value.kind == kind


@pytest.mark.parametrize(("start", "there"), [(0, True), (3, False), (8, False)])
def test_a_row_that_begins_inside_of_the_tensors_is_not_kept(start: int, there: bool) -> None:
    """cp.async copies vectors from where they are aligned; loads of threads may take others."""
    kind = "!frontend.tensor<[M, {}], f16>"
    wide, narrow = kind.format(65536), kind.format(65000)
    module = parsed(
        f"frontend.graph @part(%X: {wide}) -> (Y: {narrow}) {{\n"
        f"  %x = frontend.slice %X [0:M, {start}:{start + 65000}] : {wide} -> {narrow}\n"
        f"  %y = frontend.softmax %x axes [1] : {narrow}\n"
        f"  frontend.output %y : {narrow}\n}}\n"
    )
    for border in ABOVE_GPU[: ABOVE_GPU.index("plan-select") + 1]:
        build(border, "sm_90a").apply(make_context(), module)
    ways = {str(plan.fields()["algo_choice"]) for plan in find(module, ScheduleOp)}
    assert any("kept" in way for way in ways) == there
