"""Tile level: where tiles live; gpu.copy, which moves them, is in ``copy.py`` (T3, S9.3)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, StringAttr, UnitAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
    element_bytes,
)


@irdl_op_definition
class FragmentOp(IRDLOperation):
    """Allocate a fragment: registers of the threads that work on the tile together.

    ``packed``, two neighbouring elements of 16 bits are one register, as wgmma takes its left
    operand (``gpu-lower-tile-ops``).
    """

    name = "gpu.fragment"
    packed = opt_prop_def(UnitAttr)
    fragment = result_def(base(FragmentType))
    assembly_format = "(`packed` $packed^)? attr-dict `:` type($fragment)"

    def __init__(self, fragment_type: FragmentType, *, packed: bool = False) -> None:
        super().__init__(
            properties={"packed": UnitAttr() if packed else None}, result_types=[fragment_type]
        )

    def verify_(self) -> None:
        kind = self.fragment.type
        assert isinstance(kind, FragmentType)
        if self.packed is None:
            return
        if element_bytes(kind.element_type) != 2:
            raise VerifyException(
                f"a packed fragment has two elements of 16 bits in a register, not of {kind}"
            )
        layout = kind.layout
        if isinstance(layout, FragmentLayoutAttr) and layout.registers.data % 2:
            raise VerifyException(
                f"a packed fragment has an even number of elements a thread, not "
                f"{layout.registers.data}"
            )


@irdl_op_definition
class FillOp(IRDLOperation):
    """Set every element of a fragment to ``value``."""

    name = "gpu.fill"
    value = operand_def()
    fragment = operand_def(base(FragmentType))

    def __init__(self, value: SSAValue, fragment: SSAValue) -> None:
        super().__init__(operands=[value, fragment])

    @classmethod
    def parse(cls, parser: Parser) -> FillOp:
        value = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        fragment = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        pos = parser.pos
        kind = parser.parse_type()
        if not isinstance(kind, FragmentType):
            parser.raise_error("gpu.fill sets a !gpu.fragment", pos, parser.pos)
        return cls(
            parser.resolve_operand(value, kind.element_type), parser.resolve_operand(fragment, kind)
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(", ")
        printer.print_ssa_value(self.fragment)
        printer.print_string(" : ")
        printer.print_attribute(self.fragment.type)

    def verify_(self) -> None:
        assert isinstance(self.fragment.type, FragmentType)
        if self.value.type != self.fragment.type.element_type:
            raise VerifyException(f"{self.value.type} does not fill {self.fragment.type}")


@irdl_op_definition
class AtomicOp(IRDLOperation):
    """Combine a fragment with a tile of a tensor, atomically element by element.

    ``kind`` is ``add``, ``max`` or ``min``; ``indices`` are as for ``gpu.copy``.  Elements outside
    the tensor are left out.  The order of the additions is not defined, so that f32 sums may
    differ in their last bits from run to run.
    """

    name = "gpu.atomic"
    kind = prop_def(StringAttr)
    fragment = operand_def(base(FragmentType))
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$kind $fragment `to` $tensor `[` $indices `]` attr-dict "
        "`:` type($fragment) `,` type($tensor)"
    )

    def __init__(
        self, kind: str, fragment: SSAValue, tensor: SSAValue, indices: Sequence[SSAValue]
    ) -> None:
        super().__init__(
            operands=[fragment, tensor, list(indices)], properties={"kind": StringAttr(kind)}
        )

    def verify_(self) -> None:
        fragment, tensor = self.fragment.type, self.tensor.type
        assert isinstance(fragment, FragmentType) and isinstance(tensor, GlobalType)
        if self.kind.data not in ("add", "max", "min"):
            raise VerifyException(f'an atomic is add, max or min, not "{self.kind.data}"')
        if fragment.element_type != tensor.element_type:
            raise VerifyException(f"an atomic does not convert {fragment} to {tensor}")
        rank = len(tensor.dims)
        if len(self.indices) != rank or len(fragment.sizes) > rank:
            raise VerifyException(
                f"a tensor of rank {rank} takes {rank} coordinates and a fragment of rank {rank} "
                f"or less, not {len(self.indices)} and {fragment}"
            )


@irdl_op_definition
class ElementAddressOp(IRDLOperation):
    """Shared address of element ``coordinates`` of a tile (of slot ``slot`` of its ring).

    ``gpu-lower-shared-layout`` turns it into arithmetic by the tile's swizzle.
    """

    name = "gpu.element_address"
    tile = operand_def(base(SharedType))
    slot = operand_def(IndexType)
    row = operand_def(IndexType)
    column = operand_def(IndexType)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$tile `[` $slot `]` `[` $row `,` $column `]` attr-dict `:` type($tile)"

    def __init__(self, tile: SSAValue, slot: SSAValue, row: SSAValue, column: SSAValue) -> None:
        super().__init__(operands=[tile, slot, row, column], result_types=[i32])
