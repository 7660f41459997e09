"""Reports of the compiler's own speed: medians, limits, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyc.bench.host import Report, Time, inside, whole


def test_a_report_holds_medians_against_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report("speed")
    cpu = report.add("work", [Time(90.0, 80.0), Time(400.0, 82.0), Time(100.0, 84.0)], 300)
    assert cpu == 82.0 and report.held
    report.figure("ratio", 6.25, "", 5)
    assert not report.held
    report.write(tmp_path / "into" / "report.json")
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split() == ["work", "100", "ms", "limit", "300"]
    assert shown[2].endswith("limit 5  NOT HELD")
    record = json.loads((tmp_path / "into" / "report.json").read_text())
    work, ratio = record["rows"]
    assert (work["median"], work["runs"], work["cpu"]) == (100.0, [90.0, 400.0, 100.0], 82.0)
    assert (ratio["median"], ratio["held"]) == (6.25, False)
    assert {"date", "commit", "python", "machine", "cores", "load"} <= record.keys()


def test_what_waits_takes_time_on_the_wall_alone() -> None:
    (outside,) = whole(["-c", "import time; time.sleep(0.2)"], 1)
    assert outside.wall >= 200 > outside.cpu
    (within,) = inside("time.sleep(float(sys.argv[1]))", ["0.1"], 1)
    assert within.wall >= 100 > within.cpu
