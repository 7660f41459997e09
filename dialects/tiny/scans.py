"""``tiny.scan``: functions of the elements of an axis up to each one (S3.1)."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from polyc.dialects.common.scans import ScanBase
from polyc.dialects.common.signature import SizedTensorType
from polyc.dialects.tiny.types import (
    TensorType,
    need_number,
    need_own,
    parse_own,
    print_own,
)


@irdl_op_definition
class ScanOp(ScanBase):
    """``tiny.scan sum %x axis 1 : type``, with ``reverse`` and ``exclusive``: see ``ScanBase``.

    The order in which a sum or a product is computed is not defined, as a reduction's is not; one
    of integers wraps.
    """

    name = "tiny.scan"
    operand = operand_def(TensorType)
    own = opt_prop_def(Attribute)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def need_elements(self) -> None:
        need_number("a scan", (self.operand,))

    def verify_(self) -> None:
        super().verify_()
        need_own("a scan", self.result, self.own)

    @classmethod
    def parse_own(cls, parser: Parser) -> dict[str, Attribute]:
        return parse_own(parser)

    def print_own(self, printer: Printer) -> None:
        print_own(printer, self.own)
