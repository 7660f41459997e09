"""What the index rules share: fresh axis ids, and an op's entry in the book (S4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from polyc.dialects import tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.signature import graph_of
from polyc.dialects.index import AxisAttr, AxisKind, PieceAttr, ValueOp, book, value_op
from polyc.rewriting.driver import located


@dataclass
class Numbering:
    """Fresh axis ids, counted in each graph from the largest id that it has."""

    last: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def fresh(self, at: Operation) -> int:
        """The next id of the graph around ``at``."""
        graph = at if isinstance(at, tiny.GraphOp) else graph_of(at)
        if graph is None:
            raise PolycError(
                "UnsupportedProgram", f"{at.name} is in no graph; the book is a graph's", at
            )
        if graph not in self.last:
            entries = book(graph).values()
            self.last[graph] = max((a.number for e in entries for a in e.all_axes), default=-1)
        self.last[graph] += 1
        return self.last[graph]


@dataclass
class IndexRule(RewritePattern):
    """Base of the rules: one entry for each value that has none.

    Legal for every op: an entry only describes, and what is put before an op is a reshape to
    the same shape, or two that undo each other.  ``numbering`` is shared by the rules
    of one run.
    """

    numbering: Numbering = field(default_factory=Numbering)

    def axes(
        self, at: Operation, sizes: Sequence[Dim], kinds: Sequence[AxisKind] | None = None
    ) -> list[AxisAttr]:
        """New axes with fresh ids, named i0, i1, … ."""
        return [
            AxisAttr.of(
                self.numbering.fresh(at), f"i{i}", size, "iter" if kinds is None else kinds[i]
            )
            for i, size in enumerate(sizes)
        ]


def symbol_names(op: Operation) -> tuple[str, ...]:
    """The symbols of the signature of the graph around ``op``."""
    graph = graph_of(op)
    return () if graph is None else graph.symbol_names


def symbol_count(op: Operation) -> int:
    """How many symbols maps at ``op`` have."""
    return len(symbol_names(op))


def not_affine(rule: IndexRule, op: Operation, reason: str, rewriter: PatternRewriter) -> None:
    """Record that the op's value is a boundary, and why (S4.5)."""
    sizes = tiny.tensor_of(op.results[0]).dims
    entry = ValueOp(op.results[0], rule.axes(op, sizes), [], non_scop=True, reason=reason)
    rewriter.insert(entry, InsertPoint.after(op))


def as_memory(
    rule: IndexRule, op: Operation, position: int, reason: str, rewriter: PatternRewriter
) -> ValueOp:
    """Let ``op`` read an operand as it lies in memory, one axis a dimension; its entry.

    Where a map would have to divide by a symbol, the operand is a boundary: a reshape to its
    own shape stands for the view of what is stored, with the reason in its entry (S4.7).
    """
    operand = op.operands[position]
    view = tiny.ReshapeOp(operand, tiny.tensor_of(operand).dims)
    rewriter.insert(located(view, op), InsertPoint.before(op))
    not_affine(rule, view, reason, rewriter)
    op.operands[position] = view.result
    return entry_of(view.result, op)


def product_text(axes: Sequence[AxisAttr]) -> str:
    """The factors of a tuple of axes, for a reason: ``M x N``."""
    return " x ".join(str(a.dim) for a in axes)


def map_to(op: Operation, dims: int, results: Sequence[int | None]) -> AffineMap:
    """A map to dimensions, None being the constant 0."""
    exprs: list[AffineExpr] = [
        AffineConstantExpr(0) if r is None else AffineDimExpr(r) for r in results
    ]
    return AffineMap(dims, symbol_count(op), tuple(exprs))


def resized(axes: Sequence[AxisAttr], size: Dim) -> list[AxisAttr]:
    """A dimension's axes where its size is spelled ``size``; a tuple keeps its factors."""
    if len(axes) > 1 or axes[0].dim == size:
        return list(axes)
    kind: AxisKind = "broadcast" if axes[0].repeats else "iter"
    return [AxisAttr.of(axes[0].number, axes[0].label.data, size, kind)]


@dataclass(frozen=True)
class Placed:
    """The dimensions of a value as tuples of axes, in one line of dimensions of maps (S4.7)."""

    axes: tuple[AxisAttr, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(dimensions: Sequence[Sequence[AxisAttr]]) -> Placed:
        """The axes keep their ids and kinds, and are named i0, i1, … in order (S4.4)."""
        flat = [axis for dimension in dimensions for axis in dimension]
        axes = [
            a
            if a.label.data == (label := f"i{i}")
            else AxisAttr.of(a.number, label, a.dim, "broadcast" if a.repeats else "iter")
            for i, a in enumerate(flat)
        ]
        return Placed(tuple(axes), tuple(map(len, dimensions)))

    def __getitem__(self, dimension: int) -> list[int]:
        """The dimensions of maps that stand for a dimension of the value."""
        first = sum(self.counts[:dimension])
        return list(range(first, first + self.counts[dimension]))

    @property
    def sizes(self) -> list[Dim]:
        return [a.dim for a in self.axes]


def entry_of(operand: SSAValue, op: Operation) -> ValueOp:
    """The entry of an operand; raises PolycError where its rule has not run."""
    entry = value_op(operand)
    if entry is None:
        raise PolycError(
            "InvalidIR", f"an operand of {op.name} has no index.value before its use", op
        )
    return entry


def write(
    rewriter: PatternRewriter,
    op: Operation,
    placed: Placed,
    maps: Sequence[AffineMap],
    reduced: Sequence[AxisAttr] = (),
) -> None:
    """Put the entry of an op that reads its operands in one way behind it."""
    write_pieces(rewriter, op, placed, [PieceAttr.of(maps)], reduced)


def write_pieces(
    rewriter: PatternRewriter,
    op: Operation,
    placed: Placed,
    pieces: Sequence[PieceAttr],
    reduced: Sequence[AxisAttr] = (),
) -> None:
    """Put an op's entry behind it."""
    entry = ValueOp(op.results[0], placed.axes, pieces, reduced, tuples=placed.counts)
    rewriter.insert(entry, InsertPoint.after(op))


def done(op: Operation) -> bool:
    """Whether the op's value has its entry."""
    return value_op(op.results[0]) is not None
