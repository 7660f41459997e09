"""``tiny-canonicalize-movements``: fewer and simpler movements with the same values (S3.1, S4.6).

Each pattern is exact.  Permutes go towards the leaves, through reshapes and expands, so
that chains meet and fuse; an expand stays after a permute, a reshape after both.  Sizes
are compared under the graph's assumptions, by isl.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.affine import isl
from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.movements import MovementOp, slice_sizes
from polyc.dialects.common.signature import graph_of, same_shape, symbol_space
from polyc.dialects.common.sizes import Group, factor_groups, never_negative
from polyc.rewriting.driver import rewrite

# What isl is asked ------------------------------------------------------------------------


def _symbols(at: Operation) -> tuple[str, ...]:
    graph = graph_of(at)
    return () if graph is None else graph.symbol_names


def box(dims: Shape, at: Operation) -> AffineSet:
    """The points of a shape, where the assumptions hold; a size beyond isl bounds nothing."""
    graph = graph_of(at)
    symbols = _symbols(at)
    rows = list(symbol_space(symbols, () if graph is None else graph.facts).constraints)
    for axis, size in enumerate(dims):
        place = AffineDimExpr(axis)
        bounds: list[AffineExpr] = [place]
        if (end := size.as_affine(symbols)) is not None:
            bounds.append(end - place + AffineConstantExpr(-1))
        rows += [
            AffineConstraintExpr(AffineConstraintKind.ge, b, AffineConstantExpr(0)) for b in bounds
        ]
    return AffineSet(len(dims), len(symbols), tuple(rows))


def reshape_map(operand: Shape, result: Shape, at: Operation) -> AffineMap | None:
    """Result axes to operand axes of a reshape; None where a stride is symbolic (S4.7)."""
    groups = factor_groups(operand, result, at)
    if groups is None:
        return None
    exprs: list[AffineExpr] = []
    for left, right in groups:
        if len(left) == len(right) == 1:
            exprs.append(AffineDimExpr(right[0]))
            continue
        strides_in = _strides([result[i] for i in right])
        strides_out = _strides([operand[i] for i in left])
        if strides_in is None or strides_out is None:
            return None
        place: AffineExpr = AffineConstantExpr(0)
        for axis, stride in zip(right, strides_in, strict=True):
            place = place + AffineDimExpr(axis) * stride
        for position, stride in enumerate(strides_out):
            digit = _floor(place, stride)
            if position:
                above = strides_out[position - 1]
                digit = digit - _floor(place, above) * (above // stride)
            exprs.append(digit)
    return isl.canonical_map(AffineMap(len(result), len(_symbols(at)), tuple(exprs)))


def _floor(expr: AffineExpr, by: int) -> AffineExpr:
    return AffineBinaryOpExpr(AffineBinaryOpKind.FloorDiv, expr, AffineConstantExpr(by))


def _strides(dims: Sequence[Dim]) -> list[int] | None:
    """Row-major strides, where all sizes but the outermost are positive numbers."""
    strides = [1] * len(dims)
    for i in range(len(dims) - 2, -1, -1):
        size = dims[i + 1].constant()
        if not size:
            return None
        strides[i] = strides[i + 1] * size
    return strides


def _permute_map(perm: Sequence[int], symbols: int) -> AffineMap:
    return AffineMap(
        len(perm), symbols, tuple(AffineDimExpr(list(perm).index(i)) for i in range(len(perm)))
    )


def _after(outer: AffineMap, inner: AffineMap) -> AffineMap:
    """``outer`` of ``inner``; neither uses symbols."""
    results = tuple(e.replace_dims_and_symbols(inner.results, ()) for e in outer.results)
    return AffineMap(inner.num_dims, inner.num_symbols, results)


def _agree(a: AffineMap, b: AffineMap, domain: AffineSet) -> bool:
    """Whether isl says that two maps are equal on ``domain``."""
    try:
        return isl.maps_equal(a, b, domain)
    except isl.IslLimitExceeded:
        return False


def _bits(number: float) -> bytes:
    """A number with its sign and payload, so that -0.0 differs from 0.0 and NaN is itself."""
    return struct.pack("<f", number)


# Identities -------------------------------------------------------------------------------


class DropIdentityMovement(RewritePattern):
    """A movement that leaves everything where it is → its operand.

    Legal when operand and result have equal shapes and: a permute is in order, an expand
    names every axis, a pad adds nothing, a slice takes all in steps of 1; a mask's
    condition holds in the whole box, by isl; a reshape always.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: tiny.ReshapeOp
        | tiny.PermuteOp
        | tiny.ExpandOp
        | tiny.PadOp
        | tiny.SliceOp
        | tiny.MaskOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        operand, result = op.source_type.dims, op.result_type.dims
        if not same_shape(operand, result, op):
            return
        match op:
            case tiny.PermuteOp():
                if op.perm != tuple(range(len(operand))):
                    return
            case tiny.PadOp():
                if any(d.constant() != 0 for d in (*op.low, *op.high)):
                    return
            case tiny.SliceOp():
                if any(d.constant() != 0 for d in op.low) or any(s != 1 for s in op.steps):
                    return
            case tiny.MaskOp():
                if not _implied(op):
                    return
            case _:
                pass
        _take(rewriter, op, op.source)


