"""What an ``index.value`` holds, for what reads it below the op itself (S4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

from xdsl.dialects.builtin import (
    AffineSetAttr,
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineDimExpr, AffineSet
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def

from polyc.affine import isl
from polyc.dialects import tiny
from polyc.dialects.common.signature import graph_of
from polyc.dialects.index.attrs import AxisAttr, PieceAttr, at_least_zero, bounds


class Entry(IRDLOperation):
    """The index-book entry of one tiny value (S4.1).

    ``axes`` are the value's, ``reduced`` those that its op reduces, with the ids that they had
    before (S4.4), the one that a scan goes along, or those of which a gather reads the place that
    its data says: any of them, as far as the maps know (S4.5).  ``pieces`` say how the operands are
    read; a leaf has one with no inputs.  ``non_scop`` marks a value whose access depends on data:
    it has no pieces and is a region boundary (S4.5).  ``reason`` says why, as one clause.

    A dimension whose size is a product of symbols may be a tuple of axes, one a factor,
    ``(i0(3): M, i1(4): N)`` for ``M * N``: maps then range over the factors (S4.7).
    ``tuples`` says how many axes each dimension has; it is there only where one has more
    than one.
    """

    value = operand_def()
    axes = prop_def(ArrayAttr[AxisAttr])
    reduced = prop_def(ArrayAttr[AxisAttr])
    pieces = prop_def(ArrayAttr[PieceAttr])
    non_scop = opt_prop_def(UnitAttr)
    reason = opt_prop_def(StringAttr)
    tuples = opt_prop_def(DenseArrayBase)

    @property
    def is_scop(self) -> bool:
        return self.non_scop is None

    @property
    def why_not_affine(self) -> str | None:
        """Why the access is not affine, as one clause, or None where it is (S4.5)."""
        if self.is_scop:
            return None
        return "it reads where its data says" if self.reason is None else self.reason.data

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

    @property
    def gathers(self) -> bool:
        """Whether the axes beside the value's are a gather's: of each it reads one place."""
        return any(axis.kind.data == "gather" for axis in self.reduced)

    def domain(self, piece: PieceAttr | None = None) -> AffineSet:
        """The points of the value's axes in ``piece``, or all of them."""
        return self._points(self.axes.data, piece)

    def iteration_domain(self, piece: PieceAttr | None = None) -> AffineSet:
        """``domain`` times the reduced axes: the points of the maps' dimensions.

        Of a scan these are a triangle: the places up to the element's own, or before it.
        """
        found = self._points(self.all_axes, piece)
        if (row := self._triangle()) is None:
            return found
        return AffineSet(found.num_dims, found.num_symbols, (*found.constraints, row))

    def _triangle(self) -> AffineConstraintExpr | None:
        """Which of the last dimension's places an element of a scan reads."""
        op = self.value.owner
        if not isinstance(op, tiny.ScanOp) or not self.is_scop:
            return None
        place = sum(self.counts[: op.axis])
        own, read = AffineDimExpr(place), AffineDimExpr(len(self.axes))
        ahead = read - own if op.is_reverse else own - read
        return at_least_zero(isl.canonical_expr(ahead - int(op.is_exclusive)))

    def _points(self, axes: Sequence[AxisAttr], piece: PieceAttr | None) -> AffineSet:
        symbols = self.symbol_names
        rows = bounds([a.dim for a in axes], symbols)
        if piece is not None and isinstance(piece.domain, AffineSetAttr):
            rows = (*rows, *piece.domain.data.constraints)
        return AffineSet(len(axes), len(symbols), rows)


def entry_of(value: SSAValue) -> Entry | None:
    """The entry of ``value``, or None when it has none."""
    for use in value.uses:
        if isinstance(use.operation, Entry):
            return use.operation
    return None
