"""What ``frontend.scan`` and ``tiny.scan`` carry alike: a function, an axis, and which way it goes.

Element ``i`` of a scan is a function of the operand's elements up to ``i``, with it or, of an
``exclusive`` one, without; a ``reverse`` one goes from the end.  docs/semantics.md, *scan*, says
what that is.  The classes here hold what an op carries and its text; each dialect's op adds its
name, its tensor type and which element types it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import parse_constant, shape_text
from polyc.dialects.common.movements import parse_tensor
from polyc.dialects.common.signature import SizedTensorType, same_shape, verify_symbols

SCANS = ("max", "min", "prod", "sum")
"""Functions of a scan."""

REVERSE, EXCLUSIVE = "reverse", "exclusive"
"""The words of the text, and the names of the properties."""


class ScanBase(IRDLOperation, ABC):
    """``op sum %x axis 1 reverse exclusive : type``; the result has the operand's type."""

    fn = prop_def(StringAttr)
    axis_attr = prop_def(IntegerAttr, prop_name="axis")
    reverse_attr = opt_prop_def(UnitAttr, prop_name=REVERSE)
    exclusive_attr = opt_prop_def(UnitAttr, prop_name=EXCLUSIVE)
    traits = traits_def(Pure())

    TENSOR: ClassVar[type[SizedTensorType]]
    """The tensor type of the dialect."""

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axis: int,
        *,
        reverse: bool = False,
        exclusive: bool = False,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[operand.type],
            properties={
                "fn": StringAttr(fn),
                "axis": IntegerAttr(axis, i64),
                REVERSE: UnitAttr() if reverse else None,
                EXCLUSIVE: UnitAttr() if exclusive else None,
            },
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @property
    def axis(self) -> int:
        """The axis along which it goes."""
        return self.axis_attr.value.data

    @property
    def is_reverse(self) -> bool:
        """Whether it goes from the end of the axis to its beginning."""
        return self.reverse_attr is not None

    @property
    def is_exclusive(self) -> bool:
        """Whether an element is made of those before it alone."""
        return self.exclusive_attr is not None

    @classmethod
    def fault(cls, fn: str) -> str | None:
        """What is wrong with a function's name, or None."""
        if fn in SCANS:
            return None
        return f"{fn} is not a function of {cls.name}; there are {', '.join(SCANS)}"

    @abstractmethod
    def need_elements(self) -> None:
        """Check the operand's element type; raises VerifyException."""

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := self.fault(self.function)) is not None:
            raise VerifyException(fault)
        self.need_elements()
        operand, result = (cast(SizedTensorType, v.type) for v in (*self.operands, *self.results))
        if not operand.rank:
            raise VerifyException("a scan goes along an axis, and a scalar has none; leave it out")
        if not 0 <= self.axis < operand.rank:
            raise VerifyException(
                f"axis {self.axis} of a scan is not an axis of {shape_text(operand.dims)}, which "
                f"are 0 to {operand.rank - 1}"
            )
        if operand.element_type != result.element_type:
            raise VerifyException(
                f"a scan keeps the element type; the operand has {operand.element_type}, the "
                f"result {result.element_type}"
            )
        if not same_shape(operand.dims, result.dims, self):
            raise VerifyException(
                f"a scan keeps the shape; the operand is {shape_text(operand.dims)}, the result "
                f"{shape_text(result.dims)}"
            )

    # Text

    @classmethod
    def parse_own(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse what a dialect's op has beside; the properties."""
        return {}

    def print_own(self, printer: Printer) -> None:
        """Print it, with a blank before."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        fn = parser.parse_identifier(f"a function of {cls.name}")
        if (fault := cls.fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        unresolved = parser.parse_unresolved_operand()
        parser.parse_keyword("axis")
        axis = parse_constant(parser, "the axis of a scan")
        properties: dict[str, Attribute] = {"fn": StringAttr(fn), "axis": IntegerAttr(axis, i64)}
        for word in (REVERSE, EXCLUSIVE):
            if parser.parse_optional_keyword(word) is not None:
                properties[word] = UnitAttr()
        properties |= cls.parse_own(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand = result = parse_tensor(parser, cls.TENSOR)
        if parser.parse_optional_punctuation("->") is not None:
            result = parse_tensor(parser, cls.TENSOR)
        return cls.create(
            operands=[parser.resolve_operand(unresolved, operand)],
            result_types=[result],
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_operand(self.operands[0])
        printer.print_string(f" axis {self.axis}")
        for word, said in ((REVERSE, self.is_reverse), (EXCLUSIVE, self.is_exclusive)):
            if said:
                printer.print_string(f" {word}")
        self.print_own(printer)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        operand, result = self.operands[0].type, self.results[0].type
        printer.print_attribute(operand)
        if operand != result:
            printer.print_string(" -> ")
            printer.print_attribute(result)
