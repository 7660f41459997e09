"""Names of programs on disk: what else decides a program changes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyc.cost.device import H100, modelled_on
from polyc.test.support.fake_cuda import FakeCuda
from polyc.tools import kept


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("POLYC_CACHE", "1")


def test_each_part_changes_the_name(tmp_path: Path, cuda: FakeCuda):
    plan, records = tmp_path / "plan.json", tmp_path / "records.json"
    plan.write_text(json.dumps([{"tile": 1}]))
    records.write_text("{}")
    ways: list[dict[str, Any]] = [
        {},
        {"ir": "b"},
        {"arch": "sm_90a"},
        {"arch": None},
        {"name": "f"},
        {"plan": {"tile": 1}},
        {"plan": {"tile": 2}},
        {"plan": plan},
        {"options": {"records": records}},
        {"options": {"sizes": {"M": 1}}},
    ]
    start: dict[str, Any] = {"ir": "a", "arch": "sm_80"}
    names = [kept.program(**(start | way)) for way in ways]
    plan.write_text("[]")
    records.write_text("[]")
    names += [kept.program(**start, plan=plan)]
    names += [kept.program(**start, options={"records": records})]
    with modelled_on("sm_80", H100):
        names.append(kept.program(**start))
    assert None not in names and len(set(names)) == len(names)
    assert kept.program(**start, options={"records": None}) == names[0]


def test_where_it_cannot_be_known_nothing_is_kept(tmp_path: Path):
    for plan, options in (
        (tmp_path / "none.json", {}),
        (object(), {}),
        (None, {"kernels": "kernels.py"}),
        (None, {"records": tmp_path / "none.json"}),
    ):
        assert kept.program("a", "sm_80", plan=plan, options=options) is None


def test_sources_of_unlike_kinds_have_unlike_names():
    parts = {"text": "a"}
    names = {kept.source("load", parts), kept.source("text", parts), kept.source("text", {})}
    assert len(names) == 3 and None not in names
