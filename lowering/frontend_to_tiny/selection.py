"""``frontend-to-tiny``: places of extremes and sorts, by integers that hold elements and places.

An element of 32 bits or fewer and its place are one i64, the *key*: above, the element as an
integer that is ordered as it is, below, its place.  All keys of a row differ, so that the largest
one is the same in whatever order it is found, and what was compared is what the place is of: the
value is not computed a second time, which might round it otherwise.  A sort is one of keys, and
what it gives is taken out of these; which of their bits decide is said with it.  What is a number
of 16 bits is one there too, so that fewer do; where it and a place of a known axis have room in 32
bits, so has the key, half of which is to be moved then.  An element of 64 bits leaves no room for
its place, and has no rounding: it is sorted by its halves, the lower one first (S3.2).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType, bf16, f16, f32, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import frontend, tiny
from polyc.dialects.common.deciding import Bits
from polyc.dialects.common.dim import Shape
from polyc.dialects.common.elements import Number, bounds, computed, is_unsigned, ui32, ui64, width
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.tiny.sorting import MOST
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace, replace_all
from polyc.lowering.frontend_to_tiny.in_parts import first_few, first_sorted

HALF = 32
"""The bits of a key below, which are the place's."""

WIDEST = bounds(i32)[1]


@dataclass(frozen=True)
class Packing:
    """How a key holds an element and its place: the type of a key, and how many of its lowest bits
    are the place's."""

    kind: IntegerType = i64
    below: int = HALF


WHOLE = Packing()
"""Keys that have room for any of both."""

WIDE, NARROW = 32, 16
"""Bits of an element as an integer, and of one that was a number of 16 bits."""

MANTISSA: dict[Attribute, int] = {f32: 23, bf16: 7, f16: 10}
"""Bits of a number behind its exponent's."""

INFINITE = {f16: 31 << 10}
"""The bits of what is infinite."""

SHIFTED = 127 - 15
"""By how much the exponent of an f32 is above that of the same f16."""

LEAST_NORMAL = (127 - 14) << 23
"""The bits of the least normal f16 as an f32."""

LEAST_TIMES = 24
"""It is 2 to the minus so much times the number that the bits of a smaller one are."""


def shape_of(value: SSAValue) -> Shape:
    return tiny.tensor_of(value).dims


