"""One region tuned: its candidates compiled side by side, checked, raced, and the best one kept."""

from __future__ import annotations

import csv
import io
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from polyc.cost.device import Device, device_of
from polyc.cost.values import Values, operations
from polyc.cost.work import at_once, compulsory
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.runtime.program import Program
from polyc.tools.steps import Steps
from polyc.tuning.candidates import Candidate
from polyc.tuning.chip import Chip, Compiler
from polyc.tuning.race import Race, Runner, Timed
from polyc.tuning.records import Key, Record, Records, today
from polyc.tuning.regions import Size, canonical, digest, sizes_text

BUILDS = 0.5
"""The part of a budget after which no further candidate is built, where one is."""

CHECKS = 0.75
"""The part of a budget after which no further candidate is checked, where one is right."""

BUILDERS = 6
"""Candidates that are built at a time: one is lowered, while NVRTC compiles others."""


@dataclass
class Tried:
    """A candidate and what became of it: ``state`` is ``measured``, ``slow``, ``wrong``,
    ``refused``, ``failed`` or ``not reached``, and ``why`` says more."""

    candidate: Candidate
    state: str = "not reached"
    why: str = ""
    seconds: float | None = None
    rounds: int = 0
    registers: int | None = None
    spilled: int | None = None


class Workshop(Protocol):
    """What a tuner asks for: a program of a candidate, its check, its time."""

    def compile(self, candidate: Candidate) -> Program:
        """Raises PolycError where it cannot be built."""
        ...

    def wrong(self, program: Program) -> str | None:
        """What is wrong with its results, or None.  Raises PolycError where it does not run."""
        ...

    def fallen(self) -> Sequence[tuple[Program, str]]:
        """Programs that were found right, and that a later one shows to be wrong, with what is;
        each is told once."""
        ...

    def timed(self, program: Program) -> Timed:
        """Raises PolycError where it does not run."""
        ...


@dataclass
class Tuner:
    """The tuning of one region: ``run`` fills ``tried``, of which ``best`` is the fastest."""

    region: KernelOp
    sizes: dict[str, Size]
    candidates: Sequence[Candidate]
    workshop: Workshop
    steps: Steps
    budget: float
    clock: Callable[[], float] = time.monotonic
    stop: Callable[[], bool] = lambda: False
    tried: list[Tried] = field(default_factory=list[Tried])
    ended: str = ""
    lost: bool = False
    """Whether the GPU's context went with a kernel that failed, so that nothing more runs."""

    def run(self) -> None:
        """Compile, check and time, until a rule or the user ends it; what was measured stays."""
        self.tried = [Tried(candidate) for candidate in self.candidates]
        start = self.clock()
        programs = self._compile(start + BUILDS * self.budget)
        runners = self._check(programs, start + CHECKS * self.budget)
        if runners and not self.stop():
            # What is checked is timed, also where a check took longer than it had.
            left = max(self.budget - (self.clock() - start), (1 - CHECKS) * self.budget)
            race = Race(runners, self.clock, left, self.stop, self._say)
            try:
                race.run()
            finally:
                self._keep(runners, race)

    def _say(self, text: str) -> None:
        self.steps.say(f"    {text}")

    def _compile(self, end: float) -> dict[int, Program]:
        programs: dict[int, Program] = {}
        with self.steps.step("compile candidates") as step:
            progress = self.steps.progress("candidates compiled")
            with ThreadPoolExecutor(min(BUILDERS, _processors())) as pool:
                begun: list[Future[Program]] = [
                    pool.submit(self.workshop.compile, one.candidate) for one in self.tried
                ]
                for number, (one, future) in enumerate(zip(self.tried, begun, strict=True)):
                    if self.stop() or (programs and self.clock() > end):
                        for other in begun:
                            other.cancel()
                    if future.cancelled():
                        continue
                    try:
                        programs[number] = future.result()
                    except PolycError as error:
                        one.state, one.why = "refused", f"{error.kind}: {error.message}"
                        continue
                    infos = programs[number].kernels.values()
                    one.registers = max((i.registers for i in infos), default=0)
                    one.spilled = sum(i.spill_bytes for i in infos)
                    progress(number + 1, len(self.tried))
            step.note = f"{len(programs)} of {len(self.tried)}"
        return programs

    def _check(self, programs: dict[int, Program], end: float) -> list[Runner[Timed]]:
        runners: list[Runner[Timed]] = []
        checked = 0
        with self.steps.step("check candidates") as step:
            progress = self.steps.progress("candidates checked")
            for number, program in programs.items():
                if self.stop() or self.lost or (runners and self.clock() > end):
                    break
                one, checked = self.tried[number], checked + 1
                try:
                    why = self.workshop.wrong(program)
                    for other, fault in self.workshop.fallen():
                        fell = next(n for n, p in programs.items() if p is other)
                        self.tried[fell].state, self.tried[fell].why = "wrong", fault
                        runners = [r for r in runners if r.name != str(fell)]
                    if why is not None:
                        one.state, one.why = "wrong", why
                        continue
                    runners.append(Runner(str(number), self.workshop.timed(program)))
                except PolycError as error:
                    one.state, one.why = "failed", f"{error.kind}: {error.message}"
                    # After a fault of a kernel the context answers every call with it.
                    self.lost = error.kind in ("DriverFailed", "LaunchFailed", "KernelHangs")
                progress(checked, len(programs))
            step.note = f"{len(runners)} of {checked} are right"
            if checked < len(programs):
                step.note += f", {len(programs) - checked} are not checked"
        return runners

    def _keep(self, runners: Sequence[Runner[Timed]], race: Race[Timed]) -> None:
        self.ended = race.ended or "it was stopped"
        for runner in runners:
            one = self.tried[int(runner.name)]
            if not runner.times:
                continue
            one.seconds, one.rounds = runner.median, len(runner.times)
            one.state, one.why = ("slow", runner.out) if runner.out else ("measured", "")
            if runner.out.startswith("failed"):
                one.state, one.seconds, self.lost = "failed", None, True

    @property
    def best(self) -> Tried | None:
        """The fastest of those that were measured."""
        timed = [one for one in self.tried if one.state == "measured"]
        return min(timed, key=lambda one: one.seconds or 0.0, default=None)

    @property
    def wrong(self) -> list[Tried]:
        """The candidates that are faults of polyc: wrong results, or failures of a kernel."""
        return [one for one in self.tried if one.state in ("wrong", "failed")]

    def record(self, chip: Chip, arch: str) -> tuple[Records, list[tuple[Key, object]]]:
        """The best plan as a record, and the plans that were in the race with it."""
        best = self.best
        if best is None or best.seconds is None:
            return Records(), []
        text = canonical(self.region)
        record = Record(
            digest(text),
            self.region.sym_name.data,
            self.sizes,
            chip,
            arch,
            Compiler.here(),
            best.candidate.fields,
            float(f"{best.seconds * 1e6:.5g}"),
            float(f"{best.candidate.time.seconds * 1e6:.5g}"),
            best.rounds,
            today(),
        )
        raced: list[tuple[Key, object]] = [
            (record.key, one.candidate.fields)
            for one in self.tried
            if one.state in ("measured", "slow", "wrong", "failed", "refused")
        ]
        return Records({record.region: text}, [record]), raced


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2


