"""Parameters beside the data of a playback, at every layer, and from the command line."""

# pyright: basic, reportPrivateUsage=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import kept
from polyc.tools.commands.command_line import run
from polyc.tools.held import bound, with_params
from polyc.tools.pipeline import Compilation
from polyc.tools.play import play_op

TEXT = """
frontend.graph @layer(%x: !frontend.tensor<[M, 8], f32>,
    %scale: !frontend.tensor<[N], f32> {role = "param", storage = "const_pool"})
    -> !frontend.tensor<[M, 8], f32> assuming (N == 8) {
  %w = frontend.parameter "layer.weight" : !frontend.tensor<[8], f32>
  %0 = frontend.elementwise mul %x, %scale
      : (!frontend.tensor<[M, 8], f32>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[M, 8], f32>
  %1 = frontend.elementwise add %0, %w
      : (!frontend.tensor<[M, 8], f32>, !frontend.tensor<[8], f32>) -> !frontend.tensor<[M, 8], f32>
  frontend.output %1 : !frontend.tensor<[M, 8], f32>
}
"""
PARAMS = {
    "scale": np.arange(8, dtype=np.float32),
    "layer.weight": np.full(8, 3, np.float32),
}


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    text, params = tmp_path / "layer.mlir", tmp_path / "layer.safetensors"
    text.write_text(TEXT)
    polyc.write_params(params, PARAMS)
    return str(text), str(params)


def test_every_layer_plays_with_parameters(paths: tuple[str, str]) -> None:
    text, params = paths
    job = Compilation.of_file(text, "sm_80")
    job.keep = ("frontend", "tiny", "index", "region")
    job.run("tiles")
    x = np.ones((2, 8), np.float32)
    for module in (*job.kept.values(), job.module):
        op = next(iter(module.ops))
        inputs = with_params(op, [x], params)
        assert [a.shape for a in inputs] == [(2, 8), (8,), (8,)]
        found: Any = play_op(op, inputs, {"M": 2, "N": 8})
        assert found[0].tolist() == [list(np.arange(8.0) + 3)] * 2
    assert bound(op, PARAMS).sizes == {"N": 8}


def test_compiled_programs_take_data_alone(paths: tuple[str, str]) -> None:
    x = np.ones((2, 8), np.float32)
    expected = [list(np.arange(8.0) + 3)] * 2
    for params in (PARAMS, paths[1], polyc.read_params(paths[1])):
        made = polyc.compile(TEXT, params=params, device="cpu")
        assert made(x).tolist() == expected
        assert "(x)" in repr(made)
    every = polyc.compile(TEXT, device="cpu")
    assert every(x, PARAMS["scale"], PARAMS["layer.weight"]).tolist() == expected
    with pytest.raises(PolycError, match="takes 1 inputs"):
        made(x, x)


def test_the_key_of_a_program_knows_no_values(paths: tuple[str, str], monkeypatch: Any) -> None:
    monkeypatch.setattr(kept, "key", lambda what, parts: repr((what, parts)))
    made = [
        polyc.compile(TEXT, params=params)
        for params in (PARAMS, paths[1], {k: v + 1 for k, v in PARAMS.items()})
    ]
    as_input = TEXT.replace(
        '  %w = frontend.parameter "layer.weight" : !frontend.tensor<[8], f32>\n', ""
    )
    as_input = as_input.replace(
        '"const_pool"})',
        '"const_pool"}, %layer_weight: !frontend.tensor<[8], f32> '
        '{role = "param", storage = "const_pool", entry = "layer.weight"})',
    ).replace("%w", "%layer_weight")
    made.append(polyc.compile(as_input, params=PARAMS))
    names = {one.entry("sm_80") for one in made}
    assert len(names) == 1
    wider = TEXT.replace(
        '"layer.weight" : !frontend.tensor<[8]', '"layer.weight" : !frontend.tensor<[1]'
    )
    wider = wider.replace(
        "(!frontend.tensor<[M, 8], f32>, !frontend.tensor<[8], f32>)",
        "(!frontend.tensor<[M, 8], f32>, !frontend.tensor<[1], f32>)",
    )
    assert polyc.compile(wider).entry("sm_80") not in names


def test_the_command_line(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    text, params = paths
    told = ["run", text, "--device", "cpu", "--arch", "sm_80", "--draw", "uniform"]
    assert run([*told, "--set", "M=3", "--params", params]) == 0
    assert "@layer at M=3, N=8" in capsys.readouterr().out
    assert run([*told, "--set", "M=3", "--set", "N=5", "--params", params]) == 1
    assert "N" in capsys.readouterr().err
    assert run(["compile", text, "--arch", "sm_80", "--params", text]) == 1
    assert "error[BadParameterFile]" in capsys.readouterr().err
    polyc.write_params(params, {"scale": PARAMS["scale"]})
    assert run(["compile", text, "--arch", "sm_80", "--params", params]) == 1
    assert "error[BadParams]" in capsys.readouterr().err
