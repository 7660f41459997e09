"""docs/architecture.md and CONTRIBUTING.md: each path and link that they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polyc.test.support.root import ROOT

PAGES = (ROOT / "docs" / "architecture.md", ROOT / "CONTRIBUTING.md")
ROOMS = (
    "affine|dialects|poly|cost|rewriting|families|passes|lowering|playback|runtime|tile|tools|test"
)


def missing(page: Path, text: str) -> list[str]:
    """What ``text``, as if it were the page's, names that is not there."""
    links = [x for x in re.findall(r"\]\(([^)]+)\)", text) if not (page.parent / x).exists()]
    named = re.findall(rf"`((?:{ROOMS})/[^`<]*)`", text)
    return links + [x for x in named if not (ROOT / x).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_what_the_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    assert missing(page, text) == []
    assert re.findall(rf"`(?:{ROOMS})/", text)


def test_a_wrong_path_is_seen() -> None:
    text = "[a](b.md) `passes/gpu_x.py` `passes/pipeline.py`"
    assert missing(PAGES[0], text) == ["b.md", "passes/gpu_x.py"]


def test_every_room_is_on_the_way() -> None:
    text = PAGES[0].read_text()
    for room in ROOMS.split("|")[:-1]:
        assert f"`{room}/" in text, room
