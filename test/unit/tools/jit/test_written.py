"""What is remembered of a source: its declaration, and other data are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context

from polyc.runtime import kept
from polyc.tools.jit.declaring import written
from polyc.tools.jit.written import Declared, Written, remembered
from polyc.tools.parsing import parse_text

TEXT = """
frontend.graph @f(%x: !frontend.tensor<[M, 4], f32> {align = 8 : i64}) -> !frontend.tensor<[M, 4], f32>
    assuming (M mod 2 == 0) {
  %0 = frontend.elementwise neg %x : (!frontend.tensor<[M, 4], f32>) -> !frontend.tensor<[M, 4], f32>
  frontend.output %0 : !frontend.tensor<[M, 4], f32>
}
"""  # noqa: E501


@pytest.fixture
def found(ctx: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Written:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("POLYC_CACHE", "1")
    return written(parse_text(ctx, TEXT, "f.mlir"), returns=("dict", ["y"]))


def never() -> Written:
    raise AssertionError("it is on disk")


def test_a_declaration_comes_back_without_its_module(found: Written):
    name = kept.key("source", {"a": 1})
    assert remembered(name, lambda: found) is found
    again = remembered(name, never)
    assert again.declared == found.declared and again.declared.keys == ("y",)
    with pytest.raises(AssertionError, match="on disk"):
        _ = again.module
    assert remembered(name, lambda: found).module is found.module


@pytest.mark.parametrize(
    "change",
    [
        {"ir": 1},
        {"tiles": "no"},
        {"returns": "set"},
        {"keys": [1]},
        {"arch": 80},
        {"signature": {}},
    ],
    ids=str,
)
def test_other_data_are_made_anew(found: Written, change: dict[str, Any]):
    name = kept.key("source", {"a": 1})
    kept.save(name, {**found.declared.json(), **change})
    with pytest.warns(RuntimeWarning, match="is of another kind"):
        assert remembered(name, lambda: found) is found
    assert Declared.of_json(kept.load(name) or {}) == found.declared


def test_nothing_is_remembered_without_a_name(found: Written):
    assert remembered(None, lambda: found) is found
