"""docs/families/attention.md says what is so: commands are run, tables are what the passes know."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from polyc.families.attention.gates import (
    ALONG,
    ANY,
    BOUNDED,
    BROUGHT,
    KEPT_FEATURES,
    PLAIN,
    UNMASKED,
)
from polyc.families.attention.operands import CORE_STEP, FEATURE_STEP
from polyc.families.attention.paged import STEP
from polyc.families.attention.variants import VARIANTS
from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.root import ROOT

DOC = (ROOT / "docs" / "families" / "attention.md").read_text()


@pytest.mark.parametrize(("command", "shown"), blocks(DOC, "shows"))
def test_shown_output_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    shown: str,
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, text in blocks(DOC, "file"):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    check_shown(command, shown, capsys)


def test_the_reasons_are_those_of_the_search() -> None:
    """Each sentence of the table, without its gaps, is in the source."""
    source = "".join((ROOT / "families" / "attention" / f).read_text() for f in SOURCES)
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    numbers = (("CORE_STEP", CORE_STEP), ("FEATURE_STEP", FEATURE_STEP), ("STEP", STEP))
    for name, number in (*numbers, ("KEPT_FEATURES", KEPT_FEATURES)):
        source = source.replace(f"{{{name}}}", str(number))
    start = DOC.index("| `plan-select` refuses")
    rows = re.findall(r"^\| `([^`]*)` \|", DOC[start : DOC.index("\n\n", start)], re.MULTILINE)
    rows = [row for row in rows if row != "plan-select"]
    assert len(rows) > 5
    for row in rows:
        for part in filter(None, (p.strip(" ,") for p in row.replace("256", "…").split("…"))):
            assert part in source, part


SOURCES = (
    "recognise.py",
    "operands.py",
    "paged.py",
    "queries.py",
    "softmax.py",
    "schedules.py",
    "variants.py",
)


SCORES = {
    UNMASKED: "a scale, no mask of positions",
    PLAIN: "a scale, at most a last key",
    BOUNDED: "a scale, any mask of positions",
    ALONG: "of one value a key, and of values a query has one of",
    BROUGHT: "of one mask of queries and keys, of f16, bf16 or i1, and at most a last key",
    ANY: "any",
}


def test_the_tiles_are_those_of_the_plans() -> None:
    wanted: list[str] = []
    for variant in VARIANTS["sm_90a"]:
        queries, keys = cast("list[int]", variant.fields["tile"])
        (rows,) = cast("list[int]", variant.fields["warp_tile"])
        wanted.append(
            f"| `{variant.name}` | {variant.features} | {SCORES[variant.scores]} "
            f"| {queries}, {keys} | {rows} |"
        )
    assert re.findall(r"^\| `\w+` \| \d+ .*$", DOC, re.MULTILINE) == wanted
    others = [replace(v, beside=True) for v in VARIANTS["sm_90a"] if v.name != "tma"]
    assert others == list(VARIANTS["sm_80"])


def test_the_remark_is_that_of_the_search() -> None:
    (said,) = re.findall(r"remark\[finite-only\]: (.*)", DOC)
    source = (ROOT / "families" / "attention" / "recognise.py").read_text()
    assert said in re.sub(r'"\s*\n\s*"', "", source)