def _implied(op: tiny.MaskOp) -> bool:
    try:
        return isl.implies(box(op.result_type.dims, op), op.condition)
    except isl.IslLimitExceeded:
        return False


def _take(rewriter: PatternRewriter, op: Operation, value: SSAValue) -> None:
    """Put ``value`` in the place of the result of ``op``, which gives it its name."""
    if value.name_hint is None:
        value.name_hint = op.results[0].name_hint
    rewriter.replace(op, [], [value])


def _put(rewriter: PatternRewriter, op: Operation, *new: Operation) -> None:
    """Put ``new`` in the place of ``op``; the last has its result, type and name."""
    last = new[-1].results[0]
    last.name_hint = op.results[0].name_hint
    rewriter.replace(op, list(new), [last])


# Chains of one kind -----------------------------------------------------------------------


class FusePermutes(RewritePattern):
    """A permute of a permute → one.  Legal always."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PermuteOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if isinstance(inner, tiny.PermuteOp):
            perm = [inner.perm[p] for p in op.perm]
            _put(rewriter, op, tiny.PermuteOp(inner.operand, perm, op.result.type))


class FuseExpands(RewritePattern):
    """An expand of an expand → one.  Legal always: an axis that either repeats, repeats."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ExpandOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if isinstance(inner, tiny.ExpandOp):
            dims = [op.dims[d] for d in inner.dims]
            _put(rewriter, op, tiny.ExpandOp(inner.operand, dims, op.result.type))


class FuseReshapes(RewritePattern):
    """A reshape of a reshape → one.

    Legal when the numbers of elements are seen to be equal without the shape between.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if not isinstance(inner, tiny.ReshapeOp):
            return
        shape = op.result_type.dims
        if factor_groups(inner.source_type.dims, shape, op) is not None:
            _put(rewriter, op, tiny.ReshapeOp(inner.operand, shape))


class FusePads(RewritePattern):
    """A pad of a pad → one.  Legal when both fill with the same number, bit by bit."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PadOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if not isinstance(inner, tiny.PadOp) or _bits(inner.number) != _bits(op.number):
            return
        low = [a + b for a, b in zip(inner.low, op.low, strict=True)]
        high = [a + b for a, b in zip(inner.high, op.high, strict=True)]
        _put(rewriter, op, tiny.PadOp(inner.operand, low, high, op.number))


class FuseMasks(RewritePattern):
    """A mask of a mask → one where both conditions hold.

    Legal when both fill with the same number, bit by bit.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.MaskOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if not isinstance(inner, tiny.MaskOp) or _bits(inner.number) != _bits(op.number):
            return
        a, b = inner.condition, op.condition
        both = AffineSet(a.num_dims, a.num_symbols, (*a.constraints, *b.constraints))
        _put(rewriter, op, tiny.MaskOp(inner.operand, isl.canonical_set(both), op.number))


class FuseSlices(RewritePattern):
    """A slice of a slice → one: ``low + step * (low' + step' * o)``.

    Legal when the bounds of the one slice are seen to hold; a size that multiplies symbols
    can hide that.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.SliceOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if not isinstance(inner, tiny.SliceOp):
            return
        rows = list(zip(inner.low, inner.steps, op.low, op.high, op.steps, strict=True))
        low = [a + lo * s for a, s, lo, _, _ in rows]
        high = [a + (hi - 1) * s + 1 for a, s, _, hi, _ in rows]
        steps = [s * t for _, s, _, _, t in rows]
        _put_slice(rewriter, op, inner.operand, low, high, steps)


