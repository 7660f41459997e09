"""``region.scan``: the points of an axis up to each one; see ``polyc.dialects.region``."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, UnitAttr, f32, i1
from xdsl.ir import Attribute, SSAValue
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

from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.scans import EXCLUSIVE, REVERSE
from polyc.dialects.region.scope import (
    REDUCE_FNS,
    check_fn,
    parse_fn,
    parse_types,
    print_types,
    same_axes,
    set_type,
)
from polyc.dialects.region.types import ValType, axes_text, val_type


@irdl_op_definition
class ScanOp(IRDLOperation):
    """``fn`` of the operand at the points of an axis up to each one, or, ``exclusive``, before it.

    ``region.scan sum %x along k reverse exclusive : type``: a ``reverse`` one goes from the last
    point to the first.  It accumulates in f32, or in an integer type that wraps; the first point of
    an exclusive one has what a reduction over nothing gives.  The order of a sum or product is not
    defined.  Its axes stay, so that each point needs all before it: only a kernel that walks the
    axis in order computes it.
    """

    name = "region.scan"

    fn = prop_def(StringAttr)
    operand = operand_def(ValType)
    along = prop_def(StringAttr)
    reverse_attr = opt_prop_def(UnitAttr, prop_name=REVERSE)
    exclusive_attr = opt_prop_def(UnitAttr, prop_name=EXCLUSIVE)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        along: str,
        *,
        reverse: bool = False,
        exclusive: bool = False,
    ) -> None:
        super().__init__(
            operands=[operand],
            properties={
                "fn": StringAttr(fn),
                "along": StringAttr(along),
                REVERSE: UnitAttr() if reverse else None,
                EXCLUSIVE: UnitAttr() if exclusive else None,
            },
            result_types=[operand.type],
        )

    @property
    def label(self) -> str:
        """The name of the axis that it goes along."""
        return self.along.data

    @property
    def accumulator(self) -> Attribute:
        """The element type in which it accumulates."""
        return self.result.type.element_type

    @property
    def is_reverse(self) -> bool:
        return self.reverse_attr is not None

    @property
    def is_exclusive(self) -> bool:
        return self.exclusive_attr is not None

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.fn.data} ")
        printer.print_operand(self.operand)
        printer.print_string(f" along {self.label}")
        for word, said in ((REVERSE, self.is_reverse), (EXCLUSIVE, self.is_exclusive)):
            if said:
                printer.print_string(f" {word}")
        printer.print_op_attributes(self.attributes)
        print_types(printer, [self.operand], self.result.type, short=True)

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        fn = parse_fn(parser, REDUCE_FNS).data
        unresolved = parser.parse_unresolved_operand()
        parser.parse_keyword("along")
        along = parser.parse_identifier()
        said = {
            word: parser.parse_optional_keyword(word) is not None for word in (REVERSE, EXCLUSIVE)
        }
        extra = parser.parse_optional_attr_dict()
        operands, result = parse_types(parser, [unresolved], short=True)
        op = cls(fn, operands[0], along, **said)
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        check_fn(self, self.fn.data, REDUCE_FNS)
        operand, result = val_type(self.operand), val_type(self.result)
        if operand.axis(self.label) is None:
            raise VerifyException(
                f"the scan goes along {self.label}, and its operand has the axes "
                f"{axes_text(operand.axes)}; name one of them"
            )
        element = operand.element_type
        if element == i1:
            raise VerifyException("a scan of i1 is not there; choose numbers by region.select")
        if element != f32 and not is_integer(element):
            raise VerifyException(
                f"AccDtypeMissing: a scan accumulates in f32, not in {element}; convert the "
                "operand with region.cast"
            )
        if element != result.element_type or not same_axes(self, operand, result):
            raise VerifyException(f"the scan gives {operand}, not {result}")
