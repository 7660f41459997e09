"""The scripts of examples run, and say what they are meant to."""

from __future__ import annotations

import runpy

import pytest

from polyc.test.support.root import ROOT

SAYS = {
    "model": ["block: 1 tokens", "block: 5 tokens", "attention: (2, 4, 3, 32)", "ShapeMismatch"],
    "kernel": ["118.0 177.0", "kernel scaled: True, 0 bytes spilled"],
    "parameters": ["layer.weight (64, 16)", "error[BadParams]", "layer(x)", "the same: True"],
    "paged": ["attention: (2, 4, 1, 64) of [20, 48] tokens", "as NumPy has it"],
    "compiler": ["frontend: ", "tiny: ", "region: "],
}


@pytest.mark.parametrize("name", SAYS)
def test_a_script_runs(name: str, capsys: pytest.CaptureFixture[str]):
    runpy.run_path(str(ROOT / "examples" / "python" / f"{name}.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert [text for text in SAYS[name] if text not in shown] == [], repr(shown)


def test_the_script_of_an_onnx_model_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("onnx", reason="onnx is not installed: pip install polyc[onnx]")
    monkeypatch.setattr("sys.argv", ["onnx_model.py"])
    runpy.run_path(str(ROOT / "examples" / "onnx_model.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "14 nodes are" in shown and "batch 5: scores (5, 10), off by" in shown
