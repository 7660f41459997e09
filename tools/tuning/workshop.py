"""The candidates of one region on this GPU: built, checked at a bounded cost, and timed.

Where playback of the region at its sizes is little work, a candidate is compared with all of it.
Else it is compared at smaller sizes of the same class, at some points of the sizes that were asked
for, and over the whole of its outputs with the other candidates: where two differ most, playback
says which of them is wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.playback.reference import make_inputs
from polyc.runtime.program import Program
from polyc.tools.check import Expected, sizes_text
from polyc.tools.pipeline import Compilation
from polyc.tools.play import Signature
from polyc.tools.sizes import check_tensors
from polyc.tools.steps import Steps
from polyc.tools.tuning.regions import kinds, lowered
from polyc.tools.tuning.samples import Sample, effort, sampled, smaller
from polyc.tuning.beside import farthest, unwritten
from polyc.tuning.candidates import Candidate, laid
from polyc.tuning.gpu import POISON, Bench, Launches
from polyc.tuning.regions import facts

DRAWS = ("uniform", "special")
"""The inputs on which candidates are compared with all of playback."""

WHOLE = 2e7
"""The effort (``samples.effort``) up to which all of a region is played back at its sizes."""

SMALL = 1.2e7
"""The most effort of playback at smaller sizes, for each kind of inputs."""

SAMPLE = 4e6
"""The most effort of playback at some points."""

FAR = 8
"""Elements of each output in which a candidate differs most from another, that are played back."""


class Workshop:
    """A region's candidates at certain sizes.  Its tensors are on the GPU from the start."""

    def __init__(
        self,
        job: Compilation,
        region: KernelOp,
        points: dict[str, int],
        candidates: Sequence[Candidate],
        seed: int,
        steps: Steps,
    ) -> None:
        self.job, self.region, self.points = job, region, points
        self.candidates = candidates
        self._lock = threading.Lock()
        signature = Signature.of(region)
        assert signature is not None, "a region by itself is a program"
        check_tensors(signature, points)
        tiles = {n for c in candidates for n in c.plan.tile_sizes if n > 0}
        self.references: list[Any] = []
        self.sample: Sample | None = None
        self.small: dict[str, int] | None = None
        self.small_programs: dict[int, Program] = {}
        """By the identity of the program at the sizes that were asked for."""
        with steps.step("play back") as step:
            if effort(region, points) <= WHOLE:
                self.references += Expected.of_each_draw(signature, points, seed, DRAWS)
                step.note = f"on {' and '.join(e.draw for e in self.references)} inputs"
            else:
                inputs = make_inputs(signature, points, seed)
                some = sampled(region, points, tiles, SAMPLE, seed)
                self.sample = Sample(region, points, inputs, some)
                self.references.append(self.sample)
                self.small = smaller(region, points, [c.plan for c in candidates], SMALL)
                at = f", and all at {sizes_text(self.small)}" if self.small else ""
                step.note = f"{self.sample.count} elements{at}"
            expected = (
                [*Expected.of_each_draw(signature, self.small or {}, seed, DRAWS)]
                if self.small
                else []
            )
        inputs, outputs = kinds(region, points)
        self.bench = Bench([e.inputs for e in self.references], inputs, outputs, points)
        self._small_expected, self._small_bench = expected, None
        if self.small:
            inputs, outputs = kinds(region, self.small)
            self._small_bench = Bench(
                [e.inputs for e in expected], inputs, outputs, self.small, rotate=False
            )
        self._right: list[Program] = []
        """Those that are found right, of which the first one's outputs are held."""
        self._held: list[Any] = []
        self._fallen: list[tuple[Program, str]] = []

    def compile(self, candidate: Candidate) -> Program:
        """The program of a candidate at its sizes, and one at the smaller ones where it has one."""
        # One at a time is lowered, while NVRTC compiles others.
        with self._lock:
            module = lowered(self.job, self.region, candidate.plan)
            other = self._smaller(candidate)
        program = Program.compile(module)
        if other is not None:
            self.small_programs[id(program)] = Program.compile(other)
        return program

    def _smaller(self, candidate: Candidate) -> Any:
        """A candidate's kernel at the smaller sizes, or None where its plan does not hold there."""
        if self.small is None:
            return None
        arch = candidate.plan.arch.data
        try:
            given = facts(self.small), candidate.name
            plan = laid(self.region, arch, candidate.fields, *given)
            return lowered(self.job, self.region, plan)
        except PolycError:
            return None

    def wrong(self, program: Program) -> str | None:
        """What is wrong with a program's results, or None.  Raises PolycError where it fails."""
        small = self.small_programs.pop(id(program), None)
        if small is not None and self._small_bench is not None:
            why = self._small_bench.wrong(small, self._small_expected)
            if why is not None:
                return why
        why = self.bench.wrong(program, self.references)
        if why is None and self.sample is not None:
            why = self._beside(self.sample, program, self.bench.runs)
        return why

    def fallen(self) -> list[tuple[Program, str]]:
        """Programs that were found right before a later one showed them to be wrong."""
        told, self._fallen = self._fallen, []
        return told

    def _beside(self, sample: Sample, program: Program, runs: Sequence[list[Any]]) -> str | None:
        """What is wrong where what a program's runs computed differs most from what another did.

        The first program's runs are compared with one another.
        """
        fault: str | None = None
        held = self._held or runs[-1]
        for outputs in runs:
            why, of_held = self._apart(sample, outputs, held)
            if why is not None:
                return why
            fault = fault or of_held
        if fault is not None and not self._right:
            return fault
        if fault is not None:
            self._instead(sample, program, runs[-1], fault)
            return None
        self._held = held
        self._right.append(program)
        return None

    def _apart(
        self, sample: Sample, outputs: list[Any], held: list[Any]
    ) -> tuple[str | None, str | None]:
        """What is wrong with outputs, or else with those that are held, where they differ most."""
        fault: str | None = None
        for i, (own, other) in enumerate(zip(outputs, held, strict=True)):

            def wrong(array: Any, number: int, output: int = i) -> str | None:
                found = sample.at(output, number, array.reshape(-1)[number])
                name = f"output {sample.names[output]} at {sample.where}"
                return None if found is None else f"{name}, {_single(found)}"

            apart = farthest(own, other, FAR)
            for number in dict.fromkeys((*unwritten(own, POISON, FAR), *apart)):
                if (why := wrong(own, number)) is not None:
                    return why, None
            faults = (wrong(other, number) for number in apart if fault is None)
            fault = next((f for f in faults if f is not None), fault)
        return None, fault

    def _instead(self, sample: Sample, program: Program, outputs: list[Any], fault: str) -> None:
        """Hold the outputs of ``program``: those that were held are wrong, and others may be."""
        before, self._right, self._held = self._right, [program], outputs
        self._fallen.append((before[0], fault))
        for other in before[1:]:
            why = self._beside(sample, other, [self.bench.results(other)])
            if why is not None:
                self._fallen.append((other, why))

    def timed(self, program: Program) -> Launches:
        """A program's launches, ready to be timed."""
        return self.bench.timed(program)


def _single(mismatch: Any) -> str:
    """A mismatch of one element."""
    return str(mismatch).partition(";")[0]
