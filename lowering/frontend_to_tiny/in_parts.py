"""``frontend-to-tiny``: long axes in parts, and the first few of an axis one after another.

A kernel sorts a row, or keeps the least of it, by one block, and walks along a line in 64 bits by
one.  Of few and long ones most of a chip would idle: each is cut into parts, which as many blocks
have, and what these leave is put together.  All of it is of integers, and exact.  Sizes have to be
known.
"""

from __future__ import annotations

from math import ceil, inf, prod

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.deciding import Bits
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import Number, accumulation, bounds
from polyc.lowering.frontend_to_tiny.builder import Builder, known_sizes

AT_ONCE = 1056
"""Rows that blocks have at once, of which a multiprocessor has eight."""

LAUNCH = 3e-6
"""Seconds from one kernel to the next."""

BEGUN, WALKED = 2.5e-6, 0.42e-9
"""Seconds in which a block keeps the least of a short row, and more for each element of it."""

SECTOR = 32
"""Bytes that come at once, of which a row has an element where its neighbours lie apart."""

BANDWIDTH = 2e12
"""Bytes of memory a second."""

ROUNDS = 4
"""Elements that are found one after another at most."""

LEAST_PART = 2048
"""Elements of a part at least."""

FEW_LINES, SIDE_BY_SIDE = 264, 33792
"""Lines of a scan up to which they are cut into parts: of those that lie in memory a block has one,
of others a thread."""

THREADS = 128
"""Of these lines for one of those: a block's threads."""

SHORT_PART = 64
"""Elements of a part of lines that lie side by side, at least."""

WORTH = 4
"""Parts from which on it is worth the kernels."""

SORTED, MULTIPROCESSORS = 16384, 132
"""Elements of a row that a block sorts in shared memory, and blocks that fill a chip."""

COMBINED = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
"""How what is before a part is combined with it."""


