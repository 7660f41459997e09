"""``region-to-gpu``: a region and its schedules as a tile program (S9, T3).

Each ``plan.schedule`` of a region becomes one ``gpu.kernel``, built by the family of regions that
its ``algo_choice`` names.  The schedules' conditions become the dispatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
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
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.kernel import KernelOp as BuiltOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp
from polyc.dialects.gpu.types import GlobalType
from polyc.dialects.plan import ScheduleOp, is_form
from polyc.dialects.region import (
    GraphOp,
    KernelOp,
)
from polyc.dialects.region.graph import ends, source
from polyc.families.family import Family, schedules_of
from polyc.families.registry import BY_NAME
from polyc.lowering.region_to_gpu.frame import Lowering, global_type, signature_type
from polyc.lowering.region_to_gpu.sequences import together
from polyc.rewriting.driver import located, rewrite


def lowering_of(family: Family[Any], found: object) -> Lowering:
    """A region of ``family`` on its way to kernels, whose builder is in the file of its name."""
    builder = cast(Any, import_module(f"polyc.lowering.region_to_gpu.{family.name}"))
    return builder.LOWERING(found)


class Labels:
    """Names of a module's workspaces, each there once; ``taken`` are already."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def free(self, name: str) -> str:
        """``name`` as a workspace may be called, and nothing else is."""
        label = re.sub(r"\W", "_", name)
        while label in self._taken:
            label += "_"
        self._taken.add(label)
        return label


