"""Attributes of the ``index`` dialect: axes, and pieces of a domain with their maps (S4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AffineSetAttr,
    ArrayAttr,
    FloatAttr,
    IntAttr,
    StringAttr,
    UnitAttr,
    f32,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.affine import isl
from polyc.dialects.common.dim import Dim, DimAttr, parse_dim
from polyc.dialects.common.elements import Number
from polyc.dialects.common.numbers import PlainAttr, number_text, parse_plain, plain_number

AxisKind = Literal["iter", "reduce", "gather", "scatter", "broadcast"]
KINDS: tuple[AxisKind, ...] = ("iter", "reduce", "gather", "scatter", "broadcast")
INNER: tuple[AxisKind, ...] = ("reduce", "gather", "scatter")
"""The kinds of axes that an op's operands have and its value has not."""

Fill = PlainAttr
"""The number that stands for an operand where it is not read; an integer's without a point."""

# Axes and pieces -----------------------------------------------------------------------


@irdl_attr_definition
class AxisAttr(ParametrizedAttribute):
    """One axis, ``#index.axis<i0(5): M>`` or ``#index.axis<i1(7): N broadcast>``.

    The number is the axis's id in its graph.  ``iter`` axes vary the value, a
    ``broadcast`` axis repeats it, a ``reduce`` axis is one that the value sums over, and of a
    ``gather`` axis it reads the one place that its data says, and of a ``scatter`` axis those whose
    updates are its own.
    """

    name = "index.axis"
    id: IntAttr
    label: StringAttr
    size: DimAttr
    kind: StringAttr

    @staticmethod
    def of(id: int, label: str, size: Dim | int | str, kind: AxisKind = "iter") -> AxisAttr:
        return AxisAttr(IntAttr(id), StringAttr(label), DimAttr(Dim.of(size)), StringAttr(kind))

    @property
    def number(self) -> int:
        """The axis's id."""
        return self.id.data

    @property
    def dim(self) -> Dim:
        """The axis's size."""
        return self.size.data

    @property
    def repeats(self) -> bool:
        """Whether the value is the same all along the axis."""
        return self.kind.data == "broadcast"

    def verify(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(
                f"{self.kind.data} is not a kind of axis; there are {', '.join(KINDS)}"
            )
        if self.id.data < 0:
            raise VerifyException(f"axis id {self.id.data} is negative")

    def text(self) -> str:
        """The axis as inside a list, where the list says whether it is reduced."""
        tail = " broadcast" if self.repeats else ""
        return f"{self.label.data}({self.number}): {self.dim}{tail}"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            axis = parse_axis(parser, "iter")
            for kind in INNER:
                if parser.parse_optional_keyword(kind) is not None:
                    axis = AxisAttr(axis.id, axis.label, axis.size, StringAttr(kind))
        return axis.parameters

    def print_parameters(self, printer: Printer) -> None:
        tail = f" {self.kind.data}" if self.kind.data in INNER else ""
        printer.print_string(f"<{self.text()}{tail}>")


def axes_text(axes: ArrayAttr[AxisAttr]) -> str:
    """Axes that are one a dimension, as in a list."""
    return "[" + ", ".join(a.text() for a in axes) + "]"


def parse_axis(parser: AttrParser, kind: AxisKind) -> AxisAttr:
    label = parser.parse_identifier(" for an axis, such as i0(5): M")
    with parser.in_parens():
        number = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation(":")
    size = parse_dim(parser)
    if kind == "iter" and parser.parse_optional_keyword("broadcast") is not None:
        kind = "broadcast"
    return AxisAttr.of(number, label, size, kind)


@irdl_attr_definition
class PieceAttr(ParametrizedAttribute):
    """A part of a value's domain and how each operand is read there.

    ``domain`` is an affine set over the value's axes, or unit for the whole box;
    ``inputs`` has an affine map or a fill for each operand of the tiny op.
    """

    name = "index.piece"
    domain: AffineSetAttr | UnitAttr
    inputs: ArrayAttr[AffineMapAttr | Fill]

    @staticmethod
    def of(inputs: Sequence[AffineMap | Number] = (), domain: AffineSet | None = None) -> PieceAttr:
        """``domain`` None is the box."""
        entries = [AffineMapAttr(i) if isinstance(i, AffineMap) else _fill(i) for i in inputs]
        return PieceAttr(
            UnitAttr() if domain is None else AffineSetAttr(domain),
            ArrayAttr(entries),
        )

    @property
    def is_box(self) -> bool:
        return isinstance(self.domain, UnitAttr)

    @property
    def entries(self) -> tuple[AffineMap | Number, ...]:
        """For each operand its map, or the number that fills it."""
        return tuple(
            i.data if isinstance(i, AffineMapAttr) else plain_number(i) for i in self.inputs
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return parse_piece(parser).parameters

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        print_piece(printer, self)
        printer.print_string(">")


def _fill(number: Number) -> Fill:
    return IntAttr(number) if isinstance(number, int) else FloatAttr(number, f32)


def parse_piece(parser: AttrParser) -> PieceAttr:
    domain: AffineSetAttr | UnitAttr = UnitAttr()
    if parser.parse_optional_keyword("box") is None:
        start = parser.pos
        found = parser.parse_attribute()
        if not isinstance(found, AffineSetAttr):
            parser.raise_error("expected box or an affine_set", start, parser.pos)
        domain = found
    inputs: list[AffineMapAttr | Fill] = []
    if parser.parse_optional_keyword("from") is not None:
        inputs = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: _parse_entry(parser)
        )
    return PieceAttr(domain, ArrayAttr(inputs))


def _parse_entry(parser: AttrParser) -> AffineMapAttr | Fill:
    if parser.parse_optional_keyword("fill") is not None:
        return parse_plain(parser)
    start = parser.pos
    found = parser.parse_attribute()
    if not isinstance(found, AffineMapAttr):
        parser.raise_error("expected an affine_map or a fill", start, parser.pos)
    return found


def print_piece(printer: Printer, piece: PieceAttr) -> None:
    if isinstance(piece.domain, UnitAttr):
        printer.print_string("box")
    else:
        printer.print_attribute(piece.domain)
    if not piece.inputs.data:
        return
    printer.print_string(" from [")
    for i, entry in enumerate(piece.inputs):
        if i:
            printer.print_string(", ")
        if isinstance(entry, AffineMapAttr):
            printer.print_attribute(entry)
        else:
            printer.print_string(f"fill {number_text(plain_number(entry))}")
    printer.print_string("]")


# Spaces --------------------------------------------------------------------------------


def box(sizes: Sequence[Dim], symbols: Sequence[str]) -> AffineSet:
    """The points ``0 <= d<i> < sizes[i]``; a size that multiplies symbols bounds nothing.

    Leaving such a bound out makes the set larger, so what is proved on it holds.
    """
    rows = bounds(sizes, symbols)
    return AffineSet(len(sizes), len(symbols), rows)


def bounds(
    sizes: Sequence[Dim], symbols: Sequence[str], first: int = 0
) -> tuple[AffineConstraintExpr, ...]:
    """The constraints of ``box`` on the dimensions from ``first`` on."""
    rows: list[AffineConstraintExpr] = []
    for i, size in enumerate(sizes, first):
        axis = AffineDimExpr(i)
        rows.append(at_least_zero(axis))
        bound = size.as_affine(symbols)
        if bound is not None:
            rows.append(at_least_zero(isl.canonical_expr(bound - axis - 1)))
    return tuple(rows)


def at_least_zero(expr: AffineExpr) -> AffineConstraintExpr:
    """``expr >= 0``, written as it is."""
    return AffineConstraintExpr(
        AffineConstraintKind.ge, expr, AffineConstantExpr(0), canonicalize=False
    )


def reduced_label(size: Dim, position: int, taken: Sequence[str]) -> str:
    """The name of a reduced axis: its symbol in lower case if that is free, else ``r<n>``."""
    text = str(size)
    name = text.lower()
    plain = size.constant() is None and (text,) == size.symbols()
    return name if plain and name not in taken and not _ordinal(name) else f"r{position}"


def _ordinal(name: str) -> bool:
    return name[:1] in ("i", "r") and name[1:].isdigit()
