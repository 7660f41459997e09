"""Hardware level: arithmetic of integers that ``arith`` lacks."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, i8, i16, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class PowerOp(IRDLOperation):
    """``base`` to the ``exponent``, ``gpu.power %base, %exponent : i32``, in the low bits.

    The exponent has no sign; to the 0 all are 1.
    """

    T: ClassVar = VarConstraint("T", base(IntegerType))

    name = "gpu.power"
    base = operand_def(T)
    exponent = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$base `,` $exponent attr-dict `:` type($result)"

    def __init__(self, base: SSAValue, exponent: SSAValue) -> None:
        super().__init__(operands=[base, exponent], result_types=[base.type])

    def verify_(self) -> None:
        if self.result.type not in (i8, i16, i32, i64):
            raise VerifyException(f"a power is of i8, i16, i32 or i64, not of {self.result.type}")
