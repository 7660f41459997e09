"""``tiny-to-index``: write the index book of a tiny graph (S4.7).

One rule an op gives each value its axes, its domain and its access maps, from the
entries of its operands; the tiny ops stay as they are.  Rules run in the order of the
text, so an operand's entry is there before its user's.  Ids count up through a graph
and go where an axis goes: a unary, a cast, a permute and what an expand or a reduce
keeps have the operand's ids; leaves, new axes of an expand and results of binary ops
and selects have fresh ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from polyc.dialects import tiny
from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import Dim
from polyc.dialects.index import (
    AxisAttr,
    AxisKind,
    PieceAttr,
    ValueOp,
    book,
    reduced_label,
    value_op,
)
from polyc.dialects.signature import graph_of
from polyc.passes.driver import rewrite


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

    Legal for every op: an entry only describes.  ``numbering`` is shared by the rules
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


def _symbols(op: Operation) -> int:
    graph = graph_of(op)
    return 0 if graph is None else len(graph.symbol_names)


def _map(op: Operation, dims: int, results: Sequence[int | None]) -> AffineMap:
    """A map to dimensions, None being the constant 0."""
    exprs: list[AffineExpr] = [
        AffineConstantExpr(0) if r is None else AffineDimExpr(r) for r in results
    ]
    return AffineMap(dims, _symbols(op), tuple(exprs))


def _renamed(axis: AxisAttr, position: int, size: Dim, kind: AxisKind | None = None) -> AxisAttr:
    """``axis`` with its id, at another position of another value (S4.4)."""
    if kind is None:
        kind = "broadcast" if axis.repeats else "iter"
    return AxisAttr.of(axis.number, f"i{position}", size, kind)


def _entry(operand: SSAValue, op: Operation) -> ValueOp:
    entry = value_op(operand)
    if entry is None:
        raise PolycError(
            "InvalidIR", f"an operand of {op.name} has no index.value before its use", op
        )
    return entry


def _write(
    rewriter: PatternRewriter,
    op: Operation,
    axes: Sequence[AxisAttr],
    maps: Sequence[AffineMap],
    reduced: Sequence[AxisAttr] = (),
) -> None:
    entry = ValueOp(op.results[0], axes, [PieceAttr.of(maps)], reduced)
    rewriter.insert(entry, InsertPoint.after(op))


def _done(op: Operation) -> bool:
    return value_op(op.results[0]) is not None


class IndexLeaves(IndexRule):
    """An argument of the graph: an axis a dimension, the box as domain, no inputs."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.GraphOp, rewriter: PatternRewriter) -> None:
        entries: list[ValueOp] = []
        for leaf in op.body.block.args:
            t = leaf.type
            if isinstance(t, tiny.TensorType) and value_op(leaf) is None:
                axes = self.axes(op, t.dims)
                entries.append(ValueOp(leaf, axes, [PieceAttr.of()]))
        if entries:
            rewriter.insert(entries, InsertPoint.at_start(op.body.block))


class IndexConstant(IndexRule):
    """A scalar constant: a leaf of rank 0."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ConstantOp, rewriter: PatternRewriter) -> None:
        if not _done(op):
            _write(rewriter, op, [], [])


class IndexUnary(IndexRule):
    """A unary function or a cast: the operand's axes, the identity map."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.UnaryOp | tiny.CastOp, rewriter: PatternRewriter) -> None:
        if _done(op):
            return
        before = _entry(op.operand, op).axes
        sizes = tiny.tensor_of(op.result).dims
        axes = [_renamed(a, i, sizes[i]) for i, a in enumerate(before)]
        _write(rewriter, op, axes, [_map(op, len(axes), range(len(axes)))])


