"""``frontend-to-tiny``: convolutions by few filters, as sums of what each tap gives.

Filters that are fewer than rows of a tile leave most of it empty, and windows take each pixel once
for every tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
)

from polyc.cost.tensor_cores import few_products
from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.signature import graph_of
from polyc.lowering.frontend_to_tiny.builder import Builder, known_sizes
from polyc.lowering.frontend_to_tiny.convolution_parts import GROUP, TILE, Convolution

MOST_APART = 64
"""Filters times taps, up to which each tap of few filters is a filter of its own: a tile's rows."""

F32_BYTES, OPERAND_BYTES = 4, 2


def is_of_few_products(conv: Convolution, w: SSAValue) -> bool:
    """Whether filters are fewer than rows of a tile, what a pixel takes of them is little, and it
    has its neighbours beside it in memory, so that threads have vectors of them."""
    sizes = known_sizes(w)
    if sizes is None or conv.groups.constant() != 1 or not conv.first:
        return False
    filters, *depth = sizes
    return depth[-1] < GROUP and few_products(filters, prod(depth))


def tap_by_tap(conv: Convolution, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue | None:
    """The convolution of an image by few filters, as a sum of those of each tap.

    A filter [F, R, S, C] is R S F filters of one tap, whose products with the image [N, H, W, C]
    are stored in f32: each pixel is read once, where windows take it R S times, and few filters
    leave most of a tile empty.  A pixel of the result is the sum of R S of them; outside of the
    image it is that of 0 times the tap, which is NaN of an infinite one and 0 of others.
    Reassociating: the channels of a tap are summed first.  None where that moves more than half of
    what windows take, where windows lie apart, in groups, and where sizes are not known.
    """
    n, height, width, c = tiny.tensor_of(x).dims
    sizes = known_sizes(w)
    if known_sizes(x) is None or sizes is None or conv.groups.constant() != 1:
        return None
    filters, down, across, channels = sizes
    taps = down * across
    many = filters * taps
    plain = set(conv.stride) == {1} and conv.alone and not conv.apart and conv.element != f32
    if not plain or taps == 1 or many > MOST_APART or channels % TILE:
        return None
    if conv.first and few_products(filters, taps * channels):
        return None
    once = channels * OPERAND_BYTES
    if 2 * (once + 2 * many * F32_BYTES) > once * taps:
        return None
    x = build.rounded(x, conv.element)
    filter = build.rounded(w, conv.element)
    w = build.reshape(filter, (Dim.const(many), c))
    kept = (n, Dim.const(many), height, width)
    left, right = build.expand(x, (0, 2, 3, 4), (*kept, c)), build.expand(w, (1, 4), (*kept, c))
    made = build.contract(left, right, (4,), conv.precision)
    low, high, first = [0] * 4, [0] * 4, [Dim.const(0)] * 4
    low[2:], high[2:] = conv.padding[::2], conv.padding[1::2]
    shape = conv.shape if conv.first else tuple(conv.shape[axis] for axis in (0, 3, 1, 2))
    if any(conv.padding):
        made = build.add(tiny.PadOp(made, low, high, 0.0))
    total: SSAValue | None = None
    for tap in range(taps):
        start, end = list(first), list(shape)
        places = (tap // across * conv.dilation[0], tap % across * conv.dilation[1])
        for axis, place in zip((2, 3), places, strict=True):
            start[axis], end[axis] = Dim.const(place), shape[axis] + place
        start[1], end[1] = Dim.const(tap), Dim.const(many)
        part = build.add(tiny.SliceOp(made, start, end, [1, taps, 1, 1]))
        total = part if total is None else build.binary("add", total, part)
    assert total is not None  # of a filter of no taps there is none
    for axis in (2, 3):
        if (beside := _beside_image(conv, build, filter, axis, (height, width), shape)) is not None:
            total = build.binary("add", total, build.expand(beside, (1, axis), shape))
    return total if conv.first else build.permute(total, (0, 2, 3, 1))


def _beside_image(
    conv: Convolution,
    build: Builder,
    filter: SSAValue,
    axis: int,
    image: Sequence[Dim],
    shape: Shape,
) -> SSAValue | None:
    """What the taps of a filter [F, R, S, C] that lie above or below the image, or left or right of
    it, give to the pixels of a result [N, F, P, Q]: [F, P] or [F, Q] along ``axis``.

    That is the sum of 0 times each number of a row or column of taps.  None where none is outside.
    """
    side = axis - 2
    f, *taps, _ = tiny.tensor_of(filter).dims
    before, dilation = conv.padding[2 * side], conv.dilation[side]
    count, wide = taps[side].constant() or 0, image[side].constant() or 0
    last = (shape[axis].constant() or 0) - 1
    rows: list[tuple[int, AffineExpr]] = []
    for tap in range(count):
        first = tap * dilation - before
        pixel = AffineDimExpr(1)
        rows += [(tap, -pixel - (first + 1))] if first < 0 else []
        rows += [(tap, pixel + (first - wide))] if first + last >= wide else []
    if not rows:
        return None
    zeros = build.binary("mul", filter, build.splat(0.0, tiny.tensor_of(filter).dims))
    each = build.add(tiny.ReduceOp("sum", zeros, (2 - side, 3)))
    graph = graph_of(conv.at)
    symbols = 0 if graph is None else len(graph.symbol_names)
    total: SSAValue | None = None
    for tap, outside in rows:
        start, end = [Dim.const(0), Dim.const(tap)], [f, Dim.const(tap + 1)]
        one = build.reshape(build.add(tiny.SliceOp(each, start, end, [1, 1])), (f,))
        row = AffineConstraintExpr(AffineConstraintKind.ge, outside, AffineExpr.constant(0))
        along = build.expand(one, (0,), (f, shape[axis]))
        part = build.mask(along, AffineSet(2, symbols, (row,)), 0.0)
        total = part if total is None else build.binary("add", total, part)
    return total
