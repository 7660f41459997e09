"""Products of few rows, as a model's layers of one to sixteen tokens, beside ``torch.mm`` (S11.1).

    python bench/few_rows.py [--rows 1 2 4 8 16] [--dtype f16] [--tried 8] [--seconds 60]

The other operand lies along k, as PyTorch's weights do (``NK``), or along n (``KN``).  Of each
problem what the compiler chooses of its sizes (``own``), and the candidates of ``polyc tune``
beside it, take turns with ``torch.mm`` on random inputs that exceed the L2 cache together.

Needs an NVIDIA GPU and PyTorch, but for ``--dry``, which prints what the model expects.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from xdsl.dialects.builtin import bf16, f16

from polyc.bench import race
from polyc.cost.time import modelled
from polyc.dialects.plan import ScheduleOp
from polyc.passes.plan.select import propose
from polyc.runtime import kept
from polyc.runtime.lowered import Lowered, lowered
from polyc.runtime.program import Program
from polyc.test.support.sketch import Sketch
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.tuning import regions
from polyc.tuning.candidates import candidates, laid
from polyc.tuning.records import plan_fields

ARCH = "sm_90a"
LAYERS = ((4096, 4096), (14336, 4096), (4096, 14336), (64, 4096))
"""Columns, and what is summed, of a layer; the last one is a gate of experts."""

ROWS = (1, 2, 4, 8, 16)


class Problem(NamedTuple):
    """A product: how the other operand lies, its sizes, and the type of its elements."""

    layout: str
    m: int
    n: int
    k: int
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.layout} {self.m}x{self.n}x{self.k} {self.dtype}"


Row = dict[str, Any]


@cache
def region_of(problem: Problem) -> tuple[Compilation, Any]:
    """The one region of a problem."""
    layout, m, n, k, dtype = problem
    sketch = Sketch("few", {"f16": f16, "bf16": bf16}[dtype])
    x, w = sketch.input("x", m, k), sketch.input("w", *((n, k) if layout == "NK" else (k, n)))
    module = sketch.done(y=sketch.gemm(x, w, turned=layout == "NK"))
    job = Compilation(make_context(), module, ARCH)
    (region,) = regions.regions_of(job)
    return job, region


def planned(problem: Problem, tried: int) -> list[tuple[float, ScheduleOp]]:
    """The plans to time with what the model expects of each in us, the compiler's own first."""
    _, region = region_of(problem)
    _, (own, *_), _ = propose(region, ARCH)
    known = plan_fields(own.to_json())
    found = candidates(region, ARCH, {}, tried + 1)
    rest = [(one.time.seconds * 1e6, one.plan) for one in found if one.fields != known]
    return [(modelled(region, own, {}).seconds * 1e6, own), *rest[:tried]]


def made(problem: Problem, tried: int) -> list[race.Planned]:
    """The plans of a problem, compiled and kept on disk."""
    job, region = region_of(problem)
    found: list[race.Planned] = []
    for us, plan in planned(problem, tried):
        entry = kept.key("bench", {"few rows": list(problem), "plan": plan.to_json()})
        fault = ""
        try:
            lower = partial(_lowered, job, region, plan)
            kernels = Program(kept.origin(entry, lower)).kernels
            if spilled := [kernel for kernel, info in kernels.items() if info.spill_bytes]:
                fault = f"{', '.join(spilled)} spills"
        except Exception as error:  # One that fails is reported, and the others go on.
            fault = f"{type(error).__name__}: {str(error)[:200]}"
        found.append(race.Planned(plan.variant.data, us, plan_fields(plan.to_json()), entry, fault))
    return found


def _lowered(job: Compilation, region: Any, plan: ScheduleOp) -> Lowered:
    return lowered(regions.lowered(job, region, plan))


def there(problem: Problem, one: race.Planned) -> Program:
    """The program of a plan that was made."""
    job, region = region_of(problem)

    def lower() -> Lowered:
        return _lowered(job, region, laid(region, ARCH, one.fields, (), one.name))

    return Program(kept.origin(one.entry, lower))


def raced(torch: Any, problem: Problem, plans: Sequence[race.Planned]) -> Row:
    """One problem: ``torch.mm`` and each plan."""
    layout, m, n, k, dtype = problem
    kind = getattr(torch, {"f16": "float16", "bf16": "bfloat16"}[dtype])
    copies = race.copies_for(2 * (m * k + n * k + m * n), 60 << 20, most=8)

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=kind)

    sets = [
        (random(m, k), random(*((n, k) if layout == "NK" else (k, n))), random(m, n))
        for _ in range(copies)
    ]

    def peer(i: int) -> None:
        x, w, out = sets[i % copies]
        torch.mm(x, w.t() if layout == "NK" else w, out=out)

    x, w, out = sets[0]
    right = x.double() @ (w.t() if layout == "NK" else w).double()
    step = right.abs().max().item() * (2.0**-10 if dtype == "f16" else 2.0**-7)
    runs: list[Any] = [peer]
    named: list[Row] = []
    for one in plans:
        if one.fault:
            print(f"LEFT OUT {problem.name} {one.name}: {one.fault}", flush=True)
            continue
        compiled = there(problem, one)
        run = race.in_turns(torch, [compiled.launch([x, w], [y]) for x, w, y in sets])
        out.fill_(float("nan"))
        run(0)
        off = (out.double() - right).abs().max().item() / step
        if not off <= 1:
            print(f"WRONG {problem.name} {one.name} by {off:.3g}", flush=True)
        registers = [kernel.registers for kernel in compiled.kernels.values()]
        row = {"name": one.name, "model_us": one.model_us, "registers": registers}
        named.append({**row, "error": off, "fields": one.fields})
        runs.append(run)
    torch_us, *times = race.paced(torch, runs, copies)
    for row, us in zip(named, times, strict=True):
        row["us"] = us
    own, *rest = named
    return {**problem._asdict(), "torch_us": torch_us, "own": own, "plans": rest}


def line(row: Row) -> str:
    """A problem: its choice beside PyTorch and the fastest."""
    own, best = row["own"], min([row["own"], *row["plans"]], key=lambda one: one["us"])
    size = f"{row['layout']} {row['m']}x{row['n']}x{row['k']} {row['dtype']}"
    found = f"{size}: torch.mm {row['torch_us']:.1f}"
    for what, one in (("own", own), ("best", best)):
        found += f", {what} {one['name']} {one['us']:.1f} ({row['torch_us'] / one['us']:.2f})"
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = race.regret_options(__doc__ or "", 0, 8, 0)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16")
    parser.add_argument("--layouts", nargs="+", choices=("NK", "KN"), default=("NK", "KN"))
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args(argv)
    every = [
        Problem(layout, m, n, k, args.dtype)
        for n, k in LAYERS
        for m in args.rows
        for layout in args.layouts
    ]
    asked = race.part_of(every, args.part)
    if args.dry:
        for problem in asked:
            many = planned(problem, args.tried)
            listed = ", ".join(f"{plan.variant.data} {us:.1f}" for us, plan in many)
            print(f"{problem.name}: {listed}")
        return 0
    make = partial(made, tried=args.tried)
    race.regrets(args, "bench/few_rows.py", asked, make, raced, line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
