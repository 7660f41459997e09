"""How well the plans of models' regions are chosen, which no benchmark has drawn (S11.1).

    python bench/regret_regions.py --kernelbench KernelBench [--only level2/4_] [--tried 8]
                                   [--share 0.1] [--seconds 100] [--list] [--out FILE]

Each problem of KernelBench is imported at its own sizes.  Of every region that the model of time
gives at least a share of the whole these take turns on the GPU: the compiler's own plan, and the
candidates that ``polyc tune`` would try.  All must store what the compiler's own plan stores.  The
regret of a choice is how much longer it takes than the fastest of all; beside it stand measured
over modelled times, which say of what kind of kernel the model is off.

Programs are built in other processes, and kept on disk, while the GPU times those before them.
Needs PyTorch, and an NVIDIA GPU but for ``--list``, which prints the candidates and compiles none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from polyc.bench import race
from polyc.cost.device import H100
from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.plan.select import propose
from polyc.rewriting.frontend.parameters import lift_parameters
from polyc.rewriting.notes import unsaid
from polyc.runtime import kept
from polyc.runtime.lowered import Lowered, lowered
from polyc.runtime.program import Program
from polyc.test.support import kernelbench as kb
from polyc.test.support.kernelbench import Problem
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.tuning import regions
from polyc.tuning.candidates import candidates
from polyc.tuning.gpu import Kind
from polyc.tuning.records import plan_fields

Row = dict[str, Any]


class Region(NamedTuple):
    """A region of a problem, its inputs and outputs, and its plans, the compiler's own first."""

    name: str
    inputs: Sequence[Kind]
    outputs: Sequence[Kind]
    plans: Sequence[race.Planned]


def slow(job: Compilation, share: float) -> list[tuple[KernelOp, ScheduleOp]]:
    """The regions of a program that take a share of its modelled time, each with its own plan."""
    own = [
        (region, propose(region, kb.ARCH)[1][0])
        for region in regions.regions_of(job)
        if not all(tensor.is_constant for tensor in region.inputs)
    ]
    seconds = [modelled(*one, {}, H100).seconds for one in own]
    return [one for one, own_s in zip(own, seconds, strict=True) if own_s >= share * sum(seconds)]


def made(problem: Problem, tried: int, share: float, compiled: bool = True) -> list[Region]:
    """The slow regions of a problem with their plans, compiled and kept on disk."""
    module = kb.sized(problem).module.clone()
    lift_parameters(module)
    found: list[Region] = []
    with unsaid():
        job = Compilation(make_context(), module, kb.ARCH)
        for region, own in slow(job, share):
            others = [one.plan for one in candidates(region, kb.ARCH, {}, tried, H100)]
            known_as = plan_fields(own.to_json())
            plans = [own, *(p for p in others if plan_fields(p.to_json()) != known_as)]
            rows = [planned(problem, job, region, plan, compiled) for plan in plans]
            found.append(Region(region.sym_name.data, *regions.kinds(region, {}), rows))
    return found


def planned(
    problem: Problem, job: Compilation, region: KernelOp, plan: ScheduleOp, compiled: bool
) -> race.Planned:
    """A plan of a region, with its program on disk if it is to be ``compiled``."""
    parts = {"of": problem.name, "region": region.sym_name.data, "plan": plan.to_json()}
    entry, fault = kept.key("bench", parts), ""

    def lower() -> Lowered:
        return lowered(regions.lowered(job, region, plan))

    try:
        if compiled:
            kernels = Program(kept.origin(entry, lower)).kernels
            if spilled := [kernel for kernel, info in kernels.items() if info.spill_bytes]:
                fault = f"{', '.join(spilled)} spills"
    except Exception as error:  # One that fails is reported, and the others go on.
        fault = f"{type(error).__name__}: {str(error)[:200]}"
    us = modelled(region, plan, {}, H100).seconds * 1e6
    return race.Planned(plan.variant.data, us, plan_fields(plan.to_json()), entry, fault)


def there(plan: race.Planned) -> Program:
    """The program of a plan that was made.  Raises PolycError where it is not on disk."""

    def lower() -> Lowered:
        raise PolycError("NotKept", f"the program of {plan.name} is not on disk")

    return Program(kept.origin(plan.entry, lower))


