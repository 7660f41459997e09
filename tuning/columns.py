"""A convolution that a plan takes apart: its columns are stored, and a product multiplies them.

Such a plan says no more than that (``algo_choice = {"conv": "im2col"}``); the two kernels have the
plans that ``plan-select`` gives them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.cost.device import Device
from polyc.cost.time import Time, times_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.plan.select import PlanSelectPass
from polyc.passes.region.im2col import convolution
from polyc.rewriting.driver import copied

FIELDS: Mapping[str, object] = {"algo_choice": {"conv": "im2col"}}
"""What such a plan says."""


def check_columns(kernel: KernelOp, plan: ScheduleOp) -> None:
    """Raises PolycError ``BadPlan`` where a region cannot be taken apart."""
    if isinstance(why := convolution(kernel), str):
        raise PolycError(
            "BadPlan",
            f"plan {plan.variant.data!r} stores the columns of @{kernel.sym_name.data}, and that "
            f"is not possible: {why}",
        )


def taken_apart(kernel: KernelOp, plan: ScheduleOp) -> ModuleOp:
    """The two kernels of a region by itself, with their schedules.  Raises PolycError."""
    module = ModuleOp([copied(kernel), copied(plan)])
    PlanSelectPass(plan.arch.data).apply(Context(), module)
    return module


def columns_time(
    kernel: KernelOp, plan: ScheduleOp, sizes: Mapping[str, int], device: Device | None
) -> Time:
    """The modelled time of both kernels, one after the other."""
    times = times_of(taken_apart(kernel, plan), sizes, device)
    launch = sum(time.launch for time in times)
    rest = sum(time.seconds for time in times) - launch
    waves = min(time.waves for time in times)
    return Time(
        *(kernel.sym_name.data, plan.variant.data),
        *(0.0, 0.0, 0.0, 0.0, 0.0, launch, waves, rest),
    )
