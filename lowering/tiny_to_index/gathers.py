"""The index rule of gathers: a boundary along the axes that indices are of, affine along others."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.ir.affine import AffineMap
from xdsl.pattern_rewriter import PatternRewriter, op_type_rewrite_pattern

from polyc.dialects import tiny
from polyc.dialects.common.signature import graph_of
from polyc.dialects.index import AxisAttr, AxisKind, ValueOp, reduced_label
from polyc.lowering.tiny_to_index.rule import (
    IndexRule,
    Placed,
    as_memory,
    done,
    entry_of,
    map_to,
    product_text,
    write,
)


class IndexGather(IndexRule):
    """A gather reads its operand at any place of the axes that indices are of, its indices at the
    point itself, and along the other axes the point.

    The axes of which the place is data are recorded beside the value's as those of a reduction
    are, so that every map is affine, and what is said of them holds of all places.  An operand
    that is a tuple of factors along some axis is read as it lies in memory (S4.7).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.GatherOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        count = len(op.operands)
        entries = [plain_entry(self, op, i, "the gather reads", rewriter) for i in range(count)]
        source, *indices = entries
        sizes = tiny.tensor_of(op.result).dims
        kinds: list[AxisKind] = []
        for i in range(len(sizes)):
            along = [e.axes.data[i] for e in indices]
            along += [] if i in op.axes else [source.axes.data[i]]
            kinds.append("broadcast" if all(a.repeats for a in along) else "iter")
        placed = Placed.of([[a] for a in self.axes(op, sizes, kinds)])
        graph = graph_of(op)
        taken = [] if graph is None else list(graph.symbol_names)
        there: list[AxisAttr] = []
        for i, axis in enumerate(op.axes):
            size = tiny.tensor_of(op.operand).dims[axis]
            label = reduced_label(size, i, taken)
            taken.append(label)
            there.append(AxisAttr.of(self.numbering.fresh(op), label, size, "gather"))
        rank = len(sizes)
        count = rank + len(there)
        read = [rank + op.axes.index(i) if i in op.axes else i for i in range(rank)]
        maps: list[AffineMap] = [map_to(op, count, read)]
        maps += [map_to(op, count, range(rank)) for _ in indices]
        write(rewriter, op, placed, maps, there)


def plain_entry(
    rule: IndexRule, op: Operation, position: int, what: str, rewriter: PatternRewriter
) -> ValueOp:
    """The entry of an operand with an axis a dimension, read as it lies in memory if need be."""
    entry = entry_of(op.operands[position], op)
    if entry.is_plain:
        return entry
    axis, axes = next((i, a) for i, a in enumerate(entry.by_dimension) if len(a) > 1)
    reason = (
        f"{what} axis {axis}, which is the product {product_text(axes)}, so the operand is read as "
        "it lies in memory"
    )
    return as_memory(rule, op, position, reason, rewriter)
