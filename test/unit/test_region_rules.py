"""Random kernels: each rule of SRNF and of R2 keeps the value within its class (S6.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from xdsl.pattern_rewriter import RewritePattern

from polyc.dialects import region
from polyc.dialects.region_types import val_type
from polyc.passes.driver import rewrite
from polyc.passes.legality import CLASSES
from polyc.passes.notes import Report
from polyc.passes.region_cost import points
from polyc.passes.region_distribute import JoinThrough, SplitReduction
from polyc.passes.region_rewriting import ComposeBroadcasts, ComposeTransposes
from polyc.passes.region_srnf import (
    ApplyToAccumulator,
    HoistFromReduction,
    JoinReductions,
    MoveInvariantOut,
    normalise,
)
from polyc.test.unit.region_expressions import Program, agree, of_type, programs, shaken, text

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

EXAMPLES = settings(max_examples=250, deadline=None, derandomize=True, database=None)
ALLOWED = {c: CLASSES[: CLASSES.index(c) + 1] for c in CLASSES}


@pytest.mark.parametrize("change", CLASSES)
def test_rules_keep_values_within_their_class(change: str) -> None:
    fired = Counter[str]()

    @EXAMPLES
    @given(programs(finite=change == "finite-only"))
    def holds(program: Program) -> None:
        before = program.play()
        for name, rule in RULES.items():
            module = program.module.clone()
            if rewrite(module, [rule(ALLOWED[change], Report())], recursive=True):
                fired[name] += 1
                module.verify()
                agree(change, before, program.play(module))

    with shaken():
        holds()
    expected = {name for name in RULES if BY_CLASS.get(name, change) == change}
    assert expected <= set(fired), fired


def reduced(program: Program) -> int:
    """How many values the reductions of a program take."""
    found = of_type(program.module, region.ReduceOp)
    return sum(points(val_type(op.operands[0])) for op in found)


@pytest.mark.parametrize("change", CLASSES)
def test_normal_form_keeps_values_and_is_one(change: str) -> None:
    seen = Counter[str]()

    @EXAMPLES
    @given(programs(finite=change == "finite-only"))
    def holds(program: Program) -> None:
        before, work = program.play(), reduced(program)
        done = normalise(program.module, ALLOWED[change])
        seen.update(note.kind for note in done.fired)
        program.module.verify()
        agree(change, before, program.play())
        assert {note.kind for note in done.fired} <= set(ALLOWED[change])
        assert reduced(program) <= work, "nothing is reduced twice"
        once = text(program.module)
        assert not normalise(program.module, ALLOWED[change]).fired
        assert text(program.module) == once

    with shaken():
        holds()
    assert set(seen) == set(ALLOWED[change]), seen
