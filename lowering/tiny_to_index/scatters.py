"""The index rule of scatters: an element may have any update along the axes of indices."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter, op_type_rewrite_pattern

from polyc.dialects import tiny
from polyc.dialects.common.signature import graph_of
from polyc.dialects.index import AxisAttr, reduced_label
from polyc.lowering.tiny_to_index.gathers import plain_entry
from polyc.lowering.tiny_to_index.rule import IndexRule, Placed, done, map_to, write


class IndexScatter(IndexRule):
    """A scatter reads its operand at the point, and updates and indices at any place of the axes
    that indices are of, and at the point along the others.

    The places are recorded beside the value's axes, as those of a reduction are, so that every map
    is affine, and what is said of them holds of all updates.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ScatterOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        for i in range(len(op.operands)):
            plain_entry(self, op, i, "the scatter reads", rewriter)
        sizes, updates = (tiny.tensor_of(v).dims for v in (op.result, op.updates))
        placed = Placed.of([[a] for a in self.axes(op, sizes)])
        graph = graph_of(op)
        taken = [] if graph is None else list(graph.symbol_names)
        there: list[AxisAttr] = []
        for i, axis in enumerate(op.axes):
            label = reduced_label(updates[axis], i, taken)
            taken.append(label)
            number = self.numbering.fresh(op)
            there.append(AxisAttr.of(number, label, updates[axis], "scatter"))
        rank = len(sizes)
        count = rank + len(there)
        read = [rank + op.axes.index(i) if i in op.axes else i for i in range(rank)]
        maps = [map_to(op, count, range(rank)), map_to(op, count, read)]
        maps += [map_to(op, count, read) for _ in op.indices]
        write(rewriter, op, placed, maps, there)
