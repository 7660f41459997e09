"""docs/families/convolution.md says what is so: commands are run, tables are the passes'."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from polyc.families.conv.variants import GATHERS, TMA, ConvVariant
from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.root import ROOT

DOC = (ROOT / "docs" / "families" / "convolution.md").read_text()


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
    source = (ROOT / "families" / "conv" / "recognise.py").read_text()
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    start = DOC.index("| `plan-select` refuses")
    rows = re.findall(r"^\| `([^`]*)` \|", DOC[start : DOC.index("\n\n", start)], re.MULTILINE)
    assert len(rows) > 5
    for row in rows:
        for part in filter(None, (p.strip(" ,[]") for p in row.split("…"))):
            assert part in source, part


def line(variant: ConvVariant) -> str:
    def multiples(of: int) -> str:
        return "any" if of == 1 else f"multiples of {of}"

    tile = ", ".join(map(str, cast("list[int]", variant.fields["tile"])))
    pixels = f"{variant.pixels} or more" if variant.pixels else "any"
    return (
        f"| `{variant.name}` | {tile} | {multiples(variant.channels)} "
        f"| {multiples(variant.filters)} | {pixels} |"
    )


def test_the_tiles_are_those_of_the_plans() -> None:
    found = re.findall(r"^\| `\w+` \| \d+, .*$", DOC, re.MULTILINE)
    assert found == [line(variant) for variant in (*TMA, *GATHERS)]
