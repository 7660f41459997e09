"""The CUDA C of the examples and of random programs, a digest each.

A change that should leave every kernel as it is, is held so: the digests before it and after it
are compared, line by line.

    python test/fuzz/digests.py --runs 500 --seed 1 > before.txt
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from functools import partial
from hashlib import sha256
from io import StringIO

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.test.fuzz.random_models import drawn
from polyc.test.fuzz.search import parser
from polyc.test.support.model_programs import FOLDER as MODELS
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context


def digest(job: Compilation) -> str:
    """Of a program's CUDA C, or of the sentence that refuses it."""
    with redirect_stderr(StringIO()):
        try:
            found = job.run().cuda()
        except PolycError as error:
            found = f"{error.kind}: {error.message}"
    return sha256(found.encode()).hexdigest()[:16]


def of_examples() -> Iterator[str]:
    """A line for each example and architecture."""
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.suffix not in (".mlir", ".py"):
            continue
        if path.parent == MODELS:
            continue  # They take half a minute an architecture, and random models follow.
        for arch in ARCHS:
            try:
                job = Compilation.of_file(path, arch)
            except (PolycError, SystemExit) as error:
                yield f"{path.relative_to(ROOT)} {arch} not compiled: {type(error).__name__}"
                continue
            yield f"{path.relative_to(ROOT)} {arch} {digest(job)}"


def of_random(number: int, seed: int) -> str:
    """A line for a random model; its number chooses the architecture."""
    text = str(drawn(random.Random(f"{seed} {number}")).module)
    arch = tuple(ARCHS)[number % 2]
    module = parse_text(make_context(), text, "fuzz.mlir")
    return f"model {seed} {number} {arch} {digest(Compilation(make_context(), module, arch))}"


def main() -> int:
    args = parser(__doc__ or "", 500).parse_args()
    for line in of_examples():
        print(line, flush=True)
    numbers = range(args.first, args.first + args.runs)
    with ProcessPoolExecutor(args.jobs) as pool:
        for line in pool.map(partial(of_random, seed=args.seed), numbers, chunksize=5):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
