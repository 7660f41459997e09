"""``frontend-to-tiny``: places of extremes, by numbers that hold an element and its place (S3.2).

An element of 32 bits or fewer and its place are one i64, the *key*: above, the element as an
integer that is ordered as it is, below, its place.  All keys of a row differ, so that the largest
one is the same in whatever order it is found, and what was compared is what the place is of: the
value is not computed a second time, which might round it otherwise.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f32, i32, i64
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Shape
from polyc.dialects.common.elements import bounds, ui32, width
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace

HALF = 32
"""The bits of a key below, which are the place's."""

WIDEST = bounds(i32)[1]


def shape_of(value: SSAValue) -> Shape:
    return tiny.tensor_of(value).dims


def ordered(build: Builder, x: SSAValue, *, turned: bool) -> SSAValue:
    """``x`` as an i64 between -2**31 and 2**31 - 1 in the same order, or in the other.

    x is f32 or an integer of at most 32 bits.  NaN is above all either way, and a zero of either
    sign is 0.
    """
    shape, element = shape_of(x), tiny.tensor_of(x).element_type

    def number(value: int) -> SSAValue:
        return build.splat(value, shape, i32)

    if element == f32:
        # Of negative numbers, the bits without the sign grow as the number falls.
        bits = build.add(tiny.BitcastOp(x, i32))
        below = build.binary("sub", number(bounds(i32)[0]), bits)
        whole = build.select(build.compare("lt", bits, number(0)), below, bits)
        whole = build.unary("not", whole) if turned else whole
        whole = build.select(build.compare("ne", x, x), number(WIDEST), whole)
        return build.cast(whole, i64)
    if element == ui32:
        # The same order as a signed number: the top bit turned.
        x = build.binary("xor", build.cast(x, i32), number(bounds(i32)[0]))
    x = build.cast(x, i32)
    return build.cast(build.unary("not", x) if turned else x, i64)


def places(build: Builder, shape: Shape, axis: int) -> SSAValue:
    """The place of each element along ``axis``, ui32."""
    return build.expand(build.add(tiny.IotaOp(shape[axis], ui32)), (axis,), shape)


def keyed(build: Builder, above: SSAValue, below: SSAValue) -> SSAValue:
    """A key of an i64 within 32 bits, and a ui32."""
    shape = shape_of(above)
    high = build.binary("shl", above, build.splat(HALF, shape, i64))
    return build.binary("or", high, build.cast(below, i64))


class LowerArgReduce(RewritePattern):
    """``frontend.arg_reduce`` → a max of keys, and the place in the largest one.

    The place is below as its complement, so that of equal elements the first has the largest key;
    with ``last`` as itself and one more.  So over nothing, where the max is the least of the type,
    the place is -1.  Of integers of 64 bits, which are exact, it is the largest of the places where
    the largest of them stands.  Legal when the operand is lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ArgReduceOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        shape, axis = shape_of(value), op.axis
        place = places(build, shape, axis)
        if op.last is None:
            below = build.unary("not", place)
        else:
            below = build.binary("add", place, build.splat(1, shape, ui32))
        if is_wide(value):
            best = build.reduce(op.function, value, (axis,))
            there = build.compare("eq", value, build.repeat(best, (axis,), shape))
            least = build.splat(bounds(i32)[0], shape, i32)
            signed = build.binary("xor", build.cast(below, i32), least)
            largest = build.reduce("max", build.select(there, signed, least), (axis,))
            none = build.splat(bounds(i32)[0], shape_of(largest), i32)
            largest = build.binary("xor", largest, none)
        else:
            found = keyed(build, ordered(build, value, turned=op.function == "min"), below)
            largest = build.cast(build.reduce("max", found, (axis,)), i32)
        if op.last is None:
            result = build.unary("not", largest)
        else:
            result = build.binary("sub", largest, build.splat(1, shape_of(largest), i32))
        result = build.cast(result, frontend.tensor_of(op.result).element_type)
        if op.keepdims is not None:
            result = build.repeat(result, (axis,), frontend.tensor_of(op.result).dims)
        replace(op, result, rewriter)


def is_wide(value: SSAValue) -> bool:
    """Whether an element and its place are more than 64 bits."""
    element = tiny.tensor_of(value).element_type
    return element != f32 and width(element) > HALF
