"""The op ``index.value``, one entry of the book; see ``polyc.dialects.index``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, cast

from xdsl.dialects.builtin import (
    AffineSetAttr,
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    UnitAttr,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineSet,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

from polyc.dialects.common.signature import graph_of
from polyc.dialects.index.attrs import (
    AxisAttr,
    AxisKind,
    PieceAttr,
    bounds,
    parse_axis,
    parse_piece,
    print_piece,
)


@irdl_op_definition
class ValueOp(IRDLOperation):
    """The index-book entry of one tiny value (S4.1).

    ``axes`` are the value's, ``reduced`` those that its op reduces, with the ids that
    they had before (S4.4).  ``pieces`` say how the operands are read; a leaf has one
    with no inputs.  ``non_scop`` marks a value whose access depends on data: it has no
    pieces and is a region boundary (S4.5).

    A dimension whose size is a product of symbols may be a tuple of axes, one a factor,
    ``(i0(3): M, i1(4): N)`` for ``M * N``: maps then range over the factors (S4.7).
    ``tuples`` says how many axes each dimension has; it is there only where one has more
    than one.
    """

    name = "index.value"
    value = operand_def()
    axes = prop_def(ArrayAttr[AxisAttr])
    reduced = prop_def(ArrayAttr[AxisAttr])
    pieces = prop_def(ArrayAttr[PieceAttr])
    non_scop = opt_prop_def(UnitAttr)
    tuples = opt_prop_def(DenseArrayBase)

    def __init__(
        self,
        value: SSAValue,
        axes: Sequence[AxisAttr],
        pieces: Sequence[PieceAttr],
        reduced: Sequence[AxisAttr] = (),
        non_scop: bool = False,
        tuples: Sequence[int] | None = None,
    ) -> None:
        """``tuples`` None is an axis a dimension."""
        plain = tuples is None or all(count == 1 for count in tuples)
        super().__init__(
            operands=[value],
            properties={
                "axes": ArrayAttr(axes),
                "reduced": ArrayAttr(reduced),
                "pieces": ArrayAttr(pieces),
                "non_scop": UnitAttr() if non_scop else None,
                "tuples": None if plain else DenseArrayBase.from_list(i64, tuples or ()),
            },
        )

    @property
    def is_scop(self) -> bool:
        return self.non_scop is None

    @property
    def is_plain(self) -> bool:
        """Whether every dimension of the value is one axis."""
        return self.tuples is None

    @property
    def counts(self) -> tuple[int, ...]:
        """How many axes each dimension of the value has."""
        if self.tuples is None:
            return (1,) * len(self.axes)
        return cast("DenseArrayBase[IntegerType]", self.tuples).get_values()

    @property
    def by_dimension(self) -> tuple[tuple[AxisAttr, ...], ...]:
        """The axes of each dimension of the value, outermost first."""
        axes = iter(self.axes)
        return tuple(tuple(islice(axes, count)) for count in self.counts)

    @property
    def reduce_axes(self) -> tuple[int, ...]:
        """The ids of the reduced axes."""
        return tuple(a.number for a in self.reduced)

    @property
    def all_axes(self) -> tuple[AxisAttr, ...]:
        """The dimensions of the maps: the value's axes, then the reduced ones."""
        return (*self.axes, *self.reduced)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols of the graph around."""
        graph = graph_of(self)
        return () if graph is None else graph.symbol_names

    @property
    def operands_read(self) -> tuple[SSAValue, ...]:
        """The operands of the tiny op, which the inputs of a piece speak of."""
        owner = self.value.owner
        return tuple(owner.operands) if isinstance(owner, Operation) else ()

    def domain(self, piece: PieceAttr | None = None) -> AffineSet:
        """The points of the value's axes in ``piece``, or all of them."""
        return self._points(self.axes.data, piece)

    def iteration_domain(self, piece: PieceAttr | None = None) -> AffineSet:
        """``domain`` times the reduced axes: the points of the maps' dimensions."""
        return self._points(self.all_axes, piece)

    def _points(self, axes: Sequence[AxisAttr], piece: PieceAttr | None) -> AffineSet:
        symbols = self.symbol_names
        rows = bounds([a.dim for a in axes], symbols)
        if piece is not None and isinstance(piece.domain, AffineSetAttr):
            rows = (*rows, *piece.domain.data.constraints)
        return AffineSet(len(axes), len(symbols), rows)

    @classmethod
    def parse(cls, parser: Parser) -> ValueOp:
        operand = parser.parse_unresolved_operand()
        parser.parse_keyword("axes")
        dimensions = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: _parse_dimension(parser)
        )
        axes = [axis for dimension in dimensions for axis in dimension]
        reduced: list[AxisAttr] = []
        if parser.parse_optional_keyword("reduce") is not None:
            reduced = _parse_axes(parser, "reduce")
        pieces: list[PieceAttr] = []
        non_scop = parser.parse_optional_keyword("non_scop") is not None
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
        op = cls(value, axes, pieces, reduced, non_scop, [len(d) for d in dimensions])
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(f" axes [{', '.join(map(_dimension_text, self.by_dimension))}]")
        if self.reduced.data:
            printer.print_string(f" reduce {axes_text(self.reduced)}")
        if self.non_scop is not None:
            printer.print_string(" non_scop")
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
        from polyc.dialects.index.invariants import verify_entry

        verify_entry(cast(Any, self))  # the two modules know each other


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


def axes_text(axes: ArrayAttr[AxisAttr]) -> str:
    """Axes that are one a dimension, as in a list."""
    return "[" + ", ".join(a.text() for a in axes) + "]"


def value_op(value: SSAValue) -> ValueOp | None:
    """The entry of ``value``, or None when it has none."""
    for use in value.uses:
        if isinstance(use.operation, ValueOp):
            return use.operation
    return None
