"""The model of time: how long one region takes under one schedule (S11.1).

    time = launch + max(arithmetic, bytes / bandwidth, bytes / L2 bandwidth, waiting)

or, without tensor cores, the fourth root of the sum of their fourth powers.

Arithmetic is what the busiest SM has to do, so that the last wave of tiles counts whole; bytes are
those that each tensor has, and through L2 those that tiles read again.
docs/passes/model-of-time.md explains it, and compares it with what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil

from xdsl.dialects.builtin import ModuleOp

from polyc.cost.device import Device, device_of
from polyc.cost.loops import loops_work
from polyc.cost.reductions import nanoseconds, planned
from polyc.cost.rows import rows_work
from polyc.cost.scans import scans_work
from polyc.cost.scatters import scatters_work
from polyc.cost.sorts import sorts_work
from polyc.cost.tensor_cores import contracted_work
from polyc.cost.values import Values
from polyc.cost.work import Work, at_once, compulsory
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp

TYPICAL = 1024
"""What a symbol is taken as where no size is given."""

SHARE = 1 / 64
"""Of the memory's bandwidth, that one SM draws at most by loads of its threads."""

RING = 1 / 25
"""The same by copies into a ring of shared memory, of which several are on their way."""

WARPS = 16
"""Of an SM, that keep it busy; fewer wait for each other's results."""

ROW_WARPS = 6
"""The same of warps that have rows of an attention each, with many products that do not wait for
each other; assumed."""

STEP = 0.25e-6
"""Seconds of a warp for a step of an attention of few queries: products, a softmax and products
wait for each other.  On an H200 steps of 16 KB take 0.83 us where memory is not busy, of 8 KB
0.48."""

STEP_RATE = 28.5e9
"""Bytes of a step that a warp works on in a second beside that."""

ARRIVES = 1.0e-6
"""Seconds from such a step's copies to the arrival of all of them where memory is not busy."""

DELAY = 0.2
"""By how much of its time what threads compute beside tensor cores delays these: products of 4096
by 4096 by 4096 with a weight times its scales take 213 us for 192, with numbers along k 236."""

COPYING = 3 / 4
"""Of the memory's bandwidth, that copies of operands to other rows reach: two of 4095 by 4095 take
45 us."""

AGAIN = 4
"""How often tiles bring what memory gave once, from where on loads wait for L2 alone."""

BESIDE = 4
"""How well the parts of a kernel without tensor cores run beside each other: their sum is that of
these powers.  Where one is much longer than the others, it is the time; softmax of 4096 columns,
whose loads, arithmetic and waiting take 64, 75 and 58 us, takes 85."""


@dataclass(frozen=True, slots=True)
class Time:
    """The modelled seconds of one launch, and its parts.

    ``tensor``   products on tensor cores
    ``threads``  arithmetic of threads
    ``memory``   bytes of global memory
    ``cache``    bytes between L2 and SMs
    ``waiting``  loads that wait for each other
    ``launch``   from the kernel before to the first tile
    ``after``    what nothing else runs beside: the ends of tiles, and loads of an epilogue
    ``waves``    the part of the chip's SMs that is busy over the time of the arithmetic
    """

    kernel: str
    variant: str
    tensor: float
    threads: float
    memory: float
    cache: float
    waiting: float
    launch: float
    waves: float
    after: float = 0.0
    overlapped: bool = True
    whole: float | None = None
    """The time by a formula of its own, of which the parts are no more than an account."""

    @property
    def arithmetic(self) -> float:
        """Tensor cores and threads: beside each other, or one after the other."""
        if self.overlapped:
            return max(self.tensor, self.threads) + self.after
        return self.tensor + self.threads + self.after

    @property
    def seconds(self) -> float:
        """The whole time."""
        if self.whole is not None:
            return self.whole
        parts = (self.arithmetic, self.memory, self.cache, self.waiting)
        if self.tensor:
            return self.launch + max(parts)
        return self.launch + sum(part**BESIDE for part in parts) ** (1 / BESIDE)

    @property
    def bound(self) -> str:
        """What takes most: ``tensor cores``, ``arithmetic``, ``memory`` or ``launch``."""
        parts = {
            "tensor cores": self.arithmetic if self.tensor >= self.threads else 0.0,
            "arithmetic": max(self.arithmetic if self.threads > self.tensor else 0.0, self.waiting),
            "memory": max(self.memory, self.cache),
            "launch": self.launch,
        }
        return max(parts, key=lambda name: parts[name])

    def as_dict(self) -> dict[str, object]:
        """The time and its parts as JSON data, in microseconds."""
        return {
            "kernel": self.kernel,
            "variant": self.variant,
            "us": microseconds(self.seconds),
            "bound": self.bound,
            "tensor_cores_us": microseconds(self.tensor),
            "arithmetic_us": microseconds(self.threads),
            "memory_us": microseconds(self.memory),
            "l2_us": microseconds(self.cache),
            "waiting_us": microseconds(max(self.waiting, self.after)),
            "launch_us": microseconds(self.launch),
            "waves": float(f"{self.waves:.3g}"),
        }