class FoldSliceOfPad(RewritePattern):
    """A slice of a pad → a slice of the operand.

    Legal when the slice takes nothing that the pad added, along any axis, by isl.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.SliceOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if isinstance(inner, tiny.PadOp):
            low = [a - b for a, b in zip(op.low, inner.low, strict=True)]
            high = [a - b for a, b in zip(op.high, inner.low, strict=True)]
            _put_slice(rewriter, op, inner.operand, low, high, op.steps)


def _put_slice(
    rewriter: PatternRewriter,
    op: tiny.SliceOp,
    source: SSAValue,
    low: Sequence[Dim],
    high: Sequence[Dim],
    steps: Sequence[int],
) -> None:
    """Replace ``op`` by a slice of ``source``, if that is one which verifies, of some elements."""
    shape, dims = slice_sizes(low, high, steps), tiny.tensor_of(source).dims
    if any(size.constant() == 0 for size in shape):
        return  # What holds of each element says nothing of where none begin.
    some = [d - 1 for d in shape]
    inside = all(
        never_negative(a, op, some) and never_negative(size - b, op, some)
        for a, b, size in zip(low, high, dims, strict=True)
    )
    if inside and same_shape(tuple(shape), op.result_type.dims, op):
        _put(rewriter, op, tiny.SliceOp(source, low, high, steps))


# Permutes towards the leaves --------------------------------------------------------------


class PermuteThroughExpand(RewritePattern):
    """A permute of an expand → an expand of a permute.  Legal always."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PermuteOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if not isinstance(inner, tiny.ExpandOp):
            return
        places = [op.perm.index(d) for d in inner.dims]
        order = sorted(range(len(places)), key=places.__getitem__)
        value, new = _permuted(inner.operand, order)
        expand = tiny.ExpandOp(value, sorted(places), op.result_type)
        _put(rewriter, op, *new, expand)


def _permuted(value: SSAValue, order: Sequence[int]) -> tuple[SSAValue, list[Operation]]:
    if list(order) == list(range(len(order))):
        return value, []
    permute = tiny.PermuteOp(value, order)
    return permute.result, [permute]


class PermuteThroughReshape(RewritePattern):
    """A permute of a reshape → a reshape of a permute.

    Legal when the permute keeps the axes of each factor group together and in order
    (S4.7).  Where the strides are numbers, isl must say too that both read the same
    operand element everywhere; symbolic strides are beyond it, and then the groups alone
    decide.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.PermuteOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if not isinstance(inner, tiny.ReshapeOp):
            return
        before, between = inner.source_type.dims, inner.result_type.dims
        after = op.result_type.dims
        groups = factor_groups(before, between, op)
        order = None if groups is None else moved_groups(groups, op.perm)
        if order is None:
            return
        symbols = len(_symbols(op))
        old = reshape_map(before, between, op)
        new = reshape_map(tuple(before[i] for i in order), after, op)
        if old is not None and new is not None:
            read_old = _after(old, _permute_map(op.perm, symbols))
            read_new = _after(_permute_map(order, symbols), new)
            if not _agree(read_old, read_new, box(after, op)):
                return
        value, made = _permuted(inner.operand, order)
        _put(rewriter, op, *made, tiny.ReshapeOp(value, after))


def moved_groups(groups: Sequence[Group], perm: Sequence[int]) -> list[int] | None:
    """The order of a reshape's operand axes when its result is permuted by ``perm``.

    None when ``perm`` takes a group apart.
    """
    at = {axis: place for place, axis in enumerate(perm)}
    placed: list[tuple[int, tuple[int, ...]]] = []
    ones: list[int] = []
    for left, right in groups:
        if not right:
            ones += left
            continue
        places = [at[axis] for axis in right]
        if places != list(range(places[0], places[0] + len(places))):
            return None
        placed.append((places[0], left))
    placed.sort()
    return [*ones, *(axis for _, left in placed for axis in left)]


class EraseUnusedMovement(RewritePattern):
    """A movement that nothing uses → nothing.  Legal always: movements are pure."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, MovementOp) and not op.results[0].first_use:
            rewriter.erase(op)


def patterns() -> list[RewritePattern]:
    """The patterns of the pass, fresh ones, in the order in which they are tried."""
    return [
        DropIdentityMovement(),
        FusePermutes(),
        FuseExpands(),
        FuseReshapes(),
        FusePads(),
        FuseMasks(),
        FuseSlices(),
        FoldSliceOfPad(),
        PermuteThroughExpand(),
        PermuteThroughReshape(),
    ]


@dataclass(frozen=True)
class TinyCanonicalizeMovements(ModulePass):
    """Fuse, drop and order the movements of every ``tiny.graph``; unused ones go.

    It runs before ``tiny-to-index``: the book is written for the movements that are left.
    """

    name = "tiny-canonicalize-movements"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, patterns(), recursive=True)
        while rewrite(op, [EraseUnusedMovement()]):
            pass
