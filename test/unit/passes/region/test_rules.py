"""Random kernels: each rule of SRNF and of R2 keeps the value within its class (S6.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from xdsl.pattern_rewriter import RewritePattern

from polyc.dialects import region
from polyc.dialects.region.types import val_type
from polyc.passes.region.distribute import JoinThrough, SplitReduction
from polyc.passes.region.srnf import (
    ApplyToAccumulator,
    HoistFromReduction,
    JoinReductions,
    MoveInvariantOut,
    normalise,
)
from polyc.passes.support.region.cost import points
from polyc.playback.functions import Array
from polyc.rewriting.changes import CLASSES
from polyc.rewriting.driver import rewrite, verify
from polyc.rewriting.notes import Report
from polyc.rewriting.region.building import ComposeBroadcasts, ComposeTransposes
from polyc.test.support.region_expressions import Program, agree, of_type, programs, shaken, text

Rule = Callable[[Sequence[str], Report], RewritePattern]

RULES: dict[str, Rule] = {
    "R0": lambda classes, report: JoinReductions(classes, report),
    "R1": lambda classes, report: HoistFromReduction(classes, None, report),
    "R2 split": lambda classes, report: SplitReduction(classes, 64, report),
    "R2 join": lambda classes, report: JoinThrough(classes, 64, report),
    "R3 invariant": lambda _, report: MoveInvariantOut(report),
    "R3 accumulator": lambda _, report: ApplyToAccumulator(report),
    "broadcasts": lambda _, report: ComposeBroadcasts(),
    "transposes": lambda _, report: ComposeTransposes(),
}
BY_CLASS = {"R2 split": "finite-only", "R2 join": "finite-only"}
"""Rules that random kernels give no use of a smaller class to."""

EXAMPLES = settings(deadline=None, derandomize=True, database=None)
MOST = {"exact": 150, "reassociating": 100, "finite-only": 160}
"""Programs that are drawn: until each rule of a class has fired."""

ALLOWED = {c: CLASSES[: CLASSES.index(c) + 1] for c in CLASSES}


def reduced(program: Program) -> int:
    """How many values the reductions of a program take."""
    found = of_type(program.module, region.ReduceOp)
    return sum(points(val_type(op.operands[0])) for op in found)


def rules_keep_values(program: Program, change: str, before: Sequence[Array]) -> set[str]:
    """Each rule alone keeps values within the class; the rules that fired."""
    fired: set[str] = set()
    for name, rule in RULES.items():
        module = program.module.clone()
        if rewrite(module, [rule(ALLOWED[change], Report())], recursive=True):
            fired.add(name)
            verify(module)
            agree(change, before, program.play(module))
    return fired


def normal_form_keeps_values_and_is_one(
    program: Program, change: str, before: Sequence[Array]
) -> list[str]:
    """All rules together do, and leave nothing for a second time; the classes that they used."""
    work = reduced(program)
    fired = [note.kind for note in normalise(program.module, ALLOWED[change]).fired]
    verify(program.module)
    agree(change, before, program.play())
    assert set(fired) <= set(ALLOWED[change])
    assert reduced(program) <= work, "nothing is reduced twice"
    once = text(program.module)
    assert not normalise(program.module, ALLOWED[change]).fired
    assert text(program.module) == once
    return fired


@pytest.mark.parametrize("change", MOST)
def test_rules_and_their_normal_form_keep_values_within_their_class(change: str) -> None:
    """Both of the same programs: to draw one takes as long as to check it."""
    fired, seen = Counter[str](), Counter[str]()

    @settings(EXAMPLES, max_examples=MOST[change])
    @given(programs(finite=change == "finite-only"))
    def holds(program: Program) -> None:
        before = program.play()
        fired.update(rules_keep_values(program, change, before))
        seen.update(normal_form_keeps_values_and_is_one(program, change, before))

    with shaken():
        holds()
    expected = {name for name in RULES if BY_CLASS.get(name, change) == change}
    assert expected <= set(fired), fired
    # What rounds differently is decided above regions.
    assert set(seen) == {*ALLOWED[change]} - {"rounding"}, seen
