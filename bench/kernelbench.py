"""KernelBench's levels 1 and 2: what can be said, what runs on tensor cores, and how fast it is.

The problems come from a checkout (github.com/ScalingIntelligence/KernelBench); each is a file of
Python that is executed.  Without a GPU, ``--dry`` imports each problem at its own sizes, chooses
the plans of its regions, and writes the board; with ``--cubins`` it compiles them too.  ``--small``
makes the sizes small and compares with PyTorch in f64 at playback.  ``--model`` ranks the problems
by the time that the model says of their kernels over what the chip must do at the least
(``bench/kernelbench_modelled.py``), beside what was raced.  Else each problem is raced against
eager PyTorch and ``torch.compile``, all of them in eval mode with TF32 permitted, in CUDA graphs
over rotating inputs, after its result was compared with that of eager f32
(``bench/kernelbench_races.py``).

    python bench/kernelbench.py --kernelbench KernelBench --dry
    python bench/kernelbench.py --kernelbench KernelBench --model
    python bench/kernelbench.py --kernelbench KernelBench --seconds 600
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from polyc.bench import kernelbench_modelled, kernelbench_races, race
from polyc.bench.kernelbench_races import leaves
from polyc.importers.registry import library
from polyc.test.support import kernelbench as kb
from polyc.test.support.kernelbench import Outcome, Posed, Problem

RESULTS = Path("bench/results")

BOARD = RESULTS / "kernelbench.json"

MODELLED = RESULTS / "kernelbench-modelled.json"

# Without a GPU -------------------------------------------------------------------------------


def compiled(problem: Posed) -> Outcome:
    """A problem's outcome with its kernels compiled: what spills or fails is said."""
    import polyc

    found = kb.outcome(problem)
    if found.state == "missing":
        return found
    try:
        kernels = polyc.compile(kb.sized(problem), kb.ARCH).warm().resources
        spills = {name: info.spill_bytes for name, info in kernels.items() if info.spill_bytes}
        found.why = f"spills: {spills}" if spills else ""
    except Exception as error:
        found.why = f"{type(error).__name__}: {str(error)[:300]}"
    return found


def dry(args: argparse.Namespace, asked: Sequence[Problem]) -> int:
    """Write the board; prints what is in loops or missing."""
    make = compiled if args.cubins else kb.outcome
    found: dict[str, Outcome] = {}
    with ProcessPoolExecutor(args.workers) as pool:
        for problem, one in zip(asked, pool.map(make, asked, chunksize=4), strict=True):
            found[problem.name] = one
            if one.state in ("loops", "missing") or one.why:
                left = ", ".join(text for text in one.regions if " product" in text)
                print(f"{problem.name}: {one.state} {left} {one.why}", flush=True)
    board = kb.board(found)
    torch = library("torch", "torch")
    whole: dict[str, Any] = {
        "when": race.now(),
        "commit": race.commit(),
        "torch": torch.__version__,
    }
    output = args.output or BOARD
    if output != "-":
        Path(output).write_text(json.dumps(whole | board, indent=1) + "\n", "utf-8")
    for row in board["rows"]:
        print(row)
    return 0


def small_enough(torch: Any, problem: Posed) -> tuple[Any, list[Any]]:
    """A problem's model and inputs at the first of the small sizes at which PyTorch takes it."""
    for shrink in (kb.small, kb.fourth):
        torch.manual_seed(0)
        module = kb.module_of(problem, shrink)
        try:
            model = module.Model(*module.get_init_inputs()).eval()
            inputs = module.get_inputs()
            model(*inputs)
        except RuntimeError:  # Some sizes are made of others in ways that no rule knows.
            continue
        return model, inputs
    raise RuntimeError("PyTorch refuses it at small sizes")