def ordered(build: Builder, x: SSAValue, *, turned: bool, nan_above: bool = False) -> SSAValue:
    """``x`` as an i64 between -2**31 and 2**31 - 1 in the same order, or ``turned`` in the other.

    x is f32 or an integer of at most 32 bits.  NaN is above all, or, turned, below all but for
    ``nan_above``; a zero of either sign is 0.
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
        top = number(WIDEST if nan_above or not turned else bounds(i32)[0])
        return build.cast(build.select(build.compare("ne", x, x), top, whole), i64)
    if element == ui32:
        # The same order as a signed number: the top bit turned.
        x = build.binary("xor", build.cast(x, i32), number(bounds(i32)[0]))
    x = build.cast(x, i32)
    return build.cast(build.unary("not", x) if turned else x, i64)


def narrow_of(x: SSAValue) -> Attribute | None:
    """The type of 16 bits that an f32 has just been, f16 or bf16; None of any other."""
    if not isinstance(x.owner, tiny.CastOp) or tiny.tensor_of(x).element_type != f32:
        return None
    kind = tiny.tensor_of(x.owner.operand).element_type
    return kind if kind in (f16, bf16) else None


def deciding(kind: Attribute) -> int:
    """How many bits of ``ordered``'s integer decide, the sign's with them."""
    if kind == f32:
        return WIDE
    if kind in (f16, bf16):
        return NARROW
    unsigned = is_unsigned(kind) and kind != ui32
    return min(WIDE, width(kind) + (1 if unsigned else 0))


def ordered_narrow(build: Builder, x: SSAValue, kind: Attribute, *, turned: bool) -> SSAValue:
    """The same of an f32 that was a number of 16 bits, as an i64 of 16 bits: the number's own bits,
    its sign apart."""
    shape = shape_of(x)

    def number(value: int) -> SSAValue:
        return build.splat(value, shape, i32)

    bits = build.add(tiny.BitcastOp(x, i32))
    size = build.binary("and", bits, number(bounds(i32)[1]))
    if kind == bf16:
        size = build.binary("shr", size, number(MANTISSA[f32] - MANTISSA[bf16]))
    else:
        # Below the least normal f16 its bits are how many of the least numbers it is.
        short = MANTISSA[f32] - MANTISSA[f16]
        low = build.binary("min", size, number(LEAST_NORMAL))
        low = build.binary("add", low, number(LEAST_TIMES << MANTISSA[f32]))
        low = build.cast(build.add(tiny.BitcastOp(low, f32)), i32)
        high = build.binary("sub", size, number(SHIFTED << MANTISSA[f32]))
        high = build.binary("min", build.binary("shr", high, number(short)), number(INFINITE[f16]))
        size = build.select(build.compare("lt", size, number(LEAST_NORMAL)), low, high)
    negative = build.compare("lt", bits, number(0))
    whole = build.select(negative, build.binary("sub", number(0), size), size)
    whole = build.unary("not", whole) if turned else whole
    top = number((1 << NARROW - 1) - 1 if not turned else -(1 << NARROW - 1))
    return build.cast(build.select(build.compare("ne", x, x), top, whole), i64)


def low_bits(kind: Attribute) -> int:
    """How many of the lowest bits are 0 of an f32 that was a number of a type of 16 bits, the least
    of which are normal numbers of f32."""
    return MANTISSA[f32] - MANTISSA[kind]


def ordered_above(build: Builder, x: SSAValue, kind: Attribute, *, turned: bool) -> SSAValue:
    """An f32 that was a number of 16 bits as an i32 in the same order, or ``turned`` in the other,
    whose ``low_bits`` are 0.  NaN is above all; a zero of either sign is 0, and no number is the
    least integer."""
    shape, room = shape_of(x), low_bits(kind)

    def number(value: int) -> SSAValue:
        return build.splat(value, shape, i32)

    bits = build.add(tiny.BitcastOp(x, i32))
    below = build.binary("sub", number(bounds(i32)[0]), bits)
    whole = build.select(build.compare("lt", bits, number(0)), below, bits)
    whole = build.binary("sub", number(0), whole) if turned else whole
    return build.select(build.compare("ne", x, x), number(WIDEST >> room << room), whole)


def element_above(build: Builder, whole: SSAValue, *, turned: bool) -> SSAValue:
    """The f32 that an integer of ``ordered_above`` is of."""
    shape = shape_of(whole)

    def number(value: int) -> SSAValue:
        return build.splat(value, shape, i32)

    whole = build.binary("sub", number(0), whole) if turned else whole
    below = build.binary("sub", number(bounds(i32)[0]), whole)
    bits = build.select(build.compare("lt", whole, number(0)), below, whole)
    return build.add(tiny.BitcastOp(bits, f32))


def _widened(build: Builder, size: SSAValue, kind: Attribute) -> SSAValue:
    """The bits of an f32 of those of a number of 16 bits without its sign; what is beyond the
    infinite one is NaN."""
    shape = shape_of(size)

    def number(value: int) -> SSAValue:
        return build.splat(value, shape, i32)

    bits = build.binary(
        "shl", size, number(MANTISSA[f32] - MANTISSA[bf16 if kind == bf16 else f16])
    )
    if kind == bf16:
        return bits
    high = build.binary("add", bits, number(SHIFTED << MANTISSA[f32]))
    low = build.add(tiny.BitcastOp(build.cast(size, f32), i32))
    low = build.binary("sub", low, number(LEAST_TIMES << MANTISSA[f32]))
    low = build.select(build.compare("eq", size, number(0)), number(0), low)
    normal = build.compare("ge", size, number(1 << MANTISSA[f16]))
    found = build.select(normal, high, low)
    beyond = build.binary("add", bits, number(2 * SHIFTED << MANTISSA[f32]))
    endless = build.compare("ge", size, number(INFINITE[f16]))
    return build.select(endless, beyond, found)


def places(build: Builder, shape: Shape, axis: int) -> SSAValue:
    """The place of each element along ``axis``, ui32."""
    return build.expand(build.add(tiny.IotaOp(shape[axis], ui32)), (axis,), shape)


def signed(build: Builder, x: SSAValue) -> SSAValue:
    """A ui32 as an i32 in the same order, or such an i32 as the ui32 that it was."""
    other = i32 if tiny.tensor_of(x).element_type == ui32 else ui32
    top = build.splat(bounds(i32)[0], shape_of(x), i32)
    return build.cast(build.binary("xor", build.cast(x, i32), top), other)


def keyed(build: Builder, above: SSAValue, below: SSAValue, packing: Packing = WHOLE) -> SSAValue:
    """A key of an i64 within the bits that it has room for, and a ui32."""
    shape, kind = shape_of(above), packing.kind
    high = build.binary("shl", build.cast(above, kind), build.splat(packing.below, shape, kind))
    return build.binary("or", high, build.cast(below, kind))


def element_in(
    build: Builder, key: SSAValue, element: Attribute, *, turned: bool, nothing: Number | None
) -> SSAValue:
    """What a key is of, which ``keyed`` has of ``ordered`` with ``nan_above``; ``nothing`` for the
    least i64, which is of no element, unless that never is."""
    shape = shape_of(key)

    def number(value: int) -> SSAValue:
        return build.splat(value, shape, i32)

    top = build.cast(build.binary("shr", key, build.splat(HALF, shape, i64)), i32)
    whole = build.unary("not", top) if turned else top
    if element == f32:
        below = build.binary("sub", number(bounds(i32)[0]), whole)
        bits = build.select(build.compare("lt", whole, number(0)), below, whole)
        if turned:  # NaN is above as it is.
            bits = build.select(build.compare("eq", top, number(WIDEST)), number(WIDEST), bits)
        found = build.add(tiny.BitcastOp(bits, f32))
    elif element == ui32:
        found = build.cast(build.binary("xor", whole, number(bounds(i32)[0])), ui32)
    else:
        found = build.cast(whole, element)
    if nothing is None:
        return found
    least = build.compare("eq", key, build.splat(bounds(i64)[0], shape, i64))
    return build.select(least, build.splat(nothing, shape, element), found)


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
            largest = build.reduce("max", build.select(there, signed(build, below), least), (axis,))
            largest = build.cast(signed(build, largest), i32)
        else:
            found = keyed(
                build, ordered(build, value, turned=op.function == "min", nan_above=True), below
            )
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


# Sorts -------------------------------------------------------------------------------------


class LowerSort(RewritePattern):
    """``frontend.sort`` → a ``tiny.sort`` of keys, and what these hold.

    Below in a key is the element's place, and for f32 one bit that says that it is -0.0, which is
    as large as 0.0.  More than ``tiny.sort`` keeps of an axis is a slice of all.  Integers of 64
    bits are sorted by their halves where places are wanted.  Legal when the operand is lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.SortOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        wanted = [bool(result.first_use) for result in op.results]
        element = frontend.tensor_of(op.places).element_type
        results: list[SSAValue | None] = [None, None]
        turned = op.descending is not None
        if 0 in [dim.constant() for dim in frontend.tensor_of(op.values).dims]:
            for i, result in enumerate(op.results):
                kind = frontend.tensor_of(result)
                results[i] = build.splat(0, kind.dims, computed(kind.element_type))
        elif is_wide(value):
            x = build.unary("not", value) if turned else value
            if wanted[1]:
                stood = _places_by_halves(build, x, op)
                results[1] = build.cast(stood, element)
                if wanted[0]:
                    results[0] = build.add(tiny.GatherOp(value, [stood], [op.axis]))
            elif wanted[0]:
                found = _first(build, x, op)
                results[0] = build.unary("not", found) if turned else found
        else:
            below = places(build, shape_of(value), op.axis)
            if (kind := tiny.tensor_of(value).element_type) == f32:
                below = _with_sign_of_zero(build, value, below)
            narrow = narrow_of(value)
            if narrow is None or not is_whole(op):
                narrow, above = None, ordered(build, value, turned=turned)
            else:
                above = ordered_narrow(build, value, narrow, turned=turned)
            whole = is_whole(op)
            packing = packing_of(value, op.axis, deciding(narrow or kind)) if whole else WHOLE
            bits = packing.below, packing.below + deciding(narrow or kind)
            found = _first(build, keyed(build, above, below, packing), op, bits)
            if wanted[0]:
                results[0] = _element_in(build, found, kind, turned, narrow, packing)
            if wanted[1]:
                low = build.cast(found, ui32)
                if packing.below < HALF:
                    room = build.splat((1 << packing.below) - 1, shape_of(low), ui32)
                    low = build.binary("and", low, room)
                if kind == f32:
                    low = build.binary("shr", low, build.splat(1, shape_of(low), ui32))
                results[1] = build.cast(low, element)
        replace_all(op, results, rewriter)


