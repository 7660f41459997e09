"""The faults put into the analyses are of the code as it is, and one of each kind is caught."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from polyc.bench.analysis_mutants import table
from polyc.test.support.analysis_mutants import MUTANTS, Mutant, caught, copied
from polyc.test.support.root import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.file}: {m.what}")
def test_each_changes_one_place(mutant: Mutant):
    text = (ROOT / mutant.file).read_text("utf-8")
    assert text.count(mutant.old) == 1
    changed = text.replace(mutant.old, mutant.new)
    compile(changed, mutant.file, "exec")
    assert changed != text


def test_the_page_has_the_counts():
    results = json.loads((ROOT / "bench/results/analysis_mutants.json").read_text())
    assert {(f, w) for f, found in results.items() for w in found} == {
        (m.file, m.what) for m in MUTANTS
    }
    assert "\n".join(table(results)) in (ROOT / "docs/tools/mutation.md").read_text()
    verdicts = [by for found in results.values() for by in found.values()]
    assert verdicts.count(None) <= 0.05 * len(verdicts)


def test_there_are_enough():
    assert len(MUTANTS) >= 60
    assert max(Counter((m.file, m.old, m.new) for m in MUTANTS).values()) == 1


def test_a_fault_is_caught(tmp_path: Path):
    """One quick mutant; bench/analysis_mutants.py runs all of them."""
    root = copied(tmp_path)
    (mutant,) = [m for m in MUTANTS if m.what == "the value alone"]
    assert caught(mutant, root) == "test_closure"
