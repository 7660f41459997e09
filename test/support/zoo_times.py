"""What the model of time says of a program's kernels, beside their rooflines.

Only shapes and plans count, nothing is timed: a board that is made so says which kernels the model
holds for slow, on any machine.
"""

# pyright: basic

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from polyc.cost.device import Device, device_of
from polyc.cost.time import modelled as time_of
from polyc.cost.values import Values
from polyc.cost.work import compulsory
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.test.support.kernelbench import ARCH

LOOPS = ("loops",)
"""Families of kernels that no other takes."""

MOST = 2.5
"""Times its roofline that a kernel may take until it is one of the slow ones."""


def roofline(kernel: KernelOp, device: Device) -> float:
    """Seconds that a region takes at least: a launch, and its bytes or its products."""
    values = Values(kernel, {})
    flops = sum(2 * values.multiply_adds(one) for one in values.contractions())
    return device.launch + max(
        compulsory(values, device)[0] / device.memory, flops / device.tensor_flops
    )


def off_tensor(kernel: KernelOp, plan: ScheduleOp) -> bool:
    """Whether a region has products that are not on tensor cores."""
    return plan.mma.data not in ("wgmma", "mma.sync") and bool(Values(kernel, {}).contractions())


def modelled(found: Iterable[tuple[KernelOp, ScheduleOp]]) -> dict[str, Any]:
    """The kernels of a program by the model of time, as a row of a board.

    ``us`` is the modelled time of all, ``over`` that over the sum of their rooflines.  ``loops`` is
    the share of it in kernels of the family of loops, ``products in loops`` that in kernels with a
    product that is off the tensor cores.  ``slowest`` is the kernel that loses most to its
    roofline, if it takes more than ``MOST`` times as long.
    """
    device = device_of(ARCH)
    whole = least = loops = off = 0.0
    count = 0
    lost: list[tuple[float, float, float, str]] = []
    for kernel, plan in found:
        count += 1
        seconds, roof = time_of(kernel, plan, {}, device).seconds, roofline(kernel, device)
        whole, least = whole + seconds, least + roof
        loops += seconds if plan.pattern in LOOPS else 0.0
        off += seconds if off_tensor(kernel, plan) else 0.0
        lost.append((seconds - roof, seconds, roof, f"{plan.pattern} {plan.variant.data}"))
    if not count:
        return {}
    row: dict[str, Any] = {
        "kernels": count,
        "us": round(whole * 1e6, 1),
        "over": round(whole / least, 2),
        "loops": round(loops / whole, 3),
        "products in loops": round(off / whole, 3),
    }
    _, seconds, roof, family = max(lost)
    if seconds > MOST * roof:
        row["slowest"] = f"{family}: {seconds * 1e6:.1f} us for {roof * 1e6:.1f}"
    return row