class IndexElementwise(IndexRule):
    """A binary function, a comparison or a select: fresh axes, identity maps.

    Operands have equal shapes in ``tiny``, so right-aligned broadcasting is already an
    expand with its constant 0.  An axis along which every operand repeats still does.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: tiny.BinaryOp | tiny.CompareOp | tiny.SelectOp,
        rewriter: PatternRewriter,
    ) -> None:
        if _done(op):
            return
        entries = [_entry(v, op) for v in op.operands]
        sizes = tiny.tensor_of(op.result).dims
        kinds: list[AxisKind] = [
            "broadcast" if all(e.axes.data[i].repeats for e in entries) else "iter"
            for i in range(len(sizes))
        ]
        identity = _map(op, len(sizes), range(len(sizes)))
        _write(rewriter, op, self.axes(op, sizes, kinds), [identity] * len(entries))


class IndexPermute(IndexRule):
    """A permute: axes and ids move, the map is the inverse permutation."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PermuteOp, rewriter: PatternRewriter) -> None:
        if _done(op):
            return
        before, perm = _entry(op.operand, op).axes.data, op.perm
        sizes = tiny.tensor_of(op.result).dims
        axes = [_renamed(before[p], i, sizes[i]) for i, p in enumerate(perm)]
        results = [perm.index(i) for i in range(len(perm))]
        _write(rewriter, op, axes, [_map(op, len(axes), results)])


class IndexExpand(IndexRule):
    """An expand: new axes and those stretched from size 1 repeat the value.

    A kept operand axis is read at its result axis, a stretched one at the constant 0
    (S4.3).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ExpandOp, rewriter: PatternRewriter) -> None:
        if _done(op):
            return
        before, stretched = _entry(op.operand, op).axes.data, op.stretched()
        place = {axis: i for i, axis in enumerate(op.dims) if axis not in stretched}
        axes: list[AxisAttr] = []
        for axis, size in enumerate(tiny.tensor_of(op.result).dims):
            if axis in place:
                axes.append(_renamed(before[place[axis]], axis, size))
            else:
                number = self.numbering.fresh(op)
                axes.append(AxisAttr.of(number, f"i{axis}", size, "broadcast"))
        results = [None if d in stretched else d for d in op.dims]
        _write(rewriter, op, axes, [_map(op, len(axes), results)])


class IndexReduce(IndexRule):
    """A reduce: its axes leave the value and are recorded with their ids (S4.4).

    The map puts the reduced axes, the last dimensions, back where the operand has them.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReduceOp, rewriter: PatternRewriter) -> None:
        if _done(op):
            return
        before, gone = _entry(op.operand, op).axes.data, op.axes
        sizes = tiny.tensor_of(op.result).dims
        kept = [i for i in range(len(before)) if i not in gone]
        axes = [_renamed(before[old], new, sizes[new]) for new, old in enumerate(kept)]
        graph = graph_of(op)
        taken = [] if graph is None else list(graph.symbol_names)
        reduced: list[AxisAttr] = []
        for i, old in enumerate(gone):
            label = reduced_label(before[old].dim, i, taken)
            taken.append(label)
            reduced.append(AxisAttr.of(before[old].number, label, before[old].dim, "reduce"))
        order = [*kept, *gone]
        results = [order.index(i) for i in range(len(order))]
        _write(rewriter, op, axes, [_map(op, len(order), results)], reduced)


class IndexNonScop(IndexRule):
    """Any other op with tensor results: its access is not known, so it is non_scop (S4.5)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op.parent_op(), tiny.GraphOp):
            return
        for result in op.results:
            t = result.type
            if isinstance(t, tiny.TensorType) and value_op(result) is None:
                entry = ValueOp(result, self.axes(op, t.dims), [], non_scop=True)
                rewriter.insert(entry, InsertPoint.after(op))


def index_rules() -> list[RewritePattern]:
    """The update rules of one run, which number axes together; ``IndexNonScop`` is last."""
    numbering = Numbering()
    rules: Sequence[type[IndexRule]] = (
        IndexLeaves,
        IndexConstant,
        IndexUnary,
        IndexElementwise,
        IndexPermute,
        IndexExpand,
        IndexReduce,
        IndexNonScop,
    )
    return [rule(numbering) for rule in rules]


@dataclass(frozen=True)
class TinyToIndex(ModulePass):
    """Write an ``index.value`` after each value of each ``tiny.graph``."""

    name = "tiny-to-index"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, index_rules())
