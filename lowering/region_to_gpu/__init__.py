"""``region-to-gpu``: a region and its schedules as a tile program (S9, T3).

Each ``plan.schedule`` of a region becomes one ``gpu.kernel``, built by the family of regions that
its ``algo_choice`` names.  The schedules' conditions become the dispatch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import AssumptionsAttr, unknown_symbol
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp
from polyc.dialects.gpu.types import (
    BindAttr,
    GlobalType,
)
from polyc.dialects.plan import ScheduleOp, is_form
from polyc.dialects.region import (
    GraphOp,
    KernelOp,
)
from polyc.dialects.region.graph import ends, source
from polyc.families.family import Family, schedules_of
from polyc.families.registry import BY_NAME
from polyc.lowering.region_to_gpu.frame import Lowering, global_type
from polyc.lowering.region_to_gpu.kernel import Walked
from polyc.lowering.region_to_gpu.padded import Padded, sequence
from polyc.lowering.region_to_gpu.sequences import together
from polyc.rewriting.driver import located, rewrite


def lowering_of(family: Family[Any], found: object) -> Lowering:
    """A region of ``family`` on its way to kernels, whose builder is in the file of its name."""
    builder = cast(Any, import_module(f"polyc.lowering.region_to_gpu.{family.name}"))
    return builder.LOWERING(found)


@dataclass(frozen=True)
class Scheduled:
    """A region, as its family sees it, and its schedules, all for one architecture."""

    lowering: Lowering
    plans: Sequence[ScheduleOp]

    @staticmethod
    def of(op: KernelOp) -> Scheduled:
        """Raises PolycError where the schedules are none, are of several architectures or
        families, or speak of what the region does not have.
        """
        plans = schedules_of(op)
        name = op.sym_name.data
        if not plans:
            raise PolycError(
                "NoPlan", f"region @{name} has no plan.schedule; run plan-select first", op
            )
        archs = list(dict.fromkeys(p.arch.data for p in plans))
        if len(archs) > 1:
            raise PolycError(
                "UnsupportedPlan",
                f"the schedules of @{name} are for {' and '.join(archs)}; lower one "
                "architecture at a time",
                plans[1],
            )
        patterns = list(dict.fromkeys(_pattern(p) for p in plans))
        if len(patterns) > 1:
            raise PolycError(
                "UnsupportedPlan",
                f"the schedules of @{name} are for {' and '.join(patterns)}; a region is one",
                plans[1],
            )
        family = BY_NAME[patterns[0]]
        found = family.recognise(op)
        lowering = lowering_of(family, found)
        for plan in plans:
            for fact in plan.when.data:
                if (fault := unknown_symbol(fact, op.symbol_names)) is not None:
                    raise PolycError("BadPlan", f"{fault} of region @{name}", plan)
            try:
                family.check_found(found, plan)
            except PolycError as error:
                raise error.located(plan) from None
            _built_from(plan, lowering).check_form(plan)
        return Scheduled(lowering, plans)

    @property
    def kernel(self) -> KernelOp:
        return self.lowering.kernel

    @property
    def arch(self) -> str:
        return self.plans[0].arch.data

    def copies(self, plan: ScheduleOp) -> list[Padded]:
        """The tensors that are copied to other rows before the kernel of a schedule reads them."""
        return self.lowering.copies(plan) if isinstance(self.lowering, Walked) else []

    def kernels(self, bindings: Sequence[BindAttr]) -> list[Operation]:
        """A kernel a schedule, of its form of the region where it has one, behind its copies."""
        found: list[Operation] = []
        for plan in self.plans:
            found += [c.kernel(self.kernel, bindings[c.number]) for c in self.copies(plan)]
            found.append(_built_from(plan, self.lowering).build(plan, bindings))
        return found

    def variants(self, bindings: Sequence[BindAttr]) -> list[LaunchOp | SequenceOp]:
        """The launch of each of them, in a sequence where it has copies."""
        found: list[LaunchOp | SequenceOp] = []
        for plan in self.plans:
            launch, copies = located(self.lowering.launch(plan), plan), self.copies(plan)
            found.append(located(sequence(launch, copies, bindings), plan) if copies else launch)
        return found


def _built_from(plan: ScheduleOp, region: Lowering) -> Lowering:
    """The form that a schedule has of its region, or the region."""
    if plan.form is None:
        return region
    family = BY_NAME[_pattern(plan)]
    return lowering_of(family, family.recognise(plan.form))


def _pattern(plan: ScheduleOp) -> str:
    """What a schedule says that its region is; raises PolycError where it does not say."""
    pattern = plan.pattern
    if pattern is None or pattern not in BY_NAME:
        named = ", ".join(plan.algo_choice.data) or "nothing"
        raise PolycError(
            "UnsupportedPlan",
            f"the algo_choice of plan {plan.variant.data!r} is for {named}; region-to-gpu "
            f"builds one of {', '.join(BY_NAME)}",
            plan,
        )
    return pattern


class LowerRegion(RewritePattern):
    """A region.kernel with its schedules becomes a gpu.module.

    Legality: the region is of the family that its schedules name (which says why not
    otherwise); all schedules are for one architecture.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        if is_form(op):
            return
        scheduled = Scheduled.of(op)
        tensors = op.tensors
        bindings = [BindAttr.tensor(i) for i in range(len(tensors))]
        dispatch = gpu.DispatchOp(
            [n.data for n in (*op.arg_names, *op.res_names)],
            [global_type(t) for t in tensors],
            [*op.arg_attrs, *op.res_attrs],
            len(op.arg_names),
            scheduled.variants(bindings),
        )
        kernels = scheduled.kernels(bindings)
        module = gpu.ModuleOp(
            op.sym_name.data,
            scheduled.arch,
            op.symbol_names,
            op.assumptions,
            [*kernels, dispatch],
        )
        rewriter.replace(op, located(module, op), [])
        for plan in scheduled.plans:
            rewriter.erase(plan)


