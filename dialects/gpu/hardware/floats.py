"""Hardware level: arithmetic of floats that ``arith`` and ``math`` lack."""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class ErfcOp(IRDLOperation):
    """1 less the error function, ``gpu.erfc %x : f32``: C's ``erfcf``, near its true value also
    where that is small."""

    name = "gpu.erfc"
    operand = operand_def(f32)
    result = result_def(f32)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($result)"

    def __init__(self, operand: SSAValue) -> None:
        super().__init__(operands=[operand], result_types=[f32])


@irdl_op_definition
class FmodOp(IRDLOperation):
    """What is left of ``lhs`` after whole multiples of ``rhs``: C's ``fmodf``, which is exact.

    It has the sign of ``lhs``; NaN where ``lhs`` is infinite or ``rhs`` is 0.
    """

    name = "gpu.fmod"
    lhs = operand_def(f32)
    rhs = operand_def(f32)
    result = result_def(f32)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[f32])
