"""The faults put into the analyses are of the code as it is, and one of each kind is caught."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from polyc.test.unit.analysis_mutants import MUTANTS, ROOT, Mutant, caught, copied


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.file}: {m.what}")
def test_each_changes_one_place(mutant: Mutant):
    text = (ROOT / mutant.file).read_text("utf-8")
    assert text.count(mutant.old) == 1
    changed = text.replace(mutant.old, mutant.new)
    compile(changed, mutant.file, "exec")
    assert changed != text


def test_there_are_enough():
    assert len(MUTANTS) >= 60
    assert max(Counter((m.file, m.old, m.new) for m in MUTANTS).values()) == 1


def test_a_fault_is_caught(tmp_path: Path):
    """One quick mutant; bench/analysis_mutants.py runs all of them."""
    root = copied(tmp_path)
    (mutant,) = [m for m in MUTANTS if m.what == "the value alone"]
    assert caught(mutant, root) == "test_closure"
