"""docs/passes/regions.md says what is so: commands are run, tables are what the passes know."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.contractions import LEAST
from polyc.lowering.index_to_region.cost import (
    BLOCK,
    FLOPS_A_BYTE,
    ROW,
    TENSOR_FLOPS_A_BYTE,
    TYPICAL,
)
from polyc.lowering.index_to_region.kernels import Fuse, Split
from polyc.lowering.index_to_region.levels import Level
from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.root import ROOT

DOC = (ROOT / "docs" / "passes" / "regions.md").read_text()


@pytest.mark.parametrize(("command", "shown"), blocks(DOC, "shows"))
def test_shown_output_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    shown: str,
) -> None:
    monkeypatch.chdir(ROOT)
    check_shown(command, shown, capsys)


def test_the_options_are_those_of_the_pass() -> None:
    rows = re.findall(r"^\| `(\w+)=(\w+)` \|", DOC, re.MULTILINE)
    wanted = [("fuse", v) for v in get_args(Fuse)] + [("split", v) for v in get_args(Split)]
    assert sorted(rows) == sorted(wanted)
    default = IndexToRegion()
    assert f"| `fuse={default.fuse}` | fuses what may be and pays; the default |" in DOC
    assert f"| `split={default.split}` | a fused value is composed" in DOC


def test_the_figures_of_the_cost_are_those_of_the_pass() -> None:
    text = " ".join(DOC.split())
    assert f"{BLOCK} points of an axis lie in one block" in text and f"up to {ROW} points" in text
    assert f"{FLOPS_A_BYTE} f32 operations a byte and {TENSOR_FLOPS_A_BYTE} on tensor" in text
    assert f"a symbol counts as {TYPICAL}" in text


def test_the_levels_are_those_of_the_pass() -> None:
    table = DOC[DOC.index("| level |") :]
    names = re.findall(r"^\| `(\w+)` \|", table[: table.index("\n\n")], re.MULTILINE)
    assert names == [level.name for level in Level if level]
    assert f"a product of at most {LEAST} multiply-adds, with a symbol as {TYPICAL}" in DOC


def test_the_reasons_are_those_of_the_pass() -> None:
    """Each sentence of the table, without its gaps, is in the pass's source and the other way."""
    source = (ROOT / "passes" / "region" / "inline_deferred.py").read_text()
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    start = DOC.index("| why a deferred output")
    rows = re.findall(r"`([^`]*)`", DOC[start : DOC.index("\n\n", start)])
    assert rows
    for row in rows:
        for part in filter(None, (p.strip(" ,") for p in row.split("…"))):
            assert part in source or part == "is wanted at" or part == "and at", part
