"""Tile level: what the elements of a line are, each with all before it (T3)."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import parse_constant
from polyc.dialects.common.scans import EXCLUSIVE, REVERSE
from polyc.dialects.gpu.tile.compute import REDUCTIONS
from polyc.dialects.gpu.types import FragmentType


@irdl_op_definition
class ScanOp(IRDLOperation):
    """``fragment[..., i, ...] = kind over all j <= i of fragment[..., j, ...]``, in place.

    ``gpu.scan sum %f axis 1 carry %c reverse exclusive : types``: a ``reverse`` one is over all
    ``j >= i``, and an ``exclusive`` one over those before ``i`` alone.  ``carry``, a fragment of
    one element a line, is what each line begins with, and then has what it ends with: tiles of one
    line after another.  max and min propagate NaN (S0.6).  The order of a sum follows the layout,
    which is fixed by the program: the result is deterministic.
    """

    name = "gpu.scan"
    kind = prop_def(StringAttr)
    axis_attr = prop_def(IntegerAttr, prop_name="axis")
    reverse_attr = opt_prop_def(UnitAttr, prop_name=REVERSE)
    exclusive_attr = opt_prop_def(UnitAttr, prop_name=EXCLUSIVE)
    fragment = operand_def(base(FragmentType))
    carry = opt_operand_def(base(FragmentType))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        kind: str,
        fragment: SSAValue,
        axis: int,
        carry: SSAValue | None = None,
        *,
        reverse: bool = False,
        exclusive: bool = False,
    ) -> None:
        super().__init__(
            operands=[fragment, carry],
            properties={
                "kind": StringAttr(kind),
                "axis": IntegerAttr(axis, i64),
                REVERSE: UnitAttr() if reverse else None,
                EXCLUSIVE: UnitAttr() if exclusive else None,
            },
        )

    @property
    def axis(self) -> int:
        """The axis of the fragment that it goes along."""
        return self.axis_attr.value.data

    @property
    def is_reverse(self) -> bool:
        return self.reverse_attr is not None

    @property
    def is_exclusive(self) -> bool:
        return self.exclusive_attr is not None

    @classmethod
    def parse(cls, parser: Parser) -> ScanOp:
        kind = parser.parse_identifier()
        unresolved = [parser.parse_unresolved_operand()]
        parser.parse_keyword("axis")
        axis = parse_constant(parser, "the axis of a scan")
        if parser.parse_optional_keyword("carry") is not None:
            unresolved.append(parser.parse_unresolved_operand())
        said = {
            word: parser.parse_optional_keyword(word) is not None for word in (REVERSE, EXCLUSIVE)
        }
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        at = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        values = parser.resolve_operands(unresolved, types, at)
        op = cls(kind, values[0], axis, values[1] if len(values) > 1 else None, **said)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_ssa_value(self.fragment)
        printer.print_string(f" axis {self.axis}")
        if self.carry is not None:
            printer.print_string(" carry ")
            printer.print_ssa_value(self.carry)
        printer.print_string(" reverse" if self.is_reverse else "")
        printer.print_string(" exclusive" if self.is_exclusive else "")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.operands, lambda v: printer.print_attribute(v.type))

    def verify_(self) -> None:
        kind = self.fragment.type
        assert isinstance(kind, FragmentType)
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(f'a scan is {", ".join(REDUCTIONS)}, not "{self.kind.data}"')
        if not 0 <= self.axis < len(kind.sizes):
            raise VerifyException(
                f"axis {self.axis} of a scan is none of {kind}, which has {len(kind.sizes)}"
            )
        if self.carry is None:
            return
        carry = self.carry.type
        assert isinstance(carry, FragmentType)
        lines = tuple(1 if i == self.axis else n for i, n in enumerate(kind.sizes))
        if carry.sizes != lines or carry.element_type != kind.element_type:
            raise VerifyException(
                f"the carry of a scan along axis {self.axis} of {kind} has the sizes "
                f"{list(lines)} and its element type, and this is {carry}"
            )
