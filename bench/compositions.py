"""Time random compositions of pieces of models beside PyTorch, and beside the model of time.

``bench/graphs.py`` says how it is timed.  The compositions are those of ``test/fuzz/cliffs.py``, by
their numbers: what nobody chose.

    python bench/compositions.py [--seed 0] [--first 0] [--runs 30] [--compile] [--jobs 8]

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from statistics import geometric_mean
from typing import Any

from polyc.bench import graphs, race
from polyc.dialects.common.diagnostic import PolycError
from polyc.test.fuzz.cliffs import planned
from polyc.test.fuzz.compositions import SIZES, Composition, composed
from polyc.tools.load import load
from polyc.tools.printing import module_text


def numbered(seed: int, number: int) -> Composition:
    """The composition of a number, as the search has it."""
    return composed(random.Random(f"{seed} {number}"))


def warm(seed: int, number: int) -> None:
    """Compile a composition, so that its code is found in the cache."""
    with suppress(PolycError):
        load(module_text(numbered(seed, number).whole()), graphs.ARCH)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time compositions beside PyTorch and the model.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="race torch.compile's default too")
    parser.add_argument("--jobs", type=int, default=8, help="processes that compile beforehand")
    parser.add_argument("--budget", type=float, help="begin no more programs after so many seconds")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results")
    options = parser.parse_args(argv)
    torch = race.load_torch("bench/compositions.py")
    numbers = range(options.first, options.first + options.runs)
    begun = time.perf_counter()
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        list(pool.map(warm, [options.seed] * len(numbers), numbers))
    print(f"compiled in {time.perf_counter() - begun:.1f} s", flush=True)
    rows: list[dict[str, Any]] = []
    wrong = 0
    for number in numbers:
        if options.budget and time.perf_counter() - begun > options.budget:
            print(f"{number}: left out, the time is over")
            continue
        made = numbered(options.seed, number)
        module, title = made.whole(), f"{options.seed} {number}: {made.title}"
        mode = "default" if options.compile else None
        try:
            times = planned(module_text(module)).times
            with torch.no_grad():
                raced = graphs.raced(torch, title, module, SIZES, options.rounds, mode)
        except Exception as error:
            wrong += 1
            print(f"{title}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        ours = raced[0]
        ours["modelled_us"] = [[t.kernel, t.variant, round(t.seconds * 1e6, 2)] for t in times]
        ours["of_model"] = round(ours["milliseconds"] * 1e-3 / sum(t.seconds for t in times), 3)
        print(f"  {ours['of_model']} of the model: {ours['modelled_us']}\n  {ours['kernels_us']}")
        wrong += any((row["error_of_tolerance"] or 0) > 1 for row in raced)
        rows += raced
        torch.cuda.empty_cache()
    ours = [row for row in rows if row["contestant"] == "polyc"]
    if ours:
        near = sum(0.8 <= row["of_model"] <= 1.25 for row in ours)
        mean = geometric_mean(row["ratio"] for row in ours)
        print(f"{mean:.3f} of PyTorch; {near} of {len(ours)} within 1.25 of the model")
    report = {**race.surroundings(torch, options.rounds, options.commit), "rows": rows}
    print(race.write_report("compositions-f16", report, options.out))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
