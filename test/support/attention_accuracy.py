"""How far attention is from what it means, beside an evaluation in the same narrow type.

The yardstick is what a library without a fused kernel computes: scores and their softmax in f32,
the weights rounded to the operands' type, products with V summed in f32, the result rounded.  A
kernel may be off by twice as much (``Wanted``).  Both are compared with f64, which is computed here
from the definition, by nothing of the compiler's.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import AttentionOp
from polyc.playback.functions import dtype_of, round_to, widen
from polyc.runtime.program import Program
from polyc.test.support.pairwise import covering
from polyc.test.support.sketch import Sketch
from polyc.tools.load import load
from polyc.tools.printing import module_text

Array = NDArray[Any]

HEADS = (
    *((n, n) for n in (8, 16, 40, 64, 72, 80, 96, 128, 160, 192, 256)),
    *((192, 128), (64, 256), (40, 72), (128, 16)),
)
"""Features of Q and K, and of V."""
MASKS = ("none", "causal", "window", "alibi", "boolean", "additive")
RATIOS = {1: 3, 4: 2, 8: 1}
"""Heads of queries for one of keys, and how many of these."""
ELEMENTS = {"f16": f16, "bf16": bf16}
LENGTHS = (1, 3, 97, 239, 799, 1023, 1025)
WINDOW = (150, 30)

MORE = 2.0
"""How far a kernel may be off, in parts of what the evaluation is."""


@dataclass(frozen=True)
class Case:
    """An attention, and how many queries and keys it has."""

    heads: tuple[int, int]
    mask: str
    ratio: int
    element: str
    queries: int
    keys: int
    window: tuple[int, int] = WINDOW

    def __str__(self) -> str:
        depth, width = self.heads
        said = f"{depth}" if depth == width else f"{depth} and {width}"
        return f"{said} {self.mask} {self.ratio} {self.element} {self.queries}x{self.keys}"

    @property
    def sizes(self) -> dict[str, int]:
        return {"H": RATIOS[self.ratio], "M": self.queries, "N": self.keys}

    @property
    def text(self) -> str:
        """The program, which is the same for all lengths."""
        return _text(self.heads, self.mask, self.ratio, self.element, self.window)

    def inputs(self) -> list[Array]:
        """Random inputs, in the order of the program's."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        keys, (depth, width) = RATIOS[self.ratio], self.heads
        heads, m, n = keys * self.ratio, self.queries, self.keys
        shapes = [(heads, m, depth), (keys, n, depth), (keys, n, width)]
        kind = ELEMENTS[self.element]
        made: list[Array] = [round_to(_normal(rng, shape), kind) for shape in shapes]
        match self.mask:
            case "alibi":
                slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
                there: list[Array] = [slopes[:, None, None], np.arange(m)[:, None], np.arange(n)]
                made += [x.astype(np.float32) for x in there]
            case "boolean":
                allowed = rng.random((m, n)) < 0.8
                allowed[m // 2] = False  # a query that sees nothing
                made.append(allowed)
            case "additive":
                bias = _normal(rng, (heads, m, n))
                made.append(np.where(rng.random(bias.shape) < 0.25, np.float32(-np.inf), bias))
            case _:
                pass
        return made


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


@cache
def _text(
    heads: tuple[int, int], mask: str, ratio: int, element: str, window: tuple[int, int]
) -> str:
    s, (depth, width) = Sketch("attention", ELEMENTS[element]), heads
    keys, queries = Dim.sym("H"), Dim.sym("H") * ratio
    q = s.input("q", queries, "M", depth)
    k, v = s.input("k", keys, "N", depth), s.input("v", keys, "N", width)
    masks: list[SSAValue] = []
    match mask:
        case "alibi":
            slopes = s.input("slopes", queries, 1, 1, element=f32)
            here, there = s.input("rows", "M", 1, element=f32), s.input("columns", "N", element=f32)
            apart = s.fn("abs", s.fn("sub", here, there))
            masks.append(s.fn("neg", s.fn("mul", slopes, apart)))
        case "boolean":
            masks.append(s.input("mask", "M", "N", element=i1))
        case "additive":
            masks.append(s.input("mask", queries, "M", "N", element=f32))
        case _:
            pass
    near = window if mask == "window" else None
    return module_text(
        s.done(y=s.add(AttentionOp(q, k, v, masks, causal=mask == "causal", window=near)))
    )


def cases(
    seed: int, lengths: Sequence[int] = LENGTHS, window: tuple[int, int] = WINDOW
) -> list[Case]:
    """Cases in which every two choices meet: heads, mask, ratio, type, queries and keys.

    Programs are as few as heads and masks allow, each with a few lengths.
    """
    programs = covering(list(product(HEADS, MASKS, RATIOS, ELEMENTS)), seed)
    rows = [(*program, m, n) for program in programs for m, n in product(lengths, lengths)]
    return [Case(*row, window) for row in covering(rows, seed)]


def chosen_of(case: Case) -> tuple[object, ...]:
    """What a case has of each choice."""
    return astuple(case)[:-1]


def warm(text: str, arch: str) -> None:
    """Compile a program, so that its code is found in the cache."""
    with suppress(PolycError):
        load(text, arch)


def programs_of(found: Iterable[Case]) -> list[str]:
    """The texts of cases, each once."""
    return list(dict.fromkeys(case.text for case in found))


# What is right -------------------------------------------------------------------------


def _weights(case: Case, inputs: Sequence[Array], kind: Any) -> tuple[Array, Array]:
    """The softmax over the allowed keys, and V of each head of queries, in ``kind``."""
    q, k, v = (widen(x).astype(kind) for x in inputs[:3])
    k, v = (np.repeat(x, case.ratio, 0) for x in (k, v))
    scores = q @ k.swapaxes(1, 2) * kind(1 / np.sqrt(case.heads[0]))
    before = np.arange(case.queries)[:, None] - np.arange(case.keys)
    match case.mask:
        case "causal":
            scores = np.where(before >= 0, scores, -np.inf)
        case "window":
            left, right = case.window
            scores = np.where((before <= left) & (before >= -right), scores, -np.inf)
        case "alibi":
            slopes, rows, columns = (x.astype(kind) for x in inputs[3:])
            scores = scores - slopes * np.abs(rows - columns)
        case "boolean":
            scores = np.where(inputs[3], scores, -np.inf)
        case "additive":
            scores = scores + inputs[3].astype(kind)
        case _:
            pass
    largest = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isfinite(largest), largest, 0)).astype(kind)
    total: Array = powers.sum(-1, keepdims=True)
    weights: Array = powers / np.where(total == 0, kind(1), total)
    return weights, v