def microseconds(seconds: float) -> float:
    """Three digits of a time in microseconds."""
    return float(f"{seconds * 1e6:.3g}")


def modelled(
    kernel: KernelOp, plan: ScheduleOp, sizes: Mapping[str, int], device: Device | None = None
) -> Time:
    """The modelled time of a region under a schedule; ``sizes`` has all symbols of the region.

    ``device`` is the chip; without it that of the schedule's architecture.
    """
    return modelled_of(Values(kernel, sizes), plan, device)


def modelled_of(values: Values, plan: ScheduleOp, device: Device | None = None) -> Time:
    """The same of a region's values at the sizes."""
    device, kernel = device or device_of(plan.arch.data), values.kernel
    work = work_of(values, plan, device)
    compulsory_bytes, least = compulsory(values, device)
    work.memory = compulsory_bytes + work.again - work.unseen
    work.cache = max(work.cache, least - work.unseen)
    name = kernel.sym_name.data
    time = launch_time(work, device, name, plan.variant.data, plan.mma.data)
    # Which chunks of rows open sizes are worth a kernel is asked of the parts below.
    shared = plan.pattern == "loops" or (plan.pattern == "rows" and not kernel.symbol_names)
    if shared and work.blocks > 0 and (found := planned(values, plan)) is not None:
        problem, tile, rates = found
        seconds = nanoseconds(problem, tile, device, rates) / 1e9
        return replace(time, whole=seconds + work.before)
    if work.before:
        time = replace(time, launch=time.launch + work.before)
    if not work.copied:
        return time
    bandwidth = device.memory * COPYING
    copies = sum(device.launch + size / bandwidth for size in work.copied)
    return replace(time, launch=time.launch + copies)


def seconds_of(values: Values, plan: ScheduleOp, device: Device | None = None) -> float:
    """The seconds of ``modelled_of``: its parts, which are an account alone where a formula of its
    own has the whole, are not counted then."""
    if plan.pattern == "loops" and all(size > 0 for size in values.extents.values()):
        found = planned(values, plan)
        if found is not None:
            problem, tile, rates = found
            return nanoseconds(problem, tile, device or device_of(plan.arch.data), rates) / 1e9
    return modelled_of(values, plan, device).seconds


def work_of(values: Values, plan: ScheduleOp, device: Device) -> Work:
    """What a launch of a region under a schedule does, as counted from the two."""
    there = at_once(plan, device)
    if plan.mma.data != "none":
        return contracted_work(values, plan, there)
    if plan.pattern == "rows":
        return rows_work(values, plan, there, device)
    if plan.pattern == "sorts":
        return sorts_work(values, plan, there, device)
    if plan.pattern == "scatters":
        return scatters_work(values, plan, there, device)
    if plan.pattern == "scans":
        return scans_work(values, plan, there)
    return loops_work(values, plan, there)


