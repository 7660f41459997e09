"""The page of kinds has every kind that the code raises, and each of them has a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from polyc.playback.gpu.findings import KINDS
from polyc.tools.streams import OS_KINDS

FOLDERS = (
    *("affine", "dialects", "poly", "rewriting", "families", "passes", "lowering"),
    *("playback", "runtime", "tools", "tile", "trace", "importers", "tuning"),
)
RAISERS = {"PolycError", "fail", "refuse", "Note"}
WORD = re.compile(r"[A-Z][a-z]\w*")
LEADING = re.compile(r"([A-Z]\w*[a-z]\w*): \S?")
ROW = re.compile(r"^\| `([A-Z]\w+)` \| (.+) \|$", re.M)

CLASSES = {"exact", "reassociating", "rounding", "finite-only"}
"""Remarks that a rewrite was made have the class of its change in the place of a kind."""


def first_text(node: ast.AST) -> str | None:
    """The constant text that a string or an f-string begins with."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return first_text(node.values[0]) if isinstance(node, ast.JoinedStr) and node.values else None


def kinds_in(tree: ast.Module) -> Iterator[str]:
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "kind")]
            if name == "from_text":
                given = [*node.args[2:], *given[1:]]
            for argument in given if name in RAISERS or name == "from_text" else ():
                if (text := first_text(argument)) and WORD.fullmatch(text):
                    yield text
        text = None if id(node) in docstrings else first_text(node)
        found = LEADING.match(text or "")
        if found is not None and found[1] != "CTAs":
            yield found[1]


@cache
def raised() -> dict[str, str]:
    """Every kind in the code, with a file that raises it."""
    found = dict.fromkeys(KINDS, "playback/gpu/findings.py")
    found |= {kind: "tools/streams.py" for kind, _ in OS_KINDS.values()}
    for folder in FOLDERS:
        for path in sorted(Path(folder).rglob("*.py")):
            for kind in kinds_in(ast.parse(path.read_text())):
                found.setdefault(kind, str(path))
    return found


def table() -> dict[str, str]:
    rows = ROW.findall(Path("docs/diagnostics.md").read_text())
    return dict(rows)


def test_the_page_has_every_kind_and_no_other() -> None:
    found = {**raised(), "InputOutput": "tools/streams.py"}
    assert {k: v for k, v in found.items() if k not in table()} == {}
    assert [kind for kind in table() if kind not in found] == []


def test_the_page_says_of_findings_what_the_simulator_says() -> None:
    rows = table()
    shared = [k for k in KINDS if k in ("Deadlock", "Misaligned")]
    assert len(shared) == 2  # also raised elsewhere, with the same meaning
    assert all(rows[kind] == text for kind, text in KINDS.items())


def test_every_kind_is_raised_by_a_test() -> None:
    """A test names it, in the text of a refusal or as the kind of what was caught."""
    here = Path(__file__).name
    paths = [p for p in Path("test").rglob("*") if p.suffix in (".py", ".mlir") and p.name != here]
    words = set(re.findall(r"\w+", "\n".join(p.read_text() for p in paths)))
    assert [kind for kind in table() if kind not in words] == []
