"""Tile level: CTAs of one grid tell each other numbers through words in global memory (T3).

A post is a number and the mark that it is there in one word of 64 bits, so that who waits for it
has it with one read, and nobody need wait for more than he takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import parse_constant
from polyc.dialects.gpu.hardware.checks import verify_indices, verify_posted, verify_posts
from polyc.dialects.gpu.tile.compute import REDUCTIONS
from polyc.dialects.gpu.types import FragmentType, GlobalType


def _verify(fragment: SSAValue, words: SSAValue, indices: Sequence[SSAValue]) -> FragmentType:
    """Refuse a fragment that does not lie in the words from ``indices`` on."""
    kind = fragment.type
    assert isinstance(kind, FragmentType) and isinstance(words.type, GlobalType)
    verify_posts(words)
    verify_posted(kind.element_type)
    verify_indices(words, indices)
    if len(kind.sizes) != len(words.type.dims):
        raise VerifyException(
            f"posts of {kind} lie in words of as many axes, and {words.type} has "
            f"{len(words.type.dims)}"
        )
    return kind


@irdl_op_definition
class PostOp(IRDLOperation):
    """Post each element of a fragment in the word at its place, from ``indices`` on.

    ``words`` is a ``zeroed`` workspace of i64, and has a word for each element; each is posted once
    in a launch.  What the CTA did before does not go with a post.
    """

    name = "gpu.post"
    fragment = operand_def(base(FragmentType))
    words = operand_def(base(GlobalType))
    indices = var_operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$fragment `to` $words `[` $indices `]` attr-dict `:` type($fragment) `,` type($words)"
    )

    def __init__(self, fragment: SSAValue, words: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[fragment, words, list(indices)])

    def verify_(self) -> None:
        _verify(self.fragment, self.words, self.indices)


@irdl_op_definition
class AwaitPostsOp(IRDLOperation):
    """Wait for words, from ``indices`` on, that are before ``count`` along an axis, and take them.

    ``gpu.await_posts sum %words[%i, %j] axis 1 until %count to %f``: an element of the fragment at
    ``count`` or beyond is what a ``sum`` over nothing is.  Which words are taken does not depend on
    which are there by then.  Only CTAs that run at once may wait for each other: the kernel's
    launches are ``cooperative``.
    """

    name = "gpu.await_posts"
    kind = prop_def(StringAttr)
    axis_attr = prop_def(IntegerAttr, prop_name="axis")
    words = operand_def(base(GlobalType))
    indices = var_operand_def(IndexType)
    count = operand_def(IndexType)
    fragment = operand_def(base(FragmentType))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        kind: str,
        words: SSAValue,
        indices: Sequence[SSAValue],
        axis: int,
        count: SSAValue,
        fragment: SSAValue,
    ) -> None:
        super().__init__(
            operands=[words, list(indices), count, fragment],
            properties={"kind": StringAttr(kind), "axis": IntegerAttr(axis, i64)},
        )

    @property
    def axis(self) -> int:
        """The axis of the fragment along which words are counted."""
        return self.axis_attr.value.data

    @classmethod
    def parse(cls, parser: Parser) -> AwaitPostsOp:
        kind = parser.parse_identifier()
        words = parser.parse_unresolved_operand()
        square = parser.Delimiter.SQUARE
        places = parser.parse_comma_separated_list(square, parser.parse_unresolved_operand)
        indices = [parser.resolve_operand(place, IndexType()) for place in places]
        parser.parse_keyword("axis")
        axis = parse_constant(parser, "the axis of posts")
        parser.parse_keyword("until")
        count = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
        parser.parse_keyword("to")
        fragment = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kinds = [parser.parse_type()]
        parser.parse_punctuation(",")
        kinds.append(parser.parse_type())
        ends = parser.resolve_operands([words, fragment], kinds, parser.pos)
        op = cls(kind, ends[0], indices, axis, count, ends[1])
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_ssa_value(self.words)
        printer.print_string("[")
        printer.print_list(self.indices, printer.print_ssa_value)
        printer.print_string(f"] axis {self.axis} until ")
        printer.print_ssa_value(self.count)
        printer.print_string(" to ")
        printer.print_ssa_value(self.fragment)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list((self.words.type, self.fragment.type), printer.print_attribute)

    def verify_(self) -> None:
        kind = _verify(self.fragment, self.words, self.indices)
        if self.kind.data not in REDUCTIONS:
            raise VerifyException(
                f'posts are awaited for a {", ".join(REDUCTIONS)}, not for "{self.kind.data}"'
            )
        if not 0 <= self.axis < len(kind.sizes):
            raise VerifyException(
                f"axis {self.axis} of posts is none of {kind}, which has {len(kind.sizes)}"
            )
