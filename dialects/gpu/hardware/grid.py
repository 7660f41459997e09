"""Hardware level: one thread signals another CTA's threads through a counter in global memory.

Source: PTX ISA, memory consistency model (release and acquire patterns), ``red``, ``ld``.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from polyc.dialects.gpu.hardware.checks import verify_counter
from polyc.dialects.gpu.types import GlobalType


@irdl_op_definition
class SignalGlobalOp(IRDLOperation):
    """Add 1 to a counter of type i32, after all that the thread did and knows of (release)."""

    name = "gpu.signal_global"
    counters = operand_def(base(GlobalType))
    indices = var_operand_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$counters `[` $indices `:` type($indices) `]` attr-dict `:` type($counters)"

    def __init__(self, counters: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[counters, list(indices)])

    def verify_(self) -> None:
        verify_counter(self.counters, self.indices)


@irdl_op_definition
class WaitGlobalOp(IRDLOperation):
    """Read a counter until it is ``count`` or more, before all that the thread does next (acquire).

    It then sees what was done before the signals that it has waited for.
    """

    name = "gpu.wait_global"
    counters = operand_def(base(GlobalType))
    indices = var_operand_def()
    count = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$counters `[` $indices `:` type($indices) `]` `until` $count attr-dict `:` type($counters)"
    )

    def __init__(self, counters: SSAValue, indices: Sequence[SSAValue], count: SSAValue) -> None:
        super().__init__(operands=[counters, list(indices), count])

    def verify_(self) -> None:
        verify_counter(self.counters, self.indices)
