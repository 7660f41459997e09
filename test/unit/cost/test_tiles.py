"""Kernels in tiles by the model of time: those that plans make take what their plans say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.cost.tiles import tiles_time
from polyc.cost.time import Time, modelled
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import STAGES, build
from polyc.test.support.gpu_text import parsed
from polyc.test.support.root import ROOT
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

Launched = tuple[LaunchOp, GpuKernelOp]


def planned(name: str, arch: str) -> tuple[ModuleOp, dict[str, Launched]]:
    """An example with its plans, and the kernel in tiles of each of them."""
    module = parsed((ROOT / "examples" / f"{name}.mlir").read_text("utf-8"))
    ctx = make_context()
    for stage in ("tiny", "index", "region", "plan"):
        for pass_name in STAGES[stage]:
            run_pass(ctx, build(pass_name, arch), module)
    plans = module.clone()
    run_pass(ctx, build("region-to-gpu", arch), module)
    found: dict[str, Launched] = {}
    for op in module.ops:
        assert isinstance(op, GpuModuleOp)
        kernels = {k.sym_name.data: k for k in op.kernels()}
        found |= {v.kernel_name: (v, kernels[v.kernel_name]) for v in op.dispatch().launches()}
    return plans, found


def both(
    name: str, arch: str, sizes: Mapping[str, int], parted: bool = False
) -> Iterator[tuple[str, Time, Time]]:
    """For each variant of an example its name, what its plan takes, and what its tiles take; of
    those that are two kernels too where they are ``parted``."""
    plans, kernels = planned(name, arch)
    (region,) = (op for op in plans.ops if isinstance(op, KernelOp))
    for plan in plans.ops:
        if isinstance(plan, ScheduleOp):
            own = [kernels[name] for name in plan.kernel_names]
            if len(own) > 1 and not parted:
                continue
            tiles = tiles_time(region, own, sizes, arch)
            yield plan.variant.data, modelled(region, plan, sizes), tiles


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("size", [1024, 4096])
def test_products_take_what_their_plans_say(arch: str, size: int) -> None:
    rows = list(both("gemm_bias_relu", arch, dict.fromkeys("MKN", size)))
    assert len(rows) >= 4
    for name, plan, tiles in rows:
        # Rows of copies go out through shared memory, which tiles alone count: most where tiles are
        # low and wide.  So are columns of a tile of 192 that stand over the edge.
        near = 0.2 if name.startswith("padded") else 0.05
        # What the blocks of a cluster bring once for all of them tiles tell, and plans do not.
        shared = "_shared" in name
        near = 0.25 if shared else near
        assert tiles.seconds == pytest.approx(plan.seconds, rel=near), name
        assert shared or tiles.bound == plan.bound, name


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_convolutions_take_about_what_their_plans_say(arch: str) -> None:
    sizes = {"N": 32, "H": 28, "W": 28, "C": 128, "F": 128}
    rows = list(both("conv_silu", arch, sizes))
    assert len(rows) >= 2
    for name, plan, tiles in rows:
        assert tiles.seconds == pytest.approx(plan.seconds, rel=0.25), name


def test_tiles_of_keys_that_a_mask_hides_do_not_count() -> None:
    sizes = {"B": 4, "H": 16, "M": 4096, "N": 4096}
    rows = both("causal_attention", "sm_90a", sizes)
    _, plan, tiles = next(row for row in rows if row[0] == "tma")
    assert tiles.tensor == pytest.approx(plan.tensor, rel=0.1)
    assert tiles.seconds == pytest.approx(plan.seconds, rel=0.1)


@pytest.mark.parametrize("name", ["layer_norm", "softmax"])
def test_rows_move_what_their_plans_say(name: str) -> None:
    for variant, plan, tiles in both(name, "sm_90a", {"M": 8192, "N": 1024}):
        if variant == "warp":
            assert tiles.memory == pytest.approx(plan.memory, rel=0.05), variant
            assert tiles.seconds == pytest.approx(plan.seconds, rel=0.35), variant


def test_what_a_kernel_does_more_takes_longer() -> None:
    """Twice the launches take twice the start and more; nothing takes no time."""
    plans, kernels = planned("gemm_bias_relu", "sm_90a")
    (region,) = (op for op in plans.ops if isinstance(op, KernelOp))
    one = kernels["gemm_bias_relu_tma"]
    sizes = dict.fromkeys("MKN", 1024)
    alone = tiles_time(region, [one], sizes, "sm_90a")
    twice = tiles_time(region, [one, one], sizes, "sm_90a")
    assert twice.seconds > 1.5 * alone.seconds
    assert tiles_time(region, [one], {**sizes, "M": 0}, "sm_90a").seconds == 0
    longer = tiles_time(region, [one], {**sizes, "K": 8192}, "sm_90a")
    assert longer.tensor == pytest.approx(8 * alone.tensor, rel=0.05)