def packing_of(value: SSAValue, axis: int, bits: int) -> Packing:
    """The keys of elements of which so many bits decide: of 32 bits where places have room."""
    size, room = shape_of(value)[axis].constant(), WIDE - bits
    places = room - (tiny.tensor_of(value).element_type == f32)  # A bit is -0.0's.
    if size is None or places < 1 or size > 1 << places:
        return WHOLE
    return Packing(i32, room)


def is_whole(op: frontend.SortOp) -> bool:
    """Whether all of the axis is sorted, and not only the first elements kept."""
    size, number = frontend.tensor_of(op.operand).dims[op.axis], op.first.constant()
    return op.first == size or number is None or number > MOST


def _first(build: Builder, x: SSAValue, op: frontend.SortOp, by: Bits | None = None) -> SSAValue:
    """So many of the least along the axis as a sort gives; ``by`` are the bits that decide."""
    if not is_whole(op):
        number = op.first.constant()
        assert number is not None
        if by is None:
            return build.add(tiny.SortOp(x, op.axis, op.first))
        size = element_bytes(frontend.tensor_of(op.operand).element_type)
        return first_few(build, x, op.axis, number, by, size)
    first, whole = op.first, None
    if by is not None and first != shape_of(x)[op.axis] and (number := first.constant()):
        whole = first_sorted(build, x, op.axis, number, by)
    if whole is None:
        whole = build.add(tiny.SortOp(x, op.axis, by=by))
    if first == shape_of(x)[op.axis] or first.constant() is None:
        return whole
    return build.slice(whole, [first if i == op.axis else d for i, d in enumerate(shape_of(x))])


