"""What is imported is compiled as it is, or written to two files and run from these."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

import polyc
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import tensor
from polyc.importers.imported import Imported
from polyc.importers.parameters import kept, read
from polyc.tools.polyc import main
from polyc.trace.builder import Builder

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def imported() -> Imported:
    builder = Builder("layer", {"x": tensor([Dim.sym("M"), 3], f32)})
    w = read(builder, W, "layer.weight")
    module = builder.finish([builder.gemm(builder.inputs[0], w.ssa, transpose_b=True)])
    return Imported(module, kept(module, builder), ("x",), ("out",))


def test_it_is_compiled_with_its_parameters():
    x = np.ones((5, 3), np.float32)
    assert np.array_equal(polyc.compile(imported(), device="cpu")(x), x @ W.T)
    other = polyc.compile(imported(), device="cpu", params={"layer.weight": 2 * W})
    assert np.array_equal(other(x), x @ (2 * W).T)


def test_it_is_saved_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text, params = tmp_path / "layer.mlir", tmp_path / "layer.safetensors"
    imported().save(text, params)
    assert np.array_equal(polyc.read_params(params)["layer.weight"], W)
    x = np.ones((5, 3), np.float32)
    again = polyc.compile(text, device="cpu", params=params)
    assert np.array_equal(again(x), x @ W.T)
    assert "1, 2" not in text.read_text()
    assert imported().graph.sym_name.data == "layer"
    assert main(["run", str(text), "--params", str(params), "--set", "M=4", "--device=cpu"]) == 0
    assert "agree with the FP32 reference" in capsys.readouterr().out
