"""``region.sort``: the numbers along an axis in their order; see ``polyc.dialects.region``."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import StringAttr
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
from polyc.dialects.common.elements import is_integer
from polyc.dialects.region.scope import parse_types, print_types, same_size, set_type
from polyc.dialects.region.types import AxisAttr, ValType, axes_text, val_type


@irdl_op_definition
class SortOp(IRDLOperation):
    """The integers along ``over``, the least first, along ``into`` of the result.

    ``region.sort %x over n into r : !region.val<[m: M, n: N], i64> -> !region.val<[m: M, r: 8],
    i64>``.  The result has the axis ``into`` where the operand has ``over``, with as many points or
    fewer: the least of the row.  Integers that are equal are one.  ``by 32 to 64`` states which
    bits decide (``polyc.dialects.common.deciding``).
    """

    name = "region.sort"

    operand = operand_def(ValType)
    over_attr = prop_def(StringAttr, prop_name="over")
    into_attr = prop_def(StringAttr, prop_name="into")
    by = opt_prop_def(BitsAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self, operand: SSAValue, over: str, into: AxisAttr, by: Bits | None = None
    ) -> None:
        source = cast(ValType, operand.type)
        axes = [into if a.label == over else a for a in source.axes]
        super().__init__(
            operands=[operand],
            properties={
                "over": StringAttr(over),
                "into": StringAttr(into.label),
                "by": bits_attr(by),
            },
            result_types=[ValType.of(axes, source.element_type)],
        )

    @property
    def bits(self) -> Bits:
        """The bits that decide."""
        return bits_of(self.by, self.result.type.element_type)

    @property
    def said(self) -> Bits | None:
        """These, where they are stated."""
        return None if self.by is None else self.bits

    @property
    def over(self) -> str:
        """The name of the axis that is sorted."""
        return self.over_attr.data

    @property
    def into(self) -> str:
        """The name of the axis along which the result lies."""
        return self.into_attr.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operand)
        printer.print_string(f" over {self.over} into {self.into}")
        print_bits(printer, self.by)
        printer.print_op_attributes(self.attributes)
        print_types(printer, [self.operand], self.result.type, False)

    @classmethod
    def parse(cls, parser: Parser) -> SortOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_keyword("over")
        over = parser.parse_identifier("the axis that is sorted")
        parser.parse_keyword("into")
        into = parser.parse_identifier("an axis of the result")
        by = parse_bits(parser)
        extra = parser.parse_optional_attr_dict()
        pos = parser.pos
        (operand,), result = parse_types(parser, [unresolved], False)
        for found in (operand.type, result):
            if not isinstance(found, ValType):
                parser.raise_error(f"expected a !region.val, got {found}", pos)
        axis = cast(ValType, result).axis(into)
        if axis is None:
            parser.raise_error(f"the result has no axis {into}", pos)
        op = cls(operand, over, axis)
        if by is not None:
            op.by = by
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        operand, result = val_type(self.operand), val_type(self.result)
        if not is_integer(operand.element_type) or result.element_type != operand.element_type:
            raise VerifyException(
                f"a sort is of integers and keeps their type, not of {operand.element_type} to "
                f"{result.element_type}; make them integers by region.bitcast"
            )
        if (fault := bits_fault(self.by, operand.element_type)) is not None:
            raise VerifyException(f"by which a sort is: {fault}")
        axis, into = operand.axis(self.over), result.axis(self.into)
        if axis is None or into is None:
            raise VerifyException(
                f"a sort over {self.over} into {self.into} is of a value that has the one and "
                f"makes one that has the other, not of {axes_text(operand.axes)} to "
                f"{axes_text(result.axes)}"
            )
        wanted = [into if a.label == self.over else a for a in operand.axes]
        fits = len(wanted) == len(result.axes) and all(
            a.label == b.label and same_size(self, a.size, b.size)
            for a, b in zip(wanted, result.axes, strict=True)
        )
        if not fits or operand.axis(self.into) is not None:
            raise VerifyException(
                f"AxisAlignmentMismatch: {axes_text(operand.axes)} sorted over {self.over} into "
                f"{self.into} is {axes_text(wanted)}, not {axes_text(result.axes)}"
            )