def _with_sign_of_zero(build: Builder, x: SSAValue, place: SSAValue) -> SSAValue:
    """The place times two, and one where an f32 is -0.0."""
    shape = shape_of(x)
    bits = build.add(tiny.BitcastOp(x, i32))
    minus = build.compare("eq", bits, build.splat(bounds(i32)[0], shape, i32))
    one, zero = (build.splat(n, shape, ui32) for n in (1, 0))
    return build.binary("or", build.binary("shl", place, one), build.select(minus, one, zero))


def _element_in(
    build: Builder,
    key: SSAValue,
    kind: Attribute,
    turned: bool,
    narrow: Attribute | None,
    packing: Packing,
) -> SSAValue:
    """The element that a key holds, as it is computed with: what ``ordered`` made, undone, or
    ``ordered_narrow`` of a type."""
    shape = shape_of(key)
    least = build.splat(bounds(i32)[0], shape, i32)
    whole = build.binary("shr", key, build.splat(packing.below, shape, packing.kind))
    whole = build.cast(whole, i32)
    whole = build.unary("not", whole) if turned else whole
    if kind == ui32:
        return build.cast(build.binary("xor", whole, least), kind)
    if kind != f32:
        return build.cast(whole, kind)
    below = build.compare("lt", whole, build.splat(0, shape, i32))
    if narrow is not None:
        whole = build.select(below, build.binary("sub", build.splat(0, shape, i32), whole), whole)
        bits = _widened(build, whole, narrow)
        bits = build.select(below, build.binary("or", bits, least), bits)
    else:
        # What NaN is as an integer is NaN as an f32.
        bits = build.select(below, build.binary("sub", least, whole), whole)
    last = build.binary("and", build.cast(key, i32), build.splat(1, shape, i32))
    minus = build.compare("ne", last, build.splat(0, shape, i32))
    return build.add(tiny.BitcastOp(build.select(minus, least, bits), f32))


def _places_by_halves(build: Builder, x: SSAValue, op: frontend.SortOp) -> SSAValue:
    """Where elements of 64 bits stood, ui32: they are sorted by their lower halves, and what that
    gives by the upper ones, each with its place, so that what is equal keeps its order."""
    shape, axis = shape_of(x), op.axis
    element = tiny.tensor_of(x).element_type
    place = places(build, shape, axis)
    low = build.cast(signed(build, build.cast(x, ui32)), i64)
    bits = HALF, HALF + WIDE
    first = build.cast(build.add(tiny.SortOp(keyed(build, low, place), axis, by=bits)), ui32)
    high = build.binary("shr", x, build.splat(HALF, shape, element))
    if element == ui64:
        high = build.cast(signed(build, build.cast(high, ui32)), i64)
    high = build.add(tiny.GatherOp(high, [first], [axis]))
    then = build.cast(_first(build, keyed(build, high, place), op, bits), ui32)
    return build.add(tiny.GatherOp(first, [then], [axis]))
