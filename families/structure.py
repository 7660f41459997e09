"""What a plan's structure may be for kernels whose contractions run on tensor cores (S8.1).

One place refuses: ``plan-select`` asks here of a user's plan, and ``region-to-gpu`` of every one.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.tile.schedule import BANDS, ONCE
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.resources import SHARED_COLUMNS
from polyc.families.family import refuse_choice

MOST_PARTS = 1024
"""Parts of a tile's steps: more than twice what any chip has multiprocessors."""


def check_reduction(label: str | None, plan: ScheduleOp) -> None:
    """Refuse a schedule that tensorizes other reductions than ``label``; raises PolycError."""
    if plan.tensorize.data != label:
        raise PolycError(
            "UnsupportedPlan",
            f"the plan tensorizes {plan.tensorize.data!r} and the region reduces {label!r}",
            plan,
        )


def check_multiplier(element: Attribute, plan: ScheduleOp) -> None:
    """Refuse tensor cores for operands of f32, which they round, and threads for others."""
    exact = element == f32
    if exact != (plan.mma.data == "fma"):
        there = '"fma"' if exact else '"mma.sync" or "wgmma"'
        why = f"{plan.mma.data} does not multiply operands of {element}"
        refuse_choice(plan, "mma", why, there)


def check_raster(plan: ScheduleOp) -> None:
    """Refuse an order that CTAs of one tile each do not have, or a group that says nothing."""
    if not plan.flag("persistent") and plan.raster.data not in ONCE:
        there = " or ".join(f'"{raster}"' for raster in ONCE)
        refuse_choice(plan, "raster", "only persistent kernels have", there)
    check_group(plan)


def check_group(plan: ScheduleOp) -> None:
    """Refuse a number of rows that go together where the raster has no groups."""
    if plan.raster.data not in BANDS and (group := plan.integer("group")) != 1:
        refuse_choice(plan, "group", f"is {group} for the raster {plan.raster.data!r}", "1")


def check_structure(plan: ScheduleOp, follows: bool) -> None:
    """Refuse, with its name, a choice of the plan that no contraction's kernel obeys yet.

    ``follows`` says whether rows are reduced after it.  Raises PolycError ``UnsupportedPlan``.
    """
    rows, columns = plan.integers("cluster")
    persistent, pingpong = plan.flag("persistent"), plan.flag("pingpong")
    roles = persistent and plan.brings == "tma"
    alone = "[1, 1], or a kernel that loads by tma"
    shared = rows == 1 and not persistent and plan.integer("split_k") == 1
    grouped = plan.mma.data == "wgmma"
    for field, taken, there in (
        ("cluster", columns != 1 and not shared, f"[1, {columns}] and persistent false"),
        ("cluster", columns != 1 and not (grouped or follows), "[1, 1], or a kernel of wgmma"),
        ("multicast", columns != 1 and plan.flag("multicast") and not grouped, "false"),
        ("cluster", rows != 1 and plan.brings != "tma", alone),
        ("pingpong", pingpong and not roles, "false, or a persistent kernel that loads by tma"),
        ("pingpong", pingpong and (rows, columns) != (1, 1), "cluster [1, 1]"),
        ("pingpong", pingpong and follows, "false: rows are reduced after the product"),
        ("persistent", persistent and plan.mma.data != "wgmma", "false"),
    ):
        if taken:
            refuse_choice(plan, field, "region-to-gpu does not build yet", there)
    check_raster(plan)


def check_split(plan: ScheduleOp) -> None:
    """Refuse a ``split_k`` that no contraction's kernel has.

    Raises PolycError ``UnsupportedPlan``.
    """
    parts = plan.integer("split_k")
    if parts == 1:
        return
    if plan.flag("persistent"):
        refuse_choice(plan, "split_k", "a persistent kernel does not have", "persistent false")
    if plan.integers("cluster") != (1, 1):
        refuse_choice(
            plan, "split_k", "takes the CTAs of a cluster for itself", "it with cluster [1, 1]"
        )
    if parts > MOST_PARTS:
        refuse_choice(
            plan, "split_k", f"cuts the steps of a tile into {parts} parts", f"{MOST_PARTS} or less"
        )
    if plan.pattern in ("matmul", "conv") and not (plan.stores_sums or plan.clusters_parts):
        refuse_choice(
            plan,
            "split_k",
            "no cluster has: one of 2, 4 or 8 CTAs of wgmma shares out a tile's columns by "
            f"{SHARED_COLUMNS}",
            f'algo_choice {{"{plan.pattern}": "{plan.summed_way}"}}',
        )
