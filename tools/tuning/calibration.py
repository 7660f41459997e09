"""The figures of a chip (``cost/device.py``), from kernels that polyc compiles and times.

A figure means what the model of time divides by, so it is found through the model: it is the value
with which the model says of a kernel, under its plan and at its sizes, what was measured.  A kernel
is such that one figure decides; a rate is asked of two sizes, so that what both do once cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, prod
from statistics import median
from time import monotonic
from typing import Any, cast

from polyc.cost.device import SHIPPED, Device, device_of
from polyc.cost.time import modelled, takes
from polyc.cost.values import SLOW
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.plan.select import propose
from polyc.rewriting.driver import verify
from polyc.runtime import driver
from polyc.runtime.tensors import numpy_dtype
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.steps import Steps
from polyc.tools.tuning.regions import compiled, kinds, regions_of
from polyc.tuning.candidates import laid
from polyc.tuning.chip import Chip
from polyc.tuning.figures import NAMES, Figures
from polyc.tuning.records import plan_fields
from polyc.tuning.regions import facts

ROUNDS = 5

HOT = 1.0
"""Seconds for which a kernel runs before it is timed, where a clock that power slows is meant."""

RANGE = 16.0
"""By how many times a figure may differ from the shipped one."""

STEPS = 40
"""The most steps in which a figure is looked for."""

EXACT = 1e-5
"""The part of a figure by which it is not looked for any further."""

DRIVER = ("multiprocessors", "threads", "registers", "shared", "cache_bytes")
"""What the driver says, and is not timed."""

HELD = 0.8
"""Of the L2 cache, what a kernel finds of what the one before it wrote: of the H200's 50 MB, 40."""


@dataclass(frozen=True)
class Run:
    """A region that was timed under a plan; where it is ``held``, L2 had all of its tensors."""

    region: KernelOp
    plan: ScheduleOp
    sizes: Mapping[str, int]
    held: bool
    seconds: float

    def modelled(self, device: Device) -> float:
        """What the model says of it on a chip."""
        return modelled(self.region, self.plan, self.sizes, seen(device, self.held)).seconds


def seen(device: Device, held: bool) -> Device:
    """A chip as a kernel sees it whose tensors L2 has: memory takes no time."""
    return replace(device, memory=1e18, latency=device.near) if held else device


def fitted(device: Device, name: str, *runs: Run) -> float | None:
    """The value of a figure with which the model gives a run's time, or what two runs differ by.

    None where no value near the shipped one does.
    """

    def apart(value: float) -> float:
        chip = replace(device, **{name: value})
        times = [run.modelled(chip) - run.seconds for run in runs]
        return times[0] if len(times) == 1 else times[1] - times[0]

    ends = log(getattr(device, name) / RANGE), log(getattr(device, name) * RANGE)
    (old, was), (new, now) = ((at, apart(exp(at))) for at in ends)
    if was * now >= 0:
        return None
    # The Illinois method: where the line through both ends of a bracket is 0.
    for _ in range(STEPS):
        at = (old * now - new * was) / (now - was)
        there = apart(exp(at))
        if there * now < 0:
            old, was = new, now
        else:
            was /= 2
        moved, new, now = abs(at - new), at, there
        if moved < EXACT or not now:
            break
    return exp(new)


