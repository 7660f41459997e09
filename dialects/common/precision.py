"""How precise the products of a sum have to be: what graphs permit of products of f32 (S0.6).

A precision is the least that is asked for, so that a computation that is more precise is right too,
and one that loses it on its way through the layers is slower and not wrong.  docs/semantics.md,
*Precision*, has what each permits.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

EXACT = "f32"
"""Factors are multiplied as they are."""

TF32 = "tf32"
"""Each factor may be one of the two numbers of TF32 (10 bits of mantissa) that it lies between."""

F32X3 = "f32x3"
"""Each factor may be the sum of two numbers of TF32, and the product of the lower ones left out."""

PRECISIONS = (EXACT, TF32, F32X3)
"""What the attribute ``precision`` of a product may say; without it a product is exact."""

COARSER = (TF32, F32X3)
"""What ``precision`` may say below the frontend, where nothing is said of exact products."""


def fault(name: str, known: tuple[str, ...] = PRECISIONS) -> str | None:
    """What is wrong with a precision's name, or None."""
    if name in known:
        return None
    return f"{name} is no precision; there are {', '.join(known)}"


def verify(found: StringAttr | None, known: tuple[str, ...] = PRECISIONS) -> None:
    """Raise VerifyException where ``found`` is no name of a precision; None is right."""
    if found is not None and (why := fault(found.data, known)) is not None:
        raise VerifyException(why)


def need_sum(function: str, found: StringAttr | None) -> None:
    """Raise VerifyException where a reduction by ``function`` has a precision that is none."""
    verify(found, COARSER)
    if found is not None and function != "sum":
        raise VerifyException(f"a precision is said of a sum of products, not of a {function}")


def coarser(found: StringAttr | None) -> str | None:
    """What a product's precision permits beyond exact products; None where nothing."""
    return None if found is None or found.data == EXACT else found.data


def parse(parser: Parser) -> StringAttr | None:
    """Parse ``precision tf32``, or nothing."""
    if parser.parse_optional_keyword("precision") is None:
        return None
    start = parser.pos
    name = parser.parse_identifier("a precision")
    if (why := fault(name, COARSER)) is not None:
        parser.raise_error(why, start, parser.pos)
    return StringAttr(name)


def print_precision(printer: Printer, found: StringAttr | None) -> None:
    """Print what ``parse`` reads."""
    if found is not None:
        printer.print_string(f" precision {found.data}")