def agreeing(problem: Problem) -> str:
    """How a problem of small sizes differs from PyTorch in f64 at playback; "" where it agrees.

    A result may be off by a ten thousandth of the largest number, or by twice what eager PyTorch in
    f32 is off: where a mean of normalized numbers is to be zero, all there is may be rounding.
    """
    import polyc

    torch = library("torch", "torch")
    try:
        with torch.no_grad():
            model, inputs = small_enough(torch, problem)
            eager = leaves(torch, model(*inputs))
            kept = kb.imported(model, inputs)
            program = polyc.compile(kept, device="cpu")
            found = leaves(torch, program(*kb.tensors_of(torch, inputs)))
            wide = [
                x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs
            ]
            wanted = leaves(torch, model.double()(*wide))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    for one, plain, right in zip(found, eager, wanted, strict=True):
        if tuple(one.shape) != tuple(right.shape) or one.dtype != plain.dtype:
            return f"has shape {tuple(one.shape)}, not {tuple(right.shape)}, of {one.dtype}"
        off, own = (float((x.double() - right).abs().max()) for x in (one, plain))
        largest = float(right.double().abs().max())
        if not off <= max(1e-4 * largest, 2 * own):
            return f"off by {off:.2e} of {largest:.2e}, and eager PyTorch by {own:.2e}"
    return ""


def compared(args: argparse.Namespace, asked: Sequence[Problem]) -> int:
    """Compare problems of small sizes at playback; returns how many differ."""
    with ProcessPoolExecutor(args.workers) as pool:
        found = list(pool.map(agreeing, asked))
    for problem, why in zip(asked, found, strict=True):
        if why:
            print(f"{problem.name}: {why}")
    print(f"{found.count('')} of {len(found)} agree with PyTorch at small sizes")
    return min(1, len(found) - found.count(""))


def ranked(args: argparse.Namespace, asked: Sequence[Problem]) -> int:
    """Write and print problems by their modelled time over their floor, the furthest first.

    Rows of problems that are not asked for stay as they are in the file.
    """
    with ProcessPoolExecutor(args.workers) as pool:
        rows = list(pool.map(kernelbench_modelled.row_of, asked))
    for row in rows:
        row["commit"] = race.commit()
    output = Path(args.output or MODELLED)
    if args.output != "-" and output.is_file():
        names = {row["case"] for row in rows}
        before = json.loads(output.read_text("utf-8"))["rows"]
        rows += [row for row in before if row["case"] not in names]
    kernelbench_modelled.joined(rows, kernelbench_modelled.raced(RESULTS))
    rows.sort(key=lambda row: -row.get("over_floor", float("inf")))
    for row in rows:
        print(kernelbench_modelled.line(row))
    calibrated = list(kernelbench_modelled.calibration(rows))
    print("\n".join(calibrated))
    if args.output != "-":
        whole = {"when": race.now(), "calibration": calibrated, "rows": rows}
        output.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    return 1 if any("why" in row for row in rows) else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernelbench", type=Path, required=True, help="a checkout")
    parser.add_argument("--levels", type=int, nargs="+", default=list(kb.LEVELS))
    parser.add_argument("--only", help="a regular expression of names, as level1/23_")
    parser.add_argument("--part", default="1/1", help="i/n: each n-th problem, from the i-th on")
    parser.add_argument(
        "--workers", type=int, default=max(2, (os.cpu_count() or 2) - 4), help="processes"
    )
    parser.add_argument("--dry", action="store_true", help="states of regions; needs no GPU")
    parser.add_argument("--cubins", action="store_true", help="with --dry: compile the kernels")
    parser.add_argument("--model", action="store_true", help="by the model of time; needs no GPU")
    parser.add_argument("--small", action="store_true", help="small sizes at playback")
    parser.add_argument("--output", help="of --dry or --model; - for none")
    kernelbench_races.add_arguments(parser)
    parser.set_defaults(out="kernelbench-race.json")
    args = parser.parse_args(argv)
    asked = kb.problems(args.kernelbench, args.levels)
    if args.only:
        asked = [one for one in asked if re.search(args.only, one.name)]
    if not asked:
        print(f"{args.kernelbench} has no problems of KernelBench that are asked for")
        return 2
    for chosen, run in ((args.dry, dry), (args.model, ranked), (args.small, compared)):
        if chosen:
            return run(args, race.part_of(asked, args.part))
    random.Random(args.seed).shuffle(asked)
    return kernelbench_races.in_turn(args, race.part_of(asked, args.part))


if __name__ == "__main__":
    sys.exit(main())
