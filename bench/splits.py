"""Every way to share the steps of a product's tiles, timed beside cuBLAS (S8, S9).

    python bench/splits.py [--shapes 128x128x65536 …] [--archs sm_90a sm_80] [--rounds 7]

For each shape and architecture all schedules that the family proposes are built, those too that the
model of time leaves out: clusters that share a tile, and sums of parts through memory.  A row has
what was measured beside what the model expects, so that its constants (``sums`` and ``behind`` of
``cost/device.py``) can be fitted; ``kept`` marks what ``plan-select`` chooses.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from polyc.bench import race
from polyc.cost.time import microseconds, modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import schedules_of
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import GEMM
from polyc.passes.pipeline import STAGES, build
from polyc.passes.support.plan.worth import worth
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

SHAPES = (
    *("128x128x65536", "256x256x16384", "64x64x131072", "512x512x8192", "1024x1024x4096"),
    *("1x14336x4096", "16x14336x4096", "64x14336x4096", "1x4096x14336", "16x4096x14336"),
    *("64x4096x14336", "256x1024x4096", "100x1000x2048"),
)
"""Rows, columns and depth."""

TEXT = """frontend.graph @product(%A: !frontend.tensor<[{m}, {k}], f16>,
    %B: !frontend.tensor<[{k}, {n}], f16>) -> (C: !frontend.tensor<[{m}, {n}], f16>) {{
  %0 = frontend.gemm %A, %B {{acc = f32}} : (!frontend.tensor<[{m}, {k}], f16>,
      !frontend.tensor<[{k}, {n}], f16>) -> !frontend.tensor<[{m}, {n}], f16>
  frontend.output %0 : !frontend.tensor<[{m}, {n}], f16>
}}
"""

Shape = tuple[int, int, int]

OPEN = ("M", "N", "K")
"""Sizes that a launch has."""

BATCHED = ("B", *OPEN)


def text_of(sizes: Sequence[object]) -> str:
    """A product of these sizes, the last three of which are rows, columns and depth."""
    *batch, m, n, k = sizes
    text = TEXT.format(m=m, n=n, k=k)
    return text.replace("tensor<[", f"tensor<[{batch[0]}, ") if batch else text


def regions(sizes: Sequence[object]) -> ModuleOp:
    """The region of a product of these sizes, or of open ones."""
    ctx = make_context()
    module = parse_text(ctx, text_of(sizes), "product.mlir")
    for stage in ("tiny", "index", "region"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(ctx, module)
    return module


def candidates(shape: Shape, arch: str) -> Iterator[tuple[ScheduleOp, float, bool]]:
    """All schedules of a product, what the model expects of each, and whether it stays."""
    kernel = region_of(regions(shape))
    found = GEMM.schedules(kernel, arch)
    kept = worth(kernel, found)
    names = {plan.variant for plan in found}
    others = GEMM.others(find_contraction(kernel), arch)
    found = [*found, *(plan for plan in others if plan.variant not in names)]
    for plan in found:
        yield plan, modelled(kernel, plan, {}).seconds, plan is kept[0]


def region_of(module: ModuleOp) -> KernelOp:
    """The one region of a module."""
    return next(op for op in module.walk() if isinstance(op, KernelOp))


def built(shape: Sequence[object], plan: ScheduleOp) -> ModuleOp:
    """The kernels of a product by one schedule."""
    ctx, arch = make_context(), plan.arch.data
    module = regions(shape)
    kernel = region_of(module)
    block = kernel.parent_block()
    assert block is not None and not schedules_of(kernel)
    block.insert_op_after(plan.clone(), kernel)
    for name in ("region-expand-together", *STAGES["tiles"], *STAGES["gpu"]):
        build(name, arch).apply(ctx, module)
    return module


def shape_of(text: str) -> Shape:
    m, n, k = map(int, text.split("x"))
    return m, n, k


def race_shape(torch: Any, shape: Shape, archs: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """One shape: each schedule, and ``torch.mm``."""
    m, n, k = shape
    copies = race.copies_for(2 * (m * k + k * n + m * n), driver.device().l2_bytes)
    sets = [
        (
            torch.randn(m, k, device="cuda", dtype=torch.float16),
            torch.randn(k, n, device="cuda", dtype=torch.float16) * k**-0.5,
            torch.empty(m, n, device="cuda", dtype=torch.float16),
        )
        for _ in range(copies)
    ]

    def peer(i: int) -> None:
        a, b, out = sets[i % copies]
        torch.mm(a, b, out=out)

    racers = [race.Contestant("torch.mm", peer)]
    traits: list[dict[str, Any]] = [{}]
    a, b, out = sets[0]
    right = a.float() @ b.float()
    for arch in archs:
        for plan, expected, kept in candidates(shape, arch):
            program = Program.compile(built(shape, plan))
            launches = [program.launch([a, b], [out]) for a, b, out in sets]
            name = f"{arch} {plan.variant.data}"
            racer = race.Contestant(name, race.in_turns(torch, launches), False)
            out.fill_(float("nan"))
            racer.run(0)
            once = out.clone()
            error = (once.float() - right).abs().max().item()
            racer.run(0)
            same = bool(torch.equal(once, out))
            racers.append(racer)
            parts = plan.integer("split_k")
            traits.append(
                {
                    "tile": list(plan.tile_sizes),
                    "parts": parts,
                    "through_memory": plan.stores_sums,
                    "modelled_us": microseconds(expected),
                    "kept": kept,
                    "largest_error": error,
                    "same_bits": same,
                }
            )
    race.measure(torch, racers, rounds, copies)
    best = racers[0].median
    rows: list[dict[str, Any]] = []
    print(f"{m}x{n}x{k}: torch.mm {best * 1e3:.1f} us, {copies} copies")
    for racer, more in sorted(zip(racers, traits, strict=True), key=lambda one: one[0].median):
        rows.append({"m": m, "n": n, "k": k, "name": racer.name, "us": racer.median * 1e3, **more})
        if not more:
            continue
        wrong = "" if more["largest_error"] < 0.02 and more["same_bits"] else "  WRONG"
        print(
            f"  {racer.name:34} {racer.median * 1e3:8.1f} us {best / racer.median:6.2f} of "
            f"torch.mm, model {more['modelled_us']:7g} us{' kept' if more['kept'] else ''}{wrong}",
            flush=True,
        )
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time the ways to split a product's steps.")
    parser.add_argument("--shapes", nargs="+", type=shape_of, default=[*map(shape_of, SHAPES)])
    parser.add_argument("--archs", nargs="+", default=["sm_90a", "sm_80"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", help="a JSON file of all rows")
    args = parser.parse_args(argv)
    torch = race.load_torch("bench/splits.py")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    try:
        rows = [
            row
            for shape in args.shapes
            for row in race_shape(torch, shape, args.archs, args.rounds)
        ]
    except PolycError as error:
        print(error, file=sys.stderr)
        return 1
    if args.out:
        report = {**race.surroundings(torch, args.rounds), "rows": rows}
        Path(args.out).write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
