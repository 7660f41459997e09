"""The attributes that carry dimension expressions in IR.

* ``DimAttr``          one size, ``M`` or ``(H - 1) floordiv 2 + 1``
* ``ShapeAttr``        a list of sizes, ``[M, K]``
* ``AssumptionsAttr``  facts about the symbols, ``(K mod 8 == 0, M >= 1)`` (S2.1)

The expressions are ``polyc.dialects.common.size_expr``'s, and their syntax ``size_text``'s; the
names of both are here too.
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
from polyc.dialects.common.size_text import MAX_NESTING as MAX_NESTING
from polyc.dialects.common.size_text import parse_assumption as parse_assumption
from polyc.dialects.common.size_text import parse_assumptions as parse_assumptions
from polyc.dialects.common.size_text import parse_constant as parse_constant
from polyc.dialects.common.size_text import parse_dim as parse_dim
from polyc.dialects.common.size_text import parse_shape as parse_shape

if TYPE_CHECKING:
    from typing import Self


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