def calibrated(arch: str, steps: Steps) -> tuple[Figures, Mapping[str, float]]:
    """The figures of this GPU, and beside them what is measured and has no figure.

    What cannot be measured stays as it is shipped.
    """
    gpu = driver.device()
    shipped = shipped_for(arch, gpu.name)
    found = replace(
        shipped,
        name=gpu.name,
        multiprocessors=gpu.multiprocessors,
        threads=gpu.sm_threads or shipped.threads,
        registers=gpu.sm_registers or shipped.registers,
        shared=gpu.sm_shared_bytes or shipped.shared,
        cache_bytes=HELD * gpu.l2_bytes,
    )
    bench = _Kernels(arch)
    measured: list[str] = []
    beside: dict[str, float] = {}

    def take(name: str, measure: Callable[[], float | None]) -> None:
        nonlocal found
        with steps.step(name) as step:
            try:
                value = measure()
            except PolycError as error:
                step.note = f"not measured, {error.kind}: {error.message}"
                return
            if value is None or not value > 0:
                step.note = "not measured, the times do not differ as they should"
                return
            step.note = f"{value:.3g}"
            if name in NAMES:
                found = replace(found, **{name: float(f"{value:.4g}")})
                measured.append(name)
            else:
                beside[name] = value

    def fit(name: str, runs: Callable[[], Sequence[Run]]) -> None:
        take(name, lambda: fitted(found, name, *runs()))

    few, narrow = bench.few(gpu.multiprocessors), bench.narrow()
    fit("memory", lambda: bench.copies(1 << 24, 1 << 26))
    fit("operations", lambda: bench.chains("mul", 64, 192))
    take("exponentials", lambda: bench.rate("exp", 8, 24))
    fit("tensor_peak", lambda: bench.products(*few[:2], 2048, 16384, fields=few[2]))
    fit("tensor_flops", lambda: bench.products(4096, 4096, 2048, 8192, hot=True))
    if narrow is None:
        fit("cache", lambda: bench.copies(1 << 20, 1 << 21, held=True))
    else:
        fit("cache", lambda: bench.products(4096, 4096, 2048, 8192, fields=narrow, hot=True))
    fit("latency", lambda: bench.steps(1 << 21, 1 << 22))
    fit("near", lambda: bench.steps(1 << 16, 1 << 18, held=True))
    fit("launch", lambda: bench.copies(1 << 20))
    fit("fill", lambda: bench.products(*few[:2], 2048, fields=few[2]))
    if arch == "sm_90a":
        fields = bench.fields("mma.sync")
        fit("mma_sync", lambda: bench.products(4096, 4096, 2048, 4096, fields=fields, hot=True))
    return Figures(arch, found, Chip.here(), measured), beside


def shipped_for(arch: str, name: str) -> Device:
    """The shipped figures of the chip that the driver calls ``name``, or the architecture's."""
    return next((d for word, d in SHIPPED.items() if word in name), device_of(arch))


def figure_lines(figures: Figures, beside: Mapping[str, float]) -> list[str]:
    """The figures beside the shipped ones, a line each."""
    device = figures.device
    shipped = shipped_for(figures.arch, device.name)
    lines = [f"  {'figure':<16}{'here':>12}{'shipped':>12}  {shipped.name}"]
    for name in NAMES:
        here, there = getattr(device, name), getattr(shipped, name)
        note = "" if name in figures.measured else "as shipped, not measured"
        if name in DRIVER:
            note = "as the driver says"
        lines.append(f"  {name:<16}{here:>12.4g}{there:>12.4g}  {note}".rstrip())
    if "exponentials" in beside:
        cost = device.operations / beside["exponentials"]
        lines.append(
            f"  exponentials: {beside['exponentials']:.3g} in a second, each in the time of "
            f"{cost:.2g} operations; the model takes {SLOW['exp']:g}"
        )
    return lines


