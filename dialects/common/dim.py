"""The syntax of dimension expressions, and the attributes that carry them in IR.

* ``DimAttr``          one size, ``M`` or ``(H - 1) floordiv 2 + 1``
* ``ShapeAttr``        a list of sizes, ``[M, K]``
* ``AssumptionsAttr``  facts about the symbols, ``(K mod 8 == 0, M >= 1)`` (S2.1)

The expressions themselves are ``polyc.dialects.common.size_expr``'s, whose names are here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from xdsl.ir import Data, Dialect
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineSet,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from polyc.dialects.common.size_expr import MAX_SIZE as MAX_SIZE
from polyc.dialects.common.size_expr import Assumption as Assumption
from polyc.dialects.common.size_expr import Dim as Dim
from polyc.dialects.common.size_expr import DivAtom as DivAtom
from polyc.dialects.common.size_expr import Shape as Shape
from polyc.dialects.common.size_expr import shape_text as shape_text
from polyc.dialects.common.size_expr import unknown_symbol as unknown_symbol

if TYPE_CHECKING:
    from typing import Self

# Parsing and printing ------------------------------------------------------------------


MAX_NESTING = 64
"""Parentheses and quotients inside of each other in one size expression."""


def parse_dim(parser: AttrParser, depth: int = 0) -> Dim:
    """Parse ``term (('+' | '-') term)*``, inside of ``depth`` parentheses and quotients.

    A term is a product of factors; ``floordiv``, ``ceildiv`` and ``mod`` stand at the
    level of ``*`` and associate to the left, as in affine expressions.
    """
    terms = [*_parse_term(parser, depth).terms]
    while True:
        if parser.parse_optional_punctuation("+") is not None:
            terms += _parse_term(parser, depth).terms
        elif parser.parse_optional_punctuation("-") is not None:
            terms += (-_parse_term(parser, depth)).terms
        else:
            return Dim.of_terms(terms)


def parse_constant(parser: AttrParser, what: str) -> int:
    """Parse an integer, ``what`` saying of what: "an axis of a permute".

    An expression of symbols is ``NotConstant``: of a stride or a dilation no index map is affine
    (S3.3), and an axis is no size.
    """
    start = parser.pos
    found = parse_dim(parser)
    if (value := found.constant()) is None:
        affine = any(word in what for word in ("stride", "dilation"))
        parser.raise_error(
            f"NotConstant: {found} is symbolic, and {what} is a number"
            + (": a symbolic one is not affine" if affine else ""),
            start,
            parser.pos,
        )
    return value


def _deeper(parser: AttrParser, depth: int) -> int:
    """One level more; a ParseError at the parser's place where that is too many."""
    if depth >= MAX_NESTING:
        parser.raise_error(
            f"NestedTooDeep: a size expression has more than {MAX_NESTING} parentheses and "
            "quotients inside of each other; write it flat, or give a part a symbol of its own"
        )
    return depth + 1


def _parse_term(parser: AttrParser, depth: int) -> Dim:
    value = _parse_factor(parser, depth)
    while True:
        if parser.parse_optional_punctuation("*") is not None:
            value = value * _parse_factor(parser, depth)
            continue
        for word in ("floordiv", "ceildiv", "mod"):
            if parser.parse_optional_keyword(word) is not None:
                depth = _deeper(parser, depth)
                pos = parser.pos
                factor = _parse_factor(parser, depth)
                den = factor.constant()
                reason = f"the right side of {word} is a positive integer constant"
                if den is None:
                    parser.raise_error(
                        f"NonSCoP: {reason}; to divide by {factor} is not affine", pos
                    )
                if den <= 0:
                    parser.raise_error(reason, pos)
                if word == "floordiv":
                    value = value.floordiv(den)
                else:
                    value = value.ceildiv(den) if word == "ceildiv" else value.mod(den)
                break
        else:
            return value


def _parse_factor(parser: AttrParser, depth: int) -> Dim:
    if parser.parse_optional_punctuation("-") is not None:
        return -_parse_factor(parser, _deeper(parser, depth))
    if parser.parse_optional_punctuation("(") is not None:
        value = parse_dim(parser, _deeper(parser, depth))
        parser.parse_punctuation(")")
        return value
    if (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return Dim.const(number)
    if (name := parser.parse_optional_identifier()) is not None:
        return Dim.sym(name)
    parser.raise_error("expected a size: an integer, a symbol or an expression of them")


def parse_shape(parser: AttrParser) -> Shape:
    """Parse ``[dim, dim, …]``."""
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_dim(parser))
    )


def parse_assumption(parser: AttrParser) -> Assumption:
    """Parse ``dim (== | >= | <= | > | <) dim``."""
    lhs = parse_dim(parser)
    if parser.parse_optional_punctuation("=") is not None:
        parser.parse_punctuation("=")
        return Assumption(lhs - parse_dim(parser), "==")
    if parser.parse_optional_punctuation(">") is not None:
        strict = parser.parse_optional_punctuation("=") is None
        return Assumption(lhs - parse_dim(parser) - int(strict), ">=")
    if parser.parse_optional_punctuation("<") is not None:
        strict = parser.parse_optional_punctuation("=") is None
        return Assumption(parse_dim(parser) - lhs - int(strict), ">=")
    parser.raise_error("expected ==, >=, <=, > or < in an assumption")


def parse_assumptions(parser: AttrParser) -> tuple[Assumption, ...]:
    """Parse ``(assumption, …)``."""
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_assumption(parser))
    )


@irdl_attr_definition
class DimAttr(Data[Dim]):
    """One size expression, ``#polyc.dim<M + 1>``."""

    name = "polyc.dim"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Dim:
        with parser.in_angle_brackets():
            return parse_dim(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class ShapeAttr(Data[Shape]):
    """A list of size expressions, ``#polyc.shape<[M, K]>``; rank 0 is ``[]``."""

    name = "polyc.shape"

    @classmethod
    def of(cls, dims: Iterable[Dim | int | str]) -> Self:
        return cls(tuple(Dim.of(d) for d in dims))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Shape:
        with parser.in_angle_brackets():
            return parse_shape(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{shape_text(self.data)}>")


@irdl_attr_definition
class AssumptionsAttr(Data[tuple[Assumption, ...]]):
    """Facts about the symbols of a graph, ``#polyc.assumptions<(K mod 8 == 0)>`` (S2.1)."""

    name = "polyc.assumptions"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Assumption, ...]:
        with parser.in_angle_brackets():
            return parse_assumptions(parser)

    def text(self) -> str:
        return "(" + ", ".join(map(str, self.data)) + ")"

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text()}>")

    def as_affine_set(self, symbols: Sequence[str]) -> AffineSet:
        """The affine facts as a set of the symbols' space; facts that are not affine drop out."""
        constraints: list[AffineConstraintExpr] = []
        for fact in self.data:
            expr = fact.expr.as_affine(symbols)
            if expr is not None:
                kind = AffineConstraintKind.eq if fact.kind == "==" else AffineConstraintKind.ge
                constraints.append(AffineConstraintExpr(kind, expr, AffineConstantExpr(0)))
        return AffineSet(0, len(symbols), tuple(constraints))


PolycCommon = Dialect("polyc", [], [DimAttr, ShapeAttr, AssumptionsAttr])
"""The attributes that the six dialects share; it has no ops."""
