"""The tables of bench/README.md and docs/semantics.md are what their files say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyc.bench import plots, table
from polyc.playback.estimate import FACTOR


@pytest.mark.parametrize("page", table.PAGES, ids=lambda p: p.name)
def test_tables_are_made_from_their_files(page: Path) -> None:
    text = page.read_text()
    assert table.MARK.search(text) is not None
    assert table.written(text) == text


def test_the_factor_is_at_most_16_times_what_right_kernels_need(root: Path) -> None:
    """And above it: each result of the corpus agrees (S0.6)."""
    report = json.loads((root / "bench" / "results" / "agreement-gpu.json").read_text())
    most = max(row["needed"] for row in report["rows"])
    assert report["factor"] == FACTOR and report["over_the_factor"] == 0
    assert most <= FACTOR <= 16 * most
    assert report["elements"] > 1_000_000 and report["unknown"] <= report["elements"] / 100
    assert {"attention", "conv", "loops", "matmul", "rows"} == {r["family"] for r in report["rows"]}


def test_files_say_where_they_come_from(root: Path) -> None:
    text = (root / "bench" / "README.md").read_text()
    for report in (one for mark in table.MARK.finditer(text) for one in table.reports(mark[2])):
        on_a_gpu = ("device", "torch", "nvrtc")
        on_a_host = ("machine", "cores", "python", "load")
        for key in ("date", "commit", "rows", *(on_a_gpu if "device" in report else on_a_host)):
            assert report[key], key


def test_another_figure_is_another_table() -> None:
    row = {"m": 1, "n": 2, "k": 3, "contestant": "polyc sm_90a kernel", "tflops": 1.0}
    other = {**row, "contestant": "cuBLASLt bias+relu", "tflops": 4.0}
    lines = table.rows({"rows": [row, other]})
    assert lines[-1] == "| 1x2x3 | 1.0 |  |  | 4.0 |  | 0.25 |"


def test_problems_are_beside_pytorch() -> None:
    row = {"problem": "sum:8x8:1:f16", "own_us": 10.0, "copy_us": 12.0, "eager_us": 20.0}
    slow = {**row, "problem": "max:8x8:1:f16", "torch.compile_us": 5.0, "ratio": 0.5}
    lines = table.rows({"rows": [{**row, "ratio": 2.0}, slow]})
    assert lines[2:] == [
        "| max:8x8:1:f16 | 10 | 12 | 20 | 5 | 0.50 |",
        "| sum:8x8:1:f16 | 10 | 12 | 20 |  | 2.00 |",
    ]


def test_a_composition_is_beside_the_model_and_pytorch() -> None:
    ours = {"case": "0 1: conv", "contestant": "polyc", "milliseconds": 0.0421, "ratio": 1.5}
    peer = {**ours, "contestant": "eager"}
    lines = table.rows({"rows": [{**ours, "of_model": 0.984, "modelled_us": []}, peer]})
    assert lines[2:] == ["| 0 1: conv | 42 | 0.98 | 1.50 |"]


def test_a_report_of_limits_shows_each_figure_beside_its_limit() -> None:
    runs: dict[str, object] = {"runs": [98.0, 120.2], "cpu": 97.2}
    rows = [
        {"name": "work", "median": 99.6, "unit": "ms", "limit": 300, **runs},
        {"name": "ratio", "median": 3.14, "unit": "", "limit": 5},
        {"name": "start", "median": 20.0, "unit": "ms", "limit": None, **runs},
    ]
    assert table.rows({"rows": rows, "cores": 2, "load": [0.31, 1.0]})[2:] == [
        "| work | 100 ms | 98 ms to 120 ms | 97 ms | 300 ms |",
        "| ratio | 3.1 |  |  | 5.0 |",
        "| start | 20 ms | 98 ms to 120 ms | 97 ms |  |",
        "| load of the 2 cores |  | 0.3 to 1.0 |  |  |",
    ]


def case(contestant: str, peer: bool, rate: float, ratio: float) -> dict[str, object]:
    return {
        "case": "1x2",
        "contestant": contestant,
        "peer": peer,
        "rate": rate,
        "ratio": ratio,
        "unit": "TB/s",
    }


def test_a_report_of_cases_shows_the_best_kernel_beside_every_peer() -> None:
    found = [case("slow", False, 1.0, 0.5), case("fast", False, 1.8, 0.9), case("copy", True, 2, 1)]
    assert table.rows({"rows": found}) == [
        "| TB/s | polyc | copy | polyc / best |",
        "|---|---:|---:|---:|",
        "| 1x2 | 1.80 | 2.00 | 0.90 |",
    ]


def test_a_mark_with_a_star_has_the_last_word_on_each_case(tmp_path: Path) -> None:
    mark = "<!-- table: results/forms-*.json -->\n"
    assert table.written(f"a\n{mark}b\n", tmp_path) == f"a\n{mark}b\n"
    (tmp_path / "results").mkdir()
    for day, rates in (("02", {"1x2": 3.0}), ("01", {"1x2": 1.0, "3x4": 2.0})):
        rows = [
            {**case(name, name == "copy", rate, 1.0), "case": at}
            for at, rate in rates.items()
            for name in ("polyc", "copy")
        ]
        path = tmp_path / "results" / f"forms-{9 - int(day)}.json"
        path.write_text(json.dumps({"date": day, "rows": rows}))
    lines = table.written(f"a\n{mark}b\n", tmp_path).splitlines()
    assert lines[2:] == [
        "| TB/s | polyc | copy | polyc / best |",
        "|---|---:|---:|---:|",
        "| 1x2 | 3.00 | 3.00 | 1.00 |",
        "| 3x4 | 2.00 | 2.00 | 1.00 |",
        "b",
    ]


def test_plots_take_the_newest_report_and_the_best_kernel(tmp_path: Path) -> None:
    rows = [case("slow", False, 1.0, 0.5), case("fast", False, 1.8, 0.9), case("copy", True, 2, 1)]
    for day in ("20260101", "20260102"):
        report = {"date": day, "rows": rows}
        (tmp_path / f"norms-sm_90-{day}.json").write_text(json.dumps(report))
    (tmp_path / "other.json").write_text('{"rows": [{"m": 1}]}')
    (tmp_path / "modelled.json").write_text('{"rows": [{"case": "vit"}]}')
    found = plots.newest_reports(tmp_path)
    assert {name: path.stem for name, path in found.items()} == {"norms": "norms-sm_90-20260102"}
    assert plots.series(rows) == (["1x2"], {"polyc": [1.8], "copy": [2]})


def test_pages_are_beside_keys_that_follow_and_not_the_better_of_both() -> None:
    def row(name: str, rate: float, **more: float) -> dict[str, object]:
        both = {"case": "16x64", "contestant": name, "peer": name == "gather", "unit": "TB/s"}
        return {**both, "rate": rate, "milliseconds": 1 / rate, **more}

    found = [row("polyc", 2.0, of_contiguous=0.5), row("polyc, keys that follow", 4.0)]
    lines = table.rows({"rows": [*found, row("gather", 1.0)]})
    assert lines[0].endswith("| polyc / keys that follow | polyc / gather |")
    assert lines[2:] == ["| 16x64 | 2.00 | 4.00 | 1.00 | 0.50 | 2.00 |"]
