"""The regions of a program, and the kernel of one of them under one plan."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import schedules_of
from polyc.passes.pipeline import STAGES, build
from polyc.passes.region.im2col import stores_columns
from polyc.rewriting.driver import copied
from polyc.rewriting.notes import Note, show, unsaid
from polyc.runtime.program import Program
from polyc.tools.pipeline import Compilation, run_pass
from polyc.tuning.columns import taken_apart
from polyc.tuning.gpu import Kind
from polyc.tuning.regions import alone

SELECT = "plan-select"
"""The pass after which regions are what records are of."""


def regions_of(job: Compilation) -> list[KernelOp]:
    """The regions of a program that can be timed by themselves, each in a copy of its own.

    A remark says which one cannot: it hands a value to another kernel without memory.
    """
    found: list[KernelOp] = []

    def after(module: ModuleOp, name: str) -> None:
        if name == SELECT:
            found.extend(by_themselves(module))

    job.after = after
    job.run("plan")
    return found


def by_themselves(module: ModuleOp) -> list[KernelOp]:
    """Of the regions of a planned module those that can be timed; a remark names the others."""
    found: list[KernelOp] = []
    for op in module.ops:
        if not isinstance(op, KernelOp) or not schedules_of(op):
            continue
        if all(to.data == "gmem" for to in op.materialize):
            found.append(alone(op))
        else:
            text = f"@{op.sym_name.data} hands a value on without memory, and is not tuned"
            show([Note("NotTuned", text, op)])
    return found


def lowered(job: Compilation, region: KernelOp, plan: ScheduleOp) -> ModuleOp:
    """A region by itself under one plan, at the hardware level.  Raises PolycError."""
    if stores_columns(plan):
        module = taken_apart(region, plan)
    else:
        module = ModuleOp([copied(region), copied(plan)])
    names = (*STAGES["plan"][STAGES["plan"].index(SELECT) + 1 :], *STAGES["tiles"], *STAGES["gpu"])
    with unsaid():
        for name in names:
            run_pass(job.ctx, build(name, job.arch), module, name == names[-1])
    return module


def compiled(job: Compilation, region: KernelOp, plan: ScheduleOp) -> Program:
    """The program of a region under one plan.  Raises PolycError."""
    return Program.compile(lowered(job, region, plan))


def kinds(region: KernelOp, sizes: Mapping[str, int]) -> tuple[list[Kind], list[Kind]]:
    """The shapes and element types of a region's inputs and outputs."""
    found: list[Kind] = [
        (tuple(d.evaluate(sizes) for d in t.shape), str(t.element_type)) for t in region.tensors
    ]
    return found[: len(region.ins)], found[len(region.ins) :]
