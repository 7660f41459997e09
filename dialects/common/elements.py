"""Element types: floats, integers and conditions, and the numbers that each holds (S0.6).

An integer type of the graph dialects says whether it is signed: ``i8`` to ``i64`` are two's
complement, ``ui8`` to ``ui64`` are not negative.  ``i1`` is a condition.  Kernels of the ``gpu``
dialect, as upstream's ``arith``, have types without a sign, and ops that say it: ``without_sign``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute

Number: TypeAlias = float | int
"""An element as Python has it: an int of integers, else a float."""

NumberAttr: TypeAlias = FloatAttr | IntegerAttr[IntegerType]
"""A number in IR, with its type."""

ui8, ui16, ui32, ui64 = (IntegerType(n, Signedness.UNSIGNED) for n in (8, 16, 32, 64))

FLOATS: tuple[AnyFloat, ...] = (f16, bf16, f32)
"""The types that hold real numbers, which all are computed in f32."""

INTEGERS: tuple[IntegerType, ...] = (i8, i16, i32, i64, ui8, ui16, ui32, ui64)
"""The types that hold integers, each of which is computed in itself."""

ELEMENTS: tuple[Attribute, ...] = (*FLOATS, *INTEGERS, i1)
"""All element types of tensors."""

COUNTER = ui64
"""The type of the numbers from which random ones are made: places, offsets and seeds."""

MAX_BITS = 64


def is_integer(element: Attribute) -> bool:
    """Whether a type holds integers; a condition does not."""
    return element in INTEGERS


def is_unsigned(element: Attribute) -> bool:
    """Whether a type holds integers that are not negative."""
    return is_integer(element) and element in (ui8, ui16, ui32, ui64)


def computed(element: Attribute) -> Attribute:
    """The type in which values of ``element`` are inside of a graph: f32 for floats, else it."""
    return f32 if isinstance(element, AnyFloat) else element


def without_sign(element: Attribute) -> Attribute:
    """The type as kernels have it: an integer's without its sign, any other itself."""
    return IntegerType(width(element)) if is_integer(element) else element


def width(element: Attribute) -> int:
    """The bits of an integer type."""
    return cast("IntegerType", element).width.data


def bounds(element: Attribute) -> tuple[int, int]:
    """The least and the largest number of an integer type."""
    bits = width(element)
    return (0, 2**bits - 1) if is_unsigned(element) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def neutral(fn: str, element: Attribute) -> Number:
    """What a reduction gives over nothing: 0 of a sum, 1 of a product, the ends of max and min."""
    if is_integer(element):
        least, most = bounds(element)
        return {"sum": 0, "prod": 1, "max": least, "min": most}[fn]
    return {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[fn]


def accumulation(fn: str, element: Attribute) -> Attribute:
    """The type in which kernels accumulate: f32 of real numbers, of integers one with all of them.

    A sum or product that wraps in 32 bits is that of a narrower type in its low ones, and one in 64
    bits that of a type without a sign.
    """
    picks = fn in ("max", "min")
    if not is_integer(element):
        return f32
    if width(element) == MAX_BITS:
        return element if picks else i64
    return i64 if element == ui32 and picks else i32


def number_attr(value: Number, element: Attribute) -> NumberAttr:
    """``value`` as an attribute: of an integer type exactly, of a float rounded to it, else f32.

    Raises ValueError for what an integer type does not hold, and OverflowError for a finite number
    beyond a float type.
    """
    if is_integer(element):
        if not holds(element, value):
            raise ValueError(f"{value} is no {element}")
        return IntegerAttr(int(value), cast("IntegerType", element))
    return FloatAttr(float(value), element if isinstance(element, AnyFloat) else f32)


def number_of(attr: NumberAttr) -> Number:
    """The number of an attribute, an int of integers."""
    return attr.value.data


def holds(element: Attribute, value: Number) -> bool:
    """Whether a type holds a number exactly."""
    if element == i1:
        return value in (0, 1)
    if is_integer(element):
        least, most = bounds(element)
        whole = isinstance(value, int) or value.is_integer()
        return whole and least <= value <= most
    if not isinstance(element, AnyFloat):
        return False
    try:
        held = FloatAttr(float(value), element).value.data
    except OverflowError:
        return False
    return held == value or (held != held and value != value)


BITS: tuple[Attribute, Attribute] = (f32, i32)
"""The types between which a bitcast goes: all real numbers are computed in the first."""


def bitcast_fault(source: Attribute, target: Attribute) -> str | None:
    """What is wrong with a bitcast from one type to another, or None."""
    if source != target and {source, target} == {*BITS}:
        return None
    return f"a bitcast is from f32 to i32 or back, not from {source} to {target}; cast before it"


# Functions of elements -------------------------------------------------------------------


@dataclass(frozen=True)
class Functions:
    """The functions that an op has of each kind of elements, sorted by name."""

    floats: tuple[str, ...]
    integers: tuple[str, ...]
    conditions: tuple[str, ...]
    counters: tuple[str, ...] = ()
    """Those of integers of ``COUNTER`` alone."""

    def of(self, element: Attribute) -> tuple[str, ...]:
        """Those of values of ``element``."""
        if is_integer(element):
            return (*self.integers, *self.counters) if element == COUNTER else self.integers
        return self.conditions if element == i1 else self.floats

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(sorted({*self.floats, *self.integers, *self.conditions, *self.counters}))

    def fault(self, fn: str, element: Attribute) -> str | None:
        """What is wrong with a function of values of ``element``, or None."""
        if fn in (here := self.of(element)):
            return None
        there = ", ".join(here) or "none"
        return f"{fn} is no function of {element}, which has {there}; add a cast"


COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")
"""Relations of two numbers."""

COMPARE = Functions(COMPARISONS, COMPARISONS, ("eq", "ne"))

INTEGER_UNARY = ("abs", "neg", "not")
"""Functions of one integer."""

INTEGER_BINARY = (
    *("add", "and", "div", "fmod", "max", "min", "mod", "mul", "or", "pow", "shl", "shr", "sub"),
    "xor",
)
"""Functions of two integers of one type."""

COUNTER_BINARY = ("philox",)
"""Functions of two integers of ``COUNTER``: ``philox`` is of a place and a seed."""

CONDITION_UNARY = ("not",)
"""Functions of one condition."""

CONDITION_BINARY = ("and", "or", "xor")
"""Functions of two conditions."""
