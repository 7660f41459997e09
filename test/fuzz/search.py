"""A search through numbered inputs for one that fails, on several processes.

An input is known by its number and a seed alone, so that a find is made again by
``--first NUMBER --runs 1``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from functools import partial
from io import StringIO

Try = Callable[[int, int], "tuple[str | None, Counter[str]]"]
"""Number and seed to what is wrong with that input, and what else is counted of it."""

CHUNK = 25
"""Inputs that a process takes at a time."""


def parser(description: str, runs: int) -> argparse.ArgumentParser:
    """The options that every search has."""
    made = argparse.ArgumentParser(description=description.partition("\n")[0])
    made.add_argument("--runs", type=int, default=runs, help="how many inputs")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--first", type=int, default=0, help="the number of the first input")
    made.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return made


def search(
    noun: str,
    attempt: Try,
    args: argparse.Namespace,
    every: int,
    prepare: Callable[[], None] = lambda: None,
) -> int:
    """Try all inputs of ``args``; say each fault, and how far it is after ``every`` inputs.

    ``prepare`` is run first in every process.  The exit status: 1 where anything failed.
    """
    start, failed, counted = time.monotonic(), 0, Counter[str]()
    for done, (number, why, also) in enumerate(_outcomes(attempt, args, prepare), 1):
        counted += also
        if why is not None:
            failed += 1
            print(f"{noun} {number} of seed {args.seed}: {why}", flush=True)
        if done % every == 0 or done == args.runs:
            more = "".join(f", {count} {what}" for what, count in sorted(counted.items()))
            spent = time.monotonic() - start
            print(f"{done} {noun}s{more}, {failed} faults, {spent:.0f} s", flush=True)
    return 1 if failed else 0


def _outcomes(
    attempt: Try, args: argparse.Namespace, prepare: Callable[[], None]
) -> Iterator[tuple[int, str | None, Counter[str]]]:
    numbers = range(args.first, args.first + args.runs)
    one = partial(_one, attempt, args.seed)
    if args.jobs == 1:
        prepare()
        yield from map(one, numbers)
        return
    with ProcessPoolExecutor(args.jobs, initializer=prepare) as pool:
        yield from pool.map(one, numbers, chunksize=CHUNK)


def _one(attempt: Try, seed: int, number: int) -> tuple[int, str | None, Counter[str]]:
    # What passes remark on inputs that nobody wrote is of no interest.
    with redirect_stderr(StringIO()):
        return (number, *attempt(number, seed))
