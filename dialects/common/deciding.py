"""Which bits decide the order of integers that are sorted: a fact that a sort states (S3.1).

``by 32 to 48`` says that of the integers along the axis the bits from 32 up to 48, as a number with
the sign that the type has, are in the order that the integers are in, and that where these bits are
alike the integers already stand in their order.  So keys whose lower bits are their place are: a
sort of the higher bits alone that keeps the order of what is alike sorts them.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from polyc.dialects.common.elements import width

Bits = tuple[int, int]
"""The first bit and the one behind the last."""

BitsAttr = ArrayAttr[IntegerAttr[IntegerType]]


def bits_attr(bits: Bits | None) -> BitsAttr | None:
    return None if bits is None else ArrayAttr([IntegerAttr(bit, i64) for bit in bits])


def bits_of(attr: BitsAttr | None, element: Attribute) -> Bits:
    """The bits that decide: all of the type, where nothing is said."""
    if attr is None:
        return 0, width(element)
    first, end = (bit.value.data for bit in attr.data)
    return first, end


def bits_fault(attr: BitsAttr | None, element: Attribute) -> str | None:
    """What is wrong with bits that are said to decide, or None."""
    if attr is None:
        return None
    found = [bit.value.data for bit in attr.data]
    if len(found) == 2 and 0 <= found[0] < found[1] <= width(element):
        return None
    said = " to ".join(map(str, found))
    return f"the bits {said} are none of {element}, which has 0 to {width(element)}"


def parse_bits(parser: Parser) -> BitsAttr | None:
    """``by 32 to 48``, where it stands next."""
    if parser.parse_optional_keyword("by") is None:
        return None
    first = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_keyword("to")
    return bits_attr((first, parser.parse_integer(allow_boolean=False, allow_negative=False)))


def print_bits(printer: Printer, attr: BitsAttr | None) -> None:
    if attr is not None:
        printer.print_string(" by " + " to ".join(str(bit.value.data) for bit in attr.data))
