"""Index rules of the movements that change coordinates: slice, pad, window, mask, reshape (S4.7).

A slice, a window and a reshape are maps alone.  A pad and a mask cut the domain into pieces: one
where the operand is read, and others that hold the movement's own fill (S6.4).  What isl cannot
say, a bound or a stride that multiplies symbols, makes the value ``non_scop``: a boundary, with
the reason in its entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.pattern_rewriter import PatternRewriter, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects import tiny
from polyc.dialects.dim import Dim
from polyc.dialects.index import AxisAttr, AxisKind, PieceAttr, ValueOp, box
from polyc.dialects.index_attrs import at_least_zero
from polyc.dialects.sizes import factor_groups
from polyc.lowering.index_rule import (
    IndexRule,
    done,
    entry_of,
    renamed,
    symbol_count,
    symbol_names,
    write,
    write_pieces,
)
from polyc.poly import isl

REASON = "reason"
"""Attribute of a ``non_scop`` entry: why the access is not affine."""


# What is affine -------------------------------------------------------------------------


def _not_affine(rule: IndexRule, op: Operation, reason: str, rewriter: PatternRewriter) -> None:
    """Record that the value is a boundary, and why."""
    sizes = tiny.tensor_of(op.results[0]).dims
    entry = ValueOp(op.results[0], rule.axes(op, sizes), [], non_scop=True)
    entry.attributes[REASON] = StringAttr(reason)
    rewriter.insert(entry, InsertPoint.after(op))


def _canonical(op: Operation, dims: int, results: Sequence[AffineExpr]) -> AffineMap:
    return isl.canonical_map(AffineMap(dims, symbol_count(op), tuple(results)))


def _at_least_zero(expr: AffineExpr) -> AffineConstraintExpr:
    return at_least_zero(isl.canonical_expr(expr))


def _opposites(row: AffineConstraintExpr) -> list[AffineConstraintExpr]:
    """Rows of which one holds where ``row`` does not; disjoint."""
    difference = row.lhs - row.rhs
    if row.kind is AffineConstraintKind.le:
        difference = difference * -1
    below = _at_least_zero(difference * -1 - 1)
    return (
        [below]
        if row.kind is not AffineConstraintKind.eq
        else [
            below,
            _at_least_zero(difference - 1),
        ]
    )


def split_by(
    sizes: Sequence[Dim], rows: Sequence[AffineConstraintExpr], op: Operation
) -> tuple[AffineSet | None, list[AffineSet]]:
    """The box of ``sizes`` cut into where all ``rows`` hold and disjoint pieces of the rest.

    The first is None where they hold nowhere.  Each piece is written without what the box and
    the symbols' signs say; the whole box has no rows.
    """
    names = symbol_names(op)
    whole = box(sizes, names)
    held: list[AffineConstraintExpr] = []
    rest: list[AffineSet] = []

    def piece(kept: Sequence[AffineConstraintExpr]) -> AffineSet | None:
        points = AffineSet(len(sizes), len(names), tuple(kept))
        within = AffineSet(len(sizes), len(names), (*whole.constraints, *kept))
        return None if isl.is_empty(within) else isl.simplify_set(points, whole)

    for row in rows:
        for opposite in _opposites(row):
            if (found := piece([*held, opposite])) is not None:
                rest.append(found)
        held.append(row)
    return piece(held), rest


def _pieces(
    inside: AffineSet | None, outside: Sequence[AffineSet], map: AffineMap, fill: float
) -> list[PieceAttr]:
    """The operand through ``map`` inside, the fill outside; a domain that is the box has no set."""

    def domain(points: AffineSet) -> AffineSet | None:
        return points if points.constraints else None

    found = [] if inside is None else [PieceAttr.of([map], domain(inside))]
    found += [PieceAttr.of([fill], domain(points)) for points in outside]
    return found


# Rules ----------------------------------------------------------------------------------


class IndexSlice(IndexRule):
    """A slice reads ``low + step * o`` (S3.3); an axis that it takes whole keeps its id."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.SliceOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        names, before = symbol_names(op), entry_of(op.operand, op).axes.data
        results: list[AffineExpr] = []
        axes: list[AxisAttr] = []
        for i, (low, step) in enumerate(zip(op.low, op.steps, strict=True)):
            start = low.as_affine(names)
            if start is None:
                reason = f"the slice of axis {i} starts at {low}, which multiplies symbols"
                _not_affine(self, op, reason, rewriter)
                return
            results.append(start + AffineDimExpr(i) * step)
            size = tiny.tensor_of(op.result).dims[i]
            axes.append(_kept_or_new(self, op, before[i], i, size))
        write(rewriter, op, axes, [_canonical(op, len(axes), results)])


def _kept_or_new(
    rule: IndexRule, op: Operation, axis: AxisAttr, position: int, size: Dim
) -> AxisAttr:
    """The axis itself where its size stays, else a new one that repeats as it did."""
    if axis.dim == size:
        return renamed(axis, position, size)
    kind: AxisKind = "broadcast" if axis.repeats else "iter"
    return AxisAttr.of(rule.numbering.fresh(op), f"i{position}", size, kind)


