"""``tiny.sort``: the numbers along an axis in their order; see ``polyc.dialects.tiny``."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.deciding import (
    Bits,
    BitsAttr,
    bits_attr,
    bits_fault,
    bits_of,
    parse_bits,
    print_bits,
)
from polyc.dialects.common.dim import Dim, shape_text
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.signature import same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import never_negative
from polyc.dialects.tiny.types import TensorType, parse_tensor, tensor, tensor_of

MOST = 1024
"""Elements that a sort gives at most where it does not give all of an axis: a kernel keeps them."""


@irdl_op_definition
class SortOp(IRDLOperation):
    """The integers along an axis, the least first: all of them, or a number of the least (S3.1).

    ``tiny.sort %x axis 1 : !tiny.tensor<[M, N], i64> -> !tiny.tensor<[M, 8], i64>``.  The result
    has the axis whole, or so many of its elements as a number says that it always has.  Integers
    that are equal are one, so that there is no order between them to keep; real numbers, and places
    that go along, are made into integers first.  ``by 32 to 64`` states which bits decide
    (``polyc.dialects.common.deciding``).
    """

    name = "tiny.sort"
    operand = operand_def(TensorType)
    axis_attr = prop_def(IntegerAttr[IntegerType], prop_name="axis")
    by = opt_prop_def(BitsAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self, operand: SSAValue, axis: int, first: Dim | None = None, by: Bits | None = None
    ) -> None:
        """All elements, or the ``first`` ones."""
        kind = tensor_of(operand)
        dims = [first if i == axis and first is not None else d for i, d in enumerate(kind.dims)]
        super().__init__(
            operands=[operand],
            result_types=[tensor(dims, kind.element_type)],
            properties={"axis": IntegerAttr(axis, i64), "by": bits_attr(by)},
        )

    @property
    def bits(self) -> Bits:
        """The bits that decide."""
        return bits_of(self.by, tensor_of(self.operand).element_type)

    @property
    def said(self) -> Bits | None:
        """These, where they are stated."""
        return None if self.by is None else self.bits

    @property
    def axis(self) -> int:
        """The axis that is sorted."""
        return self.axis_attr.value.data

    def verify_(self) -> None:
        verify_symbols(self)
        operand, result = tensor_of(self.operand), tensor_of(self.result)
        if not is_integer(operand.element_type):
            raise VerifyException(
                f"a sort is of integers, not of {operand.element_type}; make it one by a bitcast"
            )
        if operand.element_type != result.element_type:
            raise VerifyException(
                f"a sort keeps the element type; the operand has {operand.element_type}, the "
                f"result {result.element_type}"
            )
        if (fault := bits_fault(self.by, operand.element_type)) is not None:
            raise VerifyException(f"by which a sort is: {fault}")
        if not 0 <= self.axis < operand.rank:
            raise VerifyException(
                f"axis {self.axis} of a sort is none of {shape_text(operand.dims)}, which has 0 to "
                f"{operand.rank - 1}"
            )
        apart = [d for i, d in enumerate(operand.dims) if i != self.axis]
        found = [d for i, d in enumerate(result.dims) if i != self.axis]
        if result.rank != operand.rank or not same_shape(tuple(apart), tuple(found), self):
            raise VerifyException(
                f"{shape_text(operand.dims)} sorted along axis {self.axis} is not "
                f"{shape_text(result.dims)}: the other axes stay as they are"
            )
        size, first = operand.dims[self.axis], result.dims[self.axis]
        if same_size(size, first, self):
            return
        if first.constant() is None:
            raise VerifyException(
                f"a sort gives all {size} elements or a number of the least, not {first}"
            )
        if (number := first.constant()) is not None and number > MOST:
            raise VerifyException(
                f"a sort gives all of an axis or {MOST} elements at most, not {first} of {size}; "
                "sort it whole and slice it"
            )
        if not never_negative(size - first, self):
            raise VerifyException(
                f"a sort gives the {first} least of {size}, which may be fewer; assume {size} >= "
                f"{first}"
            )

    @classmethod
    def parse(cls, parser: Parser) -> SortOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_keyword("axis")
        axis = parser.parse_integer(allow_boolean=False)
        by = parse_bits(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        operand = parser.resolve_operand(unresolved, parse_tensor(parser))
        parser.parse_punctuation("->")
        return cls.create(
            operands=[operand],
            result_types=[parse_tensor(parser)],
            properties={"axis": IntegerAttr(axis, i64), **({"by": by} if by else {})},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operand)
        printer.print_string(f" axis {self.axis}")
        print_bits(printer, self.by)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.operand.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
