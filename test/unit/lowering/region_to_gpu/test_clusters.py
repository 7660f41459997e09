"""Clusters of CTAs whose tiles lie beside each other: what they share, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp as GpuModule
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.pipeline import build
from polyc.passes.support.plan.estimate import estimate
from polyc.playback import tile as played
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.follow_programs import gate
from polyc.test.support.gpu_text import find, only
from polyc.test.support.split_programs import (
    HIGH,
    SMALL,
    WIDE,
    across,
    batched,
    gated,
    plain,
    residual,
    run,
    split,
    wanted_of,
    written,
)
from polyc.tools.registry import make_context


def beside(columns: int, tiles: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A plan whose clusters share the rows' operand."""
    chosen = {"cluster": [1, columns], "multicast": True, "persistent": False, "registers": []}
    return {**split(1, tiles), **chosen, **more}


def below(rows: int, tiles: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A plan whose clusters share the columns' operand, a tile a block."""
    return beside(1, tiles, cluster=[rows, 1], **more)


Case = tuple[Callable[[], ModuleOp], dict[str, Any], dict[str, int]]
CASES: dict[str, Case] = {
    "two tiles": (plain, beside(2, WIDE), {"M": 64, "N": 256, "K": 264}),
    "tails": (residual, beside(2, WIDE), {"M": 70, "N": 264, "K": 328}),
    "four of two warpgroups": (plain, beside(4, HIGH), {"M": 140, "N": 328, "K": 136}),
    "one column": (plain, beside(2, SMALL), {"M": 9, "N": 8, "K": 8}),
    "rows along k": (across, beside(2, SMALL), {"M": 70, "N": 136, "K": 72}),
    "a batch": (batched, beside(2, SMALL), {"B": 2, "M": 45, "N": 136, "K": 72}),
    "two products": (gated, beside(2, SMALL), {"M": 21, "N": 136, "K": 136}),
    "no multicast": (plain, beside(2, WIDE, multicast=False), {"M": 70, "N": 264, "K": 136}),
    "two below each other": (plain, below(2, WIDE), {"M": 128, "N": 128, "K": 264}),
    "rows of which one is outside": (residual, below(2, SMALL), {"M": 140, "N": 72, "K": 136}),
    "four below, rows along k": (across, below(4, WIDE), {"M": 70, "N": 136, "K": 72}),
    "two below that go on to other tiles": (
        residual,
        below(2, HIGH, persistent=True, registers=[40, 232]),
        {"M": 390, "N": 136, "K": 136},
    ),
    "such of rows across k": (
        across,
        below(2, HIGH, persistent=True, registers=[40, 232]),
        {"M": 384, "N": 72, "K": 328},
    ),
    "rows that are reduced": (
        lambda: gate(200),
        {"variant": "tma_low", "multicast": True},
        {"M": 70, "K": 136},
    ),
}

COUNTED = ("ctas", "tma_loads", "tma_bytes", "wgmma", "barriers", "mbarrier_waits")
"""What a plan foretells, and the simulator counts."""


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", CASES)
def test_neighbours_compute_what_they_mean(name: str, tmp_path: Path) -> None:
    make, fields, sizes = CASES[name]
    module, plan = make(), written(tmp_path, fields)
    inputs, wanted = wanted_of(module, sizes)
    kernels = gpu_module_of(run(module, "gpu", plan))
    own = f"{kernels.sym_name.data}_{fields['variant']}"
    found = simulate(kernels, inputs, sizes, own, schedule="random", seed=3, completion="random")
    assert not found.findings
    assert_agree(found.outputs, wanted, name)
    planned = run(module, "plan", plan)
    plans = (op for op in planned.ops if isinstance(op, ScheduleOp))
    schedule = next(op for op in plans if op.variant.data == fields["variant"])
    foretold = estimate(only(planned, KernelOp), schedule, sizes, MULTIPROCESSORS).as_dict()
    counted = {field: getattr(found.counters, field) for field in COUNTED}
    assert counted == {field: foretold[field] for field in COUNTED}


@pytest.mark.parametrize("name", ["tails", "two products", "rows that are reduced"])
def test_the_tiles_of_neighbours_mean_the_same(name: str, tmp_path: Path) -> None:
    make, fields, sizes = CASES[name]
    module = make()
    inputs, wanted = wanted_of(module, sizes)
    tiles = run(module, "plan", written(tmp_path, fields))
    build("region-to-gpu", "sm_90a").apply(make_context(), tiles)
    shared = [op for op in find(tiles, tile.CopyOp) if op.multicast is not None]
    assert len(shared) == 1
    kernels = gpu_module_of(tiles)
    own = f"{kernels.sym_name.data}_{fields['variant']}"
    assert_agree(played.run(kernels, inputs, sizes, own), wanted, name)


def test_nothing_spills(tmp_path: Path) -> None:
    plan = beside(2, WIDE, when=[])
    module = only(run(plain("M", 4096, 4096), "gpu", written(tmp_path, plan)), GpuModule)
    result = nvrtc.compile_cuda(cuda_source(module), "sm_90a")
    (found,) = (one for kernel, one in result.kernels.items() if kernel.endswith("_tma"))
    assert not result.warnings() and not found.spill_bytes and not found.stack
