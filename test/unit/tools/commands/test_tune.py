"""``polyc tune`` without a GPU: the candidates by the model, and what it refuses."""

from __future__ import annotations

import csv
import ctypes
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from polyc.runtime import driver
from polyc.test.support.root import ROOT
from polyc.test.support.running_cuda import RunningCuda
from polyc.tools.polyc import main
from polyc.tools.tuning import samples, workshop
from polyc.tuning.chip import Chip
from polyc.tuning.records import read

SOFTMAX = str(ROOT / "examples" / "softmax.mlir")
SIZES = ("--set", "M=64", "--set", "N=6000")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
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


@pytest.mark.usefixtures("no_gpu")
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


NEGATED = """
frontend.graph @f(%X: !frontend.tensor<[N], f32>) -> (Y: !frontend.tensor<[N], f32>) {
  %0 = frontend.elementwise neg %X : !frontend.tensor<[N], f32>
  frontend.output %0 : !frontend.tensor<[N], f32>
}
"""


def numbers(address: int) -> npt.NDArray[np.float32]:
    return np.ctypeslib.as_array((ctypes.c_float * 96).from_address(address))


@pytest.mark.parametrize(
    ("mutant", "sampled"),
    [(None, False), ("first", False), ("all", False), (None, True), ("first", True)],
)
def test_the_fastest_is_recorded_and_used_and_a_wrong_one_is_told(
    mutant: str | None,
    sampled: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    running: RunningCuda,
) -> None:
    file, path = tmp_path / "f.mlir", tmp_path / "plans.json"
    file.write_text(NEGATED)
    kernels: list[str] = []
    if sampled:  # a few elements are played back, of which the wrong one is none
        monkeypatch.setattr(workshop, "WHOLE", 0)
        monkeypatch.setattr(workshop, "SMALL", 0)
        monkeypatch.setattr(samples, "COUNTS", (3,))

    def kernel(values: list[int]) -> None:
        name = running.launches[-1].kernel
        kernels.append(name)
        numbers(values[1])[:] = -numbers(values[0])
        if mutant == "all" or (mutant == "first" and name == kernels[0]):
            numbers(values[1])[7] = 0

    running.kernel = kernel
    args = ["tune", str(file), "--set", "N=96", "--records", str(path), "--candidates", "3"]
    assert main(args) == (0 if mutant is None else 1)
    said = capsys.readouterr().out
    assert ("WRONG: plan" in said) == (mutant is not None)
    assert mutant is None or "element [7] is 0, expected" in said
    if mutant == "all":
        assert not path.exists()
        return
    (record,) = read(path).records
    assert record.chip == Chip("stand-in", 132, 1980) and record.measured_us == 1.0
    assert dict(record.sizes) == {"N": 96}
    assert main(["compile", str(file), "--arch", "sm_90a", "--records", str(path), "-o", "-"]) == 0
    assert "RecordedPlan" in capsys.readouterr().err
