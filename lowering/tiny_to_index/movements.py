"""Index rules of the movements that change coordinates: slice, pad, window, sample and mask (S4.7).

A slice, a window and a sample are maps alone.  A pad and a mask cut the domain into pieces: one
where the operand is read, and others that hold the movement's own fill (S6.4).  What isl cannot
say, a bound or a stride that multiplies symbols, makes the value ``non_scop``: a boundary, with
the reason in its entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.pattern_rewriter import PatternRewriter, op_type_rewrite_pattern

from polyc.affine import isl
from polyc.affine.repeating import clamped
from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.signature import same_size
from polyc.dialects.index import AxisAttr, PieceAttr, box
from polyc.dialects.index.attrs import at_least_zero
from polyc.lowering.tiny_to_index.rule import (
    IndexRule,
    Placed,
    as_memory,
    done,
    entry_of,
    not_affine,
    product_text,
    resized,
    symbol_count,
    symbol_names,
    write,
    write_pieces,
)

# What is affine -------------------------------------------------------------------------


def _beyond_isl(op: Operation, changed: Sequence[bool], what: str) -> str | None:
    """Why a movement that changes coordinates is a boundary, or None.

    A coordinate inside of a tuple of factors multiplies symbols, and so does the bound of a
    size that multiplies them: nobody can prove what is inside.
    """
    names, entry = symbol_names(op), entry_of(op.operands[0], op)
    sizes = tiny.tensor_of(op.operands[0]).dims
    for i, (axes, size) in enumerate(zip(entry.by_dimension, sizes, strict=True)):
        if changed[i] and len(axes) > 1:
            return f"{what} axis {i}, which is the product {product_text(axes)}"
        if changed[i] and size.as_affine(names) is None:
            return f"{what} axis {i}, whose size {size} multiplies symbols"
    return None


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
    """The operand through ``map`` inside, the fill outside; a domain that is the box has no set.

    A box without points is one piece of the fill: nothing is read for it.
    """

    def domain(points: AffineSet) -> AffineSet | None:
        return points if points.constraints else None

    found = [] if inside is None else [PieceAttr.of([map], domain(inside))]
    found += [PieceAttr.of([fill], domain(points)) for points in outside]
    return found or [PieceAttr.of([fill], None)]


# Rules ----------------------------------------------------------------------------------


class IndexSlice(IndexRule):
    """A slice reads ``low + step * o`` (S3.3); an axis that it takes whole keeps its id."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.SliceOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        names, sizes = symbol_names(op), tiny.tensor_of(op.result).dims
        cut = [
            low.constant() != 0 or step != 1 or not _whole(op, i)
            for i, (low, step) in enumerate(zip(op.low, op.steps, strict=True))
        ]
        if (reason := _beyond_isl(op, cut, "the slice cuts")) is not None:
            not_affine(self, op, reason, rewriter)
            return
        before = entry_of(op.operand, op).by_dimension
        dimensions: list[list[AxisAttr]] = []
        for axes, size in zip(before, sizes, strict=True):
            whole = len(axes) > 1 or any(a.dim == size for a in axes)
            dimensions.append(resized(axes, size) if whole else _new(self, op, axes, size))
        placed = Placed.of(dimensions)
        results: list[AffineExpr] = []
        for i, (low, step) in enumerate(zip(op.low, op.steps, strict=True)):
            start = low.as_affine(names)
            if start is None:
                reason = f"the slice of axis {i} starts at {low}, which multiplies symbols"
                not_affine(self, op, reason, rewriter)
                return
            results += [start + AffineDimExpr(d) * step for d in placed[i]]
        write(rewriter, op, placed, [_canonical(op, len(placed.axes), results)])


def _whole(op: tiny.SliceOp, axis: int) -> bool:
    size = tiny.tensor_of(op.operand).dims[axis]
    return same_size(size, tiny.tensor_of(op.result).dims[axis], op)


def _new(rule: IndexRule, op: Operation, axes: Sequence[AxisAttr], size: Dim) -> list[AxisAttr]:
    """A new axis in the place of ``axes``, which repeats if these do."""
    return rule.axes(op, [size], ["broadcast" if all(a.repeats for a in axes) else "iter"])


