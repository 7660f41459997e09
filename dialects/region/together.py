"""``region.reduce_together``: one reduction over a product of monoids (S6.10).

    %m, %l = region.reduce_together %x over [n] chunk {
    ^bb0(%c: !region.val<[m: M, n: N], f32>):
      ...
      region.state %cm, %cl : !region.val<[m: M], f32>, !region.val<[m: M], f32>
    } combine {
    ^bb0(%m0: ..., %l0: ..., %m1: ..., %l1: ...):
      ...
      region.state %cm, %cl : ...
    } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>, !region.val<[m: M], f32>

``chunk`` gives the state of any part of the points of the reduced axes, ``combine`` the state of
two parts together.  Who makes the op answers for its meaning: the state of the whole is the same,
up to the class that he names, however the points are parted, and over nothing ``chunk`` gives the
state that changes no other.  So a kernel may keep one state and bring in a tile at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.region.axes import BroadcastInDimOp, ReduceOp, TransposeOp
from polyc.dialects.region.elementwise import (
    BinaryOp,
    BitcastOp,
    CastOp,
    CompareOp,
    SelectOp,
    UnaryOp,
)
from polyc.dialects.region.leaves import ConstantOp
from polyc.dialects.region.types import ValType, axes_text, val_type


@irdl_op_definition
class StateOp(IRDLOperation):
    """The state that a block of ``region.reduce_together`` gives."""

    name = "region.state"

    values = var_operand_def(ValType)

    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[values])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.values, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list(self.values, lambda v: printer.print_attribute(v.type))

    @classmethod
    def parse(cls, parser: Parser) -> StateOp:
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pos = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        op = cls(parser.resolve_operands(unresolved, types, pos))
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        if not self.values:
            raise VerifyException("a state has one value or more")


POINTWISE = (
    UnaryOp,
    BinaryOp,
    CompareOp,
    SelectOp,
    BitcastOp,
    CastOp,
    BroadcastInDimOp,
    TransposeOp,
    ConstantOp,
    StateOp,
)
"""What ``combine`` may hold; ``chunk`` may reduce too.

Reads and conditions on axes stay outside: a chunk does not know where it stands.
"""


@irdl_op_definition
class ReduceTogetherOp(IRDLOperation):
    """Several reductions over the same axes whose partial results depend on each other.

    ``chunk`` takes the operands at some of the points of ``axes`` (an operand without these axes
    is taken whole) and gives the results' values over those points alone; ``combine`` takes two
    such states and gives that of both.  The results have none of ``axes``.
    """

    name = "region.reduce_together"

    values = var_operand_def(ValType)
    axes = prop_def(ArrayAttr[StringAttr])
    chunk = region_def("single_block")
    combine = region_def("single_block")
    states = var_result_def(ValType)

    traits = traits_def(Pure(), IsolatedFromAbove())

    def __init__(
        self,
        values: Sequence[SSAValue],
        axes: Sequence[str],
        result_types: Sequence[Attribute],
        chunk: Region | None = None,
        combine: Region | None = None,
    ) -> None:
        """With no ``chunk`` or ``combine`` the op gets an empty block with its arguments."""
        if chunk is None:
            chunk = Region(Block(arg_types=[v.type for v in values]))
        if combine is None:
            combine = Region(Block(arg_types=[*result_types, *result_types]))
        super().__init__(
            operands=[values],
            properties={"axes": ArrayAttr(StringAttr(a) for a in axes)},
            regions=[chunk, combine],
            result_types=[result_types],
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the reduced axes."""
        return tuple(a.data for a in self.axes)

    # Text

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.values, printer.print_operand)
        printer.print_string(f" over [{', '.join(self.labels)}] chunk ")
        printer.print_region(self.chunk)
        printer.print_string(" combine ")
        printer.print_region(self.combine)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_list(self.values, lambda v: printer.print_attribute(v.type))
        printer.print_string(" -> ")
        printer.print_list(self.states, lambda v: printer.print_attribute(v.type))

    @classmethod
    def parse(cls, parser: Parser) -> ReduceTogetherOp:
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_unresolved_operand
        )
        parser.parse_keyword("over")
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
        parser.parse_keyword("chunk")
        chunk = parser.parse_region()
        parser.parse_keyword("combine")
        combine = parser.parse_region()
        extra = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        pos = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        op = cls(parser.resolve_operands(unresolved, types, pos), axes, results, chunk, combine)
        if extra is not None:
            op.attributes |= extra.data
        return op

    # Rules

    def verify_(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise VerifyException(
                f"a reduction is over one or more distinct axes, not over "
                f"[{', '.join(self.labels)}]"
            )
        types = [val_type(v) for v in self.values]
        for label in self.labels:
            if all(t.axis(label) is None for t in types):
                raise VerifyException(
                    f"the reduction is over {label}, which no operand has; name axes of the "
                    "operands"
                )
        results = [val_type(v) for v in self.states]
        for found in results:
            for label in self.labels:
                if found.axis(label) is not None:
                    raise VerifyException(
                        f"a state has the axes {axes_text(found.axes)}, and {label} is reduced"
                    )
        self._verify_block("chunk", self.chunk.block, types, results)
        self._verify_block("combine", self.combine.block, [*results, *results], results)

    @staticmethod
    def _verify_block(
        what: str, block: Block, takes: Sequence[ValType], gives: Sequence[ValType]
    ) -> None:
        def text(types: Sequence[Attribute]) -> str:
            return ", ".join(map(str, types)) or "nothing"

        found = [a.type for a in block.args]
        if found != list(takes):
            raise VerifyException(f"the {what} takes {text(takes)}, not {text(found)}")
        allowed = (*POINTWISE, ReduceOp) if what == "chunk" else POINTWISE
        for op in block.ops:
            if not isinstance(op, allowed):
                raise VerifyException(
                    f"the {what} holds {op.name}; it may hold "
                    + ", ".join(kind.name for kind in allowed)
                    + ", and takes other values as operands"
                )
        last = block.last_op
        if not isinstance(last, StateOp):
            raise VerifyException(f"the {what} ends with region.state")
        made = [v.type for v in last.values]
        if made != list(gives):
            raise VerifyException(f"the {what} gives {text(gives)}, not {text(made)}")