def launch_time(work: Work, device: Device, name: str, variant: str, mma: str) -> Time:
    """Work in seconds: the busiest SM's arithmetic, and bytes at what its blocks can draw.

    ``mma`` is the instruction of its products, as a schedule names it.
    """
    if work.blocks <= 0:  # of a size that comes out negative there are none
        return Time(name, variant, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    chip = device.multiprocessors
    busy = min(work.blocks, chip)
    # The busiest SM has so many blocks where the mean one has fewer.
    waves = work.blocks / (chip * ceil(work.blocks / chip))
    # SMs that idle leave the others the power for a higher clock.
    rate = min(device.tensor_flops, device.tensor_peak * waves)
    if mma == "mma.sync":
        rate *= device.mma_sync
    elif mma == "fma":
        rate = 2 * device.operations * waves
    tensor = work.flops / rate
    together = min(work.at_once, ceil(work.blocks / chip))
    busy_warps = together * work.threads / 32
    enough = ROW_WARPS if mma == "mma.sync" and work.overlapped else WARPS
    issued = device.operations * waves * min(1.0, busy_warps / enough)
    threads = work.operations / issued
    beside = work.beside / issued
    tensor = max(tensor, beside) + DELAY * min(tensor, beside)
    if mma == "fma":
        threads, tensor = threads + tensor, 0.0
    drawn = min(1.0, busy * (RING if work.ring else SHARE))
    turns = ceil(work.blocks / (chip * work.at_once))
    # What is brought more than once comes from L2 the second time.
    latency = device.latency if work.cache < AGAIN * work.memory else device.near
    waiting = max(work.steps * latency * turns, work.begins * ceil(work.blocks / chip))
    # What runs beside nothing: the ends of each tile, and an epilogue's loads after its products, a
    # vector of each thread at a time; where an SM has one block, its other loads too.
    reads = 0.0
    if work.reads:
        reads = device.latency + work.reads / (work.blocks * device.memory * SHARE)
    after = turns * (reads + (device.fill * (3 if work.overlapped else 1) if work.flops else 0.0))
    if work.made:
        # All threads of a block make its queries, and nothing runs beside.
        own = device.near + work.made_of / work.blocks * chip / device.cache
        after += turns * (own + work.made / work.blocks * chip / device.operations)
    after += turns * work.stalls * (device.near + work.stalled * chip / device.cache)
    joined = work.summed / device.sums + device.behind if work.summed else 0.0
    if not work.step_bytes:
        after += joined
    after += work.alone * device.latency
    if work.exchanged:
        # Sums go to the block that adds them up, and word of it follows them.
        after += work.exchanged / (device.exchange * waves) + 2 * device.latency
    if together == 1 and not work.flops:
        after += waiting
    return Time(
        name,
        variant,
        tensor,
        threads,
        _streamed(work, device) if work.step_bytes else work.memory / (device.memory * drawn),
        work.cache / (device.cache * drawn),
        waiting,
        device.launch + (joined if work.step_bytes else 0.0),
        waves,
        after,
        work.overlapped,
    )


def _streamed(work: Work, device: Device) -> float:
    """Seconds for the bytes of memory of blocks that walk over them in steps.

    Whole waves of blocks draw them together, and then those that are left.
    """
    step = max(STEP + work.step_bytes / STEP_RATE, ARRIVES / work.ahead)
    each = work.step_bytes / step
    once = device.multiprocessors * work.at_once
    whole = work.blocks // once * once
    found = 0.0
    for blocks, together in ((whole, once), (work.blocks - whole, work.blocks - whole)):
        if blocks:
            found += work.memory * blocks / work.blocks / min(device.memory, together * each)
    return found


# A module ------------------------------------------------------------------------------


def takes(plan: ScheduleOp, sizes: Mapping[str, int]) -> bool:
    """Whether a schedule is for some sizes: its conditions hold."""
    return all(fact.holds(sizes) for fact in plan.when.data)


def chosen(plans: Iterable[ScheduleOp], sizes: Mapping[str, int]) -> ScheduleOp | None:
    """The schedule that runs at some sizes: the first that is for them, in their order."""
    return next((plan for plan in plans if takes(plan, sizes)), None)


def times_of(
    module: ModuleOp, sizes: Mapping[str, int], device: Device | None = None
) -> list[Time]:
    """The modelled time of each region of a module that has schedules, in order.

    ``sizes`` has the symbols of all of them; ``device`` is as in ``modelled``.
    """
    plans: dict[str, list[ScheduleOp]] = {}
    for op in module.ops:
        if isinstance(op, ScheduleOp):
            plans.setdefault(op.region.string_value(), []).append(op)
    found: list[Time] = []
    for op in module.ops:
        if isinstance(op, KernelOp):
            plan = chosen(plans.get(op.sym_name.data, ()), sizes)
            if plan is not None:
                found.append(modelled(op, plan, sizes, device))
    return found
