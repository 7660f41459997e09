"""``frontend.scan``: cumulative sums, products, maxima and minima along an axis."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from polyc.dialects.common.scans import ScanBase
from polyc.dialects.common.signature import SizedTensorType
from polyc.dialects.frontend.types import TensorType, need_number


@irdl_op_definition
class ScanOp(ScanBase):
    """``frontend.scan sum %x axis 1 : type``, with ``reverse`` and ``exclusive``: see ``ScanBase``.

    Real numbers are computed in f32 and rounded once; integers wrap.  The first element of an
    exclusive one is what a reduction of nothing gives.
    """

    name = "frontend.scan"
    operand = operand_def(TensorType)
    result = result_def(TensorType)
    TENSOR: ClassVar[type[SizedTensorType]] = TensorType

    def need_elements(self) -> None:
        need_number("a scan", (self.operand,))
