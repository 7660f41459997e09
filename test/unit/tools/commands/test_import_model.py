"""``polyc import``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyc
from polyc.tools.commands import import_model
from polyc.tools.commands.command_line import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """``reshape(x @ weight, shape)``, in a file."""
    onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed: pip install polyc[onnx]")
    helper = onnx.helper
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "weight"], ["h"]),
            helper.make_node("Reshape", ["h", "shape"], ["y"]),
        ],
        "net",
        [
            helper.make_tensor_value_info("x", 1, ["N", 4]),
            helper.make_tensor_value_info("shape", 7, [2]),
        ],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "weight")],
    )
    path = tmp_path / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(made.SerializeToString())
    return path


def test_a_model_becomes_two_files(model: Path, tmp_path: Path, capsys: Capture):
    text, params = tmp_path / "net.mlir", tmp_path / "net.safetensors"
    args = [import_model.NAME, str(model), "-o", str(text), "--params", str(params)]
    assert run([*args, "--known", "shape=3,-1", "--size", "N=2"]) == 0
    assert f"@net: 3 ops in {text}, 1 parameters in {params}" in capsys.readouterr().out
    program = polyc.compile(text, params=params, device="cpu")
    assert program(np.ones((2, 4), np.float32)).tolist() == [[4.0, 4.0]] * 3


def test_stdout_and_a_file_of_numbers(model: Path, tmp_path: Path, capsys: Capture):
    np.save(tmp_path / "shape.npy", np.array([-1, 1]))
    args = ["import", str(model), "--params", str(tmp_path / "net.safetensors")]
    assert run([*args, "--known", f"shape={tmp_path / 'shape.npy'}", "--assume", "N >= 1"]) == 0
    shown = capsys.readouterr().out
    assert "[3 * N, 1]" in shown and "N" in shown
    assert (tmp_path / "net.safetensors").is_file()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "known={'shape': …}"),
        (["--known", "shape=3,-1"], "--params model.safetensors"),
        (["--known", "shape=a,b"], "write whole numbers"),
        (["--known", "shape"], "write NAME=VALUE"),
        (["--known", "shape=1", "--known", "shape=2"], "gives shape twice"),
        (["--size", "N=-2"], "a size is a number"),
        (["--size", "M=2", "--known", "shape=3,-1"], "sizes names 'M'"),
        (["--params", "net.bin", "--known", "shape=3,-1"], "ends in .safetensors"),
    ],
)
def test_what_is_refused(model: Path, options: list[str], words: str, capsys: Capture):
    assert run(["import", str(model), *options]) == 1
    assert words in capsys.readouterr().err


def test_a_kind_that_is_not_known(tmp_path: Path, capsys: Capture):
    assert run(["import", str(tmp_path / "net.h5")]) == 1
    assert "no model of a kind that is known; there are .onnx" in capsys.readouterr().err
    pytest.importorskip("onnx", reason="onnx is not installed: pip install polyc[onnx]")
    assert run(["import", str(tmp_path / "net.onnx")]) == 1
    assert "net.onnx" in capsys.readouterr().err
