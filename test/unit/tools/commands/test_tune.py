"""``polyc tune`` without a GPU: the candidates by the model, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from polyc.runtime import driver
from polyc.test.support.root import ROOT
from polyc.tools.polyc import main

SOFTMAX = str(ROOT / "examples" / "softmax.mlir")
SIZES = ("--set", "M=64", "--set", "N=6000")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "available", lambda: False)


def test_dry_prints_and_logs_the_candidates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.csv"
    args = ["tune", SOFTMAX, *SIZES, "--dry", "--candidates", "3", "--log", str(log)]
    assert main(args) == 0
    said = capsys.readouterr().out
    assert "@softmax for sm_90a at M=64, N=6000, by the model" in said
    rows = list(csv.DictReader(log.open()))
    assert len(rows) == 3 and all(row["candidate"] in said for row in rows)


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ((), "NoGPU"),
        (("--dry", "--range", "M=1"), "BadSize"),
        (("--dry", "--range", "M=65..70"), "BadSize"),
        (("--dry", "--range", "M=1..64", "--range", "M=1..64"), "BadSize"),
        (("--dry", "--budget", "0"), "Usage"),
        (("--dry", "--device", "A100"), "BadDevice"),
        (("--dry", "--arch", "sm_70"), "UnknownArch"),
        (("--dry", "--records", __file__), "BadRecord"),
    ],
)
def test_what_is_refused(
    more: tuple[str, ...], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", SOFTMAX, *SIZES, *more]) == 1
    said = capsys.readouterr().err
    assert f"error[{kind}]" in said and said.count("\n") == 1


def test_a_size_that_is_not_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", SOFTMAX, "--dry"]) == 1
    assert "MissingSize" in capsys.readouterr().err
