"""A search for programs that fall off a cliff: a whole that takes longer than its parts.

A number gives two to six pieces of models at a model's sizes (``compositions.py``).  The modelled
time of the graph of them all, with the regions and plans that it is compiled to, is compared with
the sum of the pieces' own, each compiled alone.  A ratio over 1.15 is a find, and so is a
contraction of more than 10⁶ multiply-adds that threads compute without tensor cores.  With
``--kernels`` each whole is compiled to its CUDA too, whose faults are finds.

    python test/fuzz/cliffs.py --runs 200 --seed 0
    python test/fuzz/cliffs.py --first 17 --runs 1

Needs no GPU.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

from polyc.cost.time import Time, chosen, times_of
from polyc.cost.values import Values
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.families.family import schedules_of
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.test.fuzz.compositions import SIZES, Composition, composed
from polyc.test.fuzz.layers import REFUSED
from polyc.test.fuzz.search import parser, search
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

LIMIT = 1.15
"""What a whole may take of the sum of its pieces."""
LARGE = 1e6
"""Multiply-adds of a contraction that belongs on tensor cores."""
ARCH = "sm_90a"


@dataclass(frozen=True)
class Planned:
    """The kernels of a graph: their times, and the contractions that run without tensor cores."""

    times: tuple[Time, ...]
    by_threads: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The time of the graph."""
        return sum(t.seconds for t in self.times)


@cache
def planned(
    text: str, given: tuple[tuple[str, int], ...] = tuple(SIZES.items()), arch: str = ARCH
) -> Planned:
    """The kernels of a graph's text at sizes.  Raises PolycError where a pass refuses it."""
    ctx, sizes = make_context(), dict(given)
    job = Compilation(ctx, parse_text(ctx, text, "cliffs.mlir"), arch).run("plan")
    times = tuple(times_of(job.module, sizes))
    kernels = (op for op in job.module.ops if isinstance(op, KernelOp))
    return Planned(times, tuple(name for op in kernels for name in by_threads(op, sizes)))


def _has_vector(values: Values, reduce: ReduceOp) -> bool:
    """Whether a factor of a sum of products is over all axes of these."""
    sides = values.factors(reduce)
    assert sides is not None
    every = values.own(reduce.operand)
    return any(values.own(side) == every for side in sides)


def built(text: str) -> None:
    """Compile a graph's text to CUDA.  Raises PolycError where a pass refuses it."""
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text, "cliffs.mlir"), ARCH).run()
    for op in job.module.ops:
        if isinstance(op, GpuModuleOp):
            cuda_source(finished(op.clone()))


def by_threads(kernel: KernelOp, sizes: Mapping[str, int] = SIZES) -> list[str]:
    """The large contractions of a region whose schedule does not have them on tensor cores.

    A matrix times a vector is none, as a kernel of rows has them: a factor is over all axes, and
    nothing does that faster than memory is read.
    """
    plan: ScheduleOp | None = chosen(schedules_of(kernel), sizes)
    if plan is None or plan.mma.data != "none" or plan.pattern == "rows":
        return []
    values = Values(kernel, sizes)
    products = [op for op in values.contractions() if not _has_vector(values, op)]
    found = [(op, values.multiply_adds(op)) for op in products]
    name = kernel.sym_name.data
    return [f"{count:.2g} multiply-adds in @{name}" for _, count in found if count > LARGE]


def failure(
    composition: Composition, counts: Counter[str] | None = None, kernels: bool = False
) -> str | None:
    """What is wrong with a composition, with ``kernels`` with its CUDA too, or None."""
    reached = Counter[str]() if counts is None else counts
    try:
        whole = planned(module_text(composition.whole()))
        pieces = [planned(module_text(module)) for module in composition.alone()]
        if kernels:
            built(module_text(composition.whole()))
    except PolycError as error:
        if error.kind not in REFUSED:
            return f"{composition.title}: {error.format()}"
        reached[f"end as {error.kind}"] += 1
        return None
    parts = sum(p.seconds for p in pieces)
    ratio = whole.seconds / parts
    reached["modelled"] += 1
    said: list[str] = []
    if ratio > LIMIT:
        reached["over the limit"] += 1
        most = max(whole.times, key=lambda t: t.seconds)
        each = ", ".join(f"{p.seconds * 1e6:.3g}" for p in pieces)
        said.append(
            f"{ratio:.2f} of its pieces, {whole.seconds * 1e6:.4g} us beside {parts * 1e6:.4g} "
            f"({each}); @{most.kernel} {most.variant} takes {most.seconds * 1e6:.4g}, "
            f"bound by {most.bound}"
        )
    if whole.by_threads:
        reached["without tensor cores"] += 1
        alone = {name.partition(" in ")[0] for p in pieces for name in p.by_threads}
        also = "; alone too" if alone else ""
        said.append(f"without tensor cores {', '.join(whole.by_threads)}{also}")
    return f"{composition.title}: {'; '.join(said)}" if said else None


def least(composition: Composition) -> Composition:
    """The shortest run of pieces in a composition that is a find too; itself where none is."""
    count = len(composition.pieces)
    for length in range(1, count):
        for start in range(count - length + 1):
            part = composition.part(start, start + length)
            if failure(part) is not None:
                return part
    return composition


def attempt(
    number: int, seed: int, show: bool = True, kernels: bool = False
) -> tuple[str | None, Counter[str]]:
    """The composition of a number, and what is counted of it."""
    counts = Counter[str]()
    composition = composed(random.Random(f"{seed} {number}"))
    try:
        why = failure(composition, counts, kernels)
        if why is not None and (part := least(composition)) is not composition:
            why += f"\n  of which {failure(part)}"
    except Exception as error:
        why = f"{composition.title}: {type(error).__name__}: {str(error).splitlines()[:1]}"
    if why is not None and show:
        why += f"\n{module_text(composition.whole())}"
    return why, counts


def main() -> int:
    options = parser(__doc__ or "", 200)
    options.add_argument("--brief", action="store_true", help="do not print the programs")
    options.add_argument("--kernels", action="store_true", help="compile the whole to CUDA too")
    args = options.parse_args()
    trial = partial(attempt, show=not args.brief, kernels=args.kernels)
    return search("composition", trial, args, every=50)


if __name__ == "__main__":
    sys.exit(main())
