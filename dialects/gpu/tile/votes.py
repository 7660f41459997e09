"""Tile level: what all threads that hold a tile find out together (T3)."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.types import FragmentType


@irdl_op_definition
class AnyOp(IRDLOperation):
    """Whether any element of a fragment of conditions holds.

    All threads that run the op meet, and have the same answer, so that they may take a branch
    together by it.
    """

    name = "gpu.any"
    fragment = operand_def(base(FragmentType))
    result = result_def(i1)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$fragment attr-dict `:` type($fragment)"

    def __init__(self, fragment: SSAValue) -> None:
        super().__init__(operands=[fragment], result_types=[i1])

    def verify_(self) -> None:
        assert isinstance(self.fragment.type, FragmentType)
        if self.fragment.type.element_type != i1:
            raise VerifyException(
                f"gpu.any asks of conditions (i1), not of {self.fragment.type}; compare in a "
                "gpu.map first"
            )
