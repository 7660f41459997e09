"""``tiny-to-index``: write the index book of a tiny graph (S4.7).

One rule an op gives each value its axes, its domain and its access maps, from the
entries of its operands; the tiny ops stay as they are, but for the views of memory that
a product of symbols needs.  Rules run in the order of the text, so an operand's entry is
there before its user's.  Ids count up through a graph
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
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.signature import graph_of
from polyc.dialects.index import AxisAttr, AxisKind, PieceAttr, ValueOp, reduced_label, value_op
from polyc.lowering.tiny_to_index.gathers import IndexGather
from polyc.lowering.tiny_to_index.movements import (
    IndexMask,
    IndexPad,
    IndexSample,
    IndexSlice,
    IndexWindow,
)
from polyc.lowering.tiny_to_index.reshape import IndexReshape
from polyc.lowering.tiny_to_index.rule import (
    IndexRule,
    Numbering,
    Placed,
    as_memory,
    done,
    entry_of,
    map_to,
    product_text,
    resized,
    symbol_names,
    write,
)
from polyc.lowering.tiny_to_index.scatters import IndexScatter
from polyc.rewriting.driver import located, rewrite


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
            write(rewriter, op, Placed.of([]), [])


class IndexIota(IndexRule):
    """The positions along an axis: a leaf of rank 1."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.IotaOp, rewriter: PatternRewriter) -> None:
        if not done(op):
            axes = self.axes(op, tiny.tensor_of(op.result).dims)
            write(rewriter, op, Placed.of([[a] for a in axes]), [])


class IndexUnary(IndexRule):
    """A unary function or a cast: the operand's axes, the identity map."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: tiny.UnaryOp | tiny.CastOp | tiny.BitcastOp, rewriter: PatternRewriter
    ) -> None:
        if done(op):
            return
        before = entry_of(op.operand, op).by_dimension
        sizes = tiny.tensor_of(op.result).dims
        placed = Placed.of([resized(a, s) for a, s in zip(before, sizes, strict=True)])
        count = len(placed.axes)
        write(rewriter, op, placed, [map_to(op, count, range(count))])


class IndexElementwise(IndexRule):
    """A binary function, a comparison or a select: fresh axes, identity maps.

    Operands have equal shapes in ``tiny``, so right-aligned broadcasting is already an
    expand with its constant 0.  An axis along which every operand repeats still does.  Where
    an operand has a tuple of factors the result has it, and an operand that repeats there is
    read at 0.  One that is a single axis, or has other factors, is viewed with these factors by
    two reshapes: the first is a view of memory and a boundary (S4.7).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: tiny.BinaryOp | tiny.CompareOp | tiny.SelectOp,
        rewriter: PatternRewriter,
    ) -> None:
        if done(op):
            return
        sizes_of = tiny.tensor_of(op.result).dims
        self._share_factors(op, len(sizes_of), rewriter)
        operands = [entry_of(v, op).by_dimension for v in op.operands]
        dimensions: list[list[AxisAttr]] = []
        for i, size in enumerate(sizes_of):
            axes = [o[i] for o in operands]
            widest = max(axes, key=len)
            sizes = [size] if len(widest) == 1 else [a.dim for a in widest]
            kinds: list[AxisKind] = []
            for j in range(len(sizes)):
                along = [a[j if len(a) == len(sizes) else 0] for a in axes]
                kinds.append("broadcast" if all(a.repeats for a in along) else "iter")
            dimensions.append(self.axes(op, sizes, kinds))
        placed = Placed.of(dimensions)
        maps: list[AffineMap] = []
        for operand in operands:
            results: list[int | None] = []
            for i, axes in enumerate(operand):
                own = placed[i]
                results += own if len(axes) == len(own) else [None]
            maps.append(map_to(op, len(placed.axes), results))
        write(rewriter, op, placed, maps)

    def _share_factors(self, op: Operation, rank: int, rewriter: PatternRewriter) -> None:
        """View the operands that have other axes with the factors of the first tuple."""
        operands = [entry_of(v, op).by_dimension for v in op.operands]
        factors: list[list[Dim] | None] = []
        for i in range(rank):
            tuples = [o[i] for o in operands if len(o[i]) > 1]
            factors.append([a.dim for a in tuples[0]] if tuples else None)
        for position, operand in enumerate(operands):
            apart: list[Dim] = []
            unlike = False
            for axes, wanted in zip(operand, factors, strict=True):
                have = [a.dim for a in axes]
                free = len(axes) == 1 and (wanted is None or axes[0].repeats)
                unlike |= not free and have != wanted
                apart += have if free or wanted is None else wanted
            if unlike:
                value = op.operands[position]
                view = located(tiny.ReshapeOp(value, apart), op)
                back = located(tiny.ReshapeOp(view.result, tiny.tensor_of(value).dims), op)
                for made in (view, back):
                    rewriter.insert(made, InsertPoint.before(op))
                    IndexReshape(self.numbering).match_and_rewrite(made, rewriter)
                op.operands[position] = back.result


