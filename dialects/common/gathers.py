"""What gathers and scatters of every layer share: what a place outside of the tensor means."""

from __future__ import annotations

from typing import Protocol

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.elements import Number, holds
from polyc.dialects.common.numbers import (
    PlainAttr,
    beside,
    number_text,
    parse_plain,
    plain_attr,
    plain_fault,
    plain_number,
)

SCATTERS = ("add", "max", "min", "mul", "set")
"""How a scatter combines an update with the element that is there; ``set`` takes the update."""

REDUCTIONS = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}
"""The reduction that a scatter's function is of several updates of one element."""


class Gathers(Protocol):
    """An op that reads a tensor where its data says."""

    fill: PlainAttr | None


def parse_outside(parser: AttrParser) -> PlainAttr | None:
    """``clamp``, which is None, or ``fill 0.0``: the number that stands for what is outside."""
    if parser.parse_optional_keyword("clamp") is not None:
        return None
    if parser.parse_optional_keyword("fill") is None:
        parser.raise_error("expected clamp, or fill and a number: what a place outside reads")
    return parse_plain(parser)


def print_outside(printer: Printer, fill: PlainAttr | None) -> None:
    """Print what ``parse_outside`` reads."""
    printer.print_string(" clamp" if fill is None else f" fill {number_text(plain_number(fill))}")


def outside(fill: Number | None, element: Attribute) -> PlainAttr | None:
    """The property of a fill; None of ``clamp``."""
    return None if fill is None else plain_attr(fill, element)


def outside_of(parsed: PlainAttr | None, element: Attribute) -> PlainAttr | None:
    """What was parsed before the type of the elements was known, in that type."""
    return None if parsed is None else beside(parsed, element)


def fill_number(op: Gathers) -> Number | None:
    """The number that stands for elements outside; None where places are clamped."""
    return None if op.fill is None else plain_number(op.fill)


def verify_fill(what: str, op: Gathers, element: Attribute) -> None:
    """Check that the number that stands for elements outside is one of their type.

    Raises VerifyException.
    """
    number = fill_number(op)
    if op.fill is None or number is None:
        return
    fault = plain_fault(op.fill, element)
    if fault is None and not holds(element, number):
        fault = f"{number_text(number)} is no {element}"
        fault += ", which holds 0 and 1" if element == i1 else "; give one that it holds"
    if fault is not None:
        raise VerifyException(f"the fill of {what}: {fault}")
