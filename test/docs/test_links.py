"""Every relative link of a page leads to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from polyc.test.support.root import ROOT

DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "bench" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")


def prose(text: str) -> str:
    """A page without its blocks of code, in which ``](`` means something else."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The names by which a page's headings are linked to."""
    headings = re.findall(r"^#+ +(.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(page: Path, text: str) -> list[str]:
    """The links of ``text``, as if it were the page's, that lead nowhere."""
    wrong: list[str] = []
    for link in LINK.findall(prose(text)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        there = target.exists() and target.resolve().is_relative_to(ROOT)
        read = target.read_text("utf-8") if anchor and name and there else text
        if not there or (anchor and anchor not in anchors(read)):
            wrong.append(link)
    return wrong


def paths_named(text: str) -> list[str]:
    """The pages that a text names by their path from the repository's root."""
    return re.findall(r"(?<![\w./(])docs/[\w./-]+\.md", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page, page.read_text("utf-8")) == []


def test_a_link_that_leads_nowhere_is_seen() -> None:
    page = DOCS / "tools" / "running.md"
    text = "# A day's work\n[a](../semantics.md) [b](semantics.md) [c](#a-days-work) [d](#e)\n"
    assert broken(page, text) == ["semantics.md", "#e"]
    assert broken(page, "[a](../dialects/tile-level.md#nothing)") != []
    assert broken(page, "[a](../../../elsewhere.md)") != []


def test_code_and_texts_name_pages_that_are_there() -> None:
    wrong = {
        str(path.relative_to(ROOT)): name
        for suffix in ("py", "md", "mlir")
        for path in ROOT.rglob(f"*.{suffix}")
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        for name in paths_named(path.read_text("utf-8"))
        if not (ROOT / name).exists()
    }
    assert wrong == {}


def test_every_page_is_listed() -> None:
    index = (DOCS / "README.md").read_text("utf-8")
    listed = {name for name in LINK.findall(index) if name.endswith(".md")}
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    assert listed == pages
