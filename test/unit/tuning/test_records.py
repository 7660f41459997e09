"""Records of measured plans: text and back, merged, refused where broken, and written whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.tuning.chip import Chip, Compiler
from polyc.tuning.records import Record, Records, plan_fields, read, save
from polyc.tuning.regions import digest

TEXT = "region.kernel @region {\n}"
CHIP = Chip("NVIDIA H200", 132, 1980)
PLAN: dict[str, object] = {"arch": "sm_90a", "stages": 4}
RECORD = Record(
    *(digest(TEXT), "gemm", {"M": 16, "N": (1, 64)}, CHIP, "sm_90a", Compiler("abc", "13.0")),
    *(PLAN, 12.5, 11.0, 7, "2026-11-25"),
)


def records(*found: Record) -> Records:
    return Records({digest(TEXT): TEXT}, list(found))


def test_a_file_is_read_as_it_was_written_whatever_the_order(tmp_path: Path) -> None:
    other = replace(RECORD, sizes={"M": 8, "N": 4})
    save(tmp_path / "a.json", records(RECORD, other))
    save(tmp_path / "b.json", records(other))
    whole = save(tmp_path / "b.json", records(RECORD))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert read(tmp_path / "a.json").records == [other, RECORD]
    assert len(whole.records) == 2
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("a.json", "b.json")] == []


def test_of_one_key_the_faster_stays_or_the_one_that_won_the_race(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    slower = replace(RECORD, measured_us=13.0, plan={**PLAN, "stages": 5})
    save(path, records(RECORD))
    assert save(path, records(slower)).records == [RECORD]
    assert save(path, records(slower), [(RECORD.key, PLAN)]).records == [slower]
    assert save(path, records(RECORD)).records == [RECORD]
    elsewhere = replace(slower, chip=Chip("NVIDIA A100-SXM4-80GB", 108, 1410))
    assert len(save(path, records(elsewhere)).records) == 2


def test_sizes_are_one_value_or_a_range() -> None:
    assert RECORD.covers({"M": 16, "N": 64})
    assert not RECORD.covers({"M": 16, "N": 65})
    assert not RECORD.covers({"M": 17, "N": 1})
    assert not RECORD.covers({"M": 16})


def test_a_clock_of_one_class_is_the_same_chip() -> None:
    assert CHIP.is_like(replace(CHIP, clock_mhz=1965))
    assert not CHIP.is_like(replace(CHIP, clock_mhz=1700))
    assert not CHIP.is_like(replace(CHIP, multiprocessors=114))


def test_a_record_keeps_of_a_plan_what_does_not_follow() -> None:
    plan: dict[str, object] = {"region": "f", "variant": "x", "when": [], "bind": {}, "stages": 3}
    assert plan_fields({**plan, "vectorize": {"axis": "n", "width": 8}}) == {
        "stages": 3,
        "vectorize": 8,
    }


def test_a_write_that_fails_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    save(path, records(RECORD))
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError):
        save(path, records(replace(RECORD, sizes={"M": 1, "N": 1})))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


Change = Callable[[Any], object]


BROKEN: list[tuple[Change, str]] = [
    (lambda d: d.update(format=2), "is of format 2"),
    (lambda d: d.pop("regions"), "has no 'regions'"),
    (lambda d: d.update(more=1), "has 'more', which is not known"),
    (lambda d: d["regions"][digest(TEXT)].append("x"), "it was changed"),
    (lambda d: d["records"].append(d["records"][0]), "has the key of record 1 too"),
    (lambda d: d["records"][0].update(measured_us=-1), "a time in microseconds"),
    (lambda d: d["records"][0].update(arch="sm_70"), "says arch is 'sm_70'"),
    (lambda d: d["records"][0].update(date="soon"), "a date such as"),
    (lambda d: d["records"][0].update(region="0"), "whose text is not here"),
    (lambda d: d["records"][0]["sizes"].update(M=[5, 2]), "the least and the largest"),
    (lambda d: d["records"][0]["device"].update(clock_mhz="x"), "names no device"),
    (lambda d: d["records"][0]["plan"].update(tiles=[1]), "has a plan that is none"),
    (lambda d: d["records"][0]["plan"].update(bind={}), "gives bind, which follows"),
    (lambda d: d["records"][0]["plan"].update(arch="sm_80"), "and its plan for sm_80"),
    (lambda d: d.update(records={}), "has no list of records"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN)
def test_what_is_broken_is_refused_and_stays(tmp_path: Path, change: Change, said: str) -> None:
    path = tmp_path / "a.json"
    save(path, records(RECORD))
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(PolycError, match="BadRecord") as caught:
        read(path)
    assert said in caught.value.message and caught.value.place is not None
    before = path.read_bytes()
    with pytest.raises(PolycError, match="BadRecord"):
        save(path, records(RECORD))
    assert path.read_bytes() == before


def test_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"format": 1,')
    with pytest.raises(PolycError, match="BadRecord"):
        read(tmp_path / "a.json")
