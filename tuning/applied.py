"""Recorded plans in a module that has its schedules: first where they were measured (S11.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import schedules_of
from polyc.passes.plan.select import PlanSelectPass
from polyc.passes.region.im2col import stores_columns
from polyc.rewriting.notes import Note, show
from polyc.runtime import driver
from polyc.tuning.candidates import laid
from polyc.tuning.chip import Chip, Compiler
from polyc.tuning.columns import FIELDS
from polyc.tuning.records import Record, Records, read
from polyc.tuning.regions import canonical, digest, facts, sizes_text

VARIANT = "recorded"
"""The name of a recorded plan's variant; of several they are numbered."""


@dataclass
class Recorded:
    """The records of a file, to be used on ``chip``: without one on the GPU that is here.

    ``used`` are those that became schedules.
    """

    records: Records
    file: str
    chip: Chip | None = None
    used: list[Record] = field(default_factory=list[Record])

    @staticmethod
    def of_file(path: str | Path, chip: Chip | None = None) -> Recorded:
        """Raises PolycError ``BadRecord``."""
        if chip is None and driver.available():
            chip = Chip.here()
        return Recorded(read(path), str(path), chip)

    def put_first(self, module: ModuleOp, arch: str) -> None:
        """Give the regions of a module the schedules that were measured of them.

        Each is the first at its sizes, and verified as one that the user gives.  A remark says what
        was taken from where, and what was not, and why.  Raises PolycError.
        """
        there = [r for r in self.records.records if r.arch == arch]
        chip = self._chip(there)
        before = len(self.used)
        names: list[str] = []
        passed = False
        for kernel in [op for op in module.ops if isinstance(op, KernelOp)]:
            plans = schedules_of(kernel)
            if not plans:
                continue
            names.append(f"@{kernel.sym_name.data}")
            own = digest(canonical(kernel))
            found = [r for r in there if r.region == own]
            passed = passed or bool(found)
            fitting = [r for r in found if self._fits(kernel, r, chip)]
            self._put(kernel, plans, self._of_one_form(kernel, fitting))
        if any(dict(r.plan).get("algo_choice") == FIELDS["algo_choice"] for r in self.used):
            PlanSelectPass(arch).apply(Context(), module)
        if len(self.used) == before and not passed:
            text = (
                f"{self.file} has no record for {arch} of {', '.join(names) or 'any region'}; "
                "polyc tune makes one"
            )
            show([Note("RecordIgnored", text, module)])

    def _chip(self, there: Sequence[Record]) -> Chip | None:
        """The chip whose records are taken.  Raises PolycError where nothing says which."""
        if self.chip is not None or not there:
            return self.chip
        chips = {r.chip for r in there}
        if len(chips) > 1:
            listed = ", ".join(sorted(map(str, chips)))
            raise PolycError(
                "AmbiguousRecords",
                f"{self.file} has records of {listed}, and no GPU is here that says which to take; "
                "give its figures by --device FILE",
                there[0].at,
            )
        return next(iter(chips))

    def _fits(self, kernel: KernelOp, record: Record, chip: Chip | None) -> bool:
        """Whether a record is of this chip and this compiler; a remark says why not."""
        why = ""
        if chip is None or not record.chip.is_like(chip):
            why = f"it was measured on {record.chip}, and this is {chip}"
        elif record.compiler != Compiler.here():
            why = f"it was measured with {record.compiler}, and this is {Compiler.here()}"
        if why:
            text = (
                f"the record of @{kernel.sym_name.data} at {sizes_text(record.sizes)} in "
                f"{self.file} is not used: {why}; tune again"
            )
            show([Note("RecordIgnored", text, kernel)])
        return not why

    def _of_one_form(self, kernel: KernelOp, records: Sequence[Record]) -> Sequence[Record]:
        """The records without those that take a convolution apart, unless all of them do.

        A region is taken apart for all of its sizes.
        """
        others = [r for r in records if r.plan.get("algo_choice") != FIELDS["algo_choice"]]
        for record in records if others else ():
            if record not in others:
                text = (
                    f"the record of @{kernel.sym_name.data} at {sizes_text(record.sizes)} in "
                    f"{self.file} is not used: it takes the convolution apart, which is for all "
                    "sizes, and records of others do not"
                )
                show([Note("RecordIgnored", text, kernel)])
        return others or records

    def _put(
        self, kernel: KernelOp, plans: Sequence[ScheduleOp], records: Sequence[Record]
    ) -> None:
        block = kernel.parent_block()
        assert block is not None
        # What is of single sizes comes before what is of ranges around them.
        ordered = sorted(records, key=lambda r: sum(isinstance(n, tuple) for n in r.sizes.values()))
        taken = {plan.variant.data for plan in plans}
        for record in ordered:
            number = 1
            while (name := VARIANT + (str(number) if number > 1 else "")) in taken:
                number += 1
            taken.add(name)
            plan = laid(
                kernel,
                record.arch,
                record.plan,
                facts(record.sizes),
                name,
                self.records.text,
                record.path,
            )
            block.insert_op_before(plan, plans[0])
            self.used.append(record)
            text = (
                f"@{kernel.sym_name.data} runs plan {name!r} at {sizes_text(record.sizes)}, "
                f"measured at {record.measured_us:g} us on {record.chip.name} on {record.date}, "
                f"from {record.at or self.file}"
            )
            if stores_columns(plan):
                text += "; it stores columns, and does so at all sizes"
            show([Note("RecordedPlan", text, kernel)])
