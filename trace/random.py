"""Random numbers over traced graphs: ``polyc.random.uniform``, ``polyc.dropout``, … (S12.6).

A number comes of a seed and the place of its element, and of nothing else: a program that is called
twice with one seed gives the same numbers.  docs/semantics.md says which.  ``seed`` and ``offset``
are whole numbers, or values of an integer type and rank 0, such as an input that every call has
another number for.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.elements import COUNTER, bounds, ui32
from polyc.dialects.frontend import tensor
from polyc.dialects.frontend.random import chance_fault
from polyc.trace.annotations import element_name
from polyc.trace.builder import Builder
from polyc.trace.elements import ELEMENTS
from polyc.trace.sizes import SizeLike, dim_of
from polyc.trace.source import public, refuse
from polyc.trace.values import Value, current, value_of

Shape = Sequence[SizeLike | str]


def _counter(builder: Builder, what: str, given: object) -> SSAValue:
    """A seed or an offset; a number is as 64 bits have it, one below 0 too."""
    if isinstance(given, Value):
        return value_of(given).ssa
    try:
        number = operator.index(cast("Any", given))
    except TypeError:
        refuse("BadArgument", f"a {what} is a whole number or a value of rank 0, not {given!r}")
    least, most = -(2**63), bounds(COUNTER)[1]
    if not least <= number <= most:
        refuse("BadArgument", f"a {what} is from {least} to {most}, not {number}")
    return builder.constant(number % (most + 1), COUNTER)


def _random(
    fn: str,
    shape: Shape,
    element: Attribute,
    seed: Value | int,
    offset: Value | int,
    p: float | None = None,
) -> Value:
    builder = current()
    kind = tensor([dim_of(size) for size in shape], element)
    counters = (_counter(builder, "seed", seed), _counter(builder, "offset", offset))
    return Value(builder, builder.add(frontend.RandomOp(fn, *counters, kind, p)))


def _chance(what: str, p: object) -> float:
    if not isinstance(p, int | float):
        refuse("BadArgument", f"the p of {what} is a number, not {p!r}")
    if (fault := chance_fault(what, float(p))) is not None:
        refuse("BadArgument", fault)
    return float(p)


@public
def bits(shape: Shape, *, seed: Value | int, offset: Value | int = 0) -> Value:
    """Words of 32 random bits, of ``ui32``."""
    return _random("bits", shape, ui32, seed, offset)


@public
def uniform(
    shape: Shape, dtype: object = "f32", *, seed: Value | int, offset: Value | int = 0
) -> Value:
    """Numbers of 0 or more and below 1: 24 bits of an f32, 11 of an f16, 8 of a bf16."""
    return _random("uniform", shape, ELEMENTS[element_name(dtype)], seed, offset)


@public
def normal(
    shape: Shape, dtype: object = "f32", *, seed: Value | int, offset: Value | int = 0
) -> Value:
    """Normal numbers of mean 0 and variance 1, by Box and Muller's method."""
    return _random("normal", shape, ELEMENTS[element_name(dtype)], seed, offset)


@public
def bernoulli(shape: Shape, p: float, *, seed: Value | int, offset: Value | int = 0) -> Value:
    """Conditions, each of which holds with a chance of ``p``."""
    return _random("bernoulli", shape, i1, seed, offset, _chance("bernoulli", p))


@public
def dropout(x: Value, p: float, *, seed: Value | int, offset: Value | int = 0) -> Value:
    """``x / (1 - p)`` where it is kept, with a chance of 1 - ``p``, and 0 elsewhere."""
    one = value_of(x)
    counters = (_counter(one.builder, "seed", seed), _counter(one.builder, "offset", offset))
    op = frontend.DropoutOp(one.ssa, *counters, _chance("dropout", p))
    return Value(one.builder, one.builder.add(op))
