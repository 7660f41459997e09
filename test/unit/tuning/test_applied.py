"""Recorded plans in a compilation: first at their sizes, verified, and never in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.runtime import driver
from polyc.test.support.root import ROOT
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.tuning.regions import by_themselves, regions_of
from polyc.tuning.applied import Recorded
from polyc.tuning.candidates import candidates
from polyc.tuning.chip import Chip, Compiler
from polyc.tuning.columns import FIELDS
from polyc.tuning.records import Record, Records, save, today
from polyc.tuning.regions import canonical, digest

EXAMPLE = ROOT / "examples" / "softmax.mlir"
CHIP = Chip("NVIDIA H200", 132, 1980)
SIZES = {"M": 64, "N": 6000}


def record() -> tuple[Record, str]:
    (region,) = regions_of(Compilation.of_file(EXAMPLE, "sm_90a"))
    plan = candidates(region, "sm_90a", SIZES, 6)[-1]
    text = canonical(region)
    compiler = Compiler.here()
    made = (digest(text), "softmax", SIZES, CHIP, "sm_90a", compiler, plan.fields)
    return Record(*made, 9.5, 8.0, 7, today()), text


@pytest.fixture(scope="module")
def made() -> tuple[Record, str]:
    return record()


def planned(path: Path, chip: Chip | None, text: str | None = None) -> list[ScheduleOp]:
    job = Compilation.of_file(EXAMPLE, "sm_90a")
    if text is not None:
        job.module = parse_text(job.ctx, text, "text")
    job.records = Recorded.of_file(path, chip)
    job.run("plan")
    return [op for op in job.module.ops if isinstance(op, ScheduleOp)]


def test_the_plan_is_first_at_its_sizes_and_a_remark_says_so(
    made: tuple[Record, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plans.json"
    one = made[0]
    ranged = replace(one, sizes={"M": (1, 64), "N": 6000})
    save(path, Records({one.region: made[1]}, [ranged, one]))
    plans = planned(path, CHIP)
    assert [p.variant.data for p in plans][:2] == ["recorded", "recorded2"]
    assert [str(f) for f in plans[0].when.data] == ["M == 64", "N == 6000"]
    assert [str(f) for f in plans[1].when.data] == ["M >= 1", "-M >= -64", "N == 6000"]
    said = capsys.readouterr().err
    assert said.count("remark[RecordedPlan]: @softmax runs plan 'recorded") == 2
    assert "measured at 9.5 us on NVIDIA H200" in said and str(path) in said


def test_another_name_is_the_same_region(
    made: tuple[Record, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plans.json"
    save(path, Records({made[0].region: made[1]}, [made[0]]))
    text = EXAMPLE.read_text().replace("@softmax", "@other")
    assert planned(path, CHIP, text)[0].variant.data == "recorded"
    other = text.replace("f16", "bf16")
    assert planned(path, CHIP, other)[0].variant.data != "recorded"
    assert "RecordIgnored" in capsys.readouterr().err


ELSEWHERE = replace(CHIP, name="NVIDIA H100 PCIe")


FOREIGN: list[tuple[Callable[[Record], Record], str]] = [
    (
        lambda r: replace(r, chip=ELSEWHERE),
        "it was measured on NVIDIA H100 PCIe",
    ),
    (
        lambda r: replace(r, compiler=Compiler("0", "12.0")),
        "it was measured with polyc 0 and NVRTC 12.0",
    ),
    (
        lambda r: replace(r, compiler=replace(r.compiler, nvrtc="12.0")),
        "NVRTC 12.0, and this is",
    ),
    (lambda r: replace(r, chip=replace(CHIP, multiprocessors=114)), "(114 SMs, 1980 MHz)"),
    (
        lambda r: replace(r, arch="sm_80", plan={**r.plan, "arch": "sm_80"}),
        "has no record for sm_90a of @softmax",
    ),
]


@pytest.mark.parametrize(("change", "said"), FOREIGN)
def test_what_is_of_another_chip_compiler_or_architecture_is_told_and_not_used(
    made: tuple[Record, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Record], Record],
    said: str,
) -> None:
    path = tmp_path / "plans.json"
    one = change(made[0])
    save(path, Records({one.region: made[1]}, [one]))
    assert planned(path, CHIP)[0].variant.data != "recorded"
    told = capsys.readouterr().err
    assert said in told and told.count("RecordIgnored") == 1


def test_without_a_gpu_one_chip_is_taken_and_of_two_none(
    made: tuple[Record, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "available", lambda: False)
    path = tmp_path / "plans.json"
    save(path, Records({made[0].region: made[1]}, [made[0]]))
    assert planned(path, None)[0].variant.data == "recorded"
    other = replace(made[0], chip=ELSEWHERE)
    save(path, Records({made[0].region: made[1]}, [other]))
    with pytest.raises(PolycError, match="AmbiguousRecords"):
        planned(path, None)


def test_a_plan_that_the_region_does_not_have_is_refused_at_its_place(
    made: tuple[Record, str], tmp_path: Path
) -> None:
    path = tmp_path / "plans.json"
    save(path, Records({made[0].region: made[1]}, [made[0]]))
    data = json.loads(path.read_text())
    data["records"][0]["plan"]["tile"] = [3, 5, 7]
    path.write_text(json.dumps(data, indent=1))
    with pytest.raises(PolycError) as caught:
        planned(path, CHIP)
    assert caught.value.place is not None and caught.value.place.file == str(path)


def test_the_library_takes_records(tmp_path: Path) -> None:
    path = tmp_path / "plans.json"
    path.write_text("{}")
    with pytest.raises(PolycError, match="BadRecord"):
        load(EXAMPLE, "sm_90a", records=path)
    with pytest.raises(PolycError, match="Usage"):
        load(ROOT / "examples" / "tile" / "softmax.mlir", records=path)


def test_a_region_that_hands_a_value_on_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    job = Compilation.of_file(EXAMPLE, "sm_90a")
    job.run("plan")
    (kernel,) = (op for op in job.module.ops if isinstance(op, KernelOp))
    kernel.materialize = ArrayAttr([StringAttr("deferred")])
    assert by_themselves(job.module) == []
    assert "remark[NotTuned]: @softmax hands a value on" in capsys.readouterr().err


def test_a_convolution_is_taken_apart_where_all_of_its_records_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, example = tmp_path / "plans.json", ROOT / "examples" / "conv_silu.mlir"
    (region,) = regions_of(Compilation.of_file(example, "sm_90a"))
    text, plan = canonical(region), {"arch": "sm_90a", **FIELDS}
    sizes = {"N": 2, "H": 7, "W": 7, "C": 8, "F": 64}
    key = digest(text), "conv_silu", sizes, CHIP, "sm_90a", Compiler.here()
    one = Record(*key, plan, 5.0, 5.0, 7, today())

    def kernels() -> list[str]:
        job = Compilation.of_file(example, "sm_90a")
        job.records = Recorded.of_file(path, CHIP)
        job.run("plan")
        return [op.sym_name.data for op in job.module.ops if isinstance(op, KernelOp)]

    save(path, Records({one.region: text}, [one]))
    assert kernels() == ["conv_silu_columns", "conv_silu_product"]
    assert "it stores columns, and does so at all sizes" in capsys.readouterr().err
    fields = candidates(region, "sm_90a", {**sizes, "N": 3}, 1)[0].fields
    other = replace(one, sizes={**sizes, "N": 3}, plan=fields)
    save(path, Records({one.region: text}, [other]))
    assert kernels() == ["conv_silu"]
    said = capsys.readouterr().err
    assert "remark[RecordIgnored]" in said and "remark[RecordedPlan]" in said
