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
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from polyc.dialects import tiny
from polyc.dialects.index import AxisAttr, AxisKind, PieceAttr, ValueOp, reduced_label, value_op
from polyc.dialects.signature import graph_of
from polyc.lowering.index_movements import (
    IndexMask,
    IndexPad,
    IndexReshape,
    IndexSlice,
    IndexWindow,
)
from polyc.lowering.index_rule import (
    IndexRule,
    Numbering,
    done,
    entry_of,
    map_to,
    renamed,
    write,
)
from polyc.passes.driver import rewrite


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


class IndexScalar(IndexRule):
    """A scalar constant, or the value of a size: a leaf of rank 0."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: tiny.ConstantOp | tiny.DimOp, rewriter: PatternRewriter
    ) -> None:
        if not done(op):
            write(rewriter, op, [], [])


class IndexUnary(IndexRule):
    """A unary function or a cast: the operand's axes, the identity map."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.UnaryOp | tiny.CastOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before = entry_of(op.operand, op).axes
        sizes = tiny.tensor_of(op.result).dims
        axes = [renamed(a, i, sizes[i]) for i, a in enumerate(before)]
        write(rewriter, op, axes, [map_to(op, len(axes), range(len(axes)))])


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
        if done(op):
            return
        entries = [entry_of(v, op) for v in op.operands]
        sizes = tiny.tensor_of(op.result).dims
        kinds: list[AxisKind] = [
            "broadcast" if all(e.axes.data[i].repeats for e in entries) else "iter"
            for i in range(len(sizes))
        ]
        identity = map_to(op, len(sizes), range(len(sizes)))
        write(rewriter, op, self.axes(op, sizes, kinds), [identity] * len(entries))


class IndexPermute(IndexRule):
    """A permute: axes and ids move, the map is the inverse permutation."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PermuteOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before, perm = entry_of(op.operand, op).axes.data, op.perm
        sizes = tiny.tensor_of(op.result).dims
        axes = [renamed(before[p], i, sizes[i]) for i, p in enumerate(perm)]
        results = [perm.index(i) for i in range(len(perm))]
        write(rewriter, op, axes, [map_to(op, len(axes), results)])


class IndexExpand(IndexRule):
    """An expand: new axes and those stretched from size 1 repeat the value.

    A kept operand axis is read at its result axis, a stretched one at the constant 0
    (S4.3).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ExpandOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before, stretched = entry_of(op.operand, op).axes.data, op.stretched()
        place = {axis: i for i, axis in enumerate(op.dims) if axis not in stretched}
        axes: list[AxisAttr] = []
        for axis, size in enumerate(tiny.tensor_of(op.result).dims):
            if axis in place:
                axes.append(renamed(before[place[axis]], axis, size))
            else:
                number = self.numbering.fresh(op)
                axes.append(AxisAttr.of(number, f"i{axis}", size, "broadcast"))
        results = [None if d in stretched else d for d in op.dims]
        write(rewriter, op, axes, [map_to(op, len(axes), results)])


class IndexReduce(IndexRule):
    """A reduce: its axes leave the value and are recorded with their ids (S4.4).

    The map puts the reduced axes, the last dimensions, back where the operand has them.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReduceOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before, gone = entry_of(op.operand, op).axes.data, op.axes
        sizes = tiny.tensor_of(op.result).dims
        kept = [i for i in range(len(before)) if i not in gone]
        axes = [renamed(before[old], new, sizes[new]) for new, old in enumerate(kept)]
        graph = graph_of(op)
        taken = [] if graph is None else list(graph.symbol_names)
        reduced: list[AxisAttr] = []
        for i, old in enumerate(gone):
            label = reduced_label(before[old].dim, i, taken)
            taken.append(label)
            reduced.append(AxisAttr.of(before[old].number, label, before[old].dim, "reduce"))
        order = [*kept, *gone]
        results = [order.index(i) for i in range(len(order))]
        write(rewriter, op, axes, [map_to(op, len(order), results)], reduced)


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
        IndexScalar,
        IndexUnary,
        IndexElementwise,
        IndexPermute,
        IndexExpand,
        IndexReduce,
        IndexSlice,
        IndexPad,
        IndexWindow,
        IndexMask,
        IndexReshape,
        IndexNonScop,
    )
    return [rule(numbering) for rule in rules]


@dataclass(frozen=True)
class TinyToIndex(ModulePass):
    """Write an ``index.value`` after each value of each ``tiny.graph``."""

    name = "tiny-to-index"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, index_rules())
