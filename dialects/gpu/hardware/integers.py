"""Hardware level: arithmetic and conversions of integers that ``arith`` lacks."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType, UnitAttr, f32, i8, i16, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
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


@irdl_op_definition
class CutOp(IRDLOperation):
    """A number cut towards 0 to an integer, ``gpu.cut %x : i32``, ``gpu.cut %x unsigned : i32``.

    One beyond the type becomes its least or its largest number, and NaN 0, as the hardware converts
    to 32 bits (PTX ISA, ``cvt``: integer clamping is implied).  ``arith.fptosi`` says nothing of
    these.
    """

    name = "gpu.cut"
    value = operand_def(f32)
    unsigned = opt_prop_def(UnitAttr)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$value (`unsigned` $unsigned^)? attr-dict `:` type($result)"

    def __init__(self, value: SSAValue, unsigned: bool = False) -> None:
        super().__init__(
            operands=[value],
            properties={"unsigned": UnitAttr() if unsigned else None},
            result_types=[i32],
        )
