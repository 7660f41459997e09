"""``frontend-to-tiny``: resize as samples of each axis (S3.2)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineSet,
)
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.affine.repeating import clamped
from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import neutral
from polyc.dialects.common.signature import graph_of
from polyc.dialects.frontend.resizing import CUBIC, Line, Places
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace


class LowerResize(RewritePattern):
    """``frontend.resize`` → samples of each axis, between copies of the ends (S3.2).

    Legal when the operand is lowered.  Where a place is outside, the end is there as often: a
    sample of known sizes reads that, and else parts are joined as ``frontend.concat`` is.  What
    lies between elements is a sum of samples, each times a weight that the place's rest makes.
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
    if op.mode == "linear":
        weights = linear_weights(build, rest, (count,))
    else:
        weights = cubic_weights(build, rest, (count,), op.coefficient)
        if op.exclude_outside is not None:
            weights = _of_inside(build, weights, count, [op.places(axis, t) for t in op.taps], op)
    total: SSAValue | None = None
    for tap, weight in zip(op.taps, weights, strict=True):
        sample = _resized(build, x, axis, count, op.places(axis, tap))
        shape = tiny.tensor_of(sample).dims
        term = build.binary("mul", sample, build.expand(weight, (axis,), shape))
        total = term if total is None else build.binary("add", total, term)
    assert total is not None
    return total


def _of_inside(
    build: Builder,
    weights: Sequence[SSAValue],
    count: Dim,
    places: Sequence[Places],
    op: frontend.ResizeOp,
) -> list[SSAValue]:
    """Weights that are 0 for the taps outside, and whose sum is 1 again."""
    graph = graph_of(op)
    names = () if graph is None else graph.symbol_names
    end = count.as_affine(names)
    assert end is not None, "a resize's sizes are affine where its places are"
    here = AffineDimExpr(0)
    kept: list[SSAValue] = []
    total: SSAValue | None = None
    for weight, place in zip(weights, places, strict=True):
        rows = [here - place.low] if place.low else []
        rows += [end - place.high - 1 - here] if place.high else []
        if rows:
            least = tuple(
                AffineConstraintExpr(AffineConstraintKind.ge, row, AffineConstantExpr(0))
                for row in rows
            )
            weight = build.mask(weight, AffineSet(1, len(names), least), 0.0)
        kept.append(weight)
        total = weight if total is None else build.binary("add", total, weight)
    if all(not (place.low or place.high) for place in places):
        return kept
    assert total is not None
    return [build.binary("div", weight, total) for weight in kept]


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


def linear_weights(build: Builder, rest: SSAValue, shape: Shape) -> list[SSAValue]:
    """The weights of the elements before and behind a place, which is ``rest`` behind the first."""
    return [build.binary("sub", build.splat(1.0, shape), rest), rest]


def cubic_weights(
    build: Builder, rest: SSAValue, shape: Shape, coefficient: float = CUBIC
) -> list[SSAValue]:
    """Keys's weights of the elements 1 + t and t before a place, and s = 1 - t and 1 + s behind it.

    From 1 on the polynomial is a product: at 1 + t it is ``a * t * s * s``, at 1 + s
    ``a * t * s * t``.
    """
    a, behind = coefficient, build.binary("sub", build.splat(1.0, shape), rest)

    def near(x: SSAValue) -> SSAValue:
        slope = build.binary("mul", x, build.splat(a + 2, shape))
        slope = build.binary("sub", slope, build.splat(a + 3, shape))
        square = build.binary("mul", x, x)
        return build.binary("add", build.binary("mul", slope, square), build.splat(1.0, shape))

    both = build.binary("mul", build.binary("mul", rest, behind), build.splat(a, shape))
    far = [build.binary("mul", both, x) for x in (behind, rest)]
    return [far[0], near(rest), near(behind), far[1]]


def _resized(build: Builder, x: SSAValue, axis: int, count: Dim, places: Places) -> SSAValue:
    """One axis with ``count`` elements."""
    dims = list(tiny.tensor_of(x).dims)
    if places == Places(1, 0, 1, 0, 0) and dims[axis] == count:
        return x
    low, high = places.low, places.high
    if (low or high) and _few_outside(places, dims[axis], count):
        numbers = places.step, places.offset, places.divisor
        return build.add(tiny.SampleOp(x, axis, count, *numbers, ends=True))
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


def _few_outside(places: Places, size: Dim, count: Dim) -> bool:
    """Whether places along an axis of known sizes are outside by so little that one sample reads
    them all."""
    known, many = size.constant(), count.constant()
    if not known or not many:
        return False
    here = (AffineDimExpr(0) * places.step + places.offset) // places.divisor
    return clamped(here, many, known) is not None


def _end(build: Builder, x: SSAValue, axis: int, at: Dim, times: int) -> SSAValue:
    """One element of an axis, so many times."""
    dims = list(tiny.tensor_of(x).dims)
    low, high = [Dim.const(0)] * len(dims), list(dims)
    low[axis], high[axis] = at, at + 1
    one = build.add(tiny.SliceOp(x, low, high))
    dims[axis] = Dim.const(times)
    return one if times == 1 else build.expand(one, range(len(dims)), tuple(dims))
