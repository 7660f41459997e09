"""``frontend-to-tiny``: pool as pad, window and a reduction of each window (S3.2, S4.9).

Where the largest element of a window stands is in the largest of its keys, as of ``arg_reduce``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import Attribute, SSAValue
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
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import Number, bounds, is_integer, neutral, ui32, width
from polyc.dialects.common.signature import graph_of
from polyc.dialects.common.sizes import product
from polyc.dialects.frontend.pooling import WindowsOp
from polyc.lowering.frontend_to_tiny.builder import STORABLE, Builder, lowered, replace
from polyc.lowering.frontend_to_tiny.selection import (
    HALF,
    element_above,
    element_in,
    is_wide,
    keyed,
    low_bits,
    narrow_of,
    ordered,
    ordered_above,
    places,
    signed,
)

PASS, WORTH = 8, 2
"""Steps of a window in the time that one more pass over memory takes, for each of its results, and
by how many times fewer they are to be where windows are reduced along one axis after the other."""

MOST_MASKS = 16
"""Taps of an axis that may be outside, up to which each is counted by itself."""


class LowerPool(RewritePattern):
    """``frontend.pool`` → pad, window, and a reduction over the windows' elements (S4.9).

    Legal when the operand is lowered.  A mean divides by a number where all windows have as many
    elements, and by the number of each otherwise: the product of what is counted along each axis.
    Large windows are reduced along one axis after the other: so many steps are a sum of their
    sizes, where together they are a product.  An extreme whose place is asked for too is left to
    ``LowerArgPool``.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.PoolOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        if _with_places(op) is not None:
            return
        build, fn = Builder.before(op, rewriter), op.function
        if fn == "l1":
            value = build.unary("abs", value)
        elif fn == "l2":
            value = build.binary("mul", value, value)
        kind = fn if fn in ("max", "min") else "sum"
        outside = neutral(kind, tiny.tensor_of(value).element_type)
        result, rank = value, tiny.tensor_of(value).rank
        for group in (parts := _passes(op)):
            windows = _windows(op, build, result, outside, group)
            result = build.reduce(kind, windows, range(rank, rank + len(group)))
            if group is not parts[-1] and kind != "sum" and STORABLE in op.attributes:
                # Rounding keeps the order of numbers: the extreme of rounded ones is the same.
                cast("tiny.ReduceOp", result.owner).own = frontend.tensor_of(op.result).element_type
        if fn == "l2":
            result = build.unary("sqrt", result)
        elif fn == "mean":
            result = build.binary("div", result, _divisor(op, build))
        replace(op, result, rewriter)


