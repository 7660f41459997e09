"""Programs that keep their parameters: what is made once, calls of all kinds, and CUDA graphs."""

# pyright: basic

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyc
from polyc.runtime import driver
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_memory import held_bytes
from polyc.test.support.gpu_text import parsed

# Two projections in one product, a folded scale, and a weight that is cast.
TEXT = """
frontend.graph @heads(%x: !frontend.tensor<[M, 256], f16>) -> !frontend.tensor<[M, 64], f16> {
  %q = frontend.parameter "q" : !frontend.tensor<[256, 64], f16>
  %k = frontend.parameter "k" : !frontend.tensor<[256, 64], f16>
  %w = frontend.concat %q, %k axis 1 : (!frontend.tensor<[256, 64], f16>, !frontend.tensor<[256, 64], f16>) -> !frontend.tensor<[256, 128], f16>
  %0 = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[M, 256], f16>, !frontend.tensor<[256, 128], f16>) -> !frontend.tensor<[M, 128], f16>
  %v = frontend.parameter "var" : !frontend.tensor<[128], f16>
  %s = frontend.elementwise rsqrt %v : !frontend.tensor<[128], f16>
  %1 = frontend.elementwise mul %0, %s : (!frontend.tensor<[M, 128], f16>, !frontend.tensor<[128], f16>) -> !frontend.tensor<[M, 128], f16>
  %o = frontend.parameter "out" : !frontend.tensor<[128, 64], f32>
  %h = frontend.cast %o : !frontend.tensor<[128, 64], f32> -> !frontend.tensor<[128, 64], f16>
  %2 = frontend.gemm %1, %h {acc = f32} : (!frontend.tensor<[M, 128], f16>, !frontend.tensor<[128, 64], f16>) -> !frontend.tensor<[M, 64], f16>
  frontend.output %2 : !frontend.tensor<[M, 64], f16>
}
"""  # noqa: E501


def params(seed: int) -> dict[str, Any]:
    dice = np.random.default_rng(seed)
    return {
        "q": dice.integers(-2, 3, (256, 64)).astype(np.float16),
        "k": dice.integers(-2, 3, (256, 64)).astype(np.float16),
        "var": dice.choice([0.25, 1, 4], 128).astype(np.float16),
        "out": dice.integers(-2, 3, (128, 64)).astype(np.float32),
    }


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_calls_take_data_alone(arch: str, tmp_path: Path) -> None:
    if not driver.device().runs(arch):
        pytest.skip(f"this GPU does not run {arch}")
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    dice = np.random.default_rng(0)
    for seed, way in enumerate(("file", "arrays", "on the GPU")):
        kept: Any = params(seed)
        if way == "file":
            polyc.write_params(path := tmp_path / "heads.safetensors", kept)
            given: Any = path
        else:
            given = kept
            if way == "on the GPU":
                given = {name: torch.from_numpy(one).cuda() for name, one in kept.items()}
        program = polyc.load(TEXT, arch, params=given)
        assert [name for name in program.described.made if name]
        for m in (1, 64, 300):
            x = dice.integers(-2, 3, (m, 256)).astype(np.float16)
            wanted = meant(parsed(TEXT), [x, *kept.values()], {"M": m})
            assert_agree(program.run([x]), wanted)
            there = torch.from_numpy(x).cuda()
            for _ in range(3):
                (y,) = program.run([there])
            there_too: Any = y
            out = torch.empty_like(there_too)
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                program.run([there], out=[out])
            captured.replay()
            torch.cuda.synchronize()
            assert_agree([there_too.cpu().numpy()], wanted)
            assert_agree([out.cpu().numpy()], wanted)


@pytest.mark.parametrize("way", ["host", "donated"])
def test_packed_weights_replace_the_originals(way: str) -> None:
    """Convolutions read their filters with the channels inside, which is made once: what lies on
    the GPU afterwards is one copy."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not driver.device().runs("sm_90a"):
        pytest.skip("this GPU does not run sm_90a")
    with torch.no_grad():
        layers = [torch.nn.Conv2d(1024, 1024, 3, padding=1, bias=False) for _ in range(3)]
        model = torch.nn.Sequential(*layers).half().eval()
        weights = sum(p.numel() * 2 for p in model.parameters())
        x = torch.randn(1, 1024, 8, 8).half() / 8
        wanted = model.float()(x.float())
        model.half()
        before, allocated = held_bytes(torch), torch.cuda.memory_allocated()
        if way == "donated":
            model.cuda()
        example = x.to(next(model.parameters()).device)
        exported = torch.export.export(model, (example,), strict=False)
        imported = polyc.from_exported(exported)
        compiled = polyc.compile(imported, donate=way == "donated")
        if way == "donated":
            assert not imported.parameters
        del model, layers, exported, imported, example
        gc.collect()
        there = x.cuda()
        for _ in range(2):
            y = compiled(there)
        assert float((y.float().cpu() - wanted).abs().max()) < 0.02 * float(wanted.abs().max())
        del y
        held = held_bytes(torch) - before
        # Workspaces of images and what PyTorch rounds up are beside the weights.
        assert weights <= held < weights + (8 << 20), (weights, held)
        assert torch.cuda.memory_allocated() - allocated < weights // 8
