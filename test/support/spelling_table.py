"""Spellings of attention by name: each differs from the plain one at a choice or two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from xdsl.dialects.builtin import bf16, f16, f32

from polyc.test.support.attention_spellings import LEAST, Spelling
from polyc.test.support.sketch import Size

PLAIN = Spelling()

SCALES = ("divided", "query", "rounded query", "divided query", "key", "both", "none", "tensor")
MORE_SCALES = ("divided tensor", "head", "query tensor")
SHAPES: Sequence[Sequence[Size]] = (
    ("M", "N"),
    (1, "N"),
    ("N",),
    ("M", 1),
    ("H", "M", "N"),
    ("H", 1, "N"),
    (1, "M", "N"),
    ("H", "M", 1),
    ("H", 1, 1),
    (1,),
)
BATCHED: Sequence[Sequence[Size]] = (
    ("B", 1, 1, "N"),
    ("B", 1, "M", "N"),
    (1, 1, "M", "N"),
    ("B", "H", "M", "N"),
    (1, "H", "M", "N"),
    ("H", 1, 1),
)
HIDDEN = {"-inf": -math.inf, "-1e9": -1e9, "-1e4": -1e4, "least": LEAST}
MASKS = ("where", "where not", "compared", "built", "chosen")
POWERS = ("plain", "base 2", "pow", "guarded", "least", "exponent", "apart", "softmax")
DIVISIONS = ("output", "output by f16", "times", "output times", "rounded weights")
SPLIT = ("rows", "packed", "stacked")
"""Layouts whose queries and keys are as many."""

LAYOUTS = ("turned", "turned values", "batch", "inside", *SPLIT, "shared", "one", "grouped")
HEADS = (
    *((n, n) for n in (8, 16, 40, 72, 80, 96, 128, 248, 256)),
    *((120, 64), (64, 128), (192, 128), (64, 256)),
)
FACTORS = ("bias", "rope", "rms", "l2")
AFTER = ("mul", "mul f32", "key", "head", "row", "number", "dropout", "where")


def _spellings() -> Iterator[tuple[str, Spelling]]:
    def named(of: Spelling, what: str, values: Sequence[str]) -> Iterator[tuple[str, Spelling]]:
        for value in values:
            changed: dict[str, Any] = {what: value}
            yield f"{what}: {value}", replace(of, **changed)

    soft, masked = replace(PLAIN, powers="softmax"), replace(PLAIN, mask="where")
    yield "plain", PLAIN
    yield "softmax", soft
    yield from named(PLAIN, "scale", (*SCALES, *MORE_SCALES))
    for name, one in named(soft, "scale", (*SCALES, *MORE_SCALES)):
        yield f"{name}, softmax", one
    for kind in ("where", "add"):
        for shape in SHAPES:
            yield f"{kind} {_text(shape)}", replace(PLAIN, mask=kind, shape=shape)
        for shape in BATCHED:
            one = replace(PLAIN, mask=kind, shape=shape, layout="batch")
            yield f"{kind} {_text(shape)} of batches", one
    yield "add f16", replace(PLAIN, mask="add", kind=f16)
    for mask in MASKS:
        for name, number in HIDDEN.items():
            if mask != "built" or number != -math.inf:
                one = replace(PLAIN, mask=mask, hidden=number)
                yield f"{mask} hides by {name}", one
                yield f"{mask} hides by {name}, then scaled", replace(one, late=False)
    yield "add, then scaled", replace(PLAIN, mask="add", late=False)
    yield "ALiBi", replace(PLAIN, alibi=True)
    yield "ALiBi, where", replace(masked, alibi=True)
    yield "soft cap", replace(PLAIN, cap=50.0)
    yield "soft cap, where", replace(masked, cap=50.0)
    yield from named(PLAIN, "powers", (*POWERS, "log_softmax"))
    for name, one in named(masked, "powers", POWERS):
        yield f"{name}, where", one
        if one.powers != "softmax":
            yield f"{name}, output divided", replace(one, mask="", division="output")
    for name, one in (*named(PLAIN, "division", DIVISIONS), ("division: weights", PLAIN)):
        yield f"{name}, where", replace(one, mask="where")
        yield f"{name}, rounded sums", replace(one, sums="rounded")
        yield f"{name}, log-sum-exp", replace(one, beside="lse")
    yield "rounded scores", replace(PLAIN, scores=f16)
    yield "rounded scores, softmax", replace(soft, scores=f16)
    yield "bf16", replace(PLAIN, element=bf16)
    yield "bf16, softmax, where", replace(soft, element=bf16, mask="where")
    yield "f16, weights in bf16", replace(PLAIN, weights=bf16)
    yield "f16, weights in f32", replace(PLAIN, weights=f32)
    for name, one in named(PLAIN, "layout", LAYOUTS):
        yield name, one
        shape = ("T", "T") if one.layout in SPLIT else ("M", "N")
        yield f"{name}, softmax, where", replace(one, powers="softmax", mask="where", shape=shape)
        yield f"{name}, log-sum-exp", replace(one, beside="lse")
    for width in HEADS:
        yield f"heads of {width[0]} and {width[1]}", replace(PLAIN, width=width)
    yield from named(PLAIN, "factor", (*FACTORS, "projected"))
    for name, one in named(PLAIN, "factor", [f"projected {factor}" for factor in FACTORS]):
        yield name, one
        yield f"{name}, scaled query", replace(one, scale="query")
    for name, one in named(PLAIN, "after", AFTER):
        yield name, one
        yield f"{name}, softmax", replace(one, powers="softmax")
        yield f"{name}, where", replace(one, mask="where")
    yield from named(PLAIN, "after", ("gate", "bias", "residual"))
    yield from named(PLAIN, "beside", ("weights", "both"))


def _text(shape: Sequence[Size]) -> str:
    return f"[{', '.join(map(str, shape))}]"


SPELLINGS: Mapping[str, Spelling] = MappingProxyType(dict(_spellings()))
"""Spellings by name."""
