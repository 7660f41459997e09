"""Fewer kernels of a module, for tests of what every kernel goes through."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.plan import ScheduleOp
from polyc.passes.pipeline import build
from polyc.tools.registry import make_context


def one_of_each(module: ModuleOp) -> None:
    """Leave one schedule of each way to load operands, and one that splits the reduction too.

    The others differ from these by their tiles' sizes: their kernels are more of the same ops.
    """
    kept: dict[tuple[object, ...], ScheduleOp] = {}
    plans = [op for op in module.ops if isinstance(op, ScheduleOp)]
    for plan in plans:
        split = plan.fields()["split_k"] != 1
        kind = (plan.region, plan.loader, plan.vectorize, split)
        # The first that splits has the shortest text; the last that does not takes most sizes.
        if not split or kind not in kept:
            kept[kind] = plan
    for plan in plans:
        if plan not in kept.values():
            plan.detach()
            plan.erase()


def leave_widest(module: ModuleOp) -> None:
    """Leave of each kind of schedule the one whose threads have most of a tile: where registers
    suffice for that they do for the others, which hold less of the same.
    """
    kept: dict[tuple[object, ...], ScheduleOp] = {}
    plans = [op for op in module.ops if isinstance(op, ScheduleOp)]

    def held(plan: ScheduleOp) -> tuple[float, int]:
        rows, columns, _ = plan.tile_sizes
        return rows * columns / plan.threads(), rows * columns

    for plan in plans:
        split = plan.fields()["split_k"] != 1
        ways = (plan.loader, plan.mma, plan.vectorize, plan.algo_choice)
        kind = (plan.region, *ways, split, plan.stores_sums, plan.of_few_queries)
        if kind not in kept or held(plan) > held(kept[kind]):
            kept[kind] = plan
    for plan in plans:
        if plan not in kept.values():
            plan.detach()
            plan.erase()


def leave_chosen(module: ModuleOp, sizes: Mapping[str, int]) -> None:
    """Leave of each region the schedule that runs at these sizes, of aligned tensors."""
    chosen: dict[str, ScheduleOp] = {}
    plans = [op for op in module.ops if isinstance(op, ScheduleOp)]
    for plan in plans:
        if all(fact.holds(sizes) for fact in plan.when.data):
            chosen.setdefault(plan.region.string_value(), plan)
    for plan in plans:
        if chosen.get(plan.region.string_value(), plan) is not plan:
            plan.detach()
            plan.erase()


def step(module: ModuleOp, name: str, arch: str) -> None:
    """The pass ``name``; after ``plan-select`` one schedule of each kind stays."""
    build(name, arch).apply(make_context(), module)
    if name == "plan-select":
        one_of_each(module)
