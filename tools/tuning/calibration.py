"""The figures of a chip (``cost/device.py``), measured by kernels that polyc compiles.

A rate is a slope: two runs that differ in size alone, so that what both do once cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from statistics import median
from typing import Any, cast

from polyc.cost.device import SHIPPED, Device, device_of
from polyc.cost.values import SLOW
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.rewriting.driver import verify
from polyc.runtime import driver
from polyc.runtime.tensors import numpy_dtype
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.steps import Steps
from polyc.tools.tuning.regions import compiled, kinds, regions_of
from polyc.tuning.candidates import candidates, laid
from polyc.tuning.chip import Chip
from polyc.tuning.figures import NAMES, Figures
from polyc.tuning.regions import facts

ROUNDS = 5

DRIVER = ("multiprocessors", "threads", "registers", "shared", "cache_bytes")
"""What the driver says, and is not timed."""

HELD = 0.8
"""Of the L2 cache, what a kernel finds of what the one before it wrote: of the H200's 50 MB, 40."""


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

    def take(name: str, measure: Callable[[], float]) -> float | None:
        nonlocal found
        with steps.step(name) as step:
            try:
                value = measure()
            except PolycError as error:
                step.note = f"not measured, {error.kind}: {error.message}"
                return None
            if not value > 0:
                step.note = "not measured, the times do not differ as they should"
                return None
            step.note = f"{value:.3g}"
            if name in NAMES:
                found = replace(found, **{name: float(f"{value:.4g}")})
                measured.append(name)
            else:
                beside[name] = value
        return value

    take("memory", lambda: bench.copy(1 << 24, 1 << 26, True))
    take("cache", lambda: bench.copy(1 << 20, 1 << 21, False))
    take("operations", lambda: bench.chain("mul", 64, 192))
    take("exponentials", lambda: bench.chain("exp", 8, 24))
    take("near", lambda: bench.steps(1 << 16, 1 << 18, False))
    take("latency", lambda: bench.steps(1 << 21, 1 << 22, True))
    take("launch", lambda: bench.launch() - found.near)
    take("tensor_flops", lambda: bench.product(4096, 4096, 2048, 8192, None)[0])
    few = bench.few(gpu.multiprocessors)
    peak: list[tuple[float, float]] = []

    def busy() -> float:
        peak.append(bench.product(*few[:2], 4096, 16384, few[2]))
        return peak[0][0] / few[3] * gpu.multiprocessors

    take("tensor_peak", busy)
    if peak:
        take("fill", lambda: peak[0][1] - found.launch)
    if arch == "sm_90a":
        take(
            "mma_sync",
            lambda: bench.product(4096, 4096, 2048, 4096, bench.threads())[0] / found.tensor_flops,
        )
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


def slope(small: tuple[float, float], large: tuple[float, float]) -> tuple[float, float]:
    """The rate between two pairs of work and seconds, and the seconds of no work."""
    rate = (large[0] - small[0]) / (large[1] - small[1]) if large[1] > small[1] else 0.0
    return rate, small[1] - small[0] / rate if rate else 0.0