class LowerAdaptivePool(RewritePattern):
    """``frontend.adaptive_pool`` → windows from each place on, a sample of them, and a reduction.

    All windows of an axis have as many taps as the longest, and a mask leaves out what is not of a
    shorter one: an element ``p`` is of window ``i`` while ``p * count < (i + 1) * size``.  A mean
    divides by the number of each.  Legal when the operand is lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.AdaptivePoolOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        rank, taps = tiny.tensor_of(value).rank, [_longest(*one) for one in op.windows]
        kind = "sum" if op.function == "mean" else op.function
        outside = neutral(kind, tiny.tensor_of(value).element_type)
        low, high = ([0] * rank for _ in range(2))
        for axis, most, (size, count) in zip(op.axes, taps, op.windows, strict=True):
            # The last window may be a shorter one.
            high[axis] = max(0, (count - 1) * size // max(1, count) + most - size)
        if any(high):
            value = build.add(tiny.PadOp(value, low, high, outside))
        ones = [1] * len(taps)
        value = build.add(tiny.WindowOp(value, op.axes, taps, ones, ones))
        rows: list[AffineConstraintExpr] = []
        for place, (axis, (size, count)) in enumerate(zip(op.axes, op.windows, strict=True)):
            value = build.add(tiny.SampleOp(value, axis, count, size, 0, max(1, count)))
            if _shortest(size, count) < taps[place]:
                at, tap = AffineDimExpr(axis), AffineDimExpr(rank + place)
                before = (at * size) // count + tap
                rows.append(_at_least_zero((at + 1) * size - before * count - 1))
        if rows:
            graph = graph_of(op)
            symbols = 0 if graph is None else len(graph.symbol_names)
            inside = AffineSet(rank + len(taps), symbols, tuple(rows))
            value = build.mask(value, inside, outside)
        result = build.reduce(kind, value, range(rank, rank + len(taps)))
        if op.function == "mean":
            result = build.binary("div", result, _each(op, build))
        replace(op, result, rewriter)


def _longest(size: int, count: int) -> int:
    """The elements of the longest of so many windows of an axis; 1 of none."""
    ends = ((i * size // count, -(-(i + 1) * size // count)) for i in range(count))
    return max((end - first for first, end in ends), default=1)


def _shortest(size: int, count: int) -> int:
    """And of the shortest one, which lacks one at most."""
    return -(-size // count) if count else 1


def _each(op: frontend.AdaptivePoolOp, build: Builder) -> SSAValue:
    """How many elements each window has, in the shape of the result."""
    shape = frontend.tensor_of(op.result).dims
    plain, result = 1, None
    for axis, (size, count) in zip(op.axes, op.windows, strict=True):
        most, least = _longest(size, count), _shortest(size, count)
        if most == least:
            plain *= most
            continue
        at = AffineDimExpr(0)
        last = (at + 1) * size - ((at * size) // count + least) * count - 1
        graph = graph_of(op)
        symbols = 0 if graph is None else len(graph.symbol_names)
        one = build.splat(1.0, (shape[axis],))
        more = build.mask(one, AffineSet(1, symbols, (_at_least_zero(last),)), 0.0)
        many = build.binary("add", build.splat(float(least), (shape[axis],)), more)
        many = many if len(shape) == 1 else build.expand(many, (axis,), shape)
        result = many if result is None else build.binary("mul", result, many)
    if result is None:
        return build.splat(float(plain), shape)
    return result if plain == 1 else build.binary("mul", result, build.splat(float(plain), shape))


class LowerArgPool(RewritePattern):
    """``frontend.arg_pool`` → the largest key of each window, and the place in it (S4.9).

    A key is made of an element and its place in the plane, before the windows are cut, so that of
    equal elements the first in row-major order has the largest.  Around the operand is the least
    number of i64, which no key is, so that a window of nothing gives -1.  Of numbers that are not
    integers a key has the element's number in its window in the place of that, if it is known and
    all of a window is reduced at once.  Integers of 64 bits leave no room for a place: theirs is
    the largest of those at which their window's extreme stands.
    The extreme itself of the same windows is taken out of the key.  Legal when the operand is
    lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ArgPoolOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        beside = _extreme_of(op)
        first = op if beside is None or op.is_before_in_block(beside) else beside
        build, fn = Builder.before(first, rewriter), op.function
        best: SSAValue | None = None
        if _has_short_keys(op, value):
            best, result = _by_taps(op, build, value, beside)
            if beside is not None and best is not None:
                replace(beside, best, rewriter)
            replace(op, result, rewriter)
            return
        # Complements: the first of equal elements has the largest.
        place = build.unary("not", _places_in_plane(op, build))
        if is_wide(value):
            least = bounds(i32)[0]
            element = tiny.tensor_of(value).element_type
            elements = _windows(op, build, value, neutral(fn, element))
            most = build.reduce(fn, elements, _taps(op))
            shape = tiny.tensor_of(elements).dims
            there = build.compare("eq", elements, build.repeat(most, _taps(op), shape))
            at = _windows(op, build, signed(build, place), least)
            none = build.splat(least, shape, i32)
            largest = build.reduce("max", build.select(there, at, none), _taps(op))
            found = signed(build, largest)
        else:
            key = keyed(build, ordered(build, value, turned=fn == "min", nan_above=True), place)
            largest, rank = key, tiny.tensor_of(key).rank
            for group in _passes(op):
                windows = _windows(op, build, largest, bounds(i64)[0], group)
                largest = build.reduce("max", windows, range(rank, rank + len(group)))
            found = build.cast(largest, ui32)
            if beside is not None:
                element = tiny.tensor_of(value).element_type
                room = any(low or high for low, high in op.room())
                nothing = neutral(fn, element) if room else None
                best = element_in(build, largest, element, turned=fn == "min", nothing=nothing)
        found = build.unary("not", found)
        element = frontend.tensor_of(op.result).element_type
        if not any(low or high for low, high in op.room()):
            result = build.cast(_in_operand(op, build, found), element)
        else:
            shape = tiny.tensor_of(found).dims
            none = build.compare("eq", found, build.splat(bounds(ui32)[1], shape, ui32))
            result = build.cast(_in_operand(op, build, found), element)
            result = build.select(none, build.splat(-1, shape, element), result)
        if beside is not None and best is not None:
            replace(beside, best, rewriter)
        replace(op, result, rewriter)


def _has_short_keys(op: frontend.ArgPoolOp, value: SSAValue) -> bool:
    """Whether keys may have the number of a tap in its window in the place of an element's in the
    plane: no element is the least integer, and a window's taps are known and found together."""
    known = all(size.constant() for size in op.size)
    return tiny.tensor_of(value).element_type == f32 and known and len(_passes(op)) == 1


