"""Time the pieces and blocks of models beside PyTorch, eager and compiled, in one process.

``bench/graphs.py`` says how it is timed.  The programs are those of
``test/support/model_programs.py`` at a model's sizes.

    python bench/models.py [--models decoder vit] [--dtype f16] [--tokens 1 4096] [--mode default]

A program is compiled once, and serves each of ``--tokens``, which only those with tokens take.

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import bf16, f16

from polyc.bench import graphs, race
from polyc.test.support.model_programs import MODELS


def asked(sizes: Mapping[str, int], tokens: Sequence[int] | None) -> list[dict[str, int]]:
    """A model's own sizes, with each of ``tokens`` where it has any."""
    if not tokens or "T" not in sizes:
        return [dict(sizes)]
    return [{**sizes, "T": count} for count in tokens]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time blocks of models beside PyTorch.")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--dtype", choices=["f16", "bf16"], default="f16")
    parser.add_argument("--tokens", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--mode", default="max-autotune-no-cudagraphs", help="of torch.compile")
    parser.add_argument("--arch", default=graphs.ARCH, help="whose kernels run")
    parser.add_argument("--eager-only", action="store_true", help="leave torch.compile out")
    parser.add_argument("--budget", type=float, help="begin no more programs after so many seconds")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results")
    options = parser.parse_args(argv)
    torch = race.load_torch("bench/models.py")
    kind = {"f16": f16, "bf16": bf16}[options.dtype]
    mode = None if options.eager_only else options.mode
    begun = time.perf_counter()
    rows: list[dict[str, Any]] = []
    wrong = Counter[str]()
    for name in options.models:
        if options.budget and time.perf_counter() - begun > options.budget:
            print(f"{name}: left out, the time is over")
            continue
        try:
            module = MODELS[name].module(kind, large=True)
            loaded = graphs.compiled(module, options.arch)
            for sizes in asked(MODELS[name].large_sizes, options.tokens):
                title = f"{name} {sizes['T']}" if options.tokens and "T" in sizes else name
                if options.budget and time.perf_counter() - begun > options.budget:
                    print(f"{title}: left out, the time is over")
                    break
                with torch.no_grad():
                    made = graphs.raced(
                        torch, title, module, sizes, options.rounds, mode, loaded=loaded
                    )
                rows += made
                wrong[name] += any((row["error_of_tolerance"] or 0) > 1 for row in made)
        except Exception as error:
            wrong[name] += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        torch.cuda.empty_cache()
    report = {
        **race.surroundings(torch, options.rounds, options.commit),
        "arch": options.arch,
        "rows": rows,
    }
    name = "models" if options.arch == graphs.ARCH else f"models-of-{options.arch}"
    print(race.write_report(f"{name}-{options.dtype}", report, options.out))
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
