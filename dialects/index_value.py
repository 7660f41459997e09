"""The op ``index.value`` and the seven invariants of an entry; see ``polyc.dialects.index``."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineSetAttr, ArrayAttr, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
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
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import tiny
from polyc.dialects.dim import AssumptionsAttr, Dim
from polyc.dialects.index_attrs import (
    AxisAttr,
    AxisKind,
    PieceAttr,
    bounds,
    box,
    parse_axis,
    parse_piece,
    print_piece,
)
from polyc.dialects.signature import SizedTensorType, graph_of, same_size
from polyc.poly import isl

MAX_PIECES = 64
"""Pieces that a domain may have before it is refused (S6.8 ExcessivePiecewise)."""


@irdl_op_definition
class ValueOp(IRDLOperation):
    """The index-book entry of one tiny value (S4.1).

    ``axes`` are the value's, ``reduced`` those that its op reduces, with the ids that
    they had before (S4.4).  ``pieces`` say how the operands are read; a leaf has one
    with no inputs.  ``non_scop`` marks a value whose access depends on data: it has no
    pieces and is a region boundary (S4.5).
    """

    name = "index.value"
    value = operand_def()
    axes = prop_def(ArrayAttr[AxisAttr])
    reduced = prop_def(ArrayAttr[AxisAttr])
    pieces = prop_def(ArrayAttr[PieceAttr])
    non_scop = opt_prop_def(UnitAttr)

    def __init__(
        self,
        value: SSAValue,
        axes: Sequence[AxisAttr],
        pieces: Sequence[PieceAttr],
        reduced: Sequence[AxisAttr] = (),
        non_scop: bool = False,
    ) -> None:
        super().__init__(
            operands=[value],
            properties={
                "axes": ArrayAttr(axes),
                "reduced": ArrayAttr(reduced),
                "pieces": ArrayAttr(pieces),
                "non_scop": UnitAttr() if non_scop else None,
            },
        )

    @property
    def is_scop(self) -> bool:
        return self.non_scop is None

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
        axes = _parse_axes(parser, "iter")
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
        op = cls(value, axes, pieces, reduced, non_scop)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(f" axes {_axes_text(self.axes)}")
        if self.reduced.data:
            printer.print_string(f" reduce {_axes_text(self.reduced)}")
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
        _verify_axes(self)
        _verify_scop(self)
        _verify_reduction(self)
        try:
            for piece in self.pieces:
                _verify_piece(self, piece)
            _verify_cover(self)
        except isl.IslLimitExceeded as error:
            raise VerifyException(f"{error}; use fewer pieces or simpler maps") from error


def _parse_axes(parser: Parser, kind: AxisKind) -> list[AxisAttr]:
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_axis(parser, kind)
    )


def _axes_text(axes: ArrayAttr[AxisAttr]) -> str:
    return "[" + ", ".join(a.text() for a in axes) + "]"


def value_op(value: SSAValue) -> ValueOp | None:
    """The entry of ``value``, or None when it has none."""
    for use in value.uses:
        if isinstance(use.operation, ValueOp):
            return use.operation
    return None


# The invariants ------------------------------------------------------------------------


def _verify_axes(op: ValueOp) -> None:
    """Invariant 2: names i0, i1, … in order; one entry a value, one axis a dimension."""
    t = op.value.type
    if not isinstance(t, SizedTensorType):
        raise VerifyException(f"index.value describes a tensor, not {t}")
    if sum(isinstance(use.operation, ValueOp) for use in op.value.uses) > 1:
        raise VerifyException("the value has two index.value ops; keep one")
    if len(op.axes) != t.rank:
        raise VerifyException(f"{len(op.axes)} axes for {t}, which has rank {t.rank}")
    for i, (axis, size) in enumerate(zip(op.axes, t.dims, strict=True)):
        if axis.label.data != f"i{i}":
            raise VerifyException(
                f"axis {i} is named {axis.label.data}; axes are named i0, i1, … in order, "
                f"so write i{i}"
            )
        if axis.kind.data == "reduce":
            raise VerifyException(f"axis i{i} of the value cannot be of kind reduce")
        if not same_size(axis.dim, size, op):
            raise VerifyException(f"axis i{i} has size {axis.dim}, the value's type {t} has {size}")
    for axis in op.reduced:
        if axis.kind.data != "reduce":
            raise VerifyException(f"reduced axis {axis.text()} is not of kind reduce")
        if axis.label.data[:1] == "i" and axis.label.data[1:].isdigit():
            raise VerifyException(
                f"reduced axis {axis.label.data} has the name of an axis of the value"
            )
    for what, names in (
        ("name", [a.label.data for a in op.all_axes]),
        ("id", [a.number for a in op.all_axes]),
    ):
        for i, name in enumerate(names):
            if name in names[:i]:
                raise VerifyException(f"two axes have the {what} {name}")


def _verify_scop(op: ValueOp) -> None:
    """Invariant 5: a value is non_scop, or has a piece with an entry for each operand."""
    if not op.is_scop:
        if op.pieces.data or op.reduced.data:
            raise VerifyException(
                "NonSCoP: a non_scop value has no affine maps; leave out its pieces and "
                "reduced axes, or drop non_scop"
            )
        return
    if not op.pieces.data:
        raise VerifyException("a value that is not non_scop has at least one piece")
    if len(op.pieces) > MAX_PIECES:
        raise VerifyException(
            f"ExcessivePiecewise: {len(op.pieces)} pieces, at most {MAX_PIECES}; "
            "simplify the domain"
        )
    wanted = len(op.operands_read)
    for piece in op.pieces:
        if len(piece.inputs) != wanted:
            raise VerifyException(
                f"{len(piece.inputs)} inputs for a value whose op reads {wanted} operands; "
                "give each a map or a fill"
            )


def _verify_piece(op: ValueOp, piece: PieceAttr) -> None:
    symbols = len(op.symbol_names)
    if isinstance(piece.domain, AffineSetAttr):
        domain = piece.domain.data
        _verify_space(op, domain, len(op.axes), symbols)
        for row in domain.constraints:
            for side in (row.lhs, row.rhs):
                _verify_expr(side, whole=False)
        _verify_unconditional(op, domain)
    for operand, entry in zip(op.operands_read, piece.entries, strict=True):
        if isinstance(entry, AffineMap):
            _verify_map(op, piece, operand, entry, symbols)


def _verify_space(op: ValueOp, of: AffineMap | AffineSet, dims: int, symbols: int) -> None:
    """S4.8: symbols are those of the signature, in order."""
    if of.num_dims != dims:
        raise VerifyException(
            f"{of} has {of.num_dims} dimensions; it takes {dims}, the value's axes"
            + (" and then its reduced axes" if isinstance(of, AffineMap) else "")
        )
    if of.num_symbols != symbols:
        raise VerifyException(
            f"{of} has {of.num_symbols} symbols; the signature has {symbols}: "
            f"{', '.join(op.symbol_names) or 'none'}"
        )


def _verify_expr(expr: AffineExpr, whole: bool = True) -> None:
    """Invariants 1 and 6: affine and floordiv, positive denominators, lowest terms.

    ``whole`` asks for the canonical spelling of the expression too (invariant 7).
    """
    for part in expr.dfs():
        if not isinstance(part, AffineBinaryOpExpr):
            continue
        kind = part.kind
        if kind in (AffineBinaryOpKind.Mod, AffineBinaryOpKind.CeilDiv):
            way = "e - q * (e floordiv q)" if kind is AffineBinaryOpKind.Mod else "floordiv"
            raise VerifyException(
                f"MissingDivGuard: {kind.get_token()} is left in {part}; write it as {way}"
            )
        if kind is not AffineBinaryOpKind.FloorDiv:
            continue
        if not isinstance(part.rhs, AffineConstantExpr) or part.rhs.value <= 0:
            raise VerifyException(
                f"the denominator of {part} is {part.rhs}; it is a positive integer"
            )
        if (lowest := isl.canonical_expr(part)) != part:
            raise VerifyException(f"{part} is not in lowest terms; write {lowest}")
    if whole and (simple := isl.canonical_expr(expr)) != expr:
        raise VerifyException(f"{expr} is not simplified; write {simple}")


def _verify_unconditional(op: ValueOp, domain: AffineSet) -> None:
    """Invariant 3: no condition on a broadcast axis."""
    whole = op.domain()
    for row in domain.constraints:
        for i, axis in enumerate(op.axes):
            if axis.repeats and isl.uses_dim(row.lhs - row.rhs, i):
                alone = AffineSet(domain.num_dims, domain.num_symbols, (row,))
                if not isl.implies(whole, alone):
                    raise VerifyException(
                        f"the condition {row} is on the broadcast axis i{i}; a broadcast is "
                        "the constant 0 in the map, never a condition"
                    )


def _verify_map(
    op: ValueOp, piece: PieceAttr, operand: SSAValue, map: AffineMap, symbols: int
) -> None:
    _verify_space(op, map, len(op.all_axes), symbols)
    t = operand.type
    if not isinstance(t, SizedTensorType):
        raise VerifyException(f"{map} reads {t}, which is not a tensor")
    if len(map.results) != t.rank:
        raise VerifyException(f"{map} has {len(map.results)} results for {t} of rank {t.rank}")
    entry = value_op(operand)
    inside = True
    for i, expr in enumerate(map.results):
        _verify_expr(expr)
        spread = [d for d, a in enumerate(op.axes) if a.repeats and isl.uses_dim(expr, d)]
        if spread and not (entry is not None and entry.axes.data[i].repeats):
            raise VerifyException(
                f"result {i} of {map} varies with the broadcast axis i{spread[0]}; a "
                "broadcast is the constant 0"
            )
        inside &= _plainly_inside(op, expr, t.dims[i])
    if inside:
        return
    domain = op.iteration_domain(piece)
    graph = graph_of(op)
    facts = AssumptionsAttr(() if graph is None else graph.facts).as_affine_set(op.symbol_names)
    domain = AffineSet(
        domain.num_dims, domain.num_symbols, (*domain.constraints, *facts.constraints)
    )
    if not isl.image_within(map, domain, box(t.dims, op.symbol_names)):
        raise VerifyException(
            f"UnguardedAccess: {map} leaves its operand {t} somewhere on the domain; guard "
            "it by a piece with a fill, or correct the map"
        )


def _plainly_inside(op: ValueOp, expr: AffineExpr, size: Dim) -> bool:
    """Whether a coordinate is inside ``[0, size)`` at first sight."""
    if isinstance(expr, AffineDimExpr):
        return op.all_axes[expr.position].dim == size
    limit = size.constant()
    return isinstance(expr, AffineConstantExpr) and limit is not None and 0 <= expr.value < limit


def _verify_reduction(op: ValueOp) -> None:
    """Invariant 4: a reduced axis is removed from the value and recorded by its id."""
    owner = op.value.owner
    if not isinstance(owner, tiny.ReduceOp):
        if op.reduced.data:
            raise VerifyException(
                f"the value reduces {_axes_text(op.reduced)}, but its op is no tiny.reduce"
            )
        return
    if not op.is_scop:
        return
    axes = owner.axes
    if len(op.reduced) != len(axes):
        raise VerifyException(
            f"the op reduces {len(axes)} axes, the entry records {len(op.reduced)}; record "
            "each reduced axis by the id that it had"
        )
    entry = value_op(owner.operand)
    if entry is None:
        return
    before = [a.number for a in entry.axes]
    removed = [before[a] for a in axes]
    if list(op.reduce_axes) != removed:
        raise VerifyException(
            f"the op removes the axes with ids {removed}, the entry records {list(op.reduce_axes)}"
        )
    kept = [n for n in before if n not in removed]
    if [a.number for a in op.axes] != kept:
        raise VerifyException(
            f"the axes that remain keep their ids {kept}, not {[a.number for a in op.axes]}"
        )


def _verify_cover(op: ValueOp) -> None:
    """Invariant 7 and S4.1: pieces are disjoint, not empty, and cover the box."""
    pieces = op.pieces.data
    if len(pieces) == 1 and pieces[0].is_box:
        return
    if not op.is_scop:
        return
    domains = [op.domain(p) for p in pieces]
    for i, domain in enumerate(domains):
        if isl.is_empty(domain):
            raise VerifyException(f"piece {i} holds no point; leave it out")
        for j, other in enumerate(domains[:i]):
            if not isl.sets_disjoint(domain, other):
                raise VerifyException(
                    f"pieces {j} and {i} overlap; the pieces of a domain are disjoint"
                )
    if not isl.covers(op.domain(), tuple(domains)):
        raise VerifyException(
            "the pieces do not cover the box of the axes; add a piece with a fill for the rest"
        )
