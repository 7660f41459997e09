"""Race random transposes and permutes beside PyTorch and a copy.

    python bench/any_permutes.py [--count 60] [--seed 1] [--part 1/2] [--seconds 100] [--out FILE]
    python bench/any_permutes.py --problems 4096x4095:1,0:f16
    python bench/any_permutes.py --dry       # plans and modelled times beside a copy's, no GPU

Tensors have two to six axes, of odd sizes too, 64 to 256 MB, in f16, bf16, f32 or ui8; axes take
any order but their own.  ``random_problems.py`` says what takes turns.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from math import exp, log
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from polyc.bench.random_problems import TYPES, Race, bytes_of, some_shape
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

BYTES = 1 << 26, 1 << 28
"""Of a tensor."""

KINDS = ("f16", "f16", "bf16", "f32", "ui8")


class Problem(NamedTuple):
    """The order that the axes of a tensor take."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    kind: str

    @property
    def said(self) -> str:
        """As ``--problems`` takes it."""
        shape, order = "x".join(map(str, self.shape)), ",".join(map(str, self.order))
        return f"{shape}:{order}:{self.kind}"


def problems(seed: int, count: int) -> list[Problem]:
    """Random problems."""
    draw = random.Random(seed)
    found: list[Problem] = []
    while len(found) < count:
        kind, rank = draw.choice(KINDS), draw.choice((2, 2, 3, 3, 4, 4, 5, 6))
        elements = exp(draw.uniform(*map(log, BYTES))) / bytes_of((), kind)
        shape, order = some_shape(draw, rank, elements), list(range(rank))
        draw.shuffle(order)
        whole = bytes_of(shape, kind)
        if order != sorted(order) and BYTES[0] / 2 <= whole <= 2 * BYTES[1]:
            found.append(Problem(tuple(shape), tuple(order), kind))
    return found


def text_of(problem: Problem) -> str:
    """The graph of a problem."""
    shape, order, kind = problem
    x, y = (
        f"!frontend.tensor<[{', '.join(map(str, sizes))}], {kind}>"
        for sizes in (shape, [shape[axis] for axis in order])
    )
    return (
        f"frontend.graph @problem(%x: {x}) -> (Y: {y}) {{\n"
        f"  %y = frontend.permute %x perm [{', '.join(map(str, order))}] : {x} -> {y}\n"
        f"  frontend.output %y : {y}\n}}\n"
    )


class Permutes(Race[Problem]):
    """The races of this file."""

    script = "bench/any_permutes.py"

    def parse(self, text: str) -> Problem:
        shape, order, kind = text.split(":")
        found = Problem(tuple(map(int, shape.split("x"))), tuple(map(int, order.split(","))), kind)
        if kind not in KINDS or sorted(found.order) != list(range(len(found.shape))):
            raise ValueError(f"{text} is no order of as many axes, of {', '.join(KINDS)}")
        return found

    def drawn(self, seed: int, count: int) -> list[Problem]:
        return problems(seed, count)

    def module(self, problem: Problem) -> ModuleOp:
        return parse_text(make_context(), text_of(problem), "any_permutes.mlir")

    def moved(self, problem: Problem, results: Sequence[tuple[Sequence[int], str]]) -> int:
        return 2 * bytes_of(problem.shape, problem.kind)

    def inputs(self, torch: Any, problem: Problem) -> list[Any]:
        dtype = getattr(torch, TYPES[problem.kind][0])
        if problem.kind == "ui8":
            return [torch.randint(0, 256, problem.shape, device="cuda", dtype=dtype)]
        return [torch.randn(problem.shape, device="cuda", dtype=dtype)]

    def peer(self, torch: Any, problem: Problem, given: Sequence[Any]) -> Any:
        return given[0].permute(problem.order).contiguous()

    def off_by(
        self, torch: Any, problem: Problem, given: Sequence[Any], found: Sequence[Any]
    ) -> float:
        return 2.0 * (found[0] != self.peer(torch, problem, given)).sum().item()


if __name__ == "__main__":
    sys.exit(Permutes().main(__doc__ or ""))
