"""``plan-select``: choose how each region runs on an architecture (S8, S9.3).

Every ``region.kernel`` gets one ``plan.schedule`` for each variant of its kernel that the
assumptions on the symbols leave open, in order of dispatch.  The numbers are today's best-known
ones; tuning replaces them later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.arch import ARCHS, arch_names
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import shape_text, unknown_symbol
from polyc.dialects.common.views import is_view
from polyc.dialects.plan import ScheduleOp, is_form
from polyc.dialects.region import GraphOp, KernelOp
from polyc.dialects.region.graph import ends, source
from polyc.dialects.region.types import MemRefType
from polyc.families.family import Family, Recognised, bad_plan, schedules_of
from polyc.families.loops.remarks import remarks
from polyc.families.loops.schedules import LOOPS
from polyc.families.matmul.schedules import GEMM
from polyc.families.registry import FAMILIES
from polyc.families.rows.schedules import ROWS
from polyc.passes.region.im2col import MaterializeColumns, stores_columns
from polyc.passes.region.merge_axes import merge_products
from polyc.passes.support.plan.given import GivenPlan, name_of, read_plan, user_schedule
from polyc.passes.support.plan.rows_or_loops import loops_instead, small_products_instead
from polyc.passes.support.plan.single_row import family_of, with_single_rows
from polyc.passes.support.plan.worth import worth
from polyc.rewriting.driver import rewrite
from polyc.rewriting.notes import show


def propose(kernel: KernelOp, arch: str) -> tuple[Family[Any], list[ScheduleOp], PolycError | None]:
    """The schedules of a region, the family that made them, and the refusal that says most.

    Of those that the family proposes, what the model of time finds to be slower is left out where
    that is the other ones' work too.

    That is the one of the family that recognised the region, or else the first one's.  Where none
    takes the region, raises it, or else the last one's, which takes the most, as PolycError
    ``UnsupportedProgram``.
    """
    refused: PolycError | None = None
    last: PolycError | None = None
    for family in FAMILIES:
        found = family.attempt(kernel, arch)
        if not isinstance(found, PolycError):
            found = worth(kernel, found)
            if family is GEMM:
                if (loops := small_products_instead(kernel, arch, found)) is not None:
                    return LOOPS, loops, refused
                found = with_single_rows(kernel, arch, found)
            if family is ROWS and (loops := loops_instead(kernel, arch, found)) is not None:
                return LOOPS, loops, refused
            return family, found, refused
        if refused is None or isinstance(found, Recognised):
            refused = found
        last = found
    assert refused is not None and last is not None
    raise refused if isinstance(refused, Recognised) else last


@dataclass(eq=False)
class SelectPlan(RewritePattern):
    """Give a region without a schedule one ``plan.schedule`` a variant.

    Legality: it adds schedules and changes no value.
    """

    arch: str
    given: Sequence[GivenPlan] = ()

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        name = op.sym_name.data
        if is_form(op) or schedules_of(op):
            return
        family, schedules, refused = propose(op, self.arch)
        if family is LOOPS:
            show(remarks(op, refused))
        taken: dict[int, GivenPlan] = {}
        for given in self.given:
            if given.fields.get("region", name) == name:
                try:
                    self._apply(given, schedules, op, family, taken)
                except PolycError as error:
                    raise error.located(given.place()) from None
        rewriter.insert(schedules, InsertPoint.after(op))

    def _apply(
        self,
        given: GivenPlan,
        schedules: list[ScheduleOp],
        kernel: KernelOp,
        family: Family[Any],
        taken: dict[int, GivenPlan],
    ) -> None:
        """Put the user's fields over the variant that they name, or over the first.

        Those of attention for few queries are not meant where other variants take more.
        """
        names = [s.variant.data for s in schedules]
        first = next((s for s in schedules if not s.of_few_queries), schedules[0])
        i = names.index(name_of(given, "variant", first.variant.data, names))
        if taken.setdefault(i, given) is not given:
            raise PolycError(
                "BadPlan",
                f"the plan has two objects for variant {names[i]!r} of region "
                f"@{kernel.sym_name.data}, the other at {taken[i].place()}; give one",
            )
        chosen = user_schedule(schedules[i], given.fields)
        if stores_columns(chosen):
            schedules[i] = self._stored(chosen, given)
            return
        schedules[i] = checked(kernel, chosen, family, given)

    @staticmethod
    def _stored(chosen: ScheduleOp, given: GivenPlan) -> ScheduleOp:
        """The schedule that has a region taken apart; raises PolycError where it says more."""
        if more := sorted(given.said - {"algo_choice"}):
            raise PolycError(
                "BadPlan",
                f"the plan stores the columns of @{chosen.region.string_value()} and gives "
                f"{', '.join(more)} too, which are a convolution's; give them of the product",
                given.place(more[0]),
            )
        return chosen


def checked(
    kernel: KernelOp, chosen: ScheduleOp, family: Family[Any], given: GivenPlan
) -> ScheduleOp:
    """A schedule with a user's fields, completed by what follows from them.

    Raises PolycError where it does not suit the region, at the field of ``given`` that is wrong.
    """
    if family is GEMM:
        family = family_of(kernel, chosen)
    chosen = family.completed(kernel, chosen, given.said)
    for fact in chosen.when.data:
        if (fault := unknown_symbol(fact, kernel.symbol_names)) is not None:
            raise bad_plan(chosen, f"is not for this region: {fault}")
    found = family.recognise(kernel)
    try:
        family.check_found(found, chosen)
    except PolycError as error:
        wrong = (name for name, _ in family.misstated(found, chosen) if name in given.said)
        raise error.located(given.place(next(wrong, None))) from None
    return chosen


def _check_edges(graph: GraphOp) -> None:
    """Refuse a tensor that a kernel of ``graph`` sees in a shape that is no view of its own."""
    made = {
        (graph.sym_name.data, n.data): t for n, t in zip(graph.arg_names, graph.ins, strict=True)
    }
    wanted: list[tuple[str, tuple[str, str] | None, Attribute, Operation]] = []
    for kernel in graph.kernels():
        name, outs = kernel.sym_name.data, kernel.tensors[len(kernel.ins) :]
        made |= {(name, n.data): t for n, t in zip(kernel.res_names, outs, strict=True)}
        for i, label in enumerate(kernel.arg_names):
            kind = kernel.tensors[i]
            wanted.append((f"{label.data} of @{name}", source(kernel, i), kind, kernel))
    for label, edge, kind in zip(graph.res_names, graph.sources, graph.outs, strict=True):
        wanted.append((f"output {label.data}", ends(edge), kind, graph))
    for what, where, kind, at in wanted:
        there = None if where is None else made.get(where)
        if not isinstance(kind, MemRefType) or there is None:
            continue
        if not is_view(there.shape, kind.shape):
            raise PolycError(
                "UnsupportedProgram",
                f"{what} is {shape_text(kind.shape)}, which merges no axes of what is "
                f"{shape_text(there.shape)} in memory, and splits none of it; give it as an input "
                "or output of a graph of its own",
                at,
            )


@dataclass(frozen=True)
class PlanSelectPass(ModulePass):
    """Choose the schedules of every region for ``arch``.

    Axes that ``region-merge-axes`` makes one are one first, where that pass has not run: without,
    a product of matrices would be loops.  ``plan`` names a JSON file with fields of the user's own
    (S8.1), laid over the variant that it names or over the first; a list of such objects is taken
    one by one.  A region whose plan chooses ``im2col`` is taken apart (``region-im2col``), and its
    parts get schedules of their own, to which objects of the list may give fields.
    """

    name = "plan-select"

    arch: str = "sm_90a"
    plan: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.arch not in ARCHS:
            raise PolycError(
                "UnknownArch", f"there is no architecture {self.arch!r}; use {arch_names()}"
            )
        for graph in op.ops:
            if isinstance(graph, GraphOp):
                _check_edges(graph)
        given = [] if self.plan is None else read_plan(self.plan)
        merge_products(op)
        whole = _names(op)
        first = [one for one in given if one.region is None or one.region in whole]
        rewrite(op, [SelectPlan(self.arch, first)])
        rewrite(op, [MaterializeColumns()])
        parts = [name for name in _names(op) if name not in whole]
        rest = [one for one in given if one not in first]
        for one in rest:
            name_of(one, "region", "", [*whole, *parts])
        merge_products(op)
        rewrite(op, [SelectPlan(self.arch, rest)])


def _names(module: ModuleOp) -> list[str]:
    """The regions of a module."""
    return [op.sym_name.data for op in module.ops if isinstance(op, KernelOp)]
