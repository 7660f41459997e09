"""Each source file has a test file of its name, or a line that says where it is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyc.test.support.mirror import ROOMS, TABLE, faults, holds, sources, table
from polyc.test.support.root import ROOT
from polyc.test.unit.test_imports import BELOW

ENTRIES = table(TABLE.read_text("utf-8"))


def test_every_source_file_is_tested() -> None:
    found = {str(source): faults(source, ENTRIES.get(source)) for source in sources()}
    assert {source: wrong for source, wrong in found.items() if wrong} == {}


def test_the_table_speaks_of_files_that_are_there() -> None:
    assert set(ENTRIES) <= set(sources())


def test_every_room_is_asked() -> None:
    assert set(BELOW) <= set(ROOMS)


@pytest.mark.parametrize(
    ("source", "tests", "fault"),
    [
        ("poly/edges.py", None, "write it, or say in tested_by.toml"),
        ("poly/edges.py", ["test/unit/poly/test_nothing.py"], "is not there"),
        ("poly/edges.py", ["test/unit/runtime/test_arenas.py"], "has nothing to do with"),
        ("poly/view.py", ["test/unit/poly/test_footprint.py"], "take it out of the table"),
        ("poly/nothing.py", ["test/unit/poly/test_view.py"], "and is not there"),
        ("dialects/gpu/tile/grid.py", ["test/filecheck/gpu/exchange.mlir"], "nothing to do with"),
        ("dialects/gpu/tile/grid.py", ["examples/gpu/row_sum.mlir"], "nothing to do with"),
    ],
)
def test_the_rule_can_fail(source: str, tests: list[str] | None, fault: str) -> None:
    (found,) = faults(Path(source), tests)
    assert fault in found


def test_a_folder_of_texts_holds_what_one_of_them_names() -> None:
    folder = "test/filecheck/gpu/gpu-vectorize"
    assert holds(Path(folder), Path("passes/gpu/vectorize.py"))
    assert not holds(Path(folder), Path("dialects/gpu/hardware/cluster.py"))
    assert (ROOT / folder).is_dir()