def _by_taps(
    op: frontend.ArgPoolOp, build: Builder, value: SSAValue, beside: frontend.PoolOp | None
) -> tuple[SSAValue | None, SSAValue]:
    """The extreme of each window, where it is asked for, and its place, by keys of an element and
    the number of its tap: what a key has below is a constant, and an element outside is no more
    than the least integer above."""
    fn, least, taps = op.function, bounds(i32)[0], _taps(op)
    turned, narrow = fn == "min", narrow_of(value)
    count = prod(size.constant() or 1 for size in op.size)
    if narrow is not None and count > 1 << low_bits(narrow):
        narrow = None
    # Below a number of 16 bits an i32 has room for the tap.
    room = 0 if narrow is None else low_bits(narrow)
    if narrow is None:
        above = ordered(build, value, turned=turned, nan_above=True)
    else:
        above = ordered_above(build, value, narrow, turned=turned)
    above = _windows(op, build, above, least)
    shape = tiny.tensor_of(above).dims
    kind = ui32 if narrow is None else i32
    number = _flat(
        build, [(a, _taps_along(build, shape, a, kind)) for a in taps], shape, taps, kind
    )
    if narrow is None:
        key = keyed(build, above, build.unary("not", number))
    else:
        number = build.binary("sub", build.splat((1 << room) - 1, shape, i32), number)
        key = build.binary("or", above, number)
    largest = build.reduce("max", key, taps)
    best: SSAValue | None = None
    shape = tiny.tensor_of(largest).dims
    if narrow is None:
        top = build.binary("shr", largest, build.splat(HALF, shape, i64))
        top = build.cast(top, i32)
    else:
        top = build.binary("and", largest, build.splat(-1 << room, shape, i32))
    none: SSAValue | None = None
    if any(low or high for low, high in op.room()):
        none = build.compare("eq", top, build.splat(least, shape, i32))
    if beside is not None:
        element = tiny.tensor_of(value).element_type
        if narrow is None:
            best = element_in(build, largest, element, turned=turned, nothing=None)
        else:
            best = element_above(build, top, turned=turned)
        if none is not None:
            best = build.select(none, build.splat(neutral(fn, element), shape, element), best)
    found = build.unary("not", build.cast(largest, ui32))
    if narrow is not None:
        found = build.binary("and", found, build.splat((1 << room) - 1, shape, ui32))
    element = frontend.tensor_of(op.result).element_type
    result = build.cast(_of_tap(op, build, found), element)
    if none is not None:
        result = build.select(none, build.splat(-1, shape, element), result)
    return best, result


def _taps_along(build: Builder, shape: Shape, axis: int, kind: Attribute) -> SSAValue:
    """The number of each tap along ``axis``."""
    return build.expand(build.add(tiny.IotaOp(shape[axis], kind)), (axis,), shape)


def _of_tap(op: frontend.ArgPoolOp, build: Builder, number: SSAValue) -> SSAValue:
    """The place that is asked for, i64, by the number of a tap of each window, ui32."""
    sizes, shape = frontend.tensor_of(op.operand).dims, tiny.tensor_of(number).dims
    counts = [size.constant() or 1 for size in op.size]
    along: dict[int, SSAValue] = {}
    for i, (axis, (low, _)) in enumerate(zip(op.axes, op.room(), strict=True)):
        tap, behind = number, prod(counts[i + 1 :])
        if behind > 1:
            tap = build.binary("div", tap, build.splat(behind, shape, ui32))
        if i > 0:
            tap = build.binary("mod", tap, build.splat(counts[i], shape, ui32))
        first = build.add(tiny.IotaOp(shape[axis], ui32))
        if op.dilation[i] > 1:
            tap = build.binary("mul", tap, build.splat(op.dilation[i], shape, ui32))
        if op.stride[i] > 1:
            first = build.binary("mul", first, build.splat(op.stride[i], (shape[axis],), ui32))
        if low > 0:
            first = build.binary("sub", first, build.splat(low, (shape[axis],), ui32))
        along[axis] = build.binary("add", build.expand(first, (axis,), shape), tap)
    if op.whole is None:
        return build.cast(_flat(build, [*along.items()], sizes, op.axes, ui32), i64)
    parts: list[tuple[int, SSAValue]] = []
    for axis in range(len(sizes)):
        if axis in along:
            parts.append((axis, build.cast(along[axis], i64)))
        else:
            place = build.add(tiny.IotaOp(shape[axis], i64))
            parts.append((axis, build.expand(place, (axis,), shape)))
    return _flat(build, parts, sizes, range(len(sizes)), i64)


