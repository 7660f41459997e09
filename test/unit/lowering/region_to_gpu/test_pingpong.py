"""Kernels whose consumers take turns: what they compute and take, and which plans have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp as GpuModule
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.pipeline import build
from polyc.passes.support.plan.estimate import estimate
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.pingpong_programs import CASES, turns
from polyc.test.support.split_programs import plain, run, wanted_of, written
from polyc.tools.play import play
from polyc.tools.registry import make_context

COUNTED = (
    *("ctas", "threads", "global_write_bytes", "shared_read_bytes", "shared_write_bytes"),
    *("bank_conflicts", "peak_shared_bytes", "tma_loads", "tma_bytes", "wgmma", "barriers"),
    "mbarrier_waits",
)
"""What a plan foretells, and the simulator counts."""


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_consumers_in_turns_compute_what_the_program_means(name: str, tmp_path: Path) -> None:
    """With no race in two interleavings, to the same bits; and the tiles mean it too."""
    make, fields, sizes = CASES[name]
    module, plan = make(), written(tmp_path, fields)
    inputs, wanted = wanted_of(module, sizes)
    kernels = gpu_module_of(run(module, "gpu", plan))
    names = [kernel.sym_name.data for kernel in kernels.kernels()]
    kernel = next(one for one in names if one.endswith("_tma"))
    first = simulate(kernels, inputs, sizes, variant=kernel)
    assert not first.findings
    assert_agree(first.outputs, wanted, name)
    second = simulate(
        kernels, inputs, sizes, variant=kernel, schedule="random", seed=3, completion="random"
    )
    assert not second.findings
    assert [a.tobytes() for a in first.outputs] == [b.tobytes() for b in second.outputs]
    planned = run(module, "plan", plan)
    schedule = next(op for op in find(planned, ScheduleOp) if op.variant.data == "tma")
    if schedule.pattern == "matmul":
        foretold = estimate(only(planned, KernelOp), schedule, sizes, MULTIPROCESSORS).as_dict()
        counted = {field: getattr(first.counters, field) for field in COUNTED}
        assert counted == {field: foretold[field] for field in COUNTED}


@pytest.mark.parametrize("name", ["an odd number of tiles", "a batch", "a convolution"])
def test_the_tiles_mean_the_same(name: str, tmp_path: Path) -> None:
    make, fields, sizes = CASES[name]
    module = make()
    inputs, wanted = wanted_of(module, sizes)
    tiles = run(module, "plan", written(tmp_path, fields))
    build("region-to-gpu", "sm_90a").apply(make_context(), tiles)
    assert any(loop.pingpong is not None for loop in find(tiles, tile.TileLoopOp))
    found = play(tiles, only(module, GraphOp).sym_name.data, inputs, sizes)
    assert found is not None
    assert_agree(list(found), wanted, name)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["three consumers", "wide tiles", "a residual", "two products"])
def test_nothing_spills(name: str, tmp_path: Path) -> None:
    make, fields, _ = CASES[name]
    module = run(make(), "gpu", written(tmp_path, fields))
    result = nvrtc.compile_cuda(cuda_source(only(module, GpuModule)), "sm_90a")
    (found,) = (one for kernel, one in result.kernels.items() if kernel.endswith("_tma"))
    assert not result.warnings() and not found.spill_bytes and not found.stack


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "one consumer": (
        turns(consumers=1, registers=[]),
        "BadPlan",
        "pingpong is of consumers that take turns, and there is 1; use 2",
    ),
    "a tile for two": (
        turns(tile=[128, 128, 64]),
        "BadPlan",
        "2 consumers of 64x128 do not make up the tile 128x128",
    ),
    "one tile a block": (
        turns(persistent=False, raster="row", group=1),
        "UnsupportedPlan",
        "a pingpong that region-to-gpu does not build yet; use false, or a persistent kernel",
    ),
    "a cluster": (
        turns(cluster=[2, 1]),
        "UnsupportedPlan",
        "a pingpong that region-to-gpu does not build yet; use cluster [1, 1]",
    ),
    "too much": (turns(256, stages=6), "ResourceExceeded", "bytes of shared memory"),
}


@pytest.mark.parametrize(("fields", "kind", "why"), REFUSED.values(), ids=REFUSED)
def test_turns_that_no_kernel_has_are_refused(
    fields: dict[str, Any], kind: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError) as refused:
        run(plain(), "gpu", written(tmp_path, fields))
    assert refused.value.kind == kind and why in refused.value.message
