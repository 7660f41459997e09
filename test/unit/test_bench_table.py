"""The tables of bench/README.md are what their files say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def table(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("table", root / "bench" / "table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_made_from_their_files(root: Path, table: ModuleType) -> None:
    text = (root / "bench" / "README.md").read_text()
    assert table.MARK.search(text) is not None
    assert table.written(text) == text


def test_files_say_where_they_come_from(root: Path, table: ModuleType) -> None:
    text = (root / "bench" / "README.md").read_text()
    for found in table.MARK.finditer(text):
        report = json.loads((root / "bench" / found[2]).read_text())
        for key in ("date", "commit", "device", "torch", "nvrtc", "rows"):
            assert report[key], key


def test_another_figure_is_another_table(table: ModuleType) -> None:
    row = {"m": 1, "n": 2, "k": 3, "contestant": "polyc sm_90a kernel", "tflops": 1.0}
    other = {**row, "contestant": "cuBLASLt bias+relu", "tflops": 4.0}
    lines = table.rows({"rows": [row, other]})
    assert lines[-1] == "| 1x2x3 | 1.0 |  |  | 4.0 |  | 0.25 |"
