"""``polyc calibrate`` writes what ``--device`` takes, and says where there is no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyc.cost.device import H200
from polyc.runtime import driver
from polyc.test.support.root import ROOT
from polyc.tools.commands import tune
from polyc.tools.polyc import main
from polyc.tools.steps import Steps
from polyc.tools.tuning import calibration
from polyc.tuning.chip import Chip
from polyc.tuning.figures import Figures

SOFTMAX = str(ROOT / "examples" / "softmax.mlir")


def test_no_gpu_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "available", lambda: False)
    assert main(["calibrate"]) == 1
    said = capsys.readouterr().err
    assert "error[NoGPU]" in said and said.count("\n") == 1


def test_what_it_writes_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    slow = replace(H200, memory=H200.memory / 10)
    made = Figures("sm_90a", slow, Chip("NVIDIA H200", 132, 1980), ["memory"])

    def found(arch: str, steps: Steps) -> tuple[Figures, dict[str, float]]:
        return made, {}

    monkeypatch.setattr(calibration, "calibrated", found)
    monkeypatch.setattr(driver, "available", lambda: True)
    monkeypatch.setattr(tune, "own_arch", lambda: "sm_90a")
    path = str(tmp_path / "h200.json")
    assert main(["calibrate", "--out", path]) == 0
    assert "4.2e+11" in capsys.readouterr().out
    assert main(["analyze", SOFTMAX, "--device", path]) == 0
    mine = capsys.readouterr().out
    assert main(["analyze", SOFTMAX]) == 0
    assert (mine != capsys.readouterr().out and "memory 9.99" in mine) or "bound by memory" in mine
