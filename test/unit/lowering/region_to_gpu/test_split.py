"""Kernels of clusters that split k: what they compute and take, and which plans have none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import build
from polyc.passes.support.plan.estimate import estimate
from polyc.playback import tile as played
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.split_programs import (
    HIGH,
    SMALL,
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
from polyc.tools.polyc import main
from polyc.tools.registry import make_context

CASES: dict[str, tuple[Callable[[], ModuleOp], dict[str, Any], dict[str, int]]] = {
    "whole tiles": (plain, split(2), {"M": 64, "N": 128, "K": 512}),
    "tails": (plain, split(4), {"M": 70, "N": 136, "K": 328}),
    "one row": (plain, split(8, SMALL), {"M": 1, "N": 72, "K": 1032}),
    "fewer steps than parts": (plain, split(8), {"M": 17, "N": 24, "K": 136}),
    "one step": (plain, split(4), {"M": 9, "N": 8, "K": 8}),
    "two warpgroups": (plain, split(8, HIGH), {"M": 70, "N": 64, "K": 584}),
    "bf16": (lambda: plain(element=bf16), split(2, HIGH), {"M": 100, "N": 40, "K": 264}),
    "a residual": (residual, split(2, HIGH), {"M": 129, "N": 72, "K": 200}),
    "an output in f32": (across, split(4, HIGH), {"M": 77, "N": 56, "K": 456}),
    "a batch": (batched, split(2, SMALL), {"B": 3, "M": 45, "N": 72, "K": 200}),
    "two products": (gated, split(2, SMALL), {"M": 21, "N": 88, "K": 328}),
}


COUNTED = (
    *("ctas", "threads", "global_write_bytes", "shared_read_bytes", "shared_write_bytes"),
    *("bank_conflicts", "peak_shared_bytes", "tma_loads", "tma_bytes", "wgmma", "barriers"),
    "mbarrier_waits",
)
"""What a plan foretells, and the simulator counts."""


INTERLEAVED = ("tails", "fewer steps than parts", "two warpgroups", "two products")
"""Cases that run twice: parts with and without steps, warpgroups, and several accumulators."""


# What they compute ---------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_a_split_product_computes_what_it_means(name: str, tmp_path: Path) -> None:
    """With no race, and what its plan foretells; some the same bits in another interleaving."""
    make, fields, sizes = CASES[name]
    module, plan = make(), written(tmp_path, fields)
    inputs, wanted = wanted_of(module, sizes)
    kernels = gpu_module_of(run(module, "gpu", plan))
    kernel = next(k for k in kernels.kernels() if k.sym_name.data.endswith("_tma"))
    assert kernel.cluster_size == fields["split_k"]
    own = kernel.sym_name.data
    first = simulate(kernels, inputs, sizes, own)
    assert first.variant == kernel.sym_name.data and not first.findings
    assert_agree(first.outputs, wanted, name)
    planned = run(module, "plan", plan)
    plans = (op for op in planned.ops if isinstance(op, ScheduleOp))
    schedule = next(op for op in plans if op.variant.data == fields["variant"])
    foretold = estimate(only(planned, KernelOp), schedule, sizes, MULTIPROCESSORS).as_dict()
    counted = {field: getattr(first.counters, field) for field in COUNTED}
    assert counted == {field: foretold[field] for field in COUNTED}
    if name not in INTERLEAVED:
        return
    second = simulate(kernels, inputs, sizes, own, schedule="random", seed=3, completion="random")
    assert not second.findings
    assert [a.tobytes() for a in first.outputs] == [b.tobytes() for b in second.outputs]


@pytest.mark.parametrize("name", CASES)
def test_the_tiles_of_a_split_product_mean_the_same(name: str, tmp_path: Path) -> None:
    make, fields, sizes = CASES[name]
    module, plan = make(), written(tmp_path, fields)
    inputs, wanted = wanted_of(module, sizes)
    tiles = run(module, "plan", plan)
    build("region-to-gpu", "sm_90a").apply(make_context(), tiles)
    kernels = gpu_module_of(tiles)
    kernel = next(k for k in kernels.kernels() if k.sym_name.data.endswith("_tma"))
    assert find(kernel, tile.ReduceScatterOp)
    found = played.run(kernels, inputs, sizes, kernel.sym_name.data)
    assert_agree(list(found), wanted, name)


# Refusals ------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too many": (split(1025), "cuts the steps of a tile into 1025 parts; use 1024 or less"),
    "persistent": (split(2, persistent=True), "a persistent kernel does not have; use persistent"),
    "a cluster": (split(2, cluster=[2, 1]), "takes the CTAs of a cluster for itself; use it with"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_split_that_no_kernel_has_is_refused(name: str, tmp_path: Path) -> None:
    plan, why = REFUSED[name]
    with pytest.raises(PolycError) as refused:
        run(plain(), "gpu", written(tmp_path, plan))
    assert refused.value.kind == "UnsupportedPlan" and why in refused.value.message


def test_a_users_plan_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, out = tmp_path / "plain.mlir", tmp_path / "plain.cu"
    program.write_text(str(plain()))
    plan = written(tmp_path, split(4))
    options = ["--arch", "sm_90a", "--plan", plan, "--emit", "cuda", "-o", str(out)]
    assert main(["compile", str(program), *options]) == 0
    capsys.readouterr()
    assert "__cluster_dims__(4, 1, 1)" in out.read_text()