def cut(build: Builder, value: SSAValue, axis: int, parts: int, fill: Number) -> SSAValue:
    """An axis as ``parts`` of equal length, of which the last one is filled up."""
    dims = list(tiny.tensor_of(value).dims)
    size = dims[axis].constant()
    assert size is not None
    length = -(-size // parts)
    if more := parts * length - size:
        high = [more if i == axis else 0 for i in range(len(dims))]
        value = build.add(tiny.PadOp(value, [0] * len(dims), high, fill))
    both = [Dim.const(parts), Dim.const(length)]
    return build.reshape(value, (*dims[:axis], *both, *dims[axis + 1 :]))


def joined(build: Builder, value: SSAValue, axis: int, size: int) -> SSAValue:
    """Two axes as one, of which the first ``size`` elements are left."""
    dims = list(tiny.tensor_of(value).dims)
    both = dims[axis] * dims[axis + 1]
    shape = (*dims[:axis], both, *dims[axis + 2 :])
    value = build.reshape(value, shape)
    if both == Dim.const(size):
        return value
    return build.slice(value, [Dim.const(size) if i == axis else d for i, d in enumerate(shape)])


def parts_near(size: int, wanted: int) -> int:
    """So many parts, or about as many that need not be filled up."""
    near = range(max(2, wanted * 2 // 3), wanted * 3 // 2 + 1)
    whole = [parts for parts in near if size % parts == 0]
    return min(whole, key=lambda parts: abs(parts - wanted), default=max(2, wanted))


# The first few of an axis -----------------------------------------------------------------


def kept_time(rows: int, size: int, beside: bool) -> float:
    """About how long blocks take that keep the least of rows; ``beside``: whether the elements of a
    row are neighbours in memory."""
    walked = ceil(rows / AT_ONCE) * (BEGUN + WALKED * size)
    return walked if beside else max(walked, rows * size * SECTOR / BANDWIDTH)


def first_few(
    build: Builder, keys: SSAValue, axis: int, count: int, by: Bits, size_in_bytes: int
) -> SSAValue:
    """The ``count`` least of keys that all differ along an axis, in the way that takes least time.

    One of them is a minimum.  A few are found one after another, each as the least of those above
    the one before.  Of few and long rows the least of parts are sorted again.
    """
    if count == 1:
        dims = tiny.tensor_of(keys).dims
        one = tuple(Dim.const(1) if i == axis else d for i, d in enumerate(dims))
        return build.repeat(build.reduce("min", keys, (axis,)), (axis,), one)
    whole = tiny.SortOp(keys, axis, Dim.const(count), by)
    sizes = known_sizes(keys)
    if sizes is None:
        return build.add(whole)
    size, beside = sizes[axis], axis == len(sizes) - 1
    rows = prod(sizes) // size
    single = kept_time(rows, size, beside)
    once = LAUNCH + prod(sizes) * size_in_bytes / BANDWIDTH
    rounds = count * once if count <= ROUNDS else inf
    parts = parts_near(size, max(2, min(round((size / count) ** 0.5), size // LEAST_PART)))
    apart = inf
    if size >= 2 * max(LEAST_PART, parts * count):
        apart = kept_time(rows * parts, -(-size // parts), beside) + LAUNCH
        apart += kept_time(rows, parts * count, beside)
    if single <= min(rounds, apart):
        return build.add(whole)
    if rounds <= apart:
        return _in_rounds(build, keys, axis, count)
    most = bounds(tiny.tensor_of(keys).element_type)[1]
    found = cut(build, keys, axis, parts, most)
    found = build.add(tiny.SortOp(found, axis + 1, Dim.const(count), by))
    found = joined(build, found, axis, parts * count)
    return build.add(tiny.SortOp(found, axis, Dim.const(count), by))


def first_sorted(
    build: Builder, keys: SSAValue, axis: int, count: int, by: Bits
) -> SSAValue | None:
    """The ``count`` least of keys, more than a kernel keeps, of rows that are longer than a block
    sorts: parts are sorted, and the first of all of them again; None where rows are not cut so.

    Each part is in shared memory once, where a sort of the whole row goes over memory for each
    digit.
    """
    sizes = known_sizes(keys)
    if sizes is None or (size := sizes[axis]) <= SORTED:
        return None
    parts, rows = -(-size // SORTED), prod(sizes) // size
    parts = next((n for n in range(parts, 2 * parts) if size % n == 0), parts)
    if parts * count > SORTED or parts * rows < MULTIPROCESSORS:
        return None
    most = bounds(tiny.tensor_of(keys).element_type)[1]
    found = cut(build, keys, axis, parts, most)
    found = build.add(tiny.SortOp(found, axis + 1, by=by))
    shape = list(tiny.tensor_of(found).dims)
    found = build.slice(found, [*shape[: axis + 1], Dim.const(count), *shape[axis + 2 :]])
    found = joined(build, found, axis, parts * count)
    return build.add(tiny.SortOp(found, axis, by=by))


def _in_rounds(build: Builder, keys: SSAValue, axis: int, count: int) -> SSAValue:
    """The least keys one after another."""
    dims, element = tiny.tensor_of(keys).dims, tiny.tensor_of(keys).element_type
    shape = tuple(Dim.const(count) if i == axis else d for i, d in enumerate(dims))
    most = build.splat(bounds(element)[1], dims, element)
    place = build.expand(build.add(tiny.IotaOp(Dim.const(count), i32)), (axis,), shape)
    left = keys
    found: SSAValue | None = None
    for number in range(count):
        least = build.reduce("min", left, (axis,))
        above = build.compare("gt", keys, build.repeat(least, (axis,), dims))
        left = build.select(above, keys, most)
        here = build.repeat(least, (axis,), shape)
        if found is not None:
            one = build.compare("eq", place, build.splat(number, shape, i32))
            here = build.select(one, here, found)
        found = here
    assert found is not None
    return found


# Scans of 64 bits -------------------------------------------------------------------------


def scan_parts(value: SSAValue, fn: str, axis: int) -> int | None:
    """Into how many parts a scan cuts its axis, or None: only one whose numbers blocks do not tell
    each other, as they have 64 bits, of few lines and long ones."""
    element, sizes = tiny.tensor_of(value).element_type, known_sizes(value)
    if accumulation(fn, element) in (f32, i32) or sizes is None:
        return None
    size = sizes[axis]
    lines = prod(sizes) // size
    few, least, most = FEW_LINES, LEAST_PART, AT_ONCE
    if axis < len(sizes) - 1:
        few, least, most = SIDE_BY_SIDE, SHORT_PART, AT_ONCE * THREADS
    if lines > few or size < WORTH * least:
        return None
    return parts_near(size, max(WORTH, min(size // least, most // lines)))


def scanned(
    build: Builder, value: SSAValue, fn: str, axis: int, reverse: bool, exclusive: bool
) -> SSAValue:
    """A scan, in parts where ``scan_parts`` has some."""
    if (parts := scan_parts(value, fn, axis)) is not None:
        return _scan_in_parts(build, value, fn, axis, parts, reverse, exclusive)
    return build.add(tiny.ScanOp(fn, value, axis, reverse=reverse, exclusive=exclusive))


def _scan_in_parts(
    build: Builder, value: SSAValue, fn: str, axis: int, parts: int, reverse: bool, exclusive: bool
) -> SSAValue:
    """A scan of each part, which goes on from what those before it come to: a scan of these, in
    parts again where they are many."""
    size = tiny.tensor_of(value).dims[axis].constant()
    assert size is not None
    element = tiny.tensor_of(value).element_type
    pieces = cut(build, value, axis, parts, _nothing(fn, element))
    whole = build.reduce(fn, pieces, (axis + 1,))
    before = scanned(build, whole, fn, axis, reverse, exclusive=True)
    own = build.add(tiny.ScanOp(fn, pieces, axis + 1, reverse=reverse, exclusive=exclusive))
    before = build.repeat(before, (axis + 1,), tiny.tensor_of(own).dims)
    return joined(build, build.binary(COMBINED[fn], before, own), axis, size)


def _nothing(fn: str, element: Attribute) -> int:
    """What changes nothing."""
    least, most = bounds(element)
    return {"sum": 0, "prod": 1, "max": least, "min": most}[fn]
