"""docs/passes/region-patterns.md: its tables are those of the passes, its commands are run."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from polyc.passes.region.distribute import SPLIT
from polyc.passes.support.region.cost import EXCHANGE, NOMINAL, SLOW
from polyc.passes.support.region.legality import JOIN, JOIN_NEEDS, SAME_ACCUMULATOR, TABLE, Row
from polyc.rewriting.changes import CLASSES, DEFAULT_CLASSES
from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.legality_mutants import mutants
from polyc.test.support.root import ROOT

DOC = (ROOT / "docs" / "passes" / "region-patterns.md").read_text()


@pytest.mark.parametrize(("command", "shown"), blocks(DOC, "shows"))
def test_shown_output_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    shown: str,
) -> None:
    monkeypatch.chdir(ROOT)
    check_shown(command, shown, capsys)


def rows(heading: str) -> list[str]:
    """The rows of the first table under a heading."""
    part = DOC.split(f"\n## {heading}\n", 1)[1]
    found = re.findall(r"^\|.*\|$", part.split("\n## ")[0], re.MULTILINE)
    return found[2:]


def of_row(row: Row) -> str:
    """A legality row as the page has it."""
    x = {"only": "x", "lhs": "x, c", "rhs": "c, x"}[row.varying]
    y = x.replace("x", f"{row.becomes}(x)")
    needs = "; ".join(need.text for need in row.needs)
    return (
        f"| `{row.reduce}({row.function}({x}))` | `{row.function}({y})` | {row.change} | {needs} |"
    )


def test_the_legality_table_is_that_of_r1() -> None:
    assert rows("R1: functions move out") == [of_row(row) for row in TABLE]
    assert SAME_ACCUMULATOR.text in " ".join(DOC.split())


def test_the_tables_of_r0_and_r2() -> None:
    assert rows("R0: reductions join") == [f"| {f} | {JOIN[f]} |" for f in JOIN]
    text = " ".join(DOC.split())
    for need in JOIN_NEEDS:
        assert f"* {need.text}" in text
    assert rows("R2: reductions are distributed") == [
        f"| `{f}({g}(x, y))` | `{g}({f}(x), {f}(y))` | {change} |"
        for (g, f), change in SPLIT.items()
    ]


def test_the_figures_of_the_cost() -> None:
    text = " ".join(DOC.split())
    assert f"a symbol counts as {NOMINAL}" in text
    assert f"counts as {SLOW}" in text and f"{EXCHANGE} for each result" in text


def test_the_classes_and_the_default() -> None:
    found = [row.split("|")[1].strip() for row in rows("Classes of change")]
    assert tuple(found) == CLASSES
    assert f"`classes={','.join(DEFAULT_CLASSES)}` is the default" in DOC


def test_the_mutants_are_counted() -> None:
    counts = Counter(m.kind for m in mutants())
    wanted = [f"| {kind} | {n} | {n} |" for kind, n in counts.items()]
    assert rows("How the tables are tested") == [
        *wanted,
        f"| all | {counts.total()} | {counts.total()} |",
    ]
