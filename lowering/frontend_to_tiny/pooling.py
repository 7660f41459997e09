"""``frontend-to-tiny``: pool as pad, window and a reduction of each window (S3.2, S4.9)."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
)
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import neutral
from polyc.dialects.common.signature import graph_of
from polyc.dialects.common.sizes import product
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace

MOST_MASKS = 16
"""Taps of an axis that may be outside, up to which each is counted by itself."""


class LowerPool(RewritePattern):
    """``frontend.pool`` → pad, window, and a reduction over the windows' elements (S4.9).

    Legal when the operand is lowered.  A mean divides by a number where all windows have as many
    elements, and by the number of each otherwise: the product of what is counted along each axis.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.PoolOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build, fn = Builder.before(op, rewriter), op.function
        if fn == "l1":
            value = build.unary("abs", value)
        elif fn == "l2":
            value = build.binary("mul", value, value)
        rank = tiny.tensor_of(value).rank
        kind = fn if fn in ("max", "min") else "sum"
        if any(low or high for low, high in op.room()):
            low, high = ([0] * rank for _ in range(2))
            for axis, (before, after) in zip(op.axes, op.room(), strict=True):
                low[axis], high[axis] = before, after
            element = tiny.tensor_of(value).element_type
            value = build.add(tiny.PadOp(value, low, high, neutral(kind, element)))
        windows = build.add(tiny.WindowOp(value, op.axes, op.size, op.stride, op.dilation))
        result = build.reduce(kind, windows, range(rank, rank + len(op.axes)))
        if fn == "l2":
            result = build.unary("sqrt", result)
        elif fn == "mean":
            result = build.binary("div", result, _divisor(op, build))
        replace(op, result, rewriter)


def _divisor(op: frontend.PoolOp, build: Builder) -> SSAValue:
    """How many elements of each window count, in the shape of the result."""
    shape = frontend.tensor_of(op.result).dims
    plain: list[Dim] = []
    factors: list[SSAValue] = []
    for i, axis in enumerate(op.axes):
        if (counts := _counts(op, build, i)) is None:
            plain.append(op.size[i])
        else:
            whole = len(shape) == 1
            factors.append(counts if whole else build.expand(counts, (axis,), shape))
    result = build.spread(build.size(product(plain)), shape) if plain or not factors else None
    for factor in factors:
        result = factor if result is None else build.binary("mul", result, factor)
    assert result is not None  # there are axes
    return result


def _counts(op: frontend.PoolOp, build: Builder, i: int) -> SSAValue | None:
    """How many elements of each window count along axis ``i`` of the pool; None where all do.

    Taps that reach outside in no window count 1 each, and each of the others 1 where its place is
    inside: what can be outside are the first taps, by the room before the operand, and the last, by
    that after it.  So few are asked for, and nothing is summed in a loop.
    """
    axis, size, step, spread = op.axes[i], op.size[i], op.stride[i], op.dilation[i]
    (low, high), (first, last) = op.room()[i], op.padding[2 * i : 2 * i + 2]
    counted = op.count_include_pad is not None
    # The places that count are [-before, size of the axis + after).
    before, after = (first, last) if counted else (0, 0)
    taps = size.constant()
    if low <= before and high <= after:
        return None
    count = frontend.tensor_of(op.result).dims[axis]
    inner = frontend.tensor_of(op.operand).dims[axis] + before + after
    early = set(range(0, -(-(low - before) // spread)))
    late = set(range(0, max(0, -(-(high - after) // spread))))
    graph = graph_of(op)
    names = () if graph is None else graph.symbol_names
    end = inner.as_affine(names)
    if taps is None or end is None or len(early) + len(late) > MOST_MASKS:
        ones = build.splat(1.0, (inner,))
        ends = [low - before], [max(0, high - after)]
        padded = build.add(tiny.PadOp(ones, *ends, 0.0))
        if high < after:
            whole = tiny.tensor_of(padded).dims[0]
            padded = build.add(tiny.SliceOp(padded, [0], [whole - (after - high)]))
        windows = build.add(tiny.WindowOp(padded, (0,), (size,), (step,), (spread,)))
        return build.reduce("sum", windows, (1,))
    asked = sorted({r for r in early if r < taps} | {taps - 1 - r for r in late if r < taps})
    one = build.splat(1.0, (count,))
    result = None
    if always := taps - len(asked):
        result = one if always == 1 else build.splat(float(always), (count,))
    for tap in asked:
        place = AffineDimExpr(0) * step + (tap * spread - low + before)
        rows: list[AffineExpr] = []
        if tap in early:
            rows.append(place)
        if taps - 1 - tap in late:
            rows.append(end - place - 1)
        inside = AffineSet(1, len(names), tuple(_at_least_zero(row) for row in rows))
        counted_here = build.mask(one, inside, 0.0)
        result = counted_here if result is None else build.binary("add", result, counted_here)
    return result


def _at_least_zero(expr: AffineExpr) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.ge, expr, AffineConstantExpr(0))