class LowerGraph(RewritePattern):
    """A region.graph with its kernels and their schedules becomes one gpu.module.

    A variant is a ``gpu.sequence``: a launch for each kernel, in order, with a workspace for each
    value between two of them.  Its conditions are those of all its schedules.  Legality: each
    kernel is legal for ``LowerRegion``, and both ends of every edge have one shape.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GraphOp, rewriter: PatternRewriter) -> None:
        kernels = op.kernels()
        scheduled = [Scheduled.of(kernel) for kernel in kernels]
        copies = [c.name for one in scheduled for plan in one.plans for c in one.copies(plan)]
        places = Places.of(op, copies)
        built: list[Operation] = []
        for one in scheduled:
            built += one.kernels(places.bindings(one.kernel))
        tensors = [*op.ins, *op.outs]
        dispatch = gpu.DispatchOp(
            [n.data for n in (*op.arg_names, *op.res_names)],
            [global_type(t) for t in tensors],
            [*op.arg_attrs, *op.res_attrs],
            len(op.ins),
            [located(s, op) for s in sequences(op, scheduled, places)],
        )
        name = op.sym_name.data
        parts = [*built, dispatch]
        module = gpu.ModuleOp(name, scheduled[0].arch, op.symbol_names, op.assumptions, parts)
        for one in scheduled:
            for plan in one.plans:
                rewriter.erase(plan)
            rewriter.erase(one.kernel)
        rewriter.replace(op, located(module, op), [])


@dataclass(frozen=True)
class Places:
    """Where the tensors of a graph's kernels lie: by owner and name, the tensor or workspace."""

    graph: GraphOp
    found: Mapping[tuple[str, str], BindAttr]
    workspaces: Mapping[str, GlobalType]

    @staticmethod
    def of(graph: GraphOp, others: Collection[str] = ()) -> Places:
        """Workspaces have other names than ``others``."""
        found: dict[tuple[str, str], BindAttr] = {}
        for i, name in enumerate(graph.arg_names):
            found[(graph.sym_name.data, name.data)] = BindAttr.tensor(i)
        for i, edge in enumerate(graph.sources, len(graph.ins)):
            if (where := ends(edge)) is not None:
                found[where] = BindAttr.tensor(i)
        workspaces: dict[str, GlobalType] = {}
        for kernel in graph.kernels():
            outs = kernel.tensors[len(kernel.ins) :]
            for name, kind in zip(kernel.res_names, outs, strict=True):
                where = (kernel.sym_name.data, name.data)
                if where not in found:
                    label = re.sub(r"\W", "_", name.data)
                    while label in workspaces or label in others:
                        label += "_"
                    workspaces[label] = global_type(kind)
                    found[where] = BindAttr.workspace(label)
        return Places(graph, found, workspaces)

    def bindings(self, kernel: KernelOp) -> list[BindAttr]:
        """What each tensor of a kernel's signature is, inputs first."""
        inputs = (source(kernel, i) for i in range(len(kernel.ins)))
        bound = [self.found[where] for where in inputs if where is not None]
        name = kernel.sym_name.data
        return [*bound, *(self.found[(name, n.data)] for n in kernel.res_names)]


def sequences(graph: GraphOp, scheduled: Sequence[Scheduled], places: Places) -> list[SequenceOp]:
    """The variants of a graph: a launch for each kernel, by the schedules that run together."""
    plans = [one.plans for one in scheduled]
    found: list[SequenceOp] = []
    for numbers, name in together(plans, graph.symbol_names, graph.assumptions).items():
        chosen = [own[i] for own, i in zip(plans, numbers, strict=True)]
        facts = dict.fromkeys(fact for plan in chosen for fact in plan.when.data)
        align = [1] * (len(graph.ins) + len(graph.outs))
        ops: list[Operation] = [WorkspaceOp(n, t) for n, t in places.workspaces.items()]
        for one, plan in zip(scheduled, chosen, strict=True):
            alone = one.lowering.launch(plan)
            bound = places.bindings(one.kernel)
            for binding, wanted in zip(bound, alone.align.data, strict=True):
                if (index := binding.tensor_index) is not None:
                    align[index] = max(align[index], wanted)
            grid, persistent = alone.grid.data, alone.persistent is not None
            for copy in one.copies(plan):
                ops.append(located(copy.workspace(bound[copy.number]), plan))
                ops.append(located(copy.launch(), plan))
            made = LaunchOp.of_sequence(plan.kernel_name, grid, persistent)
            ops.append(located(made, plan))
        label = f"{graph.sym_name.data}_{name}"
        found.append(SequenceOp(label, AssumptionsAttr(tuple(facts)), align, ops))
    return found


@dataclass(frozen=True)
class RegionToGpu(ModulePass):
    """Turn regions and their schedules into tile programs, a graph's regions into one."""

    name = "region-to-gpu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerGraph()])
        rewrite(op, [LowerRegion()])
