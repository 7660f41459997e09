"""``polyc bench``: the model's table without a GPU, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from polyc.runtime import driver
from polyc.runtime.safetensors import write_params
from polyc.tools.commands.command_line import run

T = "!frontend.tensor<[M, 64], f16>"
W = "!frontend.tensor<[64, 64], f16>"
GRAPH = f"""frontend.graph @net(%x: {T}) -> {T} {{
  %w = frontend.parameter "w" : {W}
  %0 = frontend.gemm %x, %w {{acc = f32}} : ({T}, {W}) -> {T}
  %1 = frontend.elementwise tanh %0 : {T}
  %2 = frontend.gemm %1, %w {{acc = f32}} : ({T}, {W}) -> {T}
  %3 = frontend.elementwise tanh %2 : {T}
  frontend.output %3 : {T}
}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setattr(driver, "available", lambda: False)
    (tmp_path / "net.mlir").write_text(GRAPH)
    write_params(tmp_path / "net.safetensors", {"w": np.ones((64, 64), np.float16)})
    return str(tmp_path / "net.mlir"), str(tmp_path / "net.safetensors")


def test_the_model_speaks_without_a_gpu(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    text, params = files
    assert run(["bench", text, "--params", params, "--set", "M=256"]) == 0
    out = capsys.readouterr().out
    assert "@net at M=256, sm_90a, no GPU: by the model of time" in out
    assert "us in 2 launches" in out
    # Both layers take the same, and are one row.
    assert "100%    2 of " in out and "@net_0 and 1 alike" in out


def test_the_chip_and_the_architecture_may_be_said(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    text, params = files
    how = ["bench", text, "--params", params, "--set", "M=256", "--arch", "sm_80"]
    assert run([*how, "--device", "A100"]) == 0
    assert "sm_80, no GPU" in capsys.readouterr().out
    assert run([*how, "--device", "H100"]) == 1
    assert "error[BadDevice]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "needs a value for the symbol M"),
        (["--set", "M=x"], "M"),
        (["--set", "M=4", "--seed", "-1"], "--seed -1: a seed is 0 or more"),
        (["--set", "M=4", "--arch", "sm_1"], "sm_1"),
        (["--set", "M=4", "--graph", "other"], "no graph 'other'"),
    ],
)
def test_what_it_refuses(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    text, params = files
    assert run(["bench", text, "--params", params, *more]) == 1
    assert said in capsys.readouterr().err
