"""Hardware level: one thread tells another CTA's threads something through global memory.

A counter says that all that came before it is there; a post is a number that comes by itself.
Source: PTX ISA, memory consistency model (release and acquire patterns; accesses of 64 bits are
single), ``red``, ``ld``, ``st``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import I1, IndexType, MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import (
    verify_counter,
    verify_indices,
    verify_posted,
    verify_posts,
    verify_registers,
)
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


@irdl_op_definition
class PostGlobalOp(IRDLOperation):
    """Post a number of 32 bits in a word of 64 that is 0 so far, if ``predicate`` holds (relaxed).

    The word, of a ``zeroed`` workspace of i64, then has the number below and 1 above.  What the
    thread did before does not go with it.  A word is posted once.
    """

    name = "gpu.post_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    value = operand_def()
    words = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$value `,` $words `[` $indices `:` type($indices) `]` (`if` $predicate^)? attr-dict "
        "`:` type($value) `,` type($words)"
    )

    def __init__(
        self,
        value: SSAValue,
        words: SSAValue,
        indices: Sequence[SSAValue],
        predicate: SSAValue | None = None,
    ) -> None:
        super().__init__(operands=[value, words, list(indices), predicate])

    def verify_(self) -> None:
        verify_posts(self.words)
        verify_posted(self.value.type)
        verify_indices(self.words, self.indices)


@irdl_op_definition
class AwaitPostsGlobalOp(IRDLOperation):
    """Read words until each is posted, and take their numbers into ``registers`` from ``offset`` on
    (relaxed).

    There are as many words as ``predicates``; one whose predicate is false is not read, and its
    number is 0.  ``indices`` are the words' coordinates, one word's after another's, or an i64
    offset of each.  All are read before the thread waits for any.  It learns the numbers, and
    nothing of what was done before they were posted.
    """

    name = "gpu.await_posts_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    words = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicates = var_operand_def(I1)
    registers = operand_def(base(MemRefType))
    offset = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$words `[` $indices `:` type($indices) `]` `if` $predicates `to` $registers `[` $offset "
        "`]` attr-dict `:` type($words) `,` type($registers)"
    )

    def __init__(
        self,
        words: SSAValue,
        indices: Sequence[SSAValue],
        predicates: Sequence[SSAValue],
        registers: SSAValue,
        offset: SSAValue,
    ) -> None:
        super().__init__(operands=[words, list(indices), list(predicates), registers, offset])

    @property
    def places(self) -> list[list[SSAValue]]:
        """The coordinates, or the one offset, of each word."""
        each = len(self.indices) // len(self.predicates)
        return [list(self.indices[i : i + each]) for i in range(0, len(self.indices), each)]

    def verify_(self) -> None:
        verify_posts(self.words)
        kind = cast("MemRefType[Attribute]", self.registers.type)
        verify_posted(kind.element_type)
        verify_registers(self.registers, "what posts are taken into", kind.element_type)
        if not self.predicates or len(self.indices) % len(self.predicates):
            raise VerifyException(
                f"{len(self.predicates)} predicates do not fit {len(self.indices)} indices: each "
                "word that is awaited has one"
            )
        for place in self.places:
            verify_indices(self.words, place)
