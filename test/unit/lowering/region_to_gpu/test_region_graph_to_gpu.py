"""A graph of several kernels on the GPU: one module whose variants are sequences of launches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.passes.finish import finished
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback.agreement import tolerance_check
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs, reference
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

CHAIN = """
frontend.graph @chain(%X: !frontend.tensor<[M, K], f16>, %A: !frontend.tensor<[K, L], f16>,
    %b: !frontend.tensor<[L], f16>, %B: !frontend.tensor<[L, N], f16>, %C: !frontend.tensor<[N, K], f16>)
    -> (Z: !frontend.tensor<[M, K], f16>, H: !frontend.tensor<[M, L], f16>) {
  %0 = frontend.gemm %X, %A {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, L], f16>) -> !frontend.tensor<[M, L], f16>
  %1 = frontend.elementwise add %0, %b : (!frontend.tensor<[M, L], f16>, !frontend.tensor<[L], f16>) -> !frontend.tensor<[M, L], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[M, L], f16>
  %h = frontend.cast %2 : !frontend.tensor<[M, L], f16> -> !frontend.tensor<[M, L], f16>
  %3 = frontend.gemm %h, %B {acc = f32} : (!frontend.tensor<[M, L], f16>, !frontend.tensor<[L, N], f16>) -> !frontend.tensor<[M, N], f16>
  %4 = frontend.gemm %3, %C {acc = f32} : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N, K], f16>) -> !frontend.tensor<[M, K], f16>
  frontend.output %4, %h : !frontend.tensor<[M, K], f16>, !frontend.tensor<[M, L], f16>
}
"""  # noqa: E501


def lowered(module: ModuleOp, arch: str) -> gpu.ModuleOp:
    ctx = make_context()
    for name in ABOVE_GPU:
        build(name, arch).apply(ctx, module)
        verify(module)
    (found,) = module.ops
    assert isinstance(found, gpu.ModuleOp)
    return found


def agrees(graph: GraphOp, kernels: gpu.ModuleOp, sizes: dict[str, int]) -> str:
    """Run on the simulator and compare; the variant that ran."""
    inputs = make_inputs(graph, sizes)
    result = simulate(kernels, inputs, sizes)
    result.check()
    for spec, actual, wanted in zip(
        graph.outputs, result.outputs, reference(graph, inputs, sizes), strict=True
    ):
        assert tolerance_check(np.asarray(actual), wanted, spec.type.element_type) is None
    return result.variant or ""


SIZES = [
    {"M": 40, "K": 48, "L": 56, "N": 72},
    {"M": 6, "K": 10, "L": 4, "N": 14},
    {"M": 5, "K": 3, "L": 7, "N": 9},
    {"M": 5, "K": 3, "L": 0, "N": 8},
]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_two_products_run_as_one_sequence(arch: str, root: Path) -> None:
    text = (root / "examples" / "mlp.mlir").read_text()
    module = parse_text(make_context(), text, "mlp.mlir")
    (graph,) = module.clone().ops
    assert isinstance(graph, GraphOp)
    kernels = finished(lowered(module, arch))
    ran = [agrees(graph, kernels, sizes) for sizes in SIZES]
    first = "cp_async16" if arch == "sm_80" else "tma_"
    second = "cp_async4" if arch == "sm_80" else "cp_async"
    # No row of K or L is whole at last, and the first product has no K: each chooses by itself.
    last = "scalar_cp_async16" if arch == "sm_80" else "scalar"
    assert ran[0].startswith(f"mlp_{first}")
    assert ran[1:] == [f"mlp_{v}" for v in (second, "scalar", last)]


def test_a_stored_value_that_is_an_output_needs_no_workspace() -> None:
    module = parse_text(make_context(), CHAIN, "chain.mlir")
    (graph,) = module.clone().ops
    assert isinstance(graph, GraphOp)
    found = lowered(module, "sm_80")
    for sequence in found.dispatch().variants():
        spaces = [op.sym_name.data for op in sequence.workspaces() if op.copies is None]
        between = [name for name in spaces if not name.endswith("_sums")]
        # Sums of parts lie in a workspace too, and a launch more adds them.
        more = len(spaces) - len(between)
        runs = [op for op in sequence.launches() if op.fills is None]
        assert [len(between), len(runs)] == [1, 3 + more]
    agrees(graph, finished(found), {"M": 16, "K": 24, "L": 8, "N": 40})
