"""``polyc tune`` on a GPU: plans are checked, timed, recorded and used; a wrong kernel is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from polyc.runtime.program import Program
from polyc.test.support.root import ROOT
from polyc.tools.commands.tune import own_arch
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.polyc import main
from polyc.tools.tuning import regions, workshop
from polyc.tuning.candidates import laid
from polyc.tuning.records import read
from polyc.tuning.regions import facts

GEMM = ROOT / "examples" / "gemm_bias_relu.mlir"
SMALL = {"M": 100, "N": 264, "K": 520}
LARGE = {"M": 1536, "N": 1544, "K": 1528}


def tune(file: Path, sizes: dict[str, int], path: Path) -> int:
    given = [f"--set={s}={n}" for s, n in sizes.items()]
    return main(
        ["tune", str(file), *given, "--records", str(path), "--candidates=4", "--budget=10"]
    )


@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_plans_are_measured_and_the_fastest_is_recorded(
    sizes: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plans.json"
    assert tune(GEMM, sizes, path) == 0
    said = capsys.readouterr().out
    assert "WRONG" not in said and "4 of 4 are right" in said
    assert ("elements, and all at" in said) == (sizes is LARGE)
    (record,) = read(path).records
    assert dict(record.sizes) == sizes and record.measured_us > 0
    args = ["compile", str(GEMM), "--arch", own_arch(), "--records", str(path), "-o", "-"]
    assert main(args) == 0
    assert "RecordedPlan" in capsys.readouterr().err


@pytest.mark.parametrize("sizes", [SMALL, LARGE])
def test_a_kernel_that_computes_something_else_is_told_and_not_recorded(
    sizes: dict[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first candidate's kernel forgets to cut off below zero, at the sizes themselves alone."""
    before = workshop.Workshop.compile
    names: list[str] = []

    def compile(self: workshop.Workshop, candidate: Any) -> Program:
        program = before(self, candidate)
        if candidate.name != self.candidates[0].name:
            return program
        names.append(candidate.name)
        text = GEMM.read_text("utf-8").replace("elementwise relu", "elementwise gelu")
        other = Compilation(self.job.ctx, parse_text(self.job.ctx, text, "wrong"), self.job.arch)
        (region,) = regions.regions_of(other)
        known = facts(self.points)
        plan = laid(region, self.job.arch, candidate.fields, known, candidate.name)
        wrong = regions.compiled(other, region, plan)
        if (small := self.small_programs.pop(id(program), None)) is not None:
            self.small_programs[id(wrong)] = small
        return wrong

    monkeypatch.setattr(workshop.Workshop, "compile", compile)
    path = tmp_path / "plans.json"
    assert tune(GEMM, sizes, path) == 1
    said = capsys.readouterr().out
    assert f"WRONG: plan {names[0]!r}" in said and "expected" in said
    assert len(read(path).records) == 1
