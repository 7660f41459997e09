"""Convolutions whose sums run over the points of whole windows, as those of few channels do (S4.9).

An image ``[N, C, H, W]`` of few planes is read at ``[n, k floordiv (R S), p·stride + …, q·stride +
…]``: point k of a window is tap ``k mod (R S)`` of plane ``k floordiv (R S)``.  So one axis is the
depth of the product, where channels alone would leave most of a step of tensor cores empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from polyc.affine.expressions import Floor, Linear, NotAffine, linear_of
from polyc.dialects.common.dim import Dim, shape_text
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.region import KernelOp, ReadOp
from polyc.dialects.region.types import MemRefType
from polyc.families.conv.refusal import WAY_OUT, refused
from polyc.poly.pieces import guard_of, is_within_bounds
from polyc.rewriting.region.products import (
    Factor,
    Product,
    axis_size,
    find_product,
    unsupported,
)

VECTOR = 8
"""Points of 16 bytes, which rows of the filter are multiples of."""

MAX_PADDING = 127
"""The most zeros at the end of a row or column of an image."""


@dataclass(frozen=True)
class WholeWindows:
    """A product of windows of an image's planes and a filter: ``axes`` are image, row and column of
    the output, and ``points`` the axis of its sum."""

    product: Product
    image: Factor
    filter: Factor
    geometry: Im2colAttr
    axes: tuple[str, str, str]
    filters: str
    points: str


def whole_windows(kernel: KernelOp) -> ReadOp | None:
    """The read of an image's planes in whole windows, whose points are one axis; None for none."""
    for op in kernel.body.block.ops if len(kernel.iters.data) == 4 else ():
        if isinstance(op, ReadOp) and len(op.map.data.results) == 4:
            try:
                places = [linear_of(e) for e in op.map.data.results[1:]]
            except NotAffine:
                continue
            labels, kept = op.result.type.labels, {axis.label for axis in kernel.iters}
            atoms = (atom for place in places for atom, _ in place.terms)
            parts = [atom.num.terms for atom in atoms if isinstance(atom, Floor)]
            axes = {of[1] for terms in parts for of, _ in terms if not isinstance(of, Floor)}
            # Groups are parts of the filters' axis, and no sum goes along that.
            if axes and kept.isdisjoint(labels[axis] for axis in axes):
                return op
    return None


def taken_whole(kernel: KernelOp, read: ReadOp) -> WholeWindows:
    """The product of such a read.

    The image has known sizes; the filter is ``[F, K]``, with zeros behind the points that there
    are, or ``[F, C, R, S]``, and the output ``[N, F, P, Q]``.  Raises PolycError
    ``UnsupportedProgram`` with the reason and the way out.
    """
    images, filters, *pixels = (axis.label for axis in kernel.iters)
    labels = list(read.result.type.labels)
    points = next((a for a in labels if a not in (images, *pixels)), "")
    walked = (*([images] if images in labels else []), points, *pixels)
    # One image may be read without its number.
    first, alone = read.map.data.results[0], kernel.outs.data[0].shape[0] == Dim.const(1)
    at_image = first == AffineDimExpr(labels.index(images)) if images in labels else alone
    if sorted(labels) != sorted(walked) or not at_image:
        raise unsupported(kernel, "its windows are not those of its pixels", WAY_OUT, read)
    accesses: dict[ReadOp, AffineMap] = {}
    for op in kernel.body.block.ops:
        for axes in (walked, (filters, points)):
            if isinstance(op, ReadOp) and sorted(op.result.type.labels) == sorted(axes):
                plain = [AffineDimExpr(op.result.type.labels.index(a)) for a in axes]
                accesses[op] = AffineMap(len(axes), op.map.data.num_symbols, tuple(plain))
    product = find_product(kernel, accesses=accesses)
    sides = (product.lhs, product.rhs)
    image, filter = sides if product.lhs.read is read else sides[::-1]
    if image.read is not read or product.reduce.labels != (points,):
        raise refused(product, "its windows are no factor of its sum", read)
    geometry = _geometry(product, read, points, pixels)
    if read.fill is not None and read.fill.value.data != 0.0:
        why = f"outside of the image it reads {read.fill.value.data}, and loaders fill in zeros"
        raise refused(product, why, read)
    count = axis_size(product.reduce, points).constant() or 1
    own = filter.read
    if own.guard is not None or count % VECTOR or not _is_in_order(own, filters, points, count):
        shape = shape_text(cast("MemRefType", own.tensor.type).shape)
        why = f"its filter {filter.name} of {shape} is not read as [filter, point], in vectors"
        raise refused(product, why, own)
    return WholeWindows(
        product, image, filter, geometry, (images, pixels[0], pixels[1]), filters, points
    )


