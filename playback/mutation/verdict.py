"""What the simulator makes of a mutant: caught, shown to be harmless, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.agreement import tolerance_check
from polyc.playback.estimate import Estimate
from polyc.playback.gpu.simulate import SimulationResult, simulate
from polyc.playback.mutation import Mutant, mutants, mutated
from polyc.rewriting.verdict import verifies

Array = NDArray[Any]


@dataclass
class Case:
    """One input of one variant: what it must compute, and what the right kernel leaves behind.

    ``kernel`` is the variant's name, None for the dispatch's choice.  ``expected`` is not
    rounded to the outputs' types.  ``order`` is the schedule, and when copies complete.
    """

    module: ModuleOp
    kernel: str | None
    symbols: Mapping[str, int]
    inputs: Sequence[Array]
    expected: Sequence[Estimate | Array]
    right: SimulationResult
    order: tuple[str, str] = ("round-robin", "late")

    @staticmethod
    def of(
        module: ModuleOp,
        kernel: str | None,
        symbols: Mapping[str, int],
        inputs: Sequence[Array],
        expected: Sequence[Estimate | Array],
        order: tuple[str, str] = ("round-robin", "late"),
    ) -> Case:
        """Runs the right kernel.  Raises PolycError when the simulator finds it wrong."""
        right = simulated(module, kernel, symbols, inputs, order)
        right.check()
        case = Case(module, kernel, symbols, inputs, expected, right, order)
        if (wrong := case.wrong(right)) is not None:
            raise PolycError(
                "Disagreement", f"@{right.variant} is wrong before any mutation: {wrong}"
            )
        return case

    def wrong(self, result: SimulationResult) -> str | None:
        """How the outputs differ from what is expected, or None."""
        dispatch = self.module.dispatch()
        kinds = list(dispatch.arg_types)[dispatch.num_inputs.value.data :]
        for kind, actual, expected in zip(kinds, result.outputs, self.expected, strict=True):
            mismatch = tolerance_check(actual, expected, kind.element_type)
            if mismatch is not None:
                return str(mismatch)
        return None


def simulated(
    module: ModuleOp,
    kernel: str | None,
    symbols: Mapping[str, int],
    inputs: Sequence[Array],
    order: tuple[str, str],
) -> SimulationResult:
    """A run with its fingerprint, in an order that repeats."""
    schedule, completion = order
    return simulate(module, inputs, symbols, kernel, schedule, 1, completion, fingerprint=True)


@dataclass(frozen=True)
class Verdict:
    """``outcome`` is ``caught``, ``harmless`` or ``survived``; ``how`` says by what."""

    mutant: Mutant
    outcome: str
    how: str = ""


def judge(mutant: Mutant, cases: Sequence[Case]) -> Verdict:
    """Run a mutant on every case, until one catches it.

    It is harmless only if in every case the outputs are the same bits and every access of
    memory happens after the same events as in the right kernel.
    """
    same = True
    for case in cases:
        try:
            module = mutated(case.module, mutant)
            if not verifies(module):
                module.verify()
        except VerifyException:
            return Verdict(mutant, "caught", "the verifier")
        try:
            result = simulated(module, case.kernel, case.symbols, case.inputs, case.order)
        except PolycError as error:
            return Verdict(mutant, "caught", error.kind)
        if result.findings:
            kinds = dict.fromkeys(f.kind for f in result.findings)
            return Verdict(mutant, "caught", ", ".join(kinds))
        if case.wrong(result) is not None:
            return Verdict(mutant, "caught", "the result")
        same = same and result.fingerprint == case.right.fingerprint
        same = same and all(
            np.array_equal(a.view(np.uint8), b.view(np.uint8))
            for a, b in zip(result.outputs, case.right.outputs, strict=True)
        )
    return Verdict(mutant, "harmless" if same else "survived")


def judge_all(cases: Sequence[Case]) -> list[Verdict]:
    """The verdicts on all mutants of the kernels that ``cases`` run."""
    run = {name for name, _ in cases[0].right.launches}
    return [judge(m, cases) for m in mutants(cases[0].module) if m.kernel in run]