class _Kernels:
    """The kernels by which figures are measured, for one architecture."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self._jobs: dict[str, tuple[Compilation, KernelOp]] = {}

    def job(self, text: str) -> tuple[Compilation, KernelOp]:
        """A program of one region, and that."""
        if text not in self._jobs:
            ctx = make_context()
            module = parse_text(ctx, text, "calibration")
            verify(module)
            job = Compilation(ctx, module, self.arch)
            self._jobs[text] = job, regions_of(job)[0]
        return self._jobs[text]

    def run(
        self,
        text: str,
        sizes: dict[str, int],
        fields: Mapping[str, object] | None = None,
        held: bool = False,
        hot: bool = False,
    ) -> Run:
        """Time a program of one region, under its own plan or one of these fields."""
        job, region = self.job(text)
        if fields is None:
            own = propose(region, self.arch)[1]
            plan = next(plan for plan in own if takes(plan, sizes))
        else:
            plan = laid(region, self.arch, fields, facts(sizes), "given")
        return Run(region, plan, sizes, held, self.seconds(job, region, plan, sizes, held, hot))

    def seconds(
        self,
        job: Compilation,
        region: KernelOp,
        plan: ScheduleOp,
        sizes: dict[str, int],
        held: bool,
        hot: bool,
    ) -> float:
        """The median time of a region under a plan."""
        from polyc.tuning.gpu import Bench

        program = compiled(job, region, plan)
        inputs, outputs = kinds(region, sizes)
        arrays = [_random(shape, element) for shape, element in inputs]
        timed = Bench([arrays], inputs, outputs, sizes, rotate=not held).timed(program)
        timed.seconds()
        end = monotonic() + HOT
        while hot and monotonic() < end:
            timed.seconds()
        return median(timed.seconds() for _ in range(ROUNDS))

    def copies(self, *counts: int, held: bool = False) -> list[Run]:
        """Copies of so many numbers of f32."""
        return [self.run(_graph("N", "N", ["neg"]), {"N": n}, None, held) for n in counts]

    def chains(self, function: str, *lengths: int) -> list[Run]:
        """Chains of a function, each of the one before it, of 2²² numbers."""
        return [self.run(_graph("N", "N", [function] * n), {"N": CHAINS}) for n in lengths]

    def rate(self, function: str, short: int, long: int) -> float | None:
        """Elements in a second of a function."""
        first, second = self.chains(function, short, long)
        apart = second.seconds - first.seconds
        return CHAINS * (long - short) / apart if apart > 0 else None

    def steps(self, *lengths: int, held: bool = False) -> list[Run]:
        """One block that walks a row, each step of which waits for its loads."""
        text = (
            "frontend.graph @row(%X: !frontend.tensor<[M, N], f32>) -> "
            "(Y: !frontend.tensor<[M], f32>) {\n"
            "  %0 = frontend.reduce sum %X axes [1] : !frontend.tensor<[M, N], f32> -> "
            "!frontend.tensor<[M], f32>\n"
            "  frontend.output %0 : !frontend.tensor<[M], f32>\n}\n"
        )
        _, region = self.job(text)
        plans = propose(region, self.arch)[1]
        plan = next(p for p in plans if p.fields()["algo_choice"] == {"rows": "streaming"})
        fields = {**plan_fields(plan.to_json()), "split_k": 1, "cluster": [1, 1]}
        return [self.run(text, {"M": 1, "N": n}, fields, held) for n in lengths]

    def products(
        self,
        rows: int,
        columns: int,
        *lengths: int,
        fields: Mapping[str, object] | None = None,
        hot: bool = False,
    ) -> list[Run]:
        """Products of f16 of these lengths."""
        return [
            self.run(_GEMM, {"M": rows, "K": k, "N": columns}, fields, hot=hot) for k in lengths
        ]

    def few(self, chip: int) -> tuple[int, int, Mapping[str, object]]:
        """A product of a quarter as many tiles as the chip has SMs, and its plan."""
        high = 8
        wide = max(1, chip // 4 // high)
        fields = self.fields("wgmma" if self.arch == "sm_90a" else "mma.sync")
        tile = cast("list[int]", fields["tile"])
        return high * tile[0], wide * tile[1], fields

    def narrow(self) -> Mapping[str, object] | None:
        """The plan of a product whose tiles are so narrow that they wait for L2, by TMA."""
        if self.arch != "sm_90a":
            return None
        fields = self.fields("wgmma")
        rows, _, depth = cast("list[int]", fields["tile"])
        high = int(str(fields["warp_tile"]).partition("x")[0])
        return {**fields, "tile": [rows, NARROW, depth], "warp_tile": [high, NARROW]}

    def fields(self, mma: str) -> Mapping[str, object]:
        """Of what is proposed for a product, the largest tile by one instruction."""
        _, region = self.job(_GEMM)
        plans = (p for p in propose(region, self.arch)[1] if p.mma.data == mma)
        brought = [p for p in plans if p.loader.data == p.brings and p.integer("split_k") == 1]
        best = max(brought, key=lambda p: (p.integer("vectorize"), prod(p.tile_sizes[:2])))
        return plan_fields(best.to_json())


NARROW = 64
"""Columns of a tile that brings more than tensor cores take."""

CHAINS = 1 << 22
"""Numbers of which each is a chain of functions."""

_GEMM = """frontend.graph @product(
    %A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>)
    -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32}
      : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>)
      -> !frontend.tensor<[M, N], f16>
  frontend.output %0 : !frontend.tensor<[M, N], f16>
}
"""


def _graph(size: str, shape: str, functions: Sequence[str]) -> str:
    """A graph of elementwise functions of f32, one after another."""
    kind = f"!frontend.tensor<[{shape}], f32>"
    lines = [f"frontend.graph @chain(%X: {kind}) -> (Y: {kind}) {{"]
    last = "X"
    for number, function in enumerate(functions):
        operands = f"%{last}, %{last}" if function == "mul" else f"%{last}"
        kinds_text = f"({kind}, {kind}) -> {kind}" if function == "mul" else kind
        lines.append(f"  %v{number} = frontend.elementwise {function} {operands} : {kinds_text}")
        last = f"v{number}"
    return "\n".join([*lines, f"  frontend.output %{last} : {kind}", "}", ""])


def _random(shape: tuple[int, ...], element: str) -> Any:
    """Numbers in [-1, 1): a million, again and again."""
    import numpy as np

    count = prod(shape)
    some = np.random.default_rng(0).uniform(-1, 1, min(count, 1 << 20)).astype(np.float32)
    return np.resize(some, count).reshape(shape).astype(numpy_dtype(element))