def _with_places(op: frontend.PoolOp) -> frontend.ArgPoolOp | None:
    """The op that asks where the extremes of the same windows stand, which are found with them."""
    for use in op.operand.uses:
        other = use.operation
        if not isinstance(other, frontend.ArgPoolOp) or not other.result.uses:
            continue
        if _extreme_of(other) is op:
            return other
    return None


def _extreme_of(op: frontend.ArgPoolOp) -> frontend.PoolOp | None:
    """The pool of the extremes whose places an op gives, where they are taken out of its keys."""
    element = frontend.tensor_of(op.operand).element_type
    if is_integer(element) and width(element) > width(i32):
        return None
    words = ("fn", "axes", "size", "stride", "padding", "dilation", "ceil_mode")
    for use in op.operand.uses:
        other = use.operation
        if not isinstance(other, frontend.PoolOp) or other.parent is not op.parent:
            continue
        if all(other.properties.get(word) == op.properties.get(word) for word in words):
            return other
    return None


def _taps(op: WindowsOp) -> range:
    """The axes of what ``_windows`` gives that are along the windows."""
    rank = frontend.tensor_of(op.operand).rank
    return range(rank, rank + len(op.axes))


def _windows(
    op: WindowsOp,
    build: Builder,
    value: SSAValue,
    outside: Number,
    group: Sequence[int] | None = None,
) -> SSAValue:
    """The elements of each window of ``value``, which has the operand's shape along a ``group`` of
    the op's axes, all unless given."""
    rank = tiny.tensor_of(value).rank
    group = range(len(op.axes)) if group is None else group
    room = {op.axes[i]: op.room()[i] for i in group}
    if any(low or high for low, high in room.values()):
        low, high = ([0] * rank for _ in range(2))
        for axis, (before, after) in room.items():
            low[axis], high[axis] = before, after
        value = build.add(tiny.PadOp(value, low, high, outside))
    size = [op.size[i] for i in group]
    stride, dilation = ([n[i] for i in group] for n in (op.stride, op.dilation))
    return build.add(tiny.WindowOp(value, list(room), size, stride, dilation))


def _passes(op: WindowsOp) -> list[list[int]]:
    """The axes of a pool, by number, that are reduced together, one group after the other: all at
    once, or each by itself, those of large steps first, where that is much less to do."""
    sizes = [size.constant() for size in op.size]
    taps, every = [size for size in sizes if size], list(range(len(sizes)))
    if len(taps) < len(sizes) or len(taps) < 2:
        return [every]
    order = sorted(every, key=lambda i: -op.stride[i])
    steps = 0
    for number, i in enumerate(order):
        # What a pass leaves is as many times more as the others' steps are large.
        steps += (taps[i] + PASS) * prod(op.stride[j] for j in order[number + 1 :])
    return [[i] for i in order] if prod(taps) > WORTH * steps else [every]


def _places_in_plane(op: frontend.ArgPoolOp, build: Builder) -> SSAValue:
    """The place of each element of the operand in the plane of the axes, ui32."""
    shape = frontend.tensor_of(op.operand).dims
    return _flat(build, [(a, places(build, shape, a)) for a in op.axes], shape, op.axes, ui32)


def _flat(
    build: Builder,
    parts: Sequence[tuple[int, SSAValue]],
    sizes: Shape,
    axes: Sequence[int],
    element: Attribute,
) -> SSAValue:
    """The sum of places along axes, each times the elements of ``axes`` behind its own."""
    found = None
    for axis, part in parts:
        behind = product(sizes[a] for a in axes if a > axis)
        shape = tiny.tensor_of(part).dims
        if behind.constant() != 1:
            part = build.binary("mul", part, build.spread(build.size(behind, element), shape))
        found = part if found is None else build.binary("add", found, part)
    assert found is not None  # there are axes
    return found


def _in_operand(op: frontend.ArgPoolOp, build: Builder, found: SSAValue) -> SSAValue:
    """The place that is asked for, i64, by that in the plane, ui32."""
    if op.whole is None:
        return build.cast(found, i64)
    sizes, shape = frontend.tensor_of(op.operand).dims, tiny.tensor_of(found).dims
    every, axes = range(len(sizes)), op.axes
    parts: list[tuple[int, SSAValue]] = []
    for axis in every:
        if axis not in axes:
            place = build.add(tiny.IotaOp(shape[axis], i64))
            parts.append((axis, build.expand(place, (axis,), shape)))
            continue
        part = found
        behind = product(sizes[a] for a in axes if a > axis)
        if behind.constant() != 1:
            part = build.binary("div", part, build.spread(build.size(behind, ui32), shape))
        if axis != axes[0]:
            part = build.binary("mod", part, build.spread(build.size(sizes[axis], ui32), shape))
        parts.append((axis, build.cast(part, i64)))
    return _flat(build, parts, sizes, every, i64)


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