class _Kernels:
    """The kernels by which figures are measured, for one architecture."""

    def __init__(self, arch: str) -> None:
        self.arch = arch

    def job(self, text: str) -> tuple[Compilation, KernelOp]:
        ctx = make_context()
        module = parse_text(ctx, text, "calibration")
        verify(module)
        job = Compilation(ctx, module, self.arch)
        return job, regions_of(job)[0]

    def seconds(
        self,
        text: str,
        sizes: dict[str, int],
        fields: Mapping[str, object] | None = None,
        rotate: bool = True,
    ) -> float:
        """The median time of a program of one region, under the best plan by the model or one of
        these fields."""
        from polyc.tuning.gpu import Bench

        job, region = self.job(text)
        if fields is None:
            plan = candidates(region, self.arch, sizes, 1)[0].plan
        else:
            plan = laid(region, self.arch, fields, facts(sizes), "given")
        program = compiled(job, region, plan)
        inputs, outputs = kinds(region, sizes)
        arrays = [_random(shape, element) for shape, element in inputs]
        timed = Bench([arrays], inputs, outputs, sizes, rotate=rotate).timed(program)
        timed.seconds()
        return median(timed.seconds() for _ in range(ROUNDS))

    def copy(self, small: int, large: int, rotate: bool) -> float:
        """Bytes in a second of a copy of f32."""
        text = _graph("N", "N", ["neg"])
        both = [(8.0 * n, self.seconds(text, {"N": n}, None, rotate)) for n in (small, large)]
        return slope(*both)[0]

    def chain(self, function: str, short: int, long: int) -> float:
        """Elements in a second of a function, each of the one before it."""
        count = 1 << 22
        both = [
            (float(count * n), self.seconds(_graph("N", "N", [function] * n), {"N": count}))
            for n in (short, long)
        ]
        return slope(*both)[0]

    def steps(self, short: int, long: int, rotate: bool) -> float:
        """Seconds of a step of one block that walks a row, of which each waits for its loads."""
        text = (
            "frontend.graph @row(%X: !frontend.tensor<[M, N], f32>) -> "
            "(Y: !frontend.tensor<[M], f32>) {\n"
            "  %0 = frontend.reduce sum %X axes [1] : !frontend.tensor<[M, N], f32> -> "
            "!frontend.tensor<[M], f32>\n"
            "  frontend.output %0 : !frontend.tensor<[M], f32>\n}\n"
        )
        _, region = self.job(text)
        from polyc.passes.plan.select import propose

        plans = propose(region, self.arch)[1]
        plan = next(p for p in plans if p.fields()["algo_choice"] == {"rows": "streaming"})
        from polyc.tuning.records import plan_fields

        fields = {**plan_fields(plan.to_json()), "split_k": 1, "cluster": [1, 1]}
        columns = plan.tile_sizes[1]
        both = [
            (n / columns, self.seconds(text, {"M": 1, "N": n}, fields, rotate))
            for n in (short, long)
        ]
        rate = slope(*both)[0]
        return 1 / rate if rate else 0.0

    def launch(self) -> float:
        """Seconds of a kernel that does next to nothing, in a graph of such kernels."""
        return self.seconds(_graph("N", "N", ["neg"]), {"N": 1024}, None, False)

    def product(
        self, rows: int, columns: int, short: int, long: int, fields: Mapping[str, object] | None
    ) -> tuple[float, float]:
        """Operations in a second of a product of f16, and the seconds of one without steps."""
        both = [
            (
                2.0 * rows * columns * k,
                self.seconds(_GEMM, {"M": rows, "K": k, "N": columns}, fields),
            )
            for k in (short, long)
        ]
        return slope(*both)

    def few(self, chip: int) -> tuple[int, int, Mapping[str, object], int]:
        """A product of a quarter as many tiles as the chip has SMs, its plan, and the tiles."""
        high = 8
        wide = max(1, chip // 4 // high)
        fields = self.fields("wgmma" if self.arch == "sm_90a" else "mma.sync")
        tile = cast("list[int]", fields["tile"])
        return high * tile[0], wide * tile[1], fields, high * wide

    def threads(self) -> Mapping[str, object]:
        """The fields of a product by mma.sync."""
        return self.fields("mma.sync")

    def fields(self, mma: str) -> Mapping[str, object]:
        """Of what is proposed for a product, the largest tile by one instruction."""
        from polyc.passes.plan.select import propose
        from polyc.tuning.records import plan_fields

        _, region = self.job(_GEMM)
        plans = (p for p in propose(region, self.arch)[1] if p.mma.data == mma)
        brought = [p for p in plans if p.loader.data == p.brings and p.integer("split_k") == 1]
        best = max(brought, key=lambda p: (p.integer("vectorize"), prod(p.tile_sizes[:2])))
        return plan_fields(best.to_json())


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
