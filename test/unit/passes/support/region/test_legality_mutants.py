"""Random values catch every legality row that is too generous, and pass the right ones."""

from __future__ import annotations

import pytest

from polyc.test.support.legality_mutants import Mutant, controls, killed, mutants

MUTANTS = mutants()


def named(mutant: Mutant) -> str:
    return f"{mutant.kind}-{mutant.name}"


def test_no_mutant_stands_twice() -> None:
    assert len({named(m) for m in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS[::3], ids=named)  # `bench/legality_mutants.py` has all
def test_mutant_is_caught(mutant: Mutant) -> None:
    assert killed(mutant)


@pytest.mark.turns(2)
@pytest.mark.parametrize("control", controls(), ids=named)
def test_right_table_passes(control: Mutant) -> None:
    assert not killed(control)
