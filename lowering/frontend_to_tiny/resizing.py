"""``frontend-to-tiny``: resize as samples of each axis (S3.2)."""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import neutral
from polyc.dialects.frontend.resizing import FAR, NEAR, Line, Places
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace


class LowerResize(RewritePattern):
    """``frontend.resize`` → samples of each axis, between copies of the ends (S3.2).

    Legal when the operand is lowered.  Where a place is outside, the end is there as often; the
    parts are joined as ``frontend.concat`` is.  What lies between elements is a sum of samples,
    each times a weight that the place's rest makes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ResizeOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build, found = Builder.before(op, rewriter), frontend.tensor_of(op.result).dims
        for axis in op.axes:
            if op.mode == "nearest" or op.line(axis).reduced.divisor == 1:
                value = _resized(build, value, axis, found[axis], op.places(axis))
            else:
                value = _between(build, value, axis, op)
        replace(op, value, rewriter)


def _between(build: Builder, x: SSAValue, axis: int, op: frontend.ResizeOp) -> SSAValue:
    """One axis, every element the weighted sum of those that its place takes."""
    count = frontend.tensor_of(op.result).dims[axis]
    rest = _rest(build, count, op.line(axis).reduced)
    weights = (_linear if op.mode == "linear" else _cubic)(build, rest, (count,))
    total: SSAValue | None = None
    for tap, weight in zip(op.taps, weights, strict=True):
        sample = _resized(build, x, axis, count, op.places(axis, tap))
        shape = tiny.tensor_of(sample).dims
        term = build.binary("mul", sample, build.expand(weight, (axis,), shape))
        total = term if total is None else build.binary("add", total, term)
    assert total is not None
    return total


def _rest(build: Builder, count: Dim, line: Line) -> SSAValue:
    """How far each place is behind the element before it, between 0 and 1.

    Exact but for one rounding: products are of numbers below the divisor.
    """
    element = i32 if line.divisor < 1 << 15 else i64
    number = build.add(tiny.IotaOp(count, element))

    def step(fn: str, value: SSAValue, by: int) -> SSAValue:
        return build.binary(fn, value, build.splat(by, (count,), element))

    number = step("mul", step("mod", number, line.divisor), line.step % line.divisor)
    number = step("mod", step("add", number, line.offset % line.divisor), line.divisor)
    return build.binary("div", build.cast(number, f32), build.splat(float(line.divisor), (count,)))


def _linear(build: Builder, rest: SSAValue, shape: Shape) -> list[SSAValue]:
    return [build.binary("sub", build.splat(1.0, shape), rest), rest]


def _cubic(build: Builder, rest: SSAValue, shape: Shape) -> list[SSAValue]:
    """Keys's weights of the elements 1 + t and t before a place, and 1 - t and 2 - t behind it."""

    def polynomial(x: SSAValue, *factors: float) -> SSAValue:
        found = build.splat(factors[0], shape)
        for factor in factors[1:]:
            found = build.binary("mul", found, x)
            found = build.binary("add", found, build.splat(factor, shape))
        return found

    one = build.splat(1.0, shape)
    behind = build.binary("sub", one, rest)
    return [
        polynomial(build.binary("add", rest, one), *FAR),
        polynomial(rest, *NEAR),
        polynomial(behind, *NEAR),
        polynomial(build.binary("add", behind, one), *FAR),
    ]


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
    least = neutral("max", tiny.tensor_of(x).element_type)
    before, result = Dim.const(0), None
    for part in parts:
        size = tiny.tensor_of(part).dims[axis]
        if len(parts) > 1:
            first, last = [Dim.const(0)] * len(dims), [Dim.const(0)] * len(dims)
            first[axis], last[axis] = before, count - before - size
            part = build.add(tiny.PadOp(part, first, last, least))
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