def tensor(torch: Any, kind: Kind) -> Any:
    """Random numbers of a shape and an element type; of integers and truths zeros."""
    shape, name = kind
    types = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
    if name in types:
        return torch.randn(shape, device="cuda", dtype=types[name])
    others = {"i1": torch.bool, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32}
    return torch.zeros(shape, device="cuda", dtype=others.get(name, torch.int64))


def raced_region(torch: Any, problem: Problem, region: Region) -> Row:
    """The plans of a region in turns."""
    moved = sum(4 * prod(shape) for shape, _ in (*region.inputs, *region.outputs))
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    copies = min(4, race.copies_for(moved, l2)) if moved < 2**33 else 1
    sets = [[tensor(torch, kind) for kind in region.inputs] for _ in range(copies)]
    outs = [[tensor(torch, kind) for kind in region.outputs] for _ in sets]
    right: list[Any] = []
    runs: list[Any] = []
    rows: list[Row] = []
    for plan in region.plans:
        row: Row = {"name": plan.name, "model_us": plan.model_us, "fields": plan.fields}
        if plan.fault:
            print(f"LEFT OUT {problem.name} {region.name} {plan.name}: {plan.fault}", flush=True)
            continue
        for out in outs[0]:
            out.fill_(-1)
        try:
            program = there(plan)
            pairs = zip(sets, outs, strict=True)
            run = race.in_turns(torch, [program.launch(x, y, {}) for x, y in pairs])
            run(0)
        except PolycError as error:
            print(f"{problem.name} {region.name} {plan.name} does not run: {error.kind}")
            continue
        if not right:
            right = [out.clone() for out in outs[0]]
        for out, wanted in zip(outs[0], right, strict=True):
            most = wanted.abs().max().double().item() or 1.0
            off = (out - wanted).abs().max().double().item() / most
            if not off <= 4e-3:
                print(f"WRONG {problem.name} {region.name} {plan.name} by {off:.3g}", flush=True)
        row["registers"] = [kernel.registers for kernel in program.kernels.values()]
        runs.append(run)
        rows.append(row)
    del right
    for row, us in zip(rows, race.paced(torch, runs, copies), strict=True):
        row["us"] = us
    own, *plans = rows
    return {"case": problem.name, "region": region.name, "own": own, "plans": plans}


def raced(torch: Any, problem: Problem, found: Sequence[Region]) -> Row:
    """The regions of a problem, one after the other."""
    rows: list[Row] = []
    for region in found:
        rows.append(raced_region(torch, problem, region))
        torch.cuda.empty_cache()
    return {"case": problem.name, "regions": rows}


def line(row: Row) -> str:
    """A region: its choice beside the fastest, and what the model has of both."""
    own, best = row["own"], min([row["own"], *row["plans"]], key=lambda one: one["us"])
    name = f"{row['case'][:40]} {row['region']}"
    both = [f"{one['name']} {one['us']:.1f} (model {one['model_us']:.1f})" for one in (own, best)]
    return f"{name}: own {both[0]}, best {both[1]}, +{race.regret(row, 'own'):.0%}"


def lines(row: Row) -> str:
    """The regions of a problem."""
    return "\n".join(line(one) for one in row["regions"])


def main(argv: Sequence[str] | None = None) -> int:
    parser = race.regret_options(__doc__ or "", 1000, 8, 0)
    parser.add_argument("--kernelbench", type=Path, required=True, help="a checkout")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--share", type=float, default=0.1, help="of the time, for a region")
    parser.add_argument("--list", action="store_true", help="print the candidates alone")
    args = parser.parse_args(argv)
    asked = [one for one in kb.problems(args.kernelbench) if re.search(args.only, one.name)]
    asked = race.part_of(asked, args.part)[: args.count]
    make = partial(made, tried=args.tried, share=args.share, compiled=not args.list)
    if args.list:
        for problem in asked:
            for one in make(problem):
                listed = ", ".join(f"{plan.name} {plan.model_us:.1f}" for plan in one.plans)
                print(f"{problem.name} {one.name}: {listed}")
        return 0
    rows = race.regrets(args, "bench/regret_regions.py", asked, make, raced, lines, "spawn")
    every = [one for row in rows for one in row["regions"]]
    for row in sorted(every, key=lambda row: -race.regret(row, "own"))[:10]:
        print(f"  {line(row)}")
    for text in race.summary(every):
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