def exact(case: Case, inputs: Sequence[Array]) -> Array:
    """Attention by its definition, in f64."""
    weights, v = _weights(case, inputs, np.float64)
    return weights @ v


def evaluated(case: Case, inputs: Sequence[Array]) -> Array:
    """The yardstick: f32 with weights and results rounded to the operands' type."""
    kind = ELEMENTS[case.element]
    weights, v = _weights(case, inputs, np.float32)
    return round_to(widen(round_to(weights, kind)) @ v, kind)


@dataclass(frozen=True)
class Wanted:
    """What a case means, and how far from it an output may be: at most, and by the mean square."""

    case: Case
    right: Array
    most: float
    mean_square: float

    @classmethod
    def of(cls, case: Case, inputs: Sequence[Array]) -> Wanted:
        right = exact(case, inputs)
        theirs = zip(_errors(evaluated(case, inputs), right), _rounding(case, right), strict=True)
        return cls(case, right, *(MORE * max(both) for both in theirs))

    def check(self, found: Array, what: str = "") -> None:
        """An output of the case is as near as it may be, and has its type."""
        assert found.dtype == dtype_of(ELEMENTS[self.case.element])
        assert np.isfinite(widen(found)).all(), f"{self.case} {what}: not finite"
        most, mean_square = _errors(found, self.right)
        said = f"{self.case} {what}: off by {most:.3g} of {self.most:.3g}, by the mean square"
        said += f" {mean_square:.3g} of {self.mean_square:.3g}"
        assert most <= self.most and mean_square <= self.mean_square, said


def _errors(found: Array, right: Array) -> tuple[float, float]:
    """The largest error of an output, and the root of the mean of their squares."""
    off = np.abs(widen(found).astype(np.float64) - right)
    return float(off.max()), float(np.sqrt(np.mean(off**2)))


def _rounding(case: Case, right: Array) -> tuple[float, float]:
    """The same of rounding an output of such numbers, where it is not lucky, as few numbers are."""
    bits, low = {"f16": (10, -24), "bf16": (7, -133)}[case.element]
    ulp = 2.0 ** np.maximum(np.frexp(np.abs(right))[1] - 1 - bits, low)
    return float(ulp.max()) / 2, float(np.sqrt(np.mean(ulp**2) / 12))


def run(program: Program, case: Case, inputs: Sequence[Array]) -> Mapping[str, Array]:
    """What each variant that takes the sizes makes, the one that runs by itself first."""
    made: dict[str, Array] = {}
    for variant in (None, *program.variants):
        try:
            (found,) = program.run(list(inputs), case.sizes, variant=variant)
        except PolycError as error:
            if variant is None or error.kind != "NoVariant":
                raise
            continue
        made[variant or "chosen"] = np.asarray(found)
    return made
