"""Leaves that ``frontend`` and ``tiny`` share: constants and sizes.

The classes here hold what a leaf carries and its text; each dialect's op adds its name, its
tensor type and which element types it has.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.irdl import IRDLOperation, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from polyc.dialects.common.dim import Dim, DimAttr, parse_dim
from polyc.dialects.common.elements import Number
from polyc.dialects.common.movements import parse_tensor
from polyc.dialects.common.numbers import (
    PlainAttr,
    beside,
    number_text,
    parse_plain,
    plain_attr,
    plain_number,
)
from polyc.dialects.common.signature import SizedTensorType


class ConstantBase(IRDLOperation, ABC):
    """One number of one type, ``constant 0.5 : type``; also ``inf``, ``-inf``, ``nan``."""

    value = prop_def(PlainAttr)
    traits = traits_def(Pure())

    TENSOR: ClassVar[type[SizedTensorType]]
    """The tensor type of the dialect."""

    def __init__(self, value: Number, result_type: SizedTensorType) -> None:
        """``value`` is rounded to f32; OverflowError when it is finite and too large."""
        super().__init__(
            properties={"value": plain_attr(value, result_type.element_type)},
            result_types=[result_type],
        )

    @property
    def number(self) -> Number:
        """The value as a Python float, or int of an integer type."""
        return plain_number(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parse_plain(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parse_tensor(parser, cls.TENSOR)
        value = beside(value, kind.element_type)
        return cls.create(properties={"value": value}, result_types=[kind], attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {number_text(self.number)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)


class DimBase(IRDLOperation, ABC):
    """A size as a scalar, ``dim M * K : type``."""

    size_attr = prop_def(DimAttr, prop_name="size")
    traits = traits_def(Pure())

    TENSOR: ClassVar[type[SizedTensorType]]
    """The tensor type of the dialect."""

    def __init__(self, size: Dim, result_type: SizedTensorType) -> None:
        super().__init__(properties={"size": DimAttr(size)}, result_types=[result_type])

    @property
    def size(self) -> Dim:
        """The expression of the signature's symbols."""
        return self.size_attr.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        size = parse_dim(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            properties={"size": DimAttr(size)},
            result_types=[parse_tensor(parser, cls.TENSOR)],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.size}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.results[0].type)
