"""Mutated texts of every layer: each is refused with a diagnostic or compiles, never more.

A mutation deletes, repeats, swaps or replaces tokens, cuts the text off, or writes an
unreasonable number.  Texts are the examples and random programs, before and after every pass.

    python test/fuzz/text.py --runs 100000 --seed 0
"""

from __future__ import annotations

import random
import re
import resource
import sys
import time
import traceback
from collections import Counter
from functools import cache
from pathlib import Path

from xdsl.utils.exceptions import DiagnosticException, ParseError, VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.pipeline import ORDER
from polyc.rewriting.driver import verify
from polyc.test.fuzz.random_programs import drawn
from polyc.test.fuzz.search import parser, search
from polyc.test.support.model_programs import FOLDER as MODELS
from polyc.test.support.plans import step
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
ODD = (
    *("0", "-1", "99999999999999999999", "1.0e400", "nan", "f16", "i1", "index", "%x", "@y", '"'),
    *("[", "}", "floordiv", "mod", "()", "loc", "#gpu", "!gpu", "affine_map<", "dense<"),
)
NUMBERS = (0, 1, 2, 3, 7, 16, 63, 255, 1024, 2**31, 2**63, 2**70)
REFUSALS = (PolycError, ParseError, VerifyException, DiagnosticException)
SECONDS = 5.0
"""More than this of the processor's time for a text of a page is a fault."""
BYTES = 4 << 30
"""So is more memory: what asks for it gets a MemoryError."""


class Passes:
    """A graph's text, and what the passes make of it, one by one when it is asked for.

    Of the kernels of a plan there is one of each kind, so that a mutation meets each as often.
    """

    def __init__(self, text: str, arch: str) -> None:
        self._module = parse_text(make_context(), text, "x")
        self._texts = [module_text(self._module)]
        self._arch = arch
        self._refused = False

    def after(self, number: int) -> str:
        """The text after so many passes, or after the last one that does not refuse it."""
        while len(self._texts) <= number and not self._refused:
            try:
                step(self._module, ORDER[len(self._texts) - 1], self._arch)
                self._texts.append(module_text(self._module))
            except PolycError:
                self._refused = True
        return self._texts[min(number, len(self._texts) - 1)]


passes = cache(Passes)


@cache
def graphs() -> tuple[str, ...]:
    """The examples that are graphs, and random programs, which have what no example has.

    Not the blocks of models: one takes most of ``SECONDS`` as it is.
    """
    found = [path.read_text() for path in sorted((ROOT / "examples").glob("*.mlir"))]
    return (*found, *(str(drawn(random.Random(f"text {number}")).module) for number in range(12)))


@cache
def written() -> tuple[str, ...]:
    """The examples of all layers as they are, but for the blocks of models."""
    paths = sorted((ROOT / "examples").rglob("*.mlir"))
    return tuple(path.read_text() for path in paths if path.parent != MODELS)


def drawn_text(dice: random.Random) -> str:
    """What is mutated: an example, or a graph after some passes."""
    if dice.random() < 0.1:
        return dice.choice(written())
    text, arch = dice.choice(graphs()), dice.choice(("sm_80", "sm_90a"))
    return passes(text, arch).after(dice.randrange(len(ORDER) + 1))


def mutated(dice: random.Random) -> str:
    tokens = TOKEN.findall(drawn_text(dice))
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        at, kind = dice.randrange(len(tokens)), dice.randrange(7)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[at])
        elif kind == 2:
            tokens[at] = dice.choice(tokens)
        elif kind == 3:
            tokens = tokens[: at + 1]
        elif kind == 4:
            tokens[at] = dice.choice(ODD)
        elif kind == 5:
            other = dice.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            numbers = [i for i, token in enumerate(tokens) if token.isdigit()]
            if numbers:
                tokens[dice.choice(numbers)] = str(dice.choice(NUMBERS))
        if not tokens:
            break
    return "".join(tokens)


def failure(text: str, arch: str) -> str | None:
    """A fault of polyc on this text, or None."""
    start = time.process_time()
    try:
        ctx = make_context()
        module = parse_text(ctx, text, "fuzz.mlir")
        verify(module)
        Compilation(ctx, module, arch).run()
    except REFUSALS as error:
        if not str(error).strip():
            return "refused without a word"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        places = ", ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames)
        return f"{type(error).__name__} at {places}: {str(error).splitlines()[:1]}"
    spent = time.process_time() - start
    return f"took {spent:.1f} s" if spent > SECONDS else None


def attempt(number: int, seed: int) -> tuple[str | None, Counter[str]]:
    """The text of a number, for the architecture that the number draws."""
    dice = random.Random(f"{seed} {number}")
    text, arch = mutated(dice), dice.choice(("sm_80", "sm_90a"))
    why = failure(text, arch)
    return None if why is None else f"{arch}: {why}", Counter()


def limit_memory() -> None:
    """What asks for more gets a MemoryError, which is a fault."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def main() -> int:
    args = parser(__doc__ or "", 100_000).parse_args()
    return search("text", attempt, args, every=500, prepare=limit_memory)


if __name__ == "__main__":
    sys.exit(main())
