"""The texts of docs/dialects/index-book.md are what tiny-to-index writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.context import Context

from polyc.dialects import index
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text

BLOCK = re.compile(r"<!-- (text|entry: (\w+)) -->\n```mlir\n(.*?)```", re.S)


def pairs() -> list[tuple[str, str, str]]:
    """Each graph of the page with the value and the entry that follow it."""
    found: list[tuple[str, str, str]] = []
    graph = ""
    for kind, name, body in BLOCK.findall(Path("docs/dialects/index-book.md").read_text()):
        if kind == "text":
            graph = body
        else:
            found.append((graph, name, body.strip()))
    return found


@pytest.mark.parametrize(("graph", "name", "entry"), pairs(), ids=lambda t: t[:8])
def test_the_page_shows_what_the_pass_writes(
    graph: str, name: str, entry: str, ctx: Context
) -> None:
    module = parse_text(ctx, graph, "page.mlir")
    verify(module)
    TinyToIndex().apply(ctx, module)
    verify(module)
    assert entry in [line.strip() for line in str(module).splitlines()]
    (made,) = module.body.block.ops
    assert any(v.name_hint == name for v in index.book(made))


def test_the_page_has_entries() -> None:
    assert len(pairs()) == 4
