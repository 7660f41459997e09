"""A short run of the random models that ``make fuzz`` sends down to kernels for long."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from polyc.dialects import frontend
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants, mutated
from polyc.test.fuzz import models
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.tools.parsing import parse_text

PARTS, EACH = 4, 2


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_models(part: int) -> None:
    reached = Counter[str]()
    for number in range(EACH):
        name = f"ci {part} {number}"
        assert models.fault(name, reached) is None, name
    assert reached["simulated"] >= EACH - 1, reached


LINEAR = """
frontend.graph @f(%x: !frontend.tensor<[M, 16], f16>, %w: !frontend.tensor<[16, 16], f16>,
    %b: !frontend.tensor<[16], f16>) -> (y: !frontend.tensor<[M, 16], f16>) {
  %0 = frontend.gemm %x, %w {acc = f32}
      : (!frontend.tensor<[M, 16], f16>, !frontend.tensor<[16, 16], f16>) -> !frontend.tensor<[M, 16], f16>
  %1 = frontend.elementwise add %0, %b
      : (!frontend.tensor<[M, 16], f16>, !frontend.tensor<[16], f16>) -> !frontend.tensor<[M, 16], f16>
  frontend.output %1 : !frontend.tensor<[M, 16], f16>
}
"""  # noqa: E501


def linear(ctx: Context) -> RandomProgram:
    return RandomProgram(parse_text(ctx, LINEAR, "linear.mlir"), {"M": 9})


def test_a_pass_that_drops_a_bias_is_seen(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    reached = Counter[str]()
    assert models.failure(linear(ctx), random.Random(0), reached) is None
    assert reached == {"on tensor cores": 1, "simulated": 1}
    run_pass = models.run_pass

    def wrong(ctx: Context, instance: ModulePass, module: ModuleOp, check: bool = True) -> None:
        if instance.name == "frontend-to-tiny":
            for op in [*module.walk()]:
                if isinstance(op, frontend.ElementwiseOp) and op.function == "add":
                    assert tensor_of(op.args[1]).rank == 1
                    op.result.replace_all_uses_with(op.args[0])
                    op.detach()
                    op.erase()
        run_pass(ctx, instance, module, check)

    monkeypatch.setattr(models, "run_pass", wrong)
    assert "tiny changes the result" in (models.failure(linear(ctx), random.Random(0)) or "")


def test_a_kernel_that_multiplies_less_is_seen(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every layer is right, and the simulated kernels miss one op."""

    def wrong(module: ModuleOp) -> object:
        right = gpu_module_of(module)
        product = ("gpu.mma_sync", "gpu.wgmma")
        missing = [m for m in mutants(right) if m.change == "remove it" and m.op in product]
        for kernel in dict.fromkeys(m.kernel for m in missing):
            right = mutated(right, next(m for m in missing if m.kernel == kernel))
        return right

    monkeypatch.setattr(models, "gpu_module_of", wrong)
    found = [models.failure(linear(ctx), random.Random(n)) for n in range(6)]
    assert any(why is not None and "output 0" in why for why in found), found


def test_every_piece_is_drawn() -> None:
    """Every piece is drawn, and a program is its number."""
    found = Counter[str]()
    for number in range(150):
        module = models.drawn(random.Random(f"kinds {number}")).module
        found.update({op.name.partition(".")[2] for op in module.walk()})
        (graph,) = module.ops
        assert isinstance(graph, GraphOp) and graph.outputs
    assert found.keys() >= {
        *("gemm", "conv2d", "attention", "layer_norm", "rms_norm", "softmax", "log_softmax"),
        *("elementwise", "cast", "reduce", "reshape", "permute", "pad", "slice", "concat"),
        "gather",
    }
    assert found["gemm"] >= 75 and found["attention"] >= 25 and found["conv2d"] >= 5
    one, other = (models.drawn(random.Random("7")) for _ in range(2))
    assert str(one.module) == str(other.module) and one.sizes == other.sizes