class IndexPad(IndexRule):
    """A pad reads ``i - low`` where the operand has it, and holds its fill elsewhere (S6.4)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PadOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        names, sizes = symbol_names(op), tiny.tensor_of(op.result).dims
        borders = list(zip(op.low, op.high, strict=True))
        padded = [a.constant() != 0 or b.constant() != 0 for a, b in borders]
        if (reason := _beyond_isl(op, padded, "the pad extends")) is not None:
            not_affine(self, op, reason, rewriter)
            return
        before = entry_of(op.operand, op).by_dimension
        placed = Placed.of(
            [
                self.axes(op, [sizes[i]]) if padded[i] else resized(axes, sizes[i])
                for i, axes in enumerate(before)
            ]
        )
        results: list[AffineExpr] = []
        rows: list[AffineConstraintExpr] = []
        for i, (low, high) in enumerate(borders):
            axes = before[i]
            if not padded[i]:
                results += map(AffineDimExpr, placed[i])
                continue
            start, end = low.as_affine(names), axes[0].dim.as_affine(names)
            if start is None:
                reason = f"the pad of axis {i} has a border at {low}, which multiplies symbols"
                not_affine(self, op, reason, rewriter)
                return
            place = AffineDimExpr(placed[i][0]) - start
            results.append(place)
            if low.constant() != 0:
                rows.append(_at_least_zero(place))
            if high.constant() != 0:
                assert end is not None
                rows.append(_at_least_zero(end - place - 1))
        access = _canonical(op, len(placed.axes), results)
        inside, outside = split_by(placed.sizes, rows, op)
        write_pieces(rewriter, op, placed, _pieces(inside, outside, access, op.number))


class IndexWindow(IndexRule):
    """A window reads ``stride * o + dilation * r``; axes without windows keep their ids.

    One that runs backwards reads from its end, ``|dilation| * (size - 1)`` further on.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.WindowOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        sizes, rank = tiny.tensor_of(op.result).dims, tiny.tensor_of(op.operand).rank
        moved = [i in op.axes for i in range(rank)]
        if (reason := _beyond_isl(op, moved, "the window moves along")) is not None:
            not_affine(self, op, reason, rewriter)
            return
        before = entry_of(op.operand, op).by_dimension
        dimensions: list[list[AxisAttr]] = []
        for i, size in enumerate(sizes):
            source = before[op.axes[i - rank]] if i >= rank else before[i]
            windowed = i >= rank or i in op.axes
            dimensions.append(_new(self, op, source, size) if windowed else resized(source, size))
        placed = Placed.of(dimensions)
        results: list[AffineExpr] = []
        for i in range(rank):
            places = [AffineDimExpr(d) for d in placed[i]]
            if i in op.axes:
                k = op.axes.index(i)
                inner = AffineDimExpr(placed[rank + k][0]) * op.dilation[k]
                if op.dilation[k] < 0:
                    end = ((op.size[k] - 1) * -op.dilation[k]).as_affine(symbol_names(op))
                    if end is None:
                        reason = f"the window of axis {i} has {op.size[k]} elements, backwards"
                        not_affine(self, op, reason, rewriter)
                        return
                    inner = inner + end
                results.append(places[0] * op.stride[k] + inner)
            else:
                results += places
        write(rewriter, op, placed, [_canonical(op, len(placed.axes), results)])


class IndexSample(IndexRule):
    """A sample reads ``(step * i + offset) floordiv divisor``; the other axes keep their ids."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.SampleOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        sizes = tiny.tensor_of(op.result).dims
        moved = [i == op.axis for i in range(len(sizes))]
        if (reason := _beyond_isl(op, moved, "the sample reads")) is not None:
            not_affine(self, op, reason, rewriter)
            return
        before = entry_of(op.operand, op).by_dimension
        placed = Placed.of(
            [
                _new(self, op, axes, size) if i == op.axis else resized(axes, size)
                for i, (axes, size) in enumerate(zip(before, sizes, strict=True))
            ]
        )
        results: list[AffineExpr] = []
        for i in range(len(sizes)):
            places: list[AffineExpr] = [AffineDimExpr(d) for d in placed[i]]
            if i == op.axis:
                here = (AffineDimExpr(0) * op.step + op.offset) // op.divisor
                if op.repeats_ends:
                    size, count = (
                        tiny.tensor_of(v).dims[i].constant() for v in (op.operand, op.result)
                    )
                    assert size is not None and count is not None  # verified
                    inside = clamped(here, count, size)
                    if inside is None and count:
                        reason = f"the sample reads far outside of axis {i}, at more than its ends"
                        not_affine(self, op, reason, rewriter)
                        return
                    here = inside or here
                places = [here.replace_dims_and_symbols([places[0]], [])]
            results += places
        write(rewriter, op, placed, [_canonical(op, len(placed.axes), results)])


class IndexMask(IndexRule):
    """A mask reads where its condition holds and has its fill elsewhere; axes keep their ids.

    An axis along which the operand repeats varies where the condition speaks of it.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.MaskOp, rewriter: PatternRewriter) -> None:
        if done(op):
            return
        sizes = tiny.tensor_of(op.result).dims
        rows = isl.canonical_set(op.condition).constraints
        varies = [
            any(isl.uses_dim(row.lhs - row.rhs, i) for row in rows) for i in range(len(sizes))
        ]
        before = entry_of(op.operand, op).by_dimension
        for i, axes in enumerate(before):
            if varies[i] and len(axes) > 1:
                reason = (
                    f"the condition of the mask is on axis {i}, which is the product "
                    f"{product_text(axes)}, so the operand is read as it lies in memory"
                )
                before = as_memory(self, op, 0, reason, rewriter).by_dimension
                break
        dimensions: list[list[AxisAttr]] = []
        for i, axes in enumerate(before):
            kept = resized(axes, sizes[i])
            if varies[i]:
                kept = [AxisAttr.of(kept[0].number, f"i{i}", sizes[i], "iter")]
            dimensions.append(kept)
        placed = Placed.of(dimensions)
        into = [AffineDimExpr(placed[i][0]) for i in range(len(before))]
        rows = [_at(row, into) for row in rows]
        identity = [AffineDimExpr(i) for i in range(len(placed.axes))]
        access = _canonical(op, len(placed.axes), identity)
        inside, outside = split_by(placed.sizes, rows, op)
        write_pieces(rewriter, op, placed, _pieces(inside, outside, access, op.number))


def _at(row: AffineConstraintExpr, into: Sequence[AffineExpr]) -> AffineConstraintExpr:
    """``row`` with its dimensions replaced."""
    left, right = (e.replace_dims_and_symbols(into, ()) for e in (row.lhs, row.rhs))
    return AffineConstraintExpr(row.kind, left, right, canonicalize=False)