class IndexPad(IndexRule):
    """A pad reads ``i - low`` where the operand has it, and holds its fill elsewhere (S6.4)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PadOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        names, before = symbol_names(op), entry_of(op.operand, op).axes.data
        sizes = tiny.tensor_of(op.result).dims
        results: list[AffineExpr] = []
        rows: list[AffineConstraintExpr] = []
        axes: list[AxisAttr] = []
        for i, (low, high) in enumerate(zip(op.low, op.high, strict=True)):
            start, end = low.as_affine(names), before[i].dim.as_affine(names)
            some_low, some_high = low.constant() != 0, high.constant() != 0
            if start is None or (some_high and end is None):
                far = low if start is None else low + before[i].dim
                reason = f"the pad of axis {i} has a border at {far}, which multiplies symbols"
                _not_affine(self, op, reason, rewriter)
                return
            place = AffineDimExpr(i) - start
            results.append(place)
            if some_low:
                rows.append(_at_least_zero(place))
            if some_high:
                assert end is not None
                rows.append(_at_least_zero(end - place - 1))
            axes.append(
                AxisAttr.of(self.numbering.fresh(op), f"i{i}", sizes[i], "iter")
                if some_low or some_high
                else renamed(before[i], i, sizes[i])
            )
        map = _canonical(op, len(sizes), results)
        inside, outside = split_by(sizes, rows, op)
        write_pieces(rewriter, op, axes, _pieces(inside, outside, map, op.number))


class IndexWindow(IndexRule):
    """A window reads ``stride * o + dilation * r``; axes without windows keep their ids."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.WindowOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before = entry_of(op.operand, op).axes.data
        sizes = tiny.tensor_of(op.result).dims
        rank = len(before)
        results: list[AffineExpr] = [AffineDimExpr(i) for i in range(rank)]
        for k, axis in enumerate(op.axes):
            inner = AffineDimExpr(rank + k) * op.dilation[k]
            results[axis] = AffineDimExpr(axis) * op.stride[k] + inner
        axes: list[AxisAttr] = []
        for i, size in enumerate(sizes):
            source = before[op.axes[i - rank]] if i >= rank else before[i]
            if i < rank and i not in op.axes:
                axes.append(renamed(source, i, size))
                continue
            kind: AxisKind = "broadcast" if source.repeats else "iter"
            axes.append(AxisAttr.of(self.numbering.fresh(op), f"i{i}", size, kind))
        write(rewriter, op, axes, [_canonical(op, len(sizes), results)])


class IndexMask(IndexRule):
    """A mask reads where its condition holds and has its fill elsewhere; axes keep their ids.

    An axis along which the operand repeats varies where the condition speaks of it.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.MaskOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before = entry_of(op.operand, op).axes.data
        sizes = tiny.tensor_of(op.result).dims
        rows = isl.canonical_set(op.condition).constraints
        axes: list[AxisAttr] = []
        for i, axis in enumerate(before):
            varies = any(isl.uses_dim(row.lhs - row.rhs, i) for row in rows)
            axes.append(renamed(axis, i, sizes[i], "iter" if varies else None))
        identity = [AffineDimExpr(i) for i in range(len(sizes))]
        map = _canonical(op, len(sizes), identity)
        inside, outside = split_by(sizes, rows, op)
        write_pieces(rewriter, op, axes, _pieces(inside, outside, map, op.number))


class IndexReshape(IndexRule):
    """A reshape keeps to its factor groups: each is linearised and split again (S4.7).

    A group of one axis on both sides is the axis itself, and keeps its id.  Other groups need
    constant sizes on all but the first axis of either side, not counting axes of size 1.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReshapeOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        before = entry_of(op.operand, op).axes.data
        old, new = tiny.tensor_of(op.operand).dims, tiny.tensor_of(op.result).dims
        groups = factor_groups(old, new, op)
        assert groups is not None, "a verified reshape keeps the number of elements"
        results: list[AffineExpr] = [AffineConstantExpr(0)] * len(old)
        axes: dict[int, AxisAttr] = {}
        for left, right in groups:
            if len(left) == len(right) == 1:
                results[left[0]] = AffineDimExpr(right[0])
                axes[right[0]] = renamed(before[left[0]], right[0], new[right[0]])
                continue
            found = regroup([old[i] for i in left], [new[j] for j in right], right)
            if found is None:
                source = " x ".join(str(old[i]) for i in left)
                target = " x ".join(str(new[j]) for j in right)
                reason = (
                    f"a reshape of {source} to {target} divides by a symbol, which is a view of "
                    "memory and not affine"
                )
                _not_affine(self, op, reason, rewriter)
                return
            for i, expr in zip(left, found, strict=True):
                results[i] = expr
            repeats = all(before[i].repeats for i in left)
            for j in right:
                kind: AxisKind = "broadcast" if repeats else "iter"
                axes[j] = AxisAttr.of(self.numbering.fresh(op), f"i{j}", new[j], kind)
        map = isl.simplify_map(_canonical(op, len(new), results), box(new, symbol_names(op)))
        write(rewriter, op, [axes[j] for j in range(len(new))], [map])


def regroup(
    old: Sequence[Dim], new: Sequence[Dim], positions: Sequence[int]
) -> list[AffineExpr] | None:
    """The coordinates in a shape ``old`` of an element of the shape ``new``.

    ``positions`` are the dimensions that stand for the axes of ``new``.  None where a stride is
    not a constant.
    """
    linear: AffineExpr = AffineConstantExpr(0)
    first = True
    for size, position in zip(new, positions, strict=True):
        extent = size.constant()
        if extent == 1:
            continue
        if first:
            linear, first = AffineDimExpr(position), False
        elif extent is None:
            return None
        else:
            linear = linear * extent + AffineDimExpr(position)
    found: list[AffineExpr] = [AffineConstantExpr(0)] * len(old)
    wide = [i for i, size in enumerate(old) if size.constant() != 1]
    for i in reversed(wide[1:]):
        extent = old[i].constant()
        if extent is None:
            return None
        if extent == 0:
            return found
        quotient = linear // extent
        found[i] = linear - quotient * extent
        linear = quotient
    if wide:
        found[wide[0]] = linear
    return found