# What is printed --------------------------------------------------------------------------


def table(tried: Sequence[Tried]) -> list[str]:
    """The candidates, measured ones first and the fastest of them at the top."""
    ordered = sorted(tried, key=lambda o: (o.seconds is None, o.seconds or 0.0))
    best = ordered[0].seconds if ordered else None
    width = max([len(o.candidate.name) for o in tried] + [4])
    lines = [f"  {'plan':<{width}}  modelled us  measured us  of best"]
    for one in ordered:
        modelled = f"{one.candidate.time.seconds * 1e6:11.2f}"
        measured = share = ""
        if one.seconds is not None:
            measured = f"{one.seconds * 1e6:.2f}"
            share = f"{one.seconds / best:.3f}" if best else ""
        end = "" if one.state in ("measured", "not reached") else f"  {one.state}: {one.why}"
        lines.append(
            f"  {one.candidate.name:<{width}}  {modelled}  {measured:>11}  {share:>7}{end}".rstrip()
        )
    return lines


FIRST = (1, 4, 16)
"""Numbers of plans of which it is said how near to the fastest the best of them is."""


def regret_text(tried: Sequence[Tried]) -> str | None:
    """How much slower than the fastest the best of the first few plans is; None of one plan."""
    times = [one.seconds for one in tried]
    known = [seconds for seconds in times if seconds is not None]
    counts = [n for n in FIRST if n < len(times)]
    if len(known) < 2 or not counts:
        return None
    parts: list[str] = []
    for count in counts:
        there = [seconds for seconds in times[:count] if seconds is not None]
        slower = f"{min(there) / min(known) - 1:.1%} slower" if there else "not measured"
        parts.append(f"{slower} of {count}")
    return f"the best of the first plans tried is {', '.join(parts)}, than of all {len(times)}"


COLUMNS = (
    *("region", "sizes", "order", "candidate", "state", "flops", "bytes", "occupancy"),
    *("estimate_us", "actual_us", "rounds", "registers", "spill_bytes", "plan"),
)
"""Of the log (S13.3)."""


def log_text(
    region: KernelOp,
    sizes: dict[str, Size],
    points: dict[str, int],
    arch: str,
    tried: Sequence[Tried],
    device: Device | None,
    header: bool = True,
) -> str:
    """The candidates as CSV, a line each, in the order in which they are tried.

    ``occupancy`` is the part of an SM's threads that the model has on it.
    """
    chip = device or device_of(arch)
    values = Values(region, points)
    products = values.contractions()
    flops = sum(2 * values.multiply_adds(reduce) for reduce in products)
    if not products:
        flops = sum(
            operations(op) * values.points(values.own(op.results[0])) for op in values.reached
        )
    moved = compulsory(values, chip)[1]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if header:
        writer.writerow(COLUMNS)
    for number, one in enumerate(tried, 1):
        plan = one.candidate.plan
        held = at_once(plan, chip) * plan.threads() / chip.threads
        writer.writerow(
            [
                *(region.sym_name.data, sizes_text(sizes), number, one.candidate.name, one.state),
                *(f"{flops:.0f}", f"{moved:.0f}", f"{min(1.0, held):.3f}"),
                f"{one.candidate.time.seconds * 1e6:.3f}",
                "" if one.seconds is None else f"{one.seconds * 1e6:.3f}",
                one.rounds,
                "" if one.registers is None else one.registers,
                "" if one.spilled is None else one.spilled,
                json.dumps(one.candidate.fields, sort_keys=True),
            ]
        )
    return out.getvalue()
