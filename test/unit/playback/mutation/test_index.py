"""Mistakes in an index book are seen by its verifier or its playback; the page has the counts."""

from __future__ import annotations

import json
from pathlib import Path

from polyc.bench.book_mutation import COLUMNS, MOVEMENTS, booked, counts_of, judged, table
from polyc.dialects import index, tiny
from polyc.playback.mutation.index import is_harmless, mutants, mutated
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

RESULTS = Path("bench/results/book_mutation.json")


def movements() -> tiny.GraphOp:
    return booked(parse_text(make_context(), MOVEMENTS, "movements.mlir"))


def test_mistakes_in_each_movement_are_caught() -> None:
    """The counts are those of the page, and what survives is what the page explains."""
    verdicts = judged(movements(), {"M": 5, "N": 7})
    assert counts_of(verdicts) == json.loads(RESULTS.read_text())["movements"]
    survived = [str(v.mutant) for v in verdicts if not v.caught and not v.harmless]
    assert survived == [
        "%p: fill 0.5 -> 0.0 in piece 2",
        "%p: fill 0.5 -> -inf in piece 2",
        "%u: operand 0, result 0 without d1",
    ]


def test_the_page_has_the_counts() -> None:
    results = json.loads(RESULTS.read_text())
    lines = table(results)
    assert "\n".join(lines) in Path("docs/tools/mutation.md").read_text()
    _, *cells = (c.strip() for c in lines[-1].strip("|").split("|"))
    total = dict(zip(COLUMNS, map(int, cells), strict=True))
    assert total["mutants"] >= 60
    assert total["either"] >= 0.95 * (total["mutants"] - total["harmless"])


def test_a_mutant_is_one_change_in_a_copy() -> None:
    graph = movements()
    before = str(graph)
    found = mutants(graph)
    assert len({str(m) for m in found}) == len(found)
    for mutant in found[::23]:
        copy = mutated(graph, mutant)
        entries = zip(index.book(graph).values(), index.book(copy).values(), strict=True)
        assert sum(a.pieces != b.pieces for a, b in entries) == 1
    assert str(graph) == before


def test_what_is_harmless_is_proved() -> None:
    """A read at 0 of what repeats there, and no other."""
    graph = movements()
    found = {str(m): is_harmless(graph, m) for m in mutants(graph)}
    assert found["%t: operand 0, result 0 without d1"]
    assert not found["%t: operand 0, result 1 without d0"]
    assert not any(v for text, v in found.items() if "shifted" in text or "fill" in text)
