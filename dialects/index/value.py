"""The op ``index.value``, one entry of the book; see ``polyc.dialects.index``."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition
from xdsl.parser import Parser
from xdsl.printer import Printer

from polyc.dialects.index.attrs import (
    INNER,
    AxisAttr,
    AxisKind,
    PieceAttr,
    axes_text,
    parse_axis,
    parse_piece,
    print_piece,
)
from polyc.dialects.index.entry import Entry, entry_of
from polyc.dialects.index.invariants import verify_entry


@irdl_op_definition
class ValueOp(Entry):
    """The index-book entry of one tiny value (S4.1); ``Entry`` says what it holds."""

    name = "index.value"

    def __init__(
        self,
        value: SSAValue,
        axes: Sequence[AxisAttr],
        pieces: Sequence[PieceAttr],
        reduced: Sequence[AxisAttr] = (),
        non_scop: bool = False,
        tuples: Sequence[int] | None = None,
        reason: str | None = None,
    ) -> None:
        """``tuples`` None is an axis a dimension; ``reason`` is of a ``non_scop`` value."""
        plain = tuples is None or all(count == 1 for count in tuples)
        super().__init__(
            operands=[value],
            properties={
                "axes": ArrayAttr(axes),
                "reduced": ArrayAttr(reduced),
                "pieces": ArrayAttr(pieces),
                "non_scop": UnitAttr() if non_scop else None,
                "reason": None if reason is None else StringAttr(reason),
                "tuples": None if plain else DenseArrayBase.from_list(i64, tuples or ()),
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> ValueOp:
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("axes")
        dimensions = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: _parse_dimension(parser)
        )
        axes = [axis for dimension in dimensions for axis in dimension]
        reduced: list[AxisAttr] = []
        for kind in INNER:
            if not reduced and parser.parse_optional_keyword(kind) is not None:
                reduced = _parse_axes(parser, kind)
        pieces: list[PieceAttr] = []
        non_scop = parser.parse_optional_keyword("non_scop") is not None
        reason = parser.parse_optional_str_literal() if non_scop else None
        if not non_scop:
            if parser.parse_optional_keyword("pieces") is not None:
                pieces = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: parse_piece(parser)
                )
            else:
                pieces = [parse_piece(parser)]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        value = parser.resolve_operand(operand, parser.parse_type())
        op = cls(value, axes, pieces, reduced, non_scop, [len(d) for d in dimensions], reason)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(f" axes [{', '.join(map(_dimension_text, self.by_dimension))}]")
        if self.reduced.data:
            kind = self.reduced.data[0].kind.data
            printer.print_string(f" {kind} {axes_text(self.reduced)}")
        if self.non_scop is not None:
            printer.print_string(" non_scop")
            if self.reason is not None:
                printer.print_string(" ")
                printer.print_string_literal(self.reason.data)
        elif len(self.pieces) == 1:
            printer.print_string(" ")
            print_piece(printer, self.pieces.data[0])
        else:
            printer.print_string(" pieces [")
            for i, piece in enumerate(self.pieces):
                if i:
                    printer.print_string(", ")
                print_piece(printer, piece)
            printer.print_string("]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.value.type)

    def verify_(self) -> None:
        verify_entry(self)


def _parse_axes(parser: Parser, kind: AxisKind) -> list[AxisAttr]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_axis(parser, kind)
    )


def _parse_dimension(parser: Parser) -> list[AxisAttr]:
    """An axis, or the axes of a tuple in parentheses."""
    start = parser.pos
    found = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN, lambda: parse_axis(parser, "iter")
    )
    if found is None:
        return [parse_axis(parser, "iter")]
    if len(found) < 2:
        parser.raise_error("a tuple has two axes or more", start, parser.pos)
    return found


def _dimension_text(axes: Sequence[AxisAttr]) -> str:
    text = ", ".join(a.text() for a in axes)
    return text if len(axes) == 1 else f"({text})"


def value_op(value: SSAValue) -> ValueOp | None:
    """The entry of ``value``, or None when it has none."""
    entry = entry_of(value)
    return entry if isinstance(entry, ValueOp) else None
