"""Tile level: CTAs of one grid wait for each other through counters in global memory."""

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
class GridSignalOp(IRDLOperation):
    """Add 1 to a counter; what the threads of the op's scope did before goes with it.

    ``counters`` is a tensor of i32, as a rule a ``zeroed`` workspace; ``indices`` are the counter's
    coordinates.  The threads meet, and one of them adds.
    """

    name = "gpu.grid_signal"
    counters = operand_def(base(GlobalType))
    indices = var_operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$counters `[` $indices `]` attr-dict `:` type($counters)"

    def __init__(self, counters: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[counters, list(indices)])

    def verify_(self) -> None:
        verify_counter(self.counters, self.indices)


@irdl_op_definition
class GridWaitOp(IRDLOperation):
    """Wait until a counter is ``count`` or more.

    All threads of the op's scope then see what was done before these signals.  Only CTAs that run
    at once may wait for each other: the kernel's launches are ``cooperative``.
    """

    name = "gpu.grid_wait"
    counters = operand_def(base(GlobalType))
    indices = var_operand_def(IndexType)
    count = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$counters `[` $indices `]` `until` $count attr-dict `:` type($counters)"

    def __init__(self, counters: SSAValue, indices: Sequence[SSAValue], count: SSAValue) -> None:
        super().__init__(operands=[counters, list(indices), count])

    def verify_(self) -> None:
        verify_counter(self.counters, self.indices)
