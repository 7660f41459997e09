"""What the model of time counts of a kernel is what the simulator counts (S11.1).

Products and attentions have tests of their own (test_estimate, test_attention).  Here every block
reads what no other reads: what blocks share comes from a cache that the simulator does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.cost.device import device_of
from polyc.cost.time import work_of
from polyc.cost.values import Values
from polyc.dialects.frontend import GraphOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.on_demand import OnDemand
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.gpu_text import find, only
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

MMA = 2 * 16 * 8 * 16
"""Floating-point operations of an ``mma.sync`` of 16 bits."""


def reduced(shape: str, axes: str, left: str, kind: str = "mean") -> str:
    return f"""frontend.graph @g(%A: !frontend.tensor<{shape}, f16>)
    -> (B: !frontend.tensor<{left}, f16>) {{
  %0 = frontend.reduce {kind} %A axes {axes}
      : !frontend.tensor<{shape}, f16> -> !frontend.tensor<{left}, f16>
  frontend.output %0 : !frontend.tensor<{left}, f16>
}}"""


def example(name: str) -> str:
    return (ROOT / Path("examples", f"{name}.mlir")).read_text("utf-8")


TEXTS: Mapping[str, str] = {
    "softmax": example("softmax"),
    "column_softmax": example("column_softmax"),
    "conv_silu": example("conv_silu"),
    "columns": reduced("[M, N]", "[0]", "[N]"),
    "row_max": reduced("[M, N]", "[1]", "[M]", "max"),
    "middle": reduced("[B, M, N]", "[1]", "[B, N]"),
    "added": """frontend.graph @g(%A: !frontend.tensor<[M, N], f16>,
    %B: !frontend.tensor<[M, N], f32>) -> (C: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.cast %A : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M, N], f32>
  %1 = frontend.elementwise add %0, %B
      : (!frontend.tensor<[M, N], f32>, !frontend.tensor<[M, N], f32>)
      -> !frontend.tensor<[M, N], f32>
  frontend.output %1 : !frontend.tensor<[M, N], f32>
}""",
}


@cache
def lowered(name: str, arch: str) -> tuple[KernelOp, list[ScheduleOp], ModuleOp, OnDemand]:
    """A program's region and schedules, the program, and its kernels."""
    ctx = make_context()
    module = parse_text(ctx, TEXTS[name], "counts.mlir")
    program = module.clone()
    for stage, names in STAGES.items():
        if stage == "tiles":
            break
        for one in names:
            build(one, arch).apply(ctx, module)
    kernel = next(op.clone() for op in module.ops if isinstance(op, KernelOp))
    plans = [op.clone() for op in find(module, ScheduleOp)]
    build("region-to-gpu", arch).apply(ctx, module)
    return kernel, plans, program, OnDemand(gpu_module_of(module))


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "arch", "variant", "sizes"),
    [
        ("softmax", "sm_90a", "lanes", {"M": 32, "N": 64}),
        ("softmax", "sm_80", "warp_512", {"M": 8, "N": 512}),
        ("softmax", "sm_90a", "block_2048", {"M": 3, "N": 2048}),
        ("softmax", "sm_90a", "kept", {"M": 3, "N": 4096}),
        ("softmax", "sm_90a", "kept_split4", {"M": 2, "N": 4096}),
        ("softmax", "sm_90a", "team", {"M": 2, "N": 8192}),
        ("softmax", "sm_80", "chunks", {"M": 3, "N": 512}),
        ("row_max", "sm_90a", "warp", {"M": 8, "N": 1024}),
        ("column_softmax", "sm_90a", "panel", {"M": 128, "N": 128}),
        ("column_softmax", "sm_80", "panel_chunks", {"M": 128, "N": 128}),
        ("columns", "sm_90a", "vector", {"M": 256, "N": 64}),
        ("middle", "sm_80", "vector", {"B": 2, "M": 64, "N": 64}),
        ("added", "sm_90a", "vector", {"M": 16, "N": 256}),
        ("conv_silu", "sm_80", "cp_async16", {"N": 1, "H": 8, "W": 16, "C": 64, "F": 64}),
    ],
)
def test_blocks_bytes_and_products_are_those_of_a_run(
    name: str, arch: str, variant: str, sizes: dict[str, int]
) -> None:
    kernel, plans, program, kernels = lowered(name, arch)
    plan = next(p for p in plans if p.variant.data == variant)
    inputs = make_inputs(only(program, GraphOp), sizes, 0)
    result = simulate(kernels.holding(plan.kernel_name), inputs, sizes, plan.kernel_name)
    result.check()
    counted = result.counters
    work = work_of(Values(kernel, sizes), plan, device_of(arch))
    assert work.blocks == counted.ctas
    if plan.mma.data == "none":
        assert work.cache == counted.global_read_bytes + counted.global_write_bytes
        assert counted.mma == 0
    else:
        assert work.flops == MMA * counted.mma
