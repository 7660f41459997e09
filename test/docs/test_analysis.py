"""docs/tools/analysis.md: commands print what it shows; it names every field of the JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.root import ROOT
from polyc.tools import polyc

PAGE = (ROOT / "docs" / "tools" / "analysis.md").read_text("utf-8")
BY_NAME = {
    "algo_choice",
    "tile",
    "per_axis",
    "low",
    "high",
    "axes",
    "symbols",
    "first",
    "second",
    "lhs",
    "rhs",
    "sizes",
}
"""Fields whose objects have names of axes, symbols, tensors or patterns as keys."""


@pytest.mark.parametrize(("command", "shown"), blocks(PAGE, "shows"))
def test_shown_output_is_what_the_command_prints(
    command: str,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(ROOT)
    check_shown(command, shown, capsys)


def fields(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield key
            if key not in BY_NAME or not isinstance(inner, dict):
                yield from fields(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from fields(inner)


@pytest.mark.parametrize("name", ["gemm_bias_relu", "conv_silu", "causal_attention", "layer_norm"])
def test_the_page_names_every_field(name: str, capsys: pytest.CaptureFixture[str]):
    schema = PAGE[PAGE.index("## JSON") :]
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", schema))))
    assert polyc.main(["analyze", str(ROOT / "examples" / f"{name}.mlir"), "--json"]) == 0
    found = set(fields(json.loads(capsys.readouterr().out)))
    assert found <= named