@dataclass(frozen=True)
class Scheduled:
    """A region, as the families of its schedules see it, and these, all for one architecture.

    As a rule that is one family; a product of one row may be rows too.
    """

    kernel: KernelOp
    lowerings: Mapping[str, Lowering]
    plans: Sequence[ScheduleOp]
    names: Mapping[ScheduleOp, Sequence[str]]
    """Of each schedule, those of the workspaces of its kernels."""

    @staticmethod
    def of(op: KernelOp, labels: Labels) -> Scheduled:
        """Raises PolycError where the schedules are none, are of several architectures, are of a
        family that the region is not of, or speak of what the region does not have.
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
        families = {pattern: BY_NAME[pattern] for pattern in map(_pattern, plans)}
        regions = {pattern: family.recognise(op) for pattern, family in families.items()}
        lowerings = {p: lowering_of(family, regions[p]) for p, family in families.items()}
        for plan in plans:
            pattern = _pattern(plan)
            for fact in plan.when.data:
                if (fault := unknown_symbol(fact, op.symbol_names)) is not None:
                    raise PolycError("BadPlan", f"{fault} of region @{name}", plan)
            try:
                families[pattern].check_found(regions[pattern], plan)
            except PolycError as error:
                raise error.located(plan) from None
            _built_from(plan, lowerings[pattern]).check_form(plan)
        names: dict[ScheduleOp, list[str]] = {}
        copies: dict[str, str] = {}
        for plan in plans:
            names[plan] = []
            for space in _built_from(plan, lowerings[_pattern(plan)]).spaces(plan):
                label = copies.get(space.name) or labels.free(space.name)
                if space.copies is not None or space.shared:
                    copies[space.name] = label
                names[plan].append(label)
        return Scheduled(op, lowerings, plans, names)

    def lowering(self, plan: ScheduleOp) -> Lowering:
        """The region as the family of one of its schedules sees it."""
        return self.lowerings[_pattern(plan)]

    @property
    def arch(self) -> str:
        return self.plans[0].arch.data

    def kernels(self, bindings: Sequence[BindAttr]) -> list[Operation]:
        """The kernels of each schedule, of its form of the region where it has one; those that
        copy an operand once for all schedules.
        """
        found: dict[str, Operation] = {}
        for plan in self.plans:
            spaces = [BindAttr.workspace(name) for name in self.names[plan]]
            for made in _built_from(plan, self.lowering(plan)).build(plan, bindings, spaces):
                found.setdefault(made.sym_name.data, made)
        return list(found.values())

    def launches(self, bindings: Sequence[BindAttr]) -> list[LaunchOp | SequenceOp]:
        """What runs each of them: one launch, or a sequence."""
        return [located(self.variant(plan, bindings), plan) for plan in self.plans]

    def variant(self, plan: ScheduleOp, bindings: Sequence[BindAttr]) -> LaunchOp | SequenceOp:
        """What runs a schedule's kernels."""
        first, *rest = self.lowering(plan).launches(plan)
        if not rest and not _built_from(plan, self.lowering(plan)).spaces(plan):
            return first
        ops = [*self.workspaces(plan, bindings), *self.steps(plan)]
        return SequenceOp(plan.kernel_name, plan.when, first.align.data, ops)

    def workspaces(self, plan: ScheduleOp, bindings: Sequence[BindAttr]) -> list[WorkspaceOp]:
        """What lies between a schedule's kernels, or is a copy of what ``bindings`` say."""
        return [
            located(space.workspace(name, bindings), plan)
            for name, space in zip(
                self.names[plan], _built_from(plan, self.lowering(plan)).spaces(plan), strict=True
            )
        ]

    def steps(self, plan: ScheduleOp) -> list[LaunchOp]:
        """The launches of a schedule's kernels in a sequence."""
        spaces = (space.name for space in _built_from(plan, self.lowering(plan)).spaces(plan))
        called = dict(zip(spaces, self.names[plan], strict=True))
        made = (
            LaunchOp.of_sequence(
                one.kernel_name,
                one.grid.data,
                one.persistent is not None,
                cooperative=None if one.cooperative is None else one.cooperative.data,
                fills=called.get(one.fills_name or ""),
            )
            for one in self.lowering(plan).launches(plan)
        )
        return [located(one, plan) for one in made]


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
        scheduled = Scheduled.of(op, Labels())
        tensors = op.tensors
        bindings = [BindAttr.tensor(i) for i in range(len(tensors))]
        dispatch = gpu.DispatchOp(
            [n.data for n in (*op.arg_names, *op.res_names)],
            [signature_type(t) for t in tensors],
            [*op.arg_attrs, *op.res_attrs],
            len(op.arg_names),
            scheduled.launches(bindings),
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
        places = Places.of(op)
        labels = Labels(places.workspaces)
        scheduled = [Scheduled.of(kernel, labels) for kernel in kernels]
        variants = sequences(op, scheduled, places)
        # One that runs in no variant has no conditions either, under which its code would be made.
        steps = [step for variant in variants for step in variant.walk()]
        run = {step.kernel_name for step in steps if isinstance(step, LaunchOp)}
        built: list[Operation] = []
        for one in scheduled:
            made = one.kernels(places.bindings(one.kernel))
            built += [k for k in made if isinstance(k, BuiltOp) and k.sym_name.data in run]
        tensors = [*op.ins, *op.outs]
        dispatch = gpu.DispatchOp(
            [n.data for n in (*op.arg_names, *op.res_names)],
            [signature_type(t) for t in tensors],
            [*op.arg_attrs, *op.res_attrs],
            len(op.ins),
            [located(variant, op) for variant in variants],
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
    def of(graph: GraphOp) -> Places:
        found: dict[tuple[str, str], BindAttr] = {}
        for i, name in enumerate(graph.arg_names):
            found[(graph.sym_name.data, name.data)] = BindAttr.tensor(i)
        for i, edge in enumerate(graph.sources, len(graph.ins)):
            if (where := ends(edge)) is not None:
                found[where] = BindAttr.tensor(i)
        workspaces: dict[str, GlobalType] = {}
        labels = Labels()
        for kernel in graph.kernels():
            outs = kernel.tensors[len(kernel.ins) :]
            for name, kind in zip(kernel.res_names, outs, strict=True):
                where = (kernel.sym_name.data, name.data)
                if where not in found:
                    label = labels.free(name.data)
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
        spaces: list[Operation] = [WorkspaceOp(n, t) for n, t in places.workspaces.items()]
        steps: list[Operation] = []
        for one, plan in zip(scheduled, chosen, strict=True):
            bound = places.bindings(one.kernel)
            aligned = one.lowering(plan).launches(plan)[0].align.data
            for binding, wanted in zip(bound, aligned, strict=True):
                if (index := binding.tensor_index) is not None:
                    align[index] = max(align[index], wanted)
            spaces += one.workspaces(plan, bound)
            steps += one.steps(plan)
        label = f"{graph.sym_name.data}_{name}"
        ops = [*spaces, *steps]
        found.append(SequenceOp(label, AssumptionsAttr(tuple(facts)), align, ops))
    return found


@dataclass(frozen=True)
class RegionToGpu(ModulePass):
    """Turn regions and their schedules into tile programs, a graph's regions into one."""

    name = "region-to-gpu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerGraph()])
        rewrite(op, [LowerRegion()])
