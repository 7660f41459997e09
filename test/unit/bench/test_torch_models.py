"""What a dry run counts in each call, and once; and which GPUs cases are shared over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from polyc.bench import torch_models
from polyc.bench.torch_models import compile_beside, gpus_here, kernels_of
from polyc.cost.device import DEVICES
from polyc.passes.pipeline import STAGES, build
from polyc.rewriting.frontend.parameters import lift_parameters
from polyc.test.support.gpu_text import parsed
from polyc.tools.registry import make_context

X, W = "!frontend.tensor<[1, 64, 14, 14], f16>", "!frontend.tensor<[64, 64, 3, 3], f16>"
TEXT = f"""frontend.graph @g(%x: {X}) -> (Y: {X}) {{
  %w = frontend.parameter "w" : {W}
  %0 = frontend.conv2d nchw %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1
      {{acc = f32}} : ({X}, {W}) -> {X}
  frontend.output %0 : {X}
}}
"""


def test_weights_in_another_order_are_made_once() -> None:
    module = parsed(TEXT)
    lift_parameters(module)
    for stage in ("tiny", "index", "region", "plan"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(make_context(), module)
    each = list(kernels_of(module, DEVICES["sm_90a"]))
    once = list(kernels_of(module, DEVICES["sm_90a"], once=True))
    assert "conv" in [kernel.family for kernel in each]
    assert [kernel.text for kernel in once] == ["64x64x9 -> 64x9x64"]
    assert not {kernel.name for kernel in each} & {kernel.name for kernel in once}


def test_the_gpus_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    assert gpus_here() == ["2", "5"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert gpus_here() == []


def test_another_process_has_the_model_and_no_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It compiles what it is handed, for parameters that are as large as those of the model."""
    seen: list[tuple[object, str, dict[str, NDArray[Any]]]] = []

    class Warm:
        def warm(self) -> None:
            pass

    def compiled(source: object, arch: str, params: dict[str, NDArray[Any]]) -> Warm:
        seen.append((source, arch, params))
        return Warm()

    def nothing(name: str) -> None:
        pass

    monkeypatch.setattr(torch_models, "import_module", nothing)
    monkeypatch.setattr(torch_models.polyc, "compile", compiled)
    kinds = {"w": ("float16", [64, 64, 3, 3]), "s": ("bfloat16", [5])}
    (tmp_path / "params.json").write_text(json.dumps(kinds))
    compile_beside(tmp_path)
    ((source, arch, params),) = seen
    assert source == tmp_path / "model.mlir" and arch == "sm_90a"
    assert {n: (str(a.dtype), list(a.shape)) for n, a in params.items()} == kinds
