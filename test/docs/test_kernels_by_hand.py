"""docs/tools/kernels-by-hand.md: commands print what it shows, and it names every remark."""

from __future__ import annotations

import re

import pytest

from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.root import ROOT

PAGE = (ROOT / "docs" / "tools" / "kernels-by-hand.md").read_text("utf-8")
KINDS = (ROOT / "docs" / "diagnostics.md").read_text("utf-8")


@pytest.mark.parametrize(("command", "shown"), blocks(PAGE, "shows"))
def test_shown_output_is_what_the_command_prints(
    command: str,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    check_shown(command, shown, capsys)


def test_the_page_names_every_kind() -> None:
    section = KINDS[KINDS.index("## Kernels by hand") : KINDS.index("## Parameters")]
    kinds = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert len(kinds) == 7
    assert [kind for kind in kinds if f"`{kind}`" not in PAGE] == []
