"""``frontend-to-tiny``: resize as samples of each axis (S3.2)."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend.resizing import Places
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace


class LowerResize(RewritePattern):
    """``frontend.resize nearest`` → a sample of each axis, between copies of the ends (S3.2).

    Legal when the operand is lowered.  Where a place is outside, the end is there as often; the
    parts are joined as ``frontend.concat`` is.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ResizeOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build, found = Builder.before(op, rewriter), frontend.tensor_of(op.result).dims
        for axis in op.axes:
            value = _resized(build, value, axis, found[axis], op.places(axis))
        replace(op, value, rewriter)


def _resized(build: Builder, x: SSAValue, axis: int, count: Dim, places: Places) -> SSAValue:
    """One axis with ``count`` elements."""
    dims = list(tiny.tensor_of(x).dims)
    if places == Places(1, 0, 1, 0, 0) and dims[axis] == count:
        return x
    low, high = places.low, places.high
    between = count - low - high
    parts: list[SSAValue] = []
    if low:
        parts.append(_end(build, x, axis, Dim.const(0), low))
    if between.constant() != 0:
        offset = places.offset + low * places.step
        divisor = places.divisor
        parts.append(build.add(tiny.SampleOp(x, axis, between, places.step, offset, divisor)))
    if high:
        parts.append(_end(build, x, axis, dims[axis] - 1, high))
    if not parts:  # of nothing there is a sample too
        return build.add(tiny.SampleOp(x, axis, count, 1, 0, 1))
    before, result = Dim.const(0), None
    for part in parts:
        size = tiny.tensor_of(part).dims[axis]
        if len(parts) > 1:
            first, last = [Dim.const(0)] * len(dims), [Dim.const(0)] * len(dims)
            first[axis], last[axis] = before, count - before - size
            part = build.add(tiny.PadOp(part, first, last, -math.inf))
        before = before + size
        result = part if result is None else build.binary("max", result, part)
    assert result is not None
    return result


def _end(build: Builder, x: SSAValue, axis: int, at: Dim, times: int) -> SSAValue:
    """One element of an axis, so many times."""
    dims = list(tiny.tensor_of(x).dims)
    low, high = [Dim.const(0)] * len(dims), list(dims)
    low[axis], high[axis] = at, at + 1
    one = build.add(tiny.SliceOp(x, low, high))
    dims[axis] = Dim.const(times)
    return one if times == 1 else build.expand(one, range(len(dims)), tuple(dims))
