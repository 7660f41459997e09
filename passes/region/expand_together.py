"""``region-expand-together``: several states of one reduction become a reduction each (S6.5).

A streaming softmax is one walk over a row.  Where the row is held whole, or each element is
computed by loops of its own, the maximum and the sum after it are reductions like any other.
Where one schedule of a region holds rows whole and another one streams them, the first gets a form
of the region that is expanded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Region
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.precision import TF32
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import ALGORITHMS, RESTATED, record_of
from polyc.dialects.region import KernelOp, ReduceTogetherOp
from polyc.dialects.region.kernel import kernel_of
from polyc.families.family import schedules_of
from polyc.families.registry import BY_NAME
from polyc.rewriting.driver import rewrite
from polyc.rewriting.equal_ops import merge_equal
from polyc.rewriting.region.chunks import chunk_ops, copy_of, rescales, together

WHOLE = {
    "loops": ALGORITHMS["loops"],
    "matmul": ("tiled", "partial_sums"),
    "conv": ("implicit_gemm", TF32),
    "rows": ("resident", "kept"),
}
"""The choices of a plan that take a reduction over all of its points at once."""


def takes_whole(plan: ScheduleOp, kernel: KernelOp) -> bool:
    """Whether a kernel of a schedule has no walk in parts.

    Blocks that keep a row together and meet in memory meet once for several states.  Where rows lie
    side by side, a thread has so few points of each that to combine states would take longer.
    """
    pattern, states = plan.pattern, together(kernel)
    beside = plan.vectorize_axis.data.partition(".")[0]
    if plan.meets_in_memory and all(rescales(op) and beside in op.labels for op in states):
        return False
    return pattern in WHOLE and record_of(plan.algo_choice)[pattern] in WHOLE[pattern]


class GiveForm(RewritePattern):
    """A schedule that takes reductions whole has a form of its region beside one that streams.

    The form is a copy.  Legality: it changes no value.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        plans = schedules_of(op)
        whole = [plan for plan in plans if takes_whole(plan, op)]
        if not together(op) or len(whole) == len(plans):
            return
        for plan in whole:
            if plan.form is None:
                plan.add_region(Region(Block([copy_of(op)])))
                rewriter.notify_op_modified(plan)


class ExpandTogether(RewritePattern):
    """``region.reduce_together`` becomes the reductions of its chunk, over all points.

    Legality: the kernel is the form of a schedule that takes the reduction whole, or every schedule
    of the region, if it has any, does; one that streams keeps it.  Exact on what one chunk of all
    points gives, which is one of the orders that the op leaves open.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReduceTogetherOp, rewriter: PatternRewriter, /) -> None:
        kernel = kernel_of(op)
        if kernel is None or not all(
            takes_whole(plan, kernel) for plan in _schedules_that_build(kernel)
        ):
            return
        copies, chunk = chunk_ops(op)
        rewriter.replace(op, copies, chunk.states)


def _schedules_that_build(kernel: KernelOp) -> list[ScheduleOp]:
    """The schedules whose kernels are built from ``kernel``."""
    around = kernel.parent_op()
    return [around] if isinstance(around, ScheduleOp) else schedules_of(kernel)


@dataclass(frozen=True)
class RegionExpandTogether(ModulePass):
    """Expand reductions of several states for the schedules that do not stream them.

    What a chunk computes and its kernel too, as a softmax's exponentials, is computed once then.
    """

    name = "region-expand-together"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GiveForm()])
        kernels = [k for k in op.walk() if isinstance(k, KernelOp) and together(k)]
        true = {
            plan
            for kernel in kernels
            for plan in schedules_of(kernel)
            if takes_whole(plan, kernel) and _said(plan) == _said(plan, kernel)
        }
        rewrite(op, [ExpandTogether()])
        for kernel in kernels:
            if not together(kernel):
                merge_equal(kernel.body)
                for plan in schedules_of(kernel):
                    # What was false before stays, for whoever builds from it to refuse.
                    if plan in true:
                        plan.properties.update(_said(plan, kernel))


def _said(plan: ScheduleOp, kernel: KernelOp | None = None) -> dict[str, Attribute]:
    """The fields of a schedule that say what its region is, or what they are of ``kernel``."""
    if kernel is not None:
        plan = BY_NAME[cast("str", plan.pattern)].completed(kernel, plan, ())
    return {name: plan.properties[name] for name in RESTATED}
