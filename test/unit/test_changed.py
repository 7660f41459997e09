"""What ``make check`` runs for a file that has changed."""

from __future__ import annotations

import pytest

from polyc.test.support.changed import lit_texts, unit_tests
from polyc.test.support.root import ROOT


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        ("passes/gpu/vectorize.py", ["test/unit/passes/gpu/test_vectorize.py"]),
        ("lowering/frontend_to_tiny/__init__.py", None),
        ("affine/isl.py", ["test/unit/affine/test_isl.py"]),
        ("test/unit/affine/test_isl.py", ["test/unit/affine/test_isl.py"]),
        ("docs/tools/running.md", []),
    ],
)
def test_tests_of_a_file(name: str, tests: list[str] | None) -> None:
    found = unit_tests(name)
    assert found == tests if tests is not None else found
    assert all((ROOT / test).is_file() for test in found)


def test_a_file_without_a_test_of_its_name_is_tested_by_its_importers() -> None:
    found = unit_tests("playback/functions.py")
    assert "test/unit/dialects/tiny/test_tiny.py" in found and len(found) > 5
    assert "test/unit/dialects/common/test_dim.py" not in found


def test_and_by_those_that_the_table_names() -> None:
    assert unit_tests("playback/gpu/signals.py") == ["test/unit/playback/gpu/test_grid.py"]
    assert "test/filecheck/gpu/cuda/cluster.mlir" in lit_texts("lowering/gpu_to_cuda/cluster.py")


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("passes/gpu/vectorize.py", "test/filecheck/gpu/gpu-vectorize"),
        ("passes/region/srnf.py", "test/filecheck/region/region-srnf"),
        ("lowering/index_to_region/cuts.py", "test/filecheck/index/index-to-region"),
        ("dialects/plan/checks.py", "test/filecheck/plan/ops.mlir"),
        ("test/filecheck/plan/ops.mlir", "test/filecheck/plan/ops.mlir"),
    ],
)
def test_texts_of_a_file(name: str, texts: str) -> None:
    assert texts in lit_texts(name)


@pytest.mark.parametrize("name", ["passes/support/gpu/scope.py", "README.md", "tools/check.py"])
def test_some_have_no_texts(name: str) -> None:
    assert lit_texts(name) == []


def test_every_pass_and_border_has_texts() -> None:
    for folder in ("passes/gpu", "passes/region", "passes/tiny", "passes/plan"):
        for file in (ROOT / folder).glob("[a-z]*.py"):
            assert lit_texts(str(file.relative_to(ROOT))), file