class IndexPermute(IndexRule):
    """A permute: axes and ids move, the map is the inverse permutation."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PermuteOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before, perm = entry_of(op.operand, op).by_dimension, op.perm
        sizes = tiny.tensor_of(op.result).dims
        placed = Placed.of([resized(before[p], s) for p, s in zip(perm, sizes, strict=True)])
        results = [d for i in range(len(perm)) for d in placed[perm.index(i)]]
        write(rewriter, op, placed, [map_to(op, len(results), results)])


class IndexExpand(IndexRule):
    """An expand: new axes and those stretched from size 1 repeat the value.

    A kept operand axis is read at its result axis, a stretched one at the constant 0
    (S4.3).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ExpandOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before, stretched = entry_of(op.operand, op).by_dimension, op.stretched()
        place = {axis: i for i, axis in enumerate(op.dims) if axis not in stretched}
        placed = Placed.of(
            [
                resized(before[place[axis]], size)
                if axis in place
                else self.axes(op, [size], ["broadcast"])
                for axis, size in enumerate(tiny.tensor_of(op.result).dims)
            ]
        )
        results: list[int | None] = []
        for axis in op.dims:
            results += [None] if axis in stretched else placed[axis]
        write(rewriter, op, placed, [map_to(op, len(placed.axes), results)])


class IndexReduce(IndexRule):
    """A reduce: its axes leave the value and are recorded with their ids (S4.4).

    The map puts the reduced axes, the last dimensions, back where the operand has them.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReduceOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before, gone = entry_of(op.operand, op).by_dimension, op.axes
        sizes = tiny.tensor_of(op.result).dims
        kept = [i for i in range(len(before)) if i not in gone]
        placed = Placed.of([resized(before[i], s) for i, s in zip(kept, sizes, strict=True)])
        graph = graph_of(op)
        taken = [] if graph is None else list(graph.symbol_names)
        reduced: list[AxisAttr] = []
        for i, axis in enumerate(a for dimension in gone for a in before[dimension]):
            label = reduced_label(axis.dim, i, taken)
            taken.append(label)
            reduced.append(AxisAttr.of(axis.number, label, axis.dim, "reduce"))
        # The operand's dimensions, where the map finds each of their axes.
        place = iter(range(len(placed.axes), len(placed.axes) + len(reduced)))
        later = {i: [next(place) for _ in before[i]] for i in gone}
        results = [
            d
            for i in range(len(before))
            for d in (later[i] if i in later else placed[kept.index(i)])
        ]
        write(rewriter, op, placed, [map_to(op, len(results), results)], reduced)


class IndexSort(IndexRule):
    """A sort: an element of the result is made of the whole axis, which is recorded as reduced.

    Of an axis that is a product of factors the operand is read as it lies in memory.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.SortOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before, axis = entry_of(op.operand, op).by_dimension, op.axis
        if len(before[axis]) > 1:
            reason = f"sorts axis {axis}, which is the product {product_text(before[axis])}"
            before = as_memory(self, op, 0, reason, rewriter).by_dimension
        sizes = tiny.tensor_of(op.result).dims
        dimensions = [resized(b, s) for b, s in zip(before, sizes, strict=True)]
        dimensions[axis] = self.axes(op, [sizes[axis]])
        placed = Placed.of(dimensions)
        (gone,) = before[axis]
        taken = list(symbol_names(op))
        label = reduced_label(gone.dim, 0, taken)
        reduced = [AxisAttr.of(gone.number, label, gone.dim, "reduce")]
        count = len(placed.axes)
        results = [d for i in range(len(before)) for d in ([count] if i == axis else placed[i])]
        write(rewriter, op, placed, [map_to(op, count + 1, results)], reduced)


class IndexScan(IndexRule):
    """A scan: the operand's axes, but for a fresh one that it goes along.

    The operand's axis there is recorded with its id, as a reduction's is: an element reads the
    points of it up to its own place, so that the points of the map's dimensions are a triangle,
    which the op says (``Entry.iteration_domain``).  A dimension that is a tuple of factors is
    viewed as it lies in memory: it is walked in one line.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ScanOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        entry, sizes = entry_of(op.operand, op), tiny.tensor_of(op.result).dims
        if len(axes := entry.by_dimension[op.axis]) > 1:
            reason = f"a scan goes along {product_text(axes)} in one line"
            entry = as_memory(self, op, 0, reason, rewriter)
        before = entry.by_dimension
        dimensions = [
            self.axes(op, [size]) if i == op.axis else resized(own, size)
            for i, (own, size) in enumerate(zip(before, sizes, strict=True))
        ]
        placed = Placed.of(dimensions)
        (gone,) = before[op.axis]
        label = reduced_label(gone.dim, 0, symbol_names(op))
        reduced = [AxisAttr.of(gone.number, label, gone.dim, "reduce")]
        count = len(placed.axes)
        results = [d for i in range(len(before)) for d in ([count] if i == op.axis else placed[i])]
        write(rewriter, op, placed, [map_to(op, count + 1, results)], reduced)


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
        IndexIota,
        IndexScalar,
        IndexUnary,
        IndexElementwise,
        IndexPermute,
        IndexExpand,
        IndexReduce,
        IndexSort,
        IndexScan,
        IndexSlice,
        IndexPad,
        IndexWindow,
        IndexSample,
        IndexMask,
        IndexGather,
        IndexScatter,
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