def _is_in_order(read: ReadOp, filters: str, points: str, count: int) -> bool:
    """Whether a filter's points follow each other in memory, filter by filter, as one axis or as
    channels and taps."""
    labels, shape = read.result.type.labels, cast("MemRefType", read.tensor.type).shape
    if filters not in labels or points not in labels:
        return False
    if read.map.data.results[0] != AffineDimExpr(labels.index(filters)):
        return False
    sizes = [size.constant() or 0 for size in shape[1:]]
    for k in range(count):
        at = 0
        for one, size in zip(_place(read, labels.index(points), k), sizes, strict=True):
            at = at * size + one.constant
            if one.terms:
                return False
        if at != k:
            return False
    last = _place(read, labels.index(points), count - 1)
    return [one.constant for one in last] == [size - 1 for size in sizes]


def _geometry(product: Product, read: ReadOp, points: str, pixels: Sequence[str]) -> Im2colAttr:
    """Taps, strides, padding and dilation of the windows."""
    labels, shape = read.result.type.labels, cast("MemRefType", read.tensor.type).shape
    at, count = labels.index(points), axis_size(product.reduce, points).constant()
    why = f"it reads {read.tensor.name_hint} at {read.map.data}, not in whole windows of its planes"
    out = [axis_size(product.reduce, label).constant() for label in pixels]
    known = [size.constant() for size in (*shape, *[Dim.const(o or 0) for o in out])]
    if count is None or None in known or 0 in known:
        raise refused(product, why, read)
    _, planes, *extents, _, _ = (size or 0 for size in known)
    table = [_place(read, at, k) for k in range(count) if not _is_behind(read, at, k)]
    inside = [place for place in table if place[0].constant < planes]
    each = len(inside) // planes
    if not each or any(place[0].terms for place in inside):
        raise refused(product, why, read)
    first = [place.constant for place in inside[0]]
    again = (k for k in range(1, each) if inside[k][2].constant == first[2])
    across = next(again, each)
    taps = (each // across, across)
    dilations = [
        inside[step][side].constant - first[side] if many > 1 else 1
        for side, step, many in ((1, across, taps[0]), (2, 1, across))
    ]
    strides = [
        dict(inside[0][side].terms).get(("d", labels.index(label)), 0)
        for side, label in zip((1, 2), pixels, strict=True)
    ]
    before = [-first[1], -first[2]]
    if min(strides) < 1 or min(dilations) < 1 or min(before) < 0:
        raise refused(product, why, read)
    for k, place in enumerate(inside):
        tap = (k % each // across, k % across)
        wanted = [t * d - b for t, d, b in zip(tap, dilations, before, strict=True)]
        moves = [one.terms for one in place[1:]]
        same = moves == [one.terms for one in inside[0][1:]] and max(map(len, moves)) < 2
        if [one.constant for one in place] != [k // each, *wanted] or not same:
            raise refused(product, why, read)
    after: list[int] = []
    for side, made in enumerate(known[-2:]):
        reach = (taps[side] - 1) * dilations[side] + 1
        room = extents[side] + before[side] - reach
        after.append(max(0, ((made or 0) - 1) * strides[side] - room))
        if (room + after[side]) // strides[side] + 1 != made or after[side] > MAX_PADDING:
            raise refused(product, why, read)
    facts, symbols = product.kernel.assumptions, product.kernel.symbol_names
    ends = (at, len(inside))
    if not is_within_bounds(read, (1, 2, 3), guard_of(read), facts, symbols, ends):
        raise refused(product, "the guard of its windows is not what lies in the image", read)
    return Im2colAttr.of(taps, strides, before, dilations, after)


def _is_behind(read: ReadOp, at: int, point: int) -> bool:
    """Whether a read's guard never holds at a point, whatever its other axes are."""
    rows = () if read.guard is None else read.guard.data.constraints
    for row in rows:
        left, right = (linear_of(_moved(side, read, at, point)) for side in (row.lhs, row.rhs))
        apart = left.plus(right.times(-1))
        if not apart.terms and apart.constant < 0:
            return True
    return False


def _place(read: ReadOp, at: int, point: int) -> list[Linear]:
    """Where a read is, in all dimensions but the first, at a point of axis ``at``."""
    return [linear_of(_moved(e, read, at, point)) for e in read.map.data.results[1:]]


def _moved(expr: AffineExpr, read: ReadOp, at: int, point: int) -> AffineExpr:
    """An expression of a read's axes at a point of one of them."""
    count = read.map.data.num_dims
    dims: list[AffineExpr] = [AffineDimExpr(i) for i in range(count)]
    dims[at] = AffineConstantExpr(point)
    return expr.replace_dims_and_symbols(dims, [])
